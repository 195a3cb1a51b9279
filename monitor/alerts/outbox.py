"""The delivery loop: every stored message goes out, once, whatever happens in between.

A message is stored as *pending*, marked *sending* by a conditional update (so that one worker has
it), and then *sent*, *failed* (kept and tried again), *dead* (Slack will never take it) or *not_sent*
(no token). A message that may have been accepted although no answer came is looked for in the
channel before it is sent again. The switch never waits for any of this.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from monitor.alerts.message import mark_possible_repeat
from monitor.alerts.slack import RATE_LIMITED, Sent, TransportError
from monitor.records import Delivery, DeliveryState

LEASE = timedelta(minutes=5)
TRIES = 2
PAUSE = 1.0
BUDGET = 20.0
FIRST_DELAY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)
#: How the stored error of a message begins that may have been accepted.
UNCERTAIN = "may have been sent: "
NO_TOKEN = "no token"  # noqa: S105 - the reason why a message was not sent

log = logging.getLogger(__name__)

_OPEN_STATES: tuple[DeliveryState, ...] = ("pending", "failed", "sending")


class DeliveryStore(Protocol):
    """What the outbox needs of the history (:class:`monitor.history.store.Store`)."""

    def deliveries(self, states: Collection[DeliveryState] | None = None) -> list[Delivery]:
        """The messages in these states."""

    def claim_delivery(self, delivery: str, /, *, from_state: DeliveryState, worker: str, now: datetime) -> bool:
        """Mark as sending if still in ``from_state``; True for the one worker that did it."""

    def settle_delivery(
        self,
        delivery: str,
        /,
        *,
        worker: str,
        state: DeliveryState,
        now: datetime,
        next_attempt_at: datetime | None = None,
        external_channel: str | None = None,
        external_id: str | None = None,
        error: str | None = None,
    ) -> bool:
        """Store the outcome if ``worker`` still has it."""


class Sender(Protocol):
    """What the outbox needs of Slack (:class:`monitor.alerts.slack.SlackSender`)."""

    def send(self, delivery: Delivery) -> Sent:
        """Post once, or raise TransportError."""

    def find(self, delivery: Delivery) -> Sent | None:
        """The message if it is there already, or raise TransportError."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """The wall clock for what is stored, and the seconds this drain may still take."""

    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    seconds: Callable[[], float]
    ends: float

    def left(self) -> float:
        return self.ends - self.seconds()


def worker_id() -> str:
    """``host/pid-namespace:pid:start`` of this process: tells a dead claim from a living one.

    The start time is there because process ids come round again.
    """
    return f"{_host()}:{os.getpid()}:{_started(os.getpid())}"


def drain(
    store: DeliveryStore,
    sender: Sender | None,
    *,
    now: Callable[[], datetime],
    worker: str,
    limit: int = 100,
    due_only: bool = False,
    budget: float = BUDGET,
    sleep: Callable[[float], None] = time.sleep,
    seconds: Callable[[], float] = time.monotonic,
) -> list[Delivery]:
    """Try to deliver every kept message, oldest first; returns those touched, as they now stand.

    A run is a reason to try again, so each kept message gets an attempt whatever its
    ``next_attempt_at``; ``due_only`` is for loops that come round every few seconds. ``budget``
    (in ``seconds``) bounds the whole: what is not reached stays for the next run. Never raises for
    anything that Slack does.
    """
    clock = _Clock(now, sleep, seconds, ends=seconds() + budget)
    touched: list[Delivery] = []
    for delivery in _candidates(store, sender, worker, now(), due_only)[:limit]:
        if clock.left() <= 0:
            log.warning("deliveries: out of time, the rest is kept for the next run")
            break
        done = _deliver(store, sender, delivery, worker, clock)
        if done is not None:
            touched.append(done)
            if done.state == "failed" and RATE_LIMITED in (done.error or ""):
                break  # Slack asked for quiet: the others would only be refused as well
    return touched


def _candidates(
    store: DeliveryStore, sender: Sender | None, worker: str, now: datetime, due_only: bool
) -> Sequence[Delivery]:
    """What may be tried now. Without a token only new messages: the kept ones wait for it."""
    states: tuple[DeliveryState, ...] = ("pending",) if sender is None else _OPEN_STATES
    found = [d for d in store.deliveries(states) if d.state != "sending" or claim_is_stale(d, worker, now)]
    due = [d for d in found if not due_only or d.next_attempt_at is None or d.next_attempt_at <= now]
    sent: tuple[DeliveryState, ...] = ("sent",)
    known = {d.channel: d.external_channel for d in store.deliveries(sent) if d.external_channel}
    return [
        replace(d, external_channel=d.external_channel or known.get(d.channel))
        for d in sorted(due, key=lambda d: (d.created_at, d.id))
    ]


def claim_is_stale(delivery: Delivery, worker: str, now: datetime) -> bool:
    """Whether the worker that is *sending* this is gone: its lease is over or its process is dead."""
    if delivery.claimed_at is None or now - delivery.claimed_at > LEASE:
        return True
    return delivery.claimed_by != worker and _is_dead(delivery.claimed_by or "")


def _is_dead(claimant: str) -> bool:
    """Whether the claimant was a process of this machine that no longer runs; unknown is alive."""
    host, _, rest = claimant.partition(":")
    pid, _, started = rest.partition(":")
    if host != _host() or not pid.isdecimal():
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
    """When the process began, in clock ticks since the machine's start; "0" where /proc does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _deliver(
    store: DeliveryStore, sender: Sender | None, delivery: Delivery, worker: str, clock: _Clock
) -> Delivery | None:
    """One message from claimed to settled; None where another worker has it."""
    taken = _take(store, delivery, worker, clock.now())
    if taken is None:
        log.info("delivery %s: someone else has it", delivery.id)
        return None
    if sender is None:
        log.warning("not sent: no token (%s to %s)", taken.kind, taken.channel)
        return _settle(store, taken, worker, clock, "not_sent", error=NO_TOKEN)
    try:
        sent = _attempt(sender, taken, clock)
    except TransportError as error:
        return _keep(store, taken, worker, clock, error)
    log.info("sent: %s to %s", taken.kind, taken.channel)
    return _settle(store, replace(taken, external_channel=sent.channel_id, external_id=sent.ts), worker, clock, "sent")


