"""Estimates store a plug-in value only if it differs from the debiased one, and details in fewer bytes.

Revision ID: 0025
Revises: 0024
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from monitor.history import packed_json

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_SERIES = "source, label, segment, metric, population"
_VIEW = f"""
    CREATE VIEW estimates AS
    SELECT schedule, window_start, {_SERIES}, window_name, value, {{plug_in}} AS plug_in, low, high, n, positives,
           {{detail}} AS detail
    FROM estimated JOIN estimate_windows ON estimate_windows.id = window_id
    JOIN estimate_series ON estimate_series.id = series_id
"""
_PUBLIC = f"""
    CREATE VIEW v1_estimates AS
    SELECT schedule, window_name, window_start, source, NULLIF(label, '') AS label, NULLIF(segment, '') AS segment,
           metric, population, value, low, high, plug_in, n, positives
    FROM estimates
"""
_VIEWS = ("v1_estimates", "estimates")


def upgrade() -> None:
    """Store infinity for a missing plug-in value beside a known value (no estimate is infinite), and pack details."""
    _drop_views()
    op.execute(
        f"UPDATE estimated SET plug_in = CASE WHEN plug_in IS NULL THEN {_infinity()} ELSE NULL END "
        "WHERE plug_in = value OR (plug_in IS NULL AND value IS NOT NULL)"
    )
    if _is_postgresql():
        op.execute("ALTER TABLE estimated ALTER COLUMN detail TYPE bytea USING convert_to(detail::text, 'UTF8')")
        _rewrite(_pack)
    else:  # SQLite columns take values of any type. Packing first leaves no gaps in the copied table
        _rewrite(_pack)
        _copy_table(sa.JSON(), sa.LargeBinary())
    _make_views(f"NULLIF(COALESCE(plug_in, value), {_infinity()})", "detail")


def downgrade() -> None:
    """Store every plug-in value, and details as JSON."""
    _drop_views()
    op.execute(f"UPDATE estimated SET plug_in = NULLIF(COALESCE(plug_in, value), {_infinity()})")
    _rewrite(_unpack)
    if _is_postgresql():
        op.execute("ALTER TABLE estimated ALTER COLUMN detail TYPE json USING convert_from(detail, 'UTF8')::json")
    else:
        _copy_table(sa.LargeBinary(), sa.JSON())
    nothing = "CAST('{}' AS JSON)" if _is_postgresql() else "'{}'"
    _make_views("plug_in", f"COALESCE(detail, {nothing})")


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _infinity() -> str:
    return "CAST('Infinity' AS double precision)" if _is_postgresql() else "9e999"


def _drop_views() -> None:
    for name in _VIEWS:
        op.execute(f"DROP VIEW {name}")


def _make_views(plug_in: str, detail: str) -> None:
    op.execute(_VIEW.format(plug_in=plug_in, detail=detail))
    op.execute(_PUBLIC)


def _copy_table(before: Any, after: Any) -> None:
    options: Any = {"sqlite_with_rowid": False}
    with op.batch_alter_table("estimated", recreate="always", table_kwargs=options) as altered:
        altered.alter_column("detail", existing_type=before, type_=after, existing_nullable=True)


def _rewrite(change: Callable[[Any], Any]) -> None:
    """Change each detail, one window at a time."""
    connection = op.get_bind()
    table = sa.table("estimated", *map(sa.column, ("window_id", "series_id", "detail")))
    mine = (table.c.window_id == sa.bindparam("window"), table.c.series_id == sa.bindparam("series"))
    changed = table.update().where(*mine).values(detail=sa.bindparam("new"))
    wanted = sa.select(table.c.series_id, table.c.detail).where(table.c.detail.is_not(None))
    for (window,) in connection.execute(sa.text("SELECT id FROM estimate_windows")).all():
        found = connection.execute(wanted.where(table.c.window_id == window)).all()
        rows = [{"window": window, "series": series, "new": change(detail)} for series, detail in found]
        if rows:
            connection.execute(changed, rows)


def _pack(stored: str | bytes) -> bytes:
    return packed_json.to_bytes(json.loads(stored))


def _unpack(stored: bytes) -> str | bytes:
    text = json.dumps(packed_json.from_bytes(stored), separators=(",", ":"))
    return text.encode() if _is_postgresql() else text
