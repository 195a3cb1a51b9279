"""The measurement of one rule on some rows: value, interval, p-value, and the change that the rows could have shown.

The labels of one family are measured together: twenty labels take hardly longer than one. The method depends on the
metric (ece, mce, or one without bins) and on the condition (a level, or a change from the baseline).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import Baseline, population_edges
from monitor.core.counts import BinCounts, Counts
from monitor.core.records import Interval, Subject, Window
from monitor.evaluation.estimates import each_ece, textbook_mces, worst_bin
from monitor.inference import levels
from monitor.inference.alignment import Aligned, align, binned
from monitor.inference.change import (
    Side,
    ece_increase_ps,
    ece_level_ps,
    ece_rate_p,
    intervals_of_mce,
    mce_increase_ps,
    mce_level_ps,
    mover,
)
from monitor.inference.class_mix import class_mix
from monitor.inference.detectability import (
    Limits,
    ece_increase_detectables,
    ece_level_detectables,
    mce_increase_detectables,
    mce_level_detectables,
)
from monitor.inference.gaps import stack
from monitor.inference.intervals import breaching_bins
from monitor.inference.maximum import largest_gap
from monitor.inference.memory import kept_with
from monitor.inference.merging import merge_thin
from monitor.inference.registered import largest_allowed as level_allowed
from monitor.metrics.definition import MetricSpec

BINNED = ("ece", "mce")
POWER = 0.8
ACCEPTED_FALL = 1 / 6
"""The share of a decrease rule's threshold that does not count as a fall.

A fall that is significant in a week of rows is mostly beyond the threshold: otherwise the threshold would add nothing.
"""
T = TypeVar("T")
WINDOW, BASELINE = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class RuleSample:
    """The rows (``sample``) of one or more windows up to ``window``, for one rule on one subject.

    ``depth`` windows were pooled for each of the k windows that the rule asks for (0: one of those k alone). A
    binned metric has ``tables``: the window in bins and, where it is compared, its baseline in the same bins
    (``aligned``). ``merged`` are these tables with thin bins merged, for an MCE.
    ``detectable`` is the smallest change, or distance from the threshold, that these rows could show.
    """

    sample: Counts
    rule: Rule
    subject: Subject
    window: Window
    baseline: Baseline | None
    evaluation: EvaluationConfig
    depth: int
    parameters: tuple[float, ...] = ()
    tables: tuple[BinCounts, ...] = ()
    aligned: Aligned | None = None
    merged: tuple[BinCounts, ...] = ()
    detectable: float | None = None

    @property
    def metric(self) -> MetricSpec:
        """The metric with its parameters."""
        return MetricSpec(self.rule.measure, self.parameters)

    @property
    def usable(self) -> bool:
        """Whether the scores can be compared with the baseline's; True where bins need not be aligned."""
        return self.aligned is None or self.aligned.usable

    @property
    def frozen(self) -> Counts:
        """The baseline's rows of the population that the rule is about."""
        return rows_of(self.rule, _given(self.baseline).counts)

    @property
    def pair(self) -> tuple[BinCounts, BinCounts]:
        """Window and baseline in the bins in which they are compared."""
        window, baseline = self.merged or self.tables
        return window, baseline

    @property
    def minimum(self) -> int:
        """The number of rows that the rule needs."""
        return rows_needed(self.rule, self.evaluation)

    @property
    def enough(self) -> bool:
        """Whether there are as many rows as the rule needs."""
        return self.sample.rows >= self.minimum

    @property
    def largest_allowed(self) -> float:
        """The largest detectable change with which an ``ok`` is still justified (docs/statistics.md)."""
        rule = self.rule
        return 2 * rule.threshold if rule.compares else level_allowed(rule.measure, rule.threshold)

    @property
    def adequate(self) -> bool:
        """Whether there are enough rows, and a change that matters would have been seen with 80% power.

        A plain rule needs enough rows only.
        """
        return self.enough and (self.rule.is_plain or self._could_be_seen)

    @property
    def _could_be_seen(self) -> bool:
        return self.detectable is not None and self.detectable <= self.largest_allowed


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """The value ``now`` (and ``then``, in the baseline), the limits of the change, and the p-values."""

    now: Interval
    p_value: float | None
    then: Interval | None = None
    limits: tuple[float | None, float | None] = (None, None)
    p_rate: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def change(self) -> float | None:
        """The debiased increase over the baseline; None for a level."""
        return _increase(self.now, self.then)


