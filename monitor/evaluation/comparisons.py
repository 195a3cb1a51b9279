"""(rule, counts, baseline) -> evidence: what was measured, compared with what, and how significant it is.

A :class:`~monitor.core.records.Comparison` is about one subject: ``verdicts.py`` adjusts p-values over the
family and decides the outcome. This module chooses and pools windows; ``rule_metrics.py`` measures
in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import ROLLING, Baseline
from monitor.core.counts import Counts, pool
from monitor.core.records import Comparison, DecisionCheck, Reason, ShiftResult, Subject, Window
from monitor.evaluation.rule_metrics import (
    Measurement,
    RuleSample,
    beyond_alone,
    exceeds_threshold,
    rows_needed,
    rows_of,
    see,
    textbook_detail,
    with_detectability,
)
from monitor.inference.memory import kept_with
from monitor.metrics.selective import OF_AUTOMATED


@dataclass(frozen=True, slots=True, eq=False)
class RuleInput:
    """Everything that a rule may use for one subject.

    ``counts`` are newest first: the window itself, then the windows before it that may be pooled
    with it (not past the baseline's end, not across model versions). ``problem`` says why nothing can be
    measured; ``detail`` has the facts to store with that, or with the reference. ``parameters`` are the
    metric's for this subject (``MetricSpec.parameters``).
    """

    subject: Subject
    window: Window
    counts: tuple[Counts, ...] = ()
    baseline: Baseline | None = None
    shifts: tuple[ShiftResult, ...] = ()
    problem: Reason | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[float, ...] = ()

    @property
    def baseline_version(self) -> int | None:
        """The version of the pinned baseline; None without one, and where the weeks before are the reference."""
        return None if self.baseline is None or self.baseline.version == ROLLING else self.baseline.version

    @property
    def reference(self) -> dict[str, Any]:
        """The stored facts about the weeks before, where they are the reference; else empty."""
        weeks = self.detail.get("reference")
        return {} if weeks is None else {"reference": weeks}

    def digest(self, used: Sequence[Counts]) -> str:
        """A hash of the judged cells, and of those of the weeks before where these are the reference."""
        before = [self.baseline.counts] if self.baseline is not None and self.baseline.version == ROLLING else []
        return digest_of([*used, *before])

    @property
    def in_baseline(self) -> bool:
        """Whether the window overlaps the weeks of its own baseline."""
        return self.baseline is not None and self.baseline.overlaps(self.window)


def compare(rule: Rule, material: RuleInput, evaluation: EvaluationConfig) -> Comparison:
    """The evidence for one rule on one subject: :func:`compare_family` of one."""
    return compare_family(rule, [material], evaluation)[0]


def compare_family(rule: Rule, materials: Sequence[RuleInput], evaluation: EvaluationConfig) -> list[Comparison]:
    """The evidence for one rule on each of several subjects, computed together.

    Windows are pooled until the rows could show a change that matters. Where even all windows
    could not, the evidence of all of them is returned with ``adequate`` False. The result of a subject does not
    depend on the others.
    """
    found: dict[int, Comparison] = {}
    asked = [
        gates(rule, material, has_rows=any(rows_of(rule, counts).w.any() for counts in material.counts))
        for material in materials
    ]
    for place, material in enumerate(materials):
        problem = asked[place][1]
        if problem is not None:
            found[place] = without_evidence(material, problem)
        elif rule.test is not None:
            found[place] = _shift_evidence(rule, material, evaluation)
    left = [place for place in range(len(materials)) if place not in found]
    looks = _looks(rule, [materials[place] for place in left], evaluation)
    chosen = {place: look for place, look in zip(left, looks, strict=True) if look is not None}
    found |= dict(zip(chosen, _evidence([(look, materials[at]) for at, look in chosen.items()]), strict=True))
    return [
        replace(found[place], checks=(*asked[place][0], *found[place].checks))
        if place in found
        else _without_full_group(rule, material)
        for place, material in enumerate(materials)
    ]


def _looks(rule: Rule, materials: Sequence[RuleInput], evaluation: EvaluationConfig) -> list[RuleSample | None]:
    """The rows to measure of each subject: as few windows as suffice, else all of them; None without rows."""
    deepest = [1 if rule.is_plain else max(1, len(each.counts) // rule.for_windows) for each in materials]
    found: list[RuleSample | None] = [None] * len(materials)
    open_ = set(range(len(materials)))
    for depth in range(1, max(deepest, default=0) + 1):
        tried = {
            place: look
            for place in sorted(open_)
            for look in [_tried(rule, materials[place], evaluation, depth, last=depth == deepest[place])]
            if look is not None
        }
        seen = with_detectability(list(tried.values()), [depth == deepest[place] for place in tried])
        for place, look in zip(tried, seen, strict=True):
            if look.adequate or depth == deepest[place]:
                found[place] = look
                open_.discard(place)
        open_ = {place for place in open_ if deepest[place] > depth}
    return found


def _tried(
    rule: Rule, material: RuleInput, evaluation: EvaluationConfig, depth: int, *, last: bool
) -> RuleSample | None:
    """The rows of ``depth`` pooled windows for each one that the rule asks for; None if they need not be measured.

    That is so without weight, and with too few rows unless this depth is the ``last``. A plain rule pools no windows.
    """
    sample = rows_of(rule, pooled(material.counts[: 1 if rule.is_plain else depth * rule.for_windows]))
    look = RuleSample(
        sample, rule, material.subject, material.window, material.baseline, evaluation, depth, material.parameters
    )
    return look if sample.w.any() and (last or look.enough) else None


def pooled(counts: Sequence[Counts]) -> Counts:
    """The windows as one sample, pooled once for all rules."""
    newest, *older = counts
    if not older:
        return newest
    # weak references: a result kept with a window must not keep the windows before it alive
    return kept_with(newest, ("pool", *map(ref, older)), lambda: pool(counts))


def gates(rule: Rule, material: RuleInput, *, has_rows: bool) -> tuple[tuple[DecisionCheck, ...], Reason | None]:
    """The checks before measuring, up to the first that fails, and the reason of that one; None where all pass."""
    asked: list[DecisionCheck] = []
    for check, problem in _gates(rule, material, has_rows=has_rows):
        asked.append(check)
        if not check.passed:
            return tuple(asked), problem
    return tuple(asked), None


def _gates(rule: Rule, material: RuleInput, *, has_rows: bool) -> Iterator[tuple[DecisionCheck, Reason | None]]:
    problem, version = material.problem, ("baseline_version",)
    yield DecisionCheck("readable", problem in (None, Reason.REJECTED_ROWS, Reason.NOT_MATURE)), problem
    if problem is Reason.REJECTED_ROWS:
        yield DecisionCheck("accepted", False, ("rejected",)), problem
    if problem is not None:
        yield DecisionCheck("mature", False, ("maturity",)), problem
    yield DecisionCheck("rows", has_rows, ("n",)), Reason.NO_ROWS
    yield DecisionCheck("outside_baseline", not material.in_baseline, version), Reason.IN_BASELINE
    # Only rules that compare need a baseline: a level rule protects people without one.
    if rule.compares or rule.test is not None:
        yield DecisionCheck("baseline", material.baseline is not None, version), Reason.NO_BASELINE


def without_evidence(material: RuleInput, problem: Reason, checks: tuple[DecisionCheck, ...] = ()) -> Comparison:
    """A comparison without numbers, with the reason why nothing was measured."""
    rows = material.counts[0].rows if material.counts else 0
    return Comparison(
        material.subject,
        material.window,
        n=rows,
        problem=problem,
        baseline_version=material.baseline_version,
        data_digest=digest_of(material.counts[:1]),
        detail=material.detail,
        checks=checks,
    )


def _without_full_group(rule: Rule, material: RuleInput) -> Comparison:
    """No evidence: only windows older than the groups that the rule asks for have rows."""
    checks, _ = gates(rule, material, has_rows=False)
    return replace(without_evidence(material, Reason.NO_ROWS), checks=checks)


def digest_of(counts: Sequence[Counts]) -> str:
    """A hash of the cells of several windows."""
    return hashlib.sha256(" ".join(c.digest() for c in counts).encode()).hexdigest()[:16]


def _evidence(chosen: Sequence[tuple[RuleSample, RuleInput]]) -> list[Comparison]:
    """The comparison of each subject over the windows that were chosen for it."""
    used = [material.counts[: look.depth * look.rule.for_windows] for look, material in chosen]
    usable = [place for place, (look, _) in enumerate(chosen) if look.usable]
    seen = dict(zip(usable, see([chosen[place][0] for place in usable]), strict=True))
    alone = dict(zip(usable, _alone([(chosen[place][0], used[place]) for place in usable]), strict=True))
    newest = _newest_alone({place: (chosen[place][0], used[place][0], seen[place]) for place in usable})
    return [
        _seen_evidence(look, material, used[place], seen[place], {"groups": alone[place], **newest.get(place, {})})
        if place in seen
        else _moved_evidence(look, material, used[place])
        for place, (look, material) in enumerate(chosen)
    ]


def _comparable(look: RuleSample) -> tuple[DecisionCheck, ...]:
    """The check that scores can be compared with the baseline's; none for a rule that does not align bins."""
    check = DecisionCheck("comparable", look.usable, ("moved_share", "comparable"))
    return () if look.aligned is None else (check,)


def _moved_evidence(look: RuleSample, material: RuleInput, used: Sequence[Counts]) -> Comparison:
    """No evidence: the scores cannot be compared with the baseline's."""
    found = replace(without_evidence(material, Reason.SCORES_MOVED), n=look.sample.rows, windows=len(used))
    if look.aligned is None:
        return found
    detail = {**material.reference, "moved_share": look.aligned.moved_share, "comparable": look.aligned.comparable}
    return replace(found, detail=detail, checks=_comparable(look))


def times_judged(rule: Rule, windows: int) -> int:
    """How often each row is judged if ``windows`` are pooled: the factor of the p-value.

    Four pooled weeks share three weeks with the four of the next run, one more chance of a false alarm. A level needs
    no such factor: a healthy label lies well within it, while an unchanged one lies where a test of change errs most.
    """
    return windows if rule.compares and not rule.is_plain else 1


def _seen_evidence(
    look: RuleSample, material: RuleInput, used: Sequence[Counts], seen: Measurement, parts: dict[str, Any]
) -> Comparison:
    rule, now, then, alone = look.rule, seen.now, seen.then, parts["groups"]
    times = times_judged(rule, len(used))
    repeated = {"times_judged": times} if times > 1 and seen.p_value is not None else {}
    return Comparison(
        material.subject, material.window,
        value=now.value, low=now.low, high=now.high, plug_in=now.plug_in,
        baseline=then.value if then is not None else None,
        change=seen.change, change_low=seen.limits[0], change_high=seen.limits[1],
        p_value=None if seen.p_value is None else min(1.0, seen.p_value * times),
        p_rate=seen.p_rate, detectable=look.detectable, n=look.sample.rows, windows=1 if rule.is_plain else len(used),
        beyond=exceeds_threshold(rule, now, then),
        streak=rule.for_windows == 1 or (len(alone) == rule.for_windows and all(group["beyond"] for group in alone)),
        adequate=look.adequate, baseline_version=material.baseline_version,
        data_digest=material.digest(used),
        detail={
            **material.reference, **repeated,
            **seen.detail, "confidence": look.evaluation.confidence, "rows_needed": look.minimum,
            "seen_at_most": look.largest_allowed, **_behind(look.sample, rule.measure),
            "asks": rule.for_windows, **parts, **textbook_detail(rule, now, then),
        },
        checks=_comparable(look),
    )  # fmt: skip


def _behind(sample: Counts, metric: str) -> dict[str, Any]:
    """The numbers behind a measurement, stored so that a verdict can be explained years later.

    ``promised`` is the mean score and ``kept`` the hit rate of the rows that the metric measures; ``of`` names these
    rows where they are not all.
    """
    acted = sample.where("automated") if metric in OF_AUTOMATED else sample
    measured = acted if acted.w.any() else sample
    total = float(measured.w.sum())
    return {
        "promised": float(measured.ws.sum()) / total,
        "kept": float(measured.wy.sum()) / total,
        "effective_rows": sample.effective_rows,
        "design_effect": sample.design_effect,
        **({} if measured is sample else {"of": "automated"}),
    }


def _alone(chosen: Sequence[tuple[RuleSample, Sequence[Counts]]]) -> list[list[dict[str, Any]]]:
    """For each window, or group of windows, of a `for` rule: whether it alone is beyond the threshold."""
    groups = [
        [] if look.rule.for_windows == 1 else [used[i : i + look.depth] for i in range(0, len(used), look.depth)]
        for look, used in chosen
    ]
    found = iter(
        beyond_alone([(look, pooled(group)) for (look, _), own in zip(chosen, groups, strict=True) for group in own])
    )
    return [[{"windows": len(group), **next(found)} for group in own] for own in groups]


def _newest_alone(looks: Mapping[int, tuple[RuleSample, Counts, Measurement]]) -> dict[int, dict[str, Any]]:
    """The value of the newest window alone, for each subject whose pooled windows are beyond the threshold.

    ``too_few`` where the window has no value or fewer rows than the rule needs: it then says nothing.
    """
    asked = {
        place: (look, counts)
        for place, (look, counts, seen) in looks.items()
        if look.depth > 1 and exceeds_threshold(look.rule, seen.now, seen.then)
    }
    found = zip(asked.items(), beyond_alone(list(asked.values())), strict=True)
    return {
        place: {"newest_alone": {**alone, "too_few": alone["n"] < look.minimum or alone["value"] is None}}
        for (place, (look, _)), alone in found
    }


def _shift_evidence(rule: Rule, material: RuleInput, evaluation: EvaluationConfig) -> Comparison:
    """A rule on a distribution test: the effect size against the threshold."""
    column = rule.column or "score"
    found = [s for s in material.shifts if s.test == rule.test and s.column == column]
    statistic = found[0].statistic if found else None
    checks = (DecisionCheck("test_result", statistic is not None, ("value",)),)
    if statistic is None:
        return replace(without_evidence(material, Reason.TOO_FEW_ROWS), checks=checks)
    result = found[0]
    minimum = rows_needed(rule, evaluation)
    beyond = statistic < rule.threshold if rule.condition == "below" else statistic > rule.threshold
    return Comparison(
        material.subject, material.window, value=statistic, plug_in=statistic,
        p_value=result.p_value, n=result.n, beyond=beyond, adequate=result.n >= minimum,
        baseline_version=material.baseline_version,
        data_digest=material.digest(material.counts[:1]),
        detail={
            **material.reference, **result.detail, "column": column, "rows_needed": minimum,
            "n_baseline": result.n_baseline,
        },
        checks=checks,
    )  # fmt: skip
