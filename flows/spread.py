"""Tasks of one flow run on more processes: of this machine, or of a Dask cluster.

The processes are Prefect's own task runners. Each takes the addresses of warehouse and history from its environment.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from typing import Any

from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core.redaction import secrets_hidden
from monitor.operations.open import open_monitor


class CannotSpread(Exception):
    """The processes cannot be reached, or would give other results; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a process must have in common with the flow: the id of the history, and the revision of the rules."""

    history: str
    revision: str


def origin_of(monitor: Monitor) -> Origin:
    """What the processes of a flow must find, too."""
    return Origin(monitor.store.identity().mark.history, monitor.config.revision)


@contextmanager
def opened_like(origin: Origin, *, reads: bool = True) -> Iterator[Monitor]:
    """In the process of a task: the adapters of its environment. Raises CannotSpread if they are not the flow's."""
    with secrets_hidden(), open_monitor(load_settings(os.environ), creates=False, reads=reads) as monitor:
        here = origin_of(monitor)
        if here.history != origin.history:
            raise CannotSpread("a worker has another history; give it the CALMON_STORE_URL of the flow")
        if here.revision != origin.revision:
            raise CannotSpread("a worker has other rules; give it the alerts.yaml of the flow (CALMON_CONFIG)")
        yield monitor


def end_with_the_flow() -> None:
    """Let this process of a pool end when that of the flow has ended, however: it would wait for work for ever."""

    def wait() -> None:
        if (flow := parent_process()) is not None:
            connection.wait([flow.sentinel])
            os._exit(1)  # nobody waits for a result; what was stored stays

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def task_runner(workers: int, dask: str | None) -> Iterator[TaskRunner[Any]]:
    """``workers`` processes of this machine, or the workers of the Dask scheduler at an address.

    Raises CannotSpread if Dask is not installed, has no worker, or has other versions of packages.
    """
    if dask is None:
        with ProcessPoolTaskRunner(max_workers=workers, initializer=end_with_the_flow) as runner:
            yield runner
        return
    try:
        from prefect_dask import DaskTaskRunner  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise CannotSpread("Dask is not installed; pip install 'calibration-monitor[dask]'") from error
    with DaskTaskRunner(address=dask) as runner:
        if not runner.client.nthreads():
            raise CannotSpread(f"the Dask scheduler at {dask} has no worker; start some with `dask worker`")
        runner.client.get_versions(check=True, packages=["scipy"])  # the last digits of results could differ
        yield runner