def with_detectability(looks: Sequence[RuleSample], last: Sequence[bool]) -> list[RuleSample]:
    """The samples of several labels in the bins of their metric, if it has any, with their detectable changes.

    Where more windows can be pooled (not ``last``), ``detectable`` may stay None once it is known to exceed what is
    allowed: such a sample is not used anyway, and that much is known in a fraction of the time.
    """
    found = [_in_bins(look) for look in looks]
    asked = [place for place, look in enumerate(found) if look.usable]
    if not asked or found[asked[0]].rule.is_plain:
        return found
    within = [None if last[place] else found[place].largest_allowed for place in asked]
    could = _detectables([found[place] for place in asked], within)
    for place, detectable in zip(asked, could, strict=True):
        found[place] = replace(found[place], detectable=detectable)
    return found


def see(looks: Sequence[RuleSample]) -> list[Measurement]:
    """The measurements of one rule on several labels; windows that must be aligned with a baseline must be usable."""
    if not looks:
        return []
    if not looks[0].rule.compares:
        return _levels(looks)
    return (_binned_increases if looks[0].rule.measure in BINNED else _plain_changes)(looks)


def beyond_alone(groups: Sequence[tuple[RuleSample, Counts]]) -> list[dict[str, Any]]:
    """For each group of rows alone: ``n``, the judged ``value`` (or increase), and whether it is ``beyond``.

    For a plain rule, fewer rows than it needs are never beyond the threshold: no p-value guards against chance.
    """
    samples = [rows_of(look.rule, group) for look, group in groups]
    found: list[dict[str, Any]] = [{"n": sample.rows, "value": None, "beyond": False} for sample in samples]
    alone = {
        place: _in_bins(replace(look, sample=sample, depth=0))
        for place, ((look, _), sample) in enumerate(zip(groups, samples, strict=True))
        if sample.w.any()
    }
    asked = [place for place, look in alone.items() if look.usable]
    if not asked:
        return found
    rule = alone[asked[0]].rule
    looks = [alone[place] for place in asked]
    compared = rule.compares
    frozen = [then for then, _ in _intervals(looks, BASELINE)] if compared else [None] * len(looks)
    for place, (now, _), then in zip(asked, _intervals(looks, WINDOW), frozen, strict=True):
        enough = alone[place].enough or not rule.is_plain
        found[place] |= {"value": _found(rule, now, then), "beyond": enough and exceeds_threshold(rule, now, then)}
    return found


def exceeds_threshold(rule: Rule, now: Interval, then: Interval | None) -> bool:
    """Whether the value that the rule judges, or its change since the baseline, is past the threshold."""
    found = _found(rule, now, then)
    if found is None:
        return False
    if rule.condition == "decrease":
        return -found > rule.threshold
    return found < rule.threshold if rule.condition == "below" else found > rule.threshold


def rows_needed(rule: Rule, evaluation: EvaluationConfig) -> int:
    """The number of rows below which a rule is not evaluated."""
    return rule.min_samples if rule.min_samples is not None else evaluation.min_samples


def accepted_fall(rule: Rule) -> float:
    """The fall that a decrease rule accepts: its p-value is for a larger fall."""
    return rule.threshold * ACCEPTED_FALL


