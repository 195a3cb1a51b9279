"""Columns for what was parsed from sentences: Slack's error codes, why nothing was judged, several reasons.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

UNCERTAIN, NOT_EVALUATED = "may have been sent: ", "not evaluated: "
#: The beginning of an error's text -> Slack's error code.
CODES = {
    "message_deleted": "message_not_found", "ratelimited": "ratelimited", "channel_not_found": "channel_not_found",
    "is_archived": "is_archived", "not_in_channel": "not_in_channel", "restricted_action": "restricted_action",
}
LONGEST_REASON = 64  # of incidents.reason
deliveries = sa.table(
    "deliveries", sa.column("error", sa.Text()), sa.column("error_code", sa.String()),
    sa.column("uncertain", sa.Boolean()),
)
switches = sa.table(
    "switches", sa.column("state", sa.String()), sa.column("by_operator", sa.Boolean()), sa.column("reason", sa.Text()),
    sa.column("not_evaluated", sa.String()),
)
incidents = sa.table(
    "incidents", sa.column("id", sa.String()), sa.column("rule", sa.String()), sa.column("reason", sa.String()),
    sa.column("further_reasons", sa.JSON()),
)


def upgrade() -> None:
    """Add the columns and fill them from what the sentences say."""
    op.add_column("deliveries", sa.Column("error_code", sa.String(64)))
    op.add_column("deliveries", sa.Column("uncertain", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("switches", sa.Column("not_evaluated", sa.String(64)))
    op.add_column("incidents", sa.Column("further_reasons", sa.JSON()))
    error = deliveries.c.error
    op.execute(deliveries.update().where(error.startswith(UNCERTAIN, autoescape=True)).values(uncertain=True))
    for beginning, code in CODES.items():
        begins = error.startswith(beginning, autoescape=True)
        behind = error.startswith(f"{UNCERTAIN}{beginning}", autoescape=True)
        op.execute(deliveries.update().where(begins | behind).values(error_code=code))
    by_run = (switches.c.state == "off") & ~switches.c.by_operator
    unjudged = by_run & switches.c.reason.startswith(NOT_EVALUATED, autoescape=True)
    why = sa.func.substr(switches.c.reason, len(NOT_EVALUATED) + 1)
    op.execute(switches.update().where(unjudged).values(not_evaluated=why))
    _split_reasons()


def _split_reasons() -> None:
    several = incidents.c.rule.startswith("monitor:") & incidents.c.reason.contains(", ")
    for row in op.get_bind().execute(sa.select(incidents.c.id, incidents.c.reason).where(several)).all():
        first, *further = row.reason.split(", ")
        change = incidents.update().where(incidents.c.id == row.id)
        op.execute(change.values(reason=first, further_reasons=further))


def downgrade() -> None:
    """Drop the columns. As many of several reasons stay as fit into the column."""
    several = sa.select(incidents.c.id, incidents.c.reason, incidents.c.further_reasons)
    for row in op.get_bind().execute(several.where(incidents.c.rule.startswith("monitor:"))).all():
        joined = row.reason
        for further in row.further_reasons or ():
            joined = f"{joined}, {further}" if len(f"{joined}, {further}") <= LONGEST_REASON else joined
        op.execute(incidents.update().where(incidents.c.id == row.id).values(reason=joined))
    for table, names in (
        ("deliveries", ("error_code", "uncertain")), ("switches", ("not_evaluated",)),
        ("incidents", ("further_reasons",)),
    ):  # fmt: skip
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.drop_column(name)
