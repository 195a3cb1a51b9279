"""The score from which each label may act alone, for the gate.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table('thresholds',
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('automate_at', sa.Float(precision=53), nullable=False),
    sa.Column('published_at', sa.DateTime(), nullable=False),
    sa.PrimaryKeyConstraint('source', 'label', name=op.f('pk_thresholds'))
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table('thresholds')
