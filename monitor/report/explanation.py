"""The explanation of a verdict: what was asked, measured and compared, the p-value, and why it was decided so.

Everything comes from the history: the verdict with its detail, its baseline, its estimate. Nothing is computed
again, so the explanation of an old verdict does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.automation.evidence import segments_off
from monitor.core import documents
from monitor.core.baseline import Baseline
from monitor.core.records import ActionKind, DecisionCheck, Estimate, Reason, RejectedRows, Verdict
from monitor.core.rejection_records import from_detail
from monitor.core.rejection_words import remedy
from monitor.core.wording import (
    OVERCONFIDENCE,
    as_judged,
    clean,
    count_of,
    off_in_worst,
    out_of_reach,
    percent,
    plain_words,
    points,
    reference,
    renamed_since,
    segment_name,
    title,
    unconfirmed_words,
)
from monitor.metrics.registry import METRICS
from monitor.metrics.selective import OF_AUTOMATED
from monitor.report.decision_checks import (
    ROW,
    TESTS,
    chance,
    checks_of,
    compares,
    equals,
    falls,
    is_accumulated,
    is_floor,
    number,
    numbers_of,
    rises,
    size,
    smallest_seen,
    text_of,
    too_few_to_compare,
)
from monitor.report.run_document import verdict_row
from monitor.report.words import labels_words


@dataclass(frozen=True, slots=True, eq=False)
class VerdictContext:
    """What is known about a verdict. ``revision`` is that of the rules in alerts.yaml today.

    ``baseline`` is the version it was compared with, ``alone`` the stored estimate of its window alone (all
    verdicts of pooled windows have one), ``newer`` the id of the verdict that replaced it; None: none.
    ``quality`` is what its window's reading noted.
    """

    verdict: Verdict
    revision: str
    baseline: Baseline | None = None
    alone: Estimate | None = None
    newer: str | None = None
    quality: Sequence[RejectedRows] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence of the explanation, with its numbers."""

    name: str
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole reasoning: what was measured, the checks in their order, and the result."""

    verdict: Verdict
    steps: tuple[Step, ...]
    checks: tuple[DecisionCheck, ...]
    therefore: str
    notes: tuple[str, ...]


def explain(context: VerdictContext) -> Explanation:
    """The reasoning of a verdict."""
    verdict = context.verdict
    checks = checks_of(verdict)
    steps = tuple(step for step_of in _STEPS if (step := step_of(context)) is not None)
    return Explanation(verdict, steps, checks, _therefore(verdict), tuple(_notes(context)))


def short_sentences(explanation: Explanation) -> Iterator[str]:
    """The verdict and its checks alone, line by line."""
    verdict = explanation.verdict
    yield f"{plain_words(verdict)} ({verdict.rule}, {verdict.severity}; verdict {verdict.id[:12]})."
    yield from (f"  {i}. {text_of(verdict, check)}" for i, check in enumerate(explanation.checks, start=1))
    yield f"  {explanation.therefore}"


def sentences(explanation: Explanation) -> Iterator[str]:
    """The explanation line by line, for a terminal."""
    verdict = explanation.verdict
    yield f"{plain_words(verdict)}."
    yield from (f"Note: {note}" for note in explanation.notes)
    yield from (step.text for step in explanation.steps)
    yield "How it was decided, in this order:"
    yield from (f"  {i}. {text_of(verdict, check)}" for i, check in enumerate(explanation.checks, start=1))
    yield explanation.therefore
    if verdict.actions:
        yield f"It asks for: {', '.join(_asked(verdict, action) for action in verdict.actions)}."
    if rejected := verdict.detail.get("rejected"):
        yield f"What to do: {remedy(from_detail(rejected))}"
    of_rule = f" and docs/rules/{verdict.rule}.md" if f"rules/{verdict.rule}" in documents.pages() else ""
    yield f"More: docs/runbook/{verdict.reason.value}.md{of_rule}"


def _asked(verdict: Verdict, action: ActionKind) -> str:
    """What an action of a breach asks for; to turn off segments leaves the rest of the label on."""
    segments = segments_off(verdict) if action == "disable_automation" else ()
    names = "; ".join(segment_name(*segment) for segment in segments)
    return _ACTIONS[action] + (f" for {names}" if names else "")


def document(explanation: Explanation) -> dict[str, Any]:
    """The same as data: the verdict's row with ``notes``, ``steps``, ``checks`` and ``therefore``."""
    verdict = explanation.verdict
    steps = [{"step": s.name, "text": s.text, "numbers": dict(s.numbers)} for s in explanation.steps]
    checks = [
        {"check": c.name, "passed": c.passed, "text": text_of(verdict, c), "numbers": numbers_of(verdict, c)}
        for c in explanation.checks
    ]
    explained = {"notes": list(explanation.notes), "steps": steps, "checks": checks, "therefore": explanation.therefore}
    return verdict_row(verdict) | explained


