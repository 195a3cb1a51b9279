"""What scores claimed and what came true of each part of a label's rows: rules of scope segments read these.

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
    """Add the column; windows that were read before have none, and are left out."""
    op.add_column("counts", sa.Column("segments", sa.JSON()))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("counts", "segments")
