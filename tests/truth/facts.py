"""What is true at a time: the stored rows, read by SQL of this module's own, and what follows from them by contract.

Nothing here calls the wording, the conclusions, the label states, the incidents or the switch of ``monitor``. Where
a fact is what a switch *was*, its stored events are replayed by the small interpreter below.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.truth.script import CRITICAL, PARTS, RULES, Said
from tests.truth.troubles import Told, Troubles

Row = dict[str, Any]
_WHEN = {
    "at", "started_at", "finished_at", "window_start", "window_end", "stored_at", "opened_at", "resolved_at",
    "acknowledged_at", "silenced_until", "lease_until", "until", "hold_until", "changed_at", "last_window_end",
    "created_at", "sent_at", "last_window_start", "read_at", "published_at",
}  # fmt: skip
_JSON = {"detail", "payload", "blocked", "actions", "versions", "examples", "further_reasons", "segments"}
RUNS = ("weekly run", "daily run")


def moment(text: Any) -> Any:
    """A stored instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if isinstance(text, str) else text


@dataclass(frozen=True)
class Switch:
    """A switch as its events left it: ``since``, ``by`` and ``why`` are of its last change of state."""

    state: str = "never_set"
    since: datetime | None = None
    by: str = ""
    why: str = ""
    lease: datetime | None = None
    hold: datetime | None = None
    blocked: tuple[tuple[float, float], ...] = ()
    verdict: str | None = None
    by_person: bool = False
    segments: tuple[tuple[str, datetime], ...] = ()

    def off(self, at: datetime) -> set[str]:
        """The segments that are off, as sentences name them."""
        return {name for name, off_from in self.segments if off_from <= at}

    def ending(self, at: datetime) -> set[str]:
        """The segments that are on for a time only."""
        return {name for name, off_from in self.segments if off_from > at}

    def after(self, event: Row) -> Switch:
        """The switch after one stored event."""
        kind = event["kind"]
        kept = replace(self, lease=event["lease_until"] if event["to_state"] == "on" else self.lease)
        if kind.startswith("would_"):
            return kept
        ranges = tuple((float(a), float(b)) for a, b in event["blocked"])
        parts = tuple(
            (f"{part['column']} = {part['value']}", datetime.fromisoformat(part["off_from"]))
            for part in event["segments"] or ()
            if part["off_from"] is not None
        )
        kept = replace(
            kept,
            segments=parts,
            state=event["to_state"],
            blocked=ranges,
            lease=event["lease_until"],
            hold=event["until"],
        )
        if kind in ("disabled", "enabled", "blocked", "unblocked"):
            person = event["actor"] not in RUNS
            return replace(
                kept, since=event["at"], by=event["actor"], why=own_reason(event["reason"]), verdict=event["verdict"],
                by_person=person,
            )  # fmt: skip
        return replace(kept, verdict=event["verdict"]) if kind in ("held", "renewed") else kept


def own_reason(reason: str) -> str:
    """What an event says of the label itself; of its segments, which have a line of their own, nothing."""
    return reason.partition(f"; {PARTS.id}: ")[0]


