"""Measure seconds, if needed in new processes; and the sizes of what `make bench` measures."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")
}
"""Variables that the libraries behind numpy, scipy, scikit-learn and torch read once, when they are loaded."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of every round, scaled up if only a part was measured."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)

    @property
    def shown(self) -> tuple[str, str, str]:
        """Smallest, median and largest, as text."""
        return number(min(self.seconds)), number(self.median), number(max(self.seconds))


def number(seconds: float) -> str:
    """A number of seconds with four digits.

    >>> number(0.0285444), number(1234.5)
    ('0.02854', '1,234')
    """
    return f"{seconds:,.0f}" if seconds >= 1000 else f"{seconds:.4g}"


def times(ratio: float) -> str:
    """A ratio as text.

    >>> times(266.4), times(0.2534)
    ('266x', '0.25x')
    """
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2f}x"


def timed(run: Callable[[], R]) -> tuple[float, R]:
    """(seconds that ``run`` took, its result)."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def in_turns(
    runs: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    warm_up: bool = False,
    scale: Mapping[str, float] | None = None,
) -> list[Timing]:
    """Time every run in every round, in turns, so that a slow moment of the machine affects all of them.

    ``warm_up``: one more round first, which does not count. ``scale``: name -> factor for a run that measures a part.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + warm_up):
        for name, run in runs.items():
            seconds[name].append(timed(run)[0] * (scale or {}).get(name, 1.0))
    return [Timing(name, tuple(values[warm_up:])) for name, values in seconds.items()]


def fresh(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a module's function, called in a new process whose libraries have one thread.

    Raises BrokenProcessPool if the child was killed, such as for lack of memory.
    """
    spawned = multiprocessing.get_context("spawn")
    with _one_thread(), ProcessPoolExecutor(max_workers=1, mp_context=spawned) as pool:
        return pool.submit(function, *args, **kwargs).result()


@contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of all benchmarks.

    ``labels`` labels everywhere. The race: ``rows`` a label and ``resamples``
    an interval, of which a round measures as many as it can in ``patience`` seconds (the numpy row bootstrap) or
    ``peer_patience`` (the others). Replay: ``replayed`` weeks and their days.
    """

    labels: int = 20
    rows: int = 100_000
    resamples: int = 1000
    patience: float = 30.0
    peer_patience: float = 4.0
    rounds: int = 3
    replayed: int = 52


QUICK = Size(
    labels=4,
    rows=20_000,
    resamples=100,
    patience=0.2,
    peer_patience=0.05,
    rounds=2,
    replayed=4,
)
"""Small data, to check that everything runs, not how fast."""
