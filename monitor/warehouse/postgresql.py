"""PostgreSQL: decimals, the server's hash, and a limit that the server keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.config.relation import Relation
from monitor.warehouse.dialects import (
    FAULTS,
    FIXED_POINT,
    ONE,
    ZERO,
    Dialect,
    Expression,
    Kind,
    Statement,
    double,
    in_catalogue,
    nearest,
)

_SMALLEST: Expression = sa.literal_column("1e-300")  # of positive decimals that are cast to a double
_LARGEST: Expression = sa.literal_column("1e300")
_AFTER_CANCEL_S = 5  # seconds for a request to cancel; the server's own limit comes later


class PostgreSQL(Dialect):
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

    def wide(self, number: Expression) -> Expression:
        """A decimal. Above 2^53 by its text, since a direct cast keeps 15 digits; a cast to 64 bits keeps all below."""
        exactly = number.between(sa.literal_column("-9007199254740992e0"), sa.literal_column("9007199254740992e0"))
        small = sa.cast(sa.cast(number, sa.BigInteger), sa.Numeric)
        return sa.case((exactly, small), else_=sa.cast(sa.cast(number, sa.Text), self.whole))

    def ordered(self, text: Expression) -> Expression:
        """The text, compared by its bytes and not by the rules of a language."""
        return sa.collate(text, "C")

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """By the server's hash of the row as text, in which doubles have all digits, and NULL is nothing."""
        row = self.ordered(self.text(sa.func.row(*(column for column, _ in columns))))
        return sa.func.hashtextextended(row, ZERO, type_=sa.BigInteger)

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """Set the server's own time limit for statements, in case this process ends before it cancels one."""
        milliseconds = str(round((seconds + _AFTER_CANCEL_S) * 1000))
        connection.execute(sa.select(sa.func.set_config("statement_timeout", milliseconds, sa.true())))

    def cancel(self, driver: Any) -> None:
        """End the statement that runs on the driver's connection; called from another thread."""
        driver.cancel_safe(timeout=_AFTER_CANCEL_S)


def _postgres_kind(name: str, category: str) -> Kind:
    if name in ("int2", "int4", "int8"):
        return "integer"
    named: dict[str, Kind] = {
        "timestamp": "timestamp", "timestamptz": "timestamptz", "date": "date", "float4": "float32",
        "numeric": "decimal", "bytea": "bytes",
    }  # fmt: skip
    categories: dict[str, Kind] = {"N": "number", "S": "text", "E": "text", "B": "boolean"}
    return named.get(name) or categories.get(category, "other")
