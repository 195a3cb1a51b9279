"""PostgreSQL: decimals, the server's hashes, its binary form, and a limit that the server keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.config.relation import Relation
from monitor.warehouse.dialects import (
    FAULTS,
    FIXED_POINT,
    NUMERIC,
    ONE,
    ZERO,
    Arrays,
    CountsBits,
    Expression,
    Kind,
    Named,
    Statement,
    as_it_is,
    double,
    in_catalogue,
    nearest,
)

BINARY = "calmon_binary"
"""The option of an execution by which PostgreSQL sends values in its binary form.

Only for statements whose columns are numbers or text: psycopg would give other types, such as enums, as bytes.
"""
_SMALLEST: Expression = sa.literal_column("1e-300")  # of positive decimals that are cast to a double
_LARGEST: Expression = sa.literal_column("1e300")
_FLOAT8, _WHOLE_NUMBERS = 701, frozenset({20, 21, 23})  # object ids of PostgreSQL's types, the same in every server
_NESTED = 50  # of so many columns the hashes are combined one by one: nested more deeply, 150 are too many for Python
_AFTER_CANCEL_S = 5  # seconds for a request to cancel; the server's own limit comes later


class PostgreSQL(CountsBits):
    """PostgreSQL, whose sessions are read-only transactions."""

    name = "postgresql"
    trims_characters = True
    faults = FAULTS

    def columns(self, connection: sa.Connection, relation: Relation, source: FromClause) -> list[tuple[str, Kind]]:
        """The columns of the relation, in order, with their kinds."""
        columns = in_catalogue(connection, source, "typname", "typcategory")
        return [(name, _postgres_kind(*of_type)) for name, of_type in columns]

    def once(self, rows: Statement) -> Statement:
        """Before an offset it computes no term twice; nor does it sort 200,000 groups in two processes more."""
        return rows.offset(ZERO)

    def usually(self, condition: Expression) -> Expression:
        """It expects equality with what is computed for one row in 200, and then joins rows with each other in turn."""
        return sa.case((condition, ONE)).is_not(None)

    def number(self, column: Expression, kind: Kind) -> Expression:
        """A decimal that no double holds becomes infinite, or 0: to cast it would end the statement."""
        number = super().number(column, kind)
        if kind != "decimal":
            return number
        infinite = double(sa.literal_column("'Infinity'"))
        return sa.case(
            (sa.and_(column > _SMALLEST, column < _LARGEST), number),  # first, since nearly all are here
            (column == sa.literal_column("'NaN'"), number),
            (column >= _LARGEST, infinite),
            (column <= -_LARGEST, -infinite),
            (column.between(-_SMALLEST, _SMALLEST), double(ZERO)),
            else_=number,
        )

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """Of ``bounded`` values sums of the upper and of the lower 20 bits, in doubles: exact up to 2^33 rows.

        PostgreSQL sums whole numbers of 64 bits as decimals, which is slow for many groups.
        """
        if not bounded:
            return super().exact_sum(value, bounded=False)
        bits: Expression = sa.literal_column("1048576.0e0")  # 2^20
        upper = sa.func.floor(value * bits)
        total = sa.func.sum(upper) * bits + sa.func.sum(nearest(value) - upper * bits)
        return double(total) / FIXED_POINT

    def sum_near(self, value: Expression, near: Expression, total: Expression) -> Expression:
        """By what is left beside ``near``, in one sum of doubles: exact up to 2^26 rows of a group."""
        return double(sa.func.sum(nearest(value) - near) + total) / FIXED_POINT

    def wide(self, number: Expression) -> Expression:
        """A decimal. Above 2^53 by its text, since a direct cast keeps 15 digits; a cast to 64 bits keeps all below."""
        exactly = number.between(sa.literal_column("-9007199254740992e0"), sa.literal_column("9007199254740992e0"))
        small = sa.cast(sa.cast(number, sa.BigInteger), sa.Numeric)
        return sa.case((exactly, small), else_=sa.cast(sa.cast(number, sa.Text), self.whole))

    def bit_count(self, number: Expression) -> Expression:
        """How many bits of a whole number of 64 bits are set."""
        return sa.func.bit_count(sa.cast(number, Named("BIT(64)")))

    def ordered(self, text: Expression) -> Expression:
        """The text, compared by its bytes and not by the rules of a language."""
        return sa.collate(text, "C")

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """By the server's own hashes.

        Columns are combined by XOR: if they were added up, the sum would stay the same when two rows exchange a value.
        """
        hashes = [self._hash(column, kind, seed) for seed, (column, kind) in enumerate(columns, start=1)]
        return _by_xor([_by_xor(hashes[at : at + _NESTED]) for at in range(0, len(hashes), _NESTED)])

    def _hash(self, column: Expression, kind: Kind, seed: int) -> Expression:
        """A hash of 64 bits, by the kind of the column: hashing numbers and dates as text takes three times as long."""
        if kind in (*NUMERIC, "boolean"):
            function, value = "hashfloat8extended", self.number(column, as_it_is(kind))
        elif kind in ("timestamp", "timestamptz", "date"):
            # a cast, or the name of a zone, works out the calendar's day of each row, which takes four times as long
            in_utc: Expression = sa.func.timezone(sa.literal_column("INTERVAL '0'"), column)
            value = in_utc if kind == "timestamptz" else sa.cast(column, sa.TIMESTAMP())
            function = "timestamp_hash_extended"
        else:
            function, value = "hashtextextended", self.ordered(self.text(column))
        hashed: Expression = getattr(sa.func, function)(value, sa.literal_column(str(seed)), type_=sa.BigInteger)
        return sa.func.coalesce(hashed, sa.literal_column("0", sa.BigInteger))

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """Set the server's own time limit for statements, in case this process ends before it cancels one."""
        milliseconds = str(round((seconds + _AFTER_CANCEL_S) * 1000))
        connection.execute(sa.select(sa.func.set_config("statement_timeout", milliseconds, sa.true())))

    def cancel(self, driver: Any) -> None:
        """End the statement that runs on the driver's connection; called from another thread."""
        driver.cancel_safe(timeout=_AFTER_CANCEL_S)

    def arrays(self, connection: sa.Connection, statement: sa.Executable) -> Arrays:
        """In the server's binary form, in which no number is written with 17 digits; and past SQLAlchemy's rows."""
        cursor: Any = connection.execute(statement, execution_options={BINARY: True}).cursor
        described, rows = cursor.description, cursor.fetchall()
        found = {}
        for place, (name, oid, *_) in enumerate(described):
            taken = itemgetter(place)  # to turn all rows into columns at once makes an object a row: twice as long
            kind: Any = np.float64 if oid == _FLOAT8 else np.int64 if oid in _WHOLE_NUMBERS else object
            try:
                found[name] = np.fromiter(map(taken, rows), kind, len(rows))  # NULL is NaN among doubles
            except TypeError:  # NULL is None among others
                found[name] = np.fromiter(map(taken, rows), object, len(rows))
        return found


def _by_xor(numbers: Sequence[Expression]) -> Expression:
    return reduce(lambda one, other: one.bitwise_xor(other), numbers)


def _postgres_kind(name: str, category: str) -> Kind:
    if name in ("int2", "int4", "int8"):
        return "integer"
    named: dict[str, Kind] = {
        "timestamp": "timestamp", "timestamptz": "timestamptz", "date": "date", "float4": "float32",
        "numeric": "decimal", "bytea": "bytes",
    }  # fmt: skip
    categories: dict[str, Kind] = {"N": "number", "S": "text", "E": "text", "B": "boolean"}
    return named.get(name) or categories.get(category, "other")
