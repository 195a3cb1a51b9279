"""The gate, which a router asks before it acts. It never raises, never waits for long, and in doubt says "no".

    from monitor.automation import Gate

    gate = Gate.from_env()  # one for each process; keep it
    if gate.allows("tickets", "billing", score=0.93):
        ...

It imports only the standard library and, to read the history, SQLAlchemy.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from monitor.automation.gate.refresher import Refresher
from monitor.automation.gate.snapshot import Decision
from monitor.automation.gate.sources import HttpSource, Source, StoreSource
from monitor.automation.state import GateReason
from monitor.config.environment import (
    GATE_TTL_S,
    STORE_URL,
    SettingsError,
    bearer_token,
    database_address,
    gate_ttl,
    given,
    service_address,
    variable,
)

CLOSE_WAIT_S = 1.0
log = logging.getLogger(__name__)
_T = TypeVar("_T")


def since_boot() -> float:
    """Seconds on a clock that only runs forward; it includes the machine's sleep where the system has such a clock."""
    return _clock_gettime(_BOOTTIME)


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))
_clock_gettime = getattr(time, "clock_gettime", lambda _: time.monotonic())


class Gate:
    """Answers from memory whether automation may act; a thread of its own refreshes the snapshot.

    Only the first question waits for a reading, for a few seconds at most. A snapshot is used for at most ``ttl_s``
    seconds after its reading began: a gate that cannot read is closed. Threads may share a gate, and a forked process
    may continue to use it. Make one for each process and keep it, since a new gate must read first. Raises ValueError
    for a ``ttl_s`` that is not positive.
    """

    def __init__(self, source: Source, *, ttl_s: float = GATE_TTL_S, elapsed: Callable[[], float] = since_boot) -> None:
        if not 0 < ttl_s < float("inf"):
            raise ValueError("ttl_s must be a positive number of seconds")
        self._elapsed = elapsed
        self._closed: Decision | None = None
        self._by_process: dict[int, Refresher] = {}
        self._refresher = self._adopted(Refresher(source, ttl_s, elapsed))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """A gate on ``CALMON_GATE_URL`` if that is set, else on ``CALMON_STORE_URL``.

        Never raises: if the environment is wrong, the log says so and every answer is "no".

        >>> gate = Gate.from_env({"CALMON_GATE_TTL_S": "soon"})
        >>> gate.allows("tickets", "billing", score=0.93).reason.value
        'misconfigured'
        """
        try:
            source, ttl_s = _configured(os.environ if environ is None else environ)
            return cls(source, ttl_s=ttl_s)
        except Exception as error:  # noqa: BLE001 - a gate never raises
            detail = str(error) if isinstance(error, SettingsError) else f"unexpected {type(error).__name__}"
            log.error("the gate is closed for good: %s", detail)
            gate = cls(StoreSource(STORE_URL, Path()))
            gate._closed = Decision(False, GateReason.MISCONFIGURED, detail=detail)
            return gate

    def allows(
        self, source: str, label: str, score: float | None = None, segments: Mapping[str, str] | None = None
    ) -> Decision:
        """Whether automation may act alone on an item with this label and score (0 to 1), as a true or false decision.

        ``segments`` are the item's values, such as ``{"channel": "web"}``. They are needed while automation is off for
        a value of a column. Never raises. Waits only until the first reading has ended, successful or not.
        """
        try:
            found = self._quick(source, label, score, segments)
            if found is not None:
                return found
            refresher = self._running()
            patience = refresher.patience()
            if patience > 0:
                with suppress(FutureTimeout):
                    refresher.first.result(patience)
            return self._closed or refresher.answer(source, label, score, segments)
        except Exception as error:  # noqa: BLE001 - a gate never raises
            return _unexpected(error)

    def close(self) -> None:
        """Stop reading; every later answer is "no". Does not wait for a reading that hangs."""
        self._shut(CLOSE_WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _quick(
        self, source: str, label: str, score: float | None, segments: Mapping[str, str] | None
    ) -> Decision | None:
        """The answer from memory; None if the caller must check first that the refresher runs."""
        if self._closed is not None:
            return self._closed
        held, now = self._refresher.held, self._elapsed()
        if held is None or not held.began <= now < held.due:
            return None
        return held.answer(source, label, score, now, segments)

    def _running(self) -> Refresher:
        """The running refresher of this process. A parent's thread does not survive a fork."""
        pid = os.getpid()
        refresher = self._refresher
        if refresher.pid != pid:
            new = Refresher(
                refresher.source.for_child(), refresher.ttl_s, self._elapsed, refresher.held, refresher.past
            )
            # Without a lock, since the parent may have held it at the fork. If two threads come here, one wins.
            self._refresher = refresher = self._by_process.setdefault(pid, self._adopted(new))
        if self._closed is None:
            refresher.start()
        return refresher

    def _adopted(self, refresher: Refresher) -> Refresher:
        weakref.finalize(self, refresher.stop.set)  # the thread ends with a gate that is garbage
        return refresher

    def _shut(self, wait_s: float) -> None:
        self._closed = Decision(False, GateReason.CLOSED_DOWN, detail="close() was called")
        refresher = self._refresher
        if refresher.pid == os.getpid():
            refresher.close(wait_s)


class AsyncGate:
    """A gate for asyncio: ``await gate.allows(...)`` never blocks the loop. The gate's thread reads."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """As :meth:`Gate.from_env`."""
        return cls(Gate.from_env(environ))

    async def allows(
        self, source: str, label: str, score: float | None = None, segments: Mapping[str, str] | None = None
    ) -> Decision:
        """As :meth:`Gate.allows`."""
        gate = self._gate
        try:
            found = gate._quick(source, label, score, segments)
            if found is not None:
                return found
            refresher = gate._running()
            patience = refresher.patience()
            if patience > 0:
                import asyncio  # noqa: PLC0415 - takes 40 ms; who awaits has imported it

                await asyncio.wait([asyncio.wrap_future(refresher.first)], timeout=patience)
            return gate._closed or refresher.answer(source, label, score, segments)
        except Exception as error:  # noqa: BLE001 - a gate never raises
            return _unexpected(error)

    async def close(self) -> None:
        """As :meth:`Gate.close`, without waiting for the thread."""
        self._gate._shut(0.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _configured(environ: Mapping[str, str]) -> tuple[Source, int]:
    """The source to read, and the TTL in seconds. Raises SettingsError."""
    ttl_s = _checked(environ, "gate_ttl_s", gate_ttl) or GATE_TTL_S
    url = _checked(environ, "gate_url", service_address)
    if url is not None:
        return HttpSource(url, _checked(environ, "gate_token", bearer_token)), ttl_s
    return StoreSource(_checked(environ, "store_url", database_address) or STORE_URL), ttl_s


def _checked(environ: Mapping[str, str], field: str, check: Callable[[str], _T]) -> _T | None:
    value = given(environ, field)
    try:
        return None if value is None else check(value)
    except ValueError as error:
        raise SettingsError(f"{variable(field)} {error}") from None


def _unexpected(error: Exception) -> Decision:
    return Decision(False, GateReason.STALE, detail=f"unexpected {type(error).__name__}")