@dataclass
class Facts:
    """The history in one moment. ``said`` is what the script of the story said so far, ``troubles`` what it planned."""

    path: Path
    now: datetime
    rules: Mapping[str, Any] = field(default_factory=lambda: RULES)
    said: Mapping[Any, Said] = field(default_factory=dict)
    memory: dict[str, Row] = field(default_factory=dict)  # verdicts read before: only ``current`` ever changes
    troubles: Troubles = field(default_factory=Troubles)
    told: Told = field(default_factory=Told)
    before: Mapping[str, str] = field(default_factory=dict)  # in which state each delivery was before this step

    def rows(self, query: str, *values: Any) -> list[Row]:
        """Rows of a query, instants and JSON read."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.row_factory = sqlite3.Row
            found = [dict(row) for row in connection.execute(query, values)]
        return [{k: _read(k, v) for k, v in row.items()} for row in found]

    # --- switches

    @cached_property
    def switch_events(self) -> list[Row]:
        return self.rows("SELECT * FROM switch_events ORDER BY id")

    @cached_property
    def switches(self) -> dict[tuple[str, str | None], Row]:
        return {(r["source"], r["label"] or None): r for r in self.rows("SELECT * FROM switches")}

    def switch(self, source: str, label: str | None, at: datetime | None = None) -> Switch:
        """The switch as it was at ``at`` (None: now): its events, replayed in their order."""
        found = Switch()
        for event in self.switch_events:
            if (event["source"], event["label"] or None) != (source, label):
                continue
            if at is None or event["at"] <= at:
                found = found.after(event)
        return found

    @cached_property
    def closed(self) -> list[tuple[datetime, datetime | None]]:
        """From when until when every gate was closed, since an older history was put back; None: until now."""
        found: list[tuple[datetime, datetime | None]] = []
        for event in sorted((e for e in self.switch_events if not e["source"]), key=lambda e: e["at"]):
            if event["kind"] == "gates_closed":
                found.append((event["at"], None))
            else:
                found[-1] = found[-1][0], event["at"]
        return found

    def is_closed(self, at: datetime) -> bool:
        """Whether every gate was closed then."""
        return any(start <= at and (end is None or at < end) for start, end in self.closed)

    def why_off(self, source: str, label: str | None, at: datetime | None = None) -> str | None:
        """Why automation may not act: history, source, never, off, lease, or None where it may."""
        return "history" if self.is_closed(self.now if at is None else at) else self.own_why_off(source, label, at)

    def own_why_off(self, source: str, label: str | None, at: datetime | None = None) -> str | None:
        """The same, as if the history were confirmed."""
        time = self.now if at is None else at
        if label is not None:
            whole = self.switch(source, None, at)
            if whole.state == "off":
                return "source"
            if whole.state == "on" and whole.verdict and (whole.lease is None or whole.lease <= time):
                return "source closed"
        mine = self.switch(source, label, at)
        if mine.state != "on":
            return {"never_set": "never", "off": "off"}[mine.state]
        return "lease" if mine.lease is None or mine.lease <= time else None

    def ends(self, source: str, label: str | None) -> datetime | None:
        """When automation of a label ends without an evaluation: with its lease, or before it with that of its source.

        The source's own lease counts where a verdict is against it.
        """
        whole = self.switch(source, None)
        leases = [self.switch(source, label).lease, whole.lease if whole.state == "on" and whole.verdict else None]
        return min((each for each in leases if each is not None), default=None)

    def closed_parts(self, source: str, label: str | None, start: datetime, end: datetime) -> set[frozenset[Any]]:
        """What was closed while automation was on: one set of score ranges and segments for each different state."""
        times = {start, *(m for _, m in self.closed if m is not None and start <= m < end)}
        for event in self.switch_events:
            if event["source"] == source and (event["label"] or None) in (label, None):
                ends = [datetime.fromisoformat(p["off_from"]) for p in event["segments"] or () if p["off_from"]]
                times |= {m for m in (event["at"], *ends) if start <= m < end}
        found = set()
        for at in times:
            if self.why_off(source, label, at) is None:
                mine, whole = self.switch(source, label, at), self.switch(source, None, at)
                found.add(frozenset({*mine.blocked, *(whole.blocked if label else ()), *mine.off(at)}))
        return found

    def on_share(self, source: str, label: str | None, start: datetime, end: datetime) -> float:
        """Which share of a span automation was on for a label, by its events and those of its source."""
        marks = {start, end, *(m for span in self.closed for m in span if m is not None and start < m < end)}
        for event in self.switch_events:
            if event["source"] == source and (event["label"] or None) in (label, None):
                marks |= {m for m in (event["at"], event["lease_until"]) if m is not None and start < m < end}
        times = sorted(marks)
        on = sum(
            (b - a for a, b in pairwise(times) if self.why_off(source, label, a) is None),
            timedelta(0),
        )
        return on / (end - start)

    # --- evaluations

    @cached_property
    def verdicts(self) -> dict[str, Row]:
        stored = self.rows("SELECT id, current FROM verdicts ORDER BY window_start, stored_at")
        last = max((row["row"] for row in self.memory.values()), default=0)
        for row in self.rows("SELECT rowid AS row, * FROM verdicts WHERE rowid > ?", last):
            self.memory[row["id"]] = row
        for row in stored:
            self.memory[row["id"]]["current"] = row["current"]
        return {row["id"]: self.memory[row["id"]] for row in stored}

    def verdict(self, prefix: str) -> Row:
        """The verdict whose id begins so."""
        found = [row for id, row in self.verdicts.items() if id.startswith(prefix)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} verdicts begin with {prefix}")
        return found[0]

    def current(self, schedule: str, window: str, source: str | None = None, label: Any = ...) -> list[Row]:
        """The verdicts of a window as they are judged now."""
        return [
            row for row in self.verdicts.values()
            if row["current"] and (row["schedule"], row["window_name"]) == (schedule, window)
            and source in (None, row["source"]) and (label is ... or (row["label"] or None) == label)
        ]  # fmt: skip

    def last_evaluated(self, source: str, label: str | None, rule: str) -> Row | None:
        """The newest window of a rule of a label that was evaluated, as it is judged now."""
        mine = [
            row for row in self.verdicts.values()
            if row["current"] and (row["source"], row["label"] or None, row["rule"]) == (source, label, rule)
            and row["outcome"] != "not_evaluated"
        ]  # fmt: skip
        return max(mine, key=lambda r: r["window_start"], default=None)

    @cached_property
    def _estimates(self) -> dict[tuple[str, str, str, str | None, str, str], Row]:
        found = self.rows("SELECT * FROM estimates WHERE segment = ''")
        return {
            (r["schedule"], r["window_name"], r["source"], r["label"] or None, r["metric"], r["population"]): r
            for r in found
        }  # fmt: skip

    def estimate(
        self, schedule: str, window: str, source: str, label: str | None, metric: str, where: str
    ) -> Row | None:  # fmt: skip
        """One stored estimate, or None."""
        return self._estimates.get((schedule, window, source, label, metric, where))

    @cached_property
    def runs(self) -> list[Row]:
        return self.rows("SELECT * FROM runs ORDER BY window_start")

    @cached_property
    def readings(self) -> list[Row]:
        return self.rows("SELECT * FROM readings ORDER BY window_start")

    @cached_property
    def quality(self) -> list[Row]:
        return self.rows("SELECT * FROM quality")

    @property
    def reasons(self) -> set[str]:
        """Every reason of a verdict, and of an incident of the monitor itself."""
        of_monitor = {
            reason for e in self.incident_events if e["actor"] == "watchdog" for reason in e["reason"].split(", ")
        }
        return {row["reason"] for row in self.verdicts.values()} | of_monitor

    # --- incidents

    @cached_property
    def incidents(self) -> dict[str, Row]:
        return {r["id"]: r for r in self.rows("SELECT * FROM incidents ORDER BY opened_at")}

    @cached_property
    def incident_events(self) -> list[Row]:
        return self.rows("SELECT * FROM incident_events ORDER BY at, key")

    def incident(self, prefix: str) -> Row:
        """The incident whose id begins so."""
        found = [row for id, row in self.incidents.items() if id.startswith(prefix)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} incidents begin with {prefix}")
        return found[0]

    def events_of(self, incident: str) -> list[Row]:
        """What happened to an incident, in order."""
        return [e for e in self.incident_events if e["incident"] == incident]

    # --- messages

    @cached_property
    def deliveries(self) -> list[Row]:
        columns = (
            "id, kind, channel, state, created_at, operation, root, sequence, error, error_code, sent_at, attempts"
        )
        return self.rows(f"SELECT {columns} FROM deliveries ORDER BY created_at, sequence")

    def new_deliveries(self, after: int) -> list[Row]:
        """What was composed since the row ``after``, with payloads; ``row`` is the number of each."""
        return self.rows("SELECT rowid AS row, * FROM deliveries WHERE rowid > ? ORDER BY created_at, sequence", after)

    @property
    def critical(self) -> tuple[tuple[str, str], ...]:
        return CRITICAL

    def labels(self) -> Iterator[tuple[str, str]]:
        """Every label that has a switch."""
        for source, label in self.switches:
            if label is not None:
                yield source, label


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _WHEN:
        return moment(value)
    return json.loads(value) if name in _JSON and isinstance(value, str) else value


@dataclass(frozen=True)
class Broken:
    """A fact that contradicts the contract, whatever any text says of it."""

    about: str
    what: str


def contradictions(facts: Facts, *, dry_run: bool) -> Iterator[Broken]:
    """Where the stored facts themselves contradict the contract (DESIGN.md: The switch, Truth)."""
    yield from _of_incidents(facts)
    yield from _of_script(facts)
    yield from _of_troubles(facts)
    yield from _of_gates(facts)
    if not dry_run:
        yield from _of_switches(facts)


def _of_incidents(facts: Facts) -> Iterator[Broken]:
    """Only ``ok`` resolves and only a breach opens; an incident is as its events say."""
    for event in facts.incident_events:
        if event["verdict"] is None or event["actor"] != "run":
            continue
        verdict = facts.verdicts.get(event["verdict"])
        wanted = {"resolved": ("ok",), "held_back": ("ok",), "opened": ("breach",), "reopened": ("breach",)}
        if verdict is not None and event["kind"] in wanted and verdict["outcome"] not in wanted[event["kind"]]:
            yield Broken(
                f"incident {event['incident'][:8]}", f"{event['kind']} by a verdict that is {verdict['outcome']}"
            )


def _of_script(facts: Facts) -> Iterator[Broken]:
    """The newest verdicts are those that the script said last."""
    for (schedule, window, source, label, rule), said in facts.said.items():
        stored = [v for v in facts.current(schedule, window, source, label) if v["rule"] == rule]
        if stored and (stored[0]["outcome"], stored[0]["reason"]) != (said.outcome, said.reason.value):
            found = f"{stored[0]['outcome']} ({stored[0]['reason']})"
            yield Broken(f"{rule} of {source}/{label} in {window}", f"is {found}, not {said.outcome} ({said.reason})")


def _of_troubles(facts: Facts) -> Iterator[Broken]:
    """Rows are noted as gone, and parts as not read, in the windows of which the plan says so, and in no other."""
    yield from (Broken("settings of the source", each) for each in facts.told.against)
    notes = {
        (q["schedule"], q["window_start"], q["source"], q["reason"]): q for q in facts.quality if not q["rows"]
    }  # fmt: skip
    starts = {(r["schedule"], r["window_name"]): r["window_start"] for r in facts.verdicts.values()}
    for key, most in facts.told.gone.items():
        schedule, window, source = key
        start = starts.get((schedule, window))
        found = notes.get((schedule, start, source, "rows_gone"))
        before = None if found is None else int(found["examples"][0]["before"])
        if before != most:
            yield Broken(f"{source} in {window}", f"{before} rows are noted as gone, and {most} are")
        for part in ("delays_failed", "unresolved_failed"):
            noted = (schedule, start, source, part) in notes
            if noted != (part in facts.told.unread[key]):
                yield Broken(f"{source} in {window}", f"{part}: noted {noted}, planned {facts.told.unread[key]}")


def _of_gates(facts: Facts) -> Iterator[Broken]:
    """Every gate is closed from when an older history was put back until it is confirmed, and at no other time."""
    put_back = facts.troubles.mishaps.put_back if facts.troubles.mishaps is not None else None
    planned = put_back is not None and put_back.at <= facts.now < put_back.confirmed
    if facts.is_closed(facts.now) != planned:
        yield Broken("every gate", f"closed: {facts.closed}, planned: {put_back}")


def _of_switches(facts: Facts) -> Iterator[Broken]:
    """Never on for a label whose last evaluated outcome of any rule that turns off is a breach, but for a hold."""
    for source, label in facts.labels():
        if facts.why_off(source, label) is not None:
            continue
        held = facts.switch(source, label)
        if held.by_person and held.hold is not None and held.hold > facts.now:
            continue
        for rule in facts.rules.values():
            last = facts.last_evaluated(source, label, rule.id)
            if last is not None and rule.scope == "segments" and last["outcome"] == "breach":
                known = {name for name, _ in held.segments}
                open_ = {" = ".join(each) for each in last["detail"]["turns_off"]} - known
                if open_:
                    yield Broken(f"{source}/{label}", f"acts on {open_} although {rule.id} was a breach")
            if not rule.turns_off or rule.scope != "labels":
                continue
            if last is not None and last["outcome"] == "breach":
                yield Broken(f"{source}/{label}", f"is on although {rule.id} was a breach in {last['window_name']}")
