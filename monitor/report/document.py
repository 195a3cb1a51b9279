"""The JSON document of a report: numbers in full precision, null for unknown values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from math import isfinite
from typing import Any

from monitor.automation.harm import Harm
from monitor.core.records import Estimate
from monitor.evaluation.label_state import LabelState
from monitor.inference.selective import ExcessErrors
from monitor.metrics.class_tables import ClassTables
from monitor.report.data import ReportData, SubjectReport, headline
from monitor.report.detail import Detail
from monitor.report.figures.curves import Curve
from monitor.report.run_document import estimate_row, maturity_row, quality_row, verdict_row


def report_document(data: ReportData, estimates: Iterable[Estimate]) -> dict[str, Any]:
    """The window, its ``estimates`` and verdicts as in the document of a run, and every element of each label."""
    about = {"window": data.window.name, "headline": headline(data)}
    times = {"automation_at": data.switched_at or data.generated_at, "read_at": data.generated_at}
    return plain_document(
        **about,
        **times,
        target_accuracy=data.target,
        quality=[quality_row(q) for q in data.quality],
        estimates=[estimate_row(e) for e in estimates],
        verdicts=[verdict_row(v) for v in data.verdicts],
        labels=[label_document(report) for report in data.by_attention],
    )


def plain_document(**entries: Any) -> dict[str, Any]:
    """The entries as one JSON object, each converted by :func:`plain`."""
    return {name: plain(entry) for name, entry in entries.items()}


def plain(value: Any) -> Any:
    """A value in the types of JSON: times as ISO texts, numbers that are not finite as null.

    >>> plain({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not isfinite(value) else value


def label_document(report: SubjectReport) -> dict[str, Any]:
    """The elements of one label; ``label`` null is the source as a whole."""
    about = {"source": report.subject.source, "label": report.subject.label, "rows": report.rows}
    state = {"state": state_document(report.state), "level": report.level, "change": asdict(report.change)}
    switches = {"automation": record(report.switch), "automation_now": record(report.switch_now)}
    parts = {
        "segments": [asdict(line) for line in report.segments],
        "reliability": [] if report.reliability is None else [asdict(p) for p in report.reliability.points],
    }
    detail = {} if report.detail is None else detail_document(report.detail)
    known = {} if report.maturity is None else {"maturity": maturity_row(report.maturity)}
    return about | state | switches | parts | detail | known


def state_document(found: LabelState) -> dict[str, Any]:
    """The state of one label with the rules and reasons behind it."""
    names = ("rule", "outcome", "reason", "severity", "windows", "id")
    verdicts = (*found.breaches, *found.unconfirmed, *found.not_evaluated, *found.ok)
    rules = [{name: getattr(v, name) for name in names} for v in verdicts]
    return {"state": found.state.value, "severity": found.severity, "words": found.words, "rules": rules}


def record(found: Any | None) -> dict[str, Any] | None:
    """The fields of a record; None for None."""
    return None if found is None else asdict(found)


def detail_document(detail: Detail) -> dict[str, Any]:
    """Level, advice, thresholds, curves, boxes and gains of one label."""
    conclusion, choice, point = detail.conclusion, detail.conclusion.recalibration, detail.operating
    methods = {
        method: {"before": gain.before.plain(), "after": None if gain.after is None else gain.after.plain()}
        for method, gain in detail.gains.items()
    }
    chosen = {"choice": choice and choice.method, "reason": choice and choice.reason}
    return {
        "because": list(conclusion.reasons),
        "advice": [asdict(one) for one in conclusion.advice],
        "bands": [asdict(one) for one in conclusion.bands],
        "automate_at": detail.automate_at,
        "excess_errors": _excess(detail.excess, detail.harm),
        "threshold": point and asdict(point) | {"to_people": point.to_people},
        "risk_coverage": _curve(detail.risk_coverage),
        "roc": _curve(detail.roc),
        "precision_recall": _curve(detail.precision_recall),
        "scores": asdict(detail.boxes),
        "recalibration": chosen | {"methods": methods},
        "top_k": {str(k): [asdict(point) for point in one.points] for k, one in detail.ranks.items()},
        "classes": detail.classes and classes_document(detail.classes),
    }


def classes_document(tables: ClassTables) -> dict[str, Any]:
    """The K x K tables of a multiclass source, its classes, and every measure of them; in the order of ``labels``."""
    matrices = {
        "confusion": tables.hard,
        "confusion_shares": tables.shares,
        "probabilistic": tables.soft,
        "certain": tables.certain,
        "uncertain": tables.uncertain,
    }
    return {
        "labels": list(tables.labels),
        **{name: matrix.tolist() for name, matrix in matrices.items()},
        "classes": [asdict(one) for one in tables.classes],
        "certainty": [asdict(one) for one in tables.certainty],
    }


def _excess(found: ExcessErrors | None, harm: Harm | None) -> dict[str, Any] | None:
    if found is None or harm is None:
        return None
    by_automation = {"automation": harm.kind.value, "time_on": harm.on.share, "by_automation": harm.done}
    return asdict(found) | {"excess": found.excess, **by_automation, "sentence": harm.sentence}


def _curve(curve: Curve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    points, chosen = [asdict(point) for point in curve.points], record(curve.chosen)
    return {"x": curve.x_title, "y": curve.y_title, "area": curve.area, "chosen": chosen, "points": points}
