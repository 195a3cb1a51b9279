"""SQLite: the type belongs to each value, not to the column; dates are text or numbers."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, reduce
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql.expression import FromClause

from monitor.config.relation import Relation, TableName
from monitor.warehouse.dates import instant_of
from monitor.warehouse.dialects import (
    DAY_S,
    FIXED_POINT,
    HALF,
    ONE,
    WHOLE,
    Embedded,
    Expression,
    Kind,
    Statement,
    described,
    literal_of,
    microseconds_of,
)


class SQLite(Embedded):
    """SQLite, opened read-only, with functions of ours for dates and hashes."""

    name = "sqlite"
    usual_schema = literal_of("main")
    beyond_python = False  # our function knows no others
    date_kinds = frozenset({"timestamp", "timestamptz", "date", "text", "number", "unknown", "other"})

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order; declared types exist for tables and plain views only."""
        columns = described(connection, source)
        declared: dict[str, str | None] = {}
        if isinstance(relation, TableName):
            info = sa.func.pragma_table_info(*reversed(relation.parts)).table_valued("name", "type")
            declared = dict(connection.execute(sa.select(info.c.name, info.c.type)).tuples().all())
        return [(name, sqlite_kind(declared.get(name) or "")) for name, _ in columns]

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Whether the statement is at fault, by the name of SQLite's error."""
        if not isinstance(error.orig, sqlite3.Error):
            return super().of_the_relation(error)
        return getattr(error.orig, "sqlite_errorname", "SQLITE_ERROR") in ("SQLITE_ERROR", "SQLITE_READONLY")

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """Whole numbers in doubles, exact up to 2^53; and SQLite adds in one thread, always in one order."""
        return sa.func.sum(sa.func.round(value * FIXED_POINT)) / FIXED_POINT

    def exact_sum_of_few(self, value: Expression) -> Expression:
        """The same: floor() is optional, and SQLAlchemy's own takes no NULL."""
        return self.exact_sum(value, bounded=True)

    def only_text(self, connection: sa.Connection, source: FromClause, column: Expression) -> bool:
        """Whether the column holds text and no number; the search stops at the first number."""
        some: Statement = sa.select(ONE).select_from(source)
        texts = some.where(sa.func.typeof(column) == "text").exists()
        numbers = some.where(sa.func.typeof(column).in_(("integer", "real"))).exists()
        return bool(connection.execute(sa.select(sa.and_(texts, sa.not_(numbers)))).scalar())

    def label_text(self, column: Expression, kind: Kind) -> Expression:
        """By our own function: SQLite's parser takes no statement in which so many brackets are within each other."""
        return sa.func.calmon_label(self.text(column), type_=sa.Text)

    def number(self, column: Expression, kind: Kind) -> Expression:
        """NULL where the value is text, so that nothing is read as 0."""
        return sa.case((sa.func.typeof(column).in_(("integer", "real")), sa.cast(column, sa.REAL)))

    def scaled(self, column: Expression, kind: Kind, scale: float) -> Expression:
        """Text stays text, so that it is rejected as no number."""
        return sa.case((self.not_a_number(column, kind), column), else_=super().scaled(column, kind, scale))

    def not_a_number(self, column: Expression, kind: Kind) -> Expression:
        """Whether a value is text or bytes; SQLite stores NaN as NULL."""
        return sa.func.typeof(column).in_(("text", "blob"))

    def cell(self, score: Expression) -> Expression:
        """SQLite truncates, which is floor for scores; its floor() is optional."""
        return sa.cast(score * sa.literal_column("10000") + HALF, sa.Integer)

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """Microseconds since 1970 in UTC, by our own function :func:`microseconds`."""
        return sa.func.calmon_instant(column, type_=sa.BigInteger)

    def aware(self, instant: Any) -> datetime | None:
        """From microseconds since 1970."""
        return None if instant is None else _1970 + timedelta(microseconds=int(instant))

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds. The instant must lie before the moment."""
        passed: Expression = sa.literal(microseconds_of(moment), sa.BigInteger) - instant
        return passed // sa.literal_column(str(DAY_S * 1_000_000), sa.BigInteger)

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """Microseconds since 1970, as :meth:`instant` has them."""
        return sa.literal(microseconds_of(when), sa.BigInteger)

    def within(self, column: Expression, kind: Kind, start: Expression, end: Expression) -> Expression:
        """BETWEEN, since it calls our function once a row; instants are whole microseconds."""
        return self.instant(column, kind).between(start, end - ONE)

    def byte_length(self, text: Expression) -> Expression:
        """By its bytes: octet_length came with SQLite 3.43, and length of a text ends at a NUL."""
        return sa.func.length(sa.cast(text, sa.BLOB))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """By our own function :func:`hash_of`, over all values with their types: quote() keeps every digit."""
        texts: list[Expression] = [sa.func.quote(column, type_=sa.Text) for column, _ in columns]
        text = reduce(lambda all_before, each: all_before + "," + each, texts)
        return sa.func.calmon_hash(sa.cast(text, sa.LargeBinary), type_=sa.BigInteger)  # text may be no UTF-8

    def ordered(self, text: Expression) -> Expression:
        """By bytes, even where a column says NOCASE."""
        return sa.collate(text, "BINARY")


def sqlite_kind(declared: str) -> Kind:
    """The kind of a declared type of SQLite, by its rules of affinity.

    >>> sqlite_kind("VARCHAR(20)"), sqlite_kind("DOUBLE PRECISION"), sqlite_kind("")
    ('text', 'number', 'unknown')
    """
    name = declared.upper()
    if "INT" not in name and any(word in name for word in ("CHAR", "CLOB", "TEXT")):
        return "text"
    numbers = ("INT", "REAL", "FLOA", "DOUB", "NUM", "DEC", "BOOL")
    return "number" if any(word in name for word in numbers) else "unknown"


# SQLite's own functions know no microseconds, round 59.9996 s into the next window, take 2026-02-31
# for March 3 and 'now' for a date: so SQLite calls this one.
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1, _YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999


@lru_cache(1 << 16, typed=True)  # a statement asks several times for each row, and each statement of a reading again
def microseconds(value: object) -> int | None:
    """Microseconds since 1970 of what :func:`instant_of` reads; else None, also before year 1.

    >>> microseconds("1970-01-01 02:00:01.5+02:00"), microseconds("1970-01-01T00:00Z"), microseconds("now")
    (1500000, 0, None)
    """
    when = instant_of(value)
    if when is None:
        return None
    passed = microseconds_of(when)
    return None if passed < _YEAR_1 else min(passed, _YEAR_9999)


def hash_of(text: bytes) -> int:
    """A whole number of 32 bits for the bytes of a text, so that SQLite's sum of 64 bits holds two billion of them.

    >>> hash_of(b"'t1',0.9"), hash_of(b"'t1',0.8")
    (3714999415, 1696636610)
    """
    digest = hashlib.md5(text, usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])


@lru_cache(1 << 16, typed=True)
def _label(text: str | None) -> str | None:
    return None if text is None else WHOLE.sub(r"\1", text)


def _md5(value: object) -> str | None:
    return None if value is None else hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()


def add_functions(connection: sqlite3.Connection) -> None:
    """Give a connection what SQLite lacks: a parser of dates, a hash and md5."""
    connection.create_function("calmon_instant", 1, microseconds, deterministic=True)
    connection.create_function("calmon_hash", 1, hash_of, deterministic=True)
    connection.create_function("calmon_label", 1, _label, deterministic=True)
    connection.create_function("md5", 1, _md5, deterministic=True)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
