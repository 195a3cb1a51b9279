"""The watchdog: looks for health issues, and stores the incident and the messages about them.

``look`` reads the history, ``issues`` finds what is wrong in it, ``troubles`` makes one incident of that. The incident
is stored with its messages in one transaction. The outbox sends them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from monitor.alerting.compose import Composed, compose, stored
from monitor.alerting.health import issues, troubles
from monitor.alerting.health.issues import HealthIssue
from monitor.alerting.health.look import Look
from monitor.alerting.notices import messages_of
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import Delivery, Note, Window
from monitor.core.redaction import without_secrets
from monitor.history.store import Store

STAND_IN_AFTER = timedelta(minutes=30)
"""For how long the drain sees a silent watchdog before it does its work: two of its looks."""
ERROR_LENGTH = 2_000


def watch_monitor(monitor: Monitor) -> list[HealthIssue]:
    """What is wrong with the monitor now; its incident and its message are stored."""
    return _update(monitor)


def watch_run(monitor: Monitor, window: Window) -> list[HealthIssue]:
    """The same after a run of ``window``, which may be an old one, for what it has read and judged.

    Whether other runs and the watchdog itself work, is not for a run to say: it may be the first thing that happens
    after the machine has started.
    """
    return _update(monitor, about=troubles.OF_A_RUN, since=window.start)


def stand_in(monitor: Monitor) -> bool:
    """Do the watchdog's work where it is silent, as if somebody paused it; returns whether it was done.

    For the drain, which runs every five minutes. It waits for ``STAND_IN_AFTER`` of such calls: after a machine has
    started, the watchdog's first look may be still to come.
    """
    now, notes = monitor.clock(), monitor.store.notes()
    looked, seen = notes.get(issues.WATCHDOG_NOTE), notes.get(issues.SILENT_NOTE)
    if looked is None or now - looked.at <= issues.SILENT:
        if seen is not None:
            monitor.store.drop_note(issues.SILENT_NOTE)
        return False
    since = now
    if seen is not None and timedelta(0) <= now - seen.at <= STAND_IN_AFTER:  # without a pause of the drain's own
        since = datetime.fromisoformat(seen.detail["since"])
    monitor.store.put_note(Note(issues.SILENT_NOTE, now, {"since": since.isoformat()}))
    if now - since < STAND_IN_AFTER:
        return False
    watch_monitor(monitor)
    return True


def watch_runs(monitor: Monitor) -> list[HealthIssue]:
    """The same for runs and flows only, for use where alerts.yaml may be broken: nothing ends by it."""
    return _update(monitor, about=troubles.NOT_RUNNING, ends=False)


def _update(
    monitor: Monitor, *, about: Collection[str] | None = None, ends: bool = True, since: datetime | None = None
) -> list[HealthIssue]:
    """Store what a look changes: one for everything, or for some reasons beside those that are reported already."""
    seen: list[HealthIssue] = []

    def make() -> Composed:
        look = Look(monitor, monitor.clock(), since, about)
        decision = troubles.decide(look.needing, look.known, look.now, ends=ends)
        seen[:] = look.issues
        return Composed() if decision is None else compose(monitor, [decision], look)

    stored(monitor, make)
    return seen


def is_reported(monitor: Monitor) -> bool:
    """Whether the monitor's incident has a message, and says that something could not be read or judged."""
    return any(_messages_saying(monitor.store, monitor.config, troubles.NOT_JUDGED))


def _messages_saying(store: Store, config: Config, reasons: Collection[str]) -> Iterator[Delivery]:
    """The first messages of the monitor's incidents with one of these reasons."""
    for incident in store.unresolved_incidents(of_monitor=True):
        if not set(reasons).isdisjoint(incident.reasons):
            yield from filter(None, (store.message(id)[0] for id in messages_of(config, incident)))


def is_not_running_reported(store: Store, config: Config, now: datetime) -> bool:
    """Whether a message says that the monitor does not work, and is no older than its route's ``repeat``."""
    route = config.critical_route
    repeat = (route.repeat if route is not None else None) or issues.RECENT
    posts = _messages_saying(store, config, troubles.NOT_RUNNING)
    return any(post.sent_at is not None and now - post.sent_at < repeat for post in posts)


def note_failure(store: Store, flow: str, error: str, now: datetime, sources: Sequence[str] = ()) -> None:
    """Store that a flow failed, for the next look; without secrets, and cut to what a message shows.

    ``sources`` are those that it was to judge: the failure is over when all of them have been.
    """
    detail = {"error": without_secrets(error)[:ERROR_LENGTH], "sources": list(sources)}
    store.put_note(Note(f"{issues.FAILED_NOTE}{flow}", now, detail))
