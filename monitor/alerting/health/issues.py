"""Whether the monitor itself works: health issues with named reasons, from its records in the history. Pure.

A monitor that has stopped reports nothing, and neither does one without new data: both look like a quiet week.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import Self
from zoneinfo import ZoneInfo

from monitor.alerting.slack.client import TOKEN_ERRORS
from monitor.automation.state import GateReason, allowed_of_each, clock_behind, is_for_a_time
from monitor.core import windows
from monitor.core.records import (
    SEVERITY_RANK,
    Delivery,
    Identity,
    Note,
    Schedule,
    Severity,
    Subject,
    SwitchState,
    Window,
    receiver_name,
)
from monitor.core.wording import and_more, count_of, moment

OVERDUE = timedelta(hours=6)
"""How long after a window is ready its run may take: schedules start within 75 minutes, a flow ends within an hour."""
HUNG = timedelta(hours=3)
"""How long a run may have the state ``running``: three times the time-out of a flow."""
STUCK = timedelta(hours=1)
RECENT = timedelta(days=7)
"""For how long a refused message is reported."""
MUCH_SMALLER = 0.2
"""The share of the usual rows below which a window is said to be much smaller than usual."""
USUAL_WINDOWS, FEWEST_WINDOWS = 8, 3
LEASE_WARNINGS = (24, 48)  # hours
NAMES_SHOWN = 12
DAYS_OF_A_WEEK = 7
SILENT = timedelta(hours=1)
"""How long after its last look the watchdog is reported as silent: it looks every quarter of an hour."""
NOT_LISTENING = timedelta(minutes=30)
"""After which time without a connection ``calmon slack`` is reported: it notes one every five minutes."""
WATCHDOG_NOTE, WAITING_NOTE, FAILED_NOTE, SILENT_NOTE = "watchdog", "waiting", "failed:", "watchdog silent"
"""The notes of the flows: when the watchdog last looked, which runs wait, which flow failed (key and name), and since
when the drain has seen that the watchdog is silent."""
LISTENER_NOTE = "slack listener"
"""The note of ``calmon slack``: when it was last connected to Slack."""
NEVER_RUN = "nothing has been run yet"
"""What is said of a history without a run and without issues: neither that it is healthy nor that nothing is wrong."""
SCHEDULE_OF: Mapping[str, Schedule] = {"calmon-weekly": "weekly", "calmon-daily": "daily"}


def failed_note(schedule: Schedule) -> str:
    """The key of the note that the flow of a schedule failed.

    >>> failed_note("weekly")
    'failed:calmon-weekly'
    """
    return f"{FAILED_NOTE}calmon-{schedule}"


class WatchReason(StrEnum):
    """What can be wrong with the monitor; each has a page ``docs/runbook/<reason>.md``.

    ``words`` say it with the name of the source or the channel.
    """

    words: str

    def __new__(cls, value: str, words: str = "") -> Self:
        """The reason by its name, with its words."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.words = words
        return made

    RUN_MISSING = "run_missing", "evaluations are missing"
    RUN_FAILED = "run_failed", "an evaluation failed"
    RUN_HUNG = "run_hung", "an evaluation does not end"
    RUNS_WAITING = "runs_waiting", "runs wait"
    FLOW_FAILED = "flow_failed", "a flow fails"
    WATCHDOG_SILENT = "watchdog_silent", "the watchdog is silent"
    SOURCE_NOT_READ = "source_not_read", "{} cannot be read"
    DATA_STALE = "data_stale", "{} has no rows"
    DATA_SMALL = "data_small", "{} has few rows"
    NOTHING_JUDGED = "nothing_judged", "nothing of {} was judged"
    REJECTED_ROWS = "rejected_rows", "rows of {} were rejected"
    SCORES_MOVED = "scores_moved", "scores of {} moved"
    UNRESOLVED_FAILED = "unresolved_failed", "a part of {} cannot be read"
    DELIVERY_STUCK = "delivery_stuck", "messages to {} wait"
    DELIVERY_REFUSED = "delivery_refused", "Slack refused messages to {}"
    DELIVERY_NOT_SENT = "delivery_not_sent", "messages to {} were not sent"
    LISTENER_SILENT = "listener_silent", "buttons of messages do not answer"
    LEASE_ENDING = "lease_ending", "automation of {} is about to end"
    LEASE_ENDED = "lease_ended", "automation of {} ended"
    HISTORY_RESTORED = "history_restored", "the history is not confirmed"
    CLOCK_BEHIND = "clock_behind", "the clock is behind"
    TURNED_OFF = "turned_off_unjudged", "automation of {} was turned off"


