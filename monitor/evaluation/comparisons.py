"""(rule, counts, baseline) -> evidence: what was measured, compared with what, and how significant it is.

A :class:`~monitor.core.records.Comparison` is about one subject: ``verdicts.py`` adjusts p-values over the
family and decides the outcome. This module chooses and pools windows; ``rule_metrics.py`` measures
in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, pool
from monitor.core.records import Comparison, DecisionCheck, Reason, Window
from monitor.evaluation.data import RuleInput, digest_of, rows_of
from monitor.evaluation.rule_metrics import (
    BASELINE,
    BINNED,
    POWER,
    WINDOW,
    Measurement,
    RuleSample,
    beyond_alone,
    exceeds_threshold,
    in_bins,
    measurements,
    p_values_of,
    rows_needed,
    textbook_detail,
    with_detectability,
)
from monitor.inference.change import Side
from monitor.inference.levels import MeasuredLaw, interval_of
from monitor.inference.memory import kept_with
from monitor.inference.registered import largest_allowed
from monitor.metrics.names import LEAST_ROWS_OF_ECE
from monitor.metrics.selective import OF_AUTOMATED

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
    found: dict[int, Comparison] = {}
    gated = [gates(rule, rule_input, has_rows=_has_rows(rule, rule_input)) for rule_input in rule_inputs]
    for place, rule_input in enumerate(rule_inputs):
        problem = gated[place][1]
        if problem is not None:
            found[place] = without_evidence(rule_input, problem)
        elif rule.test is not None:
            found[place] = _shift_evidence(rule, rule_input, evaluation)
    measurable = [place for place in range(len(rule_inputs)) if place not in found]
    inputs = [rule_inputs[place] for place in measurable]
    samples = _samples(rule, inputs, evaluation, level)
    evidence = _evidence(list(zip(samples, inputs, strict=True)), looks=level is not None)
    samples, evidence = _since_fine(list(zip(samples, inputs, evidence, strict=True)), looks=level is not None)
    if level is not None:
        evidence = _or_of_newest(list(zip(samples, inputs, evidence, strict=True)), level)
    found |= dict(zip(measurable, evidence, strict=True))
    return [replace(found[place], checks=(*gated[place][0], *found[place].checks)) for place in range(len(rule_inputs))]


def _has_rows(rule: Rule, rule_input: RuleInput) -> bool:
    """Whether the judged window has a row that the rule is about: older windows alone are no news of this one."""
    return bool(rule_input.counts) and bool(rows_of(rule, rule_input.counts[0]).w.any())


def _samples(
    rule: Rule, rule_inputs: Sequence[RuleInput], evaluation: EvaluationConfig, level: float | None
) -> list[RuleSample]:
    """The rows to measure of each subject: as few windows as suffice, else all of them."""
    deepest = [1 if rule.is_plain else max(1, len(each.counts) // rule.for_windows) for each in rule_inputs]
    found: dict[int, RuleSample] = {}
    open_ = set(range(len(rule_inputs)))
    for depth in range(1, max(deepest, default=0) + 1):
        tried = {
            place: replace(sample, rate=level)
            for place in sorted(open_)
            for sample in [_sample_at(rule, rule_inputs[place], evaluation, depth, last=depth == deepest[place])]
            if sample is not None
        }
        seen = with_detectability(list(tried.values()))
        for place, sample in zip(tried, seen, strict=True):
            if (sample.is_deep_enough and sample.spread) or depth == deepest[place]:
                found[place] = sample
                open_.discard(place)
        open_ = {place for place in open_ if deepest[place] > depth}
    return [found[place] for place in range(len(rule_inputs))]


def _sample_at(
    rule: Rule, rule_input: RuleInput, evaluation: EvaluationConfig, depth: int, *, last: bool
) -> RuleSample | None:
    """The rows of ``depth`` pooled windows for each one that the rule asks for; None if they need not be measured.

    That is the case with too few rows unless this depth is the ``last``. A plain rule pools none.
    """
    used = rule_input.counts[: 1 if rule.is_plain else depth * rule.for_windows]
    split = () if rule.is_plain or rule.for_windows == 1 else _groups(used, depth)
    sample = RuleSample(
        pooled(used),
        rule,
        rule_input.subject,
        rule_input.window,
        rule_input.baseline,
        evaluation,
        depth,
        rule_input.parameters,
        tuple(sum(rows_of(rule, window).rows for window in group) for group in split),
        new_version=rule_input.new_version,
        week_correlation=rule_input.week_correlation,
        recent=rule_input.counts,
    )
    return sample if last or (sample.enough and sample.spread) else None


def _groups(used: Sequence[Counts], depth: int) -> list[Sequence[Counts]]:
    """The windows in groups of ``depth``, newest first."""
    return [used[at : at + depth] for at in range(0, len(used), depth)]


def pooled(counts: Sequence[Counts]) -> Counts:
    """The windows as one sample, pooled once for all rules."""
    newest, *older = counts
    if not older:
        return newest
    # weak references: a result kept with a window must not keep the windows before it alive
    return kept_with(newest, ("pool", *map(ref, older)), lambda: pool(counts))


def gates(rule: Rule, rule_input: RuleInput, *, has_rows: bool) -> tuple[tuple[DecisionCheck, ...], Reason | None]:
    """The checks before measuring, up to the first that fails, and the reason of that one; None where all pass."""
    checks: list[DecisionCheck] = []
    for check, problem in _gates(rule, rule_input, has_rows=has_rows):
        checks.append(check)
        if not check.passed:
            return tuple(checks), problem
    return tuple(checks), None


def _gates(rule: Rule, rule_input: RuleInput, *, has_rows: bool) -> Iterator[tuple[DecisionCheck, Reason | None]]:
    problem = rule_input.problem
    yield DecisionCheck("readable", problem in (None, Reason.REJECTED_ROWS, Reason.NOT_MATURE)), problem
    if problem is Reason.REJECTED_ROWS:
        yield DecisionCheck("accepted", False), problem
    if problem is not None:
        yield DecisionCheck("mature", False), problem
    yield DecisionCheck("rows", has_rows), Reason.NO_ROWS
    yield DecisionCheck("outside_baseline", not rule_input.in_baseline), Reason.IN_BASELINE
    # Only rules that compare need a baseline: a level rule protects people without one.
    if rule.compares or rule.test is not None:
        yield baseline_check(rule_input)


def baseline_check(rule_input: RuleInput) -> tuple[DecisionCheck, Reason]:
    """The check that there is a baseline to compare with, and the reason if it fails."""
    if rule_input.detail.get("settings") is not None:
        return DecisionCheck("same_settings", False), Reason.SETTINGS_CHANGED
    return DecisionCheck("baseline", rule_input.baseline is not None), Reason.NO_BASELINE


def without_evidence(rule_input: RuleInput, problem: Reason, checks: tuple[DecisionCheck, ...] = ()) -> Comparison:
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
    law: MeasuredLaw | None, rule: Rule, found: Comparison, evaluation: EvaluationConfig, detail: Mapping[str, Any]
) -> Comparison:
    """``found`` with the numbers of a level in the window alone, by a law of other data than counts of one label."""
    minimum = rows_needed(rule, evaluation)
    shared = {"confidence": evaluation.confidence, "rows_needed": minimum, **detail}
    if law is None:
        return replace(found, detail=shared)
    side: Side = "below" if rule.condition == "below" else "above"
    now, allowed = interval_of(law, evaluation.confidence), largest_allowed(rule.measure, rule.threshold)
    detectable = law.detectable(rule.threshold, side, evaluation.false_discovery_rate, POWER)
    return replace(
        found, value=now.value, low=now.low, high=now.high, plug_in=now.plug_in, detectable=detectable,
        p_value=law.p_value(rule.threshold, side),
        beyond=exceeds_threshold(rule, now, None),
        adequate=found.n >= minimum and (rule.is_plain or (detectable is not None and detectable <= allowed)),
        detail=shared | {"seen_at_most": allowed, "asks": 1, "groups": []} | textbook_detail(rule, now, None),
    )  # fmt: skip


def _evidence(chosen: Sequence[tuple[RuleSample, RuleInput]], *, looks: bool) -> list[Comparison]:
    """The comparison of each subject over the windows that were chosen for it.

    ``looks``: the newest of several is judged alone as well, once more for each of its rows. So is what came since a
    fine window beside the pool that it was taken from.
    """
    used = [rule_input.counts[: sample.depth * sample.rule.for_windows] for sample, rule_input in chosen]
    usable = [place for place, (sample, _) in enumerate(chosen) if sample.usable]
    seen = dict(zip(usable, measurements([chosen[place][0] for place in usable]), strict=True))
    alone = dict(
        zip(usable, _alone([(chosen[place][0], used[place], chosen[place][1].before) for place in usable]), strict=True)
    )
    newest = _newest_alone({place: (chosen[place][0], used[place][0], seen[place]) for place in usable})
    more = [
        int(looks and sample.rule.compares and (sample.pooled_from > sample.depth or _looks_alone(sample, each)))
        for sample, each in chosen
    ]
    return [
        _comparison_of(
            sample,
            rule_input,
            used[place],
            seen[place],
            {"groups": alone[place], **newest.get(place, {})},
            times_judged(sample.rule, max(len(used[place]), sample.pooled_from)) + more[place],
        )
        if place in seen
        else _moved_evidence(sample, rule_input, used[place])
        for place, (sample, rule_input) in enumerate(chosen)
    ]


def _since_fine(
    found: Sequence[tuple[RuleSample, RuleInput, Comparison]], *, looks: bool
) -> tuple[list[RuleSample], list[Comparison]]:
    """The samples and evidence; of what may be a breach only of the windows since the last that was fine.

    So a label that has healed is not held by the windows before, and one that has just gone wrong is not hidden by
    them. A window is fine by itself if it has the rows to be judged alone (:func:`looks_from`), and is within the
    threshold. It is itself of the pool where the windows since then have too few rows to be judged alone.
    """
    samples, evidence = [sample for sample, _, _ in found], [comparison for _, _, comparison in found]
    pools = [
        place
        for place, (sample, _, comparison) in enumerate(found)
        if sample.depth > 1 and sample.rule.for_windows == 1 and comparison.beyond
    ]
    parts = [
        (place, back, _of_group(replace(sample, depth=1), rule_input.before, back, 1), rule_input.counts[back])
        for place, (sample, rule_input, _) in ((place, found[place]) for place in pools)
        for back in range(sample.depth - 1)
        if _may_speak(sample, rule_input.counts[back])
    ]
    alone = beyond_alone([(sample, counts) for _, _, sample, counts in parts])
    fine: dict[int, int] = {}
    for (place, back, _, _), window in zip(parts, alone, strict=True):
        if window["value"] is not None and not window["beyond"]:
            fine.setdefault(place, back)
    shorter = with_detectability([_since(*found[place][:2], back) for place, back in fine.items()])
    again = _evidence([(sample, found[place][1]) for place, sample in zip(fine, shorter, strict=True)], looks=looks)
    for place, sample, comparison in zip(fine, shorter, again, strict=True):
        rate = sample.evaluation.false_discovery_rate  # the largest p-value that is significant in any family
        if not (_is_breach(evidence[place], rate) or _is_breach(comparison, sample.decision_rate)):
            continue
        beside = {"together": _beside(sample, evidence[place])}
        samples[place], evidence[place] = sample, replace(comparison, detail={**comparison.detail, **beside})
    return samples, evidence


def _since(sample: RuleSample, rule_input: RuleInput, fine: int) -> RuleSample:
    """The windows of a pool since the one that was fine, by its place from the newest; that is one if need be."""
    after = pooled(rule_input.counts[:fine]) if fine else None
    depth = fine if after is not None and _may_speak(sample, after) else fine + 1
    return replace(sample, rows=pooled(rule_input.counts[:depth]), depth=depth, pooled_from=sample.depth)


def _beside(sample: RuleSample, together: Comparison) -> dict[str, Any]:
    """The numbers of the whole pool, beside those of its newest windows alone."""
    change = {"change": together.change} if sample.rule.compares else {}
    return {"windows": together.windows, "n": together.n, "value": together.value, "p_value": together.p_value} | change


def _may_speak(sample: RuleSample, window: Counts) -> bool:
    """Whether a window has rows enough to be judged alone beside others."""
    return rows_of(sample.rule, window).effective_rows >= looks_from(sample.rule, sample.evaluation)


def _comparable(sample: RuleSample) -> tuple[DecisionCheck, ...]:
    """The check that scores can be compared with the baseline's; none for a rule that does not align bins."""
    check = DecisionCheck("comparable", sample.usable)
    return () if sample.aligned is None else (check,)


