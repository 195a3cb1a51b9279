"""How the engines differ: the types of columns, numbers, texts and instants.

Everything else is plain SQLAlchemy Core, in ``row_levels.py`` and the modules over it. An *instant* is an
expression that can be compared with :meth:`Dialect.moment` of the same kind of column, and is NULL
where the value is no date.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import itemgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql.expression import CTE, FromClause

from monitor.config.relation import CsvFiles, ParquetFiles, Relation, TableName, literal
from monitor.core.records import Window
from monitor.warehouse.csv_lines import CsvRows, csv_rows
from monitor.warehouse.csv_rejects import UnreadableLines, lines_between
from monitor.warehouse.dates import BEFORE_ZONE, ISO, instant_of
from monitor.warehouse.parquet_types import with_parts
from monitor.warehouse.relation import from_clause

Kind = Literal[
    "number",
    "float32",
    "decimal",
    "integer",
    "boolean",
    "text",
    "timestamp",
    "timestamptz",
    "date",
    "bytes",
    "unknown",
    "other",
]
NUMERIC: tuple[Kind, ...] = ("number", "float32", "decimal", "integer")
"""Kinds of numbers. ``integer`` is given by engines in which tests showed that whole numbers add up faster.

``float32`` is a number in single precision: see :meth:`Dialect.number`. ``decimal`` may have numbers that no double
holds: see :meth:`PostgreSQL.number`.
"""
Expression = sa.ColumnElement[Any]
Arrays = dict[str, npt.NDArray[Any]]

FIXED_POINT: Expression = sa.literal_column("1099511627776.0e0")  # 2^40: dividing by it loses nothing
BITS = 62
"""How many labels fit, as bits, into one signed whole number of 64 bits."""
COUNTED_BY_BITS = 4 * BITS
"""Of at most so many labels :meth:`Dialect.repeats` makes bits, in up to four numbers."""
DAY_S = 86_400
DAY_MICROSECONDS = "86400000000.0e0"
BINARY = "calmon_binary"
"""The option of an execution by which PostgreSQL sends values in its binary form.

Only for statements whose columns are numbers or text: psycopg would give other types, such as enums, as bytes.
"""
_SMALLEST: Expression = sa.literal_column("1e-300")  # of positive decimals that are cast to a double
_LARGEST: Expression = sa.literal_column("1e300")
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_FLOAT8, _WHOLE_NUMBERS = 701, frozenset({20, 21, 23})  # object ids of PostgreSQL's types, the same in every server
FewScans = Literal["never", "beyond counts", "always"]
_SEEDS = 64  # of PostgreSQL's hash, that are tried for some labels
_BITS_OF_A_PLACE, _PLACES = 6, 63  # a hash has ten places, each of 64 values
_NESTED = 50  # of so many columns the hashes are combined one by one: nested more deeply, 150 are too many for Python
_AFTER_CANCEL_S = 5  # seconds for a request to cancel; the server's own limit comes later
_NUMBER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


def everything(relation: FromClause) -> sa.Select[Any]:
    """``SELECT *``: for the names and types of the columns."""
    return sa.select(sa.literal_column("*")).select_from(relation)


@dataclass(frozen=True, slots=True)
class Hashing:
    """A hash of texts: six bits of it, from ``shift`` on, for a ``seed``."""

    seed: int
    shift: int


def as_it_is(kind: Kind) -> Kind:
    """The kind by which a number is cast directly, without :meth:`Dialect.number`'s way by its text."""
    return "number" if kind == "float32" else kind


