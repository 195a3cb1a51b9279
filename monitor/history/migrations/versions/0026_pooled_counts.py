"""Counts of a source as a whole are not stored if they are its labels' counts added up.

Stored counts stay as they are until they are pruned: both forms are read.

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
    """Change nothing: only new rows are shorter."""


def downgrade() -> None:
    """Store the counts of sources as a whole again, one reading at a time."""
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
    from monitor.history import label_counts  # noqa: PLC0415 - imports NumPy, which only the downgrade needs

    if not label_counts.is_pooled(stored[""]):
        return stored[""]
    return label_counts.from_bytes({label or None: data for label, data in stored.items()})[None].to_bytes()
