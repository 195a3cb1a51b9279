"""Snowflake, by its own SQLAlchemy dialect, which the extra ``snowflake`` installs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, quoted_name

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

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """The instant of a text, with the time zone where the column has one."""
        if kind in ("timestamp", "date"):
            return sa.cast(sa.literal(utc_text(when), sa.Text), _NAIVE)
        return sa.cast(sa.literal(f"{utc_text(when)} +00:00", sa.Text), _ZONED)

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds."""
        passed: Expression = sa.literal_column(str(microseconds_of(moment))) - sa.func.date_part(
            sa.literal_column("epoch_microsecond"), instant
        )
        return sa.cast(sa.func.floor(passed / sa.literal_column(DAY_MICROSECONDS)), sa.Integer)

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """32 bits of Snowflake's hash, which takes values of any type and NULL. Doubles hold the sum."""
        return sa.func.hash(*(column for column, _ in columns), type_=sa.BigInteger) % sa.literal_column("4294967296")

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """The server ends a statement by itself."""
        allowed = math.ceil(seconds) + _AFTER_CANCEL_S
        connection.exec_driver_sql(f"ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = {allowed}")


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
