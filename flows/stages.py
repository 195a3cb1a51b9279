"""The stages of monitor.run as Prefect tasks: retries on I/O only, time-outs, the page of a run.

monitor.run defines the stages and their order; this module adds the page of the run, and decides nothing.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.runtime import flow_run, task_run
from prefect.tasks import exponential_backoff
from sqlalchemy.exc import InterfaceError, OperationalError

from flows.artifacts import publish
from monitor.alerting.health import outage
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.watchdog import is_reported
from monitor.config.load import load_config
from monitor.config.settings import Settings, load_settings
from monitor.context import ActMode, Monitor, utc_now
from monitor.core.log_lines import about
from monitor.core.records import Schedule, Subject, Window
from monitor.core.redaction import secrets_hidden
from monitor.core.windows import WindowError, last_ready, named
from monitor.history.errors import HistoryLost, StoreMissing, StoreUnreachable
from monitor.operations.open import open_monitor, open_store
from monitor.run import STAGES, Run, Stage, act, begin, catch_up, judge, perform, read
from monitor.story.label import headline_of
from monitor.warehouse.reader import WarehouseFailed

RETRIES = 3
GRACE = 300
"""Seconds past the flow's time-out after which its process is ended."""

OUTSIDE = (WarehouseFailed, StoreUnreachable, OperationalError, InterfaceError, OSError)
"""The errors of a database, a disk or a network that did not answer."""


class NothingEvaluated(Exception):
    """No source could be judged, so the run must fail instead of looking like a quiet week; the message says why."""


class NothingEvaluatedReported(NothingEvaluated):
    """No source could be judged, and a stored message of the run reports it; ``flows.hooks`` checks for this name."""


def only_io(_task: Any, _task_run: Any, state: Any) -> bool:
    """Whether a failed task may be tried again: only if a database, disk or network did not answer.

    Not after a time-out (which is an OSError too): a second try would only time out again.
    """
    return isinstance(state.data, OUTSIDE) and not isinstance(state.data, TimeoutError)


IO: dict[str, Any] = {
    "retries": RETRIES,
    "retry_delay_seconds": exponential_backoff(backoff_factor=5),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": only_io,
    "cache_policy": NO_CACHE,
}


@task(name="reach the history", timeout_seconds=120, **IO)
@secrets_hidden()
def reach(settings: Settings, creates: bool = True) -> None:
    """Make sure that the history answers before anything is judged.

    That there is none yet is no failure of this task: it is raised where the history is opened.
    """
    with suppress(StoreMissing), open_store(settings, writes=True, creates=creates) as store:
        store.ping()


@task(name="see whether it is reported", timeout_seconds=120, **IO)
@secrets_hidden()
def ask(question: Callable[[], bool]) -> bool:
    """Run a query of the history outside the stages, with retries: a lost connection must not fail a finished run."""
    return question()


def tries_left() -> bool:
    """Whether the current task will be tried again if a database, disk or network does not answer."""
    return (task_run.run_count or 1) <= RETRIES


@task(**IO)
@secrets_hidden()
def work(window: Window, stage: Callable[[], Run]) -> Run:
    """Do one stage of the run of a window; :data:`TASKS` has its name and time-out."""
    return stage()


TASKS: dict[Stage, Task[..., Run]] = {
    stage: work.with_options(
        name=stage.__name__, task_run_name=f"{stage.__name__} {{window.name}}", timeout_seconds=seconds
    )
    for stage, seconds in ((begin, 120), (read, 2700), (judge, 1800), (act, 600), (publish, 600))
}
"""The stages that are tasks, with their time-outs in seconds. The heartbeat is not a task: it never fails."""
PUBLISHED = (*STAGES[:-1], publish, STAGES[-1])
"""The stages of a run of which Prefect shows a summary."""


def evaluate_window(
    monitor: Monitor, window: Window, sources: Sequence[str], mode: ActMode, stages: Sequence[Stage] = STAGES
) -> Run:
    """Evaluate one window by tasks."""
    run = Run(window, tuple(sources), mode, progress=lambda text: get_run_logger().debug(text), try_again=tries_left)
    return perform(monitor, run, stages, as_task)


def as_task(stage: Stage, monitor: Monitor, run: Run) -> Run:
    """Do a stage of a run: as a task if it has one, else directly."""
    return TASKS[stage](run.window, partial(stage, monitor, run)) if stage in TASKS else stage(monitor, run)


