"""By what a run sees that the rows of the window before are as they were: it then reads them no second time.

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
    """Add the column; windows that were read before have none, and are read again as ever."""
    op.add_column("readings", sa.Column("fingerprint", sa.String(length=64)))


def downgrade() -> None:
    """Take it away again."""
    op.drop_column("readings", "fingerprint")
