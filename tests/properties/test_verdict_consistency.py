"""A verdict never contradicts itself: random tables through compare and decide, with real rules.

Each property is asked of the same verdicts, since to judge takes nearly all of the time.
"""

from __future__ import annotations

import itertools
import math
from typing import get_args

import numpy as np
import pytest

from monitor.config.model import Condition, EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import WHERES, Comparison, Reason, ScoreIs, Subject, Verdict
from monitor.evaluation.comparisons import compare
from monitor.evaluation.data import RuleInput
from monitor.evaluation.verdicts import decide
from monitor.inference.sampling import binomial_tail
from monitor.metrics.names import ECES, LEAST_ROWS_OF_ECE
from monitor.metrics.registry import CONTRACT
from tests.fakes.judged import pinned, window

EVALUATION = EvaluationConfig(resamples=100, min_samples=60, false_discovery_rate=0.05)
RATE = EVALUATION.false_discovery_rate
WINDOW = window()
RANGES = dict.fromkeys(CONTRACT, (0.0, 1.0)) | {"nll": (0.0, 35.0), "overconfidence": (-1.0, 1.0)}
BREACHES = {"increase": {Reason.INCREASED, Reason.TRAFFIC_MIX, Reason.CLASS_MIX}, "above": {Reason.ABOVE_THRESHOLD}}
BREACHES |= {"below": {Reason.BELOW_THRESHOLD}, "decrease": {Reason.DECREASED}}
FALLING = ("roc_auc", "pr_auc", "accuracy")  # of which a decrease is asked
CONDITIONS = [each for each in get_args(Condition) if each != "accumulated"]  # its evidence is of many windows
Family = tuple[Rule, list[Comparison], list[Verdict]]
Judgement = tuple[Rule, Comparison, Verdict]


def population(rng: np.random.Generator, rows: int, shift: float, *, weighted: bool, score_is: ScoreIs) -> Counts:
    """Rows whose hit rate is their score less ``shift``; sometimes of one score, or of one outcome."""
    scores = rng.choice([0.0, 0.03, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0], rng.integers(1, 9))
    score = rng.choice(scores, rows)
    outcome = rng.random(rows) < score - shift
    weight = rng.choice([0.0, 1.0, 40.0], rows) if weighted else None
    effect = float(rng.choice([1.0, 1.0, 2.5]))
    return counts_from_rows(
        score, outcome, weight=weight, automate_at=0.8, design_effect=effect, score_is=score_is
    )  # fmt: skip


def material(rng: np.random.Generator, label: str, score_is: ScoreIs) -> RuleInput:
    """One to four windows of a label, often with a baseline, of sizes from no row to thousands."""
    if score_is == "probability_of_label" and rng.random() < 0.15:
        return more_of_the_wrong_traffic(rng, label)
    shift, drift = rng.choice([-0.3, 0.0, 0.0, 0.15, 0.5]), rng.choice([0.0, 0.0, 0.2, 0.5])
    weighted = bool(rng.random() < 0.2)
    size = int(rng.choice([0, 1, 2, 30, 120, 700, 3000]))
    windows = tuple(
        population(rng, size, shift + drift, weighted=weighted, score_is=score_is) for _ in range(rng.integers(1, 5))
    )
    if rng.random() < 0.25:
        return RuleInput(Subject("tickets", label), WINDOW, windows)
    frozen = population(rng, int(rng.choice([40, 400, 4000])), shift, weighted=weighted, score_is=score_is)
    return RuleInput(Subject("tickets", label), WINDOW, windows, pinned(frozen, label))


def more_of_the_wrong_traffic(rng: np.random.Generator, label: str) -> RuleInput:
    """Scores of .9 were always too high, and more of them come than in the baseline's weeks."""

    def rows(size: int, share: float) -> Counts:
        score = np.where(rng.random(size) < share, 0.9, rng.choice([0.05, 0.2, 0.4], size))
        return counts_from_rows(score, rng.random(size) < np.where(score == 0.9, 0.6, score))

    frozen, now = rows(8000, 0.1), rows(int(rng.choice([300, 4000])), float(rng.choice([0.1, 0.6])))
    return RuleInput(Subject("tickets", label), WINDOW, (now,), pinned(frozen, label))


