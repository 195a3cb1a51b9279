"""Indexes for the pages of the dashboard: the grid of verdicts without their details, recent changes of switches.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_GRID = ["source", "label", "schedule", "window_start", "current", "rule", "outcome", "value", "threshold", "baseline"]


def upgrade() -> None:
    """Add the columns that the grid shows to the index on subjects, and index the times of switch events."""
    op.drop_index("ix_verdicts_subject", "verdicts")
    op.create_index("ix_verdicts_subject", "verdicts", _GRID)
    op.create_index("ix_switch_events_at", "switch_events", ["at"])


def downgrade() -> None:
    """Restore the shorter index."""
    op.drop_index("ix_switch_events_at", "switch_events")
    op.drop_index("ix_verdicts_subject", "verdicts")
    op.create_index("ix_verdicts_subject", "verdicts", _GRID[:4])