def _moved_evidence(sample: RuleSample, rule_input: RuleInput, used: Sequence[Counts]) -> Comparison:
    """No evidence: the scores cannot be compared with the baseline's.

    Of fewer rows than the rule needs nothing is said of their scores: a few rows lie in other places by chance.
    """
    found = replace(without_evidence(rule_input, Reason.SCORES_MOVED), n=sample.counts.rows, windows=len(used))
    if not sample.enough:
        check = DecisionCheck("enough_rows", False)
        needed = {**rule_input.reference, "rows_needed": sample.minimum}
        return replace(found, problem=Reason.TOO_FEW_ROWS, detail=needed, checks=(check,))
    if sample.aligned is None:
        return found
    moved = {"moved_share": sample.aligned.moved_share, "comparable": sample.aligned.comparable}
    return replace(found, detail={**rule_input.reference, **moved}, checks=_comparable(sample))


def times_judged(rule: Rule, windows: int) -> int:
    """How often each row is judged if ``windows`` are pooled: the factor of the p-value.

    Four pooled weeks share three weeks with the four of the next run, one more chance of a false alarm. A level needs
    no such factor: a healthy label lies well within it, while an unchanged one lies where a test of change errs most.
    """
    return windows if rule.compares and not rule.is_plain else 1


def _looks_alone(sample: RuleSample, rule_input: RuleInput) -> bool:
    """Whether the newest of the pooled windows is judged alone as well: where it has rows enough (:func:`looks_from`).

    A rule on several windows running is about these.
    """
    return sample.depth > 1 and sample.rule.for_windows == 1 and _may_speak(sample, rule_input.counts[0])


