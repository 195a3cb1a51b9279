"""``Monitor``, which every operation is given: configuration, warehouse, history, Slack and the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol

from monitor.automation.label_evidence import known_of
from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.core.records import Delivery, RuleEvidence
from monitor.history.store import Store

if TYPE_CHECKING:
    from monitor.warehouse.reader import Warehouse

ActMode = Literal["auto", "never", "always"]


@dataclass(frozen=True, slots=True)
class Sent:
    """The place of a message: Slack's id of the channel and the message's timestamp in it (of a file: its id)."""

    channel_id: str
    ts: str


@dataclass(frozen=True, slots=True)
class SlackCheck:
    """The answer of Slack's ``auth.test``, for ``calmon check``; ``problem`` is empty if the check succeeded."""

    ok: bool
    team: str = ""
    user: str = ""
    problem: str = ""
    team_id: str = ""


class Sender(Protocol):
    """What the outbox needs of Slack (:class:`monitor.alerting.slack.client.SlackSender`), or of Apprise beside it."""

    def send(self, delivery: Delivery, root: Sent | None = None, /) -> Sent:
        """Post, edit, reply or upload once, or raise TransportError; ``root`` is the place of its message."""

    def find(self, delivery: Delivery, root: Sent | None = None, /) -> Sent | None:
        """The place of the message if Slack has it already, else None. Raises TransportError."""

    def check(self) -> SlackCheck:
        """Whether the token is accepted."""


def utc_now() -> datetime:
    """The clock in production; tests and the demo pass their own."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Monitor:
    """The adapters and settings that every stage is given; ``reads`` is None if the warehouse was not opened.

    ``sender`` is Slack, ``beside`` every other receiver; None where there is none.
    """

    config: Config
    settings: Settings
    reads: Warehouse | None
    store: Store
    sender: Sender | None
    clock: Callable[[], datetime] = utc_now
    beside: Sender | None = None

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse; an AssertionError if it was not opened."""
        assert self.reads is not None, "opened without its warehouse"  # noqa: S101 - a mistake in this program
        return self.reads


def known_now(store: Store, config: Config, source: str, label: str | None, now: datetime) -> tuple[RuleEvidence, ...]:
    """The stored evidence of each acting rule of the label (None: of the source's own switch)."""
    stored = {(each.label, each.rule): each for each in store.evidence(source, label)}
    return known_of(config, store.switch(source, label), stored, now)
