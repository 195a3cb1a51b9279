"""Spark: a cluster over Spark Connect, a session in this process, or a SQL warehouse of Databricks.

Statements for all of them are compiled by the SQLAlchemy dialect of Databricks, which the extra ``spark`` installs;
``spark_driver`` runs them on a Spark session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from monitor.warehouse.dialects import (
    FIXED_POINT,
    Arrays,
    CountsBits,
    Expression,
    Kind,
    OfTexts,
    days_of_microseconds,
    double,
    rows_as_arrays,
    utc_text,
)


class Spark(CountsBits, OfTexts):
    """NaN is above every number and equals itself, as in PostgreSQL; strings are compared by their bytes."""

    name: ClassVar[str] = "spark"
    usual_schema: ClassVar[Expression] = sa.func.current_schema()
    kinds: ClassVar[Mapping[str, Kind]] = {
        "interval": "other", "timestamp_ntz": "timestamp", "timestamp": "timestamptz", "float": "float32",
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    }  # fmt: skip
    date_remedy: ClassVar[str] = "make it a timestamp in a view: try_to_timestamp(...)"
    name_parts: ClassVar[int] = 3
    naive: ClassVar[str] = "TIMESTAMP_NTZ"

    def moment(self, when: datetime, kind: Kind) -> Expression:
        """A constant, so that partitions and files are left out by it."""
        if kind in ("timestamp", "date"):
            return super().moment(when, kind)
        text = sa.func.concat(sa.literal(utc_text(when), sa.Text), sa.literal_column("'+00:00'"))
        return sa.cast(text, sa.TIMESTAMP(timezone=True))

    def days_before(self, instant: Expression, moment: datetime) -> Expression:
        """By whole microseconds."""
        return days_of_microseconds(sa.func.unix_micros(sa.cast(instant, sa.TIMESTAMP(timezone=True))), moment)

    def exact_sum(self, value: Expression, *, bounded: bool) -> Expression:
        """Spark's floor() gives 64 bits, so values that may be larger are floored as doubles.

        Of bounded values the upper and the lower bits are summed separately, so that the sums fit into 64 bits for any
        number of rows. A sum of decimals would take longer.
        """
        up = value * FIXED_POINT + sa.literal_column("0.5D")
        if not bounded:
            return double(sa.func.sum(sa.cast(_floor(up), self.whole))) / FIXED_POINT
        number = sa.func.floor(up)
        parts = (
            sa.func.shiftright(number, sa.literal_column("20")),
            number.bitwise_and(sa.literal_column("1048575")),
        )
        upper, lower = (double(sa.func.sum(part)) for part in parts)
        return (upper * sa.literal_column("1048576.0D") + lower) / FIXED_POINT

    def exact_sum_of_few(self, value: Expression) -> Expression:
        """In doubles, as other engines do it, with a floor that gives one."""
        return sa.func.sum(_floor(value * FIXED_POINT + sa.literal_column("0.5D"))) / FIXED_POINT

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """30 bits, so that the sum fits into 64 for 17 billion rows, since Spark sums decimals slowly.

        NULL leaves the hash unchanged, so IS NULL is hashed too.
        """
        values = (each for column, _ in columns for each in (column, column.is_(None)))
        return sa.func.shiftright(sa.func.xxhash64(*values), sa.literal_column("34"), type_=sa.BigInteger)

    def limit(self, connection: sa.Connection, seconds: float) -> None:
        """Nothing but the time limit of the reading."""

    def cancel(self, driver: Any) -> None:
        """End the statements of the driver's connection; called from another thread."""
        driver.cancel()

    def arrays(self, connection: sa.Connection, statement: sa.Executable) -> Arrays:
        """Straight into numpy, through Arrow."""
        result = connection.execute(statement)
        table = getattr(result.cursor, "table", None)
        if table is None:  # the driver of Databricks
            return rows_as_arrays(result)
        names = list(result.keys())
        return {name: column.to_numpy() for name, column in zip(names, table.columns, strict=True)}


def _floor(value: Expression) -> Expression:
    """The floor of a double as a double."""
    return value - sa.func.pmod(value, sa.literal_column("1.0D"))


def spark_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    """A cluster over Spark Connect; without a host, a session in this process."""
    import pyspark  # noqa: F401, PLC0415 - Databricks' dialect may be installed without it

    from monitor.warehouse import spark_driver  # noqa: PLC0415 - imports the driver, which is an extra

    return sa.create_engine(url.set(drivername=spark_driver.DRIVER), poolclass=NullPool)


def databricks_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    """A SQL warehouse of Databricks: ``databricks://token:...@host?http_path=...&catalog=...&schema=...``."""
    from monitor.warehouse import spark_driver  # noqa: PLC0415 - as above

    return sa.create_engine(url.set(drivername=spark_driver.DATABRICKS), pool_size=2)
