"""Incidents can be acknowledged, silenced and reopened; messages are edited in place.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

INCIDENT_COLUMNS = (
    ("resolved_by", sa.Text(), None), ("acknowledged_at", sa.DateTime(), None), ("acknowledged_by", sa.Text(), None),
    ("silenced_until", sa.DateTime(), None), ("silenced_by", sa.Text(), None), ("ok_windows", sa.Integer(), "0"),
    ("reopened", sa.Integer(), "0"), ("root", sa.String(length=64), None), ("version", sa.Integer(), "1"),
)
DELIVERY_COLUMNS = (
    ("operation", sa.String(length=16), "post"), ("root", sa.String(length=64), None), ("sequence", sa.Integer(), "0"),
)


def upgrade() -> None:
    """Add the columns and the table of events."""
    for table, columns in (("incidents", INCIDENT_COLUMNS), ("deliveries", DELIVERY_COLUMNS)):
        for name, kind, default in columns:
            op.add_column(table, sa.Column(name, kind, nullable=default is None, server_default=default))
    op.create_index(op.f("ix_deliveries_root"), "deliveries", ["root"])
    op.create_table(
        "incident_events",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("incident", sa.String(length=32), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("window", sa.String(length=32), nullable=False),
        sa.Column("verdict", sa.String(length=32)),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_incident_events")),
    )
    op.create_index(op.f("ix_incident_events_incident"), "incident_events", ["incident"])


def downgrade() -> None:
    """Remove them."""
    op.drop_table("incident_events")
    op.drop_index(op.f("ix_deliveries_root"), "deliveries")
    for table, columns in (("deliveries", DELIVERY_COLUMNS), ("incidents", INCIDENT_COLUMNS)):
        with op.batch_alter_table(table) as batch:
            for name, _, _ in columns:
                batch.drop_column(name)
