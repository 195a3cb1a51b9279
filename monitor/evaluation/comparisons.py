"""(rule, counts, baseline) -> evidence: what was measured, compared with what, and how significant it is.

A :class:`~monitor.core.records.Comparison` is about one subject: ``verdicts.py`` adjusts p-values over the
family and decides the outcome. This module chooses and pools windows; ``rule_metrics.py`` measures
in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts
from monitor.core.records import Checks, Comparison, DecisionCheck, Reason
from monitor.core.verdict_detail import Group, Together, VerdictDetail
from monitor.evaluation.data import RuleInput, digest_of, rows_of
from monitor.evaluation.rule_metrics import (
    BASELINE,
    WINDOW,
    RuleSample,
    beyond_alone,
    exceeds_threshold,
    in_bins,
    measurements,
    p_values_of,
    rows_needed,
    side_of,
    textbook_detail,
    with_detectability,
)
from monitor.evaluation.week_spread import BINNED
from monitor.inference.levels import MeasuredLaw, interval_of
from monitor.inference.registered import largest_allowed
from monitor.metrics.names import EXPECTED, LEAST_ROWS_OF_ECE
from monitor.metrics.selective import OF_AUTOMATED

Gate = tuple[Checks, Reason | None]
"""Checks before measuring, and the reason of the one that failed."""
LOOKS_FROM = 1 / 4
"""The share of the rows that a rule needs from which the newest of several windows is judged alone as well."""
NEAR = 0.005
"""So near a threshold, or nearer than half of it, a quicker form of interval does not say on which side a value is."""


def compare(rule: Rule, rule_input: RuleInput, evaluation: EvaluationConfig) -> Comparison:
    """The evidence for one rule on one subject: :func:`compare_family` of one."""
    return compare_family(rule, [rule_input], evaluation)[0]


def compare_family(
    rule: Rule,
    rule_inputs: Sequence[RuleInput],
    evaluation: EvaluationConfig,
    *,
    level: float | None = None,
) -> list[Comparison]:
    """The evidence for one rule on each of several subjects, computed together.

    Windows are pooled until the rows could show a change that matters, and each of the windows running that a rule asks
    for has its part of them. Where even all windows do not suffice, the evidence of all of them is returned, with
    ``adequate`` False where they could not show a change. The result of a subject does not depend on the others.
    What is beyond the threshold is of the windows since the last that was fine by itself (:func:`_since_fine`).

    ``level`` is a p-value that is significant in whatever family: changes must be detectable at that rate. Older
    windows may hide what the newest one shows: so that is judged alone as well (:func:`_looks_alone`), and is the
    evidence where it alone is a breach in any family and the pooled windows are not. None: it is not looked at.
    """

    def measured(places: Sequence[int]) -> Sequence[Comparison]:
        inputs = [rule_inputs[place] for place in places]
        if rule.test is not None:
            return [_shift_evidence(rule, each, evaluation) for each in inputs]
        samples = _samples(rule, inputs, evaluation, level)
        samples, evidence = _since_fine(samples, _evidence(samples, looks=level is not None), looks=level is not None)
        return evidence if level is None else _or_of_newest(samples, evidence, level)

    return judged(rule, rule_inputs, [_has_rows(rule, each) for each in rule_inputs], measured)


def judged(
    rule: Rule,
    family: Sequence[RuleInput],
    has_rows: Sequence[bool],
    measured: Callable[[Sequence[int]], Sequence[Comparison]],
) -> list[Comparison]:
    """The comparison of each subject: what is ``measured`` of those, by place, that pass all checks before measuring.

    The others have no evidence, with the reason of the check that fails.
    """
    gated = [gates(rule, each, has_rows=has) for each, has in zip(family, has_rows, strict=True)]
    places = [place for place, (_, problem) in enumerate(gated) if problem is None]
    found = dict(zip(places, measured(places), strict=True))
    return [
        without_evidence(each, problem, checks)
        if problem is not None
        else replace(found[place], checks=(*checks, *found[place].checks))
        for place, (each, (checks, problem)) in enumerate(zip(family, gated, strict=True))
    ]


def _has_rows(rule: Rule, rule_input: RuleInput) -> bool:
    """Whether the judged window has a row that the rule is about: older windows alone are no news of this one."""
    return bool(rule_input.counts) and bool(rows_of(rule, rule_input.counts[0]).w.any())


def _samples(
    rule: Rule, rule_inputs: Sequence[RuleInput], evaluation: EvaluationConfig, level: float | None
) -> list[RuleSample]:
    """The windows to measure of each subject: as few as suffice, else all. A plain rule pools none.

    Windows of too few rows need not be measured where more can be pooled.
    """
    asks = 1 if rule.is_plain else rule.for_windows
    deepest = [1 if rule.is_plain else max(1, len(each.counts) // asks) for each in rule_inputs]
    found: dict[int, RuleSample] = {}
    for depth in range(1, max(deepest, default=0) + 1):
        tried: dict[int, RuleSample] = {}
        for place, given in enumerate(rule_inputs):
            sample = RuleSample(rule, given, evaluation, depth, asks=asks, rate=level)
            if place not in found and (depth == deepest[place] or (sample.enough and sample.spread)):
                tried[place] = sample
        seen = zip(tried, with_detectability(list(tried.values())), strict=True)
        found |= {place: sample for place, sample in seen if sample.is_deep_enough or depth == deepest[place]}
    return [found[place] for place in range(len(rule_inputs))]


def gates(rule: Rule, rule_input: RuleInput, *, has_rows: bool) -> Gate:
    """The checks before measuring, up to the first that fails, and the reason of that one; None where all pass."""
    problem, settings = rule_input.problem, rule_input.detail.get("settings")
    asked = [("readable", problem in (None, Reason.REJECTED_ROWS, Reason.NOT_MATURE), problem)]
    if problem is not None:
        asked.append(("accepted" if problem is Reason.REJECTED_ROWS else "mature", False, problem))
    asked += [("rows", has_rows, Reason.NO_ROWS), ("outside_baseline", not rule_input.in_baseline, Reason.IN_BASELINE)]
    # Only rules that compare need a baseline, and those on what is expected by it: a level protects people without one.
    if rule.compares or rule.test is not None or rule.metric in EXPECTED:
        asked += [("same_settings", False, Reason.SETTINGS_CHANGED)] if settings is not None else []
        asked.append(("baseline", rule_input.baseline is not None, Reason.NO_BASELINE))
    checks: list[DecisionCheck] = []
    for name, passed, reason in asked:
        checks.append(DecisionCheck(name, passed))
        if not passed:
            return tuple(checks), reason
    return tuple(checks), None


def without_evidence(rule_input: RuleInput, problem: Reason, checks: Checks = ()) -> Comparison:
    """A comparison without numbers, with the reason why nothing was measured."""
    rows = rule_input.counts[0].rows if rule_input.counts else 0
    return Comparison(
        rule_input.subject,
        rule_input.window,
        n=rows,
        problem=problem,
        baseline_version=rule_input.baseline_version,
        data_digest=digest_of(rule_input.counts[:1]),
        detail=rule_input.detail,
        checks=checks,
    )


def compared_by(
    law: MeasuredLaw | None, rule: Rule, found: Comparison, evaluation: EvaluationConfig, detail: VerdictDetail
) -> Comparison:
    """``found`` with the numbers of a level in the window alone, by a law of other data than counts of one label."""
    minimum = rows_needed(rule, evaluation)
    shared: VerdictDetail = {"confidence": evaluation.confidence, "rows_needed": minimum, **detail}
    if law is None:
        return replace(found, detail=shared)
    now, allowed = interval_of(law, evaluation.confidence), largest_allowed(rule.measure, rule.threshold)
    detectable = law.detectable(rule.threshold, side_of(rule), evaluation.false_discovery_rate)
    return replace(
        found, value=now.value, low=now.low, high=now.high, plug_in=now.plug_in, detectable=detectable,
        p_value=law.p_value(rule.threshold, side_of(rule)),
        beyond=exceeds_threshold(rule, now, None),
        adequate=found.n >= minimum and (rule.is_plain or (detectable is not None and detectable <= allowed)),
        detail={**shared, "seen_at_most": allowed, "asks": 1, "groups": [], **textbook_detail(rule, now, None)},
    )  # fmt: skip


def _evidence(samples: Sequence[RuleSample], *, looks: bool) -> list[Comparison]:
    """The comparison of each subject over the windows that were chosen for it.

    ``looks``: the newest of several is judged alone as well, once more for each of its rows. So is what came since a
    fine window beside the pool that it was taken from.
    """
    usable = [sample for sample in samples if sample.usable]
    seen = measurements(usable)
    # for each window, or group of windows, of a `for` rule: whether it alone is beyond the threshold; "too_few" where
    # it has so few rows beside the others that it says nothing by itself
    groups = [[] if sample.rule.for_windows == 1 else sample.groups for sample in usable]
    found = iter(beyond_alone([group for each in groups for group in each]))
    alone: list[list[Group]] = []
    for sample, each in zip(usable, groups, strict=True):
        of_sample: list[Group] = [{"windows": len(group.windows), **next(found)} for group in each]
        for one in of_sample:
            if not sample.rule.is_plain and sample.says_nothing(one["n"]):
                one["too_few"] = True
        alone.append(of_sample)
    made = iter(
        _comparison_of(sample, one, {"groups": of_groups, **newest}, _times(sample, looks=looks))
        for sample, one, of_groups, newest in zip(usable, seen, alone, _newest_alone(usable, seen), strict=True)
    )
    return [next(made) if sample.usable else _moved_evidence(sample) for sample in samples]


def _times(sample: RuleSample, *, looks: bool) -> int:
    """How often each row is judged if several windows are pooled: the factor of the p-value.

    Four pooled weeks share three weeks with the four of the next run, one more chance of a false alarm. A level needs
    no such factor: a healthy label lies well within it, while an unchanged one lies where a test of change errs most.
    """
    if not sample.rule.compares:
        return 1
    more = looks and (sample.pooled_from > sample.depth or _looks_alone(sample))
    return more + (1 if sample.rule.is_plain else max(len(_used(sample)), sample.pooled_from))


def _used(sample: RuleSample) -> Sequence[Counts]:
    """The windows that the comparison is about; a plain rule measures the newest of them alone."""
    return sample.given.counts[: sample.depth * sample.rule.for_windows]


def _since_fine(
    samples: Sequence[RuleSample], evidence: Sequence[Comparison], *, looks: bool
) -> tuple[list[RuleSample], list[Comparison]]:
    """The samples and evidence; of what may be a breach only of the windows since the last that was fine.

    So a label that has healed is not held by the windows before, and one that has just gone wrong is not hidden by
    them. A window is fine by itself if it has the rows to be judged alone (:func:`looks_from`), and is within the
    threshold. It is itself of the pool where the windows since then have too few rows to be judged alone.
    """
    chosen, found = list(samples), list(evidence)
    parts = [
        (place, part)
        for place, sample in enumerate(samples)
        if sample.depth > 1 and sample.rule.for_windows == 1 and found[place].beyond
        for part in (replace(sample, depth=1, first=back) for back in range(sample.depth - 1))
        if _may_speak(sample, part.rows)
    ]
    fine: dict[int, int] = {}
    for (place, part), window in zip(parts, beyond_alone([part for _, part in parts]), strict=True):
        if window["value"] is not None and not window["beyond"]:
            fine.setdefault(place, part.first)
    shorter = with_detectability([_since(samples[place], back) for place, back in fine.items()])
    for place, sample, comparison in zip(fine, shorter, _evidence(shorter, looks=looks), strict=True):
        rate = sample.evaluation.false_discovery_rate  # the largest p-value that is significant in any family
        if not (_is_breach(found[place], rate) or _is_breach(comparison, sample.decision_rate)):
            continue
        beside = _beside(sample, found[place])
        chosen[place], found[place] = sample, replace(comparison, detail={**comparison.detail, "together": beside})
    return chosen, found


def _since(sample: RuleSample, fine: int) -> RuleSample:
    """The windows of a pool since the one that was fine, by its place from the newest; that is one if need be."""
    after = replace(sample, depth=fine, pooled_from=sample.depth)
    return after if fine and _may_speak(sample, after.rows) else replace(after, depth=fine + 1)


def _beside(sample: RuleSample, together: Comparison) -> Together:
    """The numbers of the whole pool, beside those of its newest windows alone."""
    change: Together = {"change": together.change} if sample.rule.compares else {}
    return {
        "windows": together.windows, "n": together.n, "value": together.value, "p_value": together.p_value, **change,
    }  # fmt: skip


def _may_speak(sample: RuleSample, window: Counts) -> bool:
    """Whether a window has rows enough to be judged alone beside others."""
    return rows_of(sample.rule, window).effective_rows >= looks_from(sample.rule, sample.evaluation)


def _moved_evidence(sample: RuleSample) -> Comparison:
    """No evidence: the scores cannot be compared with the baseline's.

    Of fewer rows than the rule needs nothing is said of their scores: a few rows lie in other places by chance.
    """
    rule_input, windows = sample.given, len(_used(sample))
    found = replace(without_evidence(rule_input, Reason.SCORES_MOVED), n=sample.counts.rows, windows=windows)
    if not sample.enough:
        check = DecisionCheck("enough_rows", False)
        needed: VerdictDetail = {**rule_input.reference, "rows_needed": sample.minimum}
        return replace(found, problem=Reason.TOO_FEW_ROWS, detail=needed, checks=(check,))
    if sample.aligned is None:
        return found
    moved: VerdictDetail = {
        **rule_input.reference, "moved_share": sample.aligned.moved_share, "comparable": sample.aligned.comparable,
    }  # fmt: skip
    return replace(found, detail=moved, checks=(DecisionCheck("comparable", False),))


def _looks_alone(sample: RuleSample) -> bool:
    """Whether the newest of the pooled windows is judged alone as well: where it has rows enough (:func:`looks_from`).

    A rule on several windows running is about these.
    """
    return sample.depth > 1 and sample.rule.for_windows == 1 and _may_speak(sample, sample.given.counts[0])


def looks_from(rule: Rule, evaluation: EvaluationConfig) -> float:
    """The number of independent rows from which the newest of several windows is judged alone as well.

    Of fewer rows very small p-values of an ECE come too often where nothing is wrong, which only a simulation shows.
    """
    share = rows_needed(rule, evaluation) * LOOKS_FROM
    return max(share, LEAST_ROWS_OF_ECE) if rule.measure in BINNED else share


def _or_of_newest(samples: Sequence[RuleSample], evidence: Sequence[Comparison], level: float) -> list[Comparison]:
    """The evidence, or that of the newest window alone where only that is a breach in any family.

    Both are looks at the same rows, so the p-value of the newest is multiplied by one more than the pooled windows.
    """
    found = list(evidence)
    asked = [
        (place, in_bins(replace(sample, depth=1)))
        for place, sample in enumerate(samples)
        if _looks_alone(sample) and not _is_breach(evidence[place], level)
    ]
    usable = [(place, newest) for place, newest in asked if newest.usable and newest.counts.w.any()]
    for (place, newest), p_value in zip(usable, p_values_of([newest for _, newest in usable]), strict=True):
        times = samples[place].depth + 1
        if p_value is not None and p_value * times < level:
            found[place] = _of_newest(newest, evidence[place], times)
    return found


def is_near_threshold(rule: Rule, found: Comparison) -> bool:
    """Whether another form of interval might put a value of the evidence on the other side of the rule's threshold."""
    alone = [*found.detail.get("groups", ()), found.detail.get("newest_alone", {})]
    values = [found.change if rule.compares else found.value, *(each.get("value") for each in alone)]
    margin = max(rule.threshold / 2, NEAR)
    return any(value is not None and abs(value - rule.threshold) < margin for value in values)


