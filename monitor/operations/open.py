"""Opens what an operation works with, and closes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING

from monitor.alerting.slack.client import sender_of
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.context import Monitor, utc_now
from monitor.history.errors import StoreMissing
from monitor.history.store import Store

if TYPE_CHECKING:
    from monitor.warehouse.reader import Warehouse


@contextmanager
def open_monitor(
    settings: Settings,
    *,
    clock: Callable[[], datetime] = utc_now,
    writes: bool = True,
    creates: bool = True,
    reads: bool = True,
) -> Iterator[Monitor]:
    """The adapters of these settings, closed again at the end.

    A store that never existed is created where ``writes`` and ``creates``; without ``creates`` it is an error. Where
    nothing is written, an empty one in memory is in its place. ``reads`` opens the warehouse, else there is none.
    Raises ConfigProblems, WrongWarehouseAddress or HistoryError, each saying what to do.
    """
    config = load_config(settings.config)
    # what may be wrong with the settings shows before a store is made
    opened = open_warehouse(settings, config) if reads else nullcontext()
    with opened as warehouse, open_store(settings, writes=writes, creates=creates) as store:
        yield Monitor(config, settings, warehouse, store, sender_of(settings), clock)


def open_warehouse(settings: Settings, config: Config) -> Warehouse:
    """The warehouse of these settings, which may read the files that the sources name; nothing is reached yet."""
    return warehouse_of(settings, relations_of(config))


def relations_of(config: Config) -> frozenset[str]:
    """What the sources read, and so all files that the warehouse may read."""
    return frozenset(each for source in config.sources.values() for each in source.relations)


def warehouse_of(settings: Settings, relations: frozenset[str]) -> Warehouse:
    """The same, where the relations are known already."""
    from monitor.warehouse.reader import Warehouse  # noqa: PLC0415 - brings NumPy, which a stop never needs

    url = settings.warehouse_url.get_secret_value()
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
