"""Sessions of databases: a time limit for one reading, and how PostgreSQL writes dates.

A thread that waits in a driver cannot stop it, so another thread does.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

AGAIN_S = 0.5


class TimeLimit:
    """Cancels the work on a connection after ``seconds``; ``expired`` says whether it did."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.expired = False
        self._over = threading.Event()

    @contextmanager
    def watching(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Call ``cancel`` when the time is up, and again until the block ends.

        Once is not enough: between two statements there is nothing to cancel.
        """
        watch = threading.Thread(target=self._watch, args=(cancel,), name="warehouse time limit", daemon=True)
        watch.start()
        try:
            yield
        finally:
            self._over.set()
            watch.join()  # so that no later work on the connection is cancelled

    def _watch(self, cancel: Callable[[], object]) -> None:
        wait = self.seconds
        while not self._over.wait(wait):
            self.expired = True
            with suppress(Exception):  # the statement itself reports a lost connection
                cancel()
            wait = AGAIN_S


def hang_up(sockets: Iterable[socket.socket | None]) -> None:
    """End another thread's reading: a server that sends one byte a second never reaches a socket's time limit."""
    for each in tuple(sockets):
        with suppress(OSError, AttributeError):  # None: it is closed, or not yet open
            each.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


def in_words(seconds: float) -> str:
    """A time limit in words.

    >>> in_words(900), in_words(90), in_words(0.5)
    ('15 min', '90 s', '0.5 s')
    """
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"


def use_iso_dates(connection: Any) -> None:
    """Let a psycopg connection write dates in the ISO style, whatever its role, database or address say.

    The order of day and month in which dates are read is kept. In the usual case nothing is sent.
    """
    style = connection.info.parameter_status("DateStyle")
    if style is None or not style.startswith("ISO"):
        connection.execute("SET DateStyle TO ISO")
        connection.commit()
