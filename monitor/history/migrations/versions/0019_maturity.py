"""How many items of a window have their truth, and estimates as they were before late truths.

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "maturities",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("window_start", sa.DateTime(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("known_at", sa.DateTime(), nullable=False),
        sa.Column("window_end", sa.DateTime(), nullable=False),
        sa.Column("window_name", sa.String(length=32), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("known", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Float(precision=53)),
        sa.Column("low", sa.Float(precision=53)),
        sa.Column("high", sa.Float(precision=53)),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("over", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint(
            "schedule", "window_start", "source", "label", "known_at", name=op.f("pk_maturities")
        ),
    )
    op.create_table(
        "restatements",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("window_start", sa.DateTime(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("restated_at", sa.DateTime(), nullable=False),
        sa.Column("estimates", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("schedule", "window_start", "source", "restated_at", name=op.f("pk_restatements")),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("restatements")
    op.drop_table("maturities")
