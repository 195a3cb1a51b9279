"""The results of a year, in a form in which two years can be compared, and the notifications of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from benchmarks.fault_plan import Kind
from benchmarks.fault_play import Met, Year
from benchmarks.fault_world import REPEAT, START, ZONE
from monitor.alerting.health.issues import findings
from monitor.alerting.health.look import observed
from monitor.alerting.slack.message import change_of
from monitor.core.records import MONITOR_KIND, SCHEDULES, Delivery
from monitor.core.windows import last_ready
from monitor.operations.missed import missed_windows

WHEN = (
    "read_at", "stored_at", "pinned_at", "opened_at", "resolved_at", "changed_at", "at", "published_at", "newest_at",
    "since", "started_at", "finished_at",
)  # fmt: skip
"""Columns with times of the runs themselves, which a fault may delay."""
TRIES = ("id", "run", "attempts", "version", "root", "error", "host", "sequence", "epoch", "history_id")
"""Columns that count or name tries and processes."""
AS_STORED = ("fingerprint", "data", "segment_data", "settings")
"""Columns that an older schema lacks or stores in other bytes. For counts and baselines the digests are compared."""
FUTURE = "date_in_future"
"""The reason for the rows of the rest of the year, which are in the warehouse already: fewer of them after a delay."""
TABLES = (
    "runs", "readings", "counts", "quality", "estimates", "shifts", "baselines", "verdicts", "evidence", "switches",
    "switch_events", "incidents", "thresholds", "publications", "annotations",
)  # fmt: skip
IN_THREAD = ("*It is back", "*New")
"""How a reply begins that says a trouble which is new or back: the monitor has one incident and one message."""
SPARE = timedelta(minutes=1)
AFTERWARDS = timedelta(hours=1)
SHIFTING = (Kind.AHEAD, Kind.DAYS_AHEAD, Kind.BEHIND, Kind.SLACK, Kind.CHANNEL)
"""Kinds of faults with which a reminder is sent at another time than the clock shows."""
MAY_NOTIFY = (Kind.SLACK, Kind.DAYS_AHEAD, Kind.AHEAD, Kind.BEHIND)
"""Kinds of faults that may give one message in each channel, or none, beside the one that is asked for."""
ABOUT = {Kind.BEHIND: "Monitor: the clock is behind", Kind.AHEAD: "Monitor: evaluations are missing"}
"""Kinds of faults -> how the message begins that is asked for, where it need not be the only one."""

LAST_DAY = "*New: Monitor: automation of tickets is about to end* :red_circle:"
LEASES = (Kind.WAREHOUSE, Kind.DAYS_AHEAD)
"""Kinds of faults with one more message, which begins so: the last day of a lease has come, by this clock, without an
evaluation. It is right: nobody has acted, the history alone does not show that the clock is wrong, and on that day
automation ends."""


@dataclass(frozen=True, slots=True)
class Left:
    """Name -> rows in order; the messages about the monitor, with their channels; reminders that came too soon.

    ``early`` are the windows that a run reached before they could be judged.
    """

    parts: dict[str, list[Any]]
    notices: list[tuple[datetime, str, str]]
    too_soon: list[str]
    met: list[Met]
    early: frozenset[str] = frozenset()


def left_behind(year: Year) -> Left:
    """The contents of the history and of the channels."""
    with year.opened() as monitor:
        parts: dict[str, list[Any]] = {name: sorted(_rows(monitor.store._engine, name), key=repr) for name in TABLES}
        known = {each.id: each for each in monitor.store.deliveries()}
        undelivered = [each.id for each in monitor.store.deliveries(["pending", "sending", "failed", "dead"])]
        troubles = [f"{each.kind} {each.reasons}" for each in monitor.store.unresolved_incidents(of_monitor=True)]
        last, sources = [last_ready(schedule, year.now, ZONE) for schedule in SCHEDULES], list(monitor.config.sources)
        missed = [m for each in last for m in missed_windows(monitor.store, each, ZONE, sources, year.now - START)]
        unwell = [each.text for each in findings(observed(monitor.store, monitor.config, year.now), year.now)]
    shown = _shown(year, known)
    of_monitor = [m for m in shown if m.is_own]
    about_labels = [m for m in shown if not m.is_own and m.change != "repeat"]
    parts["messages"] = sorted((m.channel, m.in_thread, m.text) for m in about_labels)
    times = Counter(m.id for m in shown)
    parts["messages sent twice"] = sorted(id for id, count in times.items() if count > 1)
    parts["deliveries kept"] = sorted(undelivered)
    parts["incidents of the monitor left open"] = sorted(troubles)
    parts["windows missed"], parts["health at the end"] = missed, sorted(unwell)
    notices = [(m.at, m.channel, m.first_text) for m in of_monitor if not m.in_thread or m.text.startswith(IN_THREAD)]
    return Left(parts, notices, _too_soon(shown, year.met), list(year.met), frozenset(year.early))


def _rows(engine: sa.Engine, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table without times and tries; of incidents and verdicts only those about labels."""
    with engine.connect() as connection:
        for row in connection.execute(sa.text(f'SELECT * FROM "{table}"')).mappings():
            of_monitor = table == "incidents" and row["kind"] == MONITOR_KIND
            if not of_monitor and row.get("current", True) and row.get("reason") != FUTURE:
                dropped = TRIES[1:] if table == "verdicts" else TRIES
                left = {name: value for name, value in row.items() if name not in (*WHEN, *AS_STORED, *dropped)}
                if table == "switch_events":  # the end of the key counts the changes of the switch
                    left["key"] = str(row["key"]).rpartition(":")[0]
                yield left


