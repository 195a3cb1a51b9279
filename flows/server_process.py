"""Finds and ends the Prefect server of a ``calmon serve`` that was killed, by a note in a file.

The note has the process ids of the server and its owner, each with its start time, since ids are reused. If start
times are not available (no /proc), nothing is ended.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SECONDS = 20.0


class ServerFailed(Exception):
    """The Prefect server of this process did not start, or has ended; the message names the log with the reason."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A server and its owner: process ids, and start times (clock ticks since the machine's start)."""

    server: int
    server_began: str
    owner: int
    owner_began: str


def note(home: Path, server: int) -> None:
    """Write a note that this process has started ``server``."""
    found = Noted(server, began(server), os.getpid(), began(os.getpid()))
    _file(home).write_text(json.dumps(asdict(found)), "utf-8")


def forget(home: Path) -> None:
    """Remove the note, after the server has ended normally."""
    _file(home).unlink(missing_ok=True)


def end_orphan(home: Path) -> bool:
    """End a server whose owner was killed; True if there was one. Raises ServerFailed if the owner still runs."""
    found = _read(home)
    if found is None:
        return False
    if _is_same(found.owner, found.owner_began):
        raise ServerFailed(f"`calmon serve` runs already in this folder (process {found.owner}): stop that one first")
    orphaned = _is_same(found.server, found.server_began) and _is_prefect_server(found.server)
    if orphaned:
        print(f"Ending the Prefect server {found.server}, which a killed `calmon serve` has left behind.", flush=True)
        _end(found)
    forget(home)
    return orphaned


def began(pid: int) -> str:
    """The start time of a process; "" if the process is gone or a zombie, or the time is not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _is_same(pid: int, at: str) -> bool:
    return bool(at) and began(pid) == at


def _is_prefect_server(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return [word for word in words if word in (b"prefect", b"server", b"start")] == [b"prefect", b"server", b"start"]


def _end(found: Noted) -> None:
    """Ask the server to end, then kill it; its children end with its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + SECONDS
        try:
            os.killpg(found.server, number)
        except ProcessLookupError:
            return
        while time.monotonic() < deadline:
            if not _is_same(found.server, found.server_began):
                return
            time.sleep(0.1)


def _file(home: Path) -> Path:
    return home / "server.json"


def _read(home: Path) -> Noted | None:
    try:
        return Noted(**json.loads(_file(home).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