def _notes(context: VerdictContext) -> Iterator[str]:
    verdict = context.verdict
    if verdict.rules_revision != context.revision:
        yield (
            f"alerts.yaml has changed since this verdict (revision {verdict.rules_revision} then, {context.revision} "
            "now). What follows is what was stored with it, and says nothing about the rules of today."
        )
    if context.newer is not None:
        yield f"this window has been judged again since, on other rows or rules: see {context.newer}."
    yield from labels_words(verdict.subject.source, context.quality)


# --- the steps

_ACTIONS: Mapping[ActionKind, str] = {
    "slack": "a message",
    "disable_automation": "automation off",
    "block_scores": "no automation in the score ranges significantly beyond the threshold",
}
_KINDS = {
    "all": "all rows of the subject",
    "predicted": "the rows that the classifier gave this label",
    "automated": "the rows that automation takes while it is on (predicted, with a score from automate_at on)",
}
_OF_TRUTHS = {
    **dict.fromkeys(("recall", "false_negative_rate"), "came true"),
    **dict.fromkeys(("specificity", "false_positive_rate"), "did not come true"),
}
_NOT_READ = (Reason.RELATION_ERROR, Reason.WAREHOUSE_FAILED)
_WAITS = (Reason.NOT_MATURE, Reason.UNRESOLVED_FAILED)
_NOT_COMPARED = (Reason.NO_BASELINE, Reason.SETTINGS_CHANGED, Reason.IN_BASELINE, Reason.SCORES_MOVED)
_JUDGED_NOTHING = (*_NOT_READ, *_NOT_COMPARED, Reason.NO_ROWS, Reason.REJECTED_ROWS, *_WAITS)


def _rule(context: VerdictContext) -> Step:
    verdict, limit = context.verdict, number(context.verdict.threshold)
    condition, name = verdict.detail.get("condition"), title(verdict.metric)
    rolls = "reference" in verdict.detail
    then = f"that of {reference(verdict)}" if rolls else "the baseline's"
    if verdict.metric == "overconfidence":
        name = f"{name} ({OVERCONFIDENCE})"
    if verdict.metric in TESTS:
        asks = f"is the distribution farther from {then} than {name} {limit}?"
    elif condition == "increase":
        by = f"over {then} by more than {limit}" if rolls else f"by more than {limit} over {then}"
        asks = f"has {name} risen {by}?"
    elif condition == "decrease":
        by = f"below {then} by more than {limit}" if rolls else f"by more than {limit} below {then}"
        asks = f"has {name} fallen {by}?"
    elif condition == "accumulated":
        part = " in any of its segments" if "segment" in verdict.detail else ""
        side = "below" if is_floor(verdict) else "above"
        asks = f"has evidence accumulated, over all windows together, that {name} is {side} {limit}{part}?"
    else:
        asks = f"is {name} {condition or 'beyond'} {limit}?"
    if "segment_p" in verdict.detail:
        asks += " In any of its segments: each is compared by itself."
    asks = f"{asks}{_certainty(verdict)}"
    running = verdict.detail.get("asks", 1)
    more = f" In each of {running} windows or groups of windows in a row." if running > 1 else ""
    numbers = {"threshold": verdict.threshold, "condition": condition, "for": running, "severity": verdict.severity}
    return Step("rule", f"Asked by {verdict.rule} ({verdict.severity}): {asks}{more}", numbers)


