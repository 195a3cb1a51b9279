"""The explanation of a verdict: the questions that led to it, each with its answer.

The questions and their order are stored with the verdict: ``comparisons.gates`` and ``verdicts.decision_of`` record
them while they decide. Nothing is decided or computed here, so the explanation of an old verdict does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from monitor.automation.evidence import segments_off
from monitor.automation.switch import kept_words
from monitor.config.model import TestName
from monitor.core import documents
from monitor.core.baseline import Baseline
from monitor.core.records import ActionKind, KeptScores, Reason, RejectedRows, Verdict, Where
from monitor.core.rejection_records import from_detail
from monitor.core.rejection_words import fact, remedy
from monitor.core.score_ranges import ranges_text
from monitor.core.wording import (
    FLOORS,
    OVERCONFIDENCE,
    as_judged,
    changed_settings,
    clean,
    count_of,
    missing_part,
    out_of_reach,
    percent,
    place,
    plain_words,
    pooled,
    reference,
    renamed_since,
    segment_name,
    title,
    waits_for,
    who,
)
from monitor.metrics.names import ACCUMULATES
from monitor.metrics.registry import METRICS
from monitor.metrics.selective import OF_AUTOMATED
from monitor.report.csv_table import Table
from monitor.report.run_document import verdict_row
from monitor.report.words import labels_words

TESTS: tuple[str, ...] = get_args(TestName)
ROW: Mapping[Where, str] = {"all": "row", "predicted": "predicted row", "automated": "automated row"}
_LEAST = 1e-15
Passed: TypeAlias = bool | None
"""Whether a check passed; None for a mere fact."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question about a verdict, and its answer. ``passed`` is None for a mere fact."""

    name: str
    question: str
    passed: Passed
    answer: str

    @property
    def text(self) -> str:
        """The question with its answer, as one line."""
        said = "" if self.passed is None else "Yes: " if self.passed else "No: "
        return f"{self.question} {said}{self.answer}."


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole reasoning: the verdict in a sentence, what is to be known with it, and its checks in their order."""

    verdict: Verdict
    sentence: str
    notes: tuple[str, ...]
    checks: tuple[Check, ...]


def explain(
    verdict: Verdict,
    revision: str,
    baseline: Baseline | None = None,
    newer: str | None = None,
    quality: Sequence[RejectedRows] = (),
) -> Explanation:
    """The reasoning of a verdict. ``revision`` is that of the rules in alerts.yaml today.

    ``baseline`` is the version it was compared with, ``newer`` the id of the verdict that replaced it, ``quality`` what
    its window's reading noted.
    """
    stored = [*((name, None) for name in _FACTS), *verdict.detail.get("checks", ())]
    checks = []
    for name, passed in stored:
        question, answer_of = {**_FACTS, **_CHECKS}[name]
        answer = answer_of(verdict, passed)
        if name == "baseline" and baseline is not None:
            span = " to ".join(dict.fromkeys((baseline.first_window, baseline.last_window)))
            answer += f" ({span}, {count_of(baseline.counts.rows, 'row')}, pinned by {clean(baseline.pinned_by)})"
        checks += [Check(name, question, passed, answer)] if answer else []
    notes = list(labels_words(verdict.subject.source, quality))
    if newer is not None:
        notes.insert(0, f"this window has been judged again since, on other rows or rules: see {newer}.")
    if verdict.rules_revision != revision:
        was = f"alerts.yaml has changed since this verdict (revision {verdict.rules_revision} then, {revision} now)."
        notes.insert(0, f"{was} What follows is what was stored with it, and says nothing about the rules of today.")
    return Explanation(
        verdict, _sentence(verdict, [c for c in checks if c.passed is not None]), tuple(notes), tuple(checks)
    )


def lines(explanation: Explanation, *, short: bool = False) -> Iterator[str]:
    """The explanation line by line, for a terminal; ``short``: without what its rule asks and where to read more."""
    verdict, decided = explanation.verdict, [check for check in explanation.checks if check.passed is not None]
    of_rule = f" ({verdict.rule}, {verdict.severity}; verdict {verdict.id[:12]})" if short else ""
    yield f"{explanation.sentence}{of_rule}."
    if not short:
        yield from (f"Note: {note}" for note in explanation.notes)
        yield from (check.text for check in explanation.checks if check.passed is None)
        yield "How it was decided, in this order:"
    yield from (f"  {i}. {check.text}" for i, check in enumerate(decided, start=1))
    if short:
        return
    if verdict.actions:
        yield f"It asks for: {', '.join(_asked(verdict, action) for action in verdict.actions)}."
    if rejected := verdict.detail.get("rejected"):
        yield f"What to do: {remedy(from_detail(rejected))}"
    further = f", calmon docs {verdict.rule}" if f"rules/{verdict.rule}" in documents.pages() else ""
    yield f"More: calmon docs {verdict.reason.value}{further}"


def document(explanation: Explanation) -> dict[str, Any]:
    """The same as data: the verdict's row with ``sentence``, ``notes``, ``checks`` and the numbers behind them."""
    verdict = explanation.verdict
    checks = Table.of(explanation.checks, "check=name", "question", "passed", "answer").documents
    told = {"sentence": explanation.sentence, "notes": list(explanation.notes), "checks": checks}
    more = {name: getattr(verdict, name) for name in ("low", "high", "plug_in", "baseline_version")}
    numbers = more | {name: value for name, value in verdict.detail.items() if name != "checks"}
    return verdict_row(verdict) | told | {"numbers": numbers}


