"""The JSON document of a run: a contract, so its keys and their order are written here once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from monitor.core.diagnoses import AutomationState, Diagnosis
from monitor.core.maturity import Maturity
from monitor.core.records import Action, Estimate, RejectedRows, Verdict, Window
from monitor.evaluation.before_truth import MARK
from monitor.evaluation.evaluate import Evaluated
from monitor.metrics.registry import CONTRACT, EXPECTED

_ABOUT = ("metric", "where", "outcome", "reason", "severity")
_CHANGE = ("value", "baseline", "change", "change_low", "change_high")
_NUMBERS = (*_CHANGE, "p_value", "p_adjusted", "threshold", "detectable")


def number(value: float | None) -> float | None:
    """A JSON number, or null for what is not one."""
    return None if value is None or not math.isfinite(value) else float(value)


def run_document(
    run: str,
    window: Window,
    parts: Sequence[Evaluated],
    actions: Iterable[Action],
    labels: Iterable[tuple[Diagnosis, AutomationState]] = (),
) -> dict[str, Any]:
    """The whole document of one evaluation.

    The history keeps estimates of every metric. The document has the metrics of the contract, estimates before the
    truth, and metrics that a rule names.
    """
    shown = {*CONTRACT, *EXPECTED, *(v.metric for part in parts for v in part.verdicts)}
    return {
        "run": run,
        "schedule": window.schedule,
        "window": {"start": window.start.isoformat(), "end": window.end.isoformat(), "name": window.name},
        "quality": [quality_row(q) for part in parts for q in part.quality],
        "estimates": [estimate_row(e) for part in parts for e in part.estimates if e.metric in shown],
        "verdicts": [verdict_row(v) for part in parts for v in part.verdicts],
        "labels": [label_row(*each) for each in labels],
        **_truths(parts),
        "actions": [{"kind": a.kind, "source": a.source, "label": a.label, "state": a.state} for a in actions],
    }


def _truths(parts: Sequence[Evaluated]) -> dict[str, Any]:
    """Label maturity and restated windows, only for sources that count rows without a truth."""
    known = [maturity_row(m) for part in parts for m in part.maturity]
    again = [{"source": past.source, "window": past.window.name} for part in parts for past in part.restated]
    return {**({"maturity": known} if known else {}), **({"restated": again} if again else {})}


def maturity_row(maturity: Maturity) -> dict[str, Any]:
    """How many items of a label have their truth, and which share is expected in the end."""
    about = {"source": maturity.subject.source, "label": maturity.subject.label}
    shares = {name: number(getattr(maturity, name)) for name in ("share", "expected", "low", "high")}
    state = "final" if maturity.is_final else "provisional"
    return {**about, "items": maturity.items, "known": maturity.known, **shares, "state": state}


def quality_row(quality: RejectedRows) -> dict[str, Any]:
    """How many rows were rejected for one reason."""
    return {"source": quality.source, "reason": quality.reason, "rows": quality.rows}


def estimate_row(estimate: Estimate) -> dict[str, Any]:
    """One estimate; ``segment`` is like {"channel": "web"} or null.

    Only an estimate before the truth has the key ``before_truth``.
    """
    subject, segment = estimate.subject, estimate.subject.segment
    about = {"source": subject.source, "label": subject.label, "segment": segment and {segment[0]: segment[1]}}
    numbers = {name: number(getattr(estimate.interval, name)) for name in ("value", "plug_in", "low", "high")}
    rows = {"n": estimate.n, "positives": number(estimate.positives)}
    marked = {MARK: True} if estimate.detail.get(MARK) else {}
    return {**about, "metric": estimate.metric, "where": estimate.where, **numbers, **rows, **marked}


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """One verdict with its numbers; a rule on segments adds the segment that they are about, or null.

    Only a rule on an estimate before the truth has the key ``before_truth``.
    """
    subject: dict[str, Any] = {"source": verdict.subject.source, "label": verdict.subject.label}
    about = {name: getattr(verdict, name) for name in _ABOUT} | {"reason": verdict.reason.value}
    numbers = {name: number(getattr(verdict, name)) for name in _NUMBERS}
    sizes = {"n": verdict.n, "windows": verdict.windows}
    if "segment" in verdict.detail:
        segment = verdict.detail["segment"]
        subject["segment"] = segment and {segment[0]: segment[1]}
    marked = {MARK: True} if verdict.detail.get(MARK) else {}
    return {"id": verdict.id, "rule": verdict.rule, **subject, **about, **numbers, **sizes, **marked}


def label_row(diagnosis: Diagnosis, automation: AutomationState | None) -> dict[str, Any]:
    """What is the matter with one label; ``cause`` and ``advice`` are empty where there is none.

    ``cause_began`` is a window, or the day of an annotation; ``cause_share`` the part of the change that it explains.
    """
    since, cost, segment, cause = diagnosis.since, diagnosis.cost, diagnosis.segment, diagnosis.cause
    numbers = ("items", "correct", "claimed", "extra_errors")
    return {
        "source": diagnosis.source, "label": diagnosis.label, "state": diagnosis.state.value,
        "problem": diagnosis.problem and diagnosis.problem.value, "since": since and since.window,
        "found": diagnosis.found or None, "segment": segment and {segment[0]: segment[1]},
        "cause": cause.text if cause else "", "cause_began": cause and cause.began,
        "cause_share": cause and number(cause.share),
        **{name: None if cost is None else number(getattr(cost, name)) for name in numbers}, "automation": automation,
        "reason": diagnosis.reason.value if diagnosis.reason else "",
        "advice": diagnosis.advice.text if diagnosis.advice else "", "because": list(diagnosis.because),
    }  # fmt: skip
