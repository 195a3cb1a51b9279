"""Verdicts beyond their threshold that were not confirmed get their own outcome, unconfirmed.

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
    """Change the outcome of verdicts that are ok although beyond the threshold to unconfirmed."""
    _rename("ok", "unconfirmed")


def downgrade() -> None:
    """Change it back to ok."""
    _rename("unconfirmed", "ok")