_UNSENT = (WatchReason.DELIVERY_STUCK, WatchReason.DELIVERY_REFUSED, WatchReason.DELIVERY_NOT_SENT)

UNJUDGED = frozenset(
    {
        WatchReason.SOURCE_NOT_READ,
        WatchReason.NOTHING_JUDGED,
        WatchReason.REJECTED_ROWS,
        WatchReason.SCORES_MOVED,
        WatchReason.UNRESOLVED_FAILED,
    }
)
"""Reasons why labels are not judged: ``calmon health`` ends with 1 for these, whatever their severity."""


@dataclass(frozen=True, slots=True)
class RunSeen:
    """One evaluation of a source in the history: ``state`` is running, done or failed; ``rules_revision`` is that of
    the rules it judged by."""

    schedule: Schedule
    window_start: datetime
    window_name: str
    state: str
    started_at: datetime
    finished_at: datetime | None = None
    error: str | None = None
    rules_revision: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ReadingSeen:
    """The result of reading one source for one window, without its counts.

    ``rejected`` are rows of the window, ``undated`` those of the whole relation that lie in no window. ``before`` is
    how many rows of the window were read before, if most of them are gone since, and ``left`` how many are left.
    """

    schedule: Schedule
    window_start: datetime
    source: str
    state: str
    rows: int
    error: str | None = None
    rejected: int = 0
    undated: int = 0
    before: int = 0
    left: int = 0

    @property
    def trouble(self) -> str:
        """Why nothing can be judged: it is ``unread``, its rows are all ``rejected``, it is ``empty``; else ""."""
        return "unread" if self.state != "ok" else "" if self.rows else "rejected" if self.rejected else "empty"


