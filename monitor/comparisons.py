"""(rule, counts, baseline) -> evidence: what was seen, against what, and how sure one can be.

A :class:`~monitor.records.Comparison` says nothing about other labels: the family-wise adjustment
and the outcome are the work of ``verdicts.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monitor.baselines import Baseline, population_edges
from monitor.counts import BinCounts, Counts, bin_counts, pool
from monitor.estimates import ece_of, generator, worst_bin
from monitor.inference import levels
from monitor.inference.change import Aligned, align, ece_increase, ece_level_p, mce_increase, mce_level_p, mover
from monitor.inference.detectability import (
    ece_increase_detectable,
    ece_level_detectable,
    mce_increase_detectable,
    mce_level_detectable,
)  # fmt: skip
from monitor.inference.intervals import breaching_bins, mce_interval, merge_thin
from monitor.records import Comparison, Interval, Reason, ShiftResult, Subject, Window
from monitor.rules.model import EvaluationConfig, Rule

BINNED = ("ece", "mce")


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """All that a rule may look at for one subject.

    ``counts`` are newest first: the window itself, then the windows before it that may be pooled
    with it (not past the baseline's end, not across model versions). ``problem`` says why there is
    nothing to look at.
    """

    subject: Subject
    window: Window
    counts: tuple[Counts, ...] = ()
    baseline: Baseline | None = None
    shifts: tuple[ShiftResult, ...] = ()
    problem: Reason | None = None

    @property
    def in_baseline(self) -> bool:
        """Whether the window lies in the time its own baseline was made from."""
        return self.baseline is not None and self.baseline.overlaps(self.window)


def compare(rule: Rule, material: Material, evaluation: EvaluationConfig) -> Comparison:
    """The evidence for one rule on one subject.

    Windows are pooled until the rows could show a change that matters; where even all of them
    could not, the last attempt is returned with ``adequate`` False.
    """
    problem = _problem(rule, material)
    if problem is not None:
        return _without_evidence(material, problem)
    if rule.test is not None:
        return _shift_evidence(rule, material, evaluation)
    found: Comparison | None = None
    for depth in range(1, max(1, len(material.counts) // rule.for_windows) + 1):
        attempt = _attempt(rule, material, evaluation, depth)
        found = attempt if attempt is not None else found
        if found is not None and found.adequate:
            break
    return found if found is not None else _without_evidence(material, Reason.NO_ROWS)


def _problem(rule: Rule, material: Material) -> Reason | None:
    if material.problem is not None:
        return material.problem
    if not material.counts or sum(c.where(rule.where).rows for c in material.counts) == 0:
        return Reason.NO_ROWS
    if material.in_baseline:
        return Reason.IN_BASELINE
    # Only comparisons need a baseline: a level rule goes on protecting people without one.
    compares = rule.condition == "increase" or rule.test is not None
    return Reason.NO_BASELINE if compares and material.baseline is None else None


def _without_evidence(material: Material, problem: Reason) -> Comparison:
    rows = material.counts[0].rows if material.counts else 0
    return Comparison(
        material.subject, material.window, n=rows, problem=problem,
        baseline_version=material.baseline.version if material.baseline else None,
        data_digest=digest_of(material.counts[:1]),
    )  # fmt: skip


def digest_of(counts: Sequence[Counts]) -> str:
    """A hash of the cells of several windows."""
    return hashlib.sha256(" ".join(c.digest() for c in counts).encode()).hexdigest()[:16]


def _attempt(rule: Rule, material: Material, evaluation: EvaluationConfig, depth: int) -> Comparison | None:
    """The evidence with groups of ``depth`` windows, as many groups as the rule's ``for`` asks."""
    used = material.counts[: depth * rule.for_windows]
    sample = pool(used).where(rule.where)
    if sample.rows == 0:
        return None
    evidence = _EVIDENCE[rule.condition](rule, material, sample, evaluation, depth)
    if evidence.problem is not None:
        return evidence
    groups = [used[i : i + depth] for i in range(0, len(used), depth)]
    streak = len(groups) == rule.for_windows and all(_beyond_alone(rule, material, g, evaluation) for g in groups)
    minimum = rule.min_samples if rule.min_samples is not None else evaluation.min_samples
    return replace(
        evidence,
        n=sample.rows,
        windows=len(used),
        streak=rule.for_windows == 1 or streak,
        adequate=sample.rows >= minimum and _could_be_seen(rule, evidence.detectable),
        baseline_version=material.baseline.version if material.baseline else None,
        data_digest=digest_of(used),
    )


def _could_be_seen(rule: Rule, detectable: float | None) -> bool:
    """Whether a change that matters would have been seen with 80% power (docs/statistics.md)."""
    if detectable is None:
        return False
    if rule.condition == "increase":
        return detectable <= 2 * rule.threshold
    return detectable <= max(rule.threshold, 1 - rule.threshold) / 4


def _beyond_alone(rule: Rule, material: Material, group: Sequence[Counts], evaluation: EvaluationConfig) -> bool:
    """Whether the debiased value of this group of windows alone is past the threshold."""
    if rule.for_windows == 1:
        return True
    sample = pool(group).where(rule.where)
    return sample.rows > 0 and _EVIDENCE[rule.condition](rule, material, sample, evaluation, 0).beyond


def _edges(rule: Rule, material: Material, sample: Counts, evaluation: EvaluationConfig) -> tuple[int, ...]:
    if material.baseline is not None:
        return material.baseline.edges[rule.where]
    return population_edges(sample, evaluation)


def _rng(rule: Rule, material: Material, evaluation: EvaluationConfig, depth: int) -> np.random.Generator:
    # Depth 1 draws what the estimate of the window drew, so that both show the same number.
    name = material.window.name if depth == 1 else f"{material.window.name}+{depth}"
    return generator(evaluation.seed, material.subject, f"ece {rule.where}", name)


def _interval(
    rule: Rule, material: Material, bins: BinCounts, evaluation: EvaluationConfig, depth: int
) -> tuple[Interval, dict[str, Any]]:
    if rule.metric == "ece":
        return ece_of([bins], [_rng(rule, material, evaluation, depth)], evaluation)[0], {}
    worst = mce_interval(bins, confidence=evaluation.confidence)
    return worst.interval, worst_bin(worst.worst_range, worst.worst_n, worst.worst_gap)


def _level(rule: Rule, material: Material, sample: Counts, evaluation: EvaluationConfig, depth: int) -> Comparison:
    """A level rule: is the value above (below) the threshold itself?"""
    name, side, rate = rule.measure, rule.condition, evaluation.false_discovery_rate
    detail: dict[str, Any] = {}
    if side == "increase":
        raise AssertionError("an increase rule is not a level rule")
    if name in BINNED:
        bins = bin_counts(sample, _edges(rule, material, sample, evaluation))
        interval, detail = _interval(rule, material, bins, evaluation, depth)
        tested = merge_thin([bins])[0] if name == "mce" else bins
        p_of, sees = (ece_level_p, ece_level_detectable) if name == "ece" else (mce_level_p, mce_level_detectable)
        p: float | None = p_of(tested, rule.threshold, side=side)
        detectable = sees(tested, rule.threshold, rate=rate, side=side)
        if "block_scores" in rule.actions:
            detail["blocked"] = [list(r) for r in breaching_bins(bins, rule.threshold, evaluation.confidence)]
    else:
        interval = levels.interval(name, sample, evaluation.confidence)
        if name == "shortfall":
            detail = {
                "promised": float(sample.ws.sum() / sample.w.sum()),
                "kept": float(sample.wy.sum() / sample.w.sum()),
            }
        p = levels.level_p(name, sample, rule.threshold, side)
        detectable = levels.level_detectable(name, sample, rule.threshold, side, rate)
    return Comparison(
        material.subject, material.window,
        value=interval.value, low=interval.low, high=interval.high, plug_in=interval.plug_in,
        p_value=p, detectable=detectable, beyond=_past(interval.value, rule), detail=detail,
    )  # fmt: skip


def _past(value: float | None, rule: Rule) -> bool:
    if value is None:
        return False
    return value < rule.threshold if rule.condition == "below" else value > rule.threshold


def _increase(rule: Rule, material: Material, sample: Counts, evaluation: EvaluationConfig, depth: int) -> Comparison:
    """An increase rule: has the value risen above the baseline's by more than the threshold?"""
    if material.baseline is None:
        raise AssertionError("compare() refuses an increase rule without a baseline")
    frozen = material.baseline.counts.where(rule.where)
    if rule.measure not in BINNED:
        return _plain_increase(rule, material, sample, frozen, evaluation)
    aligned = align(sample, frozen, material.baseline.edges[rule.where], evaluation.bins)
    if not aligned.usable:
        return replace(
            _without_evidence(material, Reason.SCORES_MOVED),
            n=sample.rows,
            detail={"moved_share": aligned.moved_share, "comparable": aligned.comparable},
        )
    return _binned_increase(rule, material, aligned, evaluation, depth)


def _plain_increase(
    rule: Rule, material: Material, sample: Counts, frozen: Counts, evaluation: EvaluationConfig
) -> Comparison:
    name = rule.measure
    now = levels.interval(name, sample, evaluation.confidence)
    then = levels.interval(name, frozen, evaluation.confidence)
    test = levels.increase_test(name, sample, frozen, evaluation.confidence)
    sees = levels.increase_detectable(name, sample, frozen, evaluation.false_discovery_rate)
    return _changed(rule, material, now, then, (test.low, test.high), test.p_value, None, sees, {})


def _binned_increase(
    rule: Rule, material: Material, aligned: Aligned, evaluation: EvaluationConfig, depth: int
) -> Comparison:
    rate, confidence = evaluation.false_discovery_rate, evaluation.confidence
    now, detail = _interval(rule, material, aligned.window, evaluation, depth)
    then, _ = _interval(rule, material, aligned.baseline, evaluation, -1)
    if aligned.rebinned:
        detail |= {"rebinned": True, "comparable": aligned.comparable}
    if rule.metric == "ece":
        test = ece_increase(aligned.window, aligned.baseline, confidence=confidence)
        sees = ece_increase_detectable(aligned.window, aligned.baseline, rate=rate)
    else:
        # thin bins are merged once, on both windows together, so that both see the same bins
        window, baseline = merge_thin([aligned.window, aligned.baseline])
        now = replace(mce_interval(window, confidence=confidence).interval, plug_in=now.plug_in)
        then = replace(mce_interval(baseline, confidence=confidence).interval, plug_in=then.plug_in)
        test = mce_increase(window, baseline, confidence=confidence)
        sees = mce_increase_detectable(window, baseline, rate=rate)
    return _changed(rule, material, now, then, mover(then, now), test.p_value, test.p_rate, sees, detail)


def _changed(
    rule: Rule, material: Material, now: Interval, then: Interval, limits: tuple[float | None, float | None],
    p_value: float | None, p_rate: float | None, detectable: float | None, detail: dict[str, Any],
) -> Comparison:  # fmt: skip
    change = None if now.value is None or then.value is None else now.value - then.value
    return Comparison(
        material.subject, material.window,
        value=now.value, low=now.low, high=now.high, plug_in=now.plug_in, baseline=then.value,
        change=change, change_low=limits[0], change_high=limits[1], p_value=p_value, p_rate=p_rate,
        detectable=detectable, beyond=change is not None and change > rule.threshold, detail=detail,
    )  # fmt: skip


_EVIDENCE: dict[str, Callable[[Rule, Material, Counts, EvaluationConfig, int], Comparison]] = {
    "increase": _increase,
    "above": _level,
    "below": _level,
}


def _shift_evidence(rule: Rule, material: Material, evaluation: EvaluationConfig) -> Comparison:
    """A rule on a distribution test: the effect size against the threshold."""
    column = rule.column or "score"
    found = [s for s in material.shifts if s.test == rule.test and s.column == column]
    if not found or found[0].statistic is None:
        return _without_evidence(material, Reason.TOO_FEW_ROWS)
    result = found[0]
    minimum = rule.min_samples if rule.min_samples is not None else evaluation.min_samples
    return Comparison(
        material.subject, material.window, value=result.statistic, plug_in=result.statistic,
        p_value=result.p_value, n=result.n, beyond=_past(result.statistic, rule), adequate=result.n >= minimum,
        baseline_version=material.baseline.version if material.baseline else None,
        data_digest=digest_of(material.counts[:1]), detail=dict(result.detail),
    )  # fmt: skip
