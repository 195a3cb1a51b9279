"""The settings of a source under which a baseline was pinned and a window was read.

Revision ID: 0032
Revises: 0031
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_TABLES = ("baselines", "readings")


def upgrade() -> None:
    """Add the columns. Of what is stored already the settings are unknown (NULL), which is never "other settings"."""
    for table in _TABLES:
        op.add_column(table, sa.Column("settings", sa.JSON()))


def downgrade() -> None:
    """Drop the columns."""
    for table in _TABLES:
        op.drop_column(table, "settings")
