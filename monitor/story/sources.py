"""What is told of the runs of each source: its newest week and its newest day, and when they were judged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from monitor.core.wording import clean, duration

_UNITS = {"weekly": "week", "daily": "day"}


@dataclass(frozen=True, slots=True)
class SourceStory:
    """The newest run of each schedule of a source: ``words`` say which windows and how long ago.

    ``failed``: one of them did not end well, or has not ended after a day.
    """

    source: str
    words: str
    failed: bool = False


def source_stories(runs: Iterable[Mapping[str, Any]], sources: Iterable[str], now: datetime) -> list[SourceStory]:
    """The story of each source from rows of runs, newest first.

    >>> source_stories([], ["tickets"], datetime(2026, 11, 16))
    [SourceStory(source='tickets', words='never judged', failed=False)]
    """
    newest: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        newest.setdefault(run["source"], {}).setdefault(run["schedule"], run)
    return [_story(source, newest.get(source, {}), now) for source in sources]


def _story(source: str, newest: Mapping[str, Mapping[str, Any]], now: datetime) -> SourceStory:
    mine = [newest[schedule] for schedule in _UNITS if schedule in newest]
    words = "; ".join(_run_words(run, now) for run in mine)
    failed = any(
        (run["state"] != "done" and now - run["started_at"] > timedelta(days=1)) or run["state"] == "failed"
        for run in mine
    )
    return SourceStory(source, words or "never judged", failed)


def _run_words(run: Mapping[str, Any], now: datetime) -> str:
    name = f"{_UNITS[run['schedule']]} {clean(run['window_name'])}"
    if run["finished_at"] is None:
        return f"{name} {run['state']}, begun {duration(now - run['started_at'])} ago"
    what = "judged" if run["state"] == "done" else run["state"]
    return f"{name} {what} {duration(now - run['finished_at'])} ago"
