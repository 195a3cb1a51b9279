"""The measurement of one rule on some rows: value, interval, p-value, and the change that the rows could have shown.

The labels of one family are measured together: twenty labels take hardly longer than one. The method depends on the
metric (ece, mce, or one without bins) and on the condition (a level, or a change from the baseline).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import population_edges
from monitor.core.counts import BinCounts, Counts, pool
from monitor.core.records import Comparison, Interval
from monitor.core.verdict_detail import ClassMixFacts, Group, VerdictDetail
from monitor.evaluation.data import RuleInput, rows_of
from monitor.evaluation.estimates import each_ece, worst_bin
from monitor.evaluation.week_spread import BINNED, measured_rows, weeks_of
from monitor.inference import levels
from monitor.inference.between_weeks import week_effect, worth_less
from monitor.inference.bins import Aligned, align, binned, merge_thin
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
from monitor.inference.class_mix import at_share, class_mix
from monitor.inference.detectability import (
    ece_increase_detectables,
    ece_level_detectables,
    mce_increase_detectables,
    mce_level_detectables,
)
from monitor.inference.gaps import stack
from monitor.inference.intervals import breaching_bins
from monitor.inference.memory import kept_with
from monitor.inference.registered import largest_allowed as level_allowed
from monitor.metrics.definition import MetricSpec
from monitor.metrics.names import ECES, LEAST_ROWS_OF_ECE

ACCEPTED_FALL = 1 / 6
"""The share of a decrease rule's threshold that does not count as a fall.

