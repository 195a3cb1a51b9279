"""Indexes for the queries of every run, so that their cost does not grow with the age of the history.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NEW = (
    ("ix_verdicts_subject", "verdicts", ["source", "label", "schedule", "window_start"]),
    ("ix_deliveries_edit", "deliveries", ["root", "operation", "sequence"]),
    ("ix_deliveries_root_state", "deliveries", ["root", "state"]),
    ("ix_deliveries_sent_at", "deliveries", ["sent_at"]),
    ("ix_incidents_label", "incidents", ["label", "opened_at"]),
    ("ix_incidents_root", "incidents", ["root"]),
    ("ix_incidents_resolved_at", "incidents", ["resolved_at"]),
    ("ix_switch_events_switch", "switch_events", ["source", "label"]),
    ("ix_runs_window_start", "runs", ["window_start"]),
)
_OLD = (
    ("ix_verdicts_source_label", "verdicts", ["source", "label"]),
    ("ix_deliveries_root", "deliveries", ["root"]),
)


def upgrade() -> None:
    """Create them; two of them replace shorter ones."""
    _replace(_OLD, _NEW)


def downgrade() -> None:
    """Restore the shorter ones."""
    _replace(_NEW, _OLD)


def _replace(old: tuple[tuple[str, str, list[str]], ...], new: tuple[tuple[str, str, list[str]], ...]) -> None:
    for name, table, _ in old:
        op.drop_index(name, table)
    for name, table, columns in new:
        op.create_index(name, table, columns)
