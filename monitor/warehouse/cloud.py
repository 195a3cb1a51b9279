"""BigQuery, Redshift, Snowflake and Trino, by their own SQLAlchemy dialects. Tests run only the SQL of Snowflake."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, quoted_name

from monitor.config.relation import Relation
from monitor.warehouse.dialects import (
    DAY_S,
    FIXED_POINT,
    ONE,
    ZERO,
    Expression,
    Kind,
    Named,
    OfTexts,
    as_it_is,
    days_of_microseconds,
    described,
    double,
    in_catalogue,
    nearest,
)

_AFTER_LIMIT_S = 1  # the time limit of a reading is noticed first, so that it is named
_ALL_BUT_30: Expression = sa.literal_column("34")
"""How far a hash of 64 bits is shifted: the sum of 30 bits fits into 64 for 17 billion rows; overflow is an error."""


class _Ieee(OfTexts):
    """Doubles are compared by IEEE 754: NaN is above nothing and equals nothing."""

    def not_a_number(self, column: Expression, kind: Kind) -> Expression:
        """Whether a value is NaN."""
        return sa.func.is_nan(self.number(column, as_it_is(kind)), type_=sa.Boolean)

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """In decimals: over many rows a sum of 64 bits would overflow, which is an error."""
        whole = sa.cast(nearest(value), self.digits(bounded=bounded))
        return double(sa.func.sum(whole)) / FIXED_POINT

    def digits(self, *, bounded: bool) -> sa.types.TypeEngine[Any]:
        """The type of the whole numbers that are summed."""
        return Named("DECIMAL(38, 0)")


class BigQuery(_Ieee):
    """A relation is ``dataset.table`` or ``project.dataset.table``. BigQuery ends a job by its own timeout."""

    name: ClassVar[str] = "bigquery"
    date_remedy: ClassVar[str] = "make it a timestamp in a view: SAFE_CAST(... AS TIMESTAMP)"
    name_parts: ClassVar[int] = 3
    naive, zoned, utc = "DATETIME", "TIMESTAMP", "+00:00"
    kinds: ClassVar[Mapping[str, Kind]] = {"timestamp": "timestamptz"}
    beyond_python: ClassVar[bool] = False

    def digits(self, *, bounded: bool) -> sa.types.TypeEngine[Any]:
        """The type of the whole numbers that are summed."""
        return Named("NUMERIC" if bounded else "BIGNUMERIC")

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """The timeout of the jobs that the connection's client starts."""
        from google.cloud.bigquery import QueryJobConfig  # noqa: PLC0415 - of the extra

        driver: Any = connection.connection.driver_connection
        client = driver._client
        config = client.default_query_job_config or QueryJobConfig()
        config.job_timeout_ms = (math.ceil(seconds) + _AFTER_LIMIT_S) * 1000
        client.default_query_job_config = config

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds."""
        return days_of_microseconds(sa.func.unix_micros(sa.cast(instant, Named(self.zoned))), moment)

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8."""
        return sa.func.byte_length(text)

    def md5(self, text: Expression) -> Expression:
        """The md5 of a text in hexadecimal, in lower case."""
        return sa.func.to_hex(sa.func.md5(text))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """30 bits of the hash of the row as JSON, in which doubles have all digits, and NULL is a word."""
        row = sa.func.to_json_string(sa.func.struct(*(column for column, _ in columns)))
        hashed: Expression = sa.func.farm_fingerprint(row, type_=sa.BigInteger)
        return hashed.bitwise_rshift(_ALL_BUT_30)  # no sign is kept


class Trino(_Ieee):
    """The catalog is that of the address; a relation is ``table`` or ``schema.table``. A session limits its queries."""

    name: ClassVar[str] = "trino"
    date_remedy: ClassVar[str] = "make it a timestamp in a view: TRY_CAST(... AS TIMESTAMP(6) WITH TIME ZONE)"
    naive, zoned, utc = "TIMESTAMP(6)", "TIMESTAMP(6) WITH TIME ZONE", " UTC"
    limited = "SET SESSION query_max_run_time = '{seconds}s'"

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By seconds with their fractions."""
        passed: Expression = sa.literal_column(f"{moment.timestamp():.6f}e0") - sa.func.to_unixtime(instant)
        return sa.cast(sa.func.floor(passed / sa.literal_column(str(DAY_S))), sa.Integer)

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8."""
        return sa.func.length(sa.func.to_utf8(text))

    def md5(self, text: Expression) -> Expression:
        """The md5 of a text in hexadecimal, in lower case."""
        return sa.func.lower(sa.func.to_hex(sa.func.md5(sa.func.to_utf8(text))))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """30 bits of the hash of the row as text: every value, or a character that no text has for NULL, and a sign."""
        no_value, end = sa.func.chr(ZERO), sa.func.chr(ONE)
        texts = (sa.func.coalesce(sa.cast(column, sa.VARCHAR()), no_value) for column, _ in columns)
        row = sa.func.concat(*(part for text in texts for part in (text, end)))
        hashed = sa.func.from_big_endian_64(sa.func.xxhash64(sa.func.to_utf8(row)))
        return sa.func.bitwise_right_shift(hashed, _ALL_BUT_30, type_=sa.BigInteger)


class Redshift(OfTexts):
    """As PostgreSQL 8: no collations, and TEXT of 256 bytes only."""

    name: ClassVar[str] = "redshift"
    naive, zoned = "TIMESTAMP", "TIMESTAMPTZ"
    limited = "SET statement_timeout TO {seconds}000"

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds, by the names of their types."""
        return [(name, self.kind(*of_type)) for name, of_type in in_catalogue(connection, source, "typname")]

    def text(self, column: Expression) -> Expression:
        """The value as the longest text type of Redshift."""
        return sa.cast(column, sa.VARCHAR(65535))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """The hash of the hashes of all values, as text. Decimals hold the sum.

        Values are hashed as they are, since a double as text would lose digits.
        """
        hashes = (sa.func.coalesce(sa.func.fnv_hash(column), ZERO) for column, _ in columns)
        texts: Iterator[Expression] = (sa.cast(each, sa.VARCHAR(20)) for each in hashes)
        row = reduce(lambda one, other: one.concat(sa.literal_column("','", sa.VARCHAR())).concat(other), texts)
        return sa.func.fnv_hash(row, type_=sa.BigInteger)


_SNOWFLAKE_KINDS: tuple[Kind, ...] = (
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
    return _SNOWFLAKE_KINDS[code] if code < len(_SNOWFLAKE_KINDS) else "other"


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


def plain_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    """The engine of an address, with the driver's defaults."""
    return sa.create_engine(url, pool_size=2)
