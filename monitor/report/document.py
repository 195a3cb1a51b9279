"""The JSON document of a report: numbers in full precision, null for unknown values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from math import isfinite
from typing import Any

from monitor.core.records import Estimate
from monitor.metrics.certainty import ClassTables
from monitor.report.data import ReportData, SubjectReport
from monitor.report.detail import Detail
from monitor.report.run_document import estimate_row, label_row, maturity_row, quality_row, verdict_row
from monitor.story.window import counts_words


def report_document(data: ReportData, estimates: Iterable[Estimate]) -> dict[str, Any]:
    """The window, its ``estimates``, verdicts and labels as in the document of a run, and what else there is of each.

    ``automation`` of a label is null in a past window.
    """
    document = {
        "window": data.window.name,
        "headline": f"{counts_words(data.stories) if data.subjects else data.nothing}.",
        "read_at": data.generated_at,
        "target_accuracy": data.target,
        "quality": [quality_row(q) for q in data.quality],
        "estimates": [estimate_row(e) for e in estimates],
        "verdicts": [verdict_row(v) for v in data.verdicts],
        "labels": [label_document(report) for report in data.by_attention],
        "notes": data.notes,
    }
    return {name: plain(entry) for name, entry in document.items()}


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
    """All about one label; ``label`` null is the source as a whole."""
    story, switch = report.story, None if report.story is None else report.story.switch
    judged = {} if story is None else label_row(story.diagnosis, None if switch is None else switch.state)
    about = {"source": report.subject.source, "label": report.subject.label, "rows": report.rows, "light": report.level}
    parts = {
        "segments": [asdict(line) for line in report.segments],
        "reliability": [] if report.reliability is None else [asdict(p) for p in report.reliability.points],
    }
    known = {} if report.maturity is None else {"maturity": maturity_row(report.maturity)}
    return about | judged | parts | detail_document(report.detail) | known


def detail_document(detail: Detail) -> dict[str, Any]:
    """Thresholds, curve, scores and gains of one label."""
    point = detail.operating
    methods = {
        method: {"before": gain.before.plain(), "after": None if gain.after is None else gain.after.plain()}
        for method, gain in detail.gains.items()
    }
    return {
        "automate_at": detail.automate_at,
        "threshold": point and asdict(point) | {"to_people": point.to_people},
        "risk_coverage": detail.risk_coverage and asdict(detail.risk_coverage),
        "scores": {name: box and asdict(box) for name in ("right", "wrong") for box in [detail.boxes.get(name)]},
        "recalibration": methods,
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