def rows_of(rule: Rule, counts: Counts) -> Counts:
    """The rows that the rule is about."""
    if rule.where == "all":
        return counts  # kept with themselves they would never be freed
    return kept_with(counts, ("where", rule.where), lambda: counts.where(rule.where))


def _found(rule: Rule, now: Interval, then: Interval | None) -> float | None:
    if rule.value == "plug_in":
        now = replace(now, value=now.plug_in)
        then = None if then is None else replace(then, value=then.plug_in)
    return _increase(now, then) if rule.compares else now.value


def textbook_detail(rule: Rule, now: Interval, then: Interval | None) -> dict[str, Any]:
    """What a rule on textbook values stores: that it judges these, and those of baseline and change; else empty."""
    if rule.value != "plug_in":
        return {}
    then_value = {} if then is None else {"textbook_baseline": then.plug_in}
    change = {} if then is None else {"textbook_change": _found(rule, now, then)}
    return {"judged": rule.value, **then_value, **change}


def _increase(now: Interval, then: Interval | None) -> float | None:
    return None if then is None or now.value is None or then.value is None else now.value - then.value


def _in_bins(look: RuleSample) -> RuleSample:
    """The sample with the bins of a binned metric: the baseline's, where there is one."""
    if look.rule.measure not in BINNED:
        return look
    aligned: Aligned | None = None
    tables: tuple[BinCounts, ...]
    if look.rule.condition == "increase":
        aligned = align(look.sample, look.frozen, _edges(look), look.evaluation.bins)
        tables = (aligned.window, aligned.baseline)
    else:
        tables = (binned(look.sample, _edges(look)),)
    # on both windows together, so that both are measured in the same bins
    merged = merge_thin(tables) if look.rule.measure == "mce" and (aligned is None or aligned.usable) else ()
    return replace(look, tables=tables, aligned=aligned, merged=tuple(merged))


def _edges(look: RuleSample) -> tuple[int, ...]:
    if look.baseline is not None:
        return look.baseline.edges[look.rule.where]
    return population_edges(look.sample, look.evaluation)


def _intervals(looks: Sequence[RuleSample], side: int) -> list[tuple[Interval, dict[str, Any]]]:
    """The metric of each window (or of its baseline: ``side``) with its limits, and the worst bin of an MCE."""
    measure = looks[0].rule.measure
    if measure == "mce":
        return _mces(looks, side)
    if measure == "ece":
        return [(interval, {}) for interval in _eces(looks, side)]
    samples = [look.sample if side == WINDOW else look.frozen for look in looks]
    return [(_plain_interval(look, sample), {}) for look, sample in zip(looks, samples, strict=True)]


def _eces(looks: Sequence[RuleSample], side: int) -> list[Interval]:
    """The configured interval of each ECE, with the random numbers of its label and window.

    At depth 1 these are the ones of the window's estimate, so that both show the same number. A baseline has its own,
    so that its value is the same every week.
    """
    asked = [(look.tables[side], look.subject, _drawn_name(look, side)) for look in looks]
    return each_ece(asked, looks[0].rule.where, looks[0].evaluation)


def _drawn_name(look: RuleSample, side: int) -> str:
    """The name that seeds the random numbers of a window, or of its baseline."""
    if side != WINDOW:
        return f"baseline {_given(look.baseline).version}"
    return look.window.name if look.depth == 1 else f"{look.window.name}+{look.depth}"


def _mces(looks: Sequence[RuleSample], side: int) -> list[tuple[Interval, dict[str, Any]]]:
    """The MCE of each label's merged bins, with the plug-in value of its unmerged bins, and the worst bin.

    Where textbook limits are configured, all numbers are of the unmerged bins.
    """
    if looks[0].evaluation.interval == "percentile":
        asked = [(look.tables[side], look.subject, f"mce {look.rule.where}", _drawn_name(look, side)) for look in looks]
        return [(found.interval, worst_bin(found)) for found in textbook_mces(asked, looks[0].evaluation)]
    results = intervals_of_mce([(look.merged[side],) for look in looks], looks[0].evaluation.confidence)
    found = []
    for look, result in zip(looks, results, strict=True):
        textbook = largest_gap(stack([look.tables[side]])) if result.interval.value is not None else None
        worst = worst_bin(result) if look.rule.value == "debiased" else _textbook_worst(look.tables[side])
        found.append((replace(result.interval, plug_in=textbook), worst))
    return found


