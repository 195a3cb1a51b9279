"""duckdb_engine's dialect with SQLAlchemy's memory of compiled statements, which duckdb_engine leaves off.

The statements of a reading are long, and the same for every window: to compile them anew takes longer than DuckDB
takes to answer over a few thousand rows.
"""

from __future__ import annotations

import duckdb_engine
from sqlalchemy.dialects import registry

DRIVER = "duckdb+remembering"
registry.register(DRIVER.replace("+", "."), __name__, "Remembering")


class Remembering(duckdb_engine.Dialect):
    """Compiles a statement once an engine, as the dialects of SQLite and PostgreSQL do."""

    supports_statement_cache = True