def _certainty(verdict: Verdict) -> str:
    """What a rule with ``certainty`` or ``value`` asks for; "" for any other."""
    textbook = verdict.detail.get("judged") == "plug_in"
    plain = verdict.detail.get("certainty") == "none"
    return (" It judges the textbook value." if textbook else "") + (
        " Being beyond the threshold is enough, significant or not (certainty: none)." if plain else ""
    )


def _population(context: VerdictContext) -> Step:
    verdict = context.verdict
    text = f"About: {clean(verdict.subject.name)} in {verdict.window.name} ({verdict.window.schedule})."
    if verdict.metric not in TESTS:
        rows = _KINDS["automated" if verdict.metric in OF_AUTOMATED else verdict.where]
        rank = METRICS[verdict.metric].rank if verdict.metric in METRICS else None
        if rank is not None:
            rows = "the highest score of each item" if rank == 1 else f"the {rank} highest scores of each item"
        if verdict.detail.get("before_truth"):
            rows += ", of those whose truth was not known at the end of the window: an estimate"
        text += f" It looks at {rows}."
    return Step("subject", text, {"where": verdict.where, "window": verdict.window.name})


def _seen(context: VerdictContext) -> Step:
    verdict = context.verdict
    numbers: dict[str, Any] = {"n": verdict.n, "windows": verdict.windows}
    text = f"Seen in {verdict.window.name}:"
    pooled = f", {verdict.windows} windows pooled" if verdict.windows > 1 else ""
    if verdict.reason in _NOT_READ:
        return Step("seen", f"{text} nothing, since the source could not be read.", numbers)
    if verdict.reason in _JUDGED_NOTHING or (verdict.metric in TESTS and verdict.value is None):
        return Step("seen", f"{text} {count_of(verdict.n, 'row')}{pooled}, not measured by this rule.", numbers)
    if too_few_to_compare(verdict):
        rows = count_of(verdict.n, ROW[verdict.where])
        return Step("seen", f"{text} {rows}{pooled}, not measured by this rule.", numbers)
    numbers |= {name: getattr(verdict, name) for name in ("value", "low", "high", "plug_in")}
    text += f" {title(verdict.metric)} {number(verdict.value)}"
    if verdict.low is not None and verdict.high is not None:
        level = verdict.detail.get("confidence")
        kind = "interval" if level is None else f"{100 * level:.4g}% interval"
        text += f" ({kind} {number(verdict.low)} to {number(verdict.high)})"
    rows, kept = count_of(verdict.n, ROW[verdict.where]), verdict.detail.get("kept")
    if "of_rows" in verdict.detail and verdict.where != "automated":
        rows = f"{count_of(verdict.detail['of_rows'], ROW['automated'])} of {rows}"
    if is_accumulated(verdict) and verdict.metric in _OF_TRUTHS:  # n counts these alone
        rows += f" that {_OF_TRUTHS[verdict.metric]}"
    if verdict.metric == "false_negative_rate" and kept is not None:
        rows += f", {kept:.1%} of which came true: it is a share of these"
    return Step("seen", f"{text}, from {rows}{pooled}.", numbers)


def _why_pooled(context: VerdictContext) -> Step | None:
    verdict, alone = context.verdict, context.alone
    if verdict.windows <= 1:
        return None
    asks = verdict.detail.get("asks", 1)
    why = (
        _since_words(verdict)
        if is_accumulated(verdict)
        else f"the rule is about {asks} of them running"
        if verdict.windows == asks
        else "the rows of fewer could not be compared"
        if verdict.reason == Reason.SCORES_MOVED
        else "the rows of fewer could not have shown a change that matters"
        + f", or gave too few to one of the {asks} running" * (asks > 1)
    )
    more = "" if asks in (verdict.windows, 1) else f", in {asks} groups since it is about that many running"
    before = verdict.windows - 1
    text = f"Pooled: this window with the {before} before it that held rows, because {why}{more}."
    numbers: dict[str, Any] = {"windows": verdict.windows}
    shown = _of_window_alone(verdict, alone)
    if shown is not None:
        text += f" This window alone: {shown[0]}{_alone_words(verdict.detail.get('newest_alone'))}"
        numbers["alone"] = shown[1]
    return Step("pooled", text, numbers)


