"""The identity of the history; who published which thresholds; an index that finds labels without reading verdicts.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

history = sa.table(
    "history", sa.column("id", sa.Integer()), sa.column("history_id", sa.String()), sa.column("epoch", sa.BigInteger()),
    sa.column("version", sa.BigInteger()), sa.column("confirmed", sa.Boolean()), sa.column("newest_at", sa.DateTime()),
    sa.column("why", sa.Text()), sa.column("changed_by", sa.Text()),
)
events = sa.table("switch_events", sa.column("at", sa.DateTime()))
deliveries = sa.table(
    "deliveries", sa.column("state", sa.String()), sa.column("next_attempt_at", sa.DateTime())
)


def upgrade() -> None:
    """Create the tables and the index, and give the history its identity."""
    op.create_table(
        "history",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("history_id", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("newest_at", sa.DateTime()),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.DateTime()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
    )
    op.create_table(
        "publications",
        sa.Column("sequence", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_publications")),
    )
    op.create_index("ix_verdicts_source_label", "verdicts", ["source", "label"])
    _identify()
    _wake_deliveries()


def _identify() -> None:
    """Insert the identity. Times in the future come from a clock that was ahead, and are ignored."""
    now = datetime.now(UTC).replace(tzinfo=None)
    newest = op.get_bind().execute(sa.select(sa.func.max(events.c.at)).where(events.c.at <= now)).scalar()
    op.execute(history.insert().values(
        id=1, history_id=str(uuid.uuid4()), epoch=0, version=0, confirmed=True, newest_at=newest, why="", changed_by=""
    ))


def _wake_deliveries() -> None:
    """Make deliveries due now that a clock ahead has postponed for months."""
    now = datetime.now(UTC).replace(tzinfo=None)
    waiting = deliveries.c.state.in_(["pending", "failed"]) & (deliveries.c.next_attempt_at > now + timedelta(days=2))
    op.execute(deliveries.update().where(waiting).values(next_attempt_at=now))


def downgrade() -> None:
    """Remove the tables and the index."""
    op.drop_index("ix_verdicts_source_label", "verdicts")
    op.drop_table("publications")
    op.drop_table("history")
