"""Rows, as one rule measures them: the value, its p-value, and the smallest change that they could show.

The labels of one family are looked at together, since the same arithmetic for twenty of them takes hardly longer than
for one. There is one :class:`_Kind` for each pair of what is measured (ece, mce, or a metric without bins) and how
(a level, or an increase over the baseline).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import Baseline, population_edges
from monitor.core.counts import BinCounts, Counts
from monitor.core.records import Interval, Subject, Where, Window
from monitor.evaluation.estimates import ece_of, generator, worst_bin
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
from monitor.inference.memory import each_by_content, kept_with
from monitor.inference.merging import merge_thin
from monitor.inference.registered import largest_allowed as level_allowed
from monitor.metrics.definition import MetricSpec

BINNED = ("ece", "mce")
POWER = 0.8
T = TypeVar("T")
Values = tuple[Interval, Interval | None]
"""What a rule looks at, now and in the baseline."""


@dataclass(frozen=True, slots=True, eq=False)
class RuleSample:
    """``sample``, the rows of one or more windows up to ``window``, as one rule looks at them.

    ``depth`` windows were pooled for each of the k windows that the rule asks for (0: one of those k alone). A
    binned metric is looked at in ``bins``; one that is compared with its baseline ``aligned`` with it. ``merged`` are
    the bins in which an MCE is looked at, and the baseline's.
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
    bins: BinCounts | None = None
    aligned: Aligned | None = None
    merged: tuple[BinCounts, ...] = ()
    detectable: float | None = None

    @property
    def metric(self) -> MetricSpec:
        """What is measured."""
        return MetricSpec(self.rule.measure, self.parameters)

    @property
    def usable(self) -> bool:
        """Whether its scores can be compared with the baseline's, where that is asked."""
        return self.aligned is None or self.aligned.usable

    @property
    def frozen(self) -> Counts:
        """The rows of the baseline that the rule is about."""
        return rows_of(self.rule, _given(self.baseline).counts)

    @property
    def minimum(self) -> int:
        """The rows that are needed."""
        own = self.rule.min_samples
        return own if own is not None else self.evaluation.min_samples

    @property
    def enough(self) -> bool:
        """Whether there are the rows that are needed."""
        return self.sample.rows >= self.minimum

    @property
    def largest_allowed(self) -> float:
        """The largest detectable change with which "nothing was found" still says something (docs/statistics.md)."""
        rule = self.rule
        return 2 * rule.threshold if rule.condition == "increase" else level_allowed(rule.measure, rule.threshold)

    @property
    def adequate(self) -> bool:
        """Whether there are rows enough, and a change that matters would have been seen with 80% power."""
        return self.enough and self.detectable is not None and self.detectable <= self.largest_allowed


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
        """The debiased increase over the baseline; None of a level."""
        return _increase(self.now, self.then)


def with_detectability(looks: Sequence[RuleSample], last: Sequence[bool]) -> list[RuleSample]:
    """The rows of several labels in bins, where their rule's metric has any, with what they could show.

    Where more rows can be had (not ``last``), ``detectable`` may stay None if it is certainly more than is allowed:
    these rows are passed over whatever it is, and to know that much takes a fraction of the time.
    """
    found = [_in_bins(look) for look in looks]
    asked = [place for place, look in enumerate(found) if look.usable]
    if not asked:
        return found
    within = [None if last[place] else found[place].largest_allowed for place in asked]
    could = _kind(found[0].rule).detectable([found[place] for place in asked], within)
    for place, detectable in zip(asked, could, strict=True):
        found[place] = replace(found[place], detectable=detectable)
    return found


def see(looks: Sequence[RuleSample]) -> list[Measurement]:
    """What is seen of several labels by one rule; the aligned windows, if it needs them, must be usable."""
    return _kind(looks[0].rule).seen(looks) if looks else []


def beyond_alone(groups: Sequence[tuple[RuleSample, Counts]]) -> list[dict[str, Any]]:
    """Other rows by themselves: ``n``, the debiased ``value`` (or increase), and if it is ``beyond`` the threshold."""
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
    for place, values in zip(asked, _kind(rule).values([alone[place] for place in asked]), strict=True):
        found[place] |= {"value": _found(rule, *values), "beyond": exceeds_threshold(rule, *values)}
    return found


def exceeds_threshold(rule: Rule, now: Interval, then: Interval | None) -> bool:
    """Whether the debiased value, or its increase over the baseline, is past the threshold."""
    found = _found(rule, now, then)
    if found is None:
        return False
    return found < rule.threshold if rule.condition == "below" else found > rule.threshold