def _sentence(verdict: Verdict, checks: Sequence[Check]) -> str:
    """The verdict in one sentence: a breach in words of its own, all else by the checks that decided it."""
    if verdict.outcome == "breach":
        return plain_words(verdict)
    answers, last = {check.name: check.answer for check in checks}, checks[-1].name if checks else ""
    outcome, deciding = f"is {unconfirmed_words(verdict)}", ["beyond", last]
    if verdict.outcome == "not_evaluated":
        outcome, deciding = "was not judged", ["enough_rows" if "enough_rows" in answers else last]
    elif verdict.outcome == "ok":
        outcome, deciding = "is within the limit", ["beyond"]
    elif last == "newest_within":
        deciding = [last, "beyond"]
    elif verdict.reason == Reason.STREAK_INCOMPLETE:
        deciding = ["beyond", "every_window"]
    elif verdict.reason == Reason.NOT_SIGNIFICANT_IN_FAMILY:
        deciding = ["beyond", "sure", "enough_evidence"]
    why = "; ".join(answers[name] for name in deciding if name in answers)
    of = f" ({several})" if (several := pooled(verdict)) else ""
    return f"{who(verdict.subject)}{place(verdict)} {outcome}: {why}{of}"


def _asked(verdict: Verdict, action: ActionKind) -> str:
    """What an action of a breach asks for; to turn off segments leaves the rest of the label on."""
    if action == "block_scores":
        ranges = ranges_text((low, high) for low, high in verdict.detail.get("blocked") or ())
        beyond = f"no automation of scores {ranges}, significantly beyond the threshold (rounded outwards)"
        return beyond if ranges else "automation off, since no range of scores stands out"
    if action == "limit_scores":
        kept = verdict.detail.get("limit")
        off = "automation off, since no score is shown to be safe"
        return f"automation {kept_words(KeptScores(**kept))}" if kept else off
    if action == "slack":
        return "a message"
    names = "; ".join(segment_name(*segment) for segment in segments_off(verdict))
    return "automation off" + (f" for {names}" if names else "")


# --- words for numbers


def number(value: float | None, sign: str = "") -> str:
    """A number with four significant digits.

    >>> number(0.01234567), number(None), number(0.5, "+")
    ('0.01235', 'undefined', '+0.5')
    """
    return "undefined" if value is None else f"{value:{sign}.4g}"


def p_is(value: float) -> str:
    """A p-value as an equation. Below 1e-15 it is a rounding error, and no chance is 0.

    >>> p_is(0.01234), p_is(0.0)
    ('p = 0.0123', 'p < 1e-15')
    """
    return f"p < {_LEAST:.0e}" if value < _LEAST else f"p = {value:.3g}"


