"""The segments of a label that are off while the label is on, with their events, also in the public views.

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TABLES = ("switches", "switch_events")
_ABOUT = "source, NULLIF(label, '') AS label"
_VIEWS = {
    "v1_switches": (
        f"SELECT {_ABOUT}, state, lease_until, hold_until, by_operator, actor, reason, verdict, changed_at",
        "switches",
    ),
    "v1_switch_events": (
        f"SELECT id, {_ABOUT}, at, kind, from_state, to_state, lease_until, until, actor, reason, verdict",
        "switch_events",
    ),
}


def upgrade() -> None:
    """Add the columns, also at the end of the views."""
    for table in _TABLES:
        op.add_column(table, sa.Column("segments", sa.JSON()))
    _make_views(", segments")


def downgrade() -> None:
    """Drop the columns. A label with a segment that is off becomes off as a whole: the older tables have no segments."""
    _make_views("")
    switches = sa.table("switches", sa.column("segments", sa.JSON()), sa.column("state", sa.String()))
    text = sa.cast(switches.c.segments, sa.Text())
    has = sa.and_(switches.c.segments.is_not(None), text != "null", switches.c.state == "on")
    op.execute(switches.update().where(has).values(state="off"))
    for table in _TABLES:
        op.drop_column(table, "segments")


def _make_views(more: str) -> None:
    for name, (select, table) in _VIEWS.items():
        op.execute(f"DROP VIEW {name}")
        op.execute(f"CREATE VIEW {name} AS {select}{more} FROM {table}")
