"""A detectable change is one that is then seen in four of five windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from monitor.counts import BinCounts
from monitor.inference.change import ece_increase, ece_level_p, mce_increase, mce_level_p
from monitor.inference.detectability import (
    ece_increase_detectable,
    ece_level_detectable,
    mce_increase_detectable,
    mce_level_detectable,
)
from monitor.inference.records import IncreaseTest

RATE = 0.01
SCORE = np.array([0.2, 0.35, 0.5, 0.65, 0.8])
UPPER = np.arange(2000, 10_001, 2000)


def table(rows: int, rate: np.ndarray) -> BinCounts:
    n = np.full(5, rows)
    w = n.astype(float)
    return BinCounts(UPPER, n, w, w * SCORE, w * rate, w)


def increase_power(
    test: Callable[[BinCounts, BinCounts], IncreaseTest], rate0: np.ndarray, rate1: np.ndarray, repeats: int = 200
) -> float:
    """How often an increase from 4,000 to 400 rows a bin is seen, both windows drawn."""
    rng = np.random.default_rng(12)
    p = [
        test(table(400, rng.binomial(400, rate1) / 400), table(4000, rng.binomial(4000, rate0) / 4000)).p_value
        for _ in range(repeats)
    ]
    return float(np.mean([value is not None and value <= RATE for value in p]))


def power(test: Callable[[BinCounts], float | None], rows: int, rate: np.ndarray, repeats: int = 300) -> float:
    """How often ``test`` gives p <= RATE for windows drawn with these hit rates."""
    rng = np.random.default_rng(11)
    p = [test(table(rows, rng.binomial(rows, rate) / rows)) for _ in range(repeats)]
    return float(np.mean([value is not None and value <= RATE for value in p]))


def test_a_detectable_rise_of_ece_is_seen_in_four_of_five_windows() -> None:
    gaps = np.array([0.03, -0.03, 0.03, -0.03, 0.03])
    baseline, window = table(4000, SCORE + gaps), table(400, SCORE + gaps)
    rise = ece_increase_detectable(window, baseline, rate=RATE)
    assert rise is not None
    risen = SCORE + gaps + np.sign(gaps) * rise
    assert increase_power(ece_increase, SCORE + gaps, risen) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("rows", [200, 2000])
def test_a_detectable_distance_above_a_level_of_ece_is_seen_in_four_of_five_windows(rows: int) -> None:
    distance = ece_level_detectable(table(rows, SCORE + 0.08), 0.08, rate=RATE)
    assert distance is not None
    seen = power(lambda drawn: ece_level_p(drawn, 0.08), rows, SCORE + 0.08 + distance)
    assert seen == pytest.approx(0.8, abs=0.1)


def test_a_detectable_distance_below_a_level_of_ece_is_seen_in_four_of_five_windows() -> None:
    distance = ece_level_detectable(table(1000, SCORE + 0.08), 0.08, rate=RATE, side="below")
    assert distance is not None
    seen = power(lambda drawn: ece_level_p(drawn, 0.08, side="below"), 1000, SCORE + 0.08 - distance)
    assert seen == pytest.approx(0.8, abs=0.1)


def test_a_detectable_rise_of_mce_in_one_bin_is_seen_in_four_of_five_windows() -> None:
    baseline, window = table(4000, SCORE), table(400, SCORE)
    rise = mce_increase_detectable(window, baseline, rate=RATE)
    assert rise is not None
    risen = SCORE.copy()
    risen[1] += rise
    assert increase_power(mce_increase, SCORE, risen) == pytest.approx(0.8, abs=0.1)


def test_a_detectable_distance_from_a_level_of_mce_is_seen_in_four_of_five_windows() -> None:
    above = mce_level_detectable(table(500, SCORE), 0.1, rate=RATE)
    assert above is not None
    bad = SCORE.copy()
    bad[1] += 0.1 + above
    assert power(lambda drawn: mce_level_p(drawn, 0.1), 500, bad) == pytest.approx(0.8, abs=0.1)
    below = mce_level_detectable(table(2000, SCORE), 0.1, rate=RATE, side="below")
    assert below is not None
    good = SCORE + 0.1 - below
    assert power(lambda drawn: mce_level_p(drawn, 0.1, side="below"), 2000, good) == pytest.approx(0.8, abs=0.1)


def detectables(rows: int) -> list[float | None]:
    window, baseline = table(rows, SCORE), table(20_000, SCORE)
    return [
        ece_increase_detectable(window, baseline, rate=RATE),
        mce_increase_detectable(window, baseline, rate=RATE),
        ece_level_detectable(window, 0.1, rate=RATE),
        mce_level_detectable(window, 0.2, rate=RATE),
    ]


def test_more_rows_reveal_smaller_changes() -> None:
    few, many = detectables(200), detectables(5000)
    assert all(f is not None and m is not None and m < f / 2 for f, m in zip(few, many, strict=True))


def test_where_nothing_could_be_seen_the_answer_is_none() -> None:
    assert detectables(0) == [None] * 4
    assert detectables(1) == [None] * 4


def test_a_level_beyond_the_reach_of_the_scores_can_not_be_exceeded_by_any_change() -> None:
    n = np.array([1000])
    w = n.astype(float)
    sure = BinCounts(np.array([10_000]), n, w, w * 0.5, w * 0.5, w)
    assert ece_level_detectable(sure, 0.6, rate=RATE) is None
    assert mce_level_detectable(sure, 0.6, rate=RATE) is None
