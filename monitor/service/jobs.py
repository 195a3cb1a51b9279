"""Jobs that a page starts and that take longer than a page may: one at a time, kept in memory, with progress."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
log = logging.getLogger("monitor.http")
KEPT, WAITING = 16, 4


@dataclass
class Job(Generic[T]):
    """One piece of work: how many of its steps are done, and its result or its failure once there is one."""

    total: int = 0
    done: int = 0
    step: str = ""
    result: T | None = None
    failure: str | None = None
    lock: Lock = field(default_factory=Lock)

    def advance(self, step: str) -> None:
        """One more step is done."""
        with self.lock:
            self.done, self.step = self.done + 1, step

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.result is not None or self.failure is not None


class Jobs(Generic[T]):
    """The newest jobs by key. A job that is started again is the existing one, unless that failed."""

    def __init__(self) -> None:
        self._jobs: dict[Hashable, Job[T]] = {}
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="calmon-job")

    def get(self, key: Hashable) -> Job[T] | None:
        """The job with this key; None without one."""
        return self._jobs.get(key)

    def start(self, key: Hashable, total: int, work: Callable[[Callable[[str], None]], T]) -> bool:
        """Queue work unless it exists; False where too many wait. ``work`` gets a function to call after each step."""
        with self._lock:
            before = self._jobs.get(key)
            if before is not None and before.failure is None:
                return True
            if sum(not job.is_over for job in self._jobs.values()) > WAITING:
                return False
            self._jobs[key] = job = Job[T](total)
            for old in [known for known, each in self._jobs.items() if each.is_over][: max(0, len(self._jobs) - KEPT)]:
                del self._jobs[old]
        self._worker.submit(self._run, job, work)
        return True

    def _run(self, job: Job[T], work: Callable[[Callable[[str], None]], T]) -> None:
        try:
            job.result = work(job.advance)
        except Exception as error:
            log.exception("a job of a page failed")
            job.failure = type(error).__name__

    def close(self) -> None:
        """Start no further job; the process need not wait for the one under way."""
        self._worker.shutdown(wait=False, cancel_futures=True)