@contextmanager
def opened(*, creates: bool = True) -> Iterator[Monitor]:
    """The adapters of this environment.

    A broken alerts.yaml fails at once; a history that is down is tried again. Only a run ``creates`` a history, and
    only if there never was one: a lost history raises HistoryLost, which the heartbeat reports.
    """
    settings = load_settings(os.environ)
    load_config(settings.config)
    with secrets_hidden(), deadline():
        try:
            reach(settings, creates)
        except HistoryLost as error:
            beat(settings.heartbeat_url, failed=str(error))
            raise
        with open_monitor(settings, creates=creates) as monitor:
            outage.end(settings, monitor.store, utc_now())
            yield monitor


@contextmanager
def deadline() -> Iterator[None]:
    """End this process if the flow is long past its time-out.

    This is the last resort. The warehouse cancels slow queries itself, and Prefect's time-outs are alarms, which wait
    until the database driver returns. A driver that never returns, even from a cancelled query, would block every
    later run. When the process ends, the worker reports a crash and the hook notifies Slack; the log has the stack.
    """
    context = FlowRunContext.get()
    seconds = context.flow.timeout_seconds if context and context.flow else None
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def scheduled_window(monitor: Monitor, schedule: Schedule, name: str | None) -> Window:
    """The named window, else the one that was ready at this run's *scheduled* time.

    After an outage Prefect runs its backlog late, and each late run evaluates its own window. Raises WindowError for a
    window that is not over yet.
    """
    if name is None:
        return last_ready(schedule, flow_run.scheduled_start_time or monitor.clock(), monitor.config.zone)
    window = named(schedule, name, monitor.config.zone)
    if window.end > monitor.clock():
        raise WindowError(f"{window.name} is not over yet: it ends {window.end:%Y-%m-%d %H:%M} UTC")
    return window


def requested(monitor: Monitor, sources: Sequence[str] | None) -> list[str]:
    """The requested sources, or all; raises ValueError for one that alerts.yaml does not have."""
    known = list(monitor.config.sources)
    unknown = [name for name in sources or () if name not in known]
    if unknown:
        raise ValueError(f"alerts.yaml has no source {', '.join(unknown)}; it has: {', '.join(known)}")
    return list(sources or known)


def run_schedule(schedule: Schedule, name: str | None, sources: list[str] | None, act_anyway: bool) -> dict[str, Any]:
    """The body of the weekly and the daily flow: evaluate, publish, and log the result."""
    logger = get_run_logger()
    with opened() as monitor:
        names = requested(monitor, sources)
        window = scheduled_window(monitor, schedule, name)
        due = Run(window, tuple(names), progress=logger.debug)
        for missed in catch_up(monitor, due, PUBLISHED[:-1], as_task) if name is None else ():
            _say(missed, logger.info, logger.error, "was missed: judged before the window that is due")
        result = evaluate_window(monitor, window, names, "always" if act_anyway else "auto", PUBLISHED)
        _say(result, logger.info, logger.error, "judged")
        failed = unread(result)
        reported = bool(failed) and ask(lambda: is_reported(monitor))
    refuse_empty(result, reported=reported)
    return result.document


def unread(result: Run) -> list[str]:
    """The sources of a run if none of them could be read; empty if at least one was judged."""
    failed = [part.source for part in result.evaluated if part.problem]
    return failed if len(failed) == len(result.evaluated) else []


def refuse_empty(result: Run, *, reported: bool = False) -> None:
    """Raise NothingEvaluated if no source could be read: an unattended run must not stay silent about that.

    ``reported``: the run's own message reports it already, so the hook of the failed flow need not.
    """
    if all(part.problem for part in result.evaluated):
        raise (NothingEvaluatedReported if reported else NothingEvaluated)(
            "; ".join(f"{p.source}: {p.problem}: {p.error}" for p in result.evaluated)
        )


def _say(result: Run, info: Callable[..., None], error: Callable[..., None], what: str) -> None:
    with about(**result.subject):
        info("%s", what)
        _say_what_was_found(result, info, error)


def _say_what_was_found(result: Run, info: Callable[..., None], error: Callable[..., None]) -> None:
    for part in result.evaluated:
        if part.problem:
            error("%s: %s: %s", part.source, part.problem, part.error)
    for found in (each for each in result.diagnoses if each.needs_somebody):
        name = Subject(found.source, found.label).name
        info("%s (calmon explain %s)", headline_of(found, name), found.because[0][:12])
    for action in result.actions:
        info("%s %s/%s: %s", action.kind, action.source, action.label or "(all labels)", action.state)