def judged(seed: int, condition: Condition, metric: str, labels: int) -> Family:
    """A rule of this kind on a family of random labels, through the functions that a run uses."""
    rng = np.random.default_rng(seed)
    if condition == "decrease":
        metric = metric if metric in FALLING else FALLING[seed % 3]
    low, high = (0.0, 0.5) if condition in ("increase", "decrease") else (-0.1, 1.0)
    rule = Rule(
        id="rule", metric=metric, condition=condition, threshold=float(np.round(rng.uniform(low, high) ** 2, 3)),
        where=WHERES[rng.integers(3)], for_windows=int(rng.choice([1, 1, 2, 3])),
        min_samples=int(rng.choice([1, 60])), actions=("slack", "disable_automation"),
    )  # fmt: skip
    score_is = "probability_of_label" if rng.random() < 0.7 else "confidence_in_prediction"
    evidence = [compare(rule, material(rng, f"label-{i}", score_is), EVALUATION) for i in range(labels)]
    verdicts = decide(rule, evidence, rate=RATE, decision_rules=int(rng.integers(1, 4)), revision="r")
    return rule, evidence, verdicts


@pytest.fixture(scope="module")
def judgements() -> list[Judgement]:
    """The verdicts of 540 families, with what they are of."""
    kinds = list(itertools.product((*CONDITIONS[-1:], *CONDITIONS[:-1]), CONTRACT))  # so a mix, which is rare, is among
    families = (judged(seed, *kinds[seed % len(kinds)], 1 + seed % 4) for seed in range(540))
    return [(rule, *both) for rule, found, verdicts in families for both in zip(found, verdicts, strict=True)]


def exceeds(rule: Rule, found: float | None) -> bool:
    return found is not None and (found < rule.threshold if rule.condition == "below" else found > rule.threshold)


def sought(rule: Rule, verdict: Verdict) -> float | None:
    """What the rule holds against its threshold."""
    if rule.condition == "decrease":
        return None if verdict.change is None else -verdict.change
    return verdict.change if rule.condition == "increase" else verdict.value


def test_a_breach_is_beyond_its_threshold_and_significant_in_its_family(judgements: list[Judgement]):
    for rule, _, verdict in judgements:
        if verdict.outcome == "breach":
            assert exceeds(rule, sought(rule, verdict))
            assert verdict.p_adjusted < RATE
            assert verdict.reason in BREACHES[rule.condition]
            assert verdict.actions == rule.actions
        else:
            assert verdict.actions == ()


def test_evidence_for_a_breach_is_a_breach_however_few_the_rows(judgements: list[Judgement]):
    for rule, found, verdict in judgements:
        significant = verdict.p_adjusted is not None and verdict.p_adjusted < RATE
        if found.problem is None and found.streak and significant and exceeds(rule, sought(rule, verdict)):
            assert verdict.outcome == "breach"


def test_ok_beside_an_interval_beyond_the_threshold_says_that_it_was_not_significant(
    judgements: list[Judgement],
):
    for rule, found, verdict in judgements:
        if verdict.outcome != "ok":
            continue
        fall = None if verdict.change_high is None else -verdict.change_high
        ends = {"increase": verdict.change_low, "decrease": fall, "above": verdict.low, "below": verdict.high}
        if exceeds(rule, ends[rule.condition]):
            # with `for: k` one of the k windows may lie within although all of them together do not
            expected = Reason.NOT_SIGNIFICANT_IN_FAMILY if found.streak else Reason.STREAK_INCOMPLETE
            assert verdict.reason is expected
        if verdict.reason is Reason.WITHIN_THRESHOLD:
            assert not exceeds(rule, sought(rule, verdict))
        if verdict.reason is Reason.NOT_SIGNIFICANT_IN_FAMILY:
            assert exceeds(rule, sought(rule, verdict))
            assert verdict.p_adjusted is None or verdict.p_adjusted >= RATE
        if verdict.reason is Reason.STREAK_INCOMPLETE:
            assert rule.for_windows > 1
            assert exceeds(rule, sought(rule, verdict))


