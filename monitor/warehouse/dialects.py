"""How the engines differ: the types of columns, numbers, texts, instants, exact sums, hashes and time limits.

Everything else is plain SQLAlchemy Core, in ``row_levels.py`` and the modules over it. An *instant* is an expression
that can be compared with :meth:`Dialect.moment` of the same kind of column, and is NULL where the value is no date.
Each engine is a class in a module of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql.expression import FromClause

from monitor.config.relation import Relation, literal
from monitor.warehouse.csv_rejects import UnreadableLine
from monitor.warehouse.relation import from_clause

WHOLE = re.compile(r"^(-?\d+)\.0*$", re.ASCII)
"""A whole number that is written with decimals: see :meth:`Dialect.label_text`."""
Kind = Literal[
    "number", "float32", "decimal", "integer", "boolean", "text", "timestamp", "timestamptz", "date", "bytes",
    "unknown", "other",
]  # fmt: skip
NUMERIC: tuple[Kind, ...] = ("number", "float32", "decimal", "integer")
"""Kinds of numbers. ``integer`` is given by engines in which tests showed that whole numbers add up faster.

``float32`` is a number in single precision: see :meth:`Dialect.number`. ``decimal`` may have numbers that no double
holds: see ``postgresql.py``.
"""
DATED: tuple[Kind, ...] = ("timestamp", "timestamptz", "date")
"""Kinds of dates."""
_KINDS: Mapping[str, Kind] = {
    "interval": "other", "timestamp": "timestamp", "datetime": "timestamp", "date": "date", "bool": "boolean",
    **dict.fromkeys(("string", "varchar", "char", "text", "bpchar", "fixedstring", "uuid", "enum"), "text"),
    **dict.fromkeys(("float4", "real"), "float32"),
    **dict.fromkeys(("int", "bigint", "smallint", "tinyint", "hugeint", "uint", "ubigint", "usmallint"), "number"),
    **dict.fromkeys(("utinyint", "uhugeint", "float", "bfloat", "double", "dec", "numeric", "bignumeric"), "number"),
}  # fmt: skip
"""The kinds of types by the beginnings of their names, in lower case."""
Expression = sa.ColumnElement[Any]
Statement = sa.Select[Any]
Arrays = dict[str, npt.NDArray[Any]]

ONE: Expression = sa.literal_column("1")
ZERO: Expression = sa.literal_column("0")
EMPTY: Expression = sa.literal_column("''")
HALF: Expression = sa.literal_column("0.5")
COUNT: sa.Label[Any] = sa.func.count().label("n")
"""How many rows there are, as n."""
FIXED_POINT: Expression = sa.literal_column("1099511627776.0e0")  # 2^40: dividing by it loses nothing
BITS = 62
"""How many labels fit, as bits, into one signed whole number of 64 bits."""
LABELS_BY_BITS = 4 * BITS
"""Of at most so many labels the sums of items say whether one repeats. Of more a statement of its own says it."""
DAY_S = 86_400
DAY_MICROSECONDS = "86400000000.0e0"
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
"""The first and the last date that Python has."""
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_1970_PLAIN = datetime(1970, 1, 1)  # noqa: DTZ001 - to be compared with dates that have no time zone either


def labelled(columns: Mapping[str, Expression]) -> list[sa.Label[Any]]:
    """Columns of a statement under their names."""
    return [value.label(name) for name, value in columns.items()]


def double(value: Expression) -> Expression:
    """A value in double precision."""
    return sa.cast(value, sa.Double)


def place_over(*, order_by: Sequence[Expression], partition_by: Any = None) -> Expression:
    """The place of a row by an order, from 1, among all rows or those of its part."""
    return sa.func.row_number().over(partition_by=partition_by, order_by=order_by)


def literal_of(text: str) -> Expression:
    """A text of ours as a literal of the statement."""
    return sa.literal_column(literal(text), sa.Text)


def everything(relation: FromClause) -> Statement:
    """``SELECT *``: for the names and types of the columns."""
    return sa.select(sa.literal_column("*")).select_from(relation)


def described(connection: sa.Connection, relation: FromClause) -> list[tuple[str, Any]]:
    """The columns of a relation in order, with the name or code of each type, as the driver gives them."""
    columns: Any = connection.execute(everything(relation).limit(0)).cursor.description
    return [(column[0], column[1]) for column in columns]


def in_catalogue(connection: sa.Connection, relation: FromClause, *properties: str) -> list[tuple[str, Sequence[str]]]:
    """The columns of a relation in order, with what PostgreSQL's catalogue says of each type."""
    columns = described(connection, relation)
    types = sa.table("pg_type", *map(sa.column, ("oid", *properties)), schema="pg_catalog")
    rows = connection.execute(sa.select(types).where(types.c.oid.in_({code for _, code in columns})))
    known = {oid: of_type for oid, *of_type in rows}
    return [(name, known[code]) for name, code in columns]


