"""Notes that the flows leave: when the watchdog last looked, which runs wait, which flow failed.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "notes",
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_notes")),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("notes")