class Dialect:
    """How PostgreSQL does it, which is the default. Other dialects override what differs."""

    name: ClassVar[str] = "postgresql"
    date_kinds: ClassVar[frozenset[Kind]] = frozenset({"timestamp", "timestamptz", "date"})
    date_remedy: ClassVar[str] = "cast it in a view: CAST(... AS TIMESTAMP WITH TIME ZONE)"
    reads_files: ClassVar[bool] = False
    grouping_sets: ClassVar[bool] = True
    counts_bits: ClassVar[bool] = True
    """Whether :meth:`repeats` takes each label as a bit. Else it counts distinct labels."""
    one_state: ClassVar[bool] = True
    """Whether all statements of a reading see the same rows, even if others arrive meanwhile."""
    sums_within_cells: ClassVar[Literal["doubles", "whole numbers"] | None] = None
    """Whether the counts have sums of what is beyond the cells, and as what: see ``near_sums.py``."""
    few_scans: FewScans = "never"
    """When the counts, the sums of clusters and the rejected rows are read in one scan.

    "always" is for engines in which that costs no more, or in which a scan costs more than a processor's time on its
    rows, since bytes are billed or come from afar. "beyond counts" is for sources with clusters or segments, or of
    which rejected rows are expected: of others a scan for each takes less of a processor. (What is asked at once, see
    :attr:`asks_at_once`, is so unless this is "never".)
    """
    shares_rows: bool = False
    """Whether :meth:`shared` gives the rows of one scan to several SELECTs. Else GROUPING SETS do it."""
    asks_at_once: bool = False
    """Whether all questions are one statement, see ``asked_at_once.py``; it is long.

    For engines that share rows, and for those in which a statement that names a relation several times costs as much as
    one scan: since its bytes are billed once, or since the engine may keep the rows of a CTE.
    """
    segments_at_once: ClassVar[int] = 150
    """Of a source with more, segments are counted by statements of their own, where SELECTs share rows.

    So many were measured in DuckDB, SQLite and PostgreSQL.
    """
    name_parts: ClassVar[int] = 2
    trims_characters: ClassVar[bool] = False
    """Whether ltrim and rtrim take the characters as their second argument."""
    slow_to_open: ClassVar[bool] = False

    def of(self, connection: sa.Connection) -> Dialect:
        """The dialect of the server behind a connection, which may be able to do more than others of its kind."""
        return self

    def usually(self, condition: Expression) -> Expression:
        """A condition by which rows are chosen that holds for many of them, for a planner that expects few."""
        return condition

    def reading_by(self, few_scans: FewScans) -> Self:
        """The same dialect with other :attr:`few_scans`."""
        found = copy(self)
        found.few_scans = few_scans
        return found

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds."""
        described = connection.execute(everything(source).limit(0)).cursor.description
        types = sa.table(
            "pg_type", sa.column("oid"), sa.column("typname"), sa.column("typcategory"), schema="pg_catalog"
        )
        codes = {column[1] for column in described}
        rows = connection.execute(
            sa.select(types.c.oid, types.c.typname, types.c.typcategory).where(types.c.oid.in_(codes))
        )
        kinds = {oid: _postgres_kind(name, category) for oid, name, category in rows}
        return [(column[0], kinds[column[1]]) for column in described]

    def at_hand(self, connection: sa.Connection, relation: Relation, name: str = "relation") -> FromClause:
        """A FROM clause of the relation, from which several statements may select."""
        return from_clause(relation, name)

    def unreadable_lines(self, connection: sa.Connection) -> Mapping[str, UnreadableLines]:
        """The lines that are no rows of the files that a connection has read, by path."""
        return {}

    def lines_between(
        self, connection: sa.Connection, lines: UnreadableLines, column: str, form: str | None, window: Window
    ) -> int:
        """How many of these lines have a date in the window where ``column`` may be; ``form``: of its dates."""
        return 0

    def only_text(self, connection: sa.Connection, source: FromClause, column: Expression) -> bool:
        """Whether a column of unknown kind holds text and no number."""
        return False

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
            return sa.cast(self.text(column), sa.Double)
        return sa.cast(sa.cast(column, sa.Integer) if kind == "boolean" else column, sa.Double)

    def scaled(self, column: Expression, kind: Kind, scale: float) -> Expression:
        """A number divided by ``scale``; other values stay as they are."""
        number = self.number(column, kind)
        return number if scale == 1 else number / sa.literal_column(repr(float(scale)))

    def not_a_number(self, column: Expression, kind: Kind) -> Expression:
        """Whether a value is NaN."""
        return self.number(column, as_it_is(kind)) == sa.cast(sa.literal("NaN", sa.Text), sa.Double)

    def above(self, number: Expression, limit: Expression) -> Expression:
        """Whether a number is above a limit. NaN is: most engines sort it last."""
        return number > limit

    def cell(self, score: Expression) -> Expression:
        """floor(score * 10000 + 0.5) as a whole number: engines round differently, but floor alike."""
        return sa.cast(sa.func.floor(score * sa.literal_column("10000") + sa.literal_column("0.5")), sa.Integer)

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """The value as an instant; without a time zone it is UTC."""
        return sa.cast(column, sa.TIMESTAMP()) if kind == "date" else column

    def datable(self, instant: Expression, kind: Kind) -> Expression:
        """The instant; NULL if it is none by which anything can be dated."""
        return instant

    def undatable(self, instant: Expression, kind: Kind) -> Expression:
        """Whether :meth:`datable` is NULL."""
        return self.datable(instant, kind).is_(None)

    def known_to_python(self, instant: Expression, kind: Kind) -> Expression:
        """The instant if it lies between the years 1 and 9999, else NULL: Python has no other dates."""
        return sa.case((instant.between(self.moment(_FIRST, kind), self.moment(_LAST, kind)), instant))

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """An instant to compare with columns of this kind."""
        return self.moment_of(self.bound(when, kind), kind)

    def bound(self, when: datetime, kind: Kind) -> sa.BindParameter[Any]:
        """The value that a statement binds for an instant, with its type."""
        if kind in ("timestamp", "date"):
            return sa.literal(when.astimezone(UTC).replace(tzinfo=None), sa.TIMESTAMP())
        return sa.literal(when.astimezone(UTC), sa.TIMESTAMP(timezone=True))

    def moment_of(self, bound: sa.BindParameter[Any], kind: Kind) -> Expression:
        """The instant of a bound value, to compare with columns of this kind."""
        return bound

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
        seconds: Expression = sa.literal_column(f"{moment.timestamp():.6f}e0") - sa.cast(
            sa.extract("epoch", instant), sa.Double
        )
        return sa.cast(sa.func.floor(seconds / sa.literal_column(str(DAY_S))), sa.Integer)

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """The sum of a column of doubles, which does not depend on the order of the rows.

        Threads add doubles in a different order in each query, so the last digits of a plain sum differ.
        Whole multiples of 2^-40 add up exactly. ``bounded`` values lie in [0, 1].
        """
        nearest = sa.func.floor(value * FIXED_POINT + sa.literal_column("0.5"))  # engines round differently
        whole = sa.cast(nearest, sa.BigInteger) if bounded else self.wide(nearest)
        return sa.cast(sa.func.sum(whole), sa.Double) / FIXED_POINT

    def exact_sum_of_few(self, value: Expression) -> Expression:
        """As :meth:`exact_sum` with ``bounded``, for at most a few thousand rows: a double holds their sum exactly."""
        nearest = sa.func.floor(value * FIXED_POINT + sa.literal_column("0.5"))
        return sa.cast(sa.func.sum(nearest), sa.Double) / FIXED_POINT

    def exact_sum_of_group(self, value: Expression, where: Expression | None = None) -> Expression:
        """As :meth:`exact_sum` with ``bounded``, for many groups; over the rows for which ``where`` holds, if given."""
        return self.exact_sum(value if where is None else sa.case((where, value)), bounded=True)

    def wide(self, nearest: Expression) -> Expression:
        """A whole number of more than 64 bits.

        Above 2^53 it is cast to text first, since a direct cast keeps only 15 digits. Up to 2^53 a cast to 64 bits
        keeps every digit and is faster.
        """
        exactly = nearest.between(sa.literal_column("-9007199254740992e0"), sa.literal_column("9007199254740992e0"))
        small = sa.cast(sa.cast(nearest, sa.BigInteger), sa.Numeric)
        return sa.case((exactly, small), else_=sa.cast(sa.cast(nearest, sa.Text), sa.Numeric(38, 0)))

    def ordered(self, text: Expression) -> Expression:
        """The text, compared by its bytes and not by the rules of a language."""
        return sa.collate(text, "C")

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8."""
        return sa.func.octet_length(text)

    def md5(self, text: Expression) -> Expression:
        """The md5 of a text in hexadecimal, in lower case."""
        return sa.func.md5(text)

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """A hash of each row as a whole number.

        The sum over rows shows whether any row has changed. Columns are combined by XOR: if they were added up, the sum
        would stay the same when two rows exchange a value.
        """
        hashes = [_postgres_hash(self, column, kind, seed) for seed, (column, kind) in enumerate(columns, start=1)]
        return _by_xor([_by_xor(hashes[at : at + _NESTED]) for at in range(0, len(hashes), _NESTED)])

    def hashing(self, connection: sa.Connection, labels: Sequence[str]) -> Hashing | None:
        """A hash by which each of some labels has a bit of its own; None if none is known."""
        return None

    def repeats(
        self, label: Expression, labels: Sequence[str], counted: Expression, hashing: Hashing | None = None
    ) -> Expression:
        """An aggregate over the rows of one item: the number of rows less the number of distinct labels.

        With :attr:`counts_bits` each of ``labels`` (at most :data:`COUNTED_BY_BITS`) is one bit, so that an item needs
        a number for 62 of them and not a group for each. A label that is not among them has no bit or shares that of
        another: the result may then be too large, but is never 0 where a label repeats. Rows whose ``counted`` is NULL
        are left out. ``hashing`` is that of :meth:`hashing` for these labels.
        """
        if not self.counts_bits:
            return sa.func.count(counted) - sa.func.count(sa.distinct(sa.case((counted.is_not(None), label))))
        ordered = sorted(labels, key=lambda name: name.encode("utf-8", "surrogatepass"))
        names, text = [sa.literal(name, sa.Text) for name in ordered], self.ordered(label)
        if hashing is not None:
            return self._less_bits(counted, [(_hashed_bit(text, hashing), sa.true())])
        bits = []
        for first in range(0, len(names), BITS):
            part, following = names[first : first + BITS], names[first + BITS : first + BITS + 1]
            within = [*([text >= part[0]] if first else []), *(text < name for name in following)]
            bits.append((_bit_of(text, part), sa.and_(sa.true(), *within)))
        return self._less_bits(counted, bits)

    def _less_bits(self, counted: Expression, bits: Sequence[tuple[Expression, Expression]]) -> Expression:
        """The number of rows that count less that of the bits of all numbers; a bit is set if its condition holds."""
        chosen = (sa.case((sa.and_(counted.is_not(None), condition), bit)) for bit, condition in bits)
        found = (sa.func.coalesce(self.bit_count(sa.func.bit_or(bit)), sa.literal_column("0")) for bit in chosen)
        return reduce(lambda left, number: left - number, found, sa.func.count(counted))

    def bit_count(self, number: Expression) -> Expression:
        """How many bits of a whole number of 64 bits are set."""
        return sa.func.bit_count(sa.cast(number, Named("BIT(64)")))

    def shared(self, rows: sa.Select[Any], name: str) -> CTE:
        """Rows that one scan gives to several SELECTs, where the engine has :attr:`shares_rows`."""
        return rows.cte(name).prefix_with("MATERIALIZED")

    def computed_once(self, rows: sa.Select[Any]) -> sa.Select[Any]:
        """The same rows, with columns that the engine computes once, even if outer levels use them several times."""
        return rows

    def default_schema(self, connection: sa.Connection) -> str:
        """The schema whose tables are named without it."""
        return "public"

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """Set the server's own time limit for statements, in case this process ends before it cancels one."""
        milliseconds = str(round((seconds + _AFTER_CANCEL_S) * 1000))
        connection.execute(sa.select(sa.func.set_config("statement_timeout", milliseconds, sa.true())))

    def cancel(self, driver: Any) -> None:
        """End the statement that runs on the driver's connection; called from another thread."""
        driver.cancel_safe(timeout=_AFTER_CANCEL_S)

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Whether the relation is at fault, so that trying again would not help."""
        return isinstance(error, exc.ProgrammingError | exc.DataError | exc.NotSupportedError | exc.InternalError)

    def bytes_read(self, connection: sa.Connection) -> int | None:
        """Bytes of tables that statements have read so far; None for an engine that does not count them."""
        return None

    def arrays(self, connection: sa.Connection, statement: sa.Executable, parameters: Mapping[str, Any]) -> Arrays:
        """The columns of the result of one of our statements as arrays of one length."""
        return self.fetch(connection.execute(statement, parameters))

    def fetch(self, result: sa.CursorResult[Any]) -> Arrays:
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


class PostgreSQL(Dialect):
    """PostgreSQL itself, with what is faster only there."""

    trims_characters = True

    sums_within_cells = "doubles"
    few_scans = "beyond counts"
    shares_rows = True
    asks_at_once = True

    def usually(self, condition: Expression) -> Expression:
        """It expects equality with what is computed for one row in 200, and then joins rows with each other in turn."""
        return sa.case((condition, sa.literal_column("1"))).is_not(None)

    def datable(self, instant: Expression, kind: Kind) -> Expression:
        """The instant; NULL before year 1, as -infinity is."""
        return _from_year_1(self, instant, kind)

    def undatable(self, instant: Expression, kind: Kind) -> Expression:
        """By conditions for which an index of the column serves, and partitions are left out."""
        return sa.or_(instant.is_(None), instant < self.moment(_FIRST, kind))

    def number(self, column: Expression, kind: Kind) -> Expression:
        """A decimal that no double holds becomes infinite, or 0: to cast it would end the statement."""
        number = super().number(column, kind)
        if kind != "decimal":
            return number
        infinite = sa.cast(sa.literal_column("'Infinity'"), sa.Double)
        return sa.case(
            (sa.and_(column > _SMALLEST, column < _LARGEST), number),  # first, since nearly all are here
            (column == sa.literal_column("'NaN'"), number),
            (column >= _LARGEST, infinite),
            (column <= -_LARGEST, -infinite),
            (column.between(-_SMALLEST, _SMALLEST), sa.cast(sa.literal_column("0"), sa.Double)),
            else_=number,
        )

    def hashing(self, connection: sa.Connection, labels: Sequence[str]) -> Hashing | None:
        """One of the server's own hashes: one number a row, where to search for a text compares several.

        Of the first seeds and shifts that are tried, one nearly always serves up to about 25 labels.
        """
        if len(labels) > _PLACES + 1:
            return None
        seeds = sa.func.generate_series(1, _SEEDS).column_valued("seed")
        hashes = (sa.func.hashtextextended(self.ordered(sa.literal(label, sa.Text)), seeds) for label in labels)
        rows = connection.execute(sa.select(*(each.label(f"h{place}") for place, each in enumerate(hashes))))
        found = np.array([tuple(row) for row in rows], dtype=np.int64)
        for seed, row in enumerate(found, start=1):
            for shift in range(0, 60, _BITS_OF_A_PLACE):
                if len(np.unique(row >> shift & _PLACES)) == len(labels):
                    return Hashing(seed, shift)
        return None

    def exact_sum_of_group(self, value: Expression, where: Expression | None = None) -> Expression:
        """Sums of the upper and of the lower 20 bits, in doubles, which are exact up to 2^33 rows a group.

        PostgreSQL sums whole numbers of 64 bits as decimals, which is slow for many groups.
        """
        bits: Expression = sa.literal_column("1048576.0e0")  # 2^20
        upper = sa.func.floor(value * bits)
        nearest = sa.func.floor(value * FIXED_POINT + sa.literal_column("0.5"))
        sums = sa.func.sum(upper), sa.func.sum(nearest - upper * bits)
        of_upper, of_lower = sums if where is None else (each.filter(where) for each in sums)
        return sa.cast(of_upper * bits + of_lower, sa.Double) / FIXED_POINT

    def computed_once(self, rows: sa.Select[Any]) -> sa.Select[Any]:
        """By OFFSET 0: without it PostgreSQL replaces each use of a column by the expression."""
        return rows.offset(sa.literal_column("0"))

    def arrays(self, connection: sa.Connection, statement: sa.Executable, parameters: Mapping[str, Any]) -> Arrays:
        """In the server's binary form: neither side writes or reads 17 digits for each sum."""
        options = {BINARY: True}
        return self.fetch(connection.execute(statement, parameters, execution_options=options))

    def fetch(self, result: sa.CursorResult[Any]) -> Arrays:
        """Past SQLAlchemy's rows; columns of numbers as arrays of numbers."""
        cursor: Any = result.cursor
        described, rows = cursor.description, cursor.fetchall()
        return {column[0]: _column_of(rows, place, column[1]) for place, column in enumerate(described)}


