"""Rows, as one rule looks at them: what they could show, what is seen, and how sure that is.

There is one :class:`_Kind` for each pair of what is measured (ece, mce, or a metric without bins) and how
(a level, or an increase over the baseline).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from monitor.baselines import Baseline, population_edges
from monitor.counts import BinCounts, Counts
from monitor.estimates import ece_of, generator, worst_bin
from monitor.inference import levels
from monitor.inference.alignment import Aligned, align, binned
from monitor.inference.change import (
    Side,
    ece_increase_p,
    ece_level_p,
    ece_rate_p,
    interval_of_mce,
    mce_increase_p,
    mce_level_p,
    mover,
)
from monitor.inference.detectability import (
    ece_increase_detectable,
    ece_level_detectable,
    mce_increase_detectable,
    mce_level_detectable,
)
from monitor.inference.gaps import stack
from monitor.inference.intervals import breaching_bins, merge_thin
from monitor.inference.maximum import largest_gap
from monitor.inference.memory import by_content, kept_with
from monitor.records import Interval, Subject, Where, Window
from monitor.rules.model import EvaluationConfig, Rule

BINNED = ("ece", "mce")
POWER = 0.8
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """``sample``, the rows of one or more windows up to ``window``, as one rule looks at them.

    ``depth`` windows were pooled for each of the k windows that the rule asks for (0: one of those k alone). A
    binned metric is looked at in ``bins``; one that is compared with its baseline ``aligned`` with it.
    ``detectable`` is the smallest change, or distance from the threshold, that these rows could show.
    """

    sample: Counts
    rule: Rule
    subject: Subject
    window: Window
    baseline: Baseline | None
    evaluation: EvaluationConfig
    depth: int
    bins: BinCounts | None = None
    aligned: Aligned | None = None
    detectable: float | None = None

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
        return 2 * rule.threshold if rule.condition == "increase" else max(rule.threshold, 1 - rule.threshold) / 4

    @property
    def adequate(self) -> bool:
        """Whether there are rows enough, and a change that matters would have been seen with 80% power."""
        return self.enough and self.detectable is not None and self.detectable <= self.largest_allowed


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
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


def looked_at(look: Look, *, last: bool) -> Look:
    """The rows in bins, where the metric has any, with what they could show.

    Where more rows can be had (not ``last``), ``detectable`` may stay None if it is surely more than what is allowed:
    these rows are passed over whatever it is, and to know that much takes a fraction of the time.
    """
    look = _in_bins(look)
    if look.aligned is not None and not look.aligned.usable:
        return look
    within = None if last else look.largest_allowed
    return replace(look, detectable=_kind(look.rule).detectable(look, within))


def see(look: Look) -> Seen:
    """What is seen; the aligned windows, if the rule needs them, must be usable."""
    return _kind(look.rule).seen(look)


def beyond_alone(look: Look, group: Counts) -> dict[str, Any]:
    """Other rows by themselves: ``n``, the debiased ``value`` (or increase), and if it is ``beyond`` the threshold."""
    rule, sample = look.rule, rows_of(look.rule, group)
    nothing = {"n": sample.rows, "value": None, "beyond": False}
    if not sample.w.any():
        return nothing
    alone = _in_bins(replace(look, sample=sample, depth=0))
    if alone.aligned is not None and not alone.aligned.usable:
        return nothing
    values = _kind(rule).values(alone)
    return {"n": sample.rows, "value": _found(rule, *values), "beyond": past(rule, *values)}


def past(rule: Rule, now: Interval, then: Interval | None) -> bool:
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


def _in_bins(look: Look) -> Look:
    """The bins in which a binned metric is looked at: the baseline's, where there is one."""
    if look.rule.measure not in BINNED:
        return look
    if look.rule.condition == "increase":
        aligned = align(look.sample, look.frozen, _edges(look), look.evaluation.bins)
        return replace(look, bins=aligned.window, aligned=aligned)
    return replace(look, bins=binned(look.sample, _edges(look)))


def _edges(look: Look) -> tuple[int, ...]:
    if look.baseline is not None:
        return look.baseline.edges[look.rule.where]
    return population_edges(look.sample, look.evaluation)


def _ece_now(look: Look, bins: BinCounts) -> Interval:
    # Depth 1 draws what the estimate of the window drew, so that both show the same number.
    name = look.window.name if look.depth == 1 else f"{look.window.name}+{look.depth}"
    return _ece(bins, look.subject, look.rule.where, name, look.evaluation)


