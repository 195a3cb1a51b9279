"""Notes that the flows leave for the watchdog: one for each key, replaced by the newest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection, delete, select

from monitor.core.records import Note
from monitor.history import tables
from monitor.history.connect import put as put_row
from monitor.history.connect import row_of


def put(connection: Connection, note: Note) -> None:
    """Write a note. It replaces the one with the same key."""
    put_row(connection, tables.notes, row_of(tables.notes, note))


def settle(connection: Connection, key: str, sources: Collection[str]) -> None:
    """A note is about these sources no more, and is deleted where none is left, or it never named any."""
    note = read(connection).get(key)
    left = [] if note is None else sorted(set(note.detail.get("sources", ())) - set(sources))
    if note is not None and left:
        put(connection, replace(note, detail={**note.detail, "sources": left}))
    else:
        drop(connection, key)


def drop(connection: Connection, key: str) -> None:
    """Delete a note, if it exists."""
    connection.execute(delete(tables.notes).where(tables.notes.c.key == key))


def read(connection: Connection) -> dict[str, Note]:
    """Key -> note."""
    return {row["key"]: Note(**row) for row in connection.execute(select(tables.notes)).mappings()}