A fall that is significant in a week of rows is mostly beyond the threshold: otherwise the threshold would add nothing.
"""
T = TypeVar("T")
WINDOW, BASELINE = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class RuleSample:
    """Some of the windows that are ``given`` of a subject, judged together by one rule.

    ``depth`` windows were pooled for each of the k windows that it ``asks`` for, from the window of index ``first`` on
    (0: the judged one). A binned metric has ``tables``: the window in bins and, where it is compared, its baseline in
    the same bins (``aligned``). ``merged`` are these tables with thin bins merged, for an MCE.
    ``detectable`` is the smallest change, or distance from the threshold, that these rows could show.
    ``rate`` is that of the decision: a p-value below it is significant in the family, whatever the others in it are
    (None: the rule is judged by itself).
    ``pooled_from`` is the depth of the pool of which these are the newest windows (0: they are all of it).
    """

    rule: Rule
    given: RuleInput
    evaluation: EvaluationConfig
    depth: int = 1
    first: int = 0
    asks: int = 1
    tables: tuple[BinCounts, ...] = ()
    aligned: Aligned | None = None
    merged: tuple[BinCounts, ...] = ()
    detectable: float | None = None
    rate: float | None = None
    pooled_from: int = 0

    @property
    def windows(self) -> Sequence[Counts]:
        """The windows, newest first."""
        return self.given.counts[self.first : self.first + self.depth * self.asks]

    @property
    def groups(self) -> list[RuleSample]:
        """Each of the k windows, or groups of windows, that the rule asks for, newest first, as a sample of its own."""
        windows = range(0, len(self.given.counts[: self.depth * self.rule.for_windows]), self.depth)
        return [replace(self, first=first, asks=1) for first in windows]

    @property
    def rows(self) -> Counts:
        """The windows as one sample."""
        return pooled(self.windows)

    @property
    def counts(self) -> Counts:
        """The rows of the population that the rule is about."""
        return rows_of(self.rule, self.rows)

    @property
    def decision_rate(self) -> float:
        """The p-value below which the rule is in breach."""
        return self.evaluation.false_discovery_rate if self.rate is None else self.rate

    @property
    def metric(self) -> MetricSpec:
        """The metric with its parameters."""
        return MetricSpec(self.rule.measure, self.given.parameters)

    @property
    def usable(self) -> bool:
        """Whether the scores can be compared with the baseline's; True where bins need not be aligned."""
        return self.aligned is None or self.aligned.usable

    @property
    def frozen(self) -> Counts:
        """The baseline's rows of the population that the rule is about."""
        return rows_of(self.rule, _required(self.given.baseline).counts)

    @property
    def pair(self) -> tuple[BinCounts, BinCounts]:
        """Window and baseline in the bins in which they are compared."""
        window, baseline = self.merged or self.tables
        return window, baseline

    @property
    def pair_by_week(self) -> tuple[BinCounts, BinCounts]:
        """The same, with as many effective rows in each bin as they are worth where weeks differ."""
        each = zip(self.pair, self.weeks_of_each, strict=True)
        now, then = (worth_less(table, self.given.week.correlation, weeks) for table, weeks in each)
        return now, then

    @property
    def weeks_of_each(self) -> tuple[int, int]:
        """The number of windows behind the rows, and behind those of the baseline."""
        return self.depth * self.rule.for_windows, weeks_of(self.rule, _required(self.given.baseline))

    @property
    def week_effects(self) -> tuple[float, float]:
        """By how much the variances of the window and of its baseline are larger than their rows alone make them."""
        correlation = self.given.week.correlation
        if not correlation > 0:
            return 1.0, 1.0
        if self.rule.measure in BINNED:  # bin by bin: this is the mean
            each = zip(self.pair, self.pair_by_week, strict=True)
            now, then = (float(table.n_eff.sum() / worth.n_eff.sum()) for table, worth in each)
            return now, then
        rows = [measured_rows(self.rule.measure, counts) for counts in (self.counts, self.frozen)]
        now, then = (week_effect(correlation, *each) for each in zip(rows, self.weeks_of_each, strict=True))
        return now, then

    @property
    def minimum(self) -> int:
        """The number of rows that the rule needs."""
        return rows_needed(self.rule, self.evaluation)

    @property
    def enough(self) -> bool:
        """Whether there are as many rows as the rule needs."""
        return self.counts.rows >= self.minimum

    @property
    def spread(self) -> bool:
        """Whether each of the k groups has its part of the rows that the rule needs."""
        parts = self.groups if self.asks > 1 else ()
        return all(part.counts.rows * len(parts) >= self.minimum for part in parts)

    def says_nothing(self, rows: int) -> bool:
        """Whether one of the k groups has too few rows: neither its part of what is needed nor half a fair share.

        The rows are tested pooled: without this, one group alone could bring about what is said of each.
        """
        asks = self.rule.for_windows
        return rows * asks < self.minimum and 2 * rows * asks < self.counts.rows

    @property
    def is_deep_enough(self) -> bool:
        """Whether each window has enough rows, and the detectable change is so small that no more are pooled.

        That is twice the threshold. Of a level it is a distance from it of twice the threshold, or of twice what is
        missing to 1 if that is less.
        """
        rule, wanted = self.rule, self.largest_allowed
        if not rule.compares:
            wanted = min(wanted, 2 * min(abs(rule.threshold), abs(1 - rule.threshold)))
        return self.enough and self.spread and (rule.is_plain or self._shows(wanted))

    @property
    def windows_needed(self) -> int:
        """About how many such windows it takes to be adequate: noise falls with the root of the rows."""
        most = 1 - self.rule.threshold if self.detectable is None else self.detectable
        by_power = (most / self.largest_allowed) ** 2 if self.largest_allowed > 0 else 1.0
        by_rows = self.minimum / max(self.counts.rows, 1)
        return math.ceil(max(self.depth, 1) * max(by_power, by_rows, 1.0) - 1e-9)

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
        return self.enough and (self.rule.is_plain or self._shows(self.largest_allowed))

    def _shows(self, change: float) -> bool:
        return self.detectable is not None and self.detectable <= change


def pooled(counts: Sequence[Counts]) -> Counts:
    """The windows as one sample, pooled once for all rules."""
    newest, *older = counts
    if not older:
        return newest
    # weak references: a result kept with a window must not keep the windows before it alive
    return kept_with(newest, ("pool", *map(ref, older)), lambda: pool(counts))


def with_detectability(samples: Sequence[RuleSample]) -> list[RuleSample]:
    """The samples of several labels in the bins of their metric, if it has any, with their detectable changes."""
    found = [in_bins(sample) for sample in samples]
    usable = [place for place, sample in enumerate(found) if sample.usable]
    if not usable or found[usable[0]].rule.is_plain:
        return found
    detectables = _detectables([found[place] for place in usable])
    for place, detectable in zip(usable, detectables, strict=True):
        found[place] = replace(found[place], detectable=detectable)
    return found