@dataclass(frozen=True, slots=True)
class _Message:
    """One message of a channel. ``is_own``: it is about the monitor itself."""

    id: str
    channel: str
    thread: str
    in_thread: bool
    at: datetime
    text: str
    first_text: str
    change: str
    is_own: bool


def _shown(year: Year, known: dict[str, Delivery]) -> list[_Message]:
    found, roots = [], {m["ts"]: _delivery(m) for m in year.server.messages}
    for message in year.server.messages:
        id, ts = _delivery(message), message["ts"]
        thread = str(message.get("thread_ts", ts))
        root = known.get(roots.get(thread, id))
        found.append(_Message(
            id, message["channel"], thread, thread != ts, datetime.fromtimestamp(float(ts), UTC), _text(message),
            year.server.first_texts[ts], change_of(known[id]) if id in known else "",
            root is None or root.kind == "monitor",
        ))  # fmt: skip
    return found


def _text(message: dict[str, Any]) -> str:
    return str(message["text"] or [file["title"] for file in message.get("files", ())])


def _delivery(message: dict[str, Any]) -> str:
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    return str(payload.get("delivery_id") or message["ts"])


def _too_soon(shown: Sequence[_Message], met: Sequence[Met]) -> list[str]:
    """Reminders about labels that came earlier than the route's repeat time after the last call in their thread.

    Excluded are reminders under a clock that was ahead, and those that Slack took late but were decided before.
    """
    wrong = [(each.begun, each.ended) for each in met if each.kind in SHIFTING]
    last, found = dict[str, datetime](), []
    for each in shown:
        if each.is_own or (each.in_thread and each.change != "repeat"):
            continue
        before = last.get(each.thread) if each.in_thread else None
        shifted = before is not None and any(b <= at <= e for b, e in wrong for at in (before, each.at))
        if before is not None and not shifted and each.at - before < REPEAT - SPARE:
            found.append(f"{each.at:%Y-%m-%d %H:%M} {each.channel}, after {before:%Y-%m-%d %H:%M}: {each.text[:90]}")
        last[each.thread] = each.at
    return found


