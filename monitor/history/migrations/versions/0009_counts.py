"""The run whose good windows are counted for a switch, apart from who changed it last.

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
    """Add the column; if it is empty, the windows of the last one who changed the switch are counted, as before."""
    op.add_column("switches", sa.Column("counts", sa.Text()))


def downgrade() -> None:
    """Drop the column."""
    with op.batch_alter_table("switches") as batch:
        batch.drop_column("counts")