def test_ok_was_said_only_of_rows_that_could_have_shown_a_change_that_matters(judgements: list[Judgement]):
    for rule, _, verdict in judgements:
        if verdict.outcome == "ok":
            largest = 2 * rule.threshold if rule.compares else max(rule.threshold, 1 - rule.threshold) / 4
            assert verdict.n >= (rule.min_samples or 0)
            assert 0 <= verdict.detectable <= largest


def test_what_was_not_evaluated_says_why_and_what_could_have_been_seen(judgements: list[Judgement]):
    for rule, found, verdict in judgements:
        if verdict.outcome != "not_evaluated":
            continue
        assert verdict.reason is (found.problem or Reason.TOO_FEW_ROWS)
        if verdict.reason is Reason.TOO_FEW_ROWS and verdict.detectable is not None:
            too_much = 2 * rule.threshold if rule.compares else max(rule.threshold, 1 - rule.threshold) / 4
            least = max(rule.min_samples or 0, LEAST_ROWS_OF_ECE if rule.measure in ECES else 0)
            assert verdict.n < least or verdict.detectable > too_much
        if verdict.reason is Reason.TOO_FEW_ROWS and verdict.detectable is None and rule.metric == "accuracy":
            assert rule.compares or not most_extreme_is_seen(rule, found)


def most_extreme_is_seen(rule: Rule, found: Comparison) -> bool:
    """Whether as many rows, all right (or all wrong), would be significant by themselves."""
    rows = math.floor(float(found.detail["effective_rows"]))
    at = rule.threshold if rule.condition == "above" else 1 - rule.threshold
    return rows > 0 and binomial_tail(1.0, rows, at) <= RATE


def test_numbers_of_a_verdict_are_in_order_and_in_range(judgements: list[Judgement]):
    for rule, _, verdict in judgements:
        least, most = RANGES[rule.measure]
        assert_in_order(verdict.low, verdict.value, verdict.high)
        assert_in_order(verdict.change_low, verdict.change, verdict.change_high)
        for number in (verdict.low, verdict.high, verdict.value, verdict.baseline, verdict.plug_in):
            assert number is None or least - 1e-12 <= number <= most + 1e-12
        for p in (verdict.p_value, verdict.p_adjusted):
            assert p is None or 0 <= p <= 1
        if verdict.p_value is not None and verdict.p_adjusted is not None:
            assert verdict.p_adjusted >= verdict.p_value * (1 - 1e-12)
        if verdict.change is not None and verdict.value is not None and verdict.baseline is not None:
            assert verdict.change == pytest.approx(verdict.value - verdict.baseline, abs=1e-12)


def assert_in_order(low: float | None, value: float | None, high: float | None) -> None:
    if value is None:
        assert (low, high) == (None, None)
        return
    assert low - 1e-12 <= value <= high + 1e-12


def test_these_tables_reach_every_outcome_that_rows_can_have(judgements: list[Judgement]):
    assert set(Reason) - {verdict.reason for _, _, verdict in judgements} == {
        Reason.DISTRIBUTION_SHIFTED, Reason.IN_BASELINE, Reason.REJECTED_ROWS, Reason.RELATION_ERROR,
        Reason.WAREHOUSE_FAILED, Reason.CLASS_MIX,  # of which test_class_mix_bench draws worlds
        Reason.NOT_MATURE, Reason.UNRESOLVED_FAILED,  # depend on dates: tests/integration/test_maturity.py
        Reason.SETTINGS_CHANGED,  # depends on two settings: tests/integration/test_other_settings.py
    }  # fmt: skip


def test_a_verdict_depends_on_the_rows_and_on_nothing_else():
    for seed, metric in enumerate(CONTRACT):
        assert judged(seed, "above", metric, 2)[2] == judged(seed, "above", metric, 2)[2]