def _from_year_1(dialect: Dialect, instant: Expression, kind: Kind) -> Expression:
    """The instant; NULL before year 1: Python has no such date. One after the year 9999 lies in the future anyway."""
    return sa.case((instant >= dialect.moment(_FIRST, kind), instant))


def _column_of(rows: Sequence[tuple[Any, ...]], place: int, oid: int) -> npt.NDArray[Any]:
    """One column of some rows, of a PostgreSQL type; NULL is NaN among doubles, None among others."""
    taken = itemgetter(place)  # to turn all rows into columns at once makes an object a row, and takes twice as long
    if oid == _FLOAT8:
        return np.fromiter(map(taken, rows), np.float64, len(rows))
    try:
        return np.fromiter(map(taken, rows), np.int64 if oid in _WHOLE_NUMBERS else object, len(rows))
    except TypeError:  # NULL
        return np.fromiter(map(taken, rows), object, len(rows))


class Embedded(Dialect):
    """An engine in this process: its statements end with the process."""

    trims_characters = True

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """Do nothing: these engines have no time limit of their own. :meth:`cancel` ends a statement."""

    def cancel(self, driver: Any) -> None:
        """End the statement that runs on the driver's connection; called from another thread."""
        driver.interrupt()


CSV_ROWS, PARQUET_FILES = "csv rows", "parquet files"
"""The key of a connection's ``info`` for the rows of CSV files that it has read, by path."""