def size(evidence: float) -> str:
    """Evidence, from 100 on as a whole number, else with two significant digits.

    >>> size(10400.0), size(0.0312)
    ('10,400', '0.031')
    """
    return f"{evidence:,.0f}" if evidence >= 100 else f"{evidence:.2g}"


def _span(low: float | None, high: float | None, sign: str = "") -> str:
    return "" if low is None or high is None else f"{number(low, sign)} to {number(high, sign)}"


def _condition(verdict: Verdict) -> str:
    """What the rule asks of its metric; the direction of accumulated evidence is that of the metric."""
    condition = verdict.detail.get("condition") or "beyond"
    if condition == "accumulated":
        return "below" if ACCUMULATES.get(verdict.metric) == "below" else "above"
    return str(condition)


def _direction(verdict: Verdict) -> str:
    """ "rise" or "fall" for a rule about a change since the baseline, else ""."""
    directions = {"increase": "rise", "decrease": "fall"}
    return "" if verdict.metric in TESTS else directions.get(_condition(verdict), "")


def unconfirmed_words(verdict: Verdict) -> str:
    """The outcome ``unconfirmed`` in words: on which side of the limit the value is, and that this is not confirmed."""
    side = "below" if _condition(verdict) in FLOORS else "above"
    why = "as another share of true items explains" if verdict.reason is Reason.CLASS_MIX else "not confirmed"
    return f"{side} the limit, {why}"


def _is_accumulated(verdict: Verdict) -> bool:
    return verdict.detail.get("condition") == "accumulated" or "accumulates" in verdict.detail


def _measured(verdict: Verdict) -> float | None:
    """What was compared with the threshold: the size of a rise or a fall, else the value."""
    judged, direction = as_judged(verdict), _direction(verdict)
    if direction == "fall":
        return None if judged.change is None else -judged.change
    return judged.change if direction else judged.value


def _than(verdict: Verdict, *, passed: Passed) -> str:
    which = "less" if _condition(verdict) == "below" else "more"
    return f"{'' if passed else 'not '}{which} than {number(verdict.threshold)}"


# --- facts

_ROWS = {
    "all": "all rows of {}",
    "predicted": "the rows of {} that the classifier gave this label",
    "automated": "the rows of {} that automation takes while it is on (predicted, with a score from automate_at on)",
}
_OF_TRUTHS = {
    **dict.fromkeys(("recall", "false_negative_rate"), "came true"),
    **dict.fromkeys(("specificity", "false_positive_rate"), "did not come true"),
}


def _rule(verdict: Verdict, passed: Passed) -> str:
    detail, limit, name = verdict.detail, number(verdict.threshold), title(verdict.metric)
    then = f"that of {reference(verdict)}" if "reference" in detail else "the baseline's"
    direction, lasting = _direction(verdict), _is_accumulated(verdict)
    if verdict.metric == "overconfidence":
        name = f"{name} ({OVERCONFIDENCE})"
    if verdict.metric in TESTS:
        asks = f"whether the distribution is farther from {then} than {name} {limit}"
    elif direction:
        moved = "risen by more than {} over {}" if direction == "rise" else "fallen by more than {} below {}"
        asks = f"whether {name} has {moved.format(limit, then)}" + ", over all windows together" * lasting
    else:
        grown = "evidence has accumulated, over all windows together, that " if lasting else ""
        asks = f"whether {grown}{name} is {_condition(verdict)} {limit}"
    parts = [
        f"{verdict.rule} ({verdict.severity}) asks {asks}",
        "in any of its segments" if "segment" in detail else "",
        "by its textbook value" if detail.get("judged") == "plug_in" else "",
        "significant or not (certainty: none)" if detail.get("certainty") == "none" else "",
        f"in each of {detail.get('asks')} windows or groups of windows in a row" if detail.get("asks", 1) > 1 else "",
    ]
    return ", ".join(part for part in parts if part)