def as_it_is(kind: Kind) -> Kind:
    """The kind by which a number is cast directly, without :meth:`Dialect.number`'s way by its text."""
    return "number" if kind == "float32" else kind


def nearest(value: Expression) -> Expression:
    """The whole number nearest to a value in units of 2^-40. (Engines round differently, but floor alike.)"""
    return sa.func.floor(value * FIXED_POINT + HALF)


FAULTS = (exc.ProgrammingError, exc.DataError, exc.NotSupportedError, exc.InternalError)


class Dialect:
    """What most engines do. Each overrides what it does in another way."""

    name: ClassVar[str]
    kinds: ClassVar[Mapping[str, Kind]] = {}
    """Beginnings of names of types, in lower case, that mean something else here than in other engines."""
    date_kinds: ClassVar[frozenset[Kind]] = frozenset(DATED)
    date_remedy: ClassVar[str] = "cast it in a view: CAST(... AS TIMESTAMP WITH TIME ZONE)"
    reads_files: ClassVar[bool] = False
    name_parts: ClassVar[int] = 2
    usual_schema: ClassVar[Expression] = literal_of("public")
    trims_characters: ClassVar[bool] = False
    """Whether ltrim and rtrim take the characters as their second argument."""
    slow_to_open: ClassVar[bool] = False
    beyond_python: ClassVar[bool] = True
    """Whether there are dates that Python does not have."""
    faults: ClassVar[tuple[type[exc.DBAPIError], ...]] = (exc.ProgrammingError,)
    """The errors of which the relation is the cause."""
    whole: ClassVar[sa.types.TypeEngine[Any]] = sa.Numeric(38, 0)
    """A type of whole numbers that holds every sum of values with weights."""

    # --- relations

    def kind(self, type_name: str) -> Kind:
        """The kind of a type by the name that the driver gives, which begins with one of ``kinds`` or of all engines.

        >>> Dialect().kind("FLOAT64"), Dialect().kind("timestamp(6) with time zone"), Dialect().kind("JSON")
        ('number', 'timestamptz', 'other')
        >>> Dialect().kind("LowCardinality(Nullable(String))"), Dialect().kind("VARCHAR[]"), Dialect().kind("interval")
        ('text', 'other', 'other')
        """
        name = type_name.lower().removeprefix("lowcardinality(").removeprefix("nullable(")
        if name.endswith("]"):
            return "other"
        if name.startswith("timestamptz") or (name.startswith("timestamp") and "time zone" in name):
            return "timestamptz"
        known = (*self.kinds.items(), *_KINDS.items())
        return next((kind for start, kind in known if name.startswith(start)), "other")

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds."""
        return [(name, self.kind(str(code))) for name, code in described(connection, source)]

    def at_hand(self, connection: sa.Connection, relation: Relation, name: str = "relation") -> FromClause:
        """A FROM clause of the relation, from which several statements may select."""
        return from_clause(relation, name)

    def at_hand_once(self, connection: sa.Connection, relations: Sequence[str], rows: Statement) -> FromClause | None:
        """Rows made of relations, computed once and kept as long as these are; None if they are not at hand."""
        return None

    def unreadable_lines(self, connection: sa.Connection) -> Mapping[str, Sequence[UnreadableLine]]:
        """The lines that are no rows of the files that a connection has read, by path."""
        return {}

    def only_text(self, connection: sa.Connection, source: FromClause, column: Expression) -> bool:
        """Whether a column of unknown kind holds text and no number."""
        return False

    def default_schema(self, connection: sa.Connection) -> str:
        """The schema whose tables are named without it."""
        return str(connection.execute(sa.select(self.usual_schema)).scalar_one())

    # --- values

    def text(self, column: Expression) -> Expression:
        """The value as text."""
        return sa.cast(column, sa.Text)

    def label_text(self, column: Expression, kind: Kind) -> Expression:
        """The name of a label: of a whole number without decimals, so that 3, 3.0 and 3.00 are one label."""
        text = self.text(column)
        if not self.trims_characters:
            return sa.case((text.like("%.0"), sa.func.replace(text, ".0", "")), else_=text) if kind in NUMERIC else text
        digits, zero, point = (literal_of(each) for each in ("0123456789-", "0", "."))
        is_whole = sa.func.rtrim(sa.func.ltrim(text, digits), zero) == point
        plain = sa.func.nullif(sa.func.rtrim(sa.func.rtrim(text, zero), point), literal_of(""))
        return sa.case((is_whole, sa.func.coalesce(plain, text)), else_=text)

    def number(self, column: Expression, kind: Kind) -> Expression:
        """The value in double precision; a boolean is 0 or 1.

        Single precision becomes the number that was written, by way of its shortest text: a direct cast makes
        0.899999976 of 0.9, which is below a limit of 0.9.
        """
        if kind == "float32":
            return double(self.text(column))
        return double(sa.cast(column, sa.Integer) if kind == "boolean" else column)

    def scaled(self, column: Expression, kind: Kind, scale: float) -> Expression:
        """A number divided by ``scale``; other values stay as they are."""
        number = self.number(column, kind)
        return number if scale == 1 else number / sa.literal_column(repr(float(scale)))

    def not_a_number(self, column: Expression, kind: Kind) -> Expression:
        """Whether a value is NaN."""
        return self.number(column, as_it_is(kind)) == double(sa.literal("NaN", sa.Text))

    def cell(self, score: Expression) -> Expression:
        """floor(score * 10000 + 0.5) as a whole number: engines round differently, but floor alike."""
        return sa.cast(sa.func.floor(score * sa.literal_column("10000") + HALF), sa.Integer)

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """The value as an instant; without a time zone it is UTC."""
        return sa.cast(column, sa.TIMESTAMP()) if kind == "date" else column

    def datable(self, instant: Expression, kind: Kind) -> Expression:
        """The instant; NULL before year 1, as -infinity is. One after the year 9999 lies in the future anyway."""
        return sa.case((instant >= self.moment(FIRST, kind), instant)) if self.beyond_python else instant

    def undatable(self, instant: Expression, kind: Kind) -> Expression:
        """Whether :meth:`datable` is NULL, by conditions for which an index of the column serves."""
        missing = instant.is_(None)
        return sa.or_(missing, instant < self.moment(FIRST, kind)) if self.beyond_python else missing

    def known_to_python(self, instant: Expression, kind: Kind) -> Expression:
        """The instant if Python has it, else NULL."""
        if not self.beyond_python:
            return instant
        return sa.case((instant.between(self.moment(FIRST, kind), self.moment(LAST, kind)), instant))

    def nearest_of_python(self, instant: Expression, kind: Kind) -> Expression:
        """The instant; in place of one that Python does not have, the first or the last that it has."""
        if not self.beyond_python:
            return instant
        first, last = self.moment(FIRST, kind), self.moment(LAST, kind)
        return sa.case((instant < first, first), (instant > last, last), else_=instant)

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """An instant to compare with columns of this kind."""
        if kind in ("timestamp", "date"):
            return sa.literal(when.astimezone(UTC).replace(tzinfo=None), sa.TIMESTAMP())
        return sa.literal(when.astimezone(UTC), sa.TIMESTAMP(timezone=True))

    def aware(self, instant: Any) -> datetime | None:
        """A fetched instant as a datetime with a time zone."""
        if instant is None or instant.tzinfo is not None:
            return instant  # type: ignore[no-any-return]  # what a driver gives
        return instant.replace(tzinfo=UTC)  # type: ignore[no-any-return]

    def within(self, column: Expression, kind: Kind, start: Expression, end: Expression) -> Expression:
        """Whether start <= value < end. Both are moments of this kind."""
        instant = self.instant(column, kind)
        return sa.and_(instant >= start, instant < end)

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """How many full days an instant lies before a moment, as a whole number."""
        seconds: Expression = sa.literal_column(f"{moment.timestamp():.6f}e0") - double(sa.extract("epoch", instant))
        return sa.cast(sa.func.floor(seconds / sa.literal_column(str(DAY_S))), sa.Integer)

    def sum_near(self, value: Expression, near: Expression, total: Expression) -> Expression:
        """The exact sum of values in [0, 1] near ``near``, in whole steps of 2^-40, whose sum is ``total``."""
        return self.exact_sum(value, bounded=True)

    def once(self, rows: Statement) -> Statement:
        """The rows, each of whose columns is computed once, for a planner that puts their terms where they are used."""
        return rows

    def usually(self, condition: Expression) -> Expression:
        """A condition by which rows are chosen that holds for many of them, for a planner that expects few."""
        return condition

    def ordered(self, text: Expression) -> Expression:
        """The text, compared by its bytes and not by the rules of a language. Most engines do that anyway."""
        return text

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8."""
        return sa.func.octet_length(text)

    def md5(self, text: Expression) -> Expression:
        """The md5 of a text in hexadecimal, in lower case."""
        return sa.func.md5(text)

    # --- sums

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """The sum of a column of doubles, which does not depend on the order of the rows.

        Threads add doubles in a different order in each query, so the last digits of a plain sum differ.
        Whole multiples of 2^-40 add up exactly. ``bounded`` values lie in [-1, 1].
        """
        whole = sa.cast(nearest(value), sa.BigInteger) if bounded else self.wide(nearest(value))
        return double(sa.func.sum(whole)) / FIXED_POINT

    def exact_sum_of_few(self, value: Expression) -> Expression:
        """As :meth:`exact_sum` with ``bounded``, but exact for at most 8,192 rows, as one item has: by doubles."""
        return double(sa.func.sum(nearest(value))) / FIXED_POINT

    def wide(self, number: Expression) -> Expression:
        """A whole number that may have more than 64 bits."""
        return sa.cast(number, self.whole)

    def repeats(self, label: Expression, labels: Sequence[str]) -> Expression:
        """An aggregate over the rows of one item: the number of rows less the number of distinct ``labels``.

        It may be too large where a label is not among them, but is never 0 where one repeats.
        """
        return sa.func.count() - sa.func.count(sa.distinct(label))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """A hash of each row as a whole number, whose sum over the rows shows whether any has changed."""
        raise NotImplementedError

    # --- the session

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """Set the server's own time limit for statements, in case this process ends before it cancels one."""

    def cancel(self, driver: Any) -> None:
        """End the statement that runs on the driver's connection; called from another thread. Not all drivers can."""

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Whether the relation is at fault, so that trying again would not help."""
        return isinstance(error, self.faults)

    def bytes_read(self, connection: sa.Connection) -> int | None:
        """Bytes of tables that statements have read so far; None for an engine that does not count them."""
        return None

    def arrays(self, connection: sa.Connection, statement: sa.Executable) -> Arrays:
        """The columns of the result of one of our statements as arrays of one length."""
        return rows_as_arrays(connection.execute(statement))


class CountsBits(Dialect):
    """An engine that takes each label as a bit, so that an item needs a number for 62 of them, not a group for each."""

    def repeats(self, label: Expression, labels: Sequence[str]) -> Expression:
        """By the bits of the labels, of which at most :data:`LABELS_BY_BITS` are allowed."""
        ordered = sorted(labels, key=lambda name: name.encode("utf-8", "surrogatepass"))
        names, text = [sa.literal(name, sa.Text) for name in ordered], self.ordered(label)
        left: Expression = sa.func.count()
        for first in range(0, len(names), BITS):
            part, following = names[first : first + BITS], names[first + BITS : first + BITS + 1]
            within = [*([text >= part[0]] if first else []), *(text < name for name in following)]
            bit = sa.case((sa.and_(*within), _bit_of(text, part))) if within else _bit_of(text, part)
            left -= sa.func.coalesce(self.bit_count(sa.func.bit_or(bit)), ZERO)
        return left

    def bit_count(self, number: Expression) -> Expression:
        """How many bits of a whole number of 64 bits are set."""
        return sa.func.bit_count(number)


class OfTexts(Dialect):
    """Instants are compared with casts of texts: constants, so that partitions are left out by them."""

    naive: ClassVar[str]
    zoned: ClassVar[str]
    utc: ClassVar[str] = "+00:00"
    limited: ClassVar[str]
    """The statement that lets the server end others after ``{seconds}``."""

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """The value as an instant; a day begins in UTC."""
        return sa.cast(column, Named(self.naive)) if kind == "date" else column

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """The instant of a text, with the time zone where the column has one."""
        if kind in ("timestamp", "date"):
            return sa.cast(sa.literal(utc_text(when), sa.Text), Named(self.naive))
        return sa.cast(sa.literal(utc_text(when) + self.utc, sa.Text), Named(self.zoned))

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """The server ends a statement by itself, a second after the time limit of a reading, which is named so."""
        connection.exec_driver_sql(self.limited.format(seconds=math.ceil(seconds) + 1))


class Embedded(Dialect):
    """An engine in this process: its statements end with the process, and it needs no limit of its own."""

    trims_characters = True
    faults = FAULTS

    def cancel(self, driver: Any) -> None:
        """End the statement that runs on the driver's connection; called from another thread."""
        driver.interrupt()