def measurements(samples: Sequence[RuleSample]) -> list[Comparison]:
    """What the rows of several labels say for one rule: value, limits, change and p-values.

    Windows that must be aligned with a baseline must be usable.
    """
    return [
        _measured(sample, p_value, *values)
        for sample, p_value, values in zip(samples, p_values_of(samples), _values(samples), strict=True)
    ]


def p_values_of(samples: Sequence[RuleSample]) -> Sequence[float | None]:
    """The p-values of :func:`measurements` without values and intervals, which take more time.

    That of a fall is for one that is larger than the rule accepts.
    """
    if not samples:
        return []
    rule, side = samples[0].rule, side_of(samples[0].rule)
    if rule.measure in BINNED and not rule.compares:
        return (mce_level_ps if rule.measure == "mce" else ece_level_ps)(_tested(samples), rule.threshold, side=side)
    if not rule.compares:
        laws = [_law(sample, sample.counts) for sample in samples]
        return [None if law is None else law.p_value(rule.threshold, side) for law in laws]
    if rule.measure == "mce":
        return mce_increase_ps([sample.pair_by_week for sample in samples])
    if rule.measure == "ece":
        return ece_increase_ps(**_of_pairs(samples))
    found = [
        levels.change_p(each.metric, each.counts, each.frozen, effects=each.week_effects, **_direction(rule))
        for each in samples
    ]
    return [None if p is None else sample.given.week.p_value(p) for p, sample in zip(found, samples, strict=True)]


def _of_pairs(samples: Sequence[RuleSample]) -> dict[str, Any]:
    """The arguments of a question about the rise of an ECE."""
    pairs = [sample.pair for sample in samples]
    # how much weeks move the hit rates of each window against its baseline's
    between = [each.given.week.correlation * sum(1 / weeks for weeks in each.weeks_of_each) for each in samples]
    return {"pairs": pairs, "between": between, "confidence": samples[0].evaluation.confidence}


def beyond_alone(samples: Sequence[RuleSample]) -> list[Group]:
    """For each sample by itself: ``n``, the judged ``value`` (or increase), and whether it is ``beyond``.

    For a plain rule, fewer rows than it needs are never beyond the threshold: no p-value guards against chance.
    """
    found: list[Group] = [{"n": each.counts.rows, "value": None, "beyond": False} for each in samples]
    binned_ = [(place, in_bins(sample)) for place, sample in enumerate(samples) if sample.counts.w.any()]
    usable = [(place, sample) for place, sample in binned_ if sample.usable]
    for (place, sample), (now, then, _) in zip(usable, _values([sample for _, sample in usable]), strict=True):
        rule, enough = sample.rule, sample.enough or not sample.rule.is_plain
        found[place] |= {"value": _value(rule, now, then), "beyond": enough and exceeds_threshold(rule, now, then)}
    return found


def exceeds_threshold(rule: Rule, now: Interval, then: Interval | None) -> bool:
    """Whether the value that the rule judges, or its change since the baseline, is past the threshold."""
    found = _value(rule, now, then)
    if found is None:
        return False
    if rule.condition == "decrease":
        return -found > rule.threshold
    return found < rule.threshold if rule.condition == "below" else found > rule.threshold


def rows_needed(rule: Rule, evaluation: EvaluationConfig) -> int:
    """The number of rows below which a rule is not evaluated; of an ECE at least 125, since it is tested."""
    return max(_rows_asked(rule, evaluation), LEAST_ROWS_OF_ECE if rule.measure in ECES and not rule.is_plain else 1)


