"""Other processes that read and judge windows: on this machine, on a Dask cluster, or where a flow sends its tasks.

A worker gets a pickled call of a function of a module, and returns its pickled result, whatever the kind of worker. A
worker with other package versions than this process refuses, since the last digits of its results could differ.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Generic, ParamSpec, Protocol, TypeVar

from monitor.config.settings import load_settings
from monitor.history.store import Store

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

DASK_PATIENCE_S = 10
PRELOADED = ["monitor.backfill", "monitor.operations.replay.replay", "duckdb", "pandas", "scipy.stats"]
"""The modules that reading and judging need, imported once for all processes of this machine."""
_SAME = ("calibration-monitor", "numpy", "scipy")
_one_at_a_time = threading.Lock()  # a Dask worker may have several threads, but cached objects are for one thread


class WorkersFailed(Exception):
    """The workers cannot be reached, were lost, or have other versions; the message says what to do."""


class Awaited(Protocol[R_co]):
    """Work that a worker has begun or will begin."""

    def result(self) -> R_co:
        """Wait for the work; returns its result or raises its error."""


@dataclass(frozen=True, slots=True)
class Workers:
    """``count`` processes; ``hand_over`` lets one of them call :func:`work` on a payload.

    ``lost`` are the error types which mean that a worker was ended from outside.
    """

    count: int
    hand_over: Callable[[bytes], Awaited[bytes]]
    lost: tuple[type[Exception], ...] = ()

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Awaited[R]:
        """Let a worker call a function of a module."""
        return _Answer(self.hand_over(_packed((versions(), _packed((function, args, kwargs))))), self.lost)


@dataclass(frozen=True, slots=True)
class _Answer(Generic[R]):
    """The unpacked result of a payload."""

    pending: Awaited[bytes]
    lost: tuple[type[Exception], ...]

    def result(self) -> R:
        try:
            packed = self.pending.result()
        except self.lost as error:
            raise WorkersFailed("a worker was ended from outside, perhaps for want of memory; use fewer") from error
        found: R = pickle.loads(packed)  # noqa: S301 - packed by work() in one of our processes
        return found


def _packed(content: object) -> bytes:
    return pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)


@cache
def versions() -> dict[str, str]:
    """The versions that must be the same here and in the workers, so that results are equal to the byte."""
    return {"Python": platform.python_version()} | {name: _version(name) for name in _SAME}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a checkout that was never installed
        return "not installed"


def work(payload: bytes) -> bytes:
    """In a worker: call the function of a payload. Raises WorkersFailed if the versions differ."""
    expected, call = pickle.loads(payload)  # noqa: S301 - packed by Workers.submit()
    installed = versions()
    if expected != installed:
        differences = ", ".join(
            f"{name} {installed[name]} instead of {expected[name]}"
            for name in installed
            if installed[name] != expected[name]
        )
        raise WorkersFailed(f"a worker has {differences}; install the versions of this process there")
    function, args, kwargs = pickle.loads(call)  # noqa: S301 - as above
    with _one_at_a_time:
        return _packed(function(*args, **kwargs))


def own_history(expected: str) -> Store:
    """In a worker: the history of its own environment, kept open; ``expected`` is the id of the sender's history.

    Raises WorkersFailed if that is another history, and HistoryError if it cannot be read.
    """
    store, found = _opened(load_settings(os.environ).store_url.get_secret_value())
    if found != expected:
        raise WorkersFailed("a worker reads another history; give it the CALMON_STORE_URL of this process")
    return store


@lru_cache(maxsize=1)
def _opened(url: str) -> tuple[Store, str]:
    store = Store.from_url(url, create=False)
    return store, store.identity().mark.history


@contextmanager
def processes(count: int) -> Iterator[Workers]:
    """``count`` processes of this machine, with this process's environment; they end with the block."""
    from concurrent.futures import process  # noqa: PLC0415 - most commands start no process
    from multiprocessing import get_all_start_methods, get_context  # noqa: PLC0415 - as above

    # Workers are forked from one process that has imported what they need, so that it is imported once.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    context.set_forkserver_preload(PRELOADED)
    pool = process.ProcessPoolExecutor(
        count, mp_context=context, initializer=_begin_in, initargs=(dict(os.environ), Path.cwd())
    )
    try:
        yield Workers(count, lambda payload: pool.submit(work, payload), lost=(process.BrokenProcessPool,))
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_in(environment: Mapping[str, str], folder: Path) -> None:
    """Give a new process the command's environment and folder, not the fork server's. Only the command sees Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)


def _end_with_the_command() -> None:
    """End this process when the command's has ended, however: a worker would wait for ever for its next work.

    The sentinel is the end of a pipe that the command itself holds open, with a fork server too.
    """
    from multiprocessing import connection, parent_process  # noqa: PLC0415 - as above

    command = parent_process()
    if command is not None:
        connection.wait([command.sentinel])
        os._exit(1)  # nobody waits for a result, and what a worker has open it only reads


@contextmanager
def dask_cluster(address: str) -> Iterator[Workers]:
    """The workers of the Dask scheduler at an address like ``tcp://scheduler:8786``.

    Raises WorkersFailed if it does not answer or has no worker, and if Dask is not installed.
    """
    try:
        from distributed import Client, KilledWorker  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise WorkersFailed("Dask is not installed; pip install 'calibration-monitor[dask]'") from error
    try:
        client = Client(address, timeout=DASK_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkersFailed(f"no Dask scheduler answers at {address}; start one with `dask scheduler`") from error
    with client:
        count = len(client.nthreads())
        if not count:
            raise WorkersFailed(f"the Dask scheduler at {address} has no worker; start some with `dask worker`")

        def hand_over(payload: bytes) -> Awaited[bytes]:
            # scattered, since the scheduler's graph should not hold megabytes
            found: Awaited[bytes] = client.submit(work, client.scatter(payload, hash=False), pure=False)
            return found

        yield Workers(count, hand_over, lost=(KilledWorker,))
