"""What is left beyond the cells, completed: as sums of whole numbers of any size."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from monitor.warehouse import near_sums
from monitor.warehouse.near_sums import completed

UNIT = 2**40
OF_SCORE, OF_SQUARE = 109951163, 10995


def test_rests_and_cells_add_up_exactly_for_few_rows_and_for_billions() -> None:
    rng = np.random.default_rng(3)
    cells, n = np.array([0, 1, 7000, 9999, 10_000, 5]), np.array([1, 9, 2**21, 2**22, 2**31, 40])
    hits = np.array([0, 4, 2**20, 2**22, 2**30, 40])
    rest = {name: rng.integers(-(2**26), 2**26, 6) * np.minimum(n, 2**20) for name in ("ws", "ws2", "wsy")}
    keys = np.array([*(int(cell) * 4 + 3 for cell in cells[:5]), None], dtype=object)  # a count of a version
    groups = {f"{name}_rest": values.astype(np.float64) for name, values in rest.items()}
    found = completed({"key": keys, "n": n, "wy": hits, **groups})
    of_spark = completed(
        {"key": keys.astype(np.float64), "n": n, "wy": hits} | {f"{k}_rest": v for k, v in rest.items()}
    )
    assert all(np.array_equal(found[name], of_spark[name]) for name in ("ws", "ws2", "wsy"))
    assert set(found) == {"key", "n", "wy", "ws", "ws2", "wsy"}
    for place, cell in enumerate([*cells[:5].tolist(), 0]):
        for name, count, each in (
            ("ws", n, OF_SCORE * cell),
            ("ws2", n, OF_SQUARE * cell**2),
            ("wsy", hits, OF_SCORE * cell),
        ):
            whole = int(rest[name][place]) + int(count[place]) * each
            assert Fraction(float(found[name][place])) == Fraction(float(whole)) / UNIT, (name, place)


def test_a_rest_has_27_bits_so_that_a_double_holds_millions() -> None:
    scores = [
        0.0,
        0.00005,
        0.7,
        0.70004999999,
        0.99995,
        math.nextafter(1, 0),
        1.0,
        *np.random.default_rng(4).random(2000),
    ]
    assert (near_sums._OF_SCORE, near_sums._OF_SQUARE) == (OF_SCORE, OF_SQUARE)
    for score in scores:
        cell = math.floor(score * 10_000 + 0.5)
        assert abs(math.floor(score * UNIT + 0.5) - cell * OF_SCORE) < 2**27
        assert abs(math.floor(score * score * UNIT + 0.5) - cell**2 * OF_SQUARE) < 2**27


def test_counts_may_be_doubles_as_answers_of_one_statement_are() -> None:
    rng = np.random.default_rng(5)
    keys, n = rng.integers(0, 40_000, 1_000), rng.integers(100_000, 2**22 - 1, 1_000)
    rests = {f"{name}_rest": rng.integers(-(2**40), 2**40, 1_000).astype(np.float64) for name in ("ws", "ws2", "wsy")}
    ours = completed({"key": keys.astype(float), "n": n.astype(float), "wy": n.astype(float), **rests})
    theirs = completed({"key": keys, "n": n, "wy": n, **rests})
    assert all(np.array_equal(ours[name], theirs[name]) for name in ("ws", "ws2", "wsy"))


def test_groups_without_rests_stay_as_they_are() -> None:
    groups = {"key": np.array([3]), "n": np.array([1]), "ws": np.array([0.5])}
    assert completed(groups) is groups