def rows_of(rule: Rule, counts: Counts) -> Counts:
    """The rows that the rule is about."""
    if rule.where == "all":
        return counts  # kept with themselves they would never go
    return kept_with(counts, ("where", rule.where), lambda: counts.where(rule.where))


def _found(rule: Rule, now: Interval, then: Interval | None) -> float | None:
    return _increase(now, then) if rule.condition == "increase" else now.value


def _increase(now: Interval, then: Interval | None) -> float | None:
    return None if then is None or now.value is None or then.value is None else now.value - then.value


def _in_bins(look: RuleSample) -> RuleSample:
    """The bins in which a binned metric is looked at: the baseline's, where there is one."""
    if look.rule.measure not in BINNED:
        return look
    if look.rule.condition == "increase":
        aligned = align(look.sample, look.frozen, _edges(look), look.evaluation.bins)
        merged = _merged(look, [aligned.window, aligned.baseline] if aligned.usable else [])
        return replace(look, bins=aligned.window, aligned=aligned, merged=merged)
    bins = binned(look.sample, _edges(look))
    return replace(look, bins=bins, merged=_merged(look, [bins]))


def _merged(look: RuleSample, tables: Sequence[BinCounts]) -> tuple[BinCounts, ...]:
    """The bins of an MCE: thin ones are merged once, on both windows together, so that both see the same bins."""
    return tuple(merge_thin(tables)) if look.rule.measure == "mce" else ()


def _edges(look: RuleSample) -> tuple[int, ...]:
    if look.baseline is not None:
        return look.baseline.edges[look.rule.where]
    return population_edges(look.sample, look.evaluation)


def _eces_now(looks: Sequence[RuleSample]) -> list[Interval]:
    # Depth 1 draws what the estimate of the window drew, so that both show the same number.
    names = [look.window.name if look.depth == 1 else f"{look.window.name}+{look.depth}" for look in looks]
    return _eces(looks, [_given(look.bins) for look in looks], names)


def _eces(looks: Sequence[RuleSample], bins: Sequence[BinCounts], names: Sequence[str]) -> list[Interval]:
    """The configured interval of tables, each from the random numbers of its label and name."""
    rule, evaluation = looks[0].rule, looks[0].evaluation
    asked = [(table, look.subject, name) for table, look, name in zip(bins, looks, names, strict=True)]
    return _each_ece(asked, rule.where, evaluation)


@each_by_content
def _each_ece(
    asked: Sequence[tuple[BinCounts, Subject, str]], where: Where, evaluation: EvaluationConfig
) -> list[Interval]:
    rngs = [generator(evaluation.seed, subject, f"ece {where}", name) for _, subject, name in asked]
    found: dict[int, Interval] = {}
    # tables of as many bins together: none is padded, so that not even the last bit depends on the others
    for width in {len(bins.n) for bins, _, _ in asked}:
        places = [place for place, (bins, _, _) in enumerate(asked) if len(bins.n) == width]
        intervals = ece_of([asked[place][0] for place in places], [rngs[place] for place in places], evaluation)
        found |= dict(zip(places, intervals, strict=True))
    return [found[place] for place in range(len(asked))]


def _ece_level_values(looks: Sequence[RuleSample]) -> list[Values]:
    return [(now, None) for now in _eces_now(looks)]


def _ece_increase_values(looks: Sequence[RuleSample]) -> list[Values]:
    # the baseline has random numbers of its own, so that its value is the same in every week
    names = [f"baseline {_given(look.baseline).version}" for look in looks]
    frozen = _eces(looks, [_given(look.aligned).baseline for look in looks], names)
    return list(zip(_eces_now(looks), frozen, strict=True))


def _ece_level(looks: Sequence[RuleSample]) -> list[Measurement]:
    rule = looks[0].rule
    p_values = ece_level_ps([_given(look.bins) for look in looks], rule.threshold, side=_side(rule))
    found = zip(looks, _ece_level_values(looks), p_values, strict=True)
    return [Measurement(now, p_value, detail=_blocked(look)) for look, (now, _), p_value in found]


def _ece_increase(looks: Sequence[RuleSample]) -> list[Measurement]:
    confidence = looks[0].evaluation.confidence
    p_values = ece_increase_ps([_both(look) for look in looks], confidence=confidence)
    found = zip(looks, _ece_increase_values(looks), p_values, strict=True)
    return [_ece_risen(look, now, then, p_value) for look, (now, then), p_value in found]


