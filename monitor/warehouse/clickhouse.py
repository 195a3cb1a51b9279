"""ClickHouse: a server over HTTP, or the same engine in this process (chDB).

Both go through the dialect of ``clickhouse-connect``, which the extra ``clickhouse`` brings. Settings make the engine
read NULL, casts and names as the other engines do; ``readonly`` refuses every write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import NullPool

from monitor.warehouse.dialects import (
    DAY_S,
    FIXED_POINT,
    HALF,
    ONE,
    ZERO,
    CountsBits,
    Expression,
    Kind,
    as_it_is,
    nearest,
    utc_text,
)

_AFTER_CANCEL_S = 1
_DRIVER = "clickhousedb+connect"
_SETTINGS = {
    "session_timezone": "UTC",
    "cast_keep_nullable": 1,  # a cast of NULL is NULL
    "aggregate_functions_null_for_empty": 1,  # so is the maximum of nothing
    "join_use_nulls": 1,
    "prefer_column_name_to_alias": 1,  # a name is the column of the subquery, not an alias of the same SELECT
}
_READ = "bytes_read"
_OF_THE_RELATION = frozenset({36, 42, 43, 44, 46, 47, 53, 60, 62, 81, 164, 179, 207, 386, 497})
"""Codes of errors that would come again: unknown names, wrong types, syntax, no right to read."""


class ClickHouse(CountsBits):
    """Doubles are compared by IEEE 754: NaN is above nothing and equals nothing."""

    name: ClassVar[str] = "clickhouse"
    usual_schema: ClassVar[Expression] = sa.func.currentDatabase()
    beyond_python: ClassVar[bool] = False  # they lie between the years 1900 and 2299
    kinds: ClassVar[Mapping[str, Kind]] = {"datetime": "timestamptz", "float32": "float32"}
    date_remedy: ClassVar[str] = "make it a DateTime64 in a view: parseDateTime64BestEffortOrNull(...)"

    def not_a_number(self, column: Expression, kind: Kind) -> Expression:
        """Whether a value is NaN."""
        return sa.func.isNaN(self.number(column, as_it_is(kind))) == ONE

    def cell(self, score: Expression) -> Expression:
        """NULL for what has no cell: ClickHouse may compute it of rows that are left out, too."""
        whole = sa.func.floor(score * sa.literal_column("10000") + HALF)
        return sa.func.accurateCastOrNull(whole, sa.literal_column("'Int32'"))

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """The value as an instant; a day begins in UTC."""
        return _instant(column) if kind == "date" else column

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """The instant of a text with microseconds, which the driver would drop from a date."""
        return _instant(sa.literal(utc_text(when), sa.Text))

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds. The instant must lie before the moment."""
        passed: Expression = _whole_microseconds(self.moment(moment, "timestamp")) - _whole_microseconds(
            _instant(instant)
        )
        return sa.func.intDiv(passed, sa.literal_column(str(DAY_S * 1_000_000)))

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """In whole numbers of 128 or 256 bits: a sum of 64 bits would overflow without an error."""
        # a NULL may hide a NaN, which cannot be cast to a whole number
        number = sa.func.coalesce(nearest(value), ZERO)
        whole = sa.func.toInt128(number) if bounded else sa.func.toInt256(number)
        return sa.func.toFloat64(sa.func.sum(whole)) / FIXED_POINT

    def bit_count(self, number: Expression) -> Expression:
        """How many bits of a whole number of 64 bits are set."""
        return sa.func.bitCount(number)

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8: ClickHouse's length() counts bytes."""
        return sa.func.length(text)

    def md5(self, text: Expression) -> Expression:
        """The md5 of a text in hexadecimal, in lower case."""
        return sa.func.lower(sa.func.hex(sa.func.MD5(text)))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """The hash of the row as text, in which NULL is a word. The sum overflows, but always in the same way."""
        return sa.func.cityHash64(sa.func.toString(sa.func.tuple(*(column for column, _ in columns))))

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """The engine ends a statement by itself: the driver cannot cancel one."""
        driver: Any = connection.connection.driver_connection
        driver.client.set_client_setting("max_execution_time", math.ceil(seconds) + _AFTER_CANCEL_S)

    def bytes_read(self, connection: sa.Connection) -> int | None:
        """Bytes that the statements of this connection read, from the summary that comes with each result."""
        return int(connection.info.get(_READ, 0))

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Whether the relation is at fault, so that trying again would not help."""
        return getattr(error.orig, "code", None) in _OF_THE_RELATION


class ChDB(ClickHouse):
    """The same engine in this process, whose driver does not say what a statement read."""

    def bytes_read(self, connection: sa.Connection) -> int | None:
        """Bytes that all statements of this process read, by the engine's counter, which has no row at first."""
        counter = sa.table("events", sa.column("event"), sa.column("value"), schema="system")
        read = sa.select(sa.func.sum(counter.c.value)).where(counter.c.event == sa.literal("SelectedBytes", sa.Text))
        return int(connection.execute(read).scalar() or 0)


def _whole_microseconds(instant: Expression) -> Expression:
    return sa.func.toUnixTimestamp64Micro(instant)


def _instant(value: Expression) -> Expression:
    return sa.func.toDateTime64(value, sa.literal_column("6"), sa.literal_column("'UTC'"))


def clickhouse_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    """A server, asked over HTTP or HTTPS."""
    engine = sa.create_engine(url.set(drivername=_DRIVER), pool_size=2)
    event.listen(engine, "connect", _settle)
    event.listen(engine, "after_cursor_execute", _add_bytes_read)
    return engine


def _add_bytes_read(connection: sa.Connection, cursor: Any, *_: Any) -> None:
    """Add the bytes of one statement. They are complete: the driver makes the server wait for its end."""
    summaries: list[dict[str, Any]] = cursor.summary
    read = sum(int(summary.get("read_bytes", 0)) for summary in summaries)
    connection.info[_READ] = connection.info.get(_READ, 0) + read


def chdb_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    """The engine in this process, over a folder; ``chdb:///:memory:`` has no folder."""
    arguments = {"interface": "chdb", "path": url.database or ":memory:", **url.query}
    engine = sa.create_engine(f"{_DRIVER}://", connect_args=arguments, poolclass=NullPool)
    event.listen(engine, "connect", _settle)
    return engine


def _settle(connection: Any, _: Any) -> None:
    """Set the settings of a session. ``readonly`` cannot be set for a role that is read-only already."""
    client = connection.client
    for name, value in _SETTINGS.items():
        client.set_client_setting(name, value)
    known = client.server_settings.get("readonly")
    if known is None or known.value == "0":
        client.set_client_setting("readonly", 2)  # 1 would refuse settings as well, such as the time limit
