"""The newest verdicts of every source: what a page or a metric of now is made of."""

from __future__ import annotations

from collections.abc import Collection

from monitor.core.records import Schedule, Verdict
from monitor.history.store import Store

LOOKS_BACK = 12
"""Finished runs of a schedule that are looked at: a run may be of one source alone."""


def newest_verdicts(store: Store, schedule: Schedule, sources: Collection[str]) -> list[Verdict]:
    """Of each source the verdicts of the newest window that a finished run has judged, evaluated or not."""
    missing = set(sources)
    found: list[Verdict] = []
    for run in store.runs(schedule, limit=LOOKS_BACK):
        if not missing:
            break
        if run["state"] == "done":
            mine = store.verdicts(schedule=schedule, window_start=run["window_start"])
            found += [v for v in mine if v.subject.source in missing]
            missing -= {v.subject.source for v in mine}
    return found
