"""Opens the adapters of an operation, and closes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from monitor.alerting.apprise_sender import apprise_of
from monitor.alerting.slack.client import sender_of
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.context import Monitor, utc_now
from monitor.history.errors import StoreMissing
from monitor.history.store import Store

if TYPE_CHECKING:
    from monitor.warehouse.reader import Warehouse

Missed = Callable[[str], None]


def _unsaid(_text: str) -> None:
    """Nobody is told."""


@contextmanager
def open_monitor(
    settings: Settings,
    config: Config | None = None,
    *,
    clock: Callable[[], datetime] = utc_now,
    writes: bool = True,
    creates: bool = True,
    reads: bool = True,
    missed: Missed = _unsaid,
) -> Iterator[Monitor]:
    """The adapters of these settings, closed at the end of the block. Without ``config`` it is read from its file.

    A store that never existed is created with ``writes`` and ``creates``; with ``writes`` alone it is an error; without
    ``writes`` an empty store in memory replaces it, and ``missed`` is called with what is missing. Only ``reads`` opens
    the warehouse. Raises ConfigProblems, WrongWarehouseAddress or HistoryError, each of which says what to do.
    """
    config = load_config(settings.config) if config is None else config
    # the warehouse first: wrong settings fail before a store is created
    opened = open_warehouse(settings, config) if reads else nullcontext()
    with opened as warehouse, open_store(settings, writes=writes, creates=creates, missed=missed) as store:
        yield Monitor(config, settings, warehouse, store, sender_of(settings), clock, apprise_of(settings))


def open_warehouse(settings: Settings, config: Config) -> Warehouse:
    """The warehouse of these settings, which may read the files of the sources; it is not contacted yet."""
    from monitor.warehouse.reader import Warehouse  # noqa: PLC0415 - imports NumPy, which a stop does not need

    url, relations = settings.warehouse_url.get_secret_value(), [each.relations for each in config.sources.values()]
    return Warehouse.from_url(url, timeout_s=settings.warehouse_timeout_s, relations=frozenset(chain(*relations)))


@contextmanager
def open_store(settings: Settings, *, writes: bool, creates: bool = True, missed: Missed = _unsaid) -> Iterator[Store]:
    """The history of these settings, as :func:`open_monitor` opens it. Raises if it was lost."""
    url = settings.store_url.get_secret_value()
    if writes and not creates:
        with Store.from_url(url, create=False) as existing:
            existing.close_if_older_copy()
            yield existing
        return
    try:
        store = Store.from_url(url, create=writes)
    except StoreMissing as missing:
        missed(f"{missing}; until then nothing is known")
        store = Store.from_url("sqlite://", create=True)
    with store:
        yield store
