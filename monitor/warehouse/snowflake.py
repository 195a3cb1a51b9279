"""Snowflake, by its own SQLAlchemy dialect, which the extra ``snowflake`` installs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, quoted_name

from monitor.config.relation import Relation
from monitor.warehouse.dialects import (
    Expression,
    Kind,
    OfTexts,
    days_of_microseconds,
    described,
)

_KINDS: tuple[Kind, ...] = (
    "number", "number", "text", "date", "timestamp", "other", "timestamptz", "timestamptz", "timestamp", "other",
    "other", "other", "other", "boolean",
)  # fmt: skip
"""Kinds by the type code in the driver's description of a column."""


class Snowflake(OfTexts):
    """NaN is above every number and equals itself; text is compared by its bytes. Names fold to upper case."""

    name: ClassVar[str] = "snowflake"
    date_remedy: ClassVar[str] = "make it a timestamp in a view: TRY_TO_TIMESTAMP_TZ(...)"
    name_parts: ClassVar[int] = 3
    usual_schema: ClassVar[Expression] = sa.func.current_schema()
    naive, zoned, utc = "TIMESTAMP_NTZ", "TIMESTAMP_TZ", " +00:00"
    limited = "ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = {seconds}"

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds. Names are quoted, so that their case is kept."""
        return [(quoted_name(name, quote=True), snowflake_kind(code)) for name, code in described(connection, source)]

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds."""
        return days_of_microseconds(sa.func.date_part(sa.literal_column("epoch_microsecond"), instant), moment)

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """32 bits of Snowflake's hash, which takes values of any type and NULL. Doubles hold the sum."""
        return sa.func.hash(*(column for column, _ in columns), type_=sa.BigInteger) % sa.literal_column("4294967296")


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