def looks_from(rule: Rule, evaluation: EvaluationConfig) -> float:
    """The number of independent rows from which the newest of several windows is judged alone as well.

    Of fewer rows very small p-values of an ECE come too often where nothing is wrong, which only a simulation shows.
    """
    share = rows_needed(rule, evaluation) * LOOKS_FROM
    return max(share, LEAST_ROWS_OF_ECE) if rule.measure in BINNED else share


def _or_of_newest(found: Sequence[tuple[RuleSample, RuleInput, Comparison]], level: float) -> list[Comparison]:
    """The evidence, or that of the newest window alone where only that is a breach in any family.

    Both are looks at the same rows, so the p-value of the newest is multiplied by one more than the pooled windows.
    """
    evidence = [comparison for _, _, comparison in found]
    asked = {
        place: in_bins(replace(sample, rows=rule_input.counts[0], depth=1))
        for place, (sample, rule_input, comparison) in enumerate(found)
        if _looks_alone(sample, rule_input) and not _is_breach(comparison, level)
    }
    usable = {place: sample for place, sample in asked.items() if sample.usable and sample.counts.w.any()}
    for place, p_value in zip(usable, p_values_of(list(usable.values())), strict=True):
        sample, (pooled_sample, rule_input, pooled_evidence) = usable[place], found[place]
        times = pooled_sample.depth + 1
        if p_value is None or p_value * times >= level:
            continue
        evidence[place] = _of_newest(sample, rule_input, pooled_evidence, times)
    return evidence


