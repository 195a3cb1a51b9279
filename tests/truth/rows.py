"""The stored rows of a history, and what follows from them: nothing here asks the code under test."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.truth.world import ACTING

Row = dict[str, Any]
TROUBLES = ("unsafe", "degraded")
NOT_SEEN = timedelta(weeks=4)
FRESH = {"weekly": timedelta(weeks=2), "daily": timedelta(days=2)}
BEHIND = timedelta(minutes=10)
"""By a clock that is further behind than this, nothing may act."""
RUNS = ("weekly run", "daily run")
SILENT = (
    ("source_not_read", {"relation_error", "warehouse_failed"}), ("rejected_rows", {"rejected_rows"}),
    ("no_rows", {"no_rows"}), ("no_truth_where_it_acts", {"no_rows"}), ("no_baseline", {"no_baseline", "scores_moved"}),
    ("too_few_rows", {"too_few_rows"}),
)  # fmt: skip
"""Why nothing can be told, by the reasons of verdicts that say so."""
_UNSAID = {
    **dict.fromkeys(("problem", "since", "cost", "segment", "cause", "advice", "reason")), "found": "", "because": [],
    "notes": {},
}  # fmt: skip
"""What a stored diagnosis leaves out where it has nothing to say."""
_JSON = ("detail", "payload", "promises", "segments", "because", "labels", "rules", "blocked", "segment", "versions")


@dataclass
class Rows:
    """The history as of ``now``. Every reading is made once, and kept."""

    path: Path
    now: datetime
    _tables: dict[str, list[Row]] = field(default_factory=dict)

    def table(self, name: str) -> list[Row]:
        """The rows of a table, in the order in which they were stored."""
        if name not in self._tables:
            with sqlite3.connect(f"file:{self.path}?mode=ro", uri=True) as connection:
                connection.row_factory = sqlite3.Row
                self._tables[name] = [_plain(row) for row in connection.execute(f"SELECT * FROM {name}")]
            for row in self._tables[name] if name == "diagnoses" else ():
                row["detail"] = {**_UNSAID, **row["detail"]}
                row["detail"]["notes"] = {"within_limits": True, "last_rows": "", **row["detail"]["notes"]}
        return self._tables[name]

    def of(self, name: str, source: str, label: str | None) -> list[Row]:
        """The rows of a table about one label."""
        return [row for row in self.table(name) if row["source"] == source and row["label"] == (label or "")]

    # --- diagnoses

    def diagnoses(self, source: str, label: str | None) -> list[Row]:
        """The diagnoses of a label, oldest first; a week comes after the days that end with it."""
        return sorted(self.of("diagnoses", source, label), key=lambda row: (row["window_end"], row["schedule"]))

    def verdicts(self, diagnosis: Row) -> list[Row]:
        """The newest verdict of each rule that was known when a label was diagnosed."""
        known = [
            v
            for v in self.of("verdicts", diagnosis["source"], diagnosis["label"])
            if (v["stored_at"] <= diagnosis["diagnosed_at"] or v["stored_at"] > self.now)  # by a clock that was ahead
            and v["window_end"] <= diagnosis["window_end"]
            and diagnosis["window_end"] - v["window_end"] <= FRESH[v["schedule"]]
        ]
        newest = {v["rule"]: v for v in sorted(known, key=lambda v: (v["window_end"], v["stored_at"]))}
        return list(newest.values())

    def judged(self, diagnosis: Row) -> tuple[str, set[str]]:
        """The state that verdicts say, and the ids of those that it rests on."""
        counting = [v for v in self.verdicts(diagnosis) if v["severity"] != "info"]
        breaches = [v for v in counting if v["outcome"] == "breach"]
        acting = [v for v in counting if v["rule"] in ACTING] if diagnosis["label"] else counting
        told = [v for v in acting if v["outcome"] != "not_evaluated"]
        state = "fine" if told else "cannot_tell"
        if breaches:
            state = "unsafe" if any(v["rule"] in ACTING for v in breaches) and diagnosis["label"] else "degraded"
        return state, {v["id"] for v in breaches or told or acting}

    def episode(self, diagnoses: Sequence[Row]) -> list[Row]:
        """The diagnoses since the trouble began that goes on at the end of these; none where there is none."""
        run = []
        seen = None
        for row in diagnoses:
            trouble = row["state"] in TROUBLES
            if not run and not trouble:
                continue
            seen = row["window_end"] if trouble or not row["detail"]["notes"]["within_limits"] else seen
            over = row["state"] == "fine" or (not trouble and seen is not None and row["window_end"] - seen >= NOT_SEEN)
            run = [] if over else [*run, row]
        return run

    # --- windows

    def counted(self, source: str, label: str, schedule: str, until: datetime) -> list[Row]:
        """What the rows of a label promised and kept in each window that began before ``until``, oldest first."""
        rows = [r for r in self.of("counts", source, label) if r["schedule"] == schedule and r["window_start"] < until]
        return sorted(rows, key=lambda row: row["window_start"])

    def is_unchanged(self, diagnosis: Row) -> bool:
        """Whether nothing was read or judged again since that was before the window of a diagnosis."""
        at = diagnosis["diagnosed_at"]
        read = [r["read_at"] for r in self.table("readings") if r["source"] == diagnosis["source"]]
        told = [d["diagnosed_at"] for d in self.of("diagnoses", diagnosis["source"], diagnosis["label"])]
        return max(read) <= at and max(told) <= at

    def cost(self, diagnosis: Row, schedule: str, since: datetime) -> tuple[float, float, float, bool] | None:
        """What a trouble has cost since it began: (items, right, claimed, whether any of them acted)."""
        source, label = diagnosis["source"], diagnosis["label"]
        windows = self.counted(source, label, schedule, diagnosis["window_end"])
        where = next((w for w in ("automated", "predicted", "all") if any(w in r["promises"] for r in windows)), "all")
        length = timedelta(weeks=1) if schedule == "weekly" else timedelta(days=1)
        parts = [
            (row["promises"][where], self.share_on(source, label, row["window_start"], row["window_start"] + length))
            for row in windows
            if row["window_start"] >= since and where in row["promises"]
        ]
        acted = any(share for _, share in parts)
        weights = [(promise, share if acted else 1.0) for promise, share in parts]
        total = sum(promise[1] * share for promise, share in weights)
        if not total:
            return None
        right, claimed = (sum(promise[1] * share * promise[at] for promise, share in weights) / total for at in (3, 2))
        return sum(promise[0] * share for promise, share in weights), right, claimed, acted

    # --- switches

    @property
    def latest(self) -> datetime:
        """The time of the newest change of a switch, if the clock is a little behind it; else now.

        What was stored last holds now: only by a clock that is further behind than BEHIND may nothing act.
        """
        return max([self.now, *(e["at"] for e in self.table("switch_events") if e["at"] <= self.now + BEHIND)])

    def is_on(self, source: str, label: str, at: datetime | None = None) -> bool:
        """Whether automation was allowed at a time (now), by the events of its own switch and of its source's."""
        ahead = at is None and any(e["at"] > self.now + BEHIND for e in self.table("switch_events"))
        known = at or self.latest  # changes of a switch are known up to here; leases end by the clock
        at = at or self.now
        if ahead or self.is_closed(known):
            return False
        own, whole = (self.state_of(source, about, known) for about in (label, ""))
        if not own or own["to_state"] != "on" or own["lease_until"] is None or own["lease_until"] <= at:
            return False
        if not whole or whole["to_state"] not in ("on", "off"):
            return True
        ended = whole["lease_until"] is not None and whole["lease_until"] <= at
        return whole["to_state"] == "on" and not (whole["verdict"] and ended)

    def state_of(self, source: str, label: str, at: datetime | None = None) -> Row | None:
        """The last event that says the state of a switch, with the lease and the verdict of those after it."""
        state, at = None, at or self.latest
        for event in self.of("switch_events", source, label):
            if event["at"] > at:
                continue
            changes = event["from_state"] != event["to_state"] or event["kind"] in ("disabled", "enabled", "blocked")
            if changes or (state is None and event["from_state"] == "on"):  # a clock was set back since it was enabled
                state = event
            elif state is not None and event["lease_until"] is not None:
                state = {**state, "lease_until": event["lease_until"], "until": event["until"]}
                if event["kind"] == "renewed" and state["actor"] not in RUNS:
                    state["verdict"] = None
                elif event["kind"] == "held" and event["until"] is not None:
                    state["verdict"] = event["verdict"] if event["lease_until"] <= event["until"] else None
        return state

    def is_closed(self, at: datetime) -> bool:
        """Whether every gate was closed, since an older history was put back and nobody had confirmed it."""
        events = [e for e in self.table("switch_events") if e["kind"].startswith("gates_") and e["at"] <= at]
        return bool(events) and max(events, key=lambda event: event["at"])["kind"] == "gates_closed"

    def moments(self, source: str, label: str) -> list[datetime]:
        """All times at which automation of a label may have begun or ended."""
        gates = [event for event in self.table("switch_events") if event["kind"].startswith("gates_")]
        events = [*self.of("switch_events", source, label), *self.of("switch_events", source, ""), *gates]
        times = {event[name] for event in events for name in ("at", "lease_until")}
        return sorted(time for time in times if time is not None)

    def share_on(self, source: str, label: str, start: datetime, end: datetime) -> float:
        """For which share of a span automation was on."""
        cuts = [start, *(time for time in self.moments(source, label) if start < time < end), end]
        on = sum([b - a for a, b in pairwise(cuts) if self.is_on(source, label, a)], timedelta())
        return on / (end - start)

    def off_since(self, source: str, label: str) -> datetime | None:
        """Since when automation of a label is off; None if it was never on."""
        cuts = [moment for moment in self.moments(source, label) if moment <= self.latest]
        for before, after in reversed(list(pairwise(cuts))):
            if self.is_on(source, label, before):
                return after
        return None

    # --- incidents

    def incidents(self, source: str, label: str | None) -> list[Row]:
        """The incidents of a label, those of many labels included, the newest last."""
        mine = [
            row
            for row in self.table("incidents")
            if row["source"] == source
            and not row["kind"].startswith("monitor")
            and ((row["labels"] and label in row["labels"]) or (not row["labels"] and row["label"] == (label or "")))
        ]
        return sorted(mine, key=lambda row: (row["state"] != "resolved", row["window_end"], row["opened_at"]))

    def life(self, incident: Row) -> str:
        """The state of an incident by its events alone."""
        state, acknowledged = "", False
        for event in sorted(self.events(incident), key=lambda event: event["key"]):
            kind = event["kind"]
            if kind in ("opened", "reopened") or (kind == "continued" and event["reason"] == "worse"):
                state, acknowledged = "open", False
            elif kind == "acknowledged":
                state, acknowledged = "acknowledged", True
            elif kind == "unsilenced":
                state = "acknowledged" if acknowledged else "open"
            elif kind in ("resolved", "silenced"):
                state = kind
        silent = incident["silenced_until"]
        return "silenced" if state == "open" and silent is not None and incident["state"] == "silenced" else state

    def events(self, incident: Row) -> list[Row]:
        """The events of an incident, without what was refused."""
        return [e for e in self.table("incident_events") if e["incident"] == incident["id"] and e["kind"] != "refused"]


def start_of(window: str) -> datetime:
    """When a week or a day of this name begins.

    >>> start_of("2026-W02"), start_of("2026-01-06").day
    (datetime.datetime(2026, 1, 5, 0, 0, tzinfo=datetime.timezone.utc), 6)
    """
    if "-W" in window:
        return datetime.strptime(f"{window}-1", "%G-W%V-%u").replace(tzinfo=UTC)
    return datetime.combine(date.fromisoformat(window), datetime.min.time(), UTC)


def _plain(row: sqlite3.Row) -> Row:
    made = {}
    for name in row.keys():  # noqa: SIM118 - a row of sqlite3 is no mapping
        value = row[name]
        if isinstance(value, str) and name in _JSON and value[:1] in "[{":
            value = json.loads(value)
        elif isinstance(value, str) and len(value) == 26 and value[10] == " ":
            value = datetime.fromisoformat(value).replace(tzinfo=UTC)
        made[name] = value
    return made