@by_content
def _ece(bins: BinCounts, subject: Subject, where: Where, name: str, evaluation: EvaluationConfig) -> Interval:
    """The configured interval of one table, from the random numbers of this name."""
    return ece_of([bins], [generator(evaluation.seed, subject, f"ece {where}", name)], evaluation)[0]


def _ece_level_value(look: Look) -> tuple[Interval, Interval | None]:
    return _ece_now(look, _given(look.bins)), None


def _ece_increase_values(look: Look) -> tuple[Interval, Interval]:
    aligned, baseline = _given(look.aligned), _given(look.baseline)
    # the baseline has random numbers of its own, so that its value is the same in every week
    frozen = _ece(aligned.baseline, look.subject, look.rule.where, f"baseline {baseline.version}", look.evaluation)
    return _ece_now(look, aligned.window), frozen


def _ece_level(look: Look) -> Seen:
    bins, rule = _given(look.bins), look.rule
    now, _ = _ece_level_value(look)
    return Seen(now, ece_level_p(bins, rule.threshold, side=_side(rule)), detail=_blocked(look))


def _ece_increase(look: Look) -> Seen:
    aligned, evaluation = _given(look.aligned), look.evaluation
    window, baseline = aligned.window, aligned.baseline
    now, then = _ece_increase_values(look)
    if now.value is None or then.value is None:
        return Seen(now, None, then)
    p_value = ece_increase_p(window, baseline, confidence=evaluation.confidence)
    # only the reason of a breach asks whether it was the traffic
    asked = p_value < evaluation.false_discovery_rate
    p_rate = ece_rate_p(window, baseline, confidence=evaluation.confidence) if asked else None
    return Seen(now, p_value, then, mover(then, now), p_rate, _rebinned(aligned))


def _rebinned(aligned: Aligned) -> dict[str, Any]:
    return {"rebinned": True, "comparable": aligned.comparable} if aligned.rebinned else {}


def _mce(bins: BinCounts, merged: BinCounts, evaluation: EvaluationConfig) -> tuple[Interval, dict[str, Any]]:
    """The MCE of bins whose thin ones are ``merged``, its plug-in that of the bins as they are, and the worst bin."""
    found = interval_of_mce(merged, evaluation.confidence)
    textbook = largest_gap(stack([bins])) if found.interval.value is not None else None
    worst = worst_bin(found.worst_range, found.worst_n, found.worst_gap)
    return replace(found.interval, plug_in=textbook), worst


def _mce_level_value(look: Look) -> tuple[Interval, Interval | None]:
    bins = _given(look.bins)
    return _mce(bins, merge_thin([bins])[0], look.evaluation)[0], None


def _mce_increase_values(look: Look) -> tuple[Interval, Interval]:
    aligned = _given(look.aligned)
    both = [aligned.window, aligned.baseline]
    now, then = (_mce(b, m, look.evaluation)[0] for b, m in zip(both, merge_thin(both), strict=True))
    return now, then


def _mce_level(look: Look) -> Seen:
    bins, rule = _given(look.bins), look.rule
    merged = merge_thin([bins])[0]
    now, worst = _mce(bins, merged, look.evaluation)
    return Seen(now, mce_level_p(merged, rule.threshold, side=_side(rule)), detail=worst | _blocked(look))


def _mce_increase(look: Look) -> Seen:
    aligned, evaluation = _given(look.aligned), look.evaluation
    # thin bins are merged once, on both windows together, so that both see the same bins
    window, baseline = merge_thin([aligned.window, aligned.baseline])
    now, worst = _mce(aligned.window, window, evaluation)
    then, _ = _mce(aligned.baseline, baseline, evaluation)
    if now.value is None or then.value is None:
        return Seen(now, None, then)
    p_value = mce_increase_p(window, baseline)
    return Seen(now, p_value, then, mover(then, now), detail=worst | _rebinned(aligned))


def _blocked(look: Look) -> dict[str, Any]:
    """The score ranges that are surely beyond the threshold, for a rule that blocks them."""
    rule, bins = look.rule, _given(look.bins)
    if "block_scores" not in rule.actions:
        return {}
    return {"blocked": [list(r) for r in breaching_bins(bins, rule.threshold, look.evaluation.confidence)]}


def _law(name: str, counts: Counts) -> levels.Law | None:
    """By what law the metric of these rows varies; every question about it begins there."""
    return kept_with(counts, ("law", name), lambda: levels.law_of(name, counts))


