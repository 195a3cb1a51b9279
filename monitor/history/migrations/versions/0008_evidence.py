"""The evidence of each acting rule on each label, filled from the stored verdicts; which rule a lease waits for.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NOT_READ = ("relation_error", "warehouse_failed")
ACTS = ("disable_automation", "block_scores")
KEY = ("schedule", "source", "label", "rule")
evidence = sa.table(
    "evidence",
    *(sa.column(name, sa.Text()) for name in ("source", "label", "rule", "schedule")),
    sa.column("windows", sa.JSON()),
    sa.column("judged_until", sa.DateTime()),
    sa.column("version", sa.Integer()),
)
verdicts = sa.table(
    "verdicts",
    *(sa.column(name, sa.Text()) for name in (*KEY, "id", "outcome", "reason")),
    sa.column("window_end", sa.DateTime()),
    sa.column("actions", sa.JSON()),
    sa.column("detail", sa.JSON()),
    sa.column("current", sa.Boolean()),
)


def upgrade() -> None:
    """Create the table and fill it. Only alerts.yaml says which rules act, so every rule gets a row."""
    op.create_table(
        "evidence",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("rule", sa.String(length=80), nullable=False),
        sa.Column("schedule", sa.String(length=16), nullable=False),
        sa.Column("windows", sa.JSON(), nullable=False),
        sa.Column("judged_until", sa.DateTime()),
        sa.Column("since", sa.DateTime()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("source", "label", "rule", name=op.f("pk_evidence")),
    )
    op.add_column("switch_events", sa.Column("waits_for", sa.String(length=80)))
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    last = _decisive(connection)
    judged = sa.select(*_key(), sa.func.max(verdicts.c.window_end).label("until")).where(
        verdicts.c.current, verdicts.c.reason.not_in(NOT_READ)
    )
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for found in connection.execute(judged.group_by(*_key())).mappings():
        key = (found["source"], found["label"], found["rule"])
        window = last.get((found["schedule"], *key))
        row = {
            "source": key[0],
            "label": key[1],
            "rule": key[2],
            "schedule": found["schedule"],
            "windows": [] if window is None else [window],
            "judged_until": found["until"],
            "version": 1,
        }
        if key not in rows or rows[key]["judged_until"] < found["until"]:  # the newer, if a rule changed its schedule
            rows[key] = row
    made = list(rows.values())
    for start in range(0, len(made), 500):
        connection.execute(evidence.insert(), made[start : start + 500])


def _key() -> list[Any]:
    return [verdicts.c[name] for name in KEY]


def _decisive(connection: sa.Connection) -> dict[tuple[str, ...], dict[str, Any]]:
    """The newest window of each rule that was ok or in breach; none if that is a breach that could not act."""
    decides = verdicts.c.current & verdicts.c.outcome.in_(("ok", "breach"))
    newest = sa.select(*_key(), sa.func.max(verdicts.c.window_end).label("end")).where(decides).group_by(*_key())
    last = newest.subquery()
    same = sa.and_(verdicts.c.window_end == last.c.end, *(verdicts.c[name] == last.c[name] for name in KEY))
    found = connection.execute(sa.select(verdicts).where(decides).join(last, same)).mappings()
    outcomes = ((tuple(row[name] for name in KEY), _outcome(row)) for row in found)
    return {key: outcome for key, outcome in outcomes if outcome is not None}


def _outcome(row: Any) -> dict[str, Any] | None:
    """One window of the evidence; None for a breach whose actions do not change the switch."""
    end: datetime = row["window_end"]
    actions = row["actions"]
    if row["outcome"] == "breach" and not set(actions) & set(ACTS):
        return None
    blocked = row["detail"].get("blocked", []) if row["outcome"] == "breach" else []
    if "disable_automation" in actions:
        blocked = []
    return {
        "window_end": f"{end.isoformat()}+00:00",
        "outcome": row["outcome"],
        "verdict": row["id"],
        "blocked": blocked,
    }


def downgrade() -> None:
    """Drop the table and the column."""
    with op.batch_alter_table("switch_events") as batch:
        batch.drop_column("waits_for")
    op.drop_table("evidence")