@contextmanager
def _between_transactions(connection: sa.Connection) -> Iterator[Any]:
    """The driver's connection, without a transaction: a statement that fails in here ends none."""
    driver: Any = connection.connection.driver_connection
    driver.commit()
    try:
        yield driver
    finally:
        driver.begin()


class DuckDB(Embedded):
    """The embedded default; also over Parquet and CSV files."""

    name = "duckdb"
    few_scans = "beyond counts"
    shares_rows = True
    asks_at_once = True
    date_kinds = frozenset({"timestamp", "timestamptz", "date", "text"})
    date_remedy = "make it a timestamp in a view (epoch seconds: to_timestamp(...))"
    reads_files = True
    name_parts = 3
    slow_to_open = True

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds."""
        described = connection.execute(everything(source).limit(0)).cursor.description
        return [(column[0], duckdb_kind(str(column[1]))) for column in described]

    def at_hand(self, connection: sa.Connection, relation: Relation, name: str = "relation") -> FromClause:
        """CSV files as a temporary table, so that each is parsed once; large files, and Parquet files, as they are."""
        if isinstance(relation, ParquetFiles):
            types: dict[str, ParquetFiles] = connection.info.setdefault(PARQUET_FILES, {})
            if relation.path not in types:
                types[relation.path] = with_parts(connection, relation)
            return from_clause(types[relation.path], name)
        if not isinstance(relation, CsvFiles):
            return from_clause(relation, name)
        known: dict[str, CsvRows] = connection.info.setdefault(CSV_ROWS, {})
        if relation.path not in known:
            with _between_transactions(connection) as driver:
                known[relation.path] = csv_rows(driver, relation.path, f"calmon_csv_{len(known)}")
        return from_clause(known[relation.path].relation, name)

    def unreadable_lines(self, connection: sa.Connection) -> Mapping[str, UnreadableLines]:
        """The lines of CSV files that are no rows, by path."""
        known: dict[str, CsvRows] = connection.info.get(CSV_ROWS, {})
        return {path: rows.unreadable for path, rows in known.items()}

    def lines_between(
        self, connection: sa.Connection, lines: UnreadableLines, column: str, form: str | None, window: Window
    ) -> int:
        """By the text of the lines, which is kept for as long as the session."""
        counts = (lines_between(kept, column, form, window.start, window.end) for kept in lines.kept)
        return sum(connection.exec_driver_sql(count).scalar_one() for count in counts)

    def default_schema(self, connection: sa.Connection) -> str:
        """The schema whose tables are named without it."""
        return "main"

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Also if a Parquet file is missing: the relation names it."""
        return "No files found" in str(error.orig) or super().of_the_relation(error)

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """Text is cast only if it is an ISO date: 'epoch', 'infinity' and '2026-11-17 (BC)' are no dates here."""
        if kind == "text":
            text = sa.func.trim(column)
            plain = sa.func.regexp_replace(
                sa.func.upper(sa.func.replace(text, ",", ".")), literal_of(BEFORE_ZONE), literal_of(r"\1")
            )
            iso = sa.func.regexp_full_match(text, literal_of(ISO))
            return sa.case((iso, sa.try_cast(plain, sa.TIMESTAMP(timezone=True))))
        # nanoseconds, which pandas writes, cannot be compared with the year 9999; of microseconds the cast does nothing
        cast: Expression = sa.cast(column, sa.TIMESTAMP(timezone=kind == "timestamptz"))
        return (
            cast if kind == "date" else sa.case((_has_nanoseconds(column, kind), _cut(column, kind, cast)), else_=cast)
        )

    def datable(self, instant: Expression, kind: Kind) -> Expression:
        """The instant; NULL before year 1, as -infinity is."""
        return _from_year_1(self, instant, kind)

    def wide(self, nearest: Expression) -> Expression:
        """A whole number of 128 bits."""
        return sa.cast(nearest, Named("HUGEINT"))

    def ordered(self, text: Expression) -> Expression:
        """DuckDB compares bytes anyway."""
        return text

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8."""
        return sa.func.strlen(text)

    def repeats(
        self, label: Expression, labels: Sequence[str], counted: Expression, hashing: Hashing | None = None
    ) -> Expression:
        """By the label's place in a list, which DuckDB looks up once for each value of a dictionary-encoded column."""
        place = sa.func.list_position(sa.func.list_value(*(sa.literal(name, sa.Text) for name in labels)), label)
        bits = []
        for first in range(1, len(labels) + 1, BITS):
            least: Expression = sa.literal_column(str(first))
            last: Expression = sa.literal_column(str(min(first + BITS - 1, len(labels))))
            within = sa.true() if len(labels) <= BITS else place.between(least, last)
            bits.append((_bit(0).bitwise_lshift(place - least), within))
        return self._less_bits(counted, bits)

    def bit_count(self, number: Expression) -> Expression:
        """How many bits of a whole number of 64 bits are set."""
        return sa.func.bit_count(number)

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """DuckDB hashes values of any type, and NULL, without making text of them; 128 bits hold the sum."""
        return sa.func.hash(*(column for column, _ in columns), type_=sa.BigInteger)

    def fetch(self, result: sa.CursorResult[Any]) -> Arrays:
        """Straight into numpy: three times as fast as rows."""
        return dict(result.cursor.fetchnumpy())


