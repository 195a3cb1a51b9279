"""The stages of a run, in order: begin, read, judge, act, publish, heartbeat. Read this module first.

The command line performs the stages one after the other; the flows perform each as a task with retries and a time-out.
Every stage may be run again after a crash: its results are keyed by their subject, not by the attempt.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, cast

from monitor.alerting.health import watchdog
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.issues import failed_note
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.context import ActMode, Monitor
from monitor.core.records import Action, Delivery, Window
from monitor.core.redaction import without_secrets
from monitor.core.wording import clean
from monitor.evaluation.evaluate import Evaluated, evaluate
from monitor.operations import act as acting
from monitor.operations import collect, incident_actions, publish_thresholds, restate
from monitor.operations.attribute import with_causes
from monitor.operations.refuse_premature import WindowRefused, refuse_premature
from monitor.report.run_document import run_document

ERROR_LENGTH = 2_000
Progress = Callable[[str], None]


def _quiet(_: str) -> None: ...


class StageName(StrEnum):
    """The stages of a run, in their order."""

    BEGIN = "begin"
    READ = "read"
    JUDGE = "judge"
    ACT = "act"
    PUBLISH = "publish"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage that is due. ``work`` does it and returns its result; it may be called again after a failure."""

    name: StageName
    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: its JSON document, the evaluated sources, and the actions."""

    document: dict[str, Any]
    evaluated: tuple[Evaluated, ...]
    actions: tuple[Action, ...]

    @property
    def breached(self) -> bool:
        """Whether any verdict is a breach."""
        return any(v.outcome == "breach" for part in self.evaluated for v in part.verdicts)


Stages = Generator[Stage, Any, RunResult]
"""The stages of one run. After each stage, its result is sent into the generator."""
Do = Callable[[Stage], Any]
"""Does a stage and returns its result."""


class WorkerStages(Protocol):
    """Other processes that read and judge instead of this one."""

    def read(self, window: Window) -> Any:
        """Store the counts of a window in the history, as the READ stage does; returns the data to judge."""

    def judge(self, window: Window, read: Any) -> Callable[[], tuple[Evaluated, ...]]:
        """Begin to judge ``read`` now; the returned function waits for the results."""


def run_window(
    monitor: Monitor,
    window: Window,
    *,
    sources: Sequence[str] | None = None,
    dry_run: bool = False,
    act: ActMode = "auto",
    progress: Progress = _quiet,
) -> RunResult:
    """One evaluation from the warehouse to Slack. A dry run stores, switches and sends nothing.

    Raises WindowRefused for a window that can have no data yet.
    """
    names = list(sources or monitor.config.sources)
    return perform(stages(monitor, window, names, act, dry_run=dry_run, progress=progress))


def at_once(stage: Stage) -> Any:
    """Do a stage here and now."""
    return stage.work()


def perform(due: Stages, do: Do = at_once) -> RunResult:
    """Do the stages one after the other, each by ``do``. An error in a stage ends the run."""
    return perform_rest(due, due.send(None), do)


def perform_rest(due: Stages, stage: Stage, do: Do = at_once) -> RunResult:
    """Do ``stage``, which is due, and all stages after it."""
    while True:
        result = performed(due, stage, do)
        try:
            stage = due.send(result)
        except StopIteration as end:
            return cast("RunResult", end.value)


def performed(due: Stages, stage: Stage, do: Do) -> Any:
    """Do one stage and return its result. If it fails, the run stores the error and raises it again."""
    try:
        return do(stage)
    except BaseException as error:
        due.throw(error)  # stores the error and raises it again
        raise


def stages(
    monitor: Monitor,
    window: Window,
    names: Sequence[str],
    mode: ActMode,
    *,
    dry_run: bool = False,
    progress: Progress = _quiet,
    publish: Callable[[RunResult], object] | None = None,
    try_again: Callable[[], bool] = lambda: False,
    workers: WorkerStages | None = None,
) -> Stages:
    """Yield the stages of evaluating the sources ``names`` in one window; returns the result of the run.

    ``workers`` read and judge instead of this process, only for a run that never acts. ``publish`` shows the result, in
    a separate stage. If the warehouse does not answer, the READ stage raises WarehouseFailed while ``try_again()`` is
    true; otherwise that becomes a verdict.
    """
    acts = mode != "never" and not dry_run
    with ExitStack() as resources:
        warehouse = resources.enter_context(ExitStack())  # an open DuckDB file cannot be written by others
        warehouse.enter_context(monitor.warehouse.kept_open())
        run: str = yield Stage(StageName.BEGIN, lambda: begin(monitor, window, names, mode, dry_run=dry_run))
        resources.enter_context(nullcontext() if dry_run else failure_noted(monitor, window, beats=acts))
        data = yield Stage(
            StageName.READ,
            lambda: workers.read(window) if workers else collect.collect(
                monitor, window, names, store=not dry_run, reread=mode != "never", try_again=try_again(),
                progress=progress,
            ),
        )  # fmt: skip
        warehouse.close()
        judged = workers.judge(window, data) if workers else lambda: judge(monitor, data, progress, keep=acts)
        evaluated: tuple[Evaluated, ...] = yield Stage(StageName.JUDGE, judged)
        actions: Sequence[Action]
        if dry_run:
            actions = acting.refused(evaluated, "not done: dry run")
        else:
            actions = yield Stage(StageName.ACT, lambda: record_and_act(monitor, window, evaluated, mode, progress))
    result = RunResult(run_document(run, window, evaluated, actions), evaluated, tuple(actions))
    if publish is not None:
        yield Stage(StageName.PUBLISH, lambda: publish(result))
    if acts:
        yield Stage(StageName.HEARTBEAT, lambda: call_heartbeat(monitor, evaluated))
    return result


def begin(monitor: Monitor, window: Window, names: Sequence[str], mode: ActMode, *, dry_run: bool = False) -> str:
    """Store that the run of a window has begun, before anything else happens; returns the name of this attempt.

    Raises WindowRefused for a window that can have no data yet, before anything is stored.
    """
    acts = mode != "never"
    try:
        refuse_premature(monitor, window, names)
    except WindowRefused as error:
        if acts and not dry_run:
            beat(monitor.settings.heartbeat_url, failed=str(error))
        raise
    now = monitor.clock()
    run = f"{window.schedule}-{window.name}-{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
    if not dry_run:
        publish_thresholds.publish(monitor.store, monitor.config, now)
        monitor.store.begin_run(window, run=run, acts=acts, rules_revision=monitor.config.revision, now=now)
    return run


@contextmanager
def failure_noted(monitor: Monitor, window: Window, *, beats: bool = True) -> Iterator[None]:
    """Store that a begun run failed, and why; then raise the error again.

    With ``beats`` the heartbeat reports the failure too. Ctrl-C counts as a failure. If the process is killed, the run
    stays in the state "running" until the window is run again.
    """
    try:
        yield
    except BaseException as error:
        text = clean(without_secrets(_why(error)), length=ERROR_LENGTH)
        with suppress(Exception):  # a history that fails must not hide why the run failed
            monitor.store.finish_run(window, state="failed", now=monitor.clock(), error=text)
        if beats:
            beat(monitor.settings.heartbeat_url, failed=text)
        raise


def _why(error: BaseException) -> str:
    """The error in words; of a signal or Ctrl-C, which say nothing, that the run was ended."""
    kind = type(error).__name__
    if str(error).strip():
        return f"{kind}: {error}"
    return kind if isinstance(error, Exception) else f"it was cancelled or ended from outside ({kind})"


def judge(
    monitor: Monitor, data: Sequence[collect.Collected], progress: Progress = _quiet, *, keep: bool = True
) -> tuple[Evaluated, ...]:
    """Compute estimates, shift tests and verdicts from counts.

    With ``keep`` the drift report is written to a file, and the causes of breaches are searched.
    """
    parts = []
    for source in data:
        progress(f"judging {source.data.name}")
        restated = tuple(_judged(monitor, past, keep) for past in source.restated)
        parts.append(replace(_judged(monitor, source, keep), restated=restated))
    return tuple(parts)


def _judged(monitor: Monitor, source: collect.Collected, keep: bool) -> Evaluated:
    report = collect.report_path(monitor, source.data.current.window, source.data.name) if keep else None
    shifts = collect.feature_shifts(monitor.config, monitor.warehouse, source, report)
    found = evaluate(source.data, monitor.config, shifts)
    return with_causes(monitor, source, found) if keep else found


def record_and_act(
    monitor: Monitor, window: Window, evaluated: Sequence[Evaluated], mode: ActMode, progress: Progress = _quiet
) -> list[Action]:
    """Store the verdicts, act on them, send; then store that the run is done, and report what was not judged.

    Each step may be repeated.
    """
    sources = [part.source for part in evaluated]
    refusals = acting.refusals_of(monitor, window, sources, mode)
    record(monitor, window, evaluated)
    progress("acting")
    restate.act(monitor, evaluated, refusals)
    pending = acting.act(monitor, window, evaluated, refusals, requested=mode == "always")
    if mode != "never":
        deliver(monitor)
    actions = acting.settled(monitor, pending)
    # also drops the note of a failure that was stored while the clock was ahead, with a time in the future
    monitor.store.finish_run(window, state="done", now=monitor.clock(), drops=failed_note(window.schedule))
    if mode != "never":
        watchdog.watch_data(monitor, sources, window)
        deliver(monitor)
    return actions


def record(monitor: Monitor, window: Window, evaluated: Sequence[Evaluated]) -> None:
    """Store estimates and verdicts, before anything acts on them."""
    restate.record(monitor, evaluated)
    monitor.store.save_evaluation(
        window,
        [part.source for part in evaluated],
        [e for part in evaluated for e in part.estimates],
        [v for part in evaluated for v in part.verdicts],
        [s for part in evaluated for s in part.shifts],
        monitor.clock(),
        unread=[part.source for part in evaluated if part.problem],
    )
    monitor.store.save_maturities([m for part in evaluated for m in part.maturity], monitor.clock())


def deliver(monitor: Monitor, *, due_only: bool = False) -> list[Delivery]:
    """Send all deliveries that are due, reminders included. A failed delivery is kept and never fails the run."""
    incident_actions.due_repeats(monitor)
    return drain(monitor.store, monitor.sender, now=monitor.clock, worker=worker_id(), due_only=due_only)


def call_heartbeat(monitor: Monitor, evaluated: Sequence[Evaluated]) -> None:
    """Call the heartbeat's address after a run. If no source could be read, the run counts as failed."""
    problems = [f"{part.source}: {part.problem}: {part.error}" for part in evaluated if part.problem]
    nothing_read = len(problems) == len(evaluated)
    beat(monitor.settings.heartbeat_url, failed="\n".join(problems) if nothing_read else None)
