"""duckdb_engine's dialect with SQLAlchemy's cache of compiled statements, which duckdb_engine turns off.

The statements of a reading are long, and the same for every window. Compiling them again takes longer than DuckDB
needs to run them over a few thousand rows.
"""

from __future__ import annotations

import duckdb_engine
from sqlalchemy.dialects import registry

DRIVER = "duckdb+remembering"
registry.register(DRIVER.replace("+", "."), __name__, "Remembering")


class Remembering(duckdb_engine.Dialect):
    """Compiles a statement once per engine, as the dialects of SQLite and PostgreSQL do."""

    supports_statement_cache = True