def _subject(verdict: Verdict, passed: Passed) -> str:
    window, rows = verdict.window, _ROWS["automated" if verdict.metric in OF_AUTOMATED else verdict.where]
    rank = METRICS[verdict.metric].rank if verdict.metric in METRICS else None
    if rank is not None:
        rows = (
            "the highest score of each item of {}" if rank == 1 else f"the {rank} highest scores of each item of {{}}"
        )
    answer = rows.format(f"{clean(verdict.subject.name)} in {window.name} ({window.schedule})")
    if verdict.detail.get("before_truth"):
        answer += ", of those whose truth was not known at the end of the window: an estimate"
    return answer


def _windows(verdict: Verdict, passed: Passed) -> str:
    """Why several windows were put together, or why not."""
    detail, answers, asks = verdict.detail, [], verdict.detail.get("asks", 1)
    if verdict.windows > 1:
        since = clean(str(detail.get("since")))
        why = (
            f"evidence is strongest from {since} on"
            if _is_accumulated(verdict) and detail.get("suspected")
            else f"the rule is about lasting evidence, and nothing was suspected since {since}"
            if _is_accumulated(verdict)
            else f"the rule is about {asks} of them running"
            if verdict.windows == asks
            else "the rows of fewer could not be compared"
            if verdict.reason == Reason.SCORES_MOVED
            else "the rows of fewer could not have shown a change that matters"
            + f", or gave too few to one of the {asks} running" * (asks > 1)
        )
        groups = "" if asks in (verdict.windows, 1) else f", in {asks} groups"
        answers.append(f"this one with the {verdict.windows - 1} before it that held rows, because {why}{groups}")
    alone = detail.get("newest_alone")
    if alone is not None:
        beyond = "beyond the threshold as well" if alone["beyond"] else "within the threshold"
        shown = f"{'a change of ' if _direction(verdict) else ''}{number(alone['value'])}"
        rows = f"{count_of(alone['n'], 'row')}{place(verdict)}"
        says = "too few for a decision by themselves" if alone["too_few"] else beyond
        answers.append(f"this window alone has {shown} from {rows}, {says}")
    together = detail.get("together")
    if together is not None:
        before, change = count_of(together["windows"] - 1, verdict.window.unit), together.get("change")
        shown = number(together["value"]) if change is None else f"a change of {number(change)}"
        p_value = "" if together["p_value"] is None else f", {p_is(together['p_value'])}"
        answers.append(
            f"not with the {before} before it that held rows, since older windows may not hide what the newest shows "
            f"by itself (together they show {shown}, from {count_of(together['n'], 'row')}{place(verdict)}{p_value})"
        )
    return "; ".join(answers)


def _truth_error(verdict: Verdict, passed: Passed) -> str:
    """Only where the source states how many truths are wrong: what they alone can make, and what is left."""
    facts = verdict.detail.get("truth_error")
    if facts is None:
        return ""
    name, share, limits = title(verdict.metric), facts["share"], facts.get("without")
    left = "" if limits is None else f"; without them it would be {number(limits[0])} ({_span(limits[1], limits[2])})"
    return (
        f"{share:.4g} by `truth_error` in alerts.yaml, which alone can move {name} by as much, so that the limit is "
        f"{number(verdict.threshold)} where the rule says {number(facts['stated'])}{left}"
    )


def _segments(verdict: Verdict, passed: Passed) -> str:
    """For a rule on segments: which one the numbers are about, how many were judged, which are named."""
    detail = verdict.detail
    segment = detail.get("segment")
    if segment is None or "segments_judged" not in detail:
        return ""
    parts = [segment_name(*segment)]
    parts.append(f"{detail['segments_judged']} of {detail['segments']} could have shown what matters")
    if "segment_evidence" in detail:
        parts.append(f"its own evidence is {size(detail['segment_evidence'])}, that of the label the mean of all")
    elif (p_value := detail.get("segment_p")) is not None:
        parts.append(f"it has {p_is(p_value)}" if p_value < 1 else "it is not beyond the threshold")
    named = [f"{segment_name(*line[:2])} ({count_of(line[2], 'row')})" for line in detail["segments_named"]]
    return "; ".join([*parts, f"named: {', '.join(named)}"] if named else parts)


