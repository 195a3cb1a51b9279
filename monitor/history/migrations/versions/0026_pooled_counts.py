"""Counts of a source as a whole that are those of its labels put together are not stored once more.

What is stored stays as it is until it is removed as old: counts of either form are read.

Revision ID: 0026
Revises: 0025
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_READING = ("schedule", "window_start", "source")


def upgrade() -> None:
    """Nothing: what is written from now on is shorter."""


def downgrade() -> None:
    """Write them out, a reading at a time."""
    connection = op.get_bind()
    keys = [sa.column(key, sa.DateTime() if key == "window_start" else sa.Text()) for key in _READING]
    table = sa.table("counts", *keys, sa.column("label", sa.Text()), sa.column("data", sa.LargeBinary()))
    wholes = sa.select(*keys).where(table.c.label == "", table.c.data.is_not(None))
    for row in connection.execute(wholes).all():
        mine = [table.c[key] == value for key, value in zip(_READING, row, strict=True)]
        stored = dict(connection.execute(sa.select(table.c.label, table.c.data).where(*mine)).tuples().all())
        data = _whole(stored)
        if data != stored[""]:
            connection.execute(table.update().where(*mine, table.c.label == "").values(data=data))


def _whole(stored: dict[str, bytes]) -> bytes:
    from monitor.history import label_counts  # noqa: PLC0415 - brings NumPy, which only going back needs

    if not label_counts.is_pooled(stored[""]):
        return stored[""]
    return label_counts.from_bytes({label or None: data for label, data in stored.items()})[None].to_bytes()
