"""Writes a file that a person named: completely or not at all, and never replaces a special file; locks of files."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import IO

_DIRECT = ("/dev/", "/proc/")
_BETWEEN_TRIES_S = 0.02


def write_whole(target: Path, content: str | bytes, *, folders: bool = True) -> None:
    """Write a file, with its ``folders``; a reader sees the old or the new content, never a part.

    A symbolic link stays, and its target is written. A device, pipe or other special file is written to, like `>` in a
    shell, and never replaced. Raises OSError, which names the file.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    real = Path(os.path.realpath(target))
    if _is_special(target) or str(target.absolute()).startswith(_DIRECT):
        with target.open("wb", buffering=0) as stream:
            stream.write(data)
        return
    if folders:
        real.parent.mkdir(parents=True, exist_ok=True)
    _replace(real, data)


def _is_special(target: Path) -> bool:
    """Whether the path is a special file. Raises OSError for a block device: writing to it would destroy a disk."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode) or stat.S_ISBLK(mode):
        raise OSError(0, "is a directory" if stat.S_ISDIR(mode) else "is a disk", str(target))
    return not stat.S_ISREG(mode)


def _replace(real: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:100]}.", suffix=".tmp", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as draft:
            draft.write(data)
            os.fchmod(draft.fileno(), _mode(real))
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mode(real: Path) -> int:
    """The permissions of the replaced file, or for a new one those that the umask leaves."""
    try:
        return stat.S_IMODE(real.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


@contextmanager
def alone(file: Path, wait_s: float) -> Iterator[bool]:
    """Keep other processes and threads that ask for the same file out for as long as the block lasts.

    False, and the block runs all the same, where another has held it for more than ``wait_s`` seconds. A file system
    without locks, or a full one, gives True.
    """
    with ExitStack() as held:
        is_alone = True
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            lock, until = held.enter_context(file.with_name(f"{file.name}.lock").open("a")), monotonic() + wait_s
            while not (is_alone := _is_taken(lock)) and monotonic() < until:
                sleep(_BETWEEN_TRIES_S)
        yield is_alone


def _is_taken(lock: IO[str]) -> bool:
    """Whether it was locked here. Raises OSError where that is not possible."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
