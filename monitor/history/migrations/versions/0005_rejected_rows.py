"""The rejected rows of a reading by label, score and outcome, and the conclusions from them.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; it is empty for older readings."""
    op.add_column("readings", sa.Column("rejected", sa.JSON()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("readings", "rejected")