def _is_breach(evidence: Comparison, level: float) -> bool:
    return evidence.beyond and evidence.p_value is not None and evidence.p_value < level


def _of_newest(sample: RuleSample, together: Comparison, times: int) -> Comparison:
    """The evidence of the newest window alone; ``together`` where that is not beyond the threshold.

    Its significance is kept then too: a value near the threshold may be beyond it by another interval.
    """
    seen = measurements([sample])[0]
    if not seen.beyond:
        return replace(together, detail={**together.detail, "newest_p": seen.p_value})
    shown = with_detectability([sample])[0]
    made = _comparison_of(shown, seen, {"groups": [], "together": _beside(sample, together)}, times)
    return replace(made, data_digest=together.data_digest)


def _comparison_of(sample: RuleSample, seen: Comparison, parts: VerdictDetail, times: int) -> Comparison:
    """What was ``seen``, with all else that a verdict depends on; its rows are judged so many ``times``."""
    rule, rule_input, used, alone = sample.rule, sample.given, _used(sample), parts["groups"]
    repeated: VerdictDetail = {"times_judged": times} if times > 1 and seen.p_value is not None else {}
    differ: VerdictDetail = {}
    if rule.compares and rule_input.week.correlation > 0:  # the variance is larger than the rows make it
        differ = {
            "week_effect": round(sample.week_effects[WINDOW], 6),
            "baseline_weeks": sample.weeks_of_each[BASELINE],
        }
    return replace(
        seen,
        p_value=None if seen.p_value is None else min(1.0, seen.p_value * times),
        detectable=sample.detectable, n=sample.counts.rows, windows=1 if rule.is_plain else len(used),
        streak=rule.for_windows == 1 or (len(alone) == rule.for_windows and all(map(_is_beyond, alone))),
        newest_beyond=len(alone) > 1 and _is_beyond(alone[0]),
        adequate=sample.adequate, baseline_version=rule_input.baseline_version,
        data_digest=rule_input.digest(used),
        detail={
            **rule_input.reference, **repeated,
            **seen.detail, "confidence": sample.evaluation.confidence, "rows_needed": sample.minimum,
            "seen_at_most": sample.largest_allowed, **_numbers_behind(sample.counts, rule.measure),
            "asks": rule.for_windows, **parts,
            **({} if sample.adequate else {"windows_needed": sample.windows_needed}), **differ,
        },
        checks=() if sample.aligned is None else (DecisionCheck("comparable", True),),
    )  # fmt: skip