def _not_pooled(context: VerdictContext) -> Step | None:
    """What the windows show together that would have been judged, had the newest not shown more by itself."""
    verdict, together = context.verdict, context.verdict.detail.get("together")
    if together is None:
        return None
    before = count_of(together["windows"] - 1, verdict.window.unit)
    found = together.get("change", together["value"])
    shown = f"a change of {number(found)}" if "change" in together else number(found)
    chance = "" if together["p_value"] is None else f", {equals('p', together['p_value'])}"
    rows, segment = count_of(together["n"], "row"), verdict.detail.get("segment")
    rows += "" if segment is None else f" of {segment_name(*segment)}"
    further = " further" if verdict.windows > 1 else ""
    text = (
        f"Not pooled{further}: together with the {before} before it that held rows this window shows {shown}, from "
        f"{rows}{chance}. Older windows may not hide what the newest shows by itself."
    )
    return Step("not_pooled", text, dict(together))


def _of_window_alone(verdict: Verdict, stored: Estimate | None) -> tuple[str, dict[str, Any]] | None:
    """The value of the verdict's window alone, in words and as numbers; None where it is not known.

    The stored estimate is that of all rows of the label. A verdict on a segment has its segment's value, but only
    where its windows together are beyond the threshold. One on small labels has none.
    """
    if "small_labels" in verdict.detail:
        return None
    segment, newest = verdict.detail.get("segment"), verdict.detail.get("newest_alone")
    if segment is not None:
        return None if newest is None else _of_segment_alone(verdict, segment_name(*segment), newest)
    if stored is None or stored.interval.value is None:
        return None
    one = stored.interval
    limits = "" if one.low is None else f" ({number(one.low)} to {number(one.high)})"
    numbers = {"value": one.value, "low": one.low, "high": one.high, "n": stored.n}
    return f"{number(one.value)}{limits}, from {count_of(stored.n, 'row')}, as it is stored now.", numbers