def is_near_threshold(rule: Rule, found: Comparison) -> bool:
    """Whether another form of interval might put a value of the evidence on the other side of the rule's threshold."""
    alone = [*found.detail.get("groups", ()), found.detail.get("newest_alone", {})]
    values = [found.change if rule.compares else found.value, *(each.get("value") for each in alone)]
    margin = max(rule.threshold / 2, NEAR)
    return any(value is not None and abs(value - rule.threshold) < margin for value in values)


def _is_breach(evidence: Comparison, level: float) -> bool:
    return evidence.beyond and evidence.p_value is not None and evidence.p_value < level


def _of_newest(sample: RuleSample, rule_input: RuleInput, together: Comparison, times: int) -> Comparison:
    """The evidence of the newest window alone; ``together`` where that is not beyond the threshold.

    Its significance is kept then too: a value near the threshold may be beyond it by another interval.
    """
    seen = measurements([sample])[0]
    if not exceeds_threshold(sample.rule, seen.now, seen.then):
        return replace(together, detail={**together.detail, "newest_p": seen.p_value})
    shown = with_detectability([sample])[0]
    parts = {"groups": [], "together": _beside(sample, together)}
    made = _comparison_of(shown, rule_input, rule_input.counts[:1], seen, parts, times)
    return replace(made, data_digest=together.data_digest)