def _textbook_worst(bins: BinCounts) -> dict[str, Any]:
    """The bin of the textbook MCE: the largest gap of the unmerged bins; empty without rows."""
    gap = np.where(bins.w > 0, bins.rate - bins.score, 0.0)
    worst = int(np.abs(gap).argmax())
    if not bins.w.any():
        return {}
    return {"worst_range": list(bins.range_of(worst)), "worst_n": int(bins.n[worst]), "worst_gap": float(gap[worst])}


def _law(look: RuleSample, counts: Counts) -> levels.Law | None:
    """The sampling law of the metric of these rows, computed once and kept; None where it is undefined."""
    return kept_with(counts, ("law", look.metric), lambda: levels.law_of(look.metric, counts))


def _plain_interval(look: RuleSample, counts: Counts) -> Interval:
    law = _law(look, counts)
    if law is None:
        return Interval(None, None, None, None)
    low, high = law.interval(look.evaluation.confidence)
    return Interval(law.value, low, high, levels.textbook(law))


def _levels(looks: Sequence[RuleSample]) -> list[Measurement]:
    """For a level rule: the value, the p-value for "beyond the threshold", and the ranges to block."""
    found = zip(looks, _intervals(looks, WINDOW), _level_ps(looks), strict=True)
    return [Measurement(now, p_value, detail=worst | _blocked(look)) for look, (now, worst), p_value in found]


def _level_ps(looks: Sequence[RuleSample]) -> Sequence[float | None]:
    rule = looks[0].rule
    if rule.measure in BINNED:
        p_values = mce_level_ps if rule.measure == "mce" else ece_level_ps
        return p_values(_tested(looks), rule.threshold, side=_side(rule))
    laws = [_law(look, look.sample) for look in looks]
    return [None if law is None else law.p_value(rule.threshold, _side(rule)) for law in laws]


def _tested(looks: Sequence[RuleSample]) -> list[BinCounts]:
    return [(look.merged or look.tables)[WINDOW] for look in looks]


def _blocked(look: RuleSample) -> dict[str, Any]:
    """The score ranges that are significantly beyond the threshold, for a rule that blocks them.

    For a plain rule: the unmerged bins whose gap is beyond it.
    """
    if "block_scores" not in look.rule.actions or not look.tables:
        return {}
    if look.rule.is_plain:
        bins = look.tables[WINDOW]
        far = np.flatnonzero((bins.w > 0) & (np.abs(bins.rate - bins.score) > look.rule.threshold))
        return {"blocked": [list(bins.range_of(int(index))) for index in far]}
    ranges = breaching_bins(look.tables[WINDOW], look.rule.threshold, look.evaluation.confidence)
    return {"blocked": [list(each) for each in ranges]}


def _binned_increases(looks: Sequence[RuleSample]) -> list[Measurement]:
    pairs = [look.pair for look in looks]
    if looks[0].rule.measure == "mce":
        p_values = mce_increase_ps(pairs)
    else:
        p_values = ece_increase_ps(pairs, confidence=looks[0].evaluation.confidence)
    found = zip(looks, _intervals(looks, WINDOW), _intervals(looks, BASELINE), p_values, strict=True)
    return [_increased(look, now, worst, then, p_value) for look, (now, worst), (then, _), p_value in found]


