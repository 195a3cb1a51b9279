"""A Spark session as a database driver (PEP 249), and Databricks' dialect for it."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from databricks.sqlalchemy import DatabricksDialect
from sqlalchemy.dialects import registry

DRIVER, DATABRICKS = "calmonspark+session", "calmonspark+databricks"
registry.register("calmonspark.session", __name__, "SessionDialect")
registry.register("calmonspark.databricks", __name__, "CatalogDialect")
_tags = itertools.count()

apilevel = "2.0"
threadsafety = 1
paramstyle = "named"


class Error(Exception):
    """Any error of Spark."""


class DatabaseError(Error):
    """An error that the database reports."""


class ProgrammingError(DatabaseError):
    """The statement cannot be parsed, or names something that does not exist."""


class OperationalError(DatabaseError):
    """The statement failed."""


class Cursor:
    """Runs one statement at a time. Its rows are an Arrow table."""

    arraysize = 1

    def __init__(self, session: Any) -> None:
        self._session = session
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self.table: Any = None
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1

    def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement. Raises :class:`ProgrammingError` and :class:`OperationalError`."""
        from pyspark.errors import AnalysisException, PySparkException  # noqa: PLC0415 - takes long to import

        try:
            frame = self._session.sql(statement, args=dict(parameters or {}))
            self.table = frame.toArrow()
        except AnalysisException as error:
            raise ProgrammingError(_message(error)) from error
        except (PySparkException, OSError) as error:
            raise OperationalError(_message(error)) from error
        types = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
        self.description = [(name, kind, None, None, None, None, None) for name, kind in types]
        self._rows, self.rowcount = _rows_of(self.table), self.table.num_rows

    def fetchmany(self, size: int | None = None) -> Sequence[tuple[Any, ...]]:
        """The next rows."""
        return list(itertools.islice(self._rows, self.arraysize if size is None else size))

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last."""
        return next(self._rows, None)

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """All rows that were not fetched yet."""
        return list(self._rows)

    def close(self) -> None:
        """Forget the rows."""
        self._rows, self.table = iter(()), None


def _rows_of(table: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of an Arrow table, which is turned into them at the first of them."""
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


class Connection:
    """A new session. Its statements have a tag by which they can be cancelled."""

    def __init__(self, session: Any, schema: str | None) -> None:
        self._session, self._tag = session, f"calmon-{next(_tags)}"
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.ansi.enabled", "true")
        if schema:
            session.sql(f"USE {'.'.join(f'`{part}`' for part in schema.split('.'))}")
        session.addTag(self._tag)

    def cursor(self) -> Cursor:
        """A cursor for one statement."""
        return Cursor(self._session)

    def cancel(self) -> None:
        """End the running statements; called from another thread."""
        self._session.interruptTag(self._tag)

    def commit(self) -> None:
        """Do nothing: nothing is ever written."""

    rollback = commit

    def close(self) -> None:
        """Remove the tag. The session's cluster goes on."""
        self._session.removeTag(self._tag)


def connect(*, remote: str | None, master: str | None, schema: str | None, **_: Any) -> Connection:
    """A session on a cluster (``remote``), or in this process. Raises :class:`OperationalError`."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - takes long to import

    builder: Any = SparkSession.builder
    try:
        if remote is not None:
            return Connection(builder.remote(remote).create(), schema)
        quiet = builder.master(master or "local[*]").config("spark.ui.enabled", "false")
        return Connection(quiet.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate().newSession(), schema)
    except Exception as error:  # gRPC and the JVM raise many kinds
        raise OperationalError(_message(error)) from error


def _message(error: BaseException) -> str:
    """The message of an error, without the plan of the query."""
    return re.split(r"\n+(?:==|JVM stacktrace|'?[A-Z]\w+ )", str(error).strip())[0]


class _Names(DatabricksDialect.preparer):  # type: ignore[misc]  # untyped
    """Quotes each part of a schema like ``catalog.schema`` by itself."""

    def quote_schema(self, schema: str, _: Any = None) -> str:
        """The parts of the schema, quoted if they must be."""
        return ".".join(self.quote(part) for part in str(schema).split("."))


class CatalogDialect(DatabricksDialect):  # type: ignore[misc]  # untyped
    """Databricks' dialect with names of three parts."""

    name = "databricks"
    preparer = _Names
    supports_statement_cache = True


class SessionDialect(CatalogDialect):
    """The same dialect for a Spark session."""

    driver = "session"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """This module."""
        return sys.modules[__name__]

    def create_connect_args(self, url: sa.URL) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of :func:`connect`: a cluster, a local master, the schema."""
        self._force_paramstyle_to_native_mode()
        token = f"/;use_ssl=true;token={url.password}" if url.password else ""
        remote = f"sc://{url.host}:{url.port or 15002}{token}" if url.host else None
        return [], {"remote": remote, "master": url.query.get("master"), "schema": url.database}

    def initialize(self, connection: Any) -> None:
        """Do nothing: the server need not be queried."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the session answers."""
        return dbapi_connection is not None
