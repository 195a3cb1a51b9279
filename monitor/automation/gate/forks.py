"""Work that a fork must not interrupt: the child would inherit locks of threads that it does not have."""

from __future__ import annotations

import os
import threading


class Whole:
    """``with whole: ...``: a fork of this process waits until no thread is inside, and no thread enters meanwhile.

    It is for imports (a half imported module stays so in the child) and for SQLite, whose library has locks: a child
    that is forked while one is held would wait for it for ever. Threads do not wait for each other.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._left = threading.Condition(threading.Lock())
        self._inside = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._close, after_in_parent=self._door.release, after_in_child=self._door.release
            )

    def __enter__(self) -> None:
        with self._door, self._left:
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._left:
            self._inside -= 1
            self._left.notify_all()

    def _close(self) -> None:
        self._door.acquire()
        with self._left:
            self._left.wait_for(lambda: self._inside == 0)
