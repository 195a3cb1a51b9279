"""Evaluate many past windows, oldest first: in this process alone, or with workers that read and judge.

A window is judged by its counts and those of the windows before, and random numbers are seeded by source, label, metric
and window. So the results do not depend on where or in which order windows are read and judged, if the counts that a
window needs are stored before. Workers read the warehouse some windows ahead and judge stored windows. Only this
process writes the history, one window after the other, so it is byte for byte the same as without workers.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from monitor.config.model import Config
from monitor.config.settings import Settings, load_settings
from monitor.context import Monitor
from monitor.core.records import Window
from monitor.evaluation.evaluate import Evaluated
from monitor.history.readings import Prepared, prepare
from monitor.operations.collect import baselines_of, collect, collect_one, earlier, kept_of, poolable, read_window
from monitor.operations.open import relations_of, warehouse_of
from monitor.operations.workers import Awaited, Workers, own_history
from monitor.run import RunResult, Stage, StageName, Stages, judge, perform, perform_rest, performed, stages
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed

WINDOWS_MORE = 2
"""How many more windows than workers are in progress, so that no worker waits for its next window."""

DoIn = Callable[[Window, Stage], Any]
"""Does a stage of the run of a window and returns its result."""


class BackfillEnded(Exception):
    """The backfill ended before a window that it had begun could be judged."""


def evaluate_past(
    monitor: Monitor,
    span: Sequence[Window],
    names: Sequence[str],
    workers: Workers | None = None,
    do: DoIn = lambda _, stage: stage.work(),
    try_again: Callable[[], bool] = lambda: False,
) -> Generator[RunResult, None, None]:
    """Evaluate past windows of the sources ``names``, oldest first; yields their results. Switches and sends nothing.

    Raises WindowRefused for a window that can have no data yet, and WorkersFailed if ``workers`` were lost.
    """
    if workers is not None:
        yield from _Spread(monitor, span, names, workers, do, try_again).results()
        return
    for window in span:
        due = stages(monitor, window, names, "never", try_again=try_again)
        yield perform(due, partial(do, window))


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of reading a window in a worker: ``rows`` for the history, ``content`` pickled for judging."""

    rows: Prepared
    content: bytes


@dataclass(frozen=True, slots=True)
class _Begun:
    """A window whose counts are stored and that workers are judging; ``stage`` waits for their result."""

    window: Window
    due: Stages
    stage: Stage


class _Spread:
    """A backfill whose windows are read and judged by workers."""

    def __init__(
        self,
        monitor: Monitor,
        span: Sequence[Window],
        names: Sequence[str],
        workers: Workers,
        do: DoIn,
        try_again: Callable[[], bool],
    ) -> None:
        self._monitor = monitor
        self._span = span
        self._names = names
        self._workers = workers
        self._do = do
        self._try_again = try_again
        self._history = monitor.store.identity().mark.history
        self._unread = deque(span)
        self._asked: dict[tuple[Window, str], Awaited[Packed]] = {}
        self._there: set[tuple[Window, str]] = set()
        self._begun: deque[_Begun] = deque()
        self._most = workers.count + WINDOWS_MORE

    def results(self) -> Iterator[RunResult]:
        """The results of all windows, oldest first."""
        try:
            for _ in range(self._most):
                self._ask_next()
            for window in self._span:
                self._begun.append(self._begin(window))
                self._ask_next()
                # a source that could not be read is read again with the next window, which replaces estimates here
                are_all_stored = all((window, name) in self._there for name in self._names)
                while len(self._begun) > (self._most if are_all_stored else 0):
                    yield self._finish()
            while self._begun:
                yield self._finish()
        finally:
            for each in self._begun:
                with suppress(BackfillEnded):
                    each.due.throw(BackfillEnded(f"the backfill ended before {each.window.name} was judged"))

    def _ask_next(self) -> None:
        """Submit the reading of the next window to the workers."""
        if self._unread:
            window, now = self._unread.popleft(), self._monitor.clock()
            for name in self._names:
                pending = self._submit(read_on_worker, window, name, now)
                self._asked[window, name] = pending

    def _submit(self, function: Callable[..., Any], *args: object) -> Awaited[Any]:
        return self._workers.submit(function, self._history, self._monitor.config, *args)

    def _begin(self, window: Window) -> _Begun:
        steps = stages(self._monitor, window, self._names, "never", workers=self)
        stage = steps.send(None)
        while stage.name is not StageName.JUDGE:
            stage = steps.send(performed(steps, stage, partial(self._do, window)))
        return _Begun(window, steps, stage)

    def _finish(self) -> RunResult:
        begun = self._begun.popleft()
        return perform_rest(begun.due, begun.stage, partial(self._do, begun.window))

    def read(self, window: Window) -> Any:
        """Source -> what workers read. If a worker failed, or on a second try, this process reads."""
        pending = {name: self._asked.pop((window, name), None) for name in self._names}
        try:
            return {name: self._store(window, name, each) for name, each in pending.items()}
        except (RelationError, WarehouseFailed):
            return collect(
                self._monitor, window, self._names, store=True, reread=False, try_again=self._try_again()
            )  # reports and stores the sources that cannot be read, as a backfill without workers does

    def _store(self, window: Window, name: str, pending: Awaited[Packed] | None) -> bytes:
        """Store the counts of a window, and of earlier windows that a worker needs and would not find."""
        if pending is None:
            raise WarehouseFailed(f"{name} is tried again")
        packed = pending.result()
        store = self._monitor.store
        store.save_prepared(packed.rows)
        before = [(each, name) for each in poolable(self._monitor.config, window)]
        if not self._there.issuperset(before):
            earlier(self._monitor, window, name, baselines_of(self._monitor, name), store=True, reread=False)
        self._there.update(before, [(window, name)])
        return packed.content

    def judge(self, window: Window, read: Any) -> Callable[[], tuple[Evaluated, ...]]:
        """Begin to judge: workers judge what workers read, this process judges the rest."""
        if not isinstance(read, Mapping):
            return lambda: judge(self._monitor, read, keep=False)
        now = self._monitor.clock()
        pending = [self._submit(judge_on_worker, window, name, now, content) for name, content in read.items()]
        return lambda: tuple(each.result() for each in pending)


def read_on_worker(history: str, config: Config, window: Window, name: str, now: datetime) -> Packed:
    """In a worker: read a window from the warehouse of its own environment. Raises what ``Warehouse.read`` raises."""
    monitor = _monitor(history, config, now)
    read = read_window(config, monitor.warehouse, window, name, now)
    kept = kept_of(monitor, read.reading, baselines_of(monitor, name))
    return Packed(prepare(window, kept, now), pickle.dumps(read, protocol=pickle.HIGHEST_PROTOCOL))


def judge_on_worker(
    history: str, config: Config, window: Window, name: str, now: datetime, content: bytes
) -> Evaluated:
    """In a worker: judge a window that a worker read and whose counts are stored."""
    monitor = _monitor(history, config, now)
    read = pickle.loads(content)  # noqa: S301 - packed by read_on_worker
    collected = collect_one(monitor, window, name, read, store=False, reread=False)
    return judge(monitor, [collected], keep=False)[0]


def _monitor(history: str, config: Config, now: datetime) -> Monitor:
    """A worker's adapters: warehouse and history of its own environment, configuration of the sending process."""
    settings = load_settings(os.environ)
    warehouse = _warehouse(settings, relations_of(config))
    return Monitor(config, settings, warehouse, own_history(history), None, lambda: now)


@lru_cache(maxsize=1)
def _warehouse(settings: Settings, relations: frozenset[str]) -> Warehouse:
    return warehouse_of(settings, relations)
