"""What is the matter with one label in one window, from all of its verdicts together. Pure: read this module first.

Verdicts say whether something is wrong; the windows behind them say since when (:mod:`monitor.evaluation.trouble`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import population_edges
from monitor.core.counts import Counts, bin_counts, difference
from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem, NextStep, Notes, NotTold, severity_of
from monitor.core.episodes import episodes
from monitor.core.records import SEVERITY_RANK, Interval, Reason, Schedule, Verdict, Window
from monitor.evaluation.label_facts import LabelFacts
from monitor.evaluation.trouble import direction_of, with_trouble
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.inference.levels import interval as level_interval
from monitor.metrics.registry import CONTRACT, METRICS

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
    harm = {
        v.id: (v.rule not in facts.acting, order.index(problems[v.id]), SEVERITY_RANK[v.severity], v.rule)
        for v in breaches
    }
    lead = min(breaches, key=lambda verdict: harm[verdict.id])
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
    notes = found.notes
    if reason is NotTold.TOO_FEW_ROWS:  # windows like these that are enough for the rule that needs fewest
        weeks = [weeks for weeks in map(_windows_for, verdicts) if weeks is not None]
        notes = replace(notes, weeks=min(weeks, default=None))
    if reason is NotTold.NO_ROWS:
        last, usual = facts.last_rows()
        notes = replace(found.notes, last_rows=last, usual_rows=usual, renamed_to=facts.renamed_to)
    if reason is NotTold.NO_TRUTH_WHERE_IT_ACTS and facts.unchecked_before:
        notes = replace(found.notes, unchecked=facts.unchecked)
    lacks = any(v.reason is not Reason.IN_BASELINE and _reason_of(v, facts) is NotTold.NO_BASELINE for v in verdicts)
    # of all else, and in the weeks of the baseline itself, waiting is all
    advice = NextStep("pin_again") if reason is NotTold.NO_BASELINE and lacks else None
    if reason in (NotTold.SOURCE_NOT_READ, NotTold.REJECTED_ROWS, NotTold.NO_ROWS):
        advice = NextStep("repair_data")
    told = replace(found, reason=reason, notes=notes, advice=advice)
    going_on = episodes([*facts.past, told])[-1:]
    if not going_on or going_on[0].ended is not None:
        return told
    last_seen = going_on[0].last
    return replace(told, problem=last_seen.problem, since=last_seen.since, found=last_seen.found)


def _reason_of(verdict: Verdict, facts: LabelFacts) -> NotTold:
    if verdict.reason is Reason.NO_ROWS and verdict.where != "all" and (verdict.n or facts.unchecked):
        return NotTold.NO_TRUTH_WHERE_IT_ACTS
    return _NOT_TOLD.get(verdict.reason, NotTold.SOURCE_NOT_READ)


def _windows_for(verdict: Verdict) -> int | None:
    """A change that can be seen shrinks with the root of the rows."""
    needed, seen = verdict.detail.get("rows_needed"), verdict.detail.get("seen_at_most")
    if verdict.reason is not Reason.TOO_FEW_ROWS or not verdict.n:
        return None
    times = [1.0] + ([needed / verdict.n] if needed else [])
    if verdict.detectable is not None and seen:
        times.append((verdict.detectable / seen) ** 2)
    return -int(-verdict.windows * max(times) // 1) if max(times) > 1 else None


# --- whether the labels in trouble explain what is wrong with their source as a whole


def with_labels(
    diagnoses: Sequence[Diagnosis],
    verdicts: Mapping[str | None, Collection[Verdict]],
    counts: Mapping[str | None, Counts],
    evaluation: EvaluationConfig,
) -> list[Diagnosis]:
    """The diagnoses of one source; that of the source as a whole names the labels in trouble that alone explain it.

    They do if without their rows nothing is surely beyond the limit of a rule in breach any more, by the ``counts`` of
    the judged window. A breach that turns the source off is never explained, since then every label is off; and a label
    whose trouble is less severe explains nothing, since people might not be called for it.
    """
    whole = next((each for each in diagnoses if each.label is None and each.state is DiagnosisState.DEGRADED), None)
    if whole is None or None not in counts:
        return list(diagnoses)
    rank = {each.label: SEVERITY_RANK[severity_of(each, verdicts[each.label])] for each in diagnoses if each.is_trouble}
    troubled = tuple(label for label, its in rank.items() if label and label in counts and its <= rank[None])
    rest = difference(counts[None], [counts[label] for label in troubled]) if troubled else None
    breaches = [verdict for verdict in verdicts[None] if verdict.id in whole.because]
    if rest is None or not all(_unconfirmed(verdict, rest, evaluation) for verdict in breaches):
        return list(diagnoses)
    explained = replace(whole, notes=replace(whole.notes, explained_by=troubled))
    return [explained if each is whole else each for each in diagnoses]


def _unconfirmed(verdict: Verdict, rest: Counts, evaluation: EvaluationConfig) -> bool:
    """Whether the rest of the rows is not surely beyond the limit; of a change, against what all rows had before."""
    measured, condition = _measured(verdict.metric, rest.where(verdict.where), evaluation), verdict.detail["condition"]
    before = (verdict.baseline or 0.0) if condition in ("increase", "decrease") else 0.0
    if measured is None or measured.low is None or measured.high is None:
        return False
    if condition in ("below", "decrease"):
        return measured.high >= (verdict.threshold if condition == "below" else before - verdict.threshold)
    return measured.low - before <= verdict.threshold


def _measured(metric: str, rows: Counts, evaluation: EvaluationConfig) -> Interval | None:
    if metric in ("ece", "mce"):
        bins = [bin_counts(rows, population_edges(rows, evaluation))]
        if metric == "mce":
            return mce_intervals(bins, confidence=evaluation.confidence)[0].interval
        return ece_intervals(bins, [], confidence=evaluation.confidence, form="analytic")[0]
    known = metric in CONTRACT or (metric in METRICS and METRICS[metric].share is not None)
    return level_interval(metric, rows, evaluation.confidence) if known else None
