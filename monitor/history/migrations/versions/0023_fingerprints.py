"""Fingerprints of readings: if that of the previous window is unchanged, a run does not read its rows again.

Revision ID: 0023
Revises: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; windows that were read before have no fingerprint, and are read again as before."""
    op.add_column("readings", sa.Column("fingerprint", sa.String(length=64)))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("readings", "fingerprint")
