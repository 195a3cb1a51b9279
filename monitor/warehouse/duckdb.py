"""DuckDB: the embedded default, also over Parquet and CSV files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql.expression import FromClause

from monitor.config.relation import CsvFiles, ParquetFiles, Relation, TableName
from monitor.warehouse.csv_lines import CsvRows, csv_rows
from monitor.warehouse.csv_rejects import UnreadableLine
from monitor.warehouse.dates import BEFORE_ZONE, ISO
from monitor.warehouse.dialects import Arrays, CountsBits, Embedded, Expression, Kind, Named, Statement, literal_of
from monitor.warehouse.parquet_types import with_parts
from monitor.warehouse.relation import from_clause

CSV_ROWS, PARQUET_FILES, MADE_ROWS = "csv rows", "parquet files", "made rows"
"""Keys of a connection's ``info``: the rows of CSV files that it has read, by path, and tables made, by statement."""


@contextmanager
def _between_transactions(connection: sa.Connection) -> Iterator[Any]:
    """The driver's connection, without a transaction: a statement that fails in here ends none."""
    driver: Any = connection.connection.driver_connection
    driver.commit()
    try:
        yield driver
    finally:
        driver.begin()


class DuckDB(Embedded, CountsBits):
    """DuckDB, opened read-only, which reads only the files that relations name (``confined.py``)."""

    name = "duckdb"
    kinds: ClassVar[Mapping[str, Kind]] = {"float": "float32", "json": "text", "blob": "bytes"}
    date_kinds = frozenset({"timestamp", "timestamptz", "date", "text"})
    date_remedy = "make it a timestamp in a view (epoch seconds: to_timestamp(...))"
    reads_files = True
    name_parts = 3
    usual_schema = literal_of("main")
    slow_to_open = True
    whole = Named("HUGEINT")

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

    def at_hand_once(self, connection: sa.Connection, relations: Sequence[str], rows: Statement) -> FromClause | None:
        """A temporary table made of CSV files that are copied into such tables."""
        copied: dict[str, CsvRows] = connection.info.get(CSV_ROWS, {})
        if not all(each in copied and isinstance(copied[each].relation, TableName) for each in relations):
            return None
        made: dict[Any, str] = connection.info.setdefault(MADE_ROWS, {})
        statement = rows.compile(dialect=connection.dialect)
        values = tuple(statement.params[name] for name in statement.positiontup or ())
        if (str(statement), values) not in made:
            table = f"calmon_rows_{len(made)}"
            with _between_transactions(connection) as driver:
                driver.execute(f"CREATE TEMP TABLE {table} AS {statement}", values)
            made[str(statement), values] = table
        return from_clause(TableName((made[str(statement), values],)))

    def unreadable_lines(self, connection: sa.Connection) -> Mapping[str, Sequence[UnreadableLine]]:
        """The lines of CSV files that are no rows, by path."""
        known: dict[str, CsvRows] = connection.info.get(CSV_ROWS, {})
        return {path: rows.unreadable for path, rows in known.items()}

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
        zoned = kind == "timestamptz"
        cast: Expression = sa.cast(column, sa.TIMESTAMP(timezone=zoned))
        if kind == "date":
            return cast
        # nanoseconds, which pandas writes, cannot be compared with the year 9999, and the cast would round them into
        # the next window. DuckDB knows the type before it reads, so no row costs more. The cast itself is for infinity
        has_nanoseconds = sa.func.typeof(column) == sa.literal_column(
            f"'{'TIMESTAMPTZ_NS' if zoned else 'TIMESTAMP_NS'}'"
        )
        make = sa.func.make_timestamptz if zoned else sa.func.make_timestamp
        whole: Expression = sa.func.epoch_ns(column).op("//")(sa.literal_column("1000"))
        return sa.case((has_nanoseconds, sa.func.coalesce(make(whole), cast)), else_=cast)

    def byte_length(self, text: Expression) -> Expression:
        """How many bytes a text has in UTF-8."""
        return sa.func.strlen(text)

    def row_hash(self, columns: Sequence[tuple[Expression, Kind]]) -> Expression:
        """DuckDB hashes values of any type, and NULL, without making text of them; 128 bits hold the sum."""
        return sa.func.hash(*(column for column, _ in columns), type_=sa.BigInteger)

    def arrays(self, connection: sa.Connection, statement: sa.Executable) -> Arrays:
        """Straight into numpy: three times as fast as rows."""
        cursor: Any = connection.execute(statement).cursor
        found = {}
        for name, column in cursor.fetchnumpy().items():
            found[name] = np.asarray(column)
            if np.ma.is_masked(column):  # NULL is None
                found[name] = found[name].astype(object)
                found[name][np.ma.getmaskarray(column)] = None
        return found
