"""The stages of monitor.run as Prefect tasks: retries on I/O only, time-outs, artifacts, events.

The logic is plain functions in ``monitor``; nothing here decides anything.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.runtime import flow_run, task_run
from prefect.tasks import exponential_backoff
from sqlalchemy.exc import InterfaceError, OperationalError

from flows.artifacts import show
from monitor import run as stages
from monitor.alerting.health import outage
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.watchdog import is_told
from monitor.config.load import load_config
from monitor.config.settings import Settings, load_settings
from monitor.context import ActMode, Monitor, utc_now
from monitor.core.records import Action, Reason, Schedule, Window
from monitor.core.redaction import secrets_hidden
from monitor.core.windows import WindowError, last_ready, named
from monitor.evaluation.evaluate import Evaluated
from monitor.history.errors import HistoryLost, StoreUnreachable
from monitor.operations.collect import Collected, collect
from monitor.operations.open import open_monitor, open_store
from monitor.run import RunResult
from monitor.warehouse.reader import WarehouseFailed

RETRIES = 3
GRACE = 300
"""Seconds past the flow's time-out after which its process is ended."""

OUTSIDE = (WarehouseFailed, StoreUnreachable, OperationalError, InterfaceError, OSError)
"""What is raised where a database, a disk or a network did not answer."""


class NothingEvaluated(Exception):
    """No source could be judged, so the run must not look like a quiet week; the message says why."""


class NothingEvaluatedTold(NothingEvaluated):
    """The same, and a stored message of the run says it already: ``flows.hooks`` knows it by this name."""


def only_io(_task: Any, _task_run: Any, state: Any) -> bool:
    """Whether a failed task may be tried again: only where something outside did not answer.

    Not after a time-out (an OSError too): what took too long once would only be cut off again.
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
    """Make sure that the history answers (and exists) before anything is judged."""
    with open_store(settings, writes=True, creates=creates) as store:
        store.ping()


@task(name="begin", task_run_name="begin {window.name}", timeout_seconds=120, **IO)
@secrets_hidden()
def begin(monitor: Monitor, window: Window, mode: ActMode, sources: Sequence[str]) -> str:
    """Write down that the window is being judged. Raises WindowRefused for one that can have no data yet."""
    stages.refuse_premature(monitor, window, sources, beats=mode != "never")
    return stages.begin(monitor, window, mode)


@task(name="read", task_run_name="read {window.name}", timeout_seconds=2700, **IO)
@secrets_hidden()
def read(monitor: Monitor, window: Window, sources: Sequence[str], reread: bool = True) -> list[Collected]:
    """Counts of every source; a warehouse that does not answer is asked again, then told as a verdict.

    One that took too long for one source is not asked again: there is time for two or three such sources.
    """
    found = collect(monitor, window, sources, store=True, reread=reread, progress=get_run_logger().debug)
    failed = [c.data for c in found if c.data.problem is Reason.WAREHOUSE_FAILED and not c.timed_out]
    if failed and (task_run.run_count or 1) <= RETRIES:
        raise WarehouseFailed(f"{failed[0].name}: {failed[0].error}")
    return found


@task(name="judge", task_run_name="judge {window.name}", timeout_seconds=1800, **IO)
@secrets_hidden()
def judge(monitor: Monitor, window: Window, data: Sequence[Collected]) -> tuple[Evaluated, ...]:
    """Estimates, shift tests (which draw their samples from the warehouse) and verdicts."""
    return stages.judge(monitor, data)


@task(name="act", task_run_name="act on {window.name}", timeout_seconds=600, **IO)
@secrets_hidden()
def act(monitor: Monitor, window: Window, evaluated: Sequence[Evaluated], mode: ActMode) -> list[Action]:
    """Store verdicts, switch, write messages and send them. Repeatable: nothing happens twice."""
    actions = stages.record_and_act(monitor, window, evaluated, mode)
    stages.finish(monitor, window, evaluated, mode)
    return actions


@task(name="publish", task_run_name="publish {window.name}", timeout_seconds=600, **IO)
@secrets_hidden()
def publish(monitor: Monitor, window: Window, result: RunResult) -> None:
    """The report's page, the artifacts and the events of this run."""
    show(monitor, window, result)


