"""What is the matter with one label in one window, from all of its verdicts together. Pure: read this module first.

Verdicts say whether something is wrong; the windows behind them say since when (:mod:`monitor.evaluation.trouble`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem, Notes, NotTold
from monitor.core.episodes import episodes
from monitor.core.records import SEVERITY_RANK, Reason, Schedule, Verdict, Window
from monitor.evaluation.label_facts import LabelFacts
from monitor.evaluation.next_step import advice_for_silence
from monitor.evaluation.trouble import direction_of, with_trouble

NEWEST: Mapping[Schedule, timedelta] = {"weekly": timedelta(weeks=2), "daily": timedelta(days=2)}
"""A verdict that is older says nothing of the present window."""
_RANKING = frozenset({"roc_auc", "pr_auc", "auc_ovo", "auc_ovr_macro", "auc_ovr_weighted", "imcp_area"})
_CALIBRATION = frozenset({
    "ece", "mce", "ace", "brier", "nll", "equal_width_ece", "class_weighted_nll", "brier_reliability",
    "brier_resolution", "brier_uncertainty", "expected_ece",
})  # fmt: skip
_OVERCONFIDENCE = frozenset({"overconfidence", "excess_errors", "expected_overconfidence"})
_MISSES = frozenset({"false_negative_rate", "recall"})
_NOT_TOLD: Mapping[Reason, NotTold] = {
    Reason.RELATION_ERROR: NotTold.SOURCE_NOT_READ,
    Reason.WAREHOUSE_FAILED: NotTold.SOURCE_NOT_READ,
    Reason.UNRESOLVED_FAILED: NotTold.SOURCE_NOT_READ,
    Reason.REJECTED_ROWS: NotTold.REJECTED_ROWS,
    Reason.NO_ROWS: NotTold.NO_ROWS,
    Reason.NOT_MATURE: NotTold.NOT_MATURE,
    Reason.NO_BASELINE: NotTold.NO_BASELINE,
    Reason.SETTINGS_CHANGED: NotTold.NO_BASELINE,
    Reason.IN_BASELINE: NotTold.NO_BASELINE,
    Reason.SCORES_MOVED: NotTold.NO_BASELINE,
    Reason.TOO_FEW_ROWS: NotTold.TOO_FEW_ROWS,
}


def diagnose(facts: LabelFacts) -> Diagnosis:
    """The diagnosis of one label, or of a source as a whole."""
    outline = outline_of(facts.source, facts.label, facts.window, facts.verdicts, facts.acting, facts.waits)
    rests_on = [verdict for verdict in facts.verdicts if verdict.id in outline.because]
    if outline.is_trouble:
        return _in_trouble(outline, rests_on, facts)
    return _not_told(outline, rests_on, facts) if outline.state is DiagnosisState.CANNOT_TELL else outline


def outline_of(
    source: str,
    label: str | None,
    window: Window,
    verdicts: Sequence[Verdict],
    acting: Collection[str],
    waits: Collection[str] = (),
) -> Diagnosis:
    """The state of a label from the newest verdict of each of its rules; ``acting`` are the rules that may turn it off.

    An old verdict counts only of a rule that ``waits`` for truths, since it can have no newer one.
    It says neither since when nor why: that needs the windows behind the verdicts.
    """
    present = [v for v in verdicts if v.rule in waits or window.end - v.window.end <= NEWEST[v.window.schedule]]
    counting = [verdict for verdict in present if verdict.severity != "info"]
    breaches = [verdict for verdict in counting if verdict.outcome == "breach"]
    may_act = [v for v in counting if v.rule in acting] or (counting if not acting else [])
    judged = [verdict for verdict in may_act if verdict.outcome != "not_evaluated"]
    state = DiagnosisState.FINE if judged else DiagnosisState.CANNOT_TELL
    if breaches:
        unsafe = any(verdict.rule in acting for verdict in breaches)
        state = DiagnosisState.UNSAFE if unsafe else DiagnosisState.DEGRADED
    silent = may_act or [verdict for verdict in counting if verdict.outcome == "not_evaluated"]
    because = tuple(verdict.id for verdict in breaches or judged or silent)
    return Diagnosis(source, label, window, state, because=because, notes=_notes(present))


def _notes(verdicts: Sequence[Verdict]) -> Notes:
    of_info = [v for v in verdicts if v.severity == "info"]
    others = [v for v in verdicts if v.severity != "info"]
    return Notes(
        unconfirmed=tuple(v.rule for v in others if v.outcome == "unconfirmed"),
        info=tuple(v.rule for v in of_info if v.outcome == "breach"),
        not_judged=tuple((v.rule, v.reason.value) for v in others if v.outcome == "not_evaluated"),
        within_limits=not any(v.outcome != "ok" and v.detail.get("beyond") for v in others),
    )


# --- something is wrong


def _in_trouble(found: Diagnosis, breaches: Sequence[Verdict], facts: LabelFacts) -> Diagnosis:
    """The diagnosis with the problem of the breach that does most harm, and with all that follows from it."""
    problems = {verdict.id: problem_of(verdict, facts) for verdict in breaches}
    order = list(LabelProblem)

    def rank(verdict: Verdict) -> tuple[bool, int, int, str]:
        problem = order.index(problems[verdict.id])
        return verdict.rule not in facts.acting, problem, SEVERITY_RANK[verdict.severity], verdict.rule

    lead = min(breaches, key=rank)
    first = (lead.id, *(id for id in found.because if id != lead.id))
    return with_trouble(replace(found, because=first), problems[lead.id], lead, facts)


def problem_of(verdict: Verdict, facts: LabelFacts) -> LabelProblem:
    """What a breach says is wrong. One of an ECE says in which direction where the scores as a whole are off."""
    if verdict.reason in (Reason.DISTRIBUTION_SHIFTED, Reason.TRAFFIC_MIX):
        return LabelProblem.SHIFTED
    if verdict.metric in _CALIBRATION:
        return direction_of(verdict, facts)
    if verdict.metric in _OVERCONFIDENCE:
        return LabelProblem.UNDERCONFIDENT if (verdict.value or 0.0) < 0 else LabelProblem.OVERCONFIDENT
    if verdict.metric in _MISSES:
        return LabelProblem.MISSES
    return LabelProblem.LESS_DISCRIMINATING if verdict.metric in _RANKING else LabelProblem.LESS_ACCURATE


# --- nothing can be told


def _not_told(found: Diagnosis, verdicts: Sequence[Verdict], facts: LabelFacts) -> Diagnosis:
    """The diagnosis with its reason. A trouble that goes on keeps its name and its beginning."""
    reasons = {_reason_of(verdict, facts) for verdict in verdicts} or {NotTold.SOURCE_NOT_READ}
    reason = min(reasons, key=list(NotTold).index)
    notes = replace(found.notes, weeks=_weeks_needed(verdicts)) if reason is NotTold.TOO_FEW_ROWS else found.notes
    if reason is NotTold.NO_ROWS:
        last, usual = facts.last_rows()
        notes = replace(found.notes, last_rows=last, usual_rows=usual, renamed_to=facts.renamed_to)
    if reason is NotTold.NO_TRUTH_WHERE_IT_ACTS and facts.unchecked_before:
        notes = replace(found.notes, unchecked=facts.unchecked)
    told = replace(found, reason=reason, notes=notes, advice=advice_for_silence(reason))
    going_on = episodes([*facts.past, told])[-1:]
    if not going_on or going_on[0].ended is not None:
        return told
    last_seen = going_on[0].last
    return replace(told, problem=last_seen.problem, since=last_seen.since, found=last_seen.found)


def _reason_of(verdict: Verdict, facts: LabelFacts) -> NotTold:
    if verdict.reason is Reason.NO_ROWS and verdict.where != "all" and (verdict.n or facts.unchecked):
        return NotTold.NO_TRUTH_WHERE_IT_ACTS
    return _NOT_TOLD.get(verdict.reason, NotTold.SOURCE_NOT_READ)


def _weeks_needed(verdicts: Sequence[Verdict]) -> int | None:
    """How many windows like these would be enough rows for the rule that needs fewest; None if that is not known."""
    return min((weeks for weeks in map(_windows_for, verdicts) if weeks is not None), default=None)


def _windows_for(verdict: Verdict) -> int | None:
    """A change that can be seen shrinks with the root of the rows."""
    needed, seen = verdict.detail.get("rows_needed"), verdict.detail.get("seen_at_most")
    if verdict.reason is not Reason.TOO_FEW_ROWS or not verdict.n:
        return None
    times = [1.0] + ([needed / verdict.n] if needed else [])
    if verdict.detectable is not None and seen:
        times.append((verdict.detectable / seen) ** 2)
    return -int(-verdict.windows * max(times) // 1) if max(times) > 1 else None
