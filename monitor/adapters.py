"""The adapters a run works with: configuration, warehouse, history, Slack and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from monitor.alerts.outbox import worker_id
from monitor.alerts.slack import SlackSender
from monitor.history.store import Store, StoreMissing
from monitor.rules.load import load_config
from monitor.rules.model import Config
from monitor.settings import Settings
from monitor.warehouse.reader import Warehouse

ActMode = Literal["auto", "never", "always"]


def utc_now() -> datetime:
    """The clock of production; tests and the demo hand in their own."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Monitor:
    """The adapters and settings that every stage is given."""

    config: Config
    settings: Settings
    warehouse: Warehouse
    store: Store
    sender: SlackSender | None
    clock: Callable[[], datetime] = utc_now

    @property
    def worker(self) -> str:
        """Who claims a delivery: this process on this machine."""
        return worker_id()


@contextmanager
def open_monitor(
    settings: Settings, *, clock: Callable[[], datetime] = utc_now, writes: bool = True, creates: bool = True
) -> Iterator[Monitor]:
    """The adapters of these settings, closed again at the end.

    A store that never existed is created where ``writes`` and ``creates``; without ``creates`` it is an error. Where
    nothing is written, an empty one in memory is in its place. Raises ConfigProblems, WrongWarehouseAddress or
    HistoryError, each saying what to do.
    """
    config = load_config(settings.config)
    # what may be wrong with the settings shows before a store is made
    with open_warehouse(settings, config) as warehouse, open_store(settings, writes=writes, creates=creates) as store:
        yield Monitor(config, settings, warehouse, store, sender_of(settings), clock)


def open_warehouse(settings: Settings, config: Config) -> Warehouse:
    """The warehouse of these settings, which may read the files that the sources name; nothing is reached yet."""
    url, relations = settings.warehouse_url.get_secret_value(), [each.relation for each in config.sources.values()]
    return Warehouse.from_url(url, timeout_s=settings.warehouse_timeout_s, relations=relations)


@contextmanager
def open_store(settings: Settings, *, writes: bool, creates: bool = True) -> Iterator[Store]:
    """The history of these settings; one that was lost is an error, whoever asks."""
    url = settings.store_url.get_secret_value()
    if writes and not creates:
        with Store.from_url(url, create=False) as existing:
            existing.notice_past()
            yield existing
        return
    try:
        store = Store.from_url(url, create=writes)
    except StoreMissing:
        store = Store.from_url("sqlite://", create=True)
    with store:
        yield store


def sender_of(settings: Settings) -> SlackSender | None:
    """The Slack client, or None where there is no token."""
    if settings.slack_bot_token is None:
        return None
    return SlackSender(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)
