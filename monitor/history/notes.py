"""Notes that the flows leave for the watch over the monitor: one a key, the newest replaces it."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from monitor.core.records import Note
from monitor.history import tables
from monitor.history.connect import put as put_row
from monitor.history.connect import row_of
from monitor.history.values import plain


def put(connection: Connection, note: Note) -> None:
    """Write a note in place of the one before with its key."""
    put_row(connection, tables.notes, row_of(tables.notes, note, detail=plain(note.detail)))


def drop(connection: Connection, key: str) -> None:
    """Forget a note; one that is not there is forgotten already."""
    connection.execute(delete(tables.notes).where(tables.notes.c.key == key))


_NOTES = select(tables.notes)


def read(connection: Connection) -> dict[str, Note]:
    """Key -> note."""
    return {row["key"]: Note(**row) for row in connection.execute(_NOTES).mappings()}
