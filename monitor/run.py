"""A run of a window, from the warehouse to Slack: its stages, in order. Read this module first.

A stage is a function of the monitor and the run so far; it returns the run with its own results. The command line does
the stages one after the other; the flows do each as a task with retries and a time-out. Every stage may be repeated
after a crash: its results are keyed by their subject, not by the attempt.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from sqlalchemy.exc import InterfaceError, OperationalError

from monitor.alerting.health import watchdog
from monitor.alerting.health.heartbeat import beat_run
from monitor.alerting.health.issues import failed_note
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.context import ActMode, Monitor
from monitor.core.diagnoses import AutomationState, Diagnosis
from monitor.core.log_lines import about
from monitor.core.records import Action, Delivery, Window, part_left_out
from monitor.core.redaction import without_secrets
from monitor.core.windows import previous
from monitor.core.wording import clean
from monitor.evaluation.evaluate import Evaluated, evaluate
from monitor.history.errors import StoreUnreachable
from monitor.metrics.registry import CONTRACT, EXPECTED
from monitor.operations import act as acting
from monitor.operations import collect, incident_actions, publish_thresholds, restate
from monitor.operations.diagnose import automation_of, diagnoses_of
from monitor.operations.missed import is_over, missed_windows
from monitor.operations.refuse_premature import WindowRefused, refuse_premature
from monitor.report.csv_table import Table
from monitor.report.run_document import estimate_rows, label_row, maturity_row, quality_rows, verdict_row

log = logging.getLogger(__name__)

ERROR_LENGTH = 2_000
CATCH_UP_TIME = timedelta(minutes=20)
"""After so long no more missed windows are judged before the run that is due: a flow has an hour."""
Progress = Callable[[str], None]


def _quiet(_: str) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of one window: what is asked for, and what its stages have found so far.

    ``ahead`` has the readings of sources that were read before the run. A warehouse that does not answer fails the
    stage that reads while ``try_again()`` is true; otherwise that becomes a verdict. ``fewer_rows``: a window that was
    judged is judged again even where the warehouse has fewer of its rows now.
    """

    window: Window
    sources: tuple[str, ...]
    mode: ActMode = "auto"
    dry_run: bool = False
    progress: Progress = _quiet
    fewer_rows: bool = False
    try_again: Callable[[], bool] = lambda: False
    ahead: Mapping[str, collect.WindowRead] = field(default_factory=dict)
    name: str = ""
    collected: Sequence[collect.Collected] = ()
    evaluated: tuple[Evaluated, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    automation: tuple[AutomationState, ...] = ()
    actions: tuple[Action, ...] = ()
    ended: bool = False

    @property
    def subject(self) -> dict[str, str]:
        """What its lines in the log are about."""
        window = self.window
        return {
            "run": self.name, "schedule": window.schedule, "window": window.name, "source": ", ".join(self.sources),
        }  # fmt: skip

    @property
    def acts(self) -> bool:
        """Whether the run may switch and send, and calls the heartbeat."""
        return self.mode != "never" and not self.dry_run

    @property
    def breached(self) -> bool:
        """Whether any verdict is a breach."""
        return any(v.outcome == "breach" for part in self.evaluated for v in part.verdicts)

    @property
    def document(self) -> dict[str, Any]:
        """The run as one JSON document.

        The history keeps estimates of every metric. The document has the metrics of the contract, estimates before the
        truth, and metrics that a rule names.
        """
        parts, window = self.evaluated, self.window
        known = [maturity_row(m) for part in parts for m in part.maturity]
        again = Table.of((past for part in parts for past in part.restated), "source", "window=window.name").documents
        shown = {*CONTRACT, *EXPECTED, *(v.metric for part in parts for v in part.verdicts)}
        labels = zip(self.diagnoses, self.automation, strict=True)
        return {
            "run": self.name,
            "schedule": window.schedule,
            "window": {"start": window.start.isoformat(), "end": window.end.isoformat(), "name": window.name},
            "quality": quality_rows(q for part in parts for q in part.quality),
            "estimates": estimate_rows(e for part in parts for e in part.estimates if e.metric in shown),
            "verdicts": [verdict_row(v) for part in parts for v in part.verdicts],
            "labels": [label_row(*each) for each in labels],
            # only for sources that count rows without a truth
            **{name: rows for name, rows in (("maturity", known), ("restated", again)) if rows},
            "actions": Table.of(self.actions, "kind", "source", "label", "state").documents,
        }


Stage = Callable[[Monitor, Run], Run]


def run_window(
    monitor: Monitor,
    window: Window,
    *,
    sources: Sequence[str] | None = None,
    dry_run: bool = False,
    act: ActMode = "auto",
    progress: Progress = _quiet,
    fewer_rows: bool = False,
) -> Run:
    """One evaluation from the warehouse to Slack. A dry run stores, switches and sends nothing.

    Raises WindowRefused for a window that can have no data yet.
    """
    names = tuple(sources or monitor.config.sources)
    return perform(monitor, Run(window, names, act, dry_run, progress, fewer_rows))


def perform(
    monitor: Monitor,
    run: Run,
    stages: Sequence[Stage] | None = None,
    do: Callable[[Stage, Monitor, Run], Run] = lambda stage, monitor, run: stage(monitor, run),
) -> Run:
    """Do the stages one after the other, each by ``do``. An error in a stage ends the run, which then says why.

    Ctrl-C counts as an error. If the process is killed, the run stays "running" until the window is run again.
    """
    try:
        for stage in STAGES if stages is None else stages:
            with about(**run.subject):
                run = do(stage, monitor, run)
    except BaseException as error:
        note_failure(monitor, run, error)
        raise
    return run


def catch_up(
    monitor: Monitor,
    due: Run,
    stages: Sequence[Stage] | None = None,
    do: Callable[[Stage, Monitor, Run], Run] = lambda stage, monitor, run: stage(monitor, run),
) -> list[Run]:
    """Judge the windows that were missed before ``due``, the oldest first, each as its own run would have been.

    A window older than the newest judged one changes no switch. A source that cannot be read is left for later, and no
    error keeps the run that is due from being done, but a time-out, which is of both.
    """
    made: list[Run] = []
    began, last = monitor.clock(), previous(due.window, monitor.config.zone)
    for window, sources in missed_windows(monitor.store, last, monitor.config.zone, due.sources):
        left = tuple(source for source in sources if is_over(monitor, window, source))
        if not left or monitor.clock() - began > CATCH_UP_TIME:
            continue
        due.progress(f"{window.name} was missed")
        try:
            missed = replace(due, window=window, sources=left, try_again=lambda: False)
            made.append(perform(monitor, missed, STAGES[:-1] if stages is None else stages, do))
        except TimeoutError:
            raise
        except Exception:  # the window that is due is judged all the same; this one stays missed, and is reported
            log.exception("%s was missed, and could not be judged now", window.name)
            break
    return made


def begin(monitor: Monitor, run: Run) -> Run:
    """Store that the run has begun, before anything else happens; it gets the name of this attempt.

    Raises WindowRefused for a window that can have no data yet, before anything is stored.
    """
    window = run.window
    try:
        refuse_premature(monitor, window, run.sources)
    except WindowRefused as error:
        if run.acts:
            beat_run(monitor.settings.heartbeat_url, window.schedule, dict.fromkeys(run.sources, str(error)))
        raise
    now = monitor.clock()
    name = f"{window.schedule}-{window.name}-{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
    if not run.dry_run:
        publish_thresholds.publish(monitor.store, monitor.config, now)
        revision = monitor.config.revision
        monitor.store.begin_run(window, run.sources, run=name, acts=run.acts, rules_revision=revision, now=now)
    return replace(run, name=name)


def read(monitor: Monitor, run: Run) -> Run:
    """Read the counts of each source, and store them."""
    with monitor.warehouse.kept_open():  # until the counts are there: an open DuckDB file cannot be written by others
        collected = collect.collect(
            monitor, run.window, run.sources, store=not run.dry_run, reread=run.mode != "never",
            try_again=run.try_again(), progress=run.progress, ahead=run.ahead, fewer_rows=run.fewer_rows,
        )  # fmt: skip
    return replace(run, collected=collected)


def judge(monitor: Monitor, run: Run) -> Run:
    """Compute estimates, shift tests and verdicts from the counts.

    Only a run that acts writes drift reports.
    """
    parts = []
    for source in run.collected:
        run.progress(f"judging {source.data.name}")
        restated = tuple(_judged(monitor, past, run.acts) for past in source.restated)
        parts.append(replace(_judged(monitor, source, run.acts), restated=restated))
    return replace(run, evaluated=tuple(parts))


def _judged(monitor: Monitor, source: collect.Collected, acts: bool) -> Evaluated:
    data, window = source.data, source.data.current.window
    if source.stays:  # what is stored of a window that was judged; since then rows are gone, or it cannot be read
        at: dict[str, Any] = {"schedule": window.schedule, "window_start": window.start, "source": data.name}
        return Evaluated(
            data.name, window, tuple(monitor.store.estimates(**at, segments=True)),
            tuple(monitor.store.verdicts(**at)), tuple(monitor.store.shifts(**at)), data.quality, data.problem,
            data.error, data.current.rejected,
        )  # fmt: skip
    report = collect.report_path(monitor, window, data.name) if acts else None
    shifts = collect.feature_shifts(monitor.config, monitor.warehouse, source, report)
    return evaluate(data, monitor.config, shifts)


def act(monitor: Monitor, run: Run) -> Run:
    """Diagnose, store, act on it, send; then store that the run is done, and report what was not judged.

    Each step may be repeated.
    """
    run = _diagnosed(monitor, run)
    window, evaluated, diagnoses = run.window, run.evaluated, run.diagnoses
    if run.dry_run:
        refused = tuple(acting.actions_of(evaluated, lambda *_: "not done: dry run"))
        return replace(run, actions=refused, automation=automation_of(monitor, diagnoses), ended=True)
    sources = [part.source for part in evaluated]
    refusals = acting.refusals_of(monitor, window, sources, run.mode)
    restate.record(monitor, window, evaluated)
    monitor.store.save_maturities([m for part in evaluated for m in part.maturity], monitor.clock())
    monitor.store.save_diagnoses(window, sources, diagnoses, monitor.clock())
    run.progress("acting")
    restate.act(monitor, evaluated, refusals)
    asked = acting.act(monitor, window, evaluated, diagnoses, refusals, requested=run.mode == "always")
    if run.acts:
        deliver(monitor, reminds=False)  # of what this run has seen too, once it is done
    actions = acting.settled(monitor, asked)
    # also drops the note of a failure that was stored while the clock was ahead, with a time in the future
    failure = failed_note(window.schedule)
    monitor.store.finish_run(window, sources, state="done", now=monitor.clock(), drops=failure)
    if run.acts:
        watchdog.watch_run(monitor, window)
        deliver(monitor)
    return replace(run, actions=tuple(actions), automation=automation_of(monitor, diagnoses), ended=True)


def _diagnosed(monitor: Monitor, run: Run) -> Run:
    """The run with its diagnoses. If those of a source fail, a note says so: the switch acts on verdicts all the same.
    Where the history does not answer, the stage is tried again first.

    Restated windows are stored and diagnosed first, since the judged one goes on from their diagnoses.
    """
    evaluated, diagnoses = [], []
    if not run.dry_run:
        for past in (past for part in run.evaluated for past in part.restated):
            restate.record(monitor, past.window, [past])
    for part, source in zip(run.evaluated, run.collected, strict=True):
        shifts = part.shifts
        try:
            if not run.dry_run:
                restate.diagnose(monitor, part, source)
            found = diagnoses_of(monitor, part, source.data.current)
            diagnoses += restate.with_known_troubles(monitor, run.window, found)
        except Exception as error:  # a run that has to act does not end for what explains it
            if isinstance(error, (StoreUnreachable, OperationalError, InterfaceError)) and run.try_again():
                raise
            log.exception("the labels of %s could not be diagnosed", part.source)
            why = without_secrets(f"{type(error).__name__}: {error}")
            shifts = (*shifts, part_left_out(part.source, run.window, "diagnosis", why))
        evaluated.append(replace(part, shifts=shifts))
    return replace(run, evaluated=tuple(evaluated), diagnoses=tuple(diagnoses))


def heartbeat(monitor: Monitor, run: Run) -> Run:
    """Call the heartbeat's address after a run that acts. A source that was not read or judged counts as failed."""
    if run.acts:
        nothing = f"no rule could be judged in {run.window.name}"
        why = {part.source: f"{part.problem}: {part.error}" if part.problem else nothing for part in run.evaluated}
        judged = {
            part.source
            for part in run.evaluated
            if not part.problem and any(verdict.outcome != "not_evaluated" for verdict in part.verdicts)
        }
        failed = {source: None if source in judged else text for source, text in why.items()}
        beat_run(monitor.settings.heartbeat_url, run.window.schedule, failed)
    return run


STAGES: tuple[Stage, ...] = (begin, read, judge, act, heartbeat)
"""The stages of a run, in order."""


def note_failure(monitor: Monitor, run: Run, error: BaseException) -> None:
    """Store that a run failed that had begun, and why; if it was to act, the heartbeat reports it too."""
    if not run.name or run.dry_run or run.ended:
        return
    text = clean(without_secrets(_why(error)), length=ERROR_LENGTH)
    with suppress(Exception):  # a history that fails must not hide why the run failed
        monitor.store.finish_run(run.window, run.sources, state="failed", now=monitor.clock(), error=text)
    if run.acts:
        beat_run(monitor.settings.heartbeat_url, run.window.schedule, dict.fromkeys(run.sources, text))


def _why(error: BaseException) -> str:
    """The error in words; of a signal or Ctrl-C, which say nothing, that the run was ended."""
    kind = type(error).__name__
    if str(error).strip():
        return f"{kind}: {error}"
    return kind if isinstance(error, Exception) else f"it was cancelled or ended from outside ({kind})"


def deliver(monitor: Monitor, *, due_only: bool = False, reminds: bool = True) -> list[Delivery]:
    """Send all deliveries that are due, with the reminders. A failed delivery is kept and never fails the run."""
    incident_actions.due_repeats(monitor, reminds=reminds)
    now, worker = monitor.clock, worker_id()
    done = drain(monitor.store, monitor.sender, now=now, worker=worker, due_only=due_only)
    return done + drain(monitor.store, monitor.beside, now=now, worker=worker, due_only=due_only, beside=True)