def _of_segment_alone(verdict: Verdict, segment: str, newest: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    change = "a change of " if compares(verdict) else ""
    numbers = {"value": newest["value"], "n": newest["n"]}
    return f"{change}{number(newest['value'])}, from {newest['n']:,} rows of {segment}.", numbers


def _since_words(verdict: Verdict) -> str:
    since = clean(str(verdict.detail.get("since", "an unknown window")))
    if verdict.detail.get("suspected"):
        return f"evidence is strongest from {since} on"
    return f"the rule is about lasting evidence, and nothing was suspected since {since}"


def _alone_words(alone: Mapping[str, Any] | None) -> str:
    """What the newest pooled window shows by itself, where all of them together are beyond the threshold."""
    if alone is None:
        return ""
    if alone["too_few"]:
        return " It has too few rows for a decision by itself."
    within = "By itself it is within the threshold: an open incident neither continues nor ends"
    return " By itself it is beyond the threshold as well." if alone["beyond"] else f" {within}."


def _effective(context: VerdictContext) -> Step | None:
    verdict = context.verdict
    effective, effect = verdict.detail.get("effective_rows"), verdict.detail.get("design_effect")
    if effective is None or effect is None or effective > 0.999 * verdict.n:
        return None
    if "of_rows" in verdict.detail:  # these numbers are of all rows
        return None
    worth = f"{effective:,.{0 if effective >= 10 else 1}f} independent ones"
    counts = f"{count_of(verdict.n, 'row')} {'counts' if verdict.n == 1 else 'count'}"
    text = f"Worth: {counts} as {'less than one independent row' if effective < 1 else worth}"
    alike = "rows of one item or cluster" if verdict.subject.label is None else "rows of one cluster"
    causes = [f"{alike} are alike, {effect:.4g} weigh as one"] if effect > 1.0005 else []
    causes += ["weights differ"] if effective * effect < 0.999 * verdict.n else []
    return Step("effective", f"{text} ({'; '.join(causes)}).", {"effective_rows": effective, "design_effect": effect})


def _promise(context: VerdictContext) -> Step | None:
    detail = context.verdict.detail
    promised, kept = detail.get("promised"), detail.get("kept")
    if promised is None or kept is None:
        return None
    which = "for automated rows, " if detail.get("of") == "automated" else ""
    text = f"Mean score and hit rate: {which}the mean score is {promised:.1%}, the hit rate {kept:.1%}."
    return Step("promise", text, {"promised": promised, "kept": kept})


def _textbook(context: VerdictContext) -> Step | None:
    verdict = context.verdict
    plug_in, value = verdict.plug_in, verdict.value
    if plug_in is None or value is None or number(plug_in) == number(value):
        return None
    why = {
        "ece": "it adds up distances, which are never negative, so that chance alone makes it larger; the value above "
        "is the error that would show as much in half of all samples",
        "mce": "it is the largest of many distances, thin bins among them, so that chance alone makes it larger; the "
        "value above has thin bins merged and would show as much in half of all samples",
    }
    text = f"Textbook value: {number(plug_in)}. {why.get(verdict.metric, 'The value above is debiased').capitalize()}."
    text += " This rule judges the textbook value." if as_judged(verdict) is not verdict else ""
    return Step("textbook", text, {"plug_in": plug_in, "value": value})


def _worst(context: VerdictContext) -> Step | None:
    detail, off = context.verdict.detail, off_in_worst(context.verdict)
    if detail.get("worst_range") is None or not off:
        return None
    (low, high), gap, n = detail["worst_range"], detail["worst_gap"], detail.get("worst_n", 0)
    observed = "" if off.startswith(f"{points(gap)} ") else f" (observed: {points(gap)})"
    text = f"Worst score range: {number(low)} to {number(high)}, {off}{observed}, from {count_of(n, 'row')}."
    blocked = detail.get("blocked")
    if blocked:
        ranges = ", ".join(f"{number(a)} to {number(b)}" for a, b in blocked)
        is_breach = context.verdict.outcome == "breach"
        how = "Significantly beyond the threshold" if is_breach else "By its own limits alone beyond the threshold"
        text += f" {how}, rounded outwards: {ranges}{'' if is_breach else ' (only a breach blocks it)'}."
    return Step("worst", text, {"range": [low, high], "gap": gap, "n": n, "blocked": blocked})


def _against(context: VerdictContext) -> Step | None:
    verdict, baseline = as_judged(context.verdict), context.baseline
    if "first" in verdict.detail.get("reference", {}):
        return _against_weeks_before(verdict, verdict.detail["reference"])
    if verdict.baseline_version is None or not (compares(verdict) or verdict.metric in TESTS):
        return None
    text = f"Against baseline version {verdict.baseline_version}"
    numbers: dict[str, Any] = {"version": verdict.baseline_version, "value": verdict.baseline}
    if baseline is not None:
        weeks = " to ".join(dict.fromkeys((baseline.first_window, baseline.last_window)))
        text += f" ({weeks}, {count_of(baseline.counts.rows, 'row')}, pinned by {clean(baseline.pinned_by)})"
        numbers |= {"first": baseline.first_window, "last": baseline.last_window, "rows": baseline.counts.rows}
    if verdict.baseline is not None:
        text += f": {title(verdict.metric)} {number(verdict.baseline)} then"
    renamed = renamed_since(verdict)
    if renamed:
        text += f". Renamed since, and taken for the same rows: {renamed}"
        numbers["renamed"] = verdict.detail["renamed"]
    return Step("baseline", f"{text}.", numbers)


def _against_weeks_before(verdict: Verdict, weeks: Mapping[str, Any]) -> Step:
    """The weeks before as the reference: they show a step; only the baseline shows a slow slope."""
    span = " to ".join(dict.fromkeys((weeks["first"], weeks["last"])))
    text = f"Against {reference(verdict)} ({span}, {weeks['rows']:,} rows)"
    if verdict.baseline is not None:
        text += f": {title(verdict.metric)} {number(verdict.baseline)} then"
    return Step("baseline", f"{text}.", {**weeks, "value": verdict.baseline})


def _change(context: VerdictContext) -> Step | None:
    verdict = as_judged(context.verdict)
    if verdict.change is None:
        return None
    text = f"Change: {verdict.change:+.4g}"
    if verdict.change_low is not None and verdict.change_high is not None:
        text += f" (interval {verdict.change_low:+.4g} to {verdict.change_high:+.4g})"
    numbers = {"change": verdict.change, "low": verdict.change_low, "high": verdict.change_high}
    return Step(
        "change",
        f"{text}; what counts is {'a fall of ' if falls(verdict) else ''}more than {number(verdict.threshold)}.",
        numbers,
    )


def _chance(context: VerdictContext) -> Step | None:
    verdict = context.verdict
    if verdict.p_value is None or "segment_p" in verdict.detail:  # that of several segments is in their own step
        return None
    if verdict.metric in TESTS:
        if_so = "if nothing had shifted"
    elif falls(verdict) and "accepted" in verdict.detail:
        if_so = f"if it had fallen by just {number(verdict.detail['accepted'])}"
    elif compares(verdict):
        if_so = "if nothing had changed"
    elif verdict.metric == "mce" and not is_floor(verdict):
        if_so = f"if every score range were off by {number(verdict.threshold)}"
    else:
        if_so = f"if the truth were just {number(verdict.threshold)}"
    extreme = "as little or less" if is_floor(verdict) else "as much or more"
    text = f"Chance: {if_so}, {extreme} would be seen with probability {equals('p', verdict.p_value)}"
    times = verdict.detail.get("times_judged")
    text += "." if times is None else f", counted for each of the {times} times that these rows are judged."
    return Step("p_value", text, {"p_value": verdict.p_value} | ({} if times is None else {"times_judged": times}))


def _evidence(context: VerdictContext) -> Step | None:
    """How the evidence grew, window by window."""
    verdict, detail = context.verdict, context.verdict.detail
    if not is_accumulated(verdict) or "path" not in detail:
        return None
    path = ", ".join(f"{clean(name)} {size(found)}" for name, _, _, _, found in detail["path"])
    labels, weeks = detail["labels"], detail["average_run_length"]
    every = "the label judged" if labels == 1 else f"the {labels} labels judged together"
    text = (
        f"Evidence, window by window: {path}. Needed: {size(detail['needed'])}, so that {every} "
        f"give{'s' * (labels == 1)} one false alarm in {weeks:,} weeks or more."
    )
    keys = ("evidence", "needed", "average_run_length", "labels", "since", "path")
    return Step("evidence", text, {name: detail.get(name) for name in keys})


def _segments(context: VerdictContext) -> Step | None:
    """For a rule on segments: which segment the numbers are about, and which segments are named."""
    detail = context.verdict.detail
    segment, alone = detail.get("segment"), detail.get("segment_evidence")
    if segment is not None and "segment_p" in detail:
        return _window_segments(context.verdict, segment_name(*segment))
    if segment is None or alone is None:
        return None
    count, judged, named = detail["segments"], detail["segments_judged"], detail["segments_named"]
    text = (
        f"Segments: {judged} of {count} have enough rows to be judged alone, and the evidence above is the mean of all "
        f"{count}. The other numbers are those of {segment_name(*segment)}, whose own evidence is {size(alone)}."
    )
    if named:
        named_text = "; ".join(
            f"{segment_name(column, value)} (hit rate {percent(kept)}, mean score {percent(promised)}, "
            f"{count_of(rows, 'row')}, evidence {size(found)})"
            for column, value, rows, promised, kept, found in named
        )
        text += f" Named: {named_text}."
    numbers = {name: detail[name] for name in detail if name.startswith("segment")}
    return Step("segments", text, numbers)


def _window_segments(verdict: Verdict, segment: str) -> Step:
    """For a rule that judges segments by the window: how many were tested, and their joint p-value."""
    detail = verdict.detail
    count, judged, tested, own_p = (detail[name] for name in _OF_SEGMENTS)
    text = f"Segments: {judged} of {count} could have shown what matters. The other numbers are those of {segment}."
    if own_p is not None and verdict.p_value is not None:
        alone = "is not beyond the threshold" if own_p >= 1 else f"has {equals('p', own_p)}"
        text += f" It {alone}; the {tested} with enough rows together (Simes) have {equals('p', verdict.p_value)}."
    if detail["segments_named"]:
        named_text = "; ".join(
            f"{segment_name(column, value)} ({number(measured)}, {count_of(rows, 'row')}, {equals('p', chance)})"
            for column, value, rows, measured, chance in detail["segments_named"]
        )
        text += f" Named: {named_text}."
    return Step("segments", text, {name: detail[name] for name in detail if name.startswith("segment")})


_OF_SEGMENTS = ("segments", "segments_judged", "segments_tested", "segment_p")


def _small_labels(context: VerdictContext) -> Step | None:
    """For a rule on small labels: how many there are, and which are most likely to be overconfident."""
    detail = context.verdict.detail
    if "likeliest" not in detail:
        return None
    named = ", ".join(
        f"{clean(label)} (hit rate {percent(kept)}, mean score {percent(promised)}, {count_of(rows, 'row')}, "
        f"{probability:.0%})"
        for label, rows, promised, kept, probability in detail["likeliest"]
    )
    text = f"Small labels: {detail['small_labels']:,} have too few rows to be judged alone, and are judged together."
    text += (
        f" Likeliest, by empirical Bayes, and no proof: {named}." if named else " None of them differs from the others."
    )
    return Step("small_labels", text, {name: detail[name] for name in ("small_labels", "likeliest")})


def _family(context: VerdictContext) -> Step | None:
    verdict, detail = context.verdict, context.verdict.detail
    if verdict.p_adjusted is None or verdict.p_value is None:
        return None
    size, rules, rank = detail.get("family"), detail.get("rules"), detail.get("rank")
    numbers = {"family": size, "rules": rules, "rank": rank, "p_adjusted": verdict.p_adjusted}
    if size is None or rules is None or rank is None:
        text = f"Among all labels and rules of the schedule: adjusted {equals('p', verdict.p_adjusted)}."
        return Step("family", text, numbers)
    place = "the only one tested" if size == 1 else f"number {rank} of the {size} tested, smallest first,"
    step = verdict.p_adjusted / rules
    paid = f"Benjamini-Hochberg makes it {chance(step)}" if verdict.p_adjusted < 1 else "Benjamini-Hochberg adjusts it"
    times = f"times {rules} metric rules of the schedule" if rules > 1 else "and no other rule counts with it"
    by = "all shift tests of the source" if "column" in detail else "this rule"
    text = f"Family: p is {place} by {by}; {paid}, {times}: adjusted {equals('p', verdict.p_adjusted)}."
    return Step("family", text, numbers)


def _detectable(context: VerdictContext) -> Step | None:
    verdict = context.verdict
    if out_of_reach(verdict):
        text = f"What could have been seen: no truth can be beyond the threshold ({number(verdict.threshold)})."
        return Step("detectable", text, {"detectable": None, "threshold": verdict.threshold})
    if verdict.detectable is None:
        return None
    text = f"What could have been seen: {smallest_seen(verdict)} or more, with 80% power"
    most = verdict.detail.get("seen_at_most")
    text += "" if most is None else f"; at most {number(most)} is asked for"
    numbers = {"detectable": verdict.detectable, "seen_at_most": most, "threshold": verdict.threshold}
    return Step("detectable", f"{text} (the threshold is {number(verdict.threshold)}).", numbers)


_DATA = (_rule, _population, _seen, _why_pooled, _not_pooled, _effective, _promise, _textbook, _worst)
_COMPARISON = (_against, _change, _chance, _evidence, _segments, _small_labels, _family, _detectable)


_STEPS: tuple[Callable[[VerdictContext], Step | None], ...] = (*_DATA, *_COMPARISON)


def _therefore(verdict: Verdict) -> str:
    """The outcome with its reason."""
    meaning = f", {unconfirmed_words(verdict)}" if verdict.outcome == "unconfirmed" else ""
    outcome = verdict.outcome.replace("_", " ")
    return f"Therefore: {outcome}{meaning} ({verdict.reason.value.replace('_', ' ')}){_not_ruled_out(verdict)}."


def _not_ruled_out(verdict: Verdict) -> str:
    """That the interval of what is within the threshold reaches beyond it; "" if it does not."""
    if verdict.reason != Reason.WITHIN_THRESHOLD or out_of_reach(verdict):
        return ""
    fall = None if verdict.change_low is None else -verdict.change_low
    limit = (
        fall
        if falls(verdict)
        else verdict.change_high
        if rises(verdict)
        else verdict.low
        if is_floor(verdict)
        else verdict.high
    )
    if limit is None or (limit >= verdict.threshold if is_floor(verdict) else limit <= verdict.threshold):
        return ""
    return f"; its interval still reaches to {number(limit)}, so that it is beyond is not ruled out"
