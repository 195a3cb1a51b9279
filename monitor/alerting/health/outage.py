"""Reports of a history that cannot be used; a small file keeps what was reported, since nothing can be stored.

Like an incident, an outage has one message, reminders in its thread after the route's ``repeat``, and one end. Nobody
can acknowledge it, since that could not be stored either. The file exists beforehand, with room for its content: a
full disk takes no new file, and is one reason why a history cannot be used. Flows that fail at the same moment, here
or on another machine that shares the folder, claim it before they send: the second finds what the first has reported.
Before a message is sent the file says that it may be in Slack: if no answer comes, or the process ends, the message is
looked for in the channel before it is sent again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from monitor.alerting.apprise_sender import apprise_of
from monitor.alerting.health import message
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.slack.client import TransportError, sender_of
from monitor.alerting.slack.message import delivery_of
from monitor.alerting.slack.outbox import find_or_send
from monitor.config.model import Config, Route
from monitor.config.settings import Settings
from monitor.context import Sender, Sent, utc_now
from monitor.core.files import alone
from monitor.core.records import APPRISE, Delivery, Note
from monitor.history.errors import HistoryLost
from monitor.history.store import Store

log = logging.getLogger(__name__)

NAME = "history-outage.json"
ROOM = 1_024
"""The length of the file in characters, whatever its content."""
PATIENCE_S = 30.0
"""How long to wait for the process that has the claim: longer than its calls of Slack may take."""
TRIED_NOTE, TRIED = "tried", 65_536
"""The key and the number of characters of a note that is stored and removed, to test that there is room."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What was reported of an outage: since when, when last (``told``), how often, where (empty: nothing sent yet).

    ``uncertain``: Slack may have accepted the next message, in ``channel``, or the reply that it is over, although no
    answer came.
    """

    since: str
    told: str = ""
    number: int = 0
    channel: str = ""
    channel_id: str = ""
    ts: str = ""
    uncertain: bool = False


def file_of(settings: Settings) -> Path:
    """The file of the present outage: among the reports, whose folder all worker machines share."""
    own = _own_file(settings)
    return own if _outage_in(own) is not None else settings.report_dir / NAME


def _own_file(settings: Settings) -> Path:
    """The file for this machine alone, used where the shared folder takes none."""
    return settings.report_dir.parent / NAME


def report(settings: Settings, to: Route, flow: str, error: str, now: datetime) -> None:
    """Report that the history cannot be used to the first address of a route: once, then as often as it repeats."""
    sender = sender_to(settings, to.addresses[0])
    if sender is None:
        log.error("not sent: no token: %s", error)
        return
    with _claimed(file_of(settings)):  # another process may have sent it
        outage = _read(settings) or Outage(since=now.isoformat())
        if outage.told and (to.repeat is None or now - datetime.fromisoformat(outage.told) < to.repeat):
            log.error("reported already: the history cannot be used: %s", error)
            return
        since = datetime.fromisoformat(outage.since).astimezone(UTC)
        payload = message.history_down(
            flow, error, since, now, channel=outage.channel if outage.ts else to.addresses[0], mention=mention_of(to),
            repeat=to.repeat, number=outage.number, ttl_s=settings.gate_ttl_s,
        )  # fmt: skip
        made = delivery_of(payload, kind="monitor", now=since)  # from then on it may be in the channel
        made, channel = replace(made, operation="reply", root="outage") if outage.ts else made, made.channel
        _write(settings, replace(outage, channel=channel, uncertain=True))  # in case this process ends while it sends
        try:
            where = find_or_send(sender, made, _root(outage), outage.uncertain)
        except TransportError as failed:
            log.error("not sent: %s: %s", failed, made.payload["text"])
            _write(settings, replace(outage, channel=channel, uncertain=True) if failed.ambiguous else outage)
            return
        first = outage if outage.ts else replace(outage, channel=channel, channel_id=where.channel_id, ts=where.ts)
        _write(settings, replace(first, told=now.isoformat(), number=outage.number + 1, uncertain=False))


def sender_to(settings: Settings, address: str) -> Sender | None:
    """What sends to a channel, or to a receiver beside Slack; None where its token or address is not set."""
    return apprise_of(settings) if address.startswith(APPRISE) else sender_of(settings)


def report_lost(settings: Settings, config: Config, what: str, error: HistoryLost) -> None:
    """Report a failure to the heartbeat, and send the message or a due reminder. ``what`` needed the history."""
    beat(settings.heartbeat_url, failed=str(error))
    if config.critical_route is not None:
        report(settings, config.critical_route, what, str(error), utc_now())


def end(settings: Settings, store: Store, now: datetime) -> None:
    """The history can be used: after an outage, its message turns green, and one reply says so."""
    path = file_of(settings)
    if _read(settings) is None:
        if not _has_room(path):
            with _claimed(path):  # another process may have made the file, for an outage that begins now
                if not _has_room(path):
                    _put(path, "")
        return
    try:
        refuse_full(store, now)
    except SQLAlchemyError as error:
        log.error("the history still takes nothing more: %s", error)
        return
    with _claimed(path):
        outage = _read(settings)
        sender = sender_to(settings, outage.channel if outage is not None else "")
        if outage is None:  # another process has ended it meanwhile
            return
        if sender is not None and not _has_ended(settings, sender, outage, now):
            return  # Slack did not take it: the next flow tries again
        _put(file_of(settings), "")


def refuse_full(store: Store, now: datetime) -> None:
    """Raise SQLAlchemyError where nothing more can be stored: on a full disk, rows can still be read and updated.

    Called before a message about the monitor is stored: a stored message that cannot be sent before there is room
    would arrive after the message of the outage, and say the same.
    """
    store.put_note(Note(TRIED_NOTE, now, {"text": "." * TRIED}))
    store.drop_note(TRIED_NOTE)


def refuse_full_still(settings: Settings, store: Store, now: datetime) -> None:
    """The same, but only during an outage: its message already says what the history would report.

    Raises SQLAlchemyError.
    """
    if _read(settings) is not None:
        refuse_full(store, now)


def _has_ended(settings: Settings, sender: Sender, outage: Outage, now: datetime) -> bool:
    """Whether the message of the outage, if Slack has one, says that it is over, or never can."""
    since = datetime.fromisoformat(outage.since).astimezone(UTC)
    edit, reply = message.history_back(since, now, channel=outage.channel)
    try:
        root = _root(outage)
        if root is None and outage.uncertain:  # Slack may have accepted the message without an answer
            id = message.outage_id(since, outage.number)
            root = sender.find(Delivery(id, "monitor", outage.channel, {}, created_at=since))
        if root is not None:
            sender.send(delivery_of(edit, kind="monitor", now=now, operation="edit", root="outage"), root)
            _write(settings, replace(outage, uncertain=True))  # in case this process ends while it sends
            said = delivery_of(reply, kind="monitor", now=now, operation="reply", root="outage")
            find_or_send(sender, said, root, outage.uncertain)
    except TransportError as failed:
        log.error("not sent: %s", failed)
        _write(settings, replace(outage, uncertain=outage.uncertain or failed.ambiguous))
        return failed.permanent
    return True


def mention_of(route: Route) -> str | None:
    """Whom a message to the first address of a route calls: nobody beside Slack."""
    return route.mention if route.channel else None


def _root(outage: Outage) -> Sent | None:
    return Sent(outage.channel_id, outage.ts) if outage.ts else None


def _read(settings: Settings) -> Outage | None:
    return _outage_in(file_of(settings))


def _outage_in(path: Path) -> Outage | None:
    try:
        return Outage(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(settings: Settings, outage: Outage) -> None:
    text = json.dumps(asdict(outage))
    if not _put(file_of(settings), text):
        _put(_own_file(settings), text)


def _has_room(path: Path) -> bool:
    return path.exists() and path.stat().st_size >= ROOM


def _put(path: Path, text: str) -> bool:
    """Overwrite the present content, which needs no room on the disk; False if that failed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+" if path.exists() else "w", encoding="utf-8") as file:
            file.write(text.ljust(ROOM))
    except OSError as error:
        log.error("what was said of the outage cannot be kept in %s: %s", path, error.strerror)
        return False
    return True


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    """Keep other processes from reporting or ending the outage of this file for as long as the block lasts.

    Where the file cannot be locked (a full disk, some network folders), or its claim is held for longer than
    PATIENCE_S, the block runs without: a message that came twice is better than none.
    """
    with alone(path, PATIENCE_S) as is_alone:
        if not is_alone:
            log.error("another process has held %s for %.0f s: going on without a claim", path, PATIENCE_S)
        yield
