"""The thread that reads the snapshot for a gate repeatedly, and its last result.

Only this thread reads: a reading that hangs blocks no question and starts no second thread.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

from monitor.automation.gate.cache import SnapshotCache, hold, renew
from monitor.automation.gate.past import Past
from monitor.automation.gate.snapshot import Decision, SwitchSnapshot
from monitor.automation.gate.sources import ReadFailed, Source
from monitor.automation.state import GateReason
from monitor.core.sessions import in_words

LIMIT_S = 5.0  # of one reading, in seconds
PAUSES = 4  # readings in one TTL: after a change is stored, a fourth of the TTL passes at most
RETRIES = 12  # the same, after a reading that failed
WHOLE_AFTER_S = 600.0  # after this time an unchanged snapshot is read whole, to check its clock
log = logging.getLogger(__name__)


class Refresher:
    """Reads from ``source`` in a thread of this process, which starts with the first question.

    ``first`` is done when the first reading has ended, successful or not. ``stop`` ends the thread.
    """

    def __init__(
        self,
        source: Source,
        ttl_s: float,
        elapsed: Callable[[], float],
        held: SnapshotCache | None = None,
        past: Past | None = None,
    ) -> None:
        self.source = source
        self.past = past or Past()
        self.ttl_s = ttl_s
        self.elapsed = elapsed
        self.held = held
        self.failure: ReadFailed | None = None
        self.pid = os.getpid()
        self.first: Future[None] = Future()
        self.stop = threading.Event()
        self.limit_s = min(LIMIT_S, ttl_s / 2)
        self._jitter = random.Random()  # noqa: S311 - no secret; of its own, since the process may count on its seed
        self._whole_at = elapsed()
        self._started: float | None = None
        self._reading_since: float | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread unless it runs. Concurrent calls start only one."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self.stop.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._started = self.elapsed() if self._started is None else self._started
            thread = threading.Thread(target=self._run, name="calmon gate", daemon=True)
            thread.start()
            self._thread = thread

    def patience(self) -> float:
        """How many seconds a question may wait for the first reading; 0 if that has ended or takes too long."""
        now = self.elapsed()
        if self._started is None or self.first.done() or (self.held is not None and self.held.is_fresh(now)):
            return 0.0
        return max(0.0, min(self.limit_s, self._started + self.limit_s - now))

    def answer(self, source: str, label: str, score: float | None, segments: object = None) -> Decision:
        """The decision from the snapshot in memory."""
        now, held, failure = self.elapsed(), self.held, self.failure
        if held is not None and held.is_fresh(now):
            return held.answer(source, label, score, now, segments)
        if failure is not None:
            return Decision(False, failure.reason, detail=failure.detail)
        since = self._reading_since
        if held is None or (since is not None and now - since > self.limit_s):
            return Decision(False, self.source.reason, detail=f"no answer within {in_words(self.limit_s)}")
        return Decision(False, GateReason.STALE, detail=f"what is known is {now - held.began:.0f} s old")

    def close(self, wait_s: float) -> None:
        """End the thread, and wait for its end for at most ``wait_s`` seconds."""
        self.stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)

    def _run(self) -> None:
        while not self.stop.is_set():
            self._read()
            if not self.first.done():
                self.first.set_result(None)
            pause = self.ttl_s / (PAUSES if self.failure is None else RETRIES)
            # random, so that many routers do not read at the same moment
            self.stop.wait(pause * self._jitter.uniform(0.8, 1.0))

    def _read(self) -> None:
        began = self._reading_since = self.elapsed()
        try:
            self.held = self._held(began)
        except ReadFailed as error:
            self._note(error)
        except Exception as error:  # noqa: BLE001 - a defect here must not end the thread
            self._note(ReadFailed(self.source.reason, f"unexpected {type(error).__name__}"))
        else:
            self._note(None)
        finally:
            self._reading_since = None

    def _held(self, began: float) -> SnapshotCache:
        if self.held is None or self.failure is not None or began - self._whole_at > WHOLE_AFTER_S:
            self.source.forget()  # after a failure too: the source may remember an answer that was never held
        snapshot = self.source.read(self.limit_s)
        if snapshot is None and self.held is not None:
            return renew(self.held, began=began, ttl_s=self.ttl_s)
        if snapshot is None:
            raise ReadFailed(self.source.reason, "nothing has changed since nothing was read")
        self._refuse_past(snapshot, began)
        self._whole_at = began
        return hold(snapshot, began=began, ttl_s=self.ttl_s, ended=self.elapsed(), previous=self.held)

    def _refuse_past(self, snapshot: SwitchSnapshot, began: float) -> None:
        """Raise ReadFailed if the snapshot is outdated; if the history went back, also forget the held snapshot.

        A snapshot is outdated if the history went back, or if its time is more than a TTL behind the time that this
        process counts from earlier answers. So neither a cache nor a clock that was put back prolongs a "yes".
        """
        refusal = self.past.refusal(snapshot.mark)
        if refusal is not None:
            self.held = None
            raise ReadFailed(GateReason.HISTORY_WENT_BACK, refusal)
        if self.held is None:
            return
        behind = (self.held.earliest(began) - snapshot.at).total_seconds()
        if behind > self.ttl_s:
            raise ReadFailed(GateReason.ANSWER_OLD, f"the answer's own time is {behind:.0f} s behind")

    def _note(self, failure: ReadFailed | None) -> None:
        """Keep the error, and log it only if it is new."""
        before, self.failure = self.failure, failure
        if failure is not None and (before is None or before.detail != failure.detail):
            log.warning("the gate cannot read the switches: %s", failure.detail)
        elif failure is None and before is not None:
            log.info("the gate reads the switches again")
