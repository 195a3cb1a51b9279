"""A detectable change is one that is then seen in four of five windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows
from monitor.inference.change import Side
from tests.fakes.one_table import (
    ece_increase_detectable,
    ece_increase_p,
    ece_level_detectable,
    ece_level_p,
    mce_increase_detectable,
    mce_increase_p,
    mce_level_detectable,
    mce_level_p,
    table,
)

RATE = 0.01
SCORE = np.array([0.2, 0.35, 0.5, 0.65, 0.8])


def of_scores(rows: int, rate: np.ndarray) -> BinCounts:
    return table(np.full(5, rows), SCORE, rate)


def increase_power(
    test: Callable[[BinCounts, BinCounts], float], rate0: np.ndarray, rate1: np.ndarray, repeats: int = 200
) -> float:
    """How often an increase from 4,000 to 400 rows a bin is seen, both windows drawn."""
    rng = np.random.default_rng(12)
    p = [
        test(of_scores(400, rng.binomial(400, rate1) / 400), of_scores(4000, rng.binomial(4000, rate0) / 4000))
        for _ in range(repeats)
    ]
    return np.mean(np.array(p) <= RATE)


def power(test: Callable[[BinCounts], float | None], rows: int, rate: np.ndarray, repeats: int = 300) -> float:
    """How often ``test`` gives p <= RATE for windows drawn with these hit rates."""
    rng = np.random.default_rng(11)
    p = [test(of_scores(rows, rng.binomial(rows, rate) / rows)) for _ in range(repeats)]
    return np.mean([value is not None and value <= RATE for value in p])


def test_a_detectable_rise_of_ece_is_seen_in_four_of_five_windows():
    gaps = np.array([0.03, -0.03, 0.03, -0.03, 0.03])
    baseline, window = of_scores(4000, SCORE + gaps), of_scores(400, SCORE + gaps)
    rise = ece_increase_detectable(window, baseline, rate=RATE)
    risen = SCORE + gaps + np.sign(gaps) * rise
    assert increase_power(ece_increase_p, SCORE + gaps, risen) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(("rows", "side", "sign"), [(200, "above", 1), (2000, "above", 1), (1000, "below", -1)])
def test_a_detectable_distance_from_a_level_of_ece_is_seen_in_four_of_five_windows(rows: int, side: Side, sign: int):
    distance = ece_level_detectable(of_scores(rows, SCORE + 0.08), 0.08, rate=RATE, side=side)
    seen = power(lambda drawn: ece_level_p(drawn, 0.08, side=side), rows, SCORE + 0.08 + sign * distance)
    assert seen == pytest.approx(0.8, abs=0.1)


def test_a_detectable_rise_of_mce_in_one_bin_is_seen_in_four_of_five_windows():
    baseline, window = of_scores(4000, SCORE), of_scores(400, SCORE)
    rise = mce_increase_detectable(window, baseline, rate=RATE)
    assert rise is not None
    risen = SCORE.copy()
    risen[1] += rise
    assert increase_power(mce_increase_p, SCORE, risen) == pytest.approx(0.8, abs=0.1)


def test_a_detectable_distance_from_a_level_of_mce_is_seen_in_four_of_five_windows():
    above = mce_level_detectable(of_scores(500, SCORE), 0.1, rate=RATE)
    bad = SCORE.copy()
    bad[1] += 0.1 + above
    assert power(lambda drawn: mce_level_p(drawn, 0.1), 500, bad) == pytest.approx(0.8, abs=0.1)
    below = mce_level_detectable(of_scores(2000, SCORE), 0.1, rate=RATE, side="below")
    good = SCORE + 0.1 - below
    assert power(lambda drawn: mce_level_p(drawn, 0.1, side="below"), 2000, good) == pytest.approx(0.8, abs=0.1)


def detectables(rows: int) -> list[float | None]:
    window, baseline = of_scores(rows, SCORE), of_scores(20_000, SCORE)
    return [
        ece_increase_detectable(window, baseline, rate=RATE),
        mce_increase_detectable(window, baseline, rate=RATE),
        ece_level_detectable(window, 0.1, rate=RATE),
        mce_level_detectable(window, 0.2, rate=RATE),
    ]


def test_more_rows_reveal_smaller_changes():
    few, many = detectables(200), detectables(5000)
    assert all(f is not None and m is not None and m < f / 2 for f, m in zip(few, many, strict=True))


def test_where_nothing_could_be_seen_the_answer_is_none():
    assert detectables(0) == [None] * 4
    # one row of .5: whatever comes of it is no surprise (of five rows as above .65 could be seen, .2 x .35 x ... < .01)
    one, many = (bin_counts(counts_from_rows([0.5] * k, [0.5] * k), (10_000,)) for k in (1, 10_000))
    assert ece_increase_detectable(one, many, rate=RATE) is None
    assert mce_increase_detectable(one, many, rate=RATE) is None
    assert ece_level_detectable(one, 0.1, rate=RATE) is None
    assert mce_level_detectable(one, 0.2, rate=RATE) is None


def test_a_level_beyond_the_reach_of_the_scores_can_not_be_exceeded_by_any_change():
    sure = table([1000], [0.5], [0.5])
    assert ece_level_detectable(sure, 0.6, rate=RATE) is None
    assert mce_level_detectable(sure, 0.6, rate=RATE) is None


# --- labels that are nearly always right, or nearly never true: a gap has no room in its own direction


def all_hits(rows: int, low: float, high: float, *, hits: bool = True) -> BinCounts:
    """Scores from ``low`` to ``high`` in five bins, all with hits or all without."""
    return table(np.full(5, rows // 5), np.linspace(low, high, 5), float(hits))


def drawn_power(test: Callable[[BinCounts], float], window: BinCounts, rate: np.ndarray) -> float:
    """How often ``test`` gives p <= RATE for windows with these hit rates, drawn."""
    rng, n = np.random.default_rng(13), window.n
    drawn = (replace(window, wy=rng.binomial(n, rate).astype(float)) for _ in range(400))
    return np.mean([test(bins) <= RATE for bins in drawn])


def test_at_a_wall_an_ece_is_seen_in_four_of_five_windows_in_the_other_direction():
    window, baseline = all_hits(1_000, 0.95, 0.99), all_hits(20_000, 0.95, 0.99)
    level = ece_level_detectable(window, 0.05, rate=RATE)
    rise = ece_increase_detectable(window, baseline, rate=RATE)
    seen = drawn_power(lambda bins: ece_level_p(bins, 0.05), window, window.score - 0.05 - level)
    assert 0.72 <= seen <= 0.88
    calm = (baseline.w * (1 - baseline.score)).sum() / baseline.w.sum()
    seen = drawn_power(lambda bins: ece_increase_p(bins, baseline), window, window.score - calm - rise)
    assert 0.65 <= seen <= 0.88, "a little less: the p-value also tries the baseline's upper limit, this its point only"


def test_three_rows_at_a_wall_show_only_what_is_far_away():
    few = bin_counts(counts_from_rows([0.95] * 3, [1] * 3), (10_000,))
    found = [ece_level_detectable(few, 0.05, rate=RATE), mce_level_detectable(few, 0.2, rate=RATE)]
    assert all(each is None or each > 0.5 for each in found)
