"""Promises of each population (what scores claimed, what came true), so that a year's evidence need not read counts.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; if it is empty, the counts are read instead."""
    op.add_column("counts", sa.Column("promises", sa.JSON()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("counts", "promises")
