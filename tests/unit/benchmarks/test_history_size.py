"""The benchmark of the history's size: its labels, and the line of a case."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.history_size import PART, POSTGRESQL, SHOWN, Case, row_of, size_in_postgresql
from monitor.history.store import Store
from monitor.history.tables import metadata


def test_a_line_shows_what_is_left_in_millions_of_bytes() -> None:
    sizes = {"": 2_000_000, **dict.fromkeys(SHOWN, 250_000)}
    pruned = sizes | {POSTGRESQL: 3_000_000}
    line = row_of(Case(decimals=4), {"a year": sizes, "pruned": pruned})
    assert line == ("4 decimals", "none", "2.0", "2.0", "3.0", *["0.2"] * len(SHOWN))


@pytest.mark.postgres
def test_in_postgresql_are_the_same_rows(tmp_path: Path, fresh_postgres_url: str) -> None:
    file, notes = tmp_path / "history.sqlite", metadata.tables["notes"]
    Store.from_url(f"sqlite:///{file}").close()
    here, there = sa.create_engine(f"sqlite:///{file}"), sa.create_engine(fresh_postgres_url)
    without = size_in_postgresql(file, fresh_postgres_url)
    at = datetime(2026, 11, 9, 6, tzinfo=UTC)
    noted = [{"key": f"note {number}", "at": at, "detail": {"number": number}} for number in range(2 * PART + 1)]
    with here.begin() as connection:
        connection.execute(sa.insert(notes), noted)
    assert size_in_postgresql(file, fresh_postgres_url) > without + 40 * len(noted)
    with there.connect() as connection:
        assert {row["key"]: row["detail"] for row in connection.execute(sa.select(notes)).mappings()} == {
            note["key"]: note["detail"] for note in noted
        }
    here.dispose()
    there.dispose()
