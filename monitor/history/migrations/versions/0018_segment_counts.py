"""The counts of each segment of a label, in windows and baselines, for rules that judge segments in one window.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_TABLES = ("counts", "baselines")


def upgrade() -> None:
    """Add the column; windows that were read before have no such counts, and are read again if a rule needs them."""
    for table in _TABLES:
        op.add_column(table, sa.Column("segment_data", sa.LargeBinary()))


def downgrade() -> None:
    """Drop the column."""
    for table in _TABLES:
        op.drop_column(table, "segment_data")