def raised_rows(rule: Rule, evaluation: EvaluationConfig) -> str:
    """Why a rule needs more rows than its ``min_samples`` says; "" where it does not.

    >>> raised_rows(Rule(id="x", metric="ece", threshold=0.05, min_samples=50), EvaluationConfig())
    'min_samples: 50 is taken as 125: in fewer rows the p-values of an ECE are too small; overconfidence needs fewer'
    """
    asked, needed = _rows_asked(rule, evaluation), rows_needed(rule, evaluation)
    if asked >= needed:
        return ""
    why = "in fewer rows the p-values of an ECE are too small; overconfidence needs fewer"
    return f"min_samples: {asked} is taken as {needed}: {why}"


def _rows_asked(rule: Rule, evaluation: EvaluationConfig) -> int:
    return rule.min_samples if rule.min_samples is not None else evaluation.min_samples


def accepted_fall(rule: Rule) -> float:
    """The fall that a decrease rule accepts: its p-value is for a larger fall."""
    return rule.threshold * ACCEPTED_FALL


def _value(rule: Rule, now: Interval, then: Interval | None) -> float | None:
    if rule.value == "plug_in":
        now = replace(now, value=now.plug_in)
        then = None if then is None else replace(then, value=then.plug_in)
    return _increase(now, then) if rule.compares else now.value


def textbook_detail(rule: Rule, now: Interval, then: Interval | None) -> VerdictDetail:
    """The detail of a rule on textbook values: that it judges these, and those of baseline and change; else empty."""
    if rule.value != "plug_in":
        return {}
    if then is None:
        return {"judged": rule.value}
    return {"judged": rule.value, "textbook_baseline": then.plug_in, "textbook_change": _value(rule, now, then)}


def _increase(now: Interval, then: Interval | None) -> float | None:
    return None if then is None or now.value is None or then.value is None else now.value - then.value


def in_bins(sample: RuleSample) -> RuleSample:
    """The sample with the bins of a binned metric: the baseline's, where there is one."""
    if sample.rule.measure not in BINNED:
        return sample
    aligned: Aligned | None = None
    tables: tuple[BinCounts, ...]
    if sample.rule.condition == "increase":
        aligned = align(sample.counts, sample.frozen, _edges(sample), sample.evaluation.bins)
        tables = (aligned.window, aligned.baseline)
    else:
        tables = (binned(sample.counts, _edges(sample)),)
    # on both windows together, so that both are measured in the same bins
    merged = merge_thin(tables) if sample.rule.measure == "mce" and (aligned is None or aligned.usable) else ()
    return replace(sample, tables=tables, aligned=aligned, merged=tuple(merged))


def _edges(sample: RuleSample) -> tuple[int, ...]:
    if sample.given.baseline is not None:
        return sample.given.baseline.edges[sample.rule.where]
    return population_edges(sample.counts, sample.evaluation)


def _values(samples: Sequence[RuleSample]) -> list[tuple[Interval, Interval | None, VerdictDetail]]:
    """The metric of each window, of its baseline where the rule compares, and the worst bin of an MCE in the window."""
    if not samples:
        return []
    values = _intervals(samples, WINDOW)
    if not samples[0].rule.compares:
        return [(now, None, worst) for now, worst in values]
    frozen = zip(values, _intervals(samples, BASELINE), strict=True)
    return [(now, then, worst) for (now, worst), (then, _) in frozen]


def _intervals(samples: Sequence[RuleSample], side: int) -> list[tuple[Interval, VerdictDetail]]:
    """The metric of each window (or of its baseline: ``side``) with its limits, and the worst bin of an MCE."""
    measure = samples[0].rule.measure
    if measure == "mce":  # of merged bins, with the plug-in value of those that are not merged
        results = intervals_of_mce([(sample.merged[side],) for sample in samples], samples[0].evaluation.confidence)
        found = []
        for sample, result in zip(samples, results, strict=True):
            gaps = np.abs(stack([sample.tables[side]]).gap[0])
            textbook = float(gaps.max(initial=0.0)) if result.interval.value is not None else None
            worst = worst_bin(result) if sample.rule.value == "debiased" else _textbook_worst(sample.tables[side])
            found.append((replace(result.interval, plug_in=textbook), worst))
        return found
    if measure == "ece":
        # at depth 1 with the random numbers of the window's estimate, so that both show the same number; a baseline has
        # its own, so that its value is the same every week
        requests = [(sample.tables[side], sample.given.subject, _seed_name(sample, side)) for sample in samples]
        eces = each_ece(requests, samples[0].rule.where, samples[0].evaluation)
        return [(interval, {}) for interval in eces]
    sides = [sample.counts if side == WINDOW else sample.frozen for sample in samples]
    laws = [_law(sample, counts) for sample, counts in zip(samples, sides, strict=True)]
    return [(levels.interval_of(law, samples[0].evaluation.confidence), {}) for law in laws]