@dataclass(frozen=True, slots=True)
class JudgedSeen:
    """The newest window of a schedule that was judged of a source: whether any verdict was, and what could not be."""

    evaluated: bool
    issues: tuple[HealthIssue, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """What the checks read. ``scheduled`` are the schedules that have rules, ``since`` when this history began.

    ``rules_revision`` is that of the present rules, ``lease`` how long an evaluation keeps automation on;
    ``notes`` are the notes of the flows (``monitor.core.records.Note``) by key; ``in_threads`` the labels (source,
    label) that have an open message, ``untold`` those with a critical incident of which none was sent or waits;
    ``with_scores`` the sources of which gates have a score from which labels act.
    ``channels`` are those of the routes, ``sent`` when the first and the last message were sent (None: none was).
    ``has_buttons``: both tokens of ``calmon slack`` are set here. ``not_news`` are the labels that have too few rows to
    be judged now, or none any more, of which their own incident tells. ``judged`` is about the newest window of each
    schedule and source, and ``judged_at`` are the starts of all that were judged.
    """

    zone: ZoneInfo
    scheduled: tuple[Schedule, ...]
    sources: tuple[str, ...]
    runs: Sequence[RunSeen] = ()
    readings: Sequence[ReadingSeen] = ()
    switches: Sequence[SwitchState] = ()
    deliveries: Sequence[Delivery] = ()
    since: datetime | None = None
    rules_revision: str = ""
    lease: timedelta = timedelta(0)
    identity: Identity | None = None
    judged: Mapping[tuple[Schedule, str], JudgedSeen] = field(default_factory=dict)
    notes: Mapping[str, Note] = field(default_factory=dict)
    in_threads: frozenset[tuple[str, str | None]] = frozenset()
    untold: frozenset[tuple[str, str | None]] = frozenset()
    with_scores: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    sent: tuple[datetime, datetime] | None = None
    has_buttons: bool = False
    not_news: frozenset[tuple[str, str | None]] = frozenset()
    judged_at: Mapping[tuple[Schedule, str], Sequence[datetime]] = field(default_factory=dict)

    def runs_of(self, schedule: Schedule) -> dict[str, list[RunSeen]]:
        """Source of alerts.yaml -> its runs on a schedule, in the order of ``runs``."""
        of_schedule = [run for run in self.runs if run.schedule == schedule]
        return {source: [run for run in of_schedule if run.source == source] for source in self.sources}

    def newest_done(self, schedule: Schedule) -> dict[str, RunSeen]:
        """Source of alerts.yaml -> its run of the newest window that was judged."""
        done = {source: [run for run in runs if run.state == "done"] for source, runs in self.runs_of(schedule).items()}
        return {source: max(runs, key=lambda run: run.window_start) for source, runs in done.items() if runs}

    def window_of(self, reading: ReadingSeen) -> Window:
        """The window of a reading, in the present time zone."""
        return windows.begun(reading.schedule, reading.window_start, self.zone)

    def weekday_of(self, reading: ReadingSeen) -> int:
        """The weekday on which the window of a reading begins."""
        return windows.nominal(self.window_of(reading)).weekday()

    @property
    def present(self) -> list[SwitchState]:
        """The switches without those of sources that are lost."""
        return [state for state in self.switches if not self.is_lost(state.source)]

    def is_lost(self, source: str) -> bool:
        """Whether alerts.yaml has lost this source, and gates with it: they refuse all of it, whatever its leases."""
        return source not in self.sources and source not in self.with_scores


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """One problem of the monitor, of a ``source`` or of a ``channel`` where it has one."""

    reason: WatchReason
    severity: Severity
    text: str
    do_now: str
    source: str = ""
    channel: str = ""

    @property
    def is_unhealthy(self) -> bool:
        """Whether it keeps ``calmon health`` from ending with 0."""
        return self.severity == "critical" or self.reason in UNJUDGED


def findings(observed: Observed, now: datetime) -> list[HealthIssue]:
    """All health issues, the most severe first."""
    found = [
        *_history(observed, now),
        *_runs(observed, now),
        *_flows(observed, now),
        *(i for each in observed.scheduled for source in observed.sources for i in _of_source(observed, source, each)),
        *_deliveries(observed, now),
        *_untold(observed),
        *_listener(observed, now),
        *_leases(observed, now),
        *_lost(observed),
        *_turned_off(observed),
    ]
    allowed = allowed_of_each(observed.switches, now, observed.identity)
    acting = {state.source for state, each in allowed if each.allowed and state.label is not None}
    of_source = {*UNJUDGED, WatchReason.DATA_STALE}
    by_stake = (
        # of a source, critical only where something of it acts now: else nothing acts that is not watched
        replace(issue, severity="warning")
        if issue.severity == "critical" and issue.reason in of_source and issue.source not in acting
        else issue
        for issue in found
    )
    return sorted(by_stake, key=lambda f: (SEVERITY_RANK[f.severity], f.reason, f.source, f.channel, f.text))


def not_heard(found: Iterable[HealthIssue]) -> str | None:
    """That no message reaches Slack, so that only another service can notify people; None if messages do."""
    silent = (each.text for each in found if each.reason in _UNSENT and each.severity == "critical")
    return next(silent, None)


def _history(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """A history that was restored, or a clock that is behind it: its gates are closed until somebody confirms it."""
    found = observed.identity
    if found is not None and found.newest_at is not None and clock_behind(found.newest_at, now) is not None:
        yield HealthIssue(
            WatchReason.CLOCK_BEHIND,
            "critical",
            f"A switch was changed at {moment(found.newest_at)}, which the clock of this machine has not reached yet. "
            "Every gate is closed, and no label acts.",
            "set the clock of this machine; if it is right, and the change was made by one that was ahead, "
            "`calmon db confirm --reason TEXT`",
        )
    if found is not None and (found.went_back or not found.confirmed):
        why = found.why or "an older copy was put back"
        yield HealthIssue(
            WatchReason.HISTORY_RESTORED,
            "critical",
            f"The history is not confirmed: {why}. Every gate is closed, and no label acts.",
            "compare `calmon automation status` with what should be on, turn off what should not, then "
            "`calmon db confirm --reason TEXT`",
        )


def _is_of(run: RunSeen, *due: Window) -> bool:
    return any(windows.are_same(run.schedule, run.window_start, window.start) for window in due)


def _late(
    observed: Observed, schedule: Schedule, now: datetime
) -> tuple[Window, Mapping[str, list[RunSeen]], list[str]]:
    """The newest window whose run is overdue, by source the runs of it and of a newer one, the sources without any."""
    late, ready = (windows.last_ready(schedule, at, observed.zone) for at in (now - OVERDUE, now))
    runs_of = observed.runs_of(schedule)
    due = {source: [run for run in runs if _is_of(run, late, ready)] for source, runs in runs_of.items()}
    return late, due, [s for s, runs in runs_of.items() if not due[s] and _is_due(observed, schedule, runs, late)]


def _is_due(observed: Observed, schedule: Schedule, runs: Sequence[RunSeen], late: Window) -> bool:
    """Whether a source that was run before (``runs``) should have been in the window ``late``.

    One that never was, or a schedule, may be new in alerts.yaml: only runs by the present rules count.
    """
    by_present = [run for run in observed.runs if run.rules_revision == observed.rules_revision]
    since = observed.since if runs else min((run.started_at for run in by_present), default=None)
    beside = any(run.schedule == schedule and run.state == "done" and _is_of(run, late) for run in by_present)
    return beside or (since is not None and since < late.end)


def _runs(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """Runs that are missing, of all sources or of some, that failed, or that hang."""
    for schedule in observed.scheduled:
        late, due, missing = _late(observed, schedule, now)
        if missing:
            is_ahead = not any(due.values()) and _may_be_ahead(observed, now)
            yield _missing(observed, late, missing, "info" if is_ahead else "critical")
        yield from _gaps(observed, schedule)
        alike: dict[tuple[str, str, datetime], list[RunSeen]] = {}
        for source, runs in observed.runs_of(schedule).items():
            for run in sorted(due[source] or runs, key=lambda run: run.window_start)[-1:]:
                alike.setdefault((run.window_name, run.state, run.started_at), []).append(run)
        for together in alike.values():
            yield from _state(together, now, is_whole=len(together) == len(observed.sources))


def _may_be_ahead(observed: Observed, now: datetime) -> bool:
    """Whether another schedule runs and finds no row in any source: the clock may be days ahead, and it says so."""
    return any(
        any(_late(observed, schedule, now)[1].values())
        and all(
            WatchReason.DATA_STALE in {issue.reason for issue in _of_source(observed, source, schedule)}
            for source in observed.sources
        )
        for schedule in observed.scheduled
    )


def _gaps(observed: Observed, schedule: Schedule) -> Iterable[HealthIssue]:
    """Windows that were missed before the newest judged one, which hides them."""
    gaps: dict[str, list[Window]] = {}
    for source in observed.sources:
        starts, newest = observed.judged_at.get((schedule, source)), observed.judged.get((schedule, source))
        # not where nothing could be judged of the newest window: the clock may be ahead, and other issues report it
        if starts and (newest is None or newest.evaluated):
            last = windows.begun(schedule, max(starts), observed.zone)
            gaps[source] = windows.missed(schedule, starts, last, observed.zone, windows.CATCH_UP)
    names = [window.name for window in sorted({window for missed in gaps.values() for window in missed})]
    if not names:
        return
    of = [source for source in gaps if gaps[source]]
    daily = " --daily" if schedule == "daily" else ""
    many = f"`calmon backfill{daily} --from {names[0]} --to {names[-1]}`"
    yield HealthIssue(
        WatchReason.RUN_MISSING,
        "warning",
        f"{_names(names)} {'was' if len(names) == 1 else 'were'} never judged for {_names(of)}, though "
        f"{'a later day was' if daily else 'a later week was'}.",
        "the next scheduled run judges what was missed; now: "
        f"{run_again(schedule, names[0]) if len(names) == 1 else many}",
    )


def _missing(observed: Observed, late: Window, sources: Sequence[str], severity: Severity) -> HealthIssue:
    """That these sources were not run since the newest window in which one of them was."""
    zone, schedule, runs_of = observed.zone, late.schedule, observed.runs_of(late.schedule)
    runs = [run for source in sources for run in runs_of[source]]
    of = "" if len(sources) == len(observed.sources) else f" for {_names(sources)}"
    missed = [late]
    if runs:
        after = windows.following(windows.begun(schedule, max(run.window_start for run in runs), zone), zone)
        missed = windows.span(after, late, zone) if after.start < late.start else missed
    first, count = missed[0], len(missed)
    more = f", and the {count - 1} after it" if count > 2 else ", and the one after it" if count > 1 else ""
    return HealthIssue(
        WatchReason.RUN_MISSING,
        severity,
        f"The {schedule} run of {first.name}{of} is missing{more}: {'it' if count == 1 else 'the first'} was due at "
        f"{moment(first.end + windows.SETTLE)}.",
        "check that the scheduler is running (`calmon serve`, or the Prefect worker), then "
        + (run_again(schedule, late.name) if count == 1 else f"`calmon run {schedule}`"),
    )


def _state(runs: Sequence[RunSeen], now: datetime, *, is_whole: bool) -> Iterable[HealthIssue]:
    """That the run of these sources failed or hangs; ``is_whole``: it was of all sources."""
    run, again = runs[0], run_again(runs[0].schedule, runs[0].window_name)
    of = "" if is_whole else f" for {_names([run.source for run in runs])}"
    what = f"The {run.schedule} run of {run.window_name}{of}"
    if run.state == "failed":
        yield HealthIssue(
            WatchReason.RUN_FAILED,
            "critical",
            f"{what} failed: {run.error or 'it left no reason'}",
            f"fix what it names, then {again}: it continues where it stopped",
        )
    elif run.state == "running" and now - run.started_at > HUNG:
        yield HealthIssue(
            WatchReason.RUN_HUNG,
            "critical",
            f"{what} began at {moment(run.started_at)} and has not ended: it hangs, or its process was killed.",
            f"read the log of the run, then {again}",
        )


def run_again(schedule: Schedule, window: str) -> str:
    """The command that runs a window again, as code."""
    return f"`{windows.run_command(schedule, window)}`"


def _flows(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """Issues from the notes of the flows: the watchdog is silent, runs wait, flows failed."""
    looked, waiting = observed.notes.get(WATCHDOG_NOTE), observed.notes.get(WAITING_NOTE)
    if looked is not None and now - looked.at > SILENT:
        yield HealthIssue(
            WatchReason.WATCHDOG_SILENT,
            "critical",
            f"The watchdog last looked at {moment(looked.at)}; it is due every quarter of an hour.",
            "check that the scheduler is running (`calmon serve`, or the Prefect worker), and that no run of "
            "calmon-watchdog waits in Prefect",
        )
    if waiting is not None and now - waiting.at <= SILENT and (runs := waiting.detail.get("runs")):
        shown = "; ".join(f"{run['flow']} due {run['due']} UTC ({run['state']})" for run in runs[:5])
        more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
        yield HealthIssue(
            WatchReason.RUNS_WAITING,
            "critical",
            f"Runs that were due more than an hour ago have not begun: {shown}{more}.",
            "check that the Prefect worker (or `calmon serve`) is running; a slot that a killed run still holds "
            "is freed within ten minutes where the server keeps its leases in files (`calmon docs operations`)",
        )
    for key, note in sorted(observed.notes.items()):
        flow = key.removeprefix(FAILED_NOTE)
        # a note from the future is left out: this clock is behind, or the flow's was ahead
        if key == flow or note.at > now or _is_over(observed, flow, note):
            continue
        reason, what, again = WatchReason.FLOW_FAILED, f"The flow {flow}", "the next run shows it"
        if schedule := SCHEDULE_OF.get(flow):
            reason, what = WatchReason.RUN_FAILED, f"The {schedule} run"
            ready = windows.last_ready(schedule, note.at, observed.zone)
            again = f"{run_again(schedule, ready.name)}: it continues where it stopped"
        why = note.detail.get("error") or "it left no reason"
        yield HealthIssue(
            reason, "critical", f"{what} failed at {moment(note.at)}: {why}", f"fix what it names, then {again}"
        )


def _is_over(observed: Observed, flow: str, note: Note) -> bool:
    """Whether alerts.yaml has none of the flow's sources any more, or their run is stored as failed, which is reported.

    A run that is done settles the note, and so does the next look of the watchdog or the drain.
    """
    named, schedule = set(note.detail.get("sources", ())), SCHEDULE_OF.get(flow)
    runs = [run for run in observed.runs if run.schedule == schedule and (not named or run.source in named)]
    newest = max(runs, key=lambda run: run.started_at, default=None)
    is_shown = schedule in observed.scheduled and newest is not None and newest.state == "failed"
    return is_shown or (bool(named) and named.isdisjoint(observed.sources))


def _of_source(observed: Observed, source: str, schedule: Schedule) -> list[HealthIssue]:
    """What could not be read of a source, else what could not be judged of it."""
    newest, data = observed.judged.get((schedule, source)), _data(observed, source, schedule)
    judged = () if newest is None else newest.issues
    if data is None or (data.reason is WatchReason.REJECTED_ROWS and data.reason in {each.reason for each in judged}):
        return [*judged]  # where all rows were rejected, the verdicts name the cause
    return [data, *(judged if data.reason is WatchReason.DATA_SMALL else ())]


def _data(observed: Observed, source: str, schedule: Schedule) -> HealthIssue | None:
    """What is wrong with the newest reading of a source on a schedule."""
    of_source = (r for r in observed.readings if (r.source, r.schedule) == (source, schedule))
    readings = sorted(of_source, key=lambda r: r.window_start, reverse=True)
    if not readings:
        return None
    newest, since = readings[0], _since(observed, readings)
    window, again = observed.window_of(newest), run_again(schedule, observed.window_of(newest).name)
    # a day is compared with the same weekday; all weeks begin on the same one
    alike = [r.rows for r in readings[1:] if r.state == "ok" and observed.weekday_of(r) == observed.weekday_of(newest)]
    before = alike[:USUAL_WINDOWS]
    if newest.trouble == "unread":
        return HealthIssue(
            WatchReason.SOURCE_NOT_READ,
            "critical",
            f"{source} could not be read for {since}: {newest.error or newest.state}. Its labels were not judged.",
            f"`calmon check` names what is wrong; fix it, then {again}",
            source,
        )
    if newest.trouble == "rejected":
        return HealthIssue(
            WatchReason.REJECTED_ROWS,
            "critical",
            f"Every row of {source} for {since} was rejected ({newest.rejected:,}): nothing could be judged.",
            f"`calmon run` and the report count them by reason; fix them at their source, then {again}",
            source,
        )
    if newest.trouble == "empty":
        return _empty(observed, readings, before)
    if len(before) < FEWEST_WINDOWS or newest.rows >= MUCH_SMALLER * median(before):
        return None
    days = "days of this weekday" if schedule == "daily" else "windows"
    return HealthIssue(
        WatchReason.DATA_SMALL,
        "info",
        f"{source} has {count_of(newest.rows, 'row')} for {window.name}; usual are {median(before):,.0f} "
        f"(the median of the {len(before)} {days} before).{_gone(observed, newest)}",
        "check whether resolutions are loaded late; a window is read once more with the next run",
        source,
    )


def _empty(observed: Observed, readings: Sequence[ReadingSeen], before: Sequence[int]) -> HealthIssue | None:
    """A window without rows where rows are usual. One empty day may be a holiday; an empty week is not."""
    newest = readings[0]
    run = list(itertools.takewhile(lambda each: each.rows == 0, readings))
    long = newest.schedule == "weekly" or len(run) >= DAYS_OF_A_WEEK
    earlier = [each for each in readings[len(run) :] if each.state == "ok"]
    alike = [each for each in earlier if observed.weekday_of(each) == observed.weekday_of(newest)] or earlier
    usual = median([each.rows for each in alike[:USUAL_WINDOWS]] if long and earlier else before or [0])
    if usual <= 0:
        return None
    undated, are_new = _undated(readings[: len(run) + 1], usual)
    gone = "".join(_gone(observed, each) for each in readings[:2])
    why = "" if newest.before else ": nothing was resolved, or the relation is no longer filled"
    return HealthIssue(
        WatchReason.DATA_STALE,
        "critical" if long or are_new else "warning",
        f"{newest.source} has no row for {_since(observed, readings)}{why}. Usual are {usual:,.0f}.{undated}{gone}",
        "check the newest resolved_at of the relation, the job that fills it, and the clock (`date -u`)",
        newest.source,
    )


def _gone(observed: Observed, reading: ReadingSeen) -> str:
    """That rows of a window were there when it was read before, and are gone: the relation was emptied."""
    if not reading.before:
        return ""
    read = f"{count_of(reading.before, 'row')} {'was' if reading.before == 1 else 'were'} read before"
    left = f"{reading.left:,} {'is' if reading.left == 1 else 'are'}" if reading.left else "none is"
    return f" Of {observed.window_of(reading).name} {read}, and {left} left: the relation was emptied or replaced."


def _undated(readings: Sequence[ReadingSeen], usual: float) -> tuple[str, bool]:
    """How many rows lie in no window, and whether so many came with the empty windows that these may be the lost ones.

    ``readings`` are the empty ones and the one before them.
    """
    now, before = readings[0].undated, readings[-1].undated
    if not now:
        return "", False
    lie = f"lie{'s' if now == 1 else ''} {count_of(now, 'row')}"
    text = f" In no window {lie} of it, whose date is missing, malformed or in the future"
    return f"{text} ({before:,} before).", 2 * (now - before) >= usual


def _since(observed: Observed, readings: Sequence[ReadingSeen]) -> str:
    """``2026-W46 (since 2026-W40)``: the newest window, with the first consecutive one that was no better."""
    alike = list(itertools.takewhile(lambda each: each.trouble == readings[0].trouble, readings))
    return named_since(observed.window_of(readings[0]).name, observed.window_of(alike[-1]).name)


def named_since(name: str, first: str) -> str:
    """A window, with the first consecutive one in which the same held.

    >>> named_since("2026-W46", "2026-W40")
    '2026-W46 (since 2026-W40)'
    """
    return name if name == first else f"{name} (since {first})"


BESIDE = "`calmon incidents test` tries every receiver; correct its address in CALMON_APPRISE"


def _deliveries(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """Messages that wait, were refused, or were given up for want of a token, by channel or receiver."""
    unsent = ("pending", "failed", "sending")
    stuck = [d for d in observed.deliveries if d.state in unsent and now - d.created_at > STUCK]
    given_up = [d for d in observed.deliveries if now - d.created_at <= RECENT and not d.ended_with_its_message]
    first, last = observed.sent or (now, now)
    dead = [d for d in given_up if d.state == "dead" and not d.is_of_deleted]
    # given up for want of a token, by a monitor that had one before
    lost = [d for d in given_up if d.state == "not_sent" and d.created_at > first]
    for reason, found in zip(_UNSENT, (stuck, dead, lost), strict=True):
        for channel in {delivery.channel for delivery in found}:
            messages = [delivery for delivery in found if delivery.channel == channel]
            if reason is WatchReason.DELIVERY_STUCK:
                nobody = _reaches_nobody(observed, stuck, messages)
            else:
                nobody = reason is WatchReason.DELIVERY_NOT_SENT and max(d.created_at for d in messages) > last
            yield _unsent(reason, observed, messages, nobody=nobody)


def _unsent(reason: WatchReason, observed: Observed, messages: Sequence[Delivery], *, nobody: bool) -> HealthIssue:
    """Messages that one channel or receiver does not have; ``nobody``: nothing reaches anybody there now."""
    channel, beside = messages[0].channel, messages[0].is_beside_slack
    was, has = ("were", "have") if len(messages) > 1 else ("was", "has")
    error = next((d.error for d in reversed(messages) if d.error), "no error was noted")
    if reason is WatchReason.DELIVERY_STUCK:
        said = f"{has} waited for more than an hour: {error}"
        do = "`calmon check` asks Slack who we are; invite the bot to the channel, or fix the route in alerts.yaml"
    elif reason is WatchReason.DELIVERY_REFUSED:
        said = f"{was} refused by Slack for good: {error}"
        do = "`calmon incidents list` shows what was not sent; a form that Slack refuses is a defect: report it"
    else:
        what, variable = ("addresses", "CALMON_APPRISE") if beside else ("token", "CALMON_SLACK_BOT_TOKEN")
        said = f"{was} not sent and will not be: a process had no {what}, although messages had been sent before."
        do = (
            f"set {variable} wherever calmon runs (`calmon check` says whose it is); `calmon incidents list` "
            "shows what the messages were about"
        )
    text = f"{count_of(len(messages), 'message')} to {receiver_name(channel)} {said}"
    since = "so far" if observed.sent is None else f"since {moment(observed.sent[1])}"
    text += f" Nothing has reached {'anybody' if beside else 'Slack'} {since}." if nobody else ""
    do = BESIDE if beside and reason is not WatchReason.DELIVERY_NOT_SENT else do
    return HealthIssue(reason, "critical" if nobody else "warning", text, do, channel=channel)


def _untold(observed: Observed) -> Iterable[HealthIssue]:
    if observed.untold:
        names = _names([Subject(*each).name for each in observed.untold])
        yield HealthIssue(
            WatchReason.DELIVERY_NOT_SENT,
            "info",
            f"Nobody was told of {names}: critical, but no route takes it, or there was no token.",
            "`calmon check` says which of them is missing; once it is there, the next run tells people",
        )


def _reaches_nobody(observed: Observed, stuck: Sequence[Delivery], waiting: Sequence[Delivery]) -> bool:
    """Whether no message reaches Slack: it refuses the token, or messages of every route wait.

    Not where one was sent after these were last tried: they only wait for their next attempt.
    """
    tried = max(each.claimed_at or each.created_at for each in waiting)
    if observed.sent is not None and observed.sent[1] > tried:
        return False
    refuses_all = any(each.error_code in TOKEN_ERRORS for each in waiting)
    return refuses_all or (bool(observed.channels) and observed.channels <= {each.channel for each in stuck})


def _listener(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """That nobody answers the buttons of messages; only where ``calmon slack`` was connected before, or has its tokens.

    Where its tokens are not set, that it was connected counts for a week: it may have been a trial.
    """
    note, looked = observed.notes.get(LISTENER_NOTE), observed.notes.get(WATCHDOG_NOTE)
    before = None if looked is None else looked.detail.get("before")
    if looked is not None and before is not None and looked.at - datetime.fromisoformat(before) > NOT_LISTENING:
        return  # the watchdog's first look after a pause, as of the machine: the others may still start
    what, known = "calmon slack has not been connected to Slack since", None if note is None else note.at
    if note is None and observed.sent is not None and observed.has_buttons:
        never = "calmon slack has never been noted as connected to Slack"
        what, known = f"{never}, and messages with buttons are sent since", observed.sent[0]
    restored = observed.identity.restored_at if observed.identity is not None else None
    if known is None:
        return
    silent = now - max(known, restored or known)  # a restored note is older than the listener's
    if silent > NOT_LISTENING and (observed.has_buttons or silent <= RECENT):
        yield HealthIssue(
            WatchReason.LISTENER_SILENT,
            "warning",
            f"Nobody answers the buttons of messages: {what} {moment(known)}.",
            "start `calmon slack`; until it runs, use `calmon incidents ack ID` and "
            "`calmon automation disable --label LABEL --reason TEXT` instead of buttons",
        )


def _leases(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    together: dict[tuple[str, datetime, bool], list[SwitchState]] = {}
    for state, allowed in allowed_of_each(observed.present, now, observed.identity):
        # the end of an operator's enable is reported in the thread of the incident that it was against
        in_thread = is_for_a_time(state) and (state.source, state.label) in observed.in_threads
        if allowed.reason in (GateReason.ON, GateReason.LEASE_ENDED) and state.lease_until and not in_thread:
            minute = state.lease_until.replace(second=0, microsecond=0)  # one command enables many, each a moment later
            together.setdefault((state.source, minute, is_for_a_time(state)), []).append(state)
    for (source, _, planned), states in together.items():
        until = max(state.lease_until for state in states if state.lease_until is not None)
        hours, names = (until - now) / timedelta(hours=1), of_labels([state.label for state in states])
        band = next((band for band in LEASE_WARNINGS if 0 < hours <= band), None)
        no_news = all((s.source, s.label) in observed.not_news for s in states)
        judged_since = any(
            run.source == source and run.state == "done" and run.finished_at is not None and run.finished_at > until
            for run in observed.runs
        )
        if hours <= 0 and planned:
            yield HealthIssue(
                WatchReason.LEASE_ENDED,
                "info" if no_news or judged_since else "warning",
                f"The enable of {source} by a person ended at {moment(until)} for {names}, so automation is off.",
                "nothing, if that was meant; else `calmon automation enable --label LABEL --reason TEXT`",
                source,
            )
        elif hours <= 0:
            yield HealthIssue(
                WatchReason.LEASE_ENDED,
                "info" if no_news or judged_since else "critical",
                f"The lease of {source} ended at {moment(until)} for {names}: no evaluation renewed it, so automation "
                "is off.",
                "`calmon explain` the newest verdict of the label shows why no rule was judged",
                source,
            )
        elif band is not None and not (planned or _will_be_renewed(observed, source, until, now)):
            yield HealthIssue(
                WatchReason.LEASE_ENDING,
                "info" if no_news else "critical" if band == min(LEASE_WARNINGS) else "warning",
                f"Automation of {source} ends by itself at {moment(until)}, in less than {band} hours, for {names}, "
                "unless an evaluation renews its lease.",
                "check that the next run takes place and can judge an acting rule of these labels",
                source,
            )


def _lost(observed: Observed) -> Iterable[HealthIssue]:
    """Sources with automation on that alerts.yaml has lost, as after a new name there: gates refuse them since then."""
    on = [s for s in observed.switches if s.state == "on" and observed.is_lost(s.source) and s.label is not None]
    for source in {state.source for state in on}:
        yield HealthIssue(
            WatchReason.LEASE_ENDED,
            "critical",
            f"Automation of {source} ended for {of_labels([s.label for s in on if s.source == source])}: alerts.yaml "
            f"has no source {source} any more, so every gate refuses it.",
            "put the source back into alerts.yaml; if it is gone for good or has a new name, "
            f"`calmon automation disable --source {source} --all --reason TEXT` ends this",
            source,
        )


def _turned_off(observed: Observed) -> Iterable[HealthIssue]:
    """Labels that are off because nothing could be judged (``when_not_evaluated: disable``)."""
    off = [s for s in observed.switches if s.state == "off" and not s.by_operator and s.not_evaluated is not None]
    for source in {state.source for state in off if state.source in observed.sources}:
        states = [state for state in off if state.source == source]
        why = ", ".join(sorted({str(state.not_evaluated) for state in states}))
        yield HealthIssue(
            WatchReason.TURNED_OFF,
            "critical",
            f"Automation of {source} was turned off for {of_labels([state.label for state in states])}, since no "
            f"acting rule could be judged ({why}).",
            "`calmon explain` a verdict of the label shows why; then "
            f"`calmon automation enable --source {shlex.quote(source)} --all --reason TEXT`, or let good windows "
            "turn it on where `re_enable` says so",
            source,
        )


def _will_be_renewed(observed: Observed, source: str, until: datetime, now: datetime) -> bool:
    """Whether the schedule that gave this lease has its next run before the end, and that run is not late yet."""
    for schedule in observed.scheduled:
        newest = observed.newest_done(schedule).get(source)
        if newest is None:
            continue
        last = windows.begun(schedule, newest.window_start, observed.zone)
        due = windows.following(last, observed.zone).end + windows.SETTLE + OVERDUE
        if last.end + observed.lease == until and now < due <= until:
            return True
    return False


def of_labels(labels: Iterable[str | None]) -> str:
    """Labels in a sentence; None is the source as a whole."""
    return _names([label or "the source as a whole" for label in labels])


def _names(names: Sequence[str]) -> str:
    return and_more(sorted(names), NAMES_SHOWN)