class SQLite(Embedded):
    """In SQLite the type belongs to each value, not to the column; dates are text or numbers."""

    name = "sqlite"
    few_scans = "beyond counts"
    shares_rows = True
    asks_at_once = True
    grouping_sets = False
    counts_bits = False
    date_kinds = frozenset({"timestamp", "timestamptz", "date", "text", "number", "unknown", "other"})

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order; declared types exist for tables and plain views only."""
        described = connection.execute(everything(source).limit(0)).cursor.description
        declared = _declared(connection, relation) if isinstance(relation, TableName) else {}
        return [(column[0], sqlite_kind(declared.get(column[0], ""))) for column in described]

    def of_the_relation(self, error: exc.DBAPIError) -> bool:
        """Whether the statement is at fault, by the name of SQLite's error."""
        if not isinstance(error.orig, sqlite3.Error):
            return super().of_the_relation(error)
        return getattr(error.orig, "sqlite_errorname", "SQLITE_ERROR") in ("SQLITE_ERROR", "SQLITE_READONLY")

    def default_schema(self, connection: sa.Connection) -> str:
        """The schema whose tables are named without it."""
        return "main"

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """Whole numbers in doubles, exact up to 2^53; and SQLite adds in one thread, always in one order."""
        return sa.func.sum(sa.func.round(value * FIXED_POINT)) / FIXED_POINT

    def only_text(self, connection: sa.Connection, source: FromClause, column: Expression) -> bool:
        """Whether the column holds text and no number; the search stops at the first number."""
        some: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(source)
        texts = some.where(sa.func.typeof(column) == "text").exists()
        numbers = some.where(sa.func.typeof(column).in_(("integer", "real"))).exists()
        return bool(connection.execute(sa.select(sa.and_(texts, sa.not_(numbers)))).scalar())

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
        return sa.cast(score * sa.literal_column("10000") + sa.literal_column("0.5"), sa.Integer)

    def instant(self, column: Expression, kind: Kind) -> Expression:
        """Microseconds since 1970 in UTC, by our own function :func:`microseconds`."""
        return sa.func.calmon_instant(column, type_=sa.BigInteger)

    def known_to_python(self, instant: Expression, kind: Kind) -> Expression:
        """All are: our function knows no others."""
        return instant

    def aware(self, instant: Any) -> datetime | None:
        """From microseconds since 1970."""
        return None if instant is None else _1970 + timedelta(microseconds=int(instant))

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds. The instant must lie before the moment."""
        passed: Expression = sa.literal(microseconds_of(moment), sa.BigInteger) - instant
        return passed // sa.literal_column(str(DAY_S * 1_000_000), sa.BigInteger)

    def bound(self, when: datetime, kind: Kind) -> sa.BindParameter[Any]:
        """Microseconds since 1970, as :meth:`instant` has them."""
        return sa.literal(microseconds_of(when), sa.BigInteger)

    def within(self, column: Expression, kind: Kind, start: Expression, end: Expression) -> Expression:
        """BETWEEN, since it calls our function once a row; instants are whole microseconds."""
        return self.instant(column, kind).between(start, end - sa.literal_column("1"))

    def byte_length(self, text: Expression) -> Expression:
        """By its bytes: octet_length came with SQLite 3.43, and length of a text ends at a NUL."""
        return sa.func.length(sa.cast(text, sa.BLOB))

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """By our own function :func:`hash_of`, over all values with their types: quote() keeps every digit."""
        texts: list[Expression] = [sa.func.quote(column, type_=sa.Text) for column, _ in columns]
        text = reduce(lambda all_before, each: all_before + "," + each, texts)
        return sa.func.calmon_hash(text, type_=sa.BigInteger)

    def ordered(self, text: Expression) -> Expression:
        """By bytes, even where a column says NOCASE."""
        return sa.collate(text, "BINARY")


def _has_nanoseconds(column: Expression, kind: Kind) -> Expression:
    """Whether the type of a date has nanoseconds. DuckDB knows that before it reads, so no row costs more."""
    name = "TIMESTAMPTZ_NS" if kind == "timestamptz" else "TIMESTAMP_NS"
    return sa.func.typeof(column) == sa.literal_column(f"'{name}'")


def _cut(column: Expression, kind: Kind, rounded: Expression) -> Expression:
    """A date with nanoseconds in microseconds, cut off: DuckDB's cast rounds them into the next window.

    ``rounded`` is that cast, for infinity.
    """
    make = sa.func.make_timestamptz if kind == "timestamptz" else sa.func.make_timestamp
    whole: Expression = sa.func.epoch_ns(column).op("//")(sa.literal_column("1000"))
    return sa.func.coalesce(make(whole), rounded)


DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (PostgreSQL(), DuckDB(), SQLite())}


def duckdb_kind(type_name: str) -> Kind:
    """The kind of a DuckDB type.

    >>> duckdb_kind("DECIMAL(4,2)"), duckdb_kind("TIMESTAMP WITH TIME ZONE"), duckdb_kind("VARCHAR[]")
    ('number', 'timestamptz', 'other')
    """
    if type_name.endswith("]"):
        return "other"
    if type_name == "FLOAT":
        return "float32"
    if type_name.startswith("TIMESTAMP"):
        return "timestamptz" if "ZONE" in type_name or "TZ" in type_name else "timestamp"
    plain: dict[str, Kind] = {
        "BOOLEAN": "boolean",
        "DATE": "date",
        "VARCHAR": "text",
        "UUID": "text",
        "JSON": "text",
        "BLOB": "bytes",
    }
    if type_name.startswith("ENUM"):
        return "text"
    return "number" if type_name.removeprefix("U").startswith(_NUMBER_TYPES) else plain.get(type_name, "other")


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


def literal_of(text: str) -> Expression:
    """A text of ours as a literal of the statement."""
    return sa.literal_column(literal(text), sa.Text)


def _bit(place: int) -> Expression:
    return sa.cast(sa.literal_column(str(1 << place)), sa.BigInteger)


def _bit_of(label: Expression, names: Sequence[Expression], first: int = 0) -> Expression:
    """The bit of a label, by a binary search for its place among sorted names."""
    if len(names) == 1:
        return _bit(first)
    middle = len(names) // 2
    lower, upper = _bit_of(label, names[:middle], first), _bit_of(label, names[middle:], first + middle)
    return sa.case((label < names[middle], lower), else_=upper)


def _hashed_bit(label: Expression, hashing: Hashing) -> Expression:
    """The bit of a label, by some bits of PostgreSQL's hash."""
    hashed = sa.func.hashtextextended(label, sa.literal_column(str(hashing.seed)), type_=sa.BigInteger)
    place = hashed.bitwise_rshift(sa.literal_column(str(hashing.shift))).bitwise_and(sa.literal_column(str(_PLACES)))
    return _bit(0).bitwise_lshift(sa.cast(place, sa.Integer))