def _seed_name(sample: RuleSample, side: int) -> str:
    """The name that seeds the random numbers of a window, or of its baseline.

    Of one of several windows that a rule asks for, whose own name may not be known: that of the judged one and 0.
    """
    given, first = sample.given, sample.first
    if side != WINDOW:
        return f"baseline {_required(given.baseline).version}"
    if first > len(given.before):
        return f"{given.window.name}+0"
    window = given.before[first - 1] if first else given.window
    return window.name if sample.depth == 1 else f"{window.name}+{sample.depth}"


def _textbook_worst(bins: BinCounts) -> VerdictDetail:
    """The bin of the textbook MCE: the largest gap of the unmerged bins; empty without rows."""
    gap = np.where(bins.w > 0, bins.rate - bins.score, 0.0)
    worst = int(np.abs(gap).argmax())
    if not bins.w.any():
        return {}
    return {"worst_range": list(bins.range_of(worst)), "worst_n": int(bins.n[worst]), "worst_gap": float(gap[worst])}


def _law(sample: RuleSample, counts: Counts) -> levels.Law | None:
    """The sampling law of the metric of these rows, computed once and kept; None where it is undefined."""
    return kept_with(counts, ("law", sample.metric), lambda: levels.law_of(sample.metric, counts))


def _tested(samples: Sequence[RuleSample]) -> list[BinCounts]:
    return [(sample.merged or sample.tables)[WINDOW] for sample in samples]


def _measured(
    sample: RuleSample, p_value: float | None, now: Interval, then: Interval | None, worst: VerdictDetail
) -> Comparison:
    rule, given = sample.rule, sample.given
    blocked: VerdictDetail = {}
    if "block_scores" in rule.actions and sample.tables and not rule.compares:
        # the score ranges that are significantly beyond; of a plain rule the unmerged bins whose gap is
        bins = sample.tables[WINDOW]
        far = np.flatnonzero((bins.w > 0) & (np.abs(bins.rate - bins.score) > rule.threshold))
        sure = breaching_bins(bins, rule.threshold, sample.evaluation.confidence)
        ranges = [bins.range_of(int(index)) for index in far] if rule.is_plain else sure
        blocked = {"blocked": [list(each) for each in ranges]}
    found = Comparison(
        given.subject, given.window, value=now.value, low=now.low, high=now.high, plug_in=now.plug_in, p_value=p_value,
        beyond=exceeds_threshold(rule, now, then), detail={**worst, **blocked, **textbook_detail(rule, now, then)},
    )  # fmt: skip
    return found if then is None else _changed(sample, found, now, then)


def _changed(sample: RuleSample, found: Comparison, now: Interval, then: Interval) -> Comparison:
    """What was found, with the change from the baseline."""
    rule, evaluation, aligned = sample.rule, sample.evaluation, sample.aligned
    accepted: VerdictDetail = {"accepted": accepted_fall(rule)} if rule.condition == "decrease" else {}
    found = replace(found, baseline=then.value, change=_increase(now, then), detail={**found.detail, **accepted})
    if found.p_value is None or found.change is None:
        return replace(found, p_value=None)
    # only the reason of a breach depends on whether the traffic, or the share of true items, changed
    may_be_breach = found.p_value < evaluation.false_discovery_rate
    asks_traffic = rule.measure == "ece" and may_be_breach
    p_rate = ece_rate_p(*sample.pair, confidence=evaluation.confidence) if asks_traffic else None
    rebinned: VerdictDetail = (
        {"rebinned": True, "comparable": aligned.comparable} if aligned and aligned.rebinned else {}
    )
    mix = explained_by_mix(sample) if may_be_breach else VerdictDetail()
    low, high = mover(then, now)
    detail: VerdictDetail = {**found.detail, **rebinned, **mix}
    return replace(found, change_low=low, change_high=high, p_rate=p_rate, detail=detail)