def _both(look: RuleSample) -> tuple[BinCounts, BinCounts]:
    aligned = _given(look.aligned)
    return aligned.window, aligned.baseline


def _ece_risen(look: RuleSample, now: Interval, then: Interval | None, p_value: float) -> Measurement:
    if then is None or now.value is None or then.value is None:
        return Measurement(now, None, then)
    # only the reason of a breach asks whether it was the traffic
    asked, evaluation = p_value < look.evaluation.false_discovery_rate, look.evaluation
    p_rate = ece_rate_p(*_both(look), confidence=evaluation.confidence) if asked else None
    return Measurement(now, p_value, then, mover(then, now), p_rate, _rebinned(_given(look.aligned)))


def _rebinned(aligned: Aligned) -> dict[str, Any]:
    return {"rebinned": True, "comparable": aligned.comparable} if aligned.rebinned else {}


def _mces(looks: Sequence[RuleSample]) -> list[tuple[Interval, dict[str, Any]]]:
    """The MCE of each label's merged bins, its plug-in that of the bins as they are, and the worst bin."""
    return _mces_of(looks, [(_given(look.bins), look.merged[0]) for look in looks])


def _mces_of(
    looks: Sequence[RuleSample], tables: Sequence[tuple[BinCounts, BinCounts]]
) -> list[tuple[Interval, dict[str, Any]]]:
    results = intervals_of_mce([(merged,) for _, merged in tables], looks[0].evaluation.confidence)
    found = []
    for (bins, _), result in zip(tables, results, strict=True):
        textbook = largest_gap(stack([bins])) if result.interval.value is not None else None
        worst = worst_bin(result.worst_range, result.worst_n, result.worst_gap)
        found.append((replace(result.interval, plug_in=textbook), worst))
    return found


def _mce_level_values(looks: Sequence[RuleSample]) -> list[Values]:
    return [(now, None) for now, _ in _mces(looks)]


def _frozen_mces(looks: Sequence[RuleSample]) -> list[Interval]:
    tables = [(_given(look.aligned).baseline, look.merged[1]) for look in looks]
    return [then for then, _ in _mces_of(looks, tables)]


def _mce_increase_values(looks: Sequence[RuleSample]) -> list[Values]:
    return [(now, then) for (now, _), then in zip(_mces(looks), _frozen_mces(looks), strict=True)]


def _mce_level(looks: Sequence[RuleSample]) -> list[Measurement]:
    rule = looks[0].rule
    p_values = mce_level_ps([look.merged[0] for look in looks], rule.threshold, side=_side(rule))
    found = zip(looks, _mces(looks), p_values, strict=True)
    return [Measurement(now, p_value, detail=worst | _blocked(look)) for look, (now, worst), p_value in found]


def _mce_increase(looks: Sequence[RuleSample]) -> list[Measurement]:
    p_values = mce_increase_ps([_merged_pair(look) for look in looks])
    found = zip(looks, _mces(looks), _frozen_mces(looks), p_values, strict=True)
    return [_mce_risen(look, *seen, then, p_value) for look, seen, then, p_value in found]


def _merged_pair(look: RuleSample) -> tuple[BinCounts, BinCounts]:
    window, baseline = look.merged
    return window, baseline


def _mce_risen(look: RuleSample, now: Interval, worst: dict[str, Any], then: Interval, p_value: float) -> Measurement:
    if now.value is None or then.value is None:
        return Measurement(now, None, then)
    return Measurement(now, p_value, then, mover(then, now), detail=worst | _rebinned(_given(look.aligned)))


def _blocked(look: RuleSample) -> dict[str, Any]:
    """The score ranges that are significantly beyond the threshold, for a rule that blocks them."""
    rule, bins = look.rule, _given(look.bins)
    if "block_scores" not in rule.actions:
        return {}
    return {"blocked": [list(r) for r in breaching_bins(bins, rule.threshold, look.evaluation.confidence)]}


def _law(metric: MetricSpec, counts: Counts) -> levels.Law | None:
    """By what law the metric of these rows varies; every question about it begins there."""
    return kept_with(counts, ("law", metric), lambda: levels.law_of(metric, counts))


def _plain_interval(metric: MetricSpec, counts: Counts, evaluation: EvaluationConfig) -> Interval:
    law = _law(metric, counts)
    if law is None:
        return Interval(None, None, None, None)
    low, high = law.interval(evaluation.confidence)
    return Interval(law.value, low, high, law.value)


def _plain_level_values(looks: Sequence[RuleSample]) -> list[Values]:
    return [(_plain_interval(look.metric, look.sample, look.evaluation), None) for look in looks]


