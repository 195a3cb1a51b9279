"""Alembic runs this module for every command. `monitor.history.schema` passes it an open transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from monitor.history.reader import VERSION_TABLE
from monitor.history.tables import metadata


def run() -> None:
    """Migrate on the connection in the configuration. Raises RuntimeError if there is none."""
    connection: Connection | None = context.config.attributes.get("connection")
    if connection is None:
        raise RuntimeError("migrations run through `calmon db upgrade`")
    # SQLite cannot alter most things in place, so Alembic copies the table ("batch").
    context.configure(
        connection=connection, target_metadata=metadata, version_table=VERSION_TABLE, render_as_batch=True
    )
    with context.begin_transaction():
        context.run_migrations()


run()
