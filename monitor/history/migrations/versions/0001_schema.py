"""The schema: the tables of `monitor.history.tables` and the views that read them.

A later migration that changes a table names what it changes, and drops and creates again the views of that table.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import uuid

from alembic import op

from monitor.history.tables import VIEWS, history, metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create tables and views, and give the history its identity."""
    connection = op.get_bind()
    metadata.create_all(connection, checkfirst=False)
    for name, select in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {select}")
    identity = {"history_id": str(uuid.uuid4()), "epoch": 0, "version": 0, "confirmed": True}
    op.execute(history.insert().values(id=1, why="", changed_by="", **identity))


def downgrade() -> None:
    """Drop them."""
    connection = op.get_bind()
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
    metadata.drop_all(connection)