def _by_xor(numbers: Sequence[Expression]) -> Expression:
    return reduce(lambda one, other: one.bitwise_xor(other), numbers)


def _postgres_hash(dialect: Dialect, column: Expression, kind: Kind, seed: int) -> Expression:
    """A hash of 64 bits, by the kind of the column: hashing numbers and dates as text takes three times as long."""
    if kind in (*NUMERIC, "boolean"):
        function, value = "hashfloat8extended", dialect.number(column, as_it_is(kind))
    elif kind in ("timestamp", "timestamptz", "date"):
        function, value = "timestamp_hash_extended", _without_zone(column, kind)
    else:
        function, value = "hashtextextended", dialect.ordered(dialect.text(column))
    hashed: Expression = getattr(sa.func, function)(value, sa.literal_column(str(seed)), type_=sa.BigInteger)
    return sa.func.coalesce(hashed, sa.literal_column("0", sa.BigInteger))


def _without_zone(column: Expression, kind: Kind) -> Expression:
    """A date of PostgreSQL as a timestamp in UTC without time zone."""
    if kind != "timestamptz":
        return sa.cast(column, sa.TIMESTAMP())
    # a cast, or the name of a zone, works out the calendar's day of each row, which takes four times as long
    return sa.func.timezone(sa.literal_column("INTERVAL '0'"), column)