def _increased(look: RuleSample, now: Interval, worst: dict[str, Any], then: Interval, p_value: float) -> Measurement:
    if now.value is None or then.value is None:
        return Measurement(now, None, then)
    evaluation, aligned = look.evaluation, _given(look.aligned)
    # only the reason of a breach depends on whether the traffic changed
    asked = look.rule.measure == "ece" and p_value < evaluation.false_discovery_rate
    p_rate = ece_rate_p(*look.pair, confidence=evaluation.confidence) if asked else None
    rebinned = {"rebinned": True, "comparable": aligned.comparable} if aligned.rebinned else {}
    mix = _class_mix(look, now.value - then.value) if p_value < evaluation.false_discovery_rate else {}
    return Measurement(now, p_value, then, mover(then, now), p_rate, worst | rebinned | mix)


def _class_mix(look: RuleSample, rise: float) -> dict[str, Any]:
    """Whether a changed share of true items alone explains a rise; empty unless scores are label probabilities."""
    found = class_mix(*look.tables) if look.sample.score_is == "probability_of_label" else None
    if found is None:
        return {}
    expected = found.expected_rise(look.rule.measure)
    explains = found.is_all and expected > 0 and rise - expected <= look.rule.threshold
    told = {
        "now": found.now,
        "then": found.then,
        "p_value": found.p_value,
        "fit": found.fit,
        "expected_rise": expected,
        "explains": explains,
    }
    return {"class_mix": told}


def _plain_changes(looks: Sequence[RuleSample]) -> list[Measurement]:
    found = []
    for look, (now, _), (then, _) in zip(looks, _intervals(looks, WINDOW), _intervals(looks, BASELINE), strict=True):
        asked = look.metric, look.sample, look.frozen, look.evaluation.confidence
        if look.rule.condition == "decrease":
            accepted = accepted_fall(look.rule)
            test, detail = levels.decrease_test(*asked, accepted=accepted), {"accepted": accepted}
        else:
            test, detail = levels.increase_test(*asked), {}
        found.append(Measurement(now, test.p_value, then, (test.low, test.high), detail=detail))
    return found


def _detectables(looks: Sequence[RuleSample], within: Limits) -> list[float | None]:
    """The smallest change, or distance from the threshold, that the rows of each label could show.

    It may be None where it exceeds ``within``: to find that out takes less time.
    """
    rule, evaluation = looks[0].rule, looks[0].evaluation
    rate, threshold, measure = evaluation.false_discovery_rate, rule.threshold, rule.measure
    if rule.condition == "increase":
        if measure == "mce":
            return mce_increase_detectables([look.pair for look in looks], rate=rate, power=POWER, within=within)
        if measure == "ece":
            pairs, confidence = [look.pair for look in looks], evaluation.confidence
            return ece_increase_detectables(pairs, rate=rate, power=POWER, confidence=confidence, within=within)
    if rule.compares:
        return _detectable_changes(looks, rate)
    side = _side(rule)
    if measure == "mce":
        return mce_level_detectables(_tested(looks), threshold, rate=rate, power=POWER, side=side)
    if measure == "ece":
        return ece_level_detectables(_tested(looks), threshold, rate=rate, power=POWER, side=side, within=within)
    laws = [_law(look, look.sample) for look in looks]
    return [None if law is None else law.detectable(threshold, side, rate, POWER) for law in laws]


def _detectable_changes(looks: Sequence[RuleSample], rate: float) -> list[float | None]:
    asked = [(look.metric, look.sample, look.frozen, rate) for look in looks]
    rule = looks[0].rule
    if rule.condition == "decrease":
        return [levels.decrease_detectable(*each, accepted=accepted_fall(rule)) for each in asked]
    return [levels.increase_detectable(*each) for each in asked]


def _side(rule: Rule) -> Side:
    if rule.condition not in ("above", "below"):
        raise AssertionError(f"a rule on {rule.condition} is not a level rule")
    return rule.condition


def _given(part: T | None) -> T:
    if part is None:
        raise AssertionError("a sample lacks what its rule measures")
    return part
