"""The delivery loop: every stored message is sent, once, whatever happens in between.

A message is stored as *pending*, marked *sending* by a conditional update (so that one worker has
it), and then *sent*, *failed* (kept and tried again), *dead* (Slack will never take it) or *not_sent*
(no token). A message that may have been accepted although no answer came is looked for in the
channel before it is sent again, and so is what was sent before the history was put back from a backup.
The switch never waits for any of this.

An edit, a reply or a file waits until its message is sent, and ends like it where that never is. Only the newest
edit of a message is sent; those before it are *superseded*. So is a reminder that nobody needs any more; another reply
that nobody needs to be called for is sent without its mention.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from monitor.alerting.slack.blocks import without_mention
from monitor.alerting.slack.client import CHANNEL_ERRORS, LONGEST_QUIET_S, RATE_LIMITED, REMEDIES, TransportError
from monitor.alerting.slack.message import (
    is_call,
    is_reminder,
    mark_possible_repeat,
    may_be_sent,
    without_call,
)
from monitor.context import Sender, Sent
from monitor.core.log_lines import about
from monitor.core.records import Delivery, DeliveryState
from monitor.history.delivery_rows import Root
from monitor.history.store import Store
from monitor.incidents.life import still_waits

LEASE = timedelta(minutes=5)
TRIES = 2
PAUSE = 1.0
BUDGET = 20.0
FIRST_DELAY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)
HOLDS_UP = 5  # attempts of a reply for which the next ones of its thread wait: about a quarter of an hour
#: Begins the error of a message that may have been accepted.
UNCERTAIN = "may have been sent: "
NO_ADDRESS = "CALMON_APPRISE is not set"
NO_TOKEN = "no token"  # noqa: S105 - the reason why a message was not sent

log = logging.getLogger(__name__)

_OPEN_STATES: tuple[DeliveryState, ...] = ("pending", "failed", "sending")
#: The last states of a message that was never sent; its edits, replies and files end in them too.
_ENDED: tuple[DeliveryState, ...] = ("dead", "not_sent", "superseded")
_NO_ROOT = Root("dead", None, None, "it is not stored")


def worker_id() -> str:
    """``host/pid-namespace:pid:start`` of this process: shows whether the process behind a claim is alive.

    The start time is in it because process ids are used again.
    """
    return f"{_host()}:{os.getpid()}:{_started(os.getpid())}"


def drain(
    store: Store,
    sender: Sender | None,
    *,
    now: Callable[[], datetime],
    worker: str,
    limit: int = 100,
    due_only: bool = False,
    beside: bool = False,
    budget: float = BUDGET,
    sleep: Callable[[float], None] = time.sleep,
    seconds: Callable[[], float] = time.monotonic,
) -> list[Delivery]:
    """Try to deliver every message that is not sent yet, oldest first; returns those tried, in their new state.

    A run is a reason to try again, so each message gets an attempt whatever its ``next_attempt_at``;
    ``due_only`` is for loops that run every few seconds. ``budget`` (in ``seconds``) limits the whole:
    the rest stays for the next run. ``beside`` takes what Apprise sends in place of what Slack does, so that neither
    waits for the other. Never raises for an error of Slack.
    """
    restored = store.identity().restored_at
    loop = _Drain(
        store, sender, worker, now, sleep, seconds, ends=seconds() + budget, restored=restored, beside=beside,
        due_only=due_only,
    )  # fmt: skip
    touched: list[Delivery] = []
    closed: set[str] = set()  # channels that took nothing this time: their backlog must not hold up the others
    stuck: set[str] = set()  # messages of which a reply failed, or is not due: the next ones of their threads wait
    for delivery, root in islice(loop.in_order(loop.unsent(), closed, stuck), limit):
        if loop.left() <= 0:
            log.warning("deliveries: out of time, the rest is kept for the next run")
            break
        done = loop.deliver(delivery, root)
        if done is not None:
            touched.append(done)
            if done.state == "failed" and done.error_code == RATE_LIMITED:
                break  # Slack asked for quiet: the others would only be refused as well
            if done.state == "failed" and done.error_code in CHANNEL_ERRORS:
                closed.add(done.channel)
            if done.state == "failed" and _holds_up(done):
                stuck.add(done.root or "")
    return touched


@dataclass(frozen=True, slots=True)
class _Drain:
    """What one drain works with: store and sender, the wall clock for stored times, and when it ends (``seconds``).

    ``restored`` is when the history was put back from a backup, None if it never was. ``posted`` are the messages that
    this drain has sent for the first time.
    """

    store: Store
    sender: Sender | None
    worker: str
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    seconds: Callable[[], float]
    ends: float
    restored: datetime | None = None
    beside: bool = False
    due_only: bool = False
    posted: set[str] = field(default_factory=set)

    def left(self) -> float:
        return self.ends - self.seconds()

    def unsent(self) -> Sequence[Delivery]:
        """What is not sent yet, by the time it was composed. Without a token only new ones: the others wait for it."""
        states: tuple[DeliveryState, ...] = ("pending",) if self.sender is None else _OPEN_STATES
        found = self.store.deliveries(states)
        if any(d.operation == "edit" for d in found) and self.store.supersede_edits():
            found = self.store.deliveries(states)
        found = sorted((d for d in found if d.is_beside_slack == self.beside), key=_place)
        known = self.store.known_channels({d.channel for d in found})
        return [replace(d, external_channel=d.external_channel or known.get(d.channel)) for d in found]

    def can_be_tried(self, delivery: Delivery) -> bool:
        """Whether nobody else is sending it, and its next attempt is due."""
        now = self.now()
        is_free = delivery.state != "sending" or _claim_is_stale(delivery, self.worker, now)
        return is_free and (not self.due_only or _is_due(delivery, now))

    def in_order(
        self, found: Sequence[Delivery], closed: Collection[str], stuck: set[str]
    ) -> Iterator[tuple[Delivery, Root | None]]:
        """New messages, then edits, replies and files, each with the present state of its message.

        Those that must wait are left out, and so are those for a channel that is ``closed`` by their turn, and replies
        and files in a thread that is ``stuck``, so that they do not overtake an earlier reply.
        """
        yield from ((d, None) for d in found if d.root is None and d.channel not in closed and self.can_be_tried(d))
        following = [d for d in found if d.root is not None]
        roots = self.store.delivery_roots({d.root for d in following if d.root}) if following else {}
        for delivery in following:
            root = roots.get(delivery.root or "", _NO_ROOT)
            if not self.can_be_tried(delivery):
                stuck.update([delivery.root or ""] if _holds_up(delivery) else [])
                continue
            waits = delivery.channel in closed or (delivery.operation != "edit" and delivery.root in stuck)
            can_go = root.state == "sent" and self.sender is not None and not waits
            if can_go or root.state in _ENDED:
                yield delivery, root

    def deliver(self, delivery: Delivery, root: Root | None) -> Delivery | None:
        """Claim, send and settle one message; None where another worker has it."""
        with about(incident=", ".join(delivery.payload.get("incidents", ()))):
            return self._deliver(delivery, root)

    def _deliver(self, delivery: Delivery, root: Root | None) -> Delivery | None:
        if root is not None and root.state in _ENDED:  # it ends for the reason for which its message is never sent
            state: DeliveryState = "not_sent" if root.state == "not_sent" else "dead"
            return self._conclude(delivery, state, f"its message was not sent: {root.error or root.state}")
        if is_call(delivery) and not self._still_calls(delivery):
            if is_reminder(delivery):
                return self._conclude(delivery, "superseded")
            # stored as it is sent, without its mention: it is no call, and the next reminder does not wait
            payload = without_call(dict(delivery.payload))
            self.store.recompose_delivery(delivery.id, payload)
            delivery = replace(delivery, payload=payload)
        taken = self._take(delivery)
        if taken is None:
            log.info("delivery %s: someone else has it, or a later edit", delivery.id)
            return None
        if self.sender is None:
            error = NO_ADDRESS if self.beside else NO_TOKEN
            log.info("not sent: %s (%s to %s)", error, taken.kind, taken.channel)
            return self._settle(taken, "not_sent", error=error)
        return self._send(self.sender, taken, None if root is None else Sent(root.channel or "", root.ts or ""))

    def _send(self, sender: Sender, taken: Delivery, thread: Sent | None) -> Delivery:
        taken = replace(taken, uncertain=taken.uncertain or may_be_sent(taken, self.restored))
        # A message that waited says what is true now, with the content of its newest edit, and calls nobody if nobody
        # is waited for any more. It keeps its own metadata, by which it is found.
        content, edit = taken, self.store.compositions([taken.id]).get(taken.id) if taken.operation == "post" else None
        if edit is not None and (edit.operation != "edit" or edit.state not in ("pending", "failed")):
            edit = None
        if edit is not None:
            payload = {**taken.payload, "text": edit.payload["text"], "blocks": edit.payload.get("blocks")}
            is_waited_for = any(each.state == "open" for each in self.store.incidents_of([taken.id]))
            content = replace(taken, payload=payload if is_waited_for else without_mention(payload))
        try:
            sent = self._attempt(sender, content, thread)
        except TransportError as error:
            return self._keep(taken, error)
        log.info("sent: %s (%s) to %s", taken.kind, taken.operation, taken.channel)
        uncertain = taken.operation == "post" and taken.uncertain  # it may have been in Slack before
        place = {"external_channel": sent.channel_id, "external_id": sent.ts}
        done = self._settle(taken, "sent", **place, uncertain=uncertain)
        if taken.operation == "post" and not uncertain:
            self.posted.add(taken.id)
        if edit is not None and not taken.uncertain:  # else it may have been found with older content
            self.store.note_edit_shown(edit.id, channel=sent.channel_id, ts=sent.ts, now=self.now())
        return done

    def _still_calls(self, call: Delivery) -> bool:
        """Whether a reply that mentions people must still do so.

        Not if somebody has taken what it calls for since it was written. Nor if its message has just called, or if
        a later call of its thread waits as well or was sent: nobody is called twice at once.
        """
        members = self.store.incidents_of([call.root] if call.root else [])
        waiting = [each.state for each in members if still_waits(each, call.created_at)]
        thread = self.store.thread(call.root or "", operations=["reply"])
        now = self.now()  # one that was sent in the future was written when the clock was ahead
        post = next((each for each in thread if each.id == call.root), None)
        sent = None if post is None or post.uncertain or post.state != "sent" else post.sent_at
        # its message was sent after the call was written: by this drain, or by one that was killed then
        has_just_called = call.root in self.posted or (sent is not None and call.created_at < sent <= now)
        if not waiting or ("open" in waiting and has_just_called):
            return False
        later = [each for each in thread if is_call(each) and _place(each) > _place(call)]
        return not any(e.state in _OPEN_STATES or (e.state == "sent" and e.created_at <= now) for e in later)

    def _conclude(self, delivery: Delivery, state: DeliveryState, error: str | None = None) -> Delivery | None:
        """End a delivery without another attempt; None where another worker has it."""
        if not self.store.conclude_delivery(delivery.id, from_state=delivery.state, state=state, error=error):
            return None
        level = logging.WARNING if state == "dead" else logging.INFO
        log.log(
            level, "delivery %s (%s) is %s: %s", delivery.id, delivery.operation, state, error or "it is not needed"
        )
        return replace(delivery, state=state, error=error, error_code=None, uncertain=False)

    def _take(self, delivery: Delivery) -> Delivery | None:
        now = self.now()
        if delivery.state == "sending":
            # First released in the dead worker's name, which only one can do: then claimed like any other.
            released: dict[str, Any] = {"error": f"{UNCERTAIN}the process that was sending it ended", "uncertain": True}
            if not self.store.settle_delivery(
                delivery.id, worker=delivery.claimed_by or "", state="failed", now=now, next_attempt_at=now, **released
            ):
                return None
            delivery = replace(delivery, state="failed", error_code=None, **released)
        if not self.store.claim_delivery(delivery.id, from_state=delivery.state, worker=self.worker, now=now):
            return None
        attempts = delivery.attempts + 1
        return replace(delivery, state="sending", attempts=attempts, claimed_by=self.worker, claimed_at=now)

    def _attempt(self, sender: Sender, delivery: Delivery, root: Sent | None) -> Sent:
        """Up to two quick tries. The last error is ambiguous as long as the channel could not be searched."""
        uncertain = delivery.uncertain
        for number in range(1, TRIES + 1):
            try:
                return find_or_send(sender, delivery, root, uncertain)
            except TransportError as error:
                wait = PAUSE if error.retry_after is None else error.retry_after
                # Slack shows a file some moments after it has taken it: too soon to look for it now
                hidden = error.ambiguous and delivery.operation == "file"
                needs_person = error.permanent or error.code in REMEDIES  # not fixed within a second
                # half of the lease has passed: another worker may soon claim this
                late = delivery.claimed_at is None or self.now() - delivery.claimed_at > LEASE / 2
                if needs_person or number == TRIES or wait >= self.left() or hidden or late:
                    raise
                uncertain = error.ambiguous
                self.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _keep(self, delivery: Delivery, error: TransportError) -> Delivery:
        code = error.code or None
        if error.permanent:
            log.error("delivery %s to %s will never be accepted: %s", delivery.id, delivery.channel, error.message)
            return self._settle(delivery, "dead", error=error.message, error_code=code)
        log.warning("not sent, kept for the next run: %s (%s to %s)", error.message, delivery.kind, delivery.channel)
        text = f"{UNCERTAIN if error.ambiguous else ''}{error.message}"
        after = self.now() + backoff(delivery.attempts, error.retry_after)
        return self._settle(
            delivery, "failed", error=text, error_code=code, uncertain=error.ambiguous, next_attempt_at=after
        )

    def _settle(self, delivery: Delivery, state: DeliveryState, **outcome: Any) -> Delivery:
        now = self.now()
        if not self.store.settle_delivery(delivery.id, worker=self.worker, state=state, now=now, **outcome):
            log.warning("delivery %s: another worker took it over meanwhile", delivery.id)
        settled: dict[str, Any] = {"error": None, "error_code": None, "uncertain": False} | outcome
        return replace(delivery, state=state, sent_at=now if state == "sent" else None, claimed_by=None, **settled)


def _place(delivery: Delivery) -> tuple[datetime, int, str]:
    """Its place among the deliveries: they are sent in the order in which they were composed."""
    return delivery.created_at, delivery.sequence, delivery.id


def _holds_up(delivery: Delivery) -> bool:
    """Whether the next replies and files of its thread wait for it: a reply, and only for its first attempts.

    A picture holds up nothing: without the scope for files it would hold up news for good.
    """
    return delivery.operation == "reply" and delivery.attempts < HOLDS_UP


def _is_due(delivery: Delivery, now: datetime) -> bool:
    """Whether its next attempt is due. Nothing waits for more than a day: a later time comes from a wrong clock."""
    at = delivery.next_attempt_at
    return at is None or not now < at <= now + timedelta(seconds=LONGEST_QUIET_S)


def _claim_is_stale(delivery: Delivery, worker: str, now: datetime) -> bool:
    """Whether the worker that is *sending* this is gone: its lease is over or its process is dead.

    A claim from the future comes from a wrong clock: it must not hold the message until then.
    """
    if delivery.claimed_at is None or abs(now - delivery.claimed_at) > LEASE:
        return True
    host, _, rest = (delivery.claimed_by or "").partition(":")
    pid, _, started = rest.partition(":")
    if delivery.claimed_by == worker or host != _host() or not pid.isdecimal():  # unknown is alive
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _started(int(pid)) != started


def _host() -> str:
    namespace = Path("/proc/self/ns/pid")  # two containers may share a host name, never this
    number = os.readlink(namespace).strip("pid:[]") if namespace.is_symlink() else "0"  # noqa: PTH115 - a text, not a path
    return f"{socket.gethostname().replace(':', '_')[:24]}/{number}"


def _started(pid: int) -> str:
    """When the process began, in clock ticks since the machine's start; "0" where /proc does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def find_or_send(sender: Sender, delivery: Delivery, root: Sent | None, uncertain: bool) -> Sent:
    """Send a delivery once; one that Slack may have accepted (``uncertain``) only where it is not found there.

    Raises TransportError, ``ambiguous`` where Slack may have it afterwards.
    """
    if not uncertain or delivery.operation == "edit":  # the same edit twice is one edit
        return sender.send(delivery, root)
    try:
        found = sender.find(delivery, root)
    except TransportError as error:
        if not error.permanent:  # the search failed: it is still not known
            error.ambiguous = True
            raise
        log.warning("delivery %s: %s; sent again, marked as a possible repeat", delivery.id, error.message)
        return _repeat(sender, delivery, root)
    return found if found is not None else sender.send(delivery, root)


def _repeat(sender: Sender, delivery: Delivery, root: Sent | None) -> Sent:
    payload = mark_possible_repeat(delivery.payload)
    if delivery.operation == "file":
        title = f"(possible repeat) {delivery.payload.get('title') or ''}".strip()
        payload = {**delivery.payload, "title": title}
    try:
        return sender.send(replace(delivery, payload=payload), root)
    except TransportError as error:
        # whatever the result of this attempt, that of the earlier one is not known
        error.ambiguous = True
        raise


def backoff(attempts: int, retry_after: float | None) -> timedelta:
    """How long to wait after so many attempts: doubling from a minute to an hour, or as Slack asks.

    >>> [backoff(n, None).total_seconds() for n in (1, 2, 3, 20)]
    [60.0, 120.0, 240.0, 3600.0]
    """
    doubled: timedelta = min(FIRST_DELAY * float(2 ** min(attempts - 1, 10)), LONGEST_DELAY)
    return max(doubled, timedelta(seconds=retry_after or 0.0))