def _week_effect(verdict: Verdict, passed: Passed) -> str:
    """For a change, where weeks differ: by how much they do so more than their rows explain."""
    effect = verdict.detail.get("week_effect")
    if effect is None:
        return ""
    return (
        f"more than their rows alone explain, in the {verdict.detail['baseline_weeks']} of the baseline (of all labels "
        f"together, and of this one as far as it stands out): p-value and detectable change take the variance of these "
        f"rows times {effect:.3g}"
    )


# --- what is asked before anything is measured


def _readable(verdict: Verdict, passed: Passed) -> str:
    failures = {
        Reason.RELATION_ERROR: "the relation of the source is not what alerts.yaml says",
        Reason.WAREHOUSE_FAILED: "the warehouse did not answer",
        Reason.UNRESOLVED_FAILED: f"the counts of the source were read, but not {missing_part(verdict)}",
    }
    return failures.get(verdict.reason, f"{clean(verdict.subject.source)} was read for {verdict.window.name}")


def _rows(verdict: Verdict, passed: Passed) -> str:
    kind, detail = ROW[verdict.where], verdict.detail
    if not passed and detail.get("before_truth"):
        return "no item of this window waits for its outcome"
    if not passed and _is_accumulated(verdict) and verdict.metric in {*ACCUMULATES} - {"overconfidence"}:
        return f"no rows of equal weight of which {title(verdict.metric)} is a share arrived"
    if not passed:
        other = f" (of {count_of(verdict.n, 'row')} of any kind)" if verdict.n else ""
        return f"not one {kind} in this window or in those that may be pooled with it{other}"
    promised, kept = detail.get("promised"), detail.get("kept")
    rows = count_of(verdict.n, kind if verdict.outcome != "not_evaluated" or kept is not None else "row")
    if "of_rows" in detail and verdict.where != "automated":
        rows = f"{count_of(detail['of_rows'], ROW['automated'])} of {rows}"
    if _is_accumulated(verdict) and verdict.metric in _OF_TRUTHS:  # n counts these alone
        rows += f" that {_OF_TRUTHS[verdict.metric]}"
    if promised is not None and kept is not None:
        rows += f"{_worth(verdict)}, with a mean score of {promised:.1%} and a hit rate of {kept:.1%}"
        if verdict.metric == "false_negative_rate":
            rows += ": it is a share of those that came true"
    return rows


def _worth(verdict: Verdict) -> str:
    """How many independent rows they count as; "" where that is their number, or known of other rows only."""
    effective, effect = verdict.detail.get("effective_rows"), verdict.detail.get("design_effect")
    if effective is None or effect is None or effective > 0.999 * verdict.n or "of_rows" in verdict.detail:
        return ""
    worth = "less than one independent row"
    if effective >= 1:
        worth = f"{effective:,.{0 if effective >= 10 else 1}f} independent ones"
    alike = "rows of one item or cluster" if verdict.subject.label is None else "rows of one cluster"
    causes = [f"{alike} are alike, {effect:.4g} weigh as one"] if effect > 1.0005 else []
    causes += ["weights differ"] if effective * effect < 0.999 * verdict.n else []
    return f" (worth {worth}: {'; '.join(causes)})"


def _outside_baseline(verdict: Verdict, passed: Passed) -> str:
    answer = "it lies outside" if verdict.baseline_version is not None else "no pinned baseline is used"
    if not passed:
        answer = f"{verdict.window.name} is part of what the baseline was made from"
    return answer


def _baseline(verdict: Verdict, passed: Passed) -> str:
    weeks, version = verdict.detail.get("reference"), verdict.baseline_version
    if weeks is not None:
        span = " to ".join(dict.fromkeys((weeks["first"], weeks["last"]))) if passed else ""
        had = f"({span}) had {count_of(weeks['rows'], 'row')}" if passed else "had no rows"
        answer = f"{reference(verdict)} {had}"
    elif passed:
        renamed = renamed_since(verdict)
        answer = "one was pinned" if version is None else f"version {version}"
        answer += f", with what was renamed since taken for the same rows ({renamed})" if renamed else ""
    else:
        answer = f"no baseline was pinned{' for any of its labels' if 'mix_of' in verdict.detail else ''}"
    return answer


