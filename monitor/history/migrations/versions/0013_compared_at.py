"""When a message was last found true about the switches: until a switch changes, it need not be composed again.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; if it is empty, the message is compared once more."""
    op.add_column("deliveries", sa.Column("compared_at", sa.DateTime()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("deliveries", "compared_at")
