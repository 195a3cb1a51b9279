"""Promises of each segment of a label (what scores claimed, what came true), for rules with scope: segments.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; windows that were read before have no promises, and are left out."""
    op.add_column("counts", sa.Column("segments", sa.JSON()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("counts", "segments")
