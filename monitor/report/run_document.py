"""The rows of the JSON document of a run: a contract, so their keys and their order are written here once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from monitor.core.diagnoses import AutomationState, Diagnosis
from monitor.core.maturity import Maturity
from monitor.core.records import Estimate, RejectedRows, Verdict
from monitor.evaluation.before_truth import MARK
from monitor.report.csv_table import Table

_SUBJECT = ("source=subject.source", "label=subject.label")
_MARKED = f"{MARK}=detail.{MARK}"


def maturity_row(maturity: Maturity) -> dict[str, Any]:
    """How many items of a label have their truth, and which share is expected in the end."""
    (row,) = Table.of([maturity], *_SUBJECT, "items", "known", "share", "expected", "low", "high").documents
    return row | {"state": "final" if maturity.is_final else "provisional"}


def quality_rows(quality: Iterable[RejectedRows]) -> list[dict[str, Any]]:
    """How many rows were rejected, by reason."""
    return Table.of(quality, "source", "reason", "rows").documents


def estimate_rows(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """The estimates; ``segment`` is like {"channel": "web"} or null.

    Only an estimate before the truth has the key ``before_truth``.
    """
    numbers = (f"{name}=interval.{name}" for name in ("value", "plug_in", "low", "high"))
    table = Table.of(
        estimates, *_SUBJECT, "segment=subject.segment", "metric", "where", *numbers, "n", "positives", _MARKED
    )
    return [_without_mark(row | {"segment": _segment(row["segment"])}) for row in table.documents]


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """One verdict with its numbers; a rule on segments adds the segment that they are about, or null.

    Only a rule on an estimate before the truth has the key ``before_truth``.
    """
    (row,) = Table.of(
        [verdict], "id", "rule", *_SUBJECT, "segment=detail.segment", "metric", "where", "outcome", "reason",
        "severity", "value", "baseline", "change", "change_low", "change_high", "p_value", "p_adjusted", "threshold",
        "detectable", "n", "windows", _MARKED,
    ).documents  # fmt: skip
    row["segment"] = _segment(row["segment"])
    return _without_mark({name: row[name] for name in row if name != "segment" or name in verdict.detail})


def _segment(pair: Sequence[str] | None) -> dict[str, str] | None:
    return None if pair is None else {pair[0]: pair[1]}


def _without_mark(row: dict[str, Any]) -> dict[str, Any]:
    return row if row[MARK] else {name: row[name] for name in row if name != MARK}


def label_row(diagnosis: Diagnosis, automation: AutomationState | None) -> dict[str, Any]:
    """What is the matter with one label; ``cause`` and ``advice`` are empty where there is none.

    ``cause_began`` is a window, or the day of an annotation; ``cause_share`` the part of the change that it explains.
    """
    told = {"of": diagnosis, "cost": diagnosis.cost, "cause": diagnosis.cause, "automation": automation}
    cost = (f"{name}=cost.{name}" for name in ("items", "correct", "claimed", "extra_errors"))
    (row,) = Table.of(
        [told], "source=of.source", "label=of.label", "state=of.state", "problem=of.problem", "since=of.since.window",
        "found=of.found", "segment=of.segment", "cause=cause.text", "cause_began=cause.began",
        "cause_share=cause.share", *cost, "automation", "reason=of.reason", "advice=of.advice.text",
        "because=of.because",
    ).documents  # fmt: skip
    empty = {name: row[name] or "" for name in ("cause", "reason", "advice")}
    return row | empty | {"found": row["found"] or None, "segment": _segment(row["segment"])}
