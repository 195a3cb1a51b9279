"""What scores claimed and what came true of each population, beside the counts: evidence over a year reads only these.

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
    """Add the column; where it is empty, the counts themselves are read."""
    op.add_column("counts", sa.Column("promises", sa.JSON()))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("counts", "promises")