def _postgres_kind(name: str, category: str) -> Kind:
    if name in ("int2", "int4", "int8"):
        return "integer"
    named: dict[str, Kind] = {
        "timestamp": "timestamp", "timestamptz": "timestamptz", "date": "date", "float4": "float32",
        "numeric": "decimal", "bytea": "bytes",
    }  # fmt: skip
    categories: dict[str, Kind] = {"N": "number", "S": "text", "E": "text", "B": "boolean"}
    return named.get(name) or categories.get(category, "other")


def _declared(connection: sa.Connection, relation: TableName) -> dict[str, str]:
    info = sa.func.pragma_table_info(*reversed(relation.parts)).table_valued("name", "type")
    return {name: declared or "" for name, declared in connection.execute(sa.select(info.c.name, info.c.type))}


# SQLite's own functions know no microseconds, round 59.9996 s into the next window, take 2026-02-31
# for March 3 and 'now' for a date: so SQLite calls this one.
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1, _YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
_1970_PLAIN = datetime(1970, 1, 1)  # noqa: DTZ001 - to be compared with dates that have no time zone either


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


def microseconds_of(when: datetime) -> int:
    """Microseconds since 1970 of a date; without a time zone it is UTC. Kept fast: SQLite calls it for every row."""
    passed = when - (_1970 if when.tzinfo else _1970_PLAIN)
    return (passed.days * DAY_S + passed.seconds) * 1_000_000 + passed.microseconds


def utc_text(when: datetime) -> str:
    """A date with microseconds in UTC as text, with four digits for the year.

    >>> utc_text(datetime(1, 1, 1, 2, tzinfo=UTC))
    '0001-01-01 02:00:00.000000'
    """
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def hash_of(text: str) -> int:
    """A whole number of 32 bits for a text, so that SQLite's sum of 64 bits holds two billion of them.

    >>> hash_of("'t1',0.9"), hash_of("'t1',0.8")
    (3714999415, 1696636610)
    """
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])


def _md5(value: object) -> str | None:
    return None if value is None else hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()


def add_functions(connection: sqlite3.Connection) -> None:
    """Give a connection what SQLite lacks: a parser of dates, a hash and md5."""
    connection.create_function("calmon_instant", 1, microseconds, deterministic=True)
    connection.create_function("calmon_hash", 1, hash_of, deterministic=True)
    connection.create_function("md5", 1, _md5, deterministic=True)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
