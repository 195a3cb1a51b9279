"""What a year leaves behind, in a form in which two years can be compared, and what people were notified of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from benchmarks.fault_plan import Kind
from benchmarks.fault_play import Met, Year
from benchmarks.fault_world import REPEAT
from monitor.alerting.slack.message import change_of
from monitor.core.records import MONITOR_RULE, Delivery

WHEN = (
    "read_at", "stored_at", "pinned_at", "opened_at", "resolved_at", "changed_at", "at", "published_at", "newest_at",
    "since", "started_at", "finished_at",
)  # fmt: skip
"""Times of the runs themselves: a fault may delay them."""
TRIES = ("id", "run", "attempts", "version", "root", "error", "host", "sequence", "epoch", "history_id")
"""What counts or names tries and processes."""
AS_STORED = ("fingerprint", "data", "segment_data")
"""What an older schema does not have or has in other bytes. Of counts and baselines the digests are compared."""
FUTURE = "date_in_future"
"""Rows rejected for this are those of the rest of the year, which lie in the warehouse already: fewer after a delay."""
TABLES = (
    "runs", "readings", "counts", "quality", "estimates", "shifts", "baselines", "verdicts", "evidence", "switches",
    "switch_events", "incidents", "thresholds", "publications", "annotations",
)  # fmt: skip
BACK = "*It is back"
"""How a reply begins that says what a message said before: a trouble that returns within a day is the same incident."""
SPARE = timedelta(minutes=1)
AFTERWARDS = timedelta(hours=1)
SHIFTING = (Kind.AHEAD, Kind.DAYS_AHEAD, Kind.BEHIND, Kind.SLACK, Kind.CHANNEL)
"""Kinds under which a reminder is sent at another time than the clock says it is."""
MAY_NOTIFY = (Kind.SLACK, Kind.DAYS_AHEAD, Kind.BEHIND)
"""Kinds of which one message to each channel is right, and none too."""


@dataclass(frozen=True, slots=True)
class Left:
    """Name -> rows in order; the messages about the monitor, with their channels; reminders that came too soon.

    ``early`` are the windows that a run met when they could not be judged yet.
    """

    parts: dict[str, list[Any]]
    notices: list[tuple[datetime, str, str]]
    too_soon: list[str]
    met: list[Met]
    early: frozenset[str] = frozenset()


def left_behind(year: Year) -> Left:
    """What the history has and what the channels show."""
    with year.opened() as monitor:
        parts: dict[str, list[Any]] = {name: sorted(_rows(monitor.store._engine, name), key=repr) for name in TABLES}
        known = {each.id: each for each in monitor.store.deliveries()}
        kept = [each.id for each in monitor.store.deliveries(["pending", "sending", "failed", "dead"])]
        troubles = [f"{each.rule} {each.reasons}" for each in monitor.store.unresolved_incidents(of_monitor=True)]
    shown = _shown(year, known)
    own = [m for m in shown if m.is_own]
    about_labels = [m for m in shown if not m.is_own and m.change != "repeat"]
    parts["messages"] = sorted((m.channel, m.in_thread, m.text) for m in about_labels)
    times = Counter(m.id for m in shown)
    parts["messages sent twice"] = sorted(id for id, count in times.items() if count > 1)
    parts["deliveries kept"] = sorted(kept)
    parts["incidents of the monitor left open"] = sorted(troubles)
    notices = [(m.at, m.channel, m.first_text) for m in own if not m.in_thread or m.text.startswith(BACK)]
    return Left(parts, notices, _too_soon(shown, year.met), list(year.met), frozenset(year.early))


def _rows(engine: sa.Engine, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table without times and tries; of incidents and verdicts those about labels that count."""
    with engine.connect() as connection:
        for row in connection.execute(sa.text(f'SELECT * FROM "{table}"')).mappings():
            own = table == "incidents" and str(row["rule"]).startswith(MONITOR_RULE)
            if not own and row.get("current", True) and row.get("reason") != FUTURE:
                dropped = TRIES[1:] if table == "verdicts" else TRIES
                left = {name: value for name, value in row.items() if name not in (*WHEN, *AS_STORED, *dropped)}
                if table == "switch_events":  # the end of the key counts the changes of the switch
                    left["key"] = str(row["key"]).rpartition(":")[0]
                yield left


