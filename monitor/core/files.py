"""Writing a file that somebody named: whole or not at all, and never in place of what is no plain file."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_DIRECT = ("/dev/", "/proc/")


def write_whole(target: Path, content: str | bytes, *, folders: bool = True) -> None:
    """Write a file, with its ``folders``: a reader sees the old one or the new one, never half of one.

    A symbolic link stays, what it leads to is written. A device, a pipe or another special file is written to, as `>`
    of a shell does, and never replaced. Raises OSError, which names the file.
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
    """Whether something is there that is no plain file. A block device is refused: writing to it would lose a disk."""
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
    """The rights of the file that is replaced; of a new one those that the umask leaves."""
    try:
        return stat.S_IMODE(real.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
