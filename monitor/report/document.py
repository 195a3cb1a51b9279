"""The JSON document of a report: numbers in full precision, null for unknown values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from monitor.core.records import Estimate
from monitor.history.values import plain
from monitor.report.data import ReportData, SubjectReport
from monitor.report.run_document import estimate_rows, label_row, maturity_row, quality_rows, verdict_row
from monitor.story.window import counts_words


def report_document(data: ReportData, estimates: Iterable[Estimate]) -> dict[str, Any]:
    """The window, its ``estimates``, verdicts and labels as in the document of a run, and what else there is of each.

    ``automation`` of a label is null in a past window.
    """
    document: dict[str, Any] = plain({
        "window": data.window.name,
        "headline": f"{counts_words(data.stories) if data.subjects else data.nothing}.",
        "read_at": data.generated_at,
        "target_accuracy": data.target,
        "quality": quality_rows(data.quality),
        "estimates": estimate_rows(estimates),
        "verdicts": [verdict_row(v) for v in data.verdicts],
        "labels": [label_document(report) for report in data.by_attention],
        "notes": data.notes,
    })  # fmt: skip
    return document


def label_document(report: SubjectReport) -> dict[str, Any]:
    """All about one label; ``label`` null is the source as a whole."""
    story, point, tables = report.story, report.operating, report.classes
    switch = None if story is None else story.switch
    judged = {} if story is None else label_row(story.diagnosis, None if switch is None else switch.state)
    about = {"source": report.subject.source, "label": report.subject.label, "rows": report.rows, "light": report.level}
    parts = {
        "segments": report.segments,
        "reliability": () if report.reliability is None else report.reliability.points,
        "automate_at": report.automate_at,
        "threshold": point and asdict(point) | {"to_people": point.to_people},
        "risk_coverage": report.risk_coverage,
        "scores": {name: report.boxes.get(name) for name in ("right", "wrong")},
        "recalibration": {
            method: {"before": gain.before.plain(), "after": gain.after and gain.after.plain()}
            for method, gain in report.gains.items()
        },
        # the K x K tables of a multiclass source, its classes, and every measure of them; in the order of ``labels``
        "classes": tables
        and {
            "labels": tables.labels,
            "confusion": tables.hard,
            "confusion_shares": tables.shares,
            "probabilistic": tables.soft,
            "certain": tables.certain,
            "uncertain": tables.uncertain,
            "classes": tables.classes,
            "certainty": tables.certainty,
        },
    }
    known = {} if report.maturity is None else {"maturity": maturity_row(report.maturity)}
    return about | judged | parts | known