def _plain_increase_values(looks: Sequence[RuleSample]) -> list[Values]:
    return [
        (_plain_interval(metric, look.sample, look.evaluation), _plain_interval(metric, look.frozen, look.evaluation))
        for look in looks
        for metric in [look.metric]
    ]


def _plain_level(looks: Sequence[RuleSample]) -> list[Measurement]:
    found = []
    for look, (now, _) in zip(looks, _plain_level_values(looks), strict=True):
        law = _law(look.metric, look.sample)
        found.append(Measurement(now, None if law is None else law.p_value(look.rule.threshold, _side(look.rule))))
    return found


def _plain_increase(looks: Sequence[RuleSample]) -> list[Measurement]:
    found = []
    for look, (now, then) in zip(looks, _plain_increase_values(looks), strict=True):
        test = levels.increase_test(look.metric, look.sample, look.frozen, look.evaluation.confidence)
        found.append(Measurement(now, test.p_value, then, (test.low, test.high)))
    return found


def _side(rule: Rule) -> Side:
    if rule.condition == "increase":
        raise AssertionError("an increase rule is not a level rule")
    return rule.condition


def _given(part: T | None) -> T:
    if part is None:
        raise AssertionError("a look lacks what its kind of rule looks at")
    return part


def _ece_increase_detectables(looks: Sequence[RuleSample], within: Limits) -> list[float | None]:
    pairs, evaluation = [_both(look) for look in looks], looks[0].evaluation
    return ece_increase_detectables(
        pairs, rate=evaluation.false_discovery_rate, power=POWER, confidence=evaluation.confidence, within=within
    )


def _mce_increase_detectables(looks: Sequence[RuleSample], within: Limits) -> list[float | None]:
    pairs, rate = [_merged_pair(look) for look in looks], looks[0].evaluation.false_discovery_rate
    return mce_increase_detectables(pairs, rate=rate, power=POWER, within=within)


def _ece_level_detectables(looks: Sequence[RuleSample], within: Limits) -> list[float | None]:
    rule, rate = looks[0].rule, looks[0].evaluation.false_discovery_rate
    tables, side = [_given(look.bins) for look in looks], _side(rule)
    return ece_level_detectables(tables, rule.threshold, rate=rate, power=POWER, side=side, within=within)


def _mce_level_detectables(looks: Sequence[RuleSample], _: Limits) -> list[float | None]:
    rule, rate = looks[0].rule, looks[0].evaluation.false_discovery_rate
    tables = [look.merged[0] for look in looks]
    return mce_level_detectables(tables, rule.threshold, rate=rate, power=POWER, side=_side(rule))


def _plain_level_detectables(looks: Sequence[RuleSample], _: Limits) -> list[float | None]:
    rule, rate = looks[0].rule, looks[0].evaluation.false_discovery_rate
    laws = [_law(look.metric, look.sample) for look in looks]
    return [None if law is None else law.detectable(rule.threshold, _side(rule), rate, POWER) for law in laws]


def _plain_increase_detectables(looks: Sequence[RuleSample], _: Limits) -> list[float | None]:
    rate = looks[0].evaluation.false_discovery_rate
    return [levels.increase_detectable(look.metric, look.sample, look.frozen, rate) for look in looks]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one pair of metric and condition is looked at: its values alone, all that is seen, what could be seen.

    Each is asked about several labels of one rule. ``detectable`` may give None for more than its second argument,
    where that is found sooner.
    """

    values: Callable[[Sequence[RuleSample]], list[Values]]
    seen: Callable[[Sequence[RuleSample]], list[Measurement]]
    detectable: Callable[[Sequence[RuleSample], Limits], list[float | None]]


_LEVEL = {
    "ece": _Kind(_ece_level_values, _ece_level, _ece_level_detectables),
    "mce": _Kind(_mce_level_values, _mce_level, _mce_level_detectables),
}
_INCREASE = {
    "ece": _Kind(_ece_increase_values, _ece_increase, _ece_increase_detectables),
    "mce": _Kind(_mce_increase_values, _mce_increase, _mce_increase_detectables),
}
_PLAIN_LEVEL = _Kind(_plain_level_values, _plain_level, _plain_level_detectables)
_PLAIN_INCREASE = _Kind(_plain_increase_values, _plain_increase, _plain_increase_detectables)


def _kind(rule: Rule) -> _Kind:
    if rule.condition == "increase":
        return _INCREASE.get(rule.measure, _PLAIN_INCREASE)
    return _LEVEL.get(rule.measure, _PLAIN_LEVEL)