@dataclass(frozen=True, slots=True)
class _Message:
    """One message of a channel; ``is_own``: it is about the monitor itself."""

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
    """Reminders about labels that came before the route's time since the last call in their thread was over.

    By a clock that was ahead it was over; and what Slack took late was decided before.
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
    """What is not the same, one line each, but for :func:`said_early`."""
    found, early = [], [repr(each) for each in said_early(quiet, faulty)]
    for name, kept in quiet.parts.items():
        other = faulty.parts[name]
        missing, added = _only(kept, other), [each for each in _only(other, kept) if each not in early]
        if missing or added:
            found.append(f"{name}: {len(kept)} without faults, {len(other)} with; only without: {missing[:2]}; "
                         f"only with: {added[:2]}")  # fmt: skip
    return found


def said_early(quiet: Left, faulty: Left) -> list[tuple[str, bool, str]]:
    """Replies that an incident stays open, about windows that a run met when they could not be judged yet.

    They were true when they were sent, and a thread is not rewritten. The warehouse was out of reach: nothing was
    judged in the window then, and once it was, a second reply says with what result. Or the clock was some days ahead,
    which no row shows: the window was not over. In neither case is anything switched, and the message itself, which is
    edited, is in the end that of the year without faults.
    """
    left = Counter(faulty.parts["messages"])
    left.subtract(quiet.parts["messages"])
    return [
        message for message, count in left.items()
        if count > 0 and message[1] and any(message[2].endswith(f": stays open ({name})") for name in faulty.early)
    ]  # fmt: skip


def _only(these: Sequence[Any], others: Sequence[Any]) -> list[str]:
    left = Counter(map(repr, these))
    left.subtract(map(repr, others))
    return [row for row, count in left.items() if count > 0]


@dataclass(frozen=True, slots=True)
class Notified:
    """What people were notified of: faults that ask for somebody, and the messages about them."""

    asked: int
    once: int
    late: list[str]
    more: list[str]


def notified(quiet: Left, faulty: Left) -> Notified:
    """Each fault that asks for a person against the messages about the monitor while it lasted.

    Not those that the year without faults has too.
    """
    also, own = Counter(text for _, _, text in quiet.notices), list[tuple[datetime, str, str]]()
    for notice in faulty.notices:
        also[notice[2]] -= 1
        own += [notice] if also[notice[2]] < 0 else []
    asked, once, late, more = 0, 0, [], []
    begins = [*(met.begun for met in faulty.met[1:]), datetime.max.replace(tzinfo=UTC)]
    for met, following in zip(faulty.met, begins, strict=True):
        mine = [each for each in own if met.begun <= each[0] < min(met.ended + AFTERWARDS + SPARE, following)]
        own = [each for each in own if each not in mine]
        extra = mine
        if met.promised is not None and met.promised <= met.ended:
            asked += 1
            in_time = bool(mine) and mine[0][0] <= met.promised + SPARE
            once += in_time and len(mine) == 1
            late += [] if in_time else [f"{met.kind} at {met.begun:%Y-%m-%d %H:%M}, notices: {_said(mine)}"]
            extra = mine[1:]
        elif met.kind in MAY_NOTIFY:
            extra = [n for number, n in enumerate(mine) if n[1] in {channel for _, channel, _ in mine[:number]}]
        more += [f"{met.kind} at {met.begun:%Y-%m-%d %H:%M}: {_said(extra)}"] if extra else []
    more += [f"between faults: {_said(own)}"] if own else []
    return Notified(asked, once, late, more)


def _said(notices: Sequence[tuple[datetime, str, str]]) -> str:
    return "; ".join(f"{at:%Y-%m-%d %H:%M} {channel} {text[:90]}" for at, channel, text in notices)