def _is_beyond(group: Group) -> bool:
    return group["beyond"] and "too_few" not in group


def _numbers_behind(counts: Counts, metric: str) -> VerdictDetail:
    """The numbers behind a measurement, stored so that a verdict can be explained years later.

    ``promised`` is the mean score and ``kept`` the hit rate of the rows that the metric measures; ``of`` names these
    rows where they are not all, and ``of_rows`` is their number.
    """
    automated = counts.where("automated") if metric in OF_AUTOMATED else counts
    measured = automated if automated.w.any() else counts
    total = float(measured.w.sum())
    return {
        "promised": float(measured.ws.sum()) / total,
        "kept": float(measured.wy.sum()) / total,
        "effective_rows": counts.effective_rows,
        "design_effect": counts.design_effect,
        **({} if measured is counts else {"of": "automated", "of_rows": measured.rows}),
    }


def _newest_alone(samples: Sequence[RuleSample], seen: Sequence[Comparison]) -> list[VerdictDetail]:
    """The value of the newest window alone, for each subject whose pooled windows are beyond the threshold.

    ``too_few`` where the window has no value or fewer rows than the rule needs: it then says nothing.
    """
    beyond = {
        place: replace(sample, depth=1, asks=1)
        for place, (sample, one) in enumerate(zip(samples, seen, strict=True))
        if sample.depth > 1 and one.beyond
    }
    alone: dict[int, Group] = {
        place: {**found, "too_few": found["n"] < samples[place].minimum or found["value"] is None}
        for place, found in zip(beyond, beyond_alone(list(beyond.values())), strict=True)
    }
    return [{"newest_alone": alone[place]} if place in alone else {} for place in range(len(samples))]


def _shift_evidence(rule: Rule, rule_input: RuleInput, evaluation: EvaluationConfig) -> Comparison:
    """The comparison of a rule on a distribution test: its effect size against the threshold."""
    column = rule.column or "score"
    found = [s for s in rule_input.shifts if s.test == rule.test and s.column == column]
    statistic = found[0].statistic if found else None
    checks = (DecisionCheck("test_result", statistic is not None),)
    if statistic is None:
        return replace(without_evidence(rule_input, Reason.TOO_FEW_ROWS), checks=checks)
    result = found[0]
    minimum = rows_needed(rule, evaluation)
    beyond = statistic < rule.threshold if rule.condition == "below" else statistic > rule.threshold
    return Comparison(
        rule_input.subject, rule_input.window, value=statistic, plug_in=statistic,
        p_value=result.p_value, n=result.n, beyond=beyond, adequate=result.n >= minimum,
        baseline_version=rule_input.baseline_version,
        data_digest=rule_input.digest(rule_input.counts[:1]),
        detail={
            **rule_input.reference, **cast(VerdictDetail, result.detail), "column": column, "rows_needed": minimum,
            "n_baseline": result.n_baseline,
        },
        checks=checks,
    )  # fmt: skip
