"""Reads switches and thresholds for a gate: at one moment, within a time limit, without changing anything.

Routers import this module, so it imports SQLAlchemy and nothing heavier: neither Alembic nor numpy.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from monitor.core.records import Identity, Recorded, SwitchState
from monitor.history import identity, switches, thresholds
from monitor.history.connect import database_file, for_reading, store_url
from monitor.history.errors import HistoryError, SchemaOutdated, StoreMissing, StoreUnreachable, WrongStoreAddress
from monitor.history.marker import marker_file, read_marker

REVISION = "0001"
"""The revision of the newest migration. A test compares them, since Alembic takes too long to import."""
VERSION_TABLE = "calmon_revision"
"""Not Alembic's default name: a Prefect server in the same database has a table of that name."""
_STORED = text(f"SELECT version_num FROM {VERSION_TABLE}")
BUSY_SHARE = 0.8  # of the time limit: SQLite gives up on a lock before it, with an error of its own


@dataclass(frozen=True, slots=True)
class StoredSwitches:
    """Every switch and threshold at one moment, with the identity of the history."""

    identity: Identity
    switches: list[SwitchState]
    automate_at: Mapping[tuple[str, str | None], float]


def stored_switches(connection: Connection, recorded: Recorded | None) -> StoredSwitches:
    """The switches for a gate; ``recorded`` was read before. Raises StoreUnreachable for a read replica."""
    identity.refuse_replica(connection)
    found = replace(identity.read(connection), seen=recorded)
    return StoredSwitches(found, switches.switches(connection), thresholds.read(connection))


class SwitchReader:
    """Reads the switches of a history repeatedly, each time on a new connection.

    So forked processes share nothing, and a replaced database is noticed. Relative paths begin at
    ``folder``. Raises WrongStoreAddress for an address that can never be read.
    """

    def __init__(
        self,
        url: str,
        *,
        limit_s: float,
        folder: Path | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._cancel: Callable[[], None] | None = None
        self._is_at_rest = False
        address = store_url(url)
        file = database_file(address)
        if file is None and address.get_backend_name() == "sqlite":
            raise WrongStoreAddress("CALMON_STORE_URL: a gate reads a file, or PostgreSQL")
        self._file = file and (folder or Path()).absolute() / file
        self._opened = self._file
        self._marker = marker_file(address, (folder or Path()).absolute())
        self._engine = self._postgresql(address) if self._file is None else self._sqlite()

    @property
    def is_file(self) -> bool:
        """Whether it reads SQLite, whose native locks must not be held while the process forks."""
        return self._file is not None

    def read(self) -> tuple[datetime, StoredSwitches]:
        """The time, by PostgreSQL's clock or for SQLite this machine's, and the switches then.

        Raises a HistoryError whose message says what is wrong.
        """
        try:
            return self._read_database() if self._file is None else self._read_file(self._file)
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)  # the text of the error itself contains the statement
            reason = str(cause).strip().split("\n")[0] if cause else type(error).__name__
            raise StoreUnreachable(f"the history cannot be read: {reason}") from error

    def cancel(self) -> None:
        """Interrupt :meth:`read` while it waits; called from another thread."""
        with self._lock:
            if self._cancel is not None:
                self._cancel()

    def _read_file(self, file: Path) -> tuple[datetime, StoredSwitches]:
        """Read the file. If nobody has the history open, only the file itself is opened, as immutable.

        Otherwise SQLite would create its -wal and -shm files beside it, owned by the router's user. If somebody writes
        meanwhile, the result is discarded and the file is read again. For a symbolic link these files are beside the
        link's target, so they are looked for there: else a history in use would seem to be at rest, and its changes
        would be missed until it is closed.
        """
        for _ in range(3):
            self._opened = real = Path(os.path.realpath(file))
            before = _stamp(real)
            self._is_at_rest = before is not None
            found = self._read_database()
            if not self._is_at_rest or _stamp(real) == before:
                return found
        raise StoreUnreachable("the history is being replaced all the time")

    def _read_database(self) -> tuple[datetime, StoredSwitches]:
        recorded = read_marker(self._marker)  # first: it must not be newer than what is read
        with for_reading(self._engine).connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SET LOCAL statement_timeout = {int(self._limit_s * 1000)}"))
            found = revision_of(connection)
            if found is None:
                raise StoreMissing("there are no tables of a history in this database")
            if found != REVISION:
                raise SchemaOutdated(f"the history is at schema revision {found}, this gate reads {REVISION}")
            at = connection.scalar(select(func.now())) if self._file is None else self._clock()
            if not isinstance(at, datetime):
                raise StoreUnreachable("the database does not know the time")
            return at, stored_switches(connection, recorded)

    def _sqlite(self) -> Engine:
        def connect() -> sqlite3.Connection:
            file = self._opened
            if file is None or not file.is_file():
                raise StoreMissing(f"there is no history at {file}")
            if file.stat().st_nlink > 1:
                raise StoreUnreachable(
                    f"{file} has a second name (a hard link), and changes made under that one cannot be seen here"
                )
            mode = "mode=ro&immutable=1" if self._is_at_rest else "mode=ro"
            address = f"{file.as_uri()}?{mode}"
            connection = sqlite3.connect(address, uri=True, timeout=self._limit_s * BUSY_SHARE, isolation_level=None)
            self._remember(connection.interrupt)
            return connection

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        event.listen(engine, "close", self._forget)
        return engine

    def _postgresql(self, address: URL) -> Engine:
        def connect(dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
            parameters.setdefault("connect_timeout", max(2, round(self._limit_s)))  # libpq's minimum is 2
            connection = dialect.connect(*arguments, **parameters)

            def hang_up() -> None:
                """Shut the socket down, so that the driver that waits on it sees the end of the connection."""
                with socket.socket(fileno=os.dup(connection.fileno())) as shared:
                    shared.shutdown(socket.SHUT_RDWR)

            self._remember(hang_up)
            return connection

        engine = create_engine(address, poolclass=NullPool)
        event.listen(engine, "do_connect", connect)
        event.listen(engine, "close", self._forget)
        return engine

    def _remember(self, cancel: Callable[[], None]) -> None:
        with self._lock:
            self._cancel = cancel

    def _forget(self, *_: Any) -> None:
        with self._lock:
            self._cancel = None


def revision_of(connection: Connection) -> str | None:
    """The revision of the tables; None if there are no tables."""
    return revision(connection) if inspect(connection).has_table(VERSION_TABLE) else None


def revision(connection: Connection) -> str | None:
    """The revision of the tables, which are there."""
    found: str | None = connection.execute(_STORED).scalar_one_or_none()
    return found


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Values that change when the file does; None while somebody has the database open or left a journal."""
    if any(Path(f"{file}{ending}").exists() for ending in ("-wal", "-journal")):
        return None
    with suppress(OSError):
        found = file.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return None


__all__ = ["REVISION", "HistoryError", "StoredSwitches", "SwitchReader", "stored_switches"]
