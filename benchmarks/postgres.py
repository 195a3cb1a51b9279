"""A PostgreSQL server for a benchmark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_url() -> Iterator[str]:
    """The address of an empty database on a new server."""
    from tests.conftest import new_postgres_database, start_postgres  # noqa: PLC0415 - starts nothing by itself

    with tempfile.TemporaryDirectory(prefix="calmon-bench-", ignore_cleanup_errors=True) as folder:
        server = start_postgres(Path(folder) / "data")
        try:
            yield new_postgres_database(str(server.get_uri()))
        finally:
            server.cleanup()
