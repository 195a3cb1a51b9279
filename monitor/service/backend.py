"""The HTTP service on its history and its alerts.yaml: what ``calmon dashboard`` runs.

A service runs for months, so it checks both again with each request: the history may be replaced by a backup,
alerts.yaml may be edited, both may be broken for a while.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from monitor.alerting.compose import show_switches
from monitor.automation.gate.past import Past
from monitor.automation.gate.snapshot import SwitchSnapshot, snapshot_of
from monitor.automation.state import GateReason
from monitor.config.load import parse_config, text_of
from monitor.config.model import Config
from monitor.config.problems import ConfigProblems
from monitor.config.settings import Settings
from monitor.context import Monitor, utc_now
from monitor.core import windows
from monitor.core.page_paths import drift_file
from monitor.core.records import Annotation
from monitor.history.connect import database_file, store_url
from monitor.history.errors import Ambiguous, HistoryError, NotFound, StoreMissing
from monitor.history.store import Store
from monitor.history.values import ANY
from monitor.operations.annotate import AnnotationKeyReused, AnnotationRefused, NewAnnotation, annotate, remove
from monitor.operations.change_switch import Changed, ChangeRefused, KeyReused, SwitchChange, operate, stored_sources
from monitor.operations.publish_thresholds import publish
from monitor.report.words import replica_text
from monitor.service.pages import PAGES
from monitor.service.pages.base import Answer, Page, PageContext, PageRequest, answer
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.service.prometheus import exposition

log = logging.getLogger("monitor.http")

_R = ProblemReason
_REFUSED: Mapping[type[Exception], ProblemReason] = {
    KeyReused: _R.KEY_REUSED, AnnotationKeyReused: _R.KEY_REUSED, ChangeRefused: _R.UNTIL_PAST,
    AnnotationRefused: _R.REQUEST_INVALID, NotFound: _R.NOT_FOUND, Ambiguous: _R.NOT_FOUND,
}  # fmt: skip
"""What the operations refuse, and the reason of the answer."""


class _Stamp(NamedTuple):
    """The identity of SQLite's file and journal, and when the file itself was last written (seldom: a checkpoint)."""

    names: tuple[int, int, int | None]
    content: tuple[int, int]


