"""The only place that joins the stages. Read it first.

    collect -> judge -> record -> act -> deliver -> document

Each stage is a function of its own, so that a flow can retry just the ones that do I/O. Every stage
may be run again after a crash: what it stores is keyed by what it is about, not by the attempt.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from monitor.alerting.health import watchdog
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.context import ActMode, Monitor
from monitor.core.records import Action, Delivery, Window
from monitor.core.redaction import without_secrets
from monitor.core.wording import clean
from monitor.evaluation.evaluate import Evaluated, evaluate
from monitor.operations import act as acting
from monitor.operations import collect, incident_actions
from monitor.operations import refuse_premature as premature
from monitor.operations.publish_thresholds import publish
from monitor.report.run_document import run_document

ERROR_LENGTH = 2_000
Progress = Callable[[str], None]


def _quiet(_: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gives back: its document, what was judged, and what was done."""

    document: dict[str, Any]
    evaluated: tuple[Evaluated, ...]
    actions: tuple[Action, ...]

    @property
    def breached(self) -> bool:
        """Whether any verdict is a breach."""
        return any(v.outcome == "breach" for part in self.evaluated for v in part.verdicts)


def run_window(
    monitor: Monitor,
    window: Window,
    *,
    sources: Sequence[str] | None = None,
    dry_run: bool = False,
    act: ActMode = "auto",
    progress: Progress = _quiet,
) -> RunResult:
    """One evaluation from the warehouse to Slack. A dry run stores, switches and sends nothing."""
    names = list(sources or monitor.config.sources)
    refuse_premature(monitor, window, names, beats=not dry_run and act != "never")
    if dry_run:
        data = collect.collect(monitor, window, names, store=False, reread=act != "never", progress=progress)
        evaluated = judge(monitor, data, progress, keep=False)
        return result(new_run(monitor, window), window, evaluated, acting.refused(evaluated, "not done: dry run"))
    run = begin(monitor, window, act)
    with failure_noted(monitor, window, beats=act != "never"):
        data = collect.collect(monitor, window, names, store=True, reread=act != "never", progress=progress)
        evaluated = judge(monitor, data, progress, keep=act != "never")
        actions = record_and_act(monitor, window, evaluated, act, progress)
        finish(monitor, window, evaluated, act)
    if act != "never":
        tell_heartbeat(monitor, evaluated)
    return result(run, window, evaluated, actions)


def refuse_premature(monitor: Monitor, window: Window, names: Sequence[str], *, beats: bool) -> None:
    """Raise WindowRefused for a window that can have no data yet, before anything is stored.

    ``beats``: the heartbeat hears of it.
    """
    try:
        premature.refuse_premature(monitor, window, names)
    except premature.WindowRefused as error:
        if beats:
            beat(monitor.settings.heartbeat_url, failed=str(error))
        raise


def tell_heartbeat(monitor: Monitor, evaluated: Sequence[Evaluated]) -> None:
    """Call the heartbeat's address after a run: a run in which no source could be read is no success."""
    problems = [f"{part.source}: {part.problem}: {part.error}" for part in evaluated if part.problem]
    nothing = len(problems) == len(evaluated)
    beat(monitor.settings.heartbeat_url, failed="\n".join(problems) if nothing else None)


def new_run(monitor: Monitor, window: Window) -> str:
    """A name for one attempt, readable in a log."""
    return f"{window.schedule}-{window.name}-{monitor.clock():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"


def begin(monitor: Monitor, window: Window, act: ActMode) -> str:
    """Write down that a window is being judged, before anything else happens."""
    run = new_run(monitor, window)
    publish(monitor.store, monitor.config, monitor.clock())
    monitor.store.begin_run(
        window, run=run, acts=act != "never", rules_revision=monitor.config.revision, now=monitor.clock()
    )
    return run


@contextmanager
def failure_noted(monitor: Monitor, window: Window, *, beats: bool = True) -> Iterator[None]:
    """Write down that a begun run failed, and why; the error itself goes on as it was.

    ``beats``: the heartbeat hears of it as well.
    Also for Ctrl-C. Only a process that is killed leaves its run as running, until the window is run again.
    """
    try:
        yield
    except BaseException as error:
        text = clean(without_secrets(f"{type(error).__name__}: {error}"), length=ERROR_LENGTH)
        with suppress(Exception):  # a history that fails must not hide why the run did
            monitor.store.finish_run(window, state="failed", now=monitor.clock(), error=text)
        if beats:
            beat(monitor.settings.heartbeat_url, failed=text)
        raise


def judge(
    monitor: Monitor, data: Sequence[collect.Collected], progress: Progress = _quiet, *, keep: bool = True
) -> tuple[Evaluated, ...]:
    """Counts -> estimates, shift tests and verdicts; ``keep`` writes the drift report beside the run."""
    parts = []
    for source in data:
        progress(f"judging {source.data.name}")
        shifts = collect.feature_shifts(monitor, source, keep=keep)
        parts.append(evaluate(source.data, monitor.config, shifts))
    return tuple(parts)


def record_and_act(
    monitor: Monitor,
    window: Window,
    evaluated: Sequence[Evaluated],
    act: ActMode,
    progress: Progress = _quiet,
) -> list[Action]:
    """Store the verdicts, then act on them, then send; in this order, each step repeatable."""
    may = acting.may_act(monitor, window, [part.source for part in evaluated], act)
    record(monitor, window, evaluated)
    progress("acting")
    pending = acting.act(monitor, window, evaluated, may, told=act == "always")
    if act != "never":
        deliver(monitor)
    return acting.settled(monitor, pending)


def finish(monitor: Monitor, window: Window, evaluated: Sequence[Evaluated], act: ActMode) -> None:
    """Write down that the run is done, then report what it could not judge."""
    monitor.store.finish_run(window, state="done", now=monitor.clock())
    if act != "never":
        watchdog.watch_data(monitor, [part.source for part in evaluated], window)
        deliver(monitor)


def record(monitor: Monitor, window: Window, evaluated: Sequence[Evaluated]) -> None:
    """Store estimates and verdicts, before anything acts on them."""
    monitor.store.save_evaluation(
        window,
        [part.source for part in evaluated],
        [e for part in evaluated for e in part.estimates],
        [v for part in evaluated for v in part.verdicts],
        [s for part in evaluated for s in part.shifts],
        monitor.clock(),
    )


def deliver(monitor: Monitor) -> list[Delivery]:
    """Send what is due, old and new, reminders included. A failed delivery is kept and never fails the run."""
    incident_actions.due_repeats(monitor)
    return drain(monitor.store, monitor.sender, now=monitor.clock, worker=worker_id())


def result(run: str, window: Window, evaluated: Sequence[Evaluated], actions: Sequence[Action]) -> RunResult:
    """The parts of a run, put together with its document."""
    return RunResult(run_document(run, window, evaluated, actions), tuple(evaluated), tuple(actions))