def _take(store: DeliveryStore, delivery: Delivery, worker: str, now: datetime) -> Delivery | None:
    if delivery.state == "sending":
        # First released in the dead worker's name, which only one can do: then claimed like any other.
        error = f"{UNCERTAIN}the process that was sending it ended"
        owner = delivery.claimed_by or ""
        if not store.settle_delivery(
            delivery.id, worker=owner, state="failed", now=now, next_attempt_at=now, error=error
        ):
            return None
        delivery = replace(delivery, state="failed", error=error)
    if not store.claim_delivery(delivery.id, from_state=delivery.state, worker=worker, now=now):
        return None
    return replace(delivery, state="sending", attempts=delivery.attempts + 1, claimed_by=worker, claimed_at=now)


def _attempt(sender: Sender, delivery: Delivery, clock: _Clock) -> Sent:
    """Up to two quick tries. The error that remains is ambiguous as long as nobody could look."""
    uncertain = (delivery.error or "").startswith(UNCERTAIN)
    for number in range(1, TRIES + 1):
        try:
            return _find_or_send(sender, delivery, uncertain)
        except TransportError as error:
            wait = PAUSE if error.retry_after is None else error.retry_after
            if error.permanent or number == TRIES or wait >= clock.left():
                raise
            uncertain = error.ambiguous
            clock.sleep(wait)
    raise AssertionError("the last try returns or raises")


def _find_or_send(sender: Sender, delivery: Delivery, uncertain: bool) -> Sent:
    if not uncertain:
        return sender.send(delivery)
    try:
        found = sender.find(delivery)
    except TransportError as error:
        if not error.permanent:  # could not look this time: still nobody knows
            raise TransportError(error.message, ambiguous=True, retry_after=error.retry_after) from error
        log.warning("delivery %s: %s; sent again, marked as a possible repeat", delivery.id, error.message)
        return _repeat(sender, delivery)
    return found if found is not None else sender.send(delivery)


def _repeat(sender: Sender, delivery: Delivery) -> Sent:
    try:
        return sender.send(replace(delivery, payload=mark_possible_repeat(delivery.payload)))
    except TransportError as error:
        # whatever became of this one, nobody knows about the one before
        raise TransportError(
            error.message, permanent=error.permanent, ambiguous=True, retry_after=error.retry_after
        ) from error


def _keep(store: DeliveryStore, delivery: Delivery, worker: str, clock: _Clock, error: TransportError) -> Delivery:
    if error.permanent:
        log.error("delivery %s to %s will never be accepted: %s", delivery.id, delivery.channel, error.message)
        return _settle(store, delivery, worker, clock, "dead", error=error.message)
    log.warning("not sent, kept for the next run: %s (%s to %s)", error.message, delivery.kind, delivery.channel)
    told = f"{UNCERTAIN if error.ambiguous else ''}{error.message}"
    after = clock.now() + backoff(delivery.attempts, error.retry_after)
    return _settle(store, replace(delivery, next_attempt_at=after), worker, clock, "failed", error=told)


def backoff(attempts: int, retry_after: float | None) -> timedelta:
    """How long to wait after so many attempts: doubling from a minute to an hour, or as Slack asks.

    >>> [backoff(n, None).total_seconds() for n in (1, 2, 3, 20)]
    [60.0, 120.0, 240.0, 3600.0]
    """
    doubled: timedelta = min(FIRST_DELAY * float(2 ** min(attempts - 1, 10)), LONGEST_DELAY)
    return max(doubled, timedelta(seconds=retry_after or 0.0))


def _settle(
    store: DeliveryStore,
    delivery: Delivery,
    worker: str,
    clock: _Clock,
    state: DeliveryState,
    *,
    error: str | None = None,
) -> Delivery:
    now = clock.now()
    kept = store.settle_delivery(
        delivery.id, worker=worker, state=state, now=now,
        next_attempt_at=delivery.next_attempt_at if state == "failed" else None,
        external_channel=delivery.external_channel if state == "sent" else None,
        external_id=delivery.external_id if state == "sent" else None, error=error,
    )  # fmt: skip
    if not kept:
        log.warning("delivery %s: another worker took it over meanwhile", delivery.id)
    return replace(delivery, state=state, error=error, sent_at=now if state == "sent" else None, claimed_by=None)