def evaluate_window(monitor: Monitor, window: Window, sources: Sequence[str], mode: ActMode) -> RunResult:
    """One window through the tasks."""
    run = begin(monitor, window, mode, sources)
    with stages.failure_noted(monitor, window, beats=mode != "never"):
        data = read(monitor, window, sources, mode != "never")
        evaluated = judge(monitor, window, data)
        actions = act(monitor, window, evaluated, mode)
    return stages.result(run, window, evaluated, actions)


@contextmanager
def opened(*, creates: bool = True) -> Iterator[Monitor]:
    """The adapters of this environment.

    A broken alerts.yaml fails here at once; a history that is down is waited for. Only a run ``creates`` one, and only
    where there never was one: a history that was lost raises HistoryLost, and the heartbeat hears of it.
    """
    settings = load_settings(os.environ)
    load_config(settings.config)
    with secrets_hidden(), deadline():
        try:
            reach(settings, creates)
        except HistoryLost as error:
            beat(settings.heartbeat_url, failed=str(error))
            raise
        outage.end(settings, utc_now())
        with open_monitor(settings, creates=creates) as monitor:
            yield monitor


@contextmanager
def deadline() -> Iterator[None]:
    """End this process where the flow is long past its time-out.

    The last resort: the warehouse cancels what takes too long by itself, and Prefect's time-outs are
    alarms, which wait until the database driver returns. A driver that never does, not even from a
    cancelled query, would block every later run too. The worker sees the process end, calls that a crash,
    and the hook tells Slack; the log shows where it hung.
    """
    context = FlowRunContext.get()
    seconds = context.flow.timeout_seconds if context and context.flow else None
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def scheduled_window(monitor: Monitor, schedule: Schedule, name: str | None) -> Window:
    """The named window, else the one that was ready at this run's *scheduled* time.

    After an outage Prefect runs its backlog late: each late run evaluates its own window.
    Raises WindowError for a window that is not over yet.
    """
    if name is None:
        return last_ready(schedule, flow_run.scheduled_start_time or monitor.clock(), monitor.config.zone)
    window = named(schedule, name, monitor.config.zone)
    if window.end > monitor.clock():
        raise WindowError(f"{window.name} is not over yet: it ends {window.end:%Y-%m-%d %H:%M} UTC")
    return window


def requested(monitor: Monitor, sources: Sequence[str] | None) -> list[str]:
    """The sources asked for, or all; raises ValueError for one that alerts.yaml does not have."""
    known = list(monitor.config.sources)
    unknown = [name for name in sources or () if name not in known]
    if unknown:
        raise ValueError(f"alerts.yaml has no source {', '.join(unknown)}; it has: {', '.join(known)}")
    return list(sources or known)


def run_schedule(schedule: Schedule, name: str | None, sources: list[str] | None, act_anyway: bool) -> dict[str, Any]:
    """What the weekly and the daily flow do: evaluate, publish, and say it in the log."""
    logger = get_run_logger()
    with opened() as monitor:
        names = requested(monitor, sources)
        window = scheduled_window(monitor, schedule, name)
        logger.info("evaluating %s", window.name)
        result = evaluate_window(monitor, window, names, "always" if act_anyway else "auto")
        publish(monitor, window, result)
        _say(result, logger.info, logger.error)
        stages.tell_heartbeat(monitor, result.evaluated)
        told = is_told(monitor, [part.source for part in result.evaluated if part.problem])
    refuse_empty(result, told=told)
    return result.document


def refuse_empty(result: RunResult, *, told: bool = False) -> None:
    """Raise NothingEvaluated where no source could be read: an unattended run must not stay silent then.

    ``told``: the run's own message says so already, and the hook of the failed flow need not say it again.
    """
    if all(part.problem for part in result.evaluated):
        raise (NothingEvaluatedTold if told else NothingEvaluated)(
            "; ".join(f"{p.source}: {p.problem}: {p.error}" for p in result.evaluated)
        )


def _say(result: RunResult, info: Callable[..., None], error: Callable[..., None]) -> None:
    for part in result.evaluated:
        if part.problem:
            error("%s: %s: %s", part.source, part.problem, part.error)
        for verdict in part.verdicts:
            if verdict.outcome == "breach":
                info("breach %s: %s %s (%s)", verdict.id, verdict.rule, verdict.subject.name, verdict.reason)
    for action in result.actions:
        info("%s %s/%s: %s", action.kind, action.source, action.label or "(all labels)", action.state)