def _plain_interval(name: str, counts: Counts, evaluation: EvaluationConfig) -> Interval:
    law = _law(name, counts)
    if law is None:
        return Interval(None, None, None, None)
    low, high = law.interval(evaluation.confidence)
    return Interval(law.value, low, high, law.value)


def _plain_level_value(look: Look) -> tuple[Interval, Interval | None]:
    return _plain_interval(look.rule.measure, look.sample, look.evaluation), None


def _plain_increase_values(look: Look) -> tuple[Interval, Interval]:
    now, then = (_plain_interval(look.rule.measure, c, look.evaluation) for c in (look.sample, look.frozen))
    return now, then


def _plain_level(look: Look) -> Seen:
    now, _ = _plain_level_value(look)
    law = _law(look.rule.measure, look.sample)
    return Seen(now, None if law is None else law.p_value(look.rule.threshold, _side(look.rule)))


def _plain_increase(look: Look) -> Seen:
    now, then = _plain_increase_values(look)
    test = levels.increase_test(look.rule.measure, look.sample, look.frozen, look.evaluation.confidence)
    return Seen(now, test.p_value, then, (test.low, test.high))


def _side(rule: Rule) -> Side:
    if rule.condition == "increase":
        raise AssertionError("an increase rule is not a level rule")
    return rule.condition


def _given(part: T | None) -> T:
    if part is None:
        raise AssertionError("a look lacks what its kind of rule looks at")
    return part


def _ece_increase_detectable(look: Look, within: float | None) -> float | None:
    aligned, evaluation = _given(look.aligned), look.evaluation
    return ece_increase_detectable(
        aligned.window, aligned.baseline, rate=evaluation.false_discovery_rate, power=POWER,
        confidence=evaluation.confidence, within=within,
    )  # fmt: skip


def _mce_increase_detectable(look: Look, within: float | None) -> float | None:
    aligned, rate = _given(look.aligned), look.evaluation.false_discovery_rate
    return mce_increase_detectable(aligned.window, aligned.baseline, rate=rate, power=POWER, within=within)


def _ece_level_detectable(look: Look, within: float | None) -> float | None:
    rule, rate = look.rule, look.evaluation.false_discovery_rate
    bins, side = _given(look.bins), _side(rule)
    return ece_level_detectable(bins, rule.threshold, rate=rate, power=POWER, side=side, within=within)


def _mce_level_detectable(look: Look, _: float | None) -> float | None:
    rule, rate = look.rule, look.evaluation.false_discovery_rate
    return mce_level_detectable(_given(look.bins), rule.threshold, rate=rate, power=POWER, side=_side(rule))


def _plain_level_detectable(look: Look, _: float | None) -> float | None:
    law, rate = _law(look.rule.measure, look.sample), look.evaluation.false_discovery_rate
    return None if law is None else law.detectable(look.rule.threshold, _side(look.rule), rate, POWER)


def _plain_increase_detectable(look: Look, _: float | None) -> float | None:
    rate = look.evaluation.false_discovery_rate
    return levels.increase_detectable(look.rule.measure, look.sample, look.frozen, rate)


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one pair of metric and condition is looked at: its values alone, all that is seen, what could be seen.

    ``detectable`` may give None for more than its second argument, where that is found sooner.
    """

    values: Callable[[Look], tuple[Interval, Interval | None]]
    seen: Callable[[Look], Seen]
    detectable: Callable[[Look, float | None], float | None]


_LEVEL = {
    "ece": _Kind(_ece_level_value, _ece_level, _ece_level_detectable),
    "mce": _Kind(_mce_level_value, _mce_level, _mce_level_detectable),
}
_INCREASE = {
    "ece": _Kind(_ece_increase_values, _ece_increase, _ece_increase_detectable),
    "mce": _Kind(_mce_increase_values, _mce_increase, _mce_increase_detectable),
}
_PLAIN_LEVEL = _Kind(_plain_level_value, _plain_level, _plain_level_detectable)
_PLAIN_INCREASE = _Kind(_plain_increase_values, _plain_increase, _plain_increase_detectable)


def _kind(rule: Rule) -> _Kind:
    if rule.condition == "increase":
        return _INCREASE.get(rule.measure, _PLAIN_INCREASE)
    return _LEVEL.get(rule.measure, _PLAIN_LEVEL)
