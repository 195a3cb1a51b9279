"""Estimates refer to their series and window by id, which takes a quarter of the bytes. A view shows them as before.

Revision ID: 0022
Revises: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_NUMBERS = "value, plug_in, low, high, n, positives"
_SERIES = "source, label, segment, metric, population"
_FLOATS = ("value", "plug_in", "low", "high")
_VIEW = f"""
    CREATE VIEW estimates AS
    SELECT schedule, window_start, {_SERIES}, window_name, {_NUMBERS}, COALESCE(detail, {{nothing}}) AS detail
    FROM estimated JOIN estimate_windows ON estimate_windows.id = window_id
    JOIN estimate_series ON estimate_series.id = series_id
"""
_PUBLIC = f"""
    CREATE VIEW v1_estimates AS
    SELECT schedule, window_name, window_start, source, NULLIF(label, '') AS label, NULLIF(segment, '') AS segment,
           metric, population, value, low, high, plug_in, n, positives
    FROM estimates
"""


def upgrade() -> None:
    """Store the names of each series and window once, and replace the table by a view."""
    op.execute("DROP VIEW v1_estimates")
    _make_tables()
    op.execute(
        "INSERT INTO estimate_windows (schedule, window_start, window_name) SELECT schedule, window_start, "
        "MAX(window_name) FROM estimates GROUP BY schedule, window_start ORDER BY window_start, schedule"
    )
    op.execute(f"INSERT INTO estimate_series ({_SERIES}) SELECT DISTINCT {_SERIES} FROM estimates")
    same = " AND ".join(f"s.{name.strip()} = e.{name.strip()}" for name in _SERIES.split(","))
    op.execute(f"""
        INSERT INTO estimated (window_id, series_id, {_NUMBERS}, detail)
        SELECT w.id, s.id, {_NUMBERS}, CASE WHEN CAST(detail AS TEXT) IN ('{{}}', 'null') THEN NULL ELSE detail END
        FROM estimates e JOIN estimate_windows w ON w.schedule = e.schedule AND w.window_start = e.window_start
        JOIN estimate_series s ON {same}
        ORDER BY w.id, s.id
    """)
    op.drop_table("estimates")
    op.execute(_VIEW.format(nothing=_nothing()))
    op.execute(_PUBLIC)


def downgrade() -> None:
    """Store estimates in one table again."""
    for name in ("v1_estimates", "estimates"):
        op.execute(f"DROP VIEW {name}")
    _make_old_table()
    op.execute(f"""
        INSERT INTO estimates (schedule, window_start, {_SERIES}, window_name, {_NUMBERS}, detail)
        SELECT schedule, window_start, {_SERIES}, window_name, {_NUMBERS}, COALESCE(detail, {_nothing()})
        FROM estimated JOIN estimate_windows w ON w.id = window_id JOIN estimate_series s ON s.id = series_id
        ORDER BY window_start, schedule
    """)
    for name in ("estimated", "estimate_windows", "estimate_series"):
        op.drop_table(name)
    op.execute(_PUBLIC)


def _nothing() -> str:
    """An empty JSON object. It is not cast in SQLite, where a cast to JSON gives a number."""
    return "CAST('{}' AS JSON)" if op.get_bind().dialect.name == "postgresql" else "'{}'"


def _make_tables() -> None:
    op.create_table(
        "estimate_series",
        sa.Column("id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "label", "segment")),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("population", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_estimate_series")),
        sa.UniqueConstraint(
            "source", "label", "segment", "metric", "population", name=op.f("uq_estimate_series_source")
        ),
    )
    op.create_table(
        "estimate_windows",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("window_start", sa.DateTime(), nullable=False),
        sa.Column("window_name", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_estimate_windows")),
        sa.UniqueConstraint("schedule", "window_start", name=op.f("uq_estimate_windows_schedule")),
    )
    op.create_table(
        "estimated",
        sa.Column("window_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("series_id", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Float(precision=53)) for name in _FLOATS),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("positives", sa.Float(precision=53), nullable=False),
        sa.Column("detail", sa.JSON()),
        sa.PrimaryKeyConstraint("window_id", "series_id", name=op.f("pk_estimated")),
        sqlite_with_rowid=False,
    )


def _make_old_table() -> None:
    op.create_table(
        "estimates",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("window_start", sa.DateTime(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "label", "segment")),
        sa.Column("metric", sa.String(length=64), nullable=False),
        sa.Column("population", sa.String(length=16), nullable=False),
        sa.Column("window_name", sa.String(length=32), nullable=False),
        *(sa.Column(name, sa.Float(precision=53)) for name in _FLOATS),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("positives", sa.Float(precision=53), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint(
            "schedule",
            "window_start",
            "source",
            "label",
            "segment",
            "metric",
            "population",
            name=op.f("pk_estimates"),
        ),
    )
