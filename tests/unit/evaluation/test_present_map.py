"""Estimates before the truth are made by the map of the newest judged windows once these refute the baseline's."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import ROLLING
from monitor.core.counts import Bools, Counts, Floats, counts_from_rows
from monitor.core.maturity import Maturity
from monitor.core.records import Estimate, Subject
from monitor.core.unresolved import UnresolvedRows, score_counts
from monitor.evaluation.before_truth import estimates_before_truth
from monitor.evaluation.data import SourceData, WholeSource, WindowCounts
from monitor.evaluation.evaluate import present_maps
from monitor.report.words import before_truth_words as sentence
from tests.fakes.judged import MONDAY, pinned, window

EVALUATION = EvaluationConfig(resamples=100)


def drawn(n: int, seed: int, fall: float = 0.0) -> tuple[Floats, Bools]:
    """Scores, and outcomes that come true ``fall`` less often than scores from .8 say."""
    rng = np.random.default_rng(seed)
    score = rng.beta(1.2, 1.2, n).round(3)
    return score, rng.random(n) < score - fall * (score >= 0.8)


def counts(n: int, seed: int, fall: float = 0.0) -> Counts:
    score, hit = drawn(n, seed, fall)
    return counts_from_rows(score, hit, automate_at=0.8)


def waiting(n: int = 2_000) -> Counts:
    cell, number = np.unique((drawn(n, 99)[0] * 10_000).round().astype(int), return_counts=True)
    acts = {"predicted": cell >= 5_000, "automated": cell >= 8_000}
    return score_counts(
        {
            "cell": cell,
            **{name: given.astype(int) for name, given in acts.items()},
            "n": number,
            "s": number * cell / 1e4,
        }
    )


def data(*falls: float, young: bool = False) -> SourceData:
    base = pinned(counts(20_000, 1), "a", version=3)
    rows = UnresolvedRows("t", window(), MONDAY, {"a": waiting()}, {}, {})
    maturity = {"a": Maturity(Subject("t", "a"), window(), 2_000, 400)} if young else {}
    parts = [WindowCounts(window(back), {"a": counts(2_000, 10 + back, fall)}) for back, fall in enumerate(falls)]
    current = WindowCounts(window(), parts[0].labels, whole=WholeSource(unresolved=rows), maturity=maturity)
    return SourceData("t", current, tuple(parts[1:]), baselines={"a": base})


def expected(known: SourceData) -> Estimate:
    rows, maps = known.current.whole.unresolved, present_maps(known, EVALUATION)
    found = estimates_before_truth("t", rows, known.baselines, EVALUATION, maps)
    return next(e for e in found if (e.subject.label, e.metric, e.where) == ("a", "expected_accuracy", "automated"))


def truth(fall: float) -> float:
    score = drawn(400_000, 5)[0]
    return (score[score >= 0.8] - fall).mean()


def test_while_scores_mean_what_they_did_the_map_is_the_baseline_s():
    found = expected(data(0.0, 0.0, 0.0))
    assert found.detail["map"] == 3
    assert "refuted" not in found.detail
    assert found.interval.low < truth(0.0) < found.interval.high


@pytest.mark.parametrize("falls", [(0.15, 0.0, 0.0), (0.15, 0.15, 0.15)])
def test_once_the_newest_windows_refute_it_the_map_is_theirs(falls: tuple[float, ...]):
    found = expected(data(*falls))
    assert (found.detail["map"], found.detail["refuted"], found.detail["map_of"]) == (ROLLING, True, "week-0..week-0")
    assert found.interval.low < truth(0.15) < found.interval.high
    assert found.interval.high < truth(0.0)
    assert sentence([found]) == ""


def test_a_young_window_refutes_nothing():
    assert expected(data(0.15, 0.0, 0.0, young=True)).detail["map"] == 3
