"""What a history holds, for comparing two of them value by value."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

RANDOM = {"run", "history_id"}


def content(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of an SQLite history in stored order, without random columns.

    The views of the estimates and of the verdicts are included, in sorted order.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        names = [row["name"] for row in tables]
        found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
        for view in ("estimates", "verdicts"):
            found[view] = sorted(connection.execute(f"SELECT * FROM {view}"), key=lambda row: repr(tuple(row)))
    return {name: [{k: row[k] for k in row.keys() if k not in RANDOM} for row in rows] for name, rows in found.items()}  # noqa: SIM118
