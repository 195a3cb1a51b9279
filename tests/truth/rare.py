"""Rare stories: which steps their mishaps make, and how these are played."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from monitor import run
from monitor.alerting.health.issues import FAILED_NOTE, WAITING_NOTE, WATCHDOG_NOTE
from monitor.alerting.health.watchdog import note_failure, stand_in, watch_monitor, watch_runs
from monitor.core.records import Note
from tests.truth.mishaps import LOOKS_EVERY, Mishaps, PutBack

if TYPE_CHECKING:
    from tests.truth.histories import Event, Step, Story

Planned = tuple[datetime, str, str, Mapping[str, Any]]
"""A step: when, of which kind, of what, and more."""


def steps_of(mishaps: Mishaps) -> Iterator[Planned]:
    """The steps of all mishaps; and somebody looks, and what comes round does so, while something is wrong."""
    for span in mishaps.silences:
        for minutes in (66, 86, 106):  # the drain looks in the watchdog's place after half an hour of its own
            yield span.start + timedelta(minutes=minutes), "drain", "", {}
        yield span.start + timedelta(minutes=110), "look", "", {}
        yield span.end + timedelta(minutes=20), "watch", "", {}
    for waits in mishaps.waiting:
        yield from _seen(waits.start, waits.end)
    for failure in mishaps.failures:
        yield failure.start, "fail", failure.what, {"error": failure.error}
        yield from _seen(failure.start, failure.end)
    for refused in mishaps.refused:
        yield refused.start, "refuse", refused.what, {}
        yield refused.end, "refuse", "", {}
        yield from _seen(refused.start + timedelta(hours=6), refused.end)
    for tokenless in mishaps.tokenless:
        yield tokenless.start, "token", "gone", {}
        yield tokenless.end, "token", "back", {}
        yield from _seen(tokenless.start + timedelta(hours=6), tokenless.end)
    if mishaps.put_back is not None:
        yield from _of_put_back(mishaps.put_back)


def _seen(start: datetime, end: datetime) -> Iterator[Planned]:
    yield start + timedelta(minutes=31), "watch", "", {}
    yield start + timedelta(minutes=40), "look", "", {}
    yield end + timedelta(minutes=20), "drain", "", {}
    yield end + timedelta(minutes=21), "watch", "", {}


def _of_put_back(found: PutBack) -> Iterator[Planned]:
    given = {"by": found.by, "why": found.why, "by_command": found.by_command}
    yield found.copied, "backup", "", {}
    yield found.at, "restore", "", given
    yield from _seen(found.at, found.confirmed)
    yield found.confirmed, "confirm", "", given
    yield found.confirmed + timedelta(minutes=45), "look", "", {}


def with_killed_runs(events: Iterable[Event], mishaps: Mishaps) -> Iterator[Event]:
    """The run of each of these weeks is killed; it is run again hours later, after somebody has looked."""
    left = set(mishaps.killed)
    for event in events:
        if event.kind != "run" or event.what not in left or event.more.get("fails"):
            yield event
            continue
        left.remove(event.what)
        yield replace(event, more={**event.more, "killed": True})
        for hours, kind in ((4, "watch"), (5, "look")):
            yield replace(event, at=event.at + timedelta(hours=hours), kind=kind, what="", more={})  # type: ignore[arg-type]
        yield replace(event, at=event.at + timedelta(hours=9))


# --- played


def note_looks(told: Story) -> None:
    """The watchdog notes its last look, and which runs wait then, as it does every quarter of an hour."""
    if told.plan.mishaps is not None:
        _note_look(told, told.plan.mishaps.looked(told.clock.now))


def _note_look(told: Story, at: datetime) -> None:
    mishaps, last = told.plan.mishaps, told.told.looked
    if mishaps is None or (last is not None and at <= last):
        return
    store = told.monitor.store
    runs = [{"flow": flow, "due": due, "state": "Late"} for flow, due in mishaps.waiting_at(at)]
    store.put_note(Note(WAITING_NOTE, at, {"runs": runs}))
    store.put_note(Note(WATCHDOG_NOTE, at, {"before": (at - LOOKS_EVERY).isoformat()}))
    store.drop_note(f"{FAILED_NOTE}calmon-watchdog")
    told.told.looked = at


def begin_watch(told: Story) -> bool:
    """The watchdog begins a look, unless it is stopped or fails."""
    if told.plan.mishaps is None:
        return True
    if not told.plan.mishaps.is_watched(told.clock.now):
        return False
    _note_look(told, told.clock.now)
    return True


def begin_drain(told: Story) -> bool:
    """The drain begins, unless it fails; where the watchdog is silent, it looks in its place."""
    mishaps = told.plan.mishaps
    if mishaps is None:
        return True
    if mishaps.failing("calmon-drain", told.clock.now) is not None:
        return False
    told.monitor.store.drop_note(f"{FAILED_NOTE}calmon-drain")
    stand_in(told.monitor)
    return True


def fail(told: Story, event: Event, step: Step) -> None:
    """A flow fails, and its hook says so."""
    note_failure(told.monitor.store, event.what, event.more["error"], told.clock.now)
    watch_runs(told.monitor)
    run.deliver(told.monitor, due_only=True)


def refuse(told: Story, event: Event, step: Step) -> None:
    """Slack begins to refuse a channel's messages, or ends to ("")."""
    if told.channel is not None:
        told.channel.refused = event.what


def token(told: Story, event: Event, step: Step) -> None:
    """No process has a token any more, or each has one again."""
    if told.channel is not None:
        told.channel.has_token = event.what == "back"
        told.monitor = replace(told.monitor, sender=told.channel if told.channel.has_token else None)  # type: ignore[arg-type]


def backup(told: Story, event: Event, step: Step) -> None:
    """Somebody copies the history; what the story has written by hand until then is kept beside it."""
    told.kept = deepcopy((told.said, told.values, told.told))
    step.printed.append(told.printed("backup", "db", "backup", str(told.folder / "copy.sqlite")))


def restore(told: Story, event: Event, step: Step) -> None:
    """Somebody puts the copy back: what came after it is unknown to the history."""
    assert told.kept is not None
    told.said, told.values, told.told = deepcopy(told.kept)
    if not event.more["by_command"]:
        _copy_back(told)
        return
    given = ("--reason", event.more["why"], "--by", event.more["by"])
    step.printed.append(told.printed("restore", "db", "restore", str(told.folder / "copy.sqlite"), *given))


def _copy_back(told: Story) -> None:
    """The copy in the place of the history, without a command: the watchdog looks at once, and finds it."""
    with closing(sqlite3.connect(told.folder / "copy.sqlite")) as old, closing(_live(told)) as live:
        told.told.lost = live.execute("SELECT version, epoch FROM history").fetchone()
        told.told.found = old.execute("SELECT version, epoch FROM history").fetchone()
        old.backup(live)
    told.monitor.store.close_if_older_copy()  # as every process does that opens the history
    watch_monitor(told.monitor)


def _live(told: Story) -> sqlite3.Connection:
    return sqlite3.connect(told.folder / "history.sqlite")


def confirm(told: Story, event: Event, step: Step) -> None:
    """Somebody has looked at the history, and confirms it."""
    step.printed.append(told.printed("confirm", "db", "confirm", "--reason", "looked at", "--by", event.more["by"]))


PLAYED: Mapping[str, Callable[[Story, Event, Step], None]] = {
    "fail": fail, "refuse": refuse, "token": token, "backup": backup, "restore": restore, "confirm": confirm,
}  # fmt: skip