def _comparison_of(
    sample: RuleSample,
    rule_input: RuleInput,
    used: Sequence[Counts],
    seen: Measurement,
    parts: dict[str, Any],
    times: int,
) -> Comparison:
    rule, now, then, alone = sample.rule, seen.now, seen.then, parts["groups"]
    repeated = {"times_judged": times} if times > 1 and seen.p_value is not None else {}
    return Comparison(
        rule_input.subject, rule_input.window,
        value=now.value, low=now.low, high=now.high, plug_in=now.plug_in,
        baseline=then.value if then is not None else None,
        change=seen.change, change_low=seen.limits[0], change_high=seen.limits[1],
        p_value=None if seen.p_value is None else min(1.0, seen.p_value * times),
        p_rate=seen.p_rate, detectable=sample.detectable, n=sample.counts.rows,
        windows=1 if rule.is_plain else len(used),
        beyond=exceeds_threshold(rule, now, then),
        streak=rule.for_windows == 1 or (len(alone) == rule.for_windows and all(map(_is_beyond, alone))),
        newest_beyond=len(alone) > 1 and _is_beyond(alone[0]),
        adequate=sample.adequate, baseline_version=rule_input.baseline_version,
        data_digest=rule_input.digest(used),
        detail={
            **rule_input.reference, **repeated,
            **seen.detail, "confidence": sample.evaluation.confidence, "rows_needed": sample.minimum,
            "seen_at_most": sample.largest_allowed, **_numbers_behind(sample.counts, rule.measure),
            "asks": rule.for_windows, **parts, **textbook_detail(rule, now, then),
            **({} if sample.adequate else {"windows_needed": sample.windows_needed}), **_weeks_differ(sample),
        },
        checks=_comparable(sample),
    )  # fmt: skip


def _weeks_differ(sample: RuleSample) -> dict[str, Any]:
    """By how much the variance of the rows is larger than they make it, since weeks differ; empty where it is not."""
    if not sample.rule.compares or not sample.week_correlation > 0:
        return {}
    return {"week_effect": round(sample.week_effects[WINDOW], 6), "baseline_weeks": sample.weeks_of_each[BASELINE]}


def _is_beyond(group: Mapping[str, Any]) -> bool:
    return bool(group["beyond"]) and "too_few" not in group


def _numbers_behind(counts: Counts, metric: str) -> dict[str, Any]:
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


def _alone(chosen: Sequence[tuple[RuleSample, Sequence[Counts], Sequence[Window]]]) -> list[list[dict[str, Any]]]:
    """For each window, or group of windows, of a `for` rule: whether it alone is beyond the threshold.

    ``too_few`` where a group has so few rows beside the others that it says nothing by itself.
    """
    groups = [[] if sample.rule.for_windows == 1 else _groups(used, sample.depth) for sample, used, _ in chosen]
    asked = [
        (_of_group(sample, before, place, len(group)), pooled(group))
        for (sample, _, before), each in zip(chosen, groups, strict=True)
        for place, group in enumerate(each)
    ]
    found = iter(beyond_alone(asked))
    return [
        [{"windows": len(group), **_enough_to_say(sample, next(found))} for group in each]
        for (sample, _, _), each in zip(chosen, groups, strict=True)
    ]


def _of_group(sample: RuleSample, before: Sequence[Window], place: int, length: int) -> RuleSample:
    """The sample as one of its groups, by its place from the newest; one window is measured as its estimate is."""
    older = place * sample.depth
    if older > len(before):
        return replace(sample, depth=0)
    return replace(sample, window=before[older - 1] if older else sample.window, depth=length)


def _enough_to_say(sample: RuleSample, alone: dict[str, Any]) -> dict[str, Any]:
    return {**alone, "too_few": True} if not sample.rule.is_plain and sample.says_nothing(alone["n"]) else alone


def _newest_alone(samples: Mapping[int, tuple[RuleSample, Counts, Measurement]]) -> dict[int, dict[str, Any]]:
    """The value of the newest window alone, for each subject whose pooled windows are beyond the threshold.

    ``too_few`` where the window has no value or fewer rows than the rule needs: it then says nothing.
    """
    beyond = {
        place: (replace(sample, depth=1), counts)
        for place, (sample, counts, seen) in samples.items()
        if sample.depth > 1 and exceeds_threshold(sample.rule, seen.now, seen.then)
    }
    found = zip(beyond.items(), beyond_alone(list(beyond.values())), strict=True)
    return {
        place: {"newest_alone": {**alone, "too_few": alone["n"] < sample.minimum or alone["value"] is None}}
        for (place, (sample, _)), alone in found
    }


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
            **rule_input.reference, **result.detail, "column": column, "rows_needed": minimum,
            "n_baseline": result.n_baseline,
        },
        checks=checks,
    )  # fmt: skip
