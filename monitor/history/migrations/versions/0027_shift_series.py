"""Shift tests refer to their series and window by id, as estimates do. A view shows them as before.

Revision ID: 0027
Revises: 0026
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_SERIES = 'source, label, test, "column"'
_NUMBERS = "statistic, p_value, n, n_baseline, detail"
_WINDOW = "schedule, window_start, window_name"
_EMPTY = "\\x01abae0500"
"""{} as monitor.history.packed_json packs it."""
_JOINED = "shifted JOIN estimate_windows w ON w.id = window_id JOIN shift_series s ON s.id = series_id"


def upgrade() -> None:
    """Store the names of each series and window once, and replace the table by a view."""
    _make_tables()
    op.execute(f"""
        INSERT INTO estimate_windows ({_WINDOW})
        SELECT schedule, window_start, MAX(window_name) FROM shifts t
        WHERE NOT EXISTS (
            SELECT 1 FROM estimate_windows w WHERE w.schedule = t.schedule AND w.window_start = t.window_start)
        GROUP BY schedule, window_start ORDER BY window_start, schedule
    """)
    op.execute(f"INSERT INTO shift_series ({_SERIES}) SELECT DISTINCT {_SERIES} FROM shifts")
    same = " AND ".join(f"s.{name.strip()} = t.{name.strip()}" for name in _SERIES.split(","))
    op.execute(f"""
        INSERT INTO shifted (window_id, series_id, {_NUMBERS})
        SELECT w.id, s.id, {_NUMBERS} FROM shifts t
        JOIN estimate_windows w ON w.schedule = t.schedule AND w.window_start = t.window_start
        JOIN shift_series s ON {same} ORDER BY w.id, s.id
    """)
    op.drop_table("shifts")
    op.execute(f"CREATE VIEW shifts AS SELECT {_WINDOW}, {_SERIES}, {_NUMBERS} FROM {_JOINED}")


def downgrade() -> None:
    """Store shift tests in one table again."""
    op.execute("DROP VIEW shifts")
    _make_old_table()
    nothing = f"CAST('{_EMPTY}' AS bytea)" if op.get_bind().dialect.name == "postgresql" else f"x'{_EMPTY[2:]}'"
    numbers = _NUMBERS.replace("detail", f"COALESCE(detail, {nothing})")
    op.execute(f"""
        INSERT INTO shifts ({_WINDOW}, {_SERIES}, {_NUMBERS})
        SELECT {_WINDOW}, {_SERIES}, {numbers} FROM {_JOINED} ORDER BY schedule, window_start
    """)
    for name in ("shifted", "shift_series"):
        op.drop_table(name)


def _make_tables() -> None:
    op.create_table(
        "shift_series",
        sa.Column("id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "label")),
        sa.Column("test", sa.String(length=32), nullable=False),
        sa.Column("column", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shift_series")),
        sa.UniqueConstraint("source", "label", "test", "column", name=op.f("uq_shift_series_source")),
    )
    op.create_table(
        "shifted",
        *(sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in ("window_id", "series_id")),
        *(sa.Column(name, sa.Float(precision=53)) for name in ("statistic", "p_value")),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("n", "n_baseline")),
        sa.Column("detail", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("window_id", "series_id", name=op.f("pk_shifted")),
        sqlite_with_rowid=False,
    )


def _make_old_table() -> None:
    op.create_table(
        "shifts",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("window_start", sa.DateTime(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "label")),
        sa.Column("test", sa.String(length=32), nullable=False),
        sa.Column("column", sa.Text(), nullable=False),
        sa.Column("window_name", sa.String(length=32), nullable=False),
        *(sa.Column(name, sa.Float(precision=53)) for name in ("statistic", "p_value")),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("n", "n_baseline")),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "schedule", "window_start", "source", "label", "test", "column", name=op.f("pk_shifts")
        ),
        sqlite_with_rowid=False,
    )
