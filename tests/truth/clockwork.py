"""What a story moves by hand: the clock of the whole program, and a Slack that can be down."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Any

from monitor import context
from monitor.alerting.health import outage
from monitor.alerting.slack import outbox
from monitor.alerting.slack.client import TransportError
from monitor.cli import checks
from monitor.context import Sent
from monitor.core.records import Delivery
from monitor.history import store
from monitor.operations import open as opening
from monitor.report.figures import png

TICK = timedelta(microseconds=1)


@dataclass
class Clock:
    """A clock that is where a story puts it, and moves on a little whenever somebody reads it, as real ones do."""

    now: datetime

    def __call__(self) -> datetime:
        self.now += TICK
        return self.now


@dataclass
class Channel:
    """Slack as the outbox sees it: takes what comes, or is down."""

    down: bool = False
    sent: list[Delivery] = field(default_factory=list)
    _stamps: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def send(self, delivery: Delivery, root: Sent | None = None, /) -> Sent:
        if self.down:
            raise TransportError("Slack did not answer")
        self.sent.append(delivery)
        return Sent("C001", f"{next(self._stamps)}.000")

    def find(self, delivery: Delivery, root: Sent | None = None, /) -> Sent | None:
        return None


@dataclass
class Whispers:
    """Slack as buttons see it: private answers and modals."""

    said: list[str] = field(default_factory=list)
    views: list[Mapping[str, Any]] = field(default_factory=list)

    def whisper(self, channel: str, user: str, text: str) -> None:
        self.said.append(text)

    def open_modal(self, trigger: str, view: Mapping[str, Any]) -> None:
        self.views.append(view)

    def members(self, group: str) -> frozenset[str]:
        return frozenset()


class StoryTime(datetime):
    """What the history reads the clock by where nobody gives it one."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> StoryTime:
        """The story's time."""
        return cls.fromtimestamp(context.utc_now().timestamp(), tz)


def _told_by_the_story() -> datetime:
    return _CLOCK()  # type: ignore[name-defined]  # noqa: F821 - looked up in monitor.context, which gets it below


@contextmanager
def clockwork(clock: Callable[[], datetime], channel: Channel | None) -> Iterator[None]:
    """The program's clock is ``clock``, its Slack ``channel``; pictures are not drawn, and nothing waits.

    The code of ``utc_now`` is replaced, not the name, since many modules hold the function itself.
    """
    real = context.utc_now.__code__
    names = [
        (png, "incident_png", lambda *a, **k: b"png"),
        (outbox, "PAUSE", 0.0),
        (store, "datetime", StoryTime),
    ]
    names += [(module, "sender_of", lambda settings: channel) for module in (opening, outage, checks)]
    before = [(module, name, getattr(module, name)) for module, name, _ in names]  # a name that has moved is an error
    for module, name, value in names:
        setattr(module, name, value)
    context._CLOCK = clock  # type: ignore[attr-defined]
    context.utc_now.__code__ = _told_by_the_story.__code__
    try:
        yield
    finally:
        context.utc_now.__code__ = real
        for module, name, value in before:
            setattr(module, name, value)
