"""Counts in fewer bytes: each place of their numbers is compressed separately.

Stored counts stay as they are until they are pruned: every form is read. The downgrade writes counts in the form that
revision 0027 reads.

Revision ID: 0028
Revises: 0027
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_KEYS = {"counts": ("schedule", "window_start", "source", "label"), "baselines": ("source", "label", "version")}
_TYPES: dict[str, Any] = {"window_start": sa.DateTime(), "version": sa.Integer()}
_BLOBS = ("data", "segment_data")


def upgrade() -> None:
    """Change nothing: only new rows are shorter."""


def downgrade() -> None:
    """Write counts in the older form, one by one: all at once may not fit into memory."""
    connection = op.get_bind()
    for name, keys in _KEYS.items():
        columns = [sa.column(key, _TYPES.get(key, sa.Text())) for key in keys]
        table = sa.table(name, *columns, *(sa.column(blob, sa.LargeBinary()) for blob in _BLOBS))
        for row in connection.execute(sa.select(*(table.c[key] for key in keys))).all():
            mine = [table.c[key] == value for key, value in zip(keys, row, strict=True)]
            stored = connection.execute(sa.select(*(table.c[blob] for blob in _BLOBS)).where(*mine)).one()
            before = {blob: _before(data) for blob, data in zip(_BLOBS, stored, strict=True) if _is_apart(data)}
            if before:
                connection.execute(table.update().where(*mine).values(before))


def _is_apart(data: bytes | None) -> bool:
    return data is not None and bytes(data[:1]) == b"\x03"


def _before(data: bytes) -> bytes:
    from monitor.core import compact  # noqa: PLC0415 - imports NumPy, which only the downgrade needs

    return compact.together(*compact.from_bytes(bytes(data)))
