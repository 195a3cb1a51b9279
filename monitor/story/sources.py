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
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        newest.setdefault((run["source"], run["schedule"]), run)
    stories = []
    for source in sources:
        mine = [newest[source, schedule] for schedule in _UNITS if (source, schedule) in newest]
        failed = any(
            (run["state"] != "done" and now - run["started_at"] > timedelta(days=1)) or run["state"] == "failed"
            for run in mine
        )
        stories.append(SourceStory(source, "; ".join(_words(run, now) for run in mine) or "never judged", failed))
    return stories


def _words(run: Mapping[str, Any], now: datetime) -> str:
    name, begun, ended = f"{_UNITS[run['schedule']]} {clean(run['window_name'])}", run["started_at"], run["finished_at"]
    if ended is None:
        return f"{name} {run['state']}, begun {duration(now - begun)} ago"
    return f"{name} {'judged' if run['state'] == 'done' else run['state']} {duration(now - ended)} ago"
