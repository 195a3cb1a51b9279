"""Verdicts beyond their threshold that were not confirmed have an outcome of their own.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

UNCONFIRMED = ("not_significant_in_family", "streak_incomplete")
verdicts = sa.table("verdicts", sa.column("outcome", sa.String()), sa.column("reason", sa.String()))


def _rename(before: str, after: str) -> None:
    of_these = (verdicts.c.outcome == before) & verdicts.c.reason.in_(UNCONFIRMED)
    op.execute(verdicts.update().where(of_these).values(outcome=after))


def upgrade() -> None:
    """What was called ok although it was beyond the threshold is unconfirmed."""
    _rename("ok", "unconfirmed")


def downgrade() -> None:
    """Call it ok again."""
    _rename("unconfirmed", "ok")
