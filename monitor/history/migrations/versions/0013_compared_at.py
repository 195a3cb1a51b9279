"""When a message was last found to say of switches what is so: until a switch moves again, it is not composed anew.

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
    """Add the column; where it is empty, the message is compared once more."""
    op.add_column("deliveries", sa.Column("compared_at", sa.DateTime()))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("deliveries", "compared_at")
