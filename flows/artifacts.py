"""The artifacts of a run in the Prefect UI (a summary, a table, links to the pages), and its events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from monitor.context import Monitor
from monitor.core.records import Verdict
from monitor.core.wording import clean
from monitor.operations.collect import report_path
from monitor.operations.write_report import write_report
from monitor.report.data import ReportData
from monitor.report.run_document import verdict_row
from monitor.run import Run
from monitor.story.label import story_lines
from monitor.story.window import actions_words, counts_words, doubts, needing

COLUMNS = (
    "outcome", "reason", "severity", "source", "label", "rule", "metric", "where", "value", "baseline", "change",
    "threshold", "p_adjusted", "detectable", "n", "windows", "id",
)  # fmt: skip
"""The keys of a verdict that the table shows, in order."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&])")
_URGENCY = {"breach": 0, "unconfirmed": 1, "not_evaluated": 2, "ok": 3}

Pages = Sequence[tuple[str, str, Path]]
"""(key, title, path) of each page that was written for the run."""


def publish(monitor: Monitor, result: Run) -> Run:
    """Create the page, artifacts and events of a run. Keys stay the same, so the UI shows their history."""
    window = result.window
    path, data = write_report(monitor, window)
    key = f"calmon-{window.schedule}"
    pages = [("report", f"Report of {window.name}", path), *_drift_pages(monitor, result)]
    create_markdown_artifact(key=key, markdown=summary(data, result, pages), description=window.name)
    verdicts = [v for part in result.evaluated for v in part.verdicts]
    create_table_artifact(key=f"{key}-verdicts", table=verdict_table(verdicts), description=window.name)
    for name, title, page in pages:
        create_link_artifact(
            key=f"{key}-{name}", link=page.resolve().as_uri(), link_text=title, description=window.name
        )
    for verdict in verdicts:
        if verdict.outcome == "breach":
            _emit(verdict)
    return result


def summary(data: ReportData, result: Run, pages: Pages) -> str:
    """The run in Markdown: the stories, counts, what was done, and the paths of the pages."""
    links = "\n".join(f"- [{escape(title)}]({page.resolve().as_uri()}): `{page.resolve()}`" for _, title, page in pages)
    lines = [f"{'. '.join(story_lines(story))}." for story in needing(data.stories)] + doubts(data.stories)
    found = "\n".join(f"- {escape(line, 1_000)}" for line in lines)
    done = actions_words(result.actions)
    parts = [
        f"# Calibration {escape(data.window.name)}",
        f"{escape(counts_words(data.stories))}.",
        found,
        f"Done: {escape(done, 1_000)}." if done else "",
        *map(escape, data.notes),
        "## Pages",
        links,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str, length: int = 400) -> str:
    """A text from the data in one line, escaped so that Markdown shows every character of it.

    >>> escape("a|b <img> [x](y)")
    'a\\\\|b \\\\<img\\\\> \\\\[x\\\\]\\\\(y\\\\)'
    """
    return _SPECIAL.sub(r"\\\1", clean(text, length))


def verdict_table(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One row for each verdict, breaches first, with the keys :data:`COLUMNS`."""
    ordered = sorted(verdicts, key=lambda v: (_URGENCY[v.outcome], v.subject.source, v.subject.label or "", v.rule))
    rows = (verdict_row(verdict) for verdict in ordered)
    return [{column: row[column] for column in COLUMNS} for row in rows]


def _drift_pages(monitor: Monitor, result: Run) -> Iterator[tuple[str, str, Path]]:
    """The drift reports of this window; sources without features or a baseline have none."""
    for part in result.evaluated:
        path = report_path(monitor, result.window, part.source)
        if path.is_file():
            slug = re.sub(r"[^a-z0-9]+", "-", part.source.lower()).strip("-")  # characters allowed in a key
            yield f"drift-{slug}", f"Drift of the features of {part.source}", path


def _emit(verdict: Verdict) -> None:
    subject = verdict.subject
    emit_event(
        event="calmon.breach",
        resource={
            "prefect.resource.id": f"calmon.subject.{subject.source}.{subject.label or 'all'}",
            "prefect.resource.name": subject.name,
            "calmon.rule": verdict.rule,
            "calmon.severity": verdict.severity,
        },
        payload=verdict_row(verdict) | {"schedule": verdict.window.schedule, "window": verdict.window.name},
    )