def rows_as_arrays(result: sa.CursorResult[Any]) -> Arrays:
    """The columns of a result as arrays of one length."""
    names, rows = list(result.keys()), result.all()
    values = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: np.array(column, dtype=object) for name, column in zip(names, values, strict=True)}


class Named(sa.types.UserDefinedType[Any]):
    """A type by its name in SQL."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """The name of the type in SQL."""
        return self.name


def _bit_of(label: Expression, names: Sequence[Expression], first: int = 0) -> Expression:
    """The bit of a label, by a binary search for its place among sorted names."""
    if len(names) == 1:
        return sa.cast(sa.literal_column(str(1 << first)), sa.BigInteger)
    middle = len(names) // 2
    lower, upper = _bit_of(label, names[:middle], first), _bit_of(label, names[middle:], first + middle)
    return sa.case((label < names[middle], lower), else_=upper)


def microseconds_of(when: datetime) -> int:
    """Microseconds since 1970 of a date; without a time zone it is UTC. Kept fast: SQLite calls it for every row."""
    passed = when - (_1970 if when.tzinfo else _1970_PLAIN)
    return (passed.days * DAY_S + passed.seconds) * 1_000_000 + passed.microseconds


def days_of_microseconds(instant: Expression, moment: datetime) -> Expression:
    """How many whole days an instant, in microseconds since 1970, lies before a moment."""
    passed: Expression = sa.literal_column(str(microseconds_of(moment))) - instant
    return sa.cast(sa.func.floor(passed / sa.literal_column(DAY_MICROSECONDS)), sa.Integer)


def utc_text(when: datetime) -> str:
    """A date with microseconds in UTC as text, with four digits for the year.

    >>> utc_text(datetime(1, 1, 1, 2, tzinfo=UTC))
    '0001-01-01 02:00:00.000000'
    """
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
