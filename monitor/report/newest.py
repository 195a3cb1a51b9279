"""The newest verdicts of every source, for pages and metrics that show the present state."""

from __future__ import annotations

from collections.abc import Collection

from monitor.core.records import Schedule, Verdict
from monitor.history.store import Store

LOOKS_BACK = 12
"""How many of the newest runs of a schedule are read: a run may be about one source only."""


def newest_verdicts(store: Store, schedule: Schedule, sources: Collection[str]) -> list[Verdict]:
    """For each source, the verdicts of the newest window that a finished run has judged, evaluated or not."""
    missing = set(sources)
    found: list[Verdict] = []
    for run in store.runs(schedule, limit=LOOKS_BACK):
        if not missing:
            break
        if run["state"] == "done":
            verdicts = store.verdicts(schedule=schedule, window_start=run["window_start"])
            found += [v for v in verdicts if v.subject.source in missing]
            missing -= {v.subject.source for v in verdicts}
    return found