class ReopeningStore:
    """The history, opened again whenever its file or SQLite's journal beside it was replaced.

    While it is open, SQLite goes on reading a file that was deleted or replaced, and cached pages of one
    that was overwritten. Without this class, a service would say "on" from a history that no run writes to
    any more, or that nobody can read.
    """

    def __init__(self, url: str, prepare: Callable[[Store], None], *, create: bool = False) -> None:
        self._url = url
        self._prepare = prepare
        self._file = database_file(store_url(url))
        self._lock = Lock()
        self._store = self._open(create=create, prepared=False)
        self._stamp = self._look()

    def store(self) -> Store:
        """The history now at its address. Raises HistoryError."""
        with self._lock:
            found = self._look()
            if found != self._stamp:
                # The new history is opened, and only then the old one closed: closing moves a journal into the file at
                # its address. Other threads may finish what they are reading.
                is_same_file = found is not None and self._stamp is not None and found.names == self._stamp.names
                before, self._store = self._store, self._open(create=False, prepared=is_same_file)
                before.close()
                self._stamp = self._look()
            return self._store

    def _open(self, *, create: bool, prepared: bool) -> Store:
        store = Store.from_url(self._url, create=create)
        try:
            if not prepared:
                self._prepare(store)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close every connection."""
        self._store.close()

    def _look(self) -> _Stamp | None:
        if self._file is None:
            return None
        real = Path(os.path.realpath(self._file))  # the journal is beside the target of a symbolic link
        journal: int | None = None
        with suppress(OSError):
            journal = real.with_name(f"{real.name}-wal").stat().st_ino
        try:
            found = real.stat()
        except OSError as error:
            raise StoreMissing(f"the file of the history is gone: {error.strerror}") from error
        return _Stamp((found.st_dev, found.st_ino, journal), (found.st_size, found.st_mtime_ns))


class Service:
    """What the HTTP service answers with these settings.

    Every method may raise RequestRefused, and is called in a thread. The constructor raises ConfigProblems or
    HistoryError, which say what to do. It creates a history that does not exist, and publishes the scores from which
    labels may act to it, as a run does. On a read replica it shows the pages, says so, and answers no gate.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._settings = settings
        self._clock = clock
        self._text = text_of(settings.config)
        self._config = parse_config(self._text, str(settings.config))

        def publish_scores(store: Store) -> None:  # gates need them; a history from a backup may have none, or old ones
            replica = store.replica()
            if replica is not None:  # which takes none, and on which every gate is closed
                log.warning("%s", replica_text(replica, UTC))
                return
            publish(store, self._newest_config() or self._config, clock(), actor="the service")

        self._reopening = ReopeningStore(settings.store_url.get_secret_value(), publish_scores, create=True)
        self._past = Past()

    def close(self) -> None:
        """Close the history."""
        self._reopening.close()

    def now(self) -> datetime:
        """The time."""
        return self._clock()

    def board(self) -> SwitchSnapshot:
        """Every switch and threshold, now."""
        before = self._past.seen
        with self._history() as store:
            at = self._clock()  # before reading, so that the snapshot's time is never later than its content
            found = store.stored_switches()
            board = snapshot_of(at, found.switches, found.automate_at, found.identity)
            refusal = self._past.refusal(board.mark, before)
        if refusal is None:
            return board
        log.error("every gate is closed: %s; `calmon db confirm` accepts it", refusal)
        return replace(board, closed=board.closed or GateReason.HISTORY_WENT_BACK)

    def change(self, requested: SwitchChange) -> Changed:
        """Turn off or on. Off also works while alerts.yaml is broken; on does not: raises RequestRefused."""
        config = self._newest_config()
        if config is None and requested.enable:
            raise RequestRefused(_R.CONFIG_UNREADABLE)
        with self._history() as store:
            _check_known(store, config, requested.source, requested.label, enable=requested.enable)
            if config is not None:
                publish(store, config, self._clock(), actor="the service")
            monitor = Monitor(config or self._config, self._settings, None, store, None, self._clock)
            done = operate(store, monitor.config, requested, self._clock)
            show_switches(monitor, requested.source, requested.label)
            return done

    def annotations(self, source: str | None, label: str | None) -> list[Annotation]:
        """The annotations of all sources, of one, or of a label with those of its source, by time."""
        with self._history() as store:
            return store.annotations(source, ANY if label is None else label)

    def annotate(self, requested: NewAnnotation) -> tuple[Annotation, bool]:
        """Store an annotation; returns it, and whether an earlier request stored it. Raises RequestRefused."""
        with self._history() as store:
            _check_known(store, self._newest_config(), requested.source, requested.label)
            return annotate(store, requested, self._clock)

    def remove_annotation(self, id: str, by: str, reason: str) -> tuple[Annotation, bool]:
        """Remove an annotation; returns it, and whether it was removed before. Raises RequestRefused."""
        with self._history() as store:
            return remove(store, id, by=by, reason=reason, clock=self._clock)

    def show(self, page: Page, request: PageRequest) -> Answer:
        """A page of the dashboard, read at one moment of the history. Raises RequestRefused."""
        config = self._newest_config() or self._config
        with self._history() as store, store.one_moment():
            context = PageContext(store, config, self._settings, self._clock(), request)
            return answer(page, PAGES, context)

    def local_time(self, text: str) -> datetime:
        """A time of a page's field, in the configured time zone. Raises RequestRefused."""
        try:
            return windows.moment(text, self._config.zone)
        except windows.WindowError as error:
            raise RequestRefused(_R.REQUEST_INVALID, str(error)) from None

    def drift(self, source: str, week: str) -> str:
        """The page on features that a run of the week kept beside its report. Raises RequestRefused without one."""
        try:
            folder = self._settings.report_dir / "weekly" / windows.week(week, self._config.zone).name
            return (folder / drift_file(source)).read_text(encoding="utf-8")
        except windows.WindowError:
            raise RequestRefused(_R.UNKNOWN_WEEK) from None
        except OSError:
            raise RequestRefused(_R.NOT_FOUND) from None

    def metrics(self) -> str:
        """The newest numbers for Prometheus, read at one moment of the history."""
        with self._history() as store, store.one_moment():
            config, has_buttons = self._newest_config() or self._config, self._settings.has_buttons
            return exposition(store, config, self._clock(), has_buttons=has_buttons).decode()

    def _newest_config(self) -> Config | None:
        """The present alerts.yaml; None where it is broken: an old one must not publish its thresholds again."""
        try:
            text = text_of(self._settings.config)
            if text != self._text:  # parsing it takes longer than a page
                self._config, self._text = parse_config(text, str(self._settings.config)), text
        except (ConfigProblems, OSError) as error:
            log.error("alerts.yaml cannot be used: %s", error)
            return None
        return self._config

    @contextmanager
    def _history(self) -> Iterator[Store]:
        """The store; what is refused has its reason, all failures of the store one, other errors stay as they are."""
        try:
            yield self._reopening.store()
        except tuple(_REFUSED) as error:
            reason = _REFUSED[type(error)]
            raise RequestRefused(reason, "" if reason is _R.KEY_REUSED else str(error)) from None
        except (SQLAlchemyError, HistoryError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            log.error("the history cannot be read: %s: %s", type(cause).__name__, cause)
            raise RequestRefused(_R.STORE_UNREADABLE) from None


def _check_known(store: Store, config: Config | None, source: str, label: str | None, *, enable: bool = False) -> None:
    """Refuse an unknown name: a person who mistypes a label must not believe that it is off now."""
    configured = config.sources.get(source) if config is not None else None
    if configured is None and (enable or source not in stored_sources(store)):
        raise RequestRefused(_R.UNKNOWN_SOURCE)
    if label is None or (configured is not None and label in configured.labels):
        return
    if not store.switch(source, label).version and label not in store.known_labels(source):
        raise RequestRefused(_R.UNKNOWN_LABEL)
