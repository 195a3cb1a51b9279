"""A SELECT that makes numbers and dates of the columns of a table that are text, in the SQL of its engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.dialects import postgresql

from monitor.warehouse.dates import to_postgres
from monitor.warehouse.survey import ColumnSample

ENGINES = ("duckdb", "postgresql")
"""The engines whose SQL is known here: both quote names as PostgreSQL does."""
_quoted = postgresql.dialect().identifier_preparer.quote  # type: ignore[no-untyped-call]


def reading_text(
    relation: str, columns: Sequence[ColumnSample], settings: Mapping[str, Any], engine: str
) -> str | None:
    """The SELECT by which scores and dates are numbers and dates; None where they are already.

    ``settings`` is a proposal for the columns, with types as files have them.

    >>> columns = [ColumnSample("nr", "number", (), 0), ColumnSample("p", "text", (), 0)]
    >>> reading_text("t", columns, {"types": {"p": "number"}}, "duckdb")
    "SELECT nr, TRY_CAST(trim(replace(replace(p, '%', ''), ',', '.')) AS DOUBLE) AS p FROM t"
    """
    types, named = settings.get("types", {}), settings.get("columns", {})
    dates = {named.get(ours, ours): types.get(ours, "") for ours in ("resolved_at", "predicted_at")}
    made = {
        column.name: _number(_quoted(column.name), engine)
        if types.get(column.name) == "number"
        else _date(_quoted(column.name), dates.get(column.name), engine)
        for column in columns
        if column.kind == "text"
    }
    if not any(made.values()):
        return None
    shown = (f"{made[c.name]} AS {_quoted(c.name)}" if made.get(c.name) else _quoted(c.name) for c in columns)
    return f"SELECT {', '.join(shown)} FROM {relation}"


def _number(column: str, engine: str) -> str:
    plain = f"trim(replace(replace({column}, '%', ''), ',', '.'))"
    if engine == "duckdb":
        return f"TRY_CAST({plain} AS DOUBLE)"
    return f"CASE WHEN {plain} ~* '^-?[0-9]+([.][0-9]+)?(e-?[0-9]+)?$' THEN CAST({plain} AS DOUBLE PRECISION) END"


def _date(column: str, pattern: str | None, engine: str) -> str | None:
    """The date, without a time zone where its text has none; None of a column that is no date, or is read as it is."""
    if pattern is None or (engine == "duckdb" and not pattern):
        return None
    if engine == "duckdb":
        return f"try_strptime({column}, '{pattern}')"
    given = f"NULLIF(trim({column}), '')"
    if not pattern:
        return f"CAST({given} AS TIMESTAMP WITH TIME ZONE)"
    made = f"to_timestamp({given}, '{to_postgres(pattern)}')"
    return made if "%z" in pattern else f"CAST({made} AS TIMESTAMP)"