def _comparable(verdict: Verdict, passed: Passed) -> str:
    moved, held = verdict.detail.get("moved_share"), verdict.detail.get("comparable")
    answer = f"window and {reference(verdict).removeprefix('the ')} were looked at through the same bins"
    if verdict.detail.get("rebinned"):
        answer = f"after new bins were made for both, since scores had moved; they hold {percent(held)} of the rows"
    if not passed:
        then = "the baseline has" if "reference" not in verdict.detail else f"{reference(verdict)} had"
        answer = (
            f"{percent(moved)} of the window's rows lie in bins whose mean score moved, and new bins for which "
            f"{then} enough rows hold {percent(held)} of them (80% in at least 5 bins are needed)"
        )
    return answer


def _test_result(verdict: Verdict, passed: Passed) -> str:
    seen = f"{title(verdict.metric)} {number(verdict.value)}"
    return seen if passed else f"{title(verdict.metric)} has no value for {count_of(verdict.n, 'row')}"


# --- what decides


def _beyond(verdict: Verdict, passed: Passed) -> str:
    judged, direction = as_judged(verdict), _direction(verdict)
    than, then = _than(verdict, passed=passed), reference(verdict)
    if _measured(verdict) is None:
        return f"{'the change' if direction else title(verdict.metric)} is undefined for these rows"
    level = verdict.detail.get("confidence", 0.95)
    span, textbook = _span(judged.low, judged.high), number(verdict.plug_in)
    remarks = [f"{100 * level:.4g}% interval {span}"] if span else []
    if judged is not verdict:
        remarks.append("the textbook value, which this rule judges")
    elif textbook not in ("undefined", number(verdict.value)):
        remarks.append(f"textbook value {textbook}")
    noted = f" ({'; '.join(remarks)})" if remarks else ""
    answer = f"{title(verdict.metric)} {number(judged.value)}{noted}"
    if not direction:
        return f"{answer} is {than}{_not_ruled_out(verdict)}"
    limits = _span(judged.change_low, judged.change_high, "+")
    change = f"{number(judged.change, '+')}{f' ({limits})' if limits else ''}"
    before = "" if judged.baseline is None else f", {number(judged.baseline)} in {then}"
    which = f"{'' if passed else 'not '}a {direction} of {than.removeprefix('not ')}"
    return f"{answer}{before}: the change of {change} is {which}{_not_ruled_out(verdict)}"


def _not_ruled_out(verdict: Verdict) -> str:
    """That the interval of what is within the threshold reaches beyond it; "" if it does not."""
    if verdict.reason != Reason.WITHIN_THRESHOLD or out_of_reach(verdict):
        return ""
    is_floor, fall = _condition(verdict) == "below", None if verdict.change_low is None else -verdict.change_low
    reaches = {"fall": fall, "rise": verdict.change_high}
    limit = reaches.get(_direction(verdict), verdict.low if is_floor else verdict.high)
    if limit is None or (limit >= verdict.threshold if is_floor else limit <= verdict.threshold):
        return ""
    return f"; its interval still reaches to {number(limit)}, so that it is beyond is not ruled out"


def _every_window(verdict: Verdict, passed: Passed) -> str:
    asks, groups = verdict.detail.get("asks", 1), verdict.detail.get("groups", [])
    several = any(group["windows"] > 1 for group in groups)
    values = [
        f"{number(group['value'])} (n = {group['n']:,}"
        + f" in {count_of(group['windows'], 'window')}" * several
        + f"{', too few to say' * bool(group.get('too_few'))})"
        for group in groups
    ]
    few = f"there are only {len(groups)} of them; " if len(groups) < asks else ""
    return f"{few}newest first: {', '.join(values) or 'not stored'}"


