"""Opens a SQLite file so that nothing is written, not even the files that SQLite itself keeps beside one.

In WAL mode every reader makes ``-wal`` and ``-shm`` beside the file where these are missing, and a reader that may not
write leaves them there, owned by the monitor's user: the owner of the file can then no longer write. So:

- without a ``-wal`` that holds anything no process is writing: the file is opened as immutable, and what was read
  counts only if it is still the same file afterwards;
- with one and a ``-shm`` SQLite reads as usual, and needs no new file;
- with one alone (its writer crashed, or it was copied) a copy of both is read, in a folder that is removed.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from urllib.parse import quote

_WRITE_VERSION, _WAL = 18, b"\x02"  # a byte of the header, and what it is in WAL mode
_TIMEOUT_S = 30
_DESCRIPTORS: dict[Path, int] = {}
_OPENING = Lock()


class OpenFile(sqlite3.Connection):
    """A connection that remembers the file it reads as it was when it was opened, and its copy, if any."""

    at_rest: tuple[Path, tuple[int, int, int]] | None = None
    copied: TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Close it, and remove its copy."""
        super().close()
        if self.copied is not None:
            self.copied.cleanup()


def open_for_reading(file: Path) -> OpenFile:
    """A connection that only reads, and leaves no new file behind. Raises sqlite3's errors."""
    log, shared = Path(f"{file}-wal"), Path(f"{file}-shm")
    if not _in_wal_mode(file):
        return _opened(file, "mode=ro")
    if not log.exists() or not log.stat().st_size:
        state = _state_of(file)
        connection = _opened(file, "mode=ro&immutable=1")
        connection.at_rest = (file, state)
        return connection
    if shared.exists():
        return _opened(file, "mode=ro")
    folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="calmon-")
    copy = Path(folder.name, "warehouse.sqlite")
    state = _state_of(file)
    shutil.copyfile(log, f"{copy}-wal")
    shutil.copyfile(file, copy)
    if shared.exists() or _state_of(file) != state:  # somebody opened it meanwhile
        folder.cleanup()
        return open_for_reading(file)
    connection = _opened(copy, "mode=ro")
    connection.copied = folder
    return connection


def check_at_rest(connection: object) -> None:
    """Raise :class:`sqlite3.OperationalError` if a file was written while it was read as one that nobody writes."""
    if isinstance(connection, OpenFile) and connection.at_rest is not None:
        file, state = connection.at_rest
        if _state_of(file) != state:
            error = sqlite3.OperationalError("the file was written while it was read")
            error.sqlite_errorname = "SQLITE_BUSY"
            raise error


def _opened(file: Path, mode: str) -> OpenFile:
    address = f"file:{quote(str(file))}?{mode}"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=_TIMEOUT_S, factory=OpenFile)


def _in_wal_mode(file: Path) -> bool:
    """Whether the header of a file says so; False for one that cannot be read, so that SQLite says why."""
    try:
        return os.pread(_descriptor_of(file), 1, _WRITE_VERSION) == _WAL
    except OSError:
        return False


def _descriptor_of(file: Path) -> int:
    """A descriptor that stays open as long as the file: closing it would end SQLite's locks in this process."""
    with _OPENING:
        descriptor = _DESCRIPTORS.get(file)
        if descriptor is not None and os.path.samestat(os.fstat(descriptor), file.stat()):
            return descriptor
        if descriptor is not None:  # another file has its name now
            os.close(_DESCRIPTORS.pop(file))
        return _DESCRIPTORS.setdefault(file, os.open(file, os.O_RDONLY))


def _state_of(file: Path) -> tuple[int, int, int]:
    state = file.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns
