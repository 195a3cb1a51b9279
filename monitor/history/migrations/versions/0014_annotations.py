"""Annotations: notes of people at a time of a source or label, shown on every time axis.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "annotations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("added_at", sa.DateTime(), nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("removed_at", sa.DateTime()),
        sa.Column("removed_by", sa.Text()),
        sa.Column("removed_reason", sa.Text()),
        sa.Column("key", sa.String(length=400)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotations")),
        sa.UniqueConstraint("key", name=op.f("uq_annotations_key")),
    )
    op.create_index("ix_annotations_source", "annotations", ["source", "at"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_index("ix_annotations_source", table_name="annotations")
    op.drop_table("annotations")
