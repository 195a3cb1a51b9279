"""Rules that compare with the weeks before: a step is found once, a slope is not, and all that is said is true."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import Reason, Verdict
from monitor.core.wording import plain_words
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.report.explanation import explain
from tests.fakes.judged import config, pinned, window

STEP = Rule(id="step", metric="ece", condition="increase", threshold=0.03, reference="previous_weeks")
PINNED = STEP.model_copy(update={"id": "pinned", "reference": "baseline"})
MOVED = Rule(id="moved", test="wasserstein", column="score", threshold=0.1, reference="previous_weeks")
CONFIG = config(STEP, evaluation=EvaluationConfig(resamples=200))


def rows(n: int, over: float, seed: int, low: float = 0.05) -> Counts:
    rng = np.random.default_rng(seed)
    score = rng.choice(np.arange(low, 1, 0.1).round(2), n)
    return counts_from_rows(score, rng.random(n) < np.clip(score - over, 0, 1))


def source(*over: float, now: Counts | None = None) -> SourceData:
    """A label of 3,000 rows a week, the newest week first, so overconfident; and its baseline of half a year ago."""
    parts = [rows(3_000, each, 50 + place) for place, each in enumerate(over)]
    parts[0] = now or parts[0]
    current, *earlier = (WindowCounts(window(back), {"billing": each}) for back, each in enumerate(parts))
    return SourceData("tickets", current, tuple(earlier), baselines={"billing": pinned(rows(24_000, 0.0, 1))})


def judged(rule: Rule, data: SourceData) -> Verdict:
    (found,) = verdicts_of(rule, data, CONFIG, ())
    return found


def test_a_step_is_found_against_the_weeks_before_and_only_in_its_first_week():
    found = judged(STEP, source(0.1, 0.0, 0.0, 0.0, 0.0))
    assert (found.outcome, found.reason, found.windows) == ("breach", Reason.INCREASED, 1)
    assert found.detail["reference"] == {"weeks": 4, "first": "week-4", "last": "week-1", "rows": 12_000}
    assert found.baseline_version is None
    assert judged(STEP, source(0.1, 0.1, 0.1, 0.1, 0.1)).outcome == "ok"


def test_a_slope_is_found_against_the_baseline_and_not_against_the_weeks_before():
    slope = source(0.1, 0.095, 0.09, 0.085, 0.08)
    assert judged(STEP, slope).outcome == "ok"
    assert judged(PINNED, slope).outcome == "breach"


def test_without_rows_before_there_is_nothing_to_compare_with():
    data = source(0.1)
    found = judged(STEP, data)
    assert (found.outcome, found.reason) == ("not_evaluated", Reason.NO_BASELINE)
    assert explain(found, "r").sentence == "billing was not judged: the 4 weeks before had no rows"


def test_the_weeks_before_are_enough_where_no_baseline_was_pinned():
    data = replace(source(0.1, 0.0, 0.0, 0.0, 0.0), baselines={})
    assert judged(STEP, data).outcome == "breach"
    assert judged(PINNED, data).reason is Reason.NO_BASELINE


def test_the_verdict_is_another_one_where_late_truths_change_a_week_before():
    data = source(0.0, 0.0, 0.0)
    late = replace(data, earlier=(data.earlier[0], WindowCounts(window(2), {"billing": rows(3_000, 0.0, 99)})))
    assert judged(STEP, data).id != judged(STEP, late).id
    assert judged(PINNED, data).id == judged(PINNED, late).id


def test_scores_are_compared_with_those_of_the_weeks_before():
    moved = rows(3_000, 0.0, 7, low=0.45)
    found = judged(MOVED, source(0.0, 0.0, 0.0, now=moved))
    assert (found.outcome, found.reason) == ("breach", Reason.DISTRIBUTION_SHIFTED)
    data = source(0.0, 0.0, 0.0, now=moved)
    again = replace(data, earlier=(WindowCounts(window(1), {"billing": pool([moved])}),))
    assert judged(MOVED, again).outcome == "ok"


def test_the_worst_score_range_is_compared_with_the_weeks_before():
    said = plain_words(judged(STEP.model_copy(update={"metric": "mce"}), source(0.15, 0.0, 0.0)))
    assert re.search(r"is worst in scores .+ points too high \(4 weeks before [\d.]+ points\)$", said), said
