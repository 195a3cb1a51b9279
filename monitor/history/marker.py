"""The marker: a small file that records how far the history had come. It shows if the history is older, or is gone.

For SQLite it is ``history.sqlite.epoch`` beside the file, for PostgreSQL a file under ``var/state`` of this machine.
It is written after each change of a switch or threshold, so it is never ahead of its history. Read it before the
history. Gates read it too.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from sqlalchemy.engine import URL

from monitor.core.files import alone, write_whole
from monitor.core.records import Identity, Mark, Recorded
from monitor.history.connect import database_file

STATE = Path("var/state")
WAIT_S = 1.0
"""Who holds the lock needs it for a moment. After this time it is stopped, and an emergency stop must not wait."""
#: The parameters of an address's query that say which database it is; `options` may name a schema.
_LOCATING = ("host", "hostaddr", "port", "dbname", "service", "options")


def marker_file(address: URL, folder: Path | None = None) -> Path | None:
    """The path of this history's marker; None for a history in memory. Relative paths begin at ``folder``."""
    here = folder or Path()
    if address.get_backend_name() == "sqlite":
        file = database_file(address)
        if file is None:
            return None
        real = Path(os.path.realpath(here / file))  # a symbolic link's marker is beside the file that it leads to
        return real.with_name(f"{real.name}.epoch")
    location = [address.host, address.port, address.database, *(address.query.get(name) for name in _LOCATING)]
    return here / STATE / f"history-{hashlib.sha256(json.dumps(location).encode()).hexdigest()[:16]}.json"


def read_marker(file: Path | None) -> Recorded | None:
    """What the marker records; None if there is no marker, or it cannot be read."""
    if file is None:
        return None
    try:
        found = json.loads(file.read_text("utf-8"))
        mark = Mark(str(found["history"]), int(found["epoch"]), int(found["version"]))
        return Recorded(mark, str(found.get("content", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_marker(file: Path | None, identity: Identity) -> None:
    """Record how far the history has come, unless a newer state is recorded. Ignores errors of the file system."""
    if file is None:
        return
    mark = identity.mark
    content = asdict(mark) | {"content": identity.content}
    with suppress(OSError), alone(file, WAIT_S):
        recorded = read_marker(file)
        if recorded is None or not (recorded.mark == mark or mark.is_older_than(recorded.mark)):
            write_whole(file, json.dumps(content))


def remove_marker(file: Path | None) -> None:
    """Delete the marker: an operator creates a new history in the place of the old one."""
    if file is not None:
        with alone(file, WAIT_S):
            file.unlink(missing_ok=True)
