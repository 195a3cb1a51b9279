"""Evaluate many past windows of many sources, on as many processes as wanted. It never switches and never sends.

A window is judged by its counts and those of the windows before it; random numbers are seeded by source, label, metric
and window. So verdicts are the same in whatever order windows are judged, once the counts before them are stored. A
diagnosis goes on from those before it. So a block of windows is read, then judged, both in any order, and then recorded
in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger, task, unmapped
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.task_runners import TaskRunner

from flows.hooks import report_run_failed
from flows.spread import Origin, opened_like, origin_of, task_runner
from flows.stages import IO, NothingEvaluated, opened, requested, scheduled_window, tries_left
from monitor import run as stages
from monitor.core.records import Schedule, Window
from monitor.core.windows import span
from monitor.operations import collect
from monitor.run import Run, perform
from monitor.warehouse.reader import RelationError, WarehouseFailed

BLOCK = 13
"""How many windows are read before the first of them is judged: their readings are in memory until then."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One source in one window: how many verdicts are breaches, or why it could not be read."""

    window: str
    source: str
    breaches: int
    unread: str = ""


@task(name="read", task_run_name="read {source} {window.name}", timeout_seconds=2700, **IO)
def read_ahead(origin: Origin, window: Window, source: str) -> collect.WindowRead | None:
    """Read one source in one window and store its counts; None if it cannot be read, which :func:`judge` reports."""
    with opened_like(origin) as monitor:
        try:
            return collect.read_ahead(monitor, window, source)
        except (RelationError, WarehouseFailed) as error:
            if isinstance(error, WarehouseFailed) and tries_left():
                raise
            return None


@task(name="judge", task_run_name="judge {source} {window.name}", timeout_seconds=4500, **IO)
def judge(origin: Origin, window: Window, source: str, ahead: collect.WindowRead | None = None) -> Run:
    """Judge one source in one window, from what was read ``ahead``; nothing but its counts is stored."""
    with opened_like(origin) as monitor:
        readings = {} if ahead is None else {source: ahead}
        due = Run(window, (source,), "never", try_again=tries_left, ahead=readings)
        return replace(perform(monitor, due, (stages.begin, stages.read, stages.judge)), ahead={})


@task(name="record", task_run_name="record {source}", timeout_seconds=4500, **IO)
def record(origin: Origin, source: str, runs: Sequence[Run]) -> list[Judged]:
    """Diagnose and store what was judged of one source, oldest first: a diagnosis goes on from those before it."""
    with opened_like(origin) as monitor:
        return [_summary(source, perform(monitor, run, (stages.act,))) for run in runs]


def _summary(source: str, run: Run) -> Judged:
    (part,) = run.evaluated
    breaches = sum(verdict.outcome == "breach" for verdict in part.verdicts)
    return Judged(run.window.name, source, breaches, f"{part.problem}: {part.error}" if part.problem else "")


def blocks(windows: Sequence[Window]) -> list[Sequence[Window]]:
    """The windows in blocks. The first is alone: evaluating it reads the windows before it that are pooled with it."""
    return [windows[:1], *(windows[start : start + BLOCK] for start in range(1, len(windows), BLOCK))]


def evaluate_block(
    runner: TaskRunner[Any], origin: Origin, windows: Sequence[Window], sources: Sequence[str]
) -> list[Judged]:
    """Read every source in every window of a block, then judge all of them, then store them source by source."""
    pairs, mapped = list(product(sources, windows)), dict[str, Any](origin=unmapped(origin))
    mapped |= {"source": [source for source, _ in pairs], "window": [window for _, window in pairs]}
    if len(windows) > 1:
        mapped["ahead"] = runner.map(read_ahead, mapped)  # type: ignore[arg-type]  # Prefect: a task that may be async
        mapped["ahead"].wait()
    runs = runner.map(judge, mapped).result()  # type: ignore[arg-type]
    of_source = [runs[start : start + len(windows)] for start in range(0, len(runs), len(windows))]
    stored = {"origin": unmapped(origin), "source": list(sources), "runs": of_source}
    return [each for judged in runner.map(record, stored).result() for each in judged]  # type: ignore[arg-type]


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
    workers: int = 1,
    dask: str | None = None,
) -> dict[str, int]:
    """Evaluate the windows from ``first`` to ``last``; returns window name -> number of breaches.

    ``workers`` processes of this machine do it, or those of the Dask scheduler at the address ``dask``. If no source of
    a window could be read, the flow goes on with the others, and fails at its end.
    """
    logger = get_run_logger()
    judged: list[Judged] = []
    with opened() as monitor, task_runner(workers, dask) as runner:
        names = requested(monitor, sources)
        ends = (scheduled_window(monitor, schedule, first), scheduled_window(monitor, schedule, last))
        windows = span(*ends, monitor.config.zone)
        bar = create_progress_artifact(progress=0.0, key="calmon-backfill", description=f"{first} to {last}")
        for block in blocks(windows):
            judged += evaluate_block(runner, origin_of(monitor), block, names)
            if isinstance(bar, UUID):
                update_progress_artifact(artifact_id=bar, progress=100.0 * len(judged) / (len(windows) * len(names)))
    for each in judged:
        if each.unread:
            logger.warning("%s: %s could not be read: %s", each.window, each.source, each.unread)
    unread = [w.name for w in windows if all(each.unread for each in judged if each.window == w.name)]
    if unread:
        raise NothingEvaluated(f"no source could be read for {', '.join(unread)}")
    return {w.name: sum(each.breaches for each in judged if each.window == w.name) for w in windows}
