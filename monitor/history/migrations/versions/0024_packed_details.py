"""Details of verdicts and shift tests and promises of labels in fewer bytes; shift tests without a second key.

Revision ID: 0024
Revises: 0023
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from monitor.history import packed_json

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_WINDOW = ("schedule", "window_start", "source", "label")
_KEYS = {"verdicts": ("window_start", "id"), "counts": _WINDOW, "shifts": (*_WINDOW, "test", "column")}
_PACKED = {"verdicts": ("detail",), "counts": ("promises", "segments"), "shifts": ("detail",)}
_VIEW = """
    CREATE VIEW v1_verdicts AS
    SELECT id, schedule, window_name, window_start, window_end, source, NULLIF(label, '') AS label, rule, metric,
           population, outcome, reason, severity, threshold, value, low, high, plug_in, baseline, change, change_low,
           change_high, p_value, p_adjusted, detectable, n, windows, baseline_version, rules_revision, stored_at
    FROM verdicts WHERE "current"
"""


def upgrade() -> None:
    """Pack the stored JSON, and store each verdict's condition in a column."""
    op.execute("DROP VIEW v1_verdicts")
    op.add_column("verdicts", sa.Column("condition", sa.String(length=16)))
    if _is_postgresql():
        _change_types("bytea", "convert_to({0}::text, 'UTF8')")
        _rewrite(_pack)
    else:  # SQLite columns take values of any type. Packing first leaves no gaps in the copied table
        _rewrite(_pack)
        _copy_tables(sa.JSON(), sa.LargeBinary(), sqlite_with_rowid=False)
    op.execute(_VIEW)


def downgrade() -> None:
    """Store JSON as text again."""
    op.execute("DROP VIEW v1_verdicts")
    _rewrite(_unpack)
    if _is_postgresql():
        _change_types("json", "convert_from({0}, 'UTF8')::json")
    else:
        _copy_tables(sa.LargeBinary(), sa.JSON())
    op.drop_column("verdicts", "condition")
    op.execute(_VIEW)


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _change_types(kind: str, given: str) -> None:
    for table, columns in _PACKED.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind} USING {given.format(column)}")


def _copy_tables(before: Any, after: Any, **of_shifts: Any) -> None:
    for table, columns in _PACKED.items():
        options = of_shifts if table == "shifts" else {}
        with op.batch_alter_table(table, recreate="always", table_kwargs=options) as altered:
            for column in columns:
                altered.alter_column(column, existing_type=before, type_=after, existing_nullable=table == "counts")


def _rewrite(change: Callable[[Any], Any]) -> None:
    """Change each packed column of each row, one window at a time: all at once may not fit into memory."""
    connection = op.get_bind()
    for name, columns in _PACKED.items():
        keys = _KEYS[name]
        typed = [sa.column(key, sa.DateTime() if key == "window_start" else sa.Text()) for key in keys]
        table = sa.table(name, *typed, *map(sa.column, (*columns, "condition")))
        changed = table.update().where(*(table.c[key] == sa.bindparam(f"key_{key}") for key in keys))
        changed = changed.values({column: sa.bindparam(f"new_{column}") for column in columns})
        if name == "verdicts" and change is _pack:
            changed = changed.values(condition=sa.bindparam("condition", type_=sa.Text()))
        wanted = sa.select(*(table.c[each] for each in (*keys, *columns)))
        for start in connection.execute(sa.select(table.c.window_start).distinct()).scalars().all():
            found = connection.execute(wanted.where(table.c.window_start == start)).mappings().all()
            connection.execute(changed, [_new(name, row, change) for row in found])


def _new(name: str, row: Any, change: Callable[[Any], Any]) -> dict[str, Any]:
    said = {f"key_{key}": row[key] for key in _KEYS[name]}
    said |= {f"new_{column}": change(row[column]) for column in _PACKED[name]}
    if name == "verdicts" and change is _pack:
        said["condition"] = json.loads(row["detail"]).get("condition")
    return said


def _pack(stored: str | bytes | None) -> bytes | None:
    value = None if stored is None else json.loads(stored)
    return None if value is None else packed_json.to_bytes(value)


def _unpack(stored: bytes | None) -> str | bytes | None:
    if stored is None:
        return None
    text = json.dumps(packed_json.from_bytes(stored), separators=(",", ":"))
    return text.encode() if _is_postgresql() else text
