"""Snowflake, by its own SQLAlchemy dialect, which the extra ``snowflake`` installs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql.expression import CTE, FromClause, quoted_name

from monitor.config.relation import Relation
from monitor.warehouse.dialects import (
    DAY_MICROSECONDS,
    Dialect,
    Expression,
    Kind,
    Named,
    everything,
    microseconds_of,
    utc_text,
)

_AFTER_CANCEL_S = 1
_NAIVE, _ZONED = Named("TIMESTAMP_NTZ"), Named("TIMESTAMP_TZ")
_KINDS: tuple[Kind, ...] = (
    "number", "number", "text", "date", "timestamp", "other", "timestamptz", "timestamptz", "timestamp", "other",
    "other", "other", "other", "boolean",
)  # fmt: skip
"""Kinds by the type code in the driver's description of a column."""


class Snowflake(Dialect):
    """NaN is above every number and equals itself; text is compared by its bytes. Names fold to upper case."""

    name: ClassVar[str] = "snowflake"
    date_remedy: ClassVar[str] = "make it a timestamp in a view: TRY_TO_TIMESTAMP_TZ(...)"
    name_parts: ClassVar[int] = 3
    counts_bits: ClassVar[bool] = False
    one_state: ClassVar[bool] = False
    few_scans = "always"
    segments_at_once = 20  # more were not tried
    asks_at_once = True  # it usually makes the rows of a CTE once that a statement names several times

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds. Names are quoted, so that their case is kept."""
        described: Any = connection.execute(everything(source).limit(0)).cursor.description
        return [(quoted_name(column[0], quote=True), snowflake_kind(column[1])) for column in described]

    def default_schema(self, connection: sa.Connection) -> str:
        """The schema of the address."""
        return str(connection.execute(sa.select(sa.func.current_schema())).scalar_one())

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """The value as an instant; a day begins in UTC."""
        return sa.cast(column, _NAIVE) if kind == "date" else column

    def bound(self, when: datetime, kind: Kind) -> sa.BindParameter[Any]:
        """Its text, with the time zone where the column has one."""
        text = utc_text(when)
        return sa.literal(text if kind in ("timestamp", "date") else f"{text} +00:00", sa.Text)

    def moment_of(self, bound: sa.BindParameter[Any], kind: Kind) -> Expression:
        """The instant of a text."""
        return sa.cast(bound, _NAIVE if kind in ("timestamp", "date") else _ZONED)

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds."""
        passed: Expression = sa.literal_column(str(microseconds_of(moment))) - sa.func.date_part(
            sa.literal_column("epoch_microsecond"), instant
        )
        return sa.cast(sa.func.floor(passed / sa.literal_column(DAY_MICROSECONDS)), sa.Integer)

    def wide(self, nearest: Expression) -> Expression:
        """A whole number of 38 digits."""
        return sa.cast(nearest, sa.Numeric(38, 0))

    def ordered(self, text: Expression) -> Expression:
        """Snowflake compares bytes anyway."""
        return text

    def shared(self, rows: sa.Select[Any], name: str) -> CTE:
        """A plain CTE: Snowflake decides by itself whether it keeps the rows."""
        return rows.cte(name)

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """32 bits of Snowflake's hash, which takes values of any type and NULL. Doubles hold the sum."""
        return sa.func.hash(*(column for column, _ in columns), type_=sa.BigInteger) % sa.literal_column("4294967296")

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """The server ends a statement by itself."""
        allowed = math.ceil(seconds) + _AFTER_CANCEL_S
        connection.exec_driver_sql(f"ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = {allowed}")

    def cancel(self, driver: Any) -> None:
        """Do nothing: :meth:`limit` ends a statement."""

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Whether the statement was refused: syntax, names, or no right to read."""
        return isinstance(error, exc.ProgrammingError)


def snowflake_kind(code: int) -> Kind:
    """The kind of a type by its code.

    >>> snowflake_kind(1), snowflake_kind(7), snowflake_kind(99)
    ('number', 'timestamptz', 'other')
    """
    return _KINDS[code] if code < len(_KINDS) else "other"


def snowflake_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    """``snowflake://user:password@account/database/schema?warehouse=...&role=...``."""
    from snowflake.sqlalchemy.version import VERSION  # noqa: PLC0415 - of the extra

    parameters = {"TIMEZONE": "UTC", "QUERY_TAG": "calibration-monitor"}
    return sa.create_engine(
        url, pool_size=2, connect_args={"session_parameters": parameters}, **division_options(VERSION)
    )


def division_options(version: str) -> dict[str, bool]:
    """The option by which `/` divides as in Snowflake, for this version of snowflake-sqlalchemy; 2.0 always does.

    >>> division_options("1.11.1"), division_options("2.0.0")
    ({'force_div_is_floordiv': False}, {})
    """
    return {"force_div_is_floordiv": False} if int(version.partition(".")[0]) < 2 else {}
