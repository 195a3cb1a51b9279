"""Evaluate many past windows, oldest first. It never changes a switch and never sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE

from flows.hooks import report_run_failed
from flows.stages import NothingEvaluated, opened, past_windows, requested, scheduled_window
from monitor.core.records import Schedule
from monitor.core.redaction import secrets_hidden
from monitor.core.windows import span
from monitor.operations.workers import Awaited, Workers, WorkersFailed, processes, work


@task(name="work for a backfill", task_run_name="read or judge", cache_policy=NO_CACHE)
def on_dask_worker(payload: bytes) -> bytes:
    """In a worker of a Dask cluster: read or judge a window."""
    with secrets_hidden():  # not as a decorator: a decorated function could not be sent to the worker
        return work(payload)


@contextmanager
def dask_tasks(address: str) -> Iterator[Workers]:
    """The workers of the Dask scheduler at this address; their work appears as tasks of this flow run.

    Raises WorkersFailed if prefect-dask is not installed, and if the cluster has no worker.
    """
    try:
        from prefect_dask import DaskTaskRunner  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise WorkersFailed("Dask is not installed; pip install 'calibration-monitor[dask]'") from error
    with DaskTaskRunner(address=address) as runner:
        count = len(runner.client.nthreads())
        if not count:
            raise WorkersFailed(f"the Dask scheduler at {address} has no worker; start some with `dask worker`")

        def submit(payload: bytes) -> Awaited[bytes]:
            pending: Awaited[bytes] = runner.submit(on_dask_worker, {"payload": payload})
            return pending

        yield Workers(count, submit)


def workers_of(workers: int | None, dask: str | None) -> AbstractContextManager[Workers | None]:
    """The workers of a flow run: those of a Dask cluster, ``workers`` processes of this machine, or None."""
    if dask is not None:
        return dask_tasks(dask)
    return nullcontext() if workers is None else processes(workers)


@flow(
    name="calmon-backfill",
    timeout_seconds=6 * 3600,
    on_failure=[report_run_failed],
    on_crashed=[report_run_failed],
    description="Evaluate many past windows, oldest first; never switches or sends.",
)
def backfill(
    first: str,
    last: str,
    schedule: Schedule = "weekly",
    sources: list[str] | None = None,
    workers: int | None = None,
    dask: str | None = None,
) -> dict[str, int]:
    """Evaluate the windows from ``first`` to ``last``; returns window name -> number of breaches.

    ``workers`` processes of this machine, or the workers of the Dask scheduler at the address ``dask``, read and judge.
    If no source of a window could be read, the flow goes on with the others, and fails at its end.
    """
    logger = get_run_logger()
    found: dict[str, int] = {}
    unread: list[str] = []
    with opened() as monitor, workers_of(workers, dask) as helpers:
        names = requested(monitor, sources)
        ends = (scheduled_window(monitor, schedule, first), scheduled_window(monitor, schedule, last))
        windows = span(*ends, monitor.config.zone)
        bar = create_progress_artifact(progress=0.0, key="calmon-backfill", description=f"{first} to {last}")
        with closing(past_windows(monitor, windows, names, helpers)) as past:
            for done, (window, result) in enumerate(zip(windows, past, strict=True), start=1):
                unread += [window.name] if all(part.problem for part in result.evaluated) else []
                for part in (part for part in result.evaluated if part.problem):
                    logger.warning("%s: %s could not be read: %s", window.name, part.source, part.error)
                found[window.name] = sum(v.outcome == "breach" for part in result.evaluated for v in part.verdicts)
                logger.info("%s: %d breaches", window.name, found[window.name])
                if isinstance(bar, UUID):
                    update_progress_artifact(artifact_id=bar, progress=100.0 * done / len(windows))
    if unread:
        raise NothingEvaluated(f"no source could be read for {', '.join(unread)}")
    return found
