"""Whose good windows are counted, apart from who changed the switch last.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; where it is empty, who changed the switch is whose windows are counted, as before."""
    op.add_column("switches", sa.Column("counts", sa.Text()))


def downgrade() -> None:
    """Take it away again."""
    with op.batch_alter_table("switches") as batch:
        batch.drop_column("counts")