def _sure(verdict: Verdict, passed: Passed) -> str:
    detail, p_value, adjusted = verdict.detail, verdict.p_value, verdict.p_adjusted
    if verdict.metric == "psi":
        return f"PSI has no p-value; what counts is whether there are enough rows, and {_rows_words(verdict)}"
    if p_value is None or adjusted is None:
        return "these rows give no p-value"
    family, rules, by = detail["family"], detail["rules"], "this rule"
    if "column" in detail:
        by = "all shift tests of the source"
    times = detail.get("times_judged")
    looked = "" if times is None else f", counted for each of the {times} times that these rows are judged"
    among = "the only p-value" if family == 1 else f"number {detail['rank']} of the {family} p-values (smallest first)"
    counts = f", times {rules} metric rules of the schedule" if rules > 1 else ""
    below = f"{'' if passed else 'not '}below {number(detail['rate'])}"
    return f"{_chance(verdict)} {p_is(p_value)}{looked}; as {among} of {by}{counts}: adjusted {p_is(adjusted)}, {below}"


def _chance(verdict: Verdict) -> str:
    """What the p-value is the probability of."""
    is_floor, limit = _condition(verdict) == "below", number(verdict.threshold)
    if "segment_p" in verdict.detail:
        return f"the {verdict.detail['segments_tested']} segments with enough rows have, together (Simes),"
    if verdict.metric in TESTS:
        if_so = "if nothing had shifted"
    elif _direction(verdict):
        accepted = verdict.detail.get("accepted")
        by_little = f"if it had fallen by just the accepted {number(accepted)}"
        if_so = "if nothing had changed" if accepted is None else by_little
    elif verdict.metric == "mce" and not is_floor:
        if_so = f"if every score range were off by {limit}"
    else:
        if_so = f"if the truth were just {limit}"
    return f"{if_so}, as {'little or less' if is_floor else 'much or more'} would be seen with"


def _enough_evidence(verdict: Verdict, passed: Passed) -> str:
    detail, labels = verdict.detail, verdict.detail["labels"]
    against = f"{size(detail['needed'])} or more" if passed else f"less than {size(detail['needed'])}"
    gives = "the label judged gives" if labels == 1 else f"the {labels} labels judged together give"
    path = ", ".join(f"{clean(name)} {size(evidence)}" for name, _, _, _, evidence in detail["path"])
    return (
        f"evidence {size(detail['evidence'])} is {against}, with which {gives} one false alarm in "
        f"{detail['average_run_length']:,} weeks or more (window by window: {path})"
    )


def _behaviour(verdict: Verdict, passed: Passed) -> str:
    """Only for a breach: did the label change, or the traffic?"""
    p_value = p_is(verdict.detail["p_rate"] or 0.0)
    which = f"{'' if passed else 'not '}below {number(verdict.detail['rate'])}"
    traffic = "" if passed else ": more traffic where scores were already wrong explains it"
    return f"with the gaps of both windows pooled {p_value}, {which}{traffic}"


def _class_mix(verdict: Verdict, passed: Passed) -> str:
    """Only beyond the threshold and significant: does another share of true items alone explain it?"""
    mix = verdict.detail["class_mix"]
    shares = f"{mix['then']:.1%} were true, now {mix['now']:.1%} ({p_is(mix['p_value'])})"
    fit = f"that true items, and others, are scored as they were has {p_is(mix['fit'])}"
    if "scores" in mix:
        fit += f", and that scores lie as before {p_is(mix['scores'])}"
    if mix.get("is_separable") is False:
        fit += ", but the baseline's scores do not separate the two, so that a fault would look the same"
    if "evidence_at_shares" in mix:
        fit += f"; beside the baseline at the share of each window the evidence is {size(mix['evidence_at_shares'])}"
    return f"{shares}, which brings {mix['expected_rise']:+.4f}; {fit}"


def _could_be_seen(verdict: Verdict, passed: Passed) -> str:
    parts, most, direction = [_rows_words(verdict)], verdict.detail.get("seen_at_most"), _direction(verdict)
    if verdict.metric not in TESTS:
        if _measured(verdict) is None:
            parts.append(f"{title(verdict.metric)} is undefined for them, which shows nothing")
        elif out_of_reach(verdict):
            parts.append("no truth can be beyond the threshold")
        elif verdict.detectable is None:
            parts.append("not even the largest possible change would have shown")
        else:
            limit = "" if most is None else f" (to be ok, {number(most)} or less must show)"
            what = f"a {direction} of" if direction else "a truth beyond the threshold by"
            parts.append(f"{what} {number(verdict.detectable)} would have shown with 80% power{limit}")
    if "windows_needed" in verdict.detail:
        needed = count_of(verdict.detail["windows_needed"], verdict.window.unit)
        parts.append(f"it would take about {needed} of such rows")
    return ", and ".join(parts)


