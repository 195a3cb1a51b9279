"""What Prefect shows of a run: its summary, with the paths of its pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from monitor.context import Monitor
from monitor.core.files import write_whole
from monitor.core.wording import clean
from monitor.operations.collect import report_path
from monitor.report.collect import collect_report
from monitor.report.data import ReportData
from monitor.report.html import html_report
from monitor.run import Run
from monitor.story.label import story_lines
from monitor.story.window import actions_words, counts_words, doubts, needing

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&])")
Pages = Sequence[tuple[str, Path]]
"""(title, path) of each page that was written for the run."""


def publish(monitor: Monitor, result: Run) -> Run:
    """Write the page of a run, and create its artifact. The key stays the same, so the UI shows its history."""
    window = result.window
    data = collect_report(monitor.store, monitor.config, window, monitor.clock())
    path = monitor.settings.report_dir / window.schedule / window.name / "report.html"
    write_whole(path, html_report(data))
    pages = [(f"Report of {window.name}", path), *_drift_pages(monitor, result)]
    markdown = summary(data, result, pages)
    create_markdown_artifact(key=f"calmon-{window.schedule}", markdown=markdown, description=window.name)
    return result


def summary(data: ReportData, result: Run, pages: Pages) -> str:
    """The run in Markdown: the stories, counts, what was done, and the paths of the pages."""
    links = "\n".join(f"- [{escape(title)}]({page.resolve().as_uri()}): `{page.resolve()}`" for title, page in pages)
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


def _drift_pages(monitor: Monitor, result: Run) -> Iterator[tuple[str, Path]]:
    """The drift reports of this window; sources without features or a baseline have none."""
    for part in result.evaluated:
        path = report_path(monitor, result.window, part.source)
        if path.is_file():
            yield f"Drift of the features of {part.source}", path