def differences(quiet: Left, faulty: Left) -> list[str]:
    """The differences, one line each, without those of :func:`said_early`."""
    found, early = [], [repr(each) for each in said_early(quiet, faulty)]
    for name, rows in quiet.parts.items():
        other = faulty.parts[name]
        missing, added = _only(rows, other), [each for each in _only(other, rows) if each not in early]
        if missing or added:
            found.append(f"{name}: {len(rows)} without faults, {len(other)} with; only without: {missing[:2]}; "
                         f"only with: {added[:2]}")  # fmt: skip
    return found


def said_early(quiet: Left, faulty: Left) -> list[tuple[str, bool, str]]:
    """Replies that an incident stays open, about windows that a run reached before they could be judged.

    They were true when they were sent, and a thread is not rewritten. Either the warehouse was unreachable: the window
    was not judged then, and a second reply later has the result. Or the clock was some days ahead, which no row shows:
    the window was not over. In neither case is anything switched, and the message itself, which is edited, ends as in
    the year without faults.
    """
    left = Counter(faulty.parts["messages"])
    left.subtract(quiet.parts["messages"])
    return [
        message for message, count in left.items()
        if count > 0 and message[1] and any(message[2].endswith(f": stays open ({name})") for name in faulty.early)
    ]  # fmt: skip


def _only(rows: Sequence[Any], other_rows: Sequence[Any]) -> list[str]:
    left = Counter(map(repr, rows))
    left.subtract(map(repr, other_rows))
    return [row for row, count in left.items() if count > 0]


@dataclass(frozen=True, slots=True)
class Notified:
    """The notifications: ``asked`` faults need a person, ``once`` of them gave one message in time.

    ``late`` and ``more`` are the late and the superfluous messages.
    """

    asked: int
    once: int
    late: list[str]
    more: list[str]


def notified(quiet: Left, faulty: Left) -> Notified:
    """Compare each fault that needs a person with the messages about the monitor while it lasted.

    Messages that the year without faults has too are left out.
    """
    in_quiet_year, notices = Counter(text for _, _, text in quiet.notices), list[tuple[datetime, str, str]]()
    for notice in faulty.notices:
        in_quiet_year[notice[2]] -= 1
        notices += [notice] if in_quiet_year[notice[2]] < 0 else []
    asked, once, late, more = 0, 0, [], []
    begins = [*(met.begun for met in faulty.met[1:]), datetime.max.replace(tzinfo=UTC)]
    for met, following in zip(faulty.met, begins, strict=True):
        during = [each for each in notices if met.begun <= each[0] < min(met.ended + AFTERWARDS + SPARE, following)]
        notices = [each for each in notices if each not in during]
        last_day = [each for each in during if met.kind in LEASES and each[2].startswith(LAST_DAY)]
        during = [each for each in during if each not in last_day[:1]]
        about = [each for each in during if _is_about(met.kind, each[2])]
        asks = met.promised is not None and met.promised <= met.ended
        extra = [each for each in during if not asks or each not in about]
        if met.promised is not None and asks:
            asked += 1
            in_time = bool(about) and about[0][0] <= met.promised + SPARE
            once += in_time and len(about) == 1
            late += [] if in_time else [f"{met.kind} at {met.begun:%Y-%m-%d %H:%M}, notices: {_listed(during)}"]
        if met.kind in MAY_NOTIFY:
            extra = [n for number, n in enumerate(extra) if n[1] in {channel for _, channel, _ in extra[:number]}]
        extra += about[1:] if asks else []
        more += [f"{met.kind} at {met.begun:%Y-%m-%d %H:%M}: {_listed(extra)}"] if extra else []
    more += [f"between faults: {_listed(notices)}"] if notices else []
    return Notified(asked, once, late, more)


def _is_about(kind: Kind, text: str) -> bool:
    """Whether a message says what such a fault asks for, for the first time or again."""
    begin = ABOUT.get(kind, "")
    return text.startswith((begin, *(f"{first}: {begin}" for first in IN_THREAD)))


def _listed(notices: Sequence[tuple[datetime, str, str]]) -> str:
    return "; ".join(f"{at:%Y-%m-%d %H:%M} {channel} {text[:90]}" for at, channel, text in notices)