def _newest_within(verdict: Verdict, passed: Passed) -> str:
    """Only where it decided: the newest of the windows running is beyond the threshold, all of them are not."""
    newest = verdict.detail["groups"][0]
    which = f"the newest {newest['windows']} windows have" if newest["windows"] > 1 else "the newest window has"
    value = newest["value"] or 0.0
    measured = number(-value if _direction(verdict) == "fall" else value)
    return f"{which} {measured} by itself, which is {_than(verdict, passed=True)}"


def _enough_rows(verdict: Verdict, passed: Passed) -> str:
    """Only for rules that need no p-value, and of rows too few to be compared with the baseline's."""
    answer, needed = _rows_words(verdict), verdict.detail.get("rows_needed")
    is_told = _measured(verdict) is not None or (needed is not None and verdict.n < needed)
    return answer if is_told else f"{answer}, and it is undefined"


def _rows_words(verdict: Verdict) -> str:
    needed = verdict.detail.get("rows_needed")
    rows, of_all = f"{count_of(verdict.n, ROW[verdict.where])}{place(verdict)}", verdict.detail.get("of_rows")
    if of_all is not None and verdict.where == "all":
        rows = f"{of_all:,} automated rows of {rows}"
    there = f"there {'is' if verdict.n == 1 else 'are'} {rows}"
    return there if needed is None else f"{there} ({needed:,}{' rows' if of_all else ''} are needed)"


_Answer = Callable[[Verdict, Passed], str]
_FACTS: Mapping[str, tuple[str, _Answer]] = {
    "rule": ("What is asked?", _rule),
    "subject": ("Which rows does it look at?", _subject),
    "windows": ("Which windows are put together?", _windows),
    "segments": ("Which segment are the numbers of?", _segments),
    "truth_error": ("How many truths are wrong themselves?", _truth_error),
    "week_effect": ("By how much do weeks differ?", _week_effect),
}
"""What is told before the checks: the question and its answer."""
_CHECKS: Mapping[str, tuple[str, _Answer]] = {
    "readable": ("Could the source be read?", _readable),
    "accepted": (
        "Were the rows accepted?",
        lambda verdict, _: (
            f"what is left of {verdict.window.name} says nothing about the rest: "
            + fact(from_detail(verdict.detail["rejected"]))
        ),
    ),
    "mature": ("Are enough truths known?", lambda verdict, _: waits_for(verdict.detail["maturity"])),
    "rows": ("Are there rows to look at?", _rows),
    "outside_baseline": ("Is the window outside the baseline's own time?", _outside_baseline),
    "baseline": ("Is there a baseline to compare with?", _baseline),
    "same_settings": (
        "Was the baseline pinned under the present settings of the source?",
        lambda verdict, _: f"the baseline was pinned under other settings ({changed_settings(verdict)})",
    ),
    "comparable": ("Can the bins be compared?", _comparable),
    "test_result": ("Has the test a result?", _test_result),
    "enough_rows": ("Are there enough rows?", _enough_rows),
    "beyond": ("Is it beyond the threshold?", _beyond),
    "every_window": ("Is each window beyond it by itself?", _every_window),
    "sure": ("Is it confirmed?", _sure),
    "enough_evidence": ("Is there enough evidence?", _enough_evidence),
    "behaviour": ("Does the label behave differently at equal scores?", _behaviour),
    "class_mix": ("Does another share of true items explain it?", _class_mix),
    "could_be_seen": ("Could a change that matters have been seen?", _could_be_seen),
    "newest_within": ("Is the newest of them within it as well?", _newest_within),
}
"""The same of each check."""