def explained_by_mix(sample: RuleSample) -> VerdictDetail:
    """Whether a changed share of true items alone explains a label's change; empty where it cannot.

    It does where only the share changed and the rows are no breach beside the baseline's at the new share. It cannot
    where every row is a label that was given, since the share of true items is then the accuracy.
    Of all labels together nothing is said: one label at fault looks like another share of true items among them.
    """
    given, rows, baseline = sample.given, sample.rows, _required(sample.given.baseline)
    if given.subject.label is None or rows.score_is != "probability_of_label" or given.new_version:
        return {}
    week, lately, frozen = (binned(each, baseline.edges["all"]) for each in (rows, pool(given.counts), baseline.counts))
    found = class_mix(week, frozen, lately)
    if found is None or not all(bool((each.predicted == 0).any()) for each in (rows, baseline.counts)):
        return {}
    at_new = replace(baseline, counts=at_share(baseline.counts, found.told))
    # no excuse where rows that act lost more accuracy than another share brings
    fall = levels.change_p("automated_accuracy", rows, at_new.counts, falls=True)
    if fall is not None and fall < sample.decision_rate:
        return {}
    ((then, _),) = _intervals([sample], BASELINE)
    expected, is_breach = _beside_expected(in_bins(replace(sample, given=replace(given, baseline=at_new))))
    numbers: ClassMixFacts = {
        "now": found.now,
        "then": found.then,
        "told": found.told,
        "p_value": found.p_value,
        "fit": found.fit,
        "scores": found.scores,
        "is_separable": found.is_separable,
        "expected_rise": expected - (then.value or 0.0),
        "explains": found.only_share_changed and not is_breach,
    }
    return {"class_mix": numbers}


def _beside_expected(sample: RuleSample) -> tuple[float, bool]:
    """The metric of the baseline at the new share, and whether the rows would be a breach beside it.

    A rule whose evidence is of more windows than these does not ask whether these alone are significant.
    """
    if not sample.usable:
        return 0.0, True
    ((now, then, _),) = _values([sample])
    (p_value,) = p_values_of([sample])
    is_sure = p_value is not None and p_value < sample.decision_rate
    value = 0.0 if then is None else then.value or 0.0
    return value, (is_sure or sample.rule.accumulates) and exceeds_threshold(sample.rule, now, then)


def _direction(rule: Rule) -> dict[str, Any]:
    """The arguments that say in which direction the rule looks for a change, and what it accepts."""
    return {"falls": True, "accepted": accepted_fall(rule)} if rule.condition == "decrease" else {}


def _detectables(samples: Sequence[RuleSample]) -> list[float | None]:
    """The smallest change, or distance from the threshold, that the rows of each label could show."""
    rule, rate, side = samples[0].rule, samples[0].decision_rate, side_of(samples[0].rule)
    if rule.measure in BINNED and not rule.compares:
        distances = mce_level_detectables if rule.measure == "mce" else ece_level_detectables
        return distances(_tested(samples), rule.threshold, rate=rate, side=side)
    if not rule.compares:
        laws = [_law(sample, sample.counts) for sample in samples]
        return [None if law is None else law.detectable(rule.threshold, side, rate) for law in laws]
    if rule.measure == "mce":
        return mce_increase_detectables([sample.pair_by_week for sample in samples], rate=rate)
    if rule.measure == "ece":
        return ece_increase_detectables(rate=rate, **_of_pairs(samples))
    return [
        levels.detectable_change(
            sample.metric,
            *levels.by_week(sample.counts, sample.frozen, sample.week_effects),
            sample.given.week.rate(rate),
            **_direction(rule),
        )
        for sample in samples
    ]


def side_of(rule: Rule) -> Side:
    """The side of its threshold on which a rule on a level is in breach."""
    return "below" if rule.condition == "below" else "above"


def _required(part: T | None) -> T:
    if part is None:
        raise AssertionError("a sample lacks what its rule measures")
    return part
