"""Counts in fewer bytes, and rows without counts, after `calmon db prune` has removed old ones.

Stored counts stay as they are: both forms are read. The downgrade writes counts in the form that revision 0020 reads,
and deletes windows whose counts were removed, as if they had never been read.

Revision ID: 0021
Revises: 0020
"""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_NAMES = ("cell", "predicted", "automated", "n", "w", "w2", "ws", "wy", "wsy", "ws2")
_KEYS = {"counts": ("schedule", "window_start", "source", "label"), "baselines": ("source", "label", "version")}
_TYPES: dict[str, Any] = {"window_start": sa.DateTime(), "version": sa.Integer()}
_WINDOW = ("schedule", "window_start", "source")


def upgrade() -> None:
    """Allow counts to be missing."""
    with op.batch_alter_table("counts") as altered:
        altered.alter_column("data", existing_type=sa.LargeBinary(), nullable=True)


def downgrade() -> None:
    """Write counts in the older form, and delete windows that have none."""
    for name in _KEYS:
        _rewrite(name)
    counts, readings = (
        sa.table(name, *(sa.column(each, _TYPES.get(each, sa.Text())) for each in (*_WINDOW, "data")))
        for name in ("counts", "readings")
    )
    removed = sa.select(*(counts.c[name] for name in _WINDOW)).where(counts.c.data.is_(None)).distinct()
    for row in op.get_bind().execute(removed).all():
        for table in (counts, readings):
            op.execute(table.delete().where(*(table.c[n] == value for n, value in zip(_WINDOW, row, strict=True))))
    with op.batch_alter_table("counts") as altered:
        altered.alter_column("data", existing_type=sa.LargeBinary(), nullable=False)


def _rewrite(name: str) -> None:
    keys, blobs = _KEYS[name], ("data", "segment_data")
    columns = [sa.column(key, _TYPES.get(key, sa.Text())) for key in keys]
    table = sa.table(name, *columns, *(sa.column(blob, sa.LargeBinary()) for blob in blobs))
    connection = op.get_bind()
    found = connection.execute(sa.select(*(table.c[key] for key in keys))).all()
    for row in found:  # one by one: all at once may not fit into memory
        mine = [table.c[key] == value for key, value in zip(keys, row, strict=True)]
        data, segments = connection.execute(sa.select(table.c.data, table.c.segment_data).where(*mine)).one()
        older = {"data": _older(data), "segment_data": _older(segments)}
        if older != {"data": data, "segment_data": segments}:
            connection.execute(table.update().where(*mine).values(older))


def _older(data: bytes | None) -> bytes | None:
    """The counts as compressed NumPy arrays, which revision 0020 reads."""
    import numpy as np  # noqa: PLC0415 - takes long to import, and only the downgrade needs it

    from monitor.core import compact  # noqa: PLC0415 - as above

    if data is None or not compact.is_compact(data):
        return data
    columns, about = compact.from_bytes(data)
    arrays: dict[str, Any] = {name: columns[name] for name in _NAMES}
    if "segments" in about:
        said = json.dumps({"segments": about["segments"], "score_is": about["score_is"]})
        more: dict[str, Any] = {"about": np.array(said), "lengths": np.array(about["lengths"]), "effects": np.array(about["effects"])}
    else:
        own, *acting = about["effects"]
        more = {"score_is": np.array(about["score_is"]), "design_effect": own, "acting_effects": np.array(acting)}
    buffer = io.BytesIO()
    np.savez(buffer, **more, **arrays)
    return zlib.compress(buffer.getvalue(), 6)
