"""Whether the monitor itself works: health issues with named reasons, from its records in the history. Pure.

A monitor that has stopped reports nothing, and neither does one without new data: both look like a quiet week.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from zoneinfo import ZoneInfo

from monitor.alerting.slack.client import TOKEN_ERRORS
from monitor.automation.state import GateReason, allowed_of_each, clock_behind, is_for_a_time
from monitor.core import windows
from monitor.core.records import (
    SCHEDULES,
    SEVERITY_RANK,
    Delivery,
    Identity,
    Note,
    Reason,
    Schedule,
    Severity,
    Subject,
    SwitchState,
    Window,
    receiver_name,
)
from monitor.core.rejection_records import Rejections
from monitor.core.rejection_words import fact, remedy
from monitor.core.wording import count_of

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
NAMES_SHOWN, RULES_SHOWN = 12, 3
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
    """What can be wrong with the monitor; each has a page ``docs/runbook/<reason>.md``."""

    RUN_MISSING = "run_missing"
    RUN_FAILED = "run_failed"
    RUN_HUNG = "run_hung"
    RUNS_WAITING = "runs_waiting"
    FLOW_FAILED = "flow_failed"
    WATCHDOG_SILENT = "watchdog_silent"
    SOURCE_NOT_READ = "source_not_read"
    DATA_STALE = "data_stale"
    DATA_SMALL = "data_small"
    NOTHING_JUDGED = "nothing_judged"
    REJECTED_ROWS = "rejected_rows"
    SCORES_MOVED = "scores_moved"
    UNRESOLVED_FAILED = "unresolved_failed"
    DELIVERY_STUCK = "delivery_stuck"
    DELIVERY_REFUSED = "delivery_refused"
    DELIVERY_NOT_SENT = "delivery_not_sent"
    LISTENER_SILENT = "listener_silent"
    LEASE_ENDING = "lease_ending"
    LEASE_ENDED = "lease_ended"
    HISTORY_RESTORED = "history_restored"
    CLOCK_BEHIND = "clock_behind"
    TURNED_OFF = "turned_off_unjudged"


_NO_MESSAGES = (WatchReason.DELIVERY_STUCK, WatchReason.DELIVERY_NOT_SENT)

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


_REPORTED_ELSEWHERE = {
    Reason.IN_BASELINE,
    Reason.RELATION_ERROR,
    Reason.WAREHOUSE_FAILED,
    Reason.REJECTED_ROWS,
    Reason.NOT_MATURE,
}
"""Reasons that need no issue of their own: the reading or the label is reported already, the window is part of the
baseline, or a later run judges it once its truths are known."""


BY_LABEL: Mapping[Reason, tuple[WatchReason, str, str]] = {
    Reason.REJECTED_ROWS: (
        WatchReason.REJECTED_ROWS, "too many of their rows were rejected, so what is left may not be typical",
        "fix the rows at their source, then {again}",
    ),
    Reason.UNRESOLVED_FAILED: (
        WatchReason.UNRESOLVED_FAILED,
        "when their truths came, or which of their items still wait for one, could not be read",
        "the notes of the report say why (`calmon report`); fix it, then {again}",
    ),
    Reason.SCORES_MOVED: (
        WatchReason.SCORES_MOVED, "their scores moved, so too few are comparable with the baseline",
        "treat it as a breach until you know why; if the new scores are intended (a new model version), "
        "`calmon baseline pin`",
    ),
}  # fmt: skip
"""By the reason of verdicts that is reported by label: the health issue, why, and what to do."""


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


@dataclass(frozen=True, slots=True)
class JudgedSeen:
    """The verdicts of one source in the newest window of a schedule that was judged.

    ``reasons`` counts the verdicts that are not evaluated, by reason; ``labels`` names, for the reasons reported by
    label, (rule, severity, label); ``since`` is the first of the consecutive windows in which a reason held
    (``""``: nothing was judged). ``lost`` says why rows were rejected, ``examples`` names some of their items.
    """

    schedule: Schedule
    window_name: str
    source: str
    evaluated: int
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    labels: Mapping[Reason, Sequence[tuple[str, Severity, str | None]]] = field(default_factory=dict)
    since: Mapping[str, str] = field(default_factory=dict)
    lost: Rejections = field(default_factory=Rejections)
    examples: tuple[str, ...] = ()

    def named_since(self, reason: str) -> str:
        """``2026-W46 (since 2026-W40)``: the window, with the first consecutive one in which a reason held."""
        first = self.since.get(reason) or self.window_name
        return self.window_name if first == self.window_name else f"{self.window_name} (since {first})"


@dataclass(frozen=True, slots=True)
class Observed:
    """What the checks read. ``scheduled`` are the schedules that have rules, ``since`` when this history began.

    ``rules_revision`` is that of the present rules, ``lease`` how long an evaluation keeps automation on;
    ``notes`` are the notes of the flows (``monitor.core.records.Note``) by key; ``in_threads`` the labels (source,
    label) that have an open message, ``untold`` those with a critical incident of which none was sent or waits;
    ``with_scores`` the sources of which gates have a score from which labels act.
    ``channels`` are those of the routes, ``sent`` when the first and the last message were sent (None: none was).
    ``has_buttons``: both tokens of ``calmon slack`` are set here. ``not_news`` are the labels that have too few rows to
    be judged now, or none any more, of which their own incident tells. ``judged_at`` are the starts of the windows of
    each schedule and source that were judged.
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
    judged: Sequence[JudgedSeen] = ()
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

    @property
    def present(self) -> list[SwitchState]:
        """The switches without those of sources that are lost."""
        return [state for state in self.switches if not self.is_lost(state.source)]

    def is_lost(self, source: str) -> bool:
        """Whether alerts.yaml has lost this source, and gates with it: they refuse all of it, whatever its leases."""
        return source not in self.sources and source not in self.with_scores


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """One problem of the monitor. ``key`` is the same as long as it is the same problem."""

    reason: WatchReason
    severity: Severity
    key: str
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
    every = list(_judged(observed))
    causes = {finding.key for finding in every if finding.reason == WatchReason.REJECTED_ROWS}
    # where all rows were rejected, the verdicts name the cause
    data = [f for f in _data(observed) if f.reason != WatchReason.REJECTED_ROWS or f.key not in causes]
    known = {finding.key for finding in data if finding.reason != WatchReason.DATA_SMALL}
    judged = [finding for finding in every if finding.key not in known]  # reported with the reading already
    found = [
        *_history(observed, now),
        *_runs(observed, now),
        *_flows(observed, now),
        *data,
        *judged,
        *_deliveries(observed, now),
        *_listener(observed, now),
        *_leases(observed, now),
        *_lost(observed),
        *_turned_off(observed),
    ]
    by_stake = (_by_stake(issue, observed, now) for issue in _by_clock(found, observed.sources))
    return sorted(by_stake, key=lambda f: (SEVERITY_RANK[f.severity], f.reason, f.key))


def _by_clock(found: Sequence[HealthIssue], sources: Sequence[str]) -> Iterable[HealthIssue]:
    """The issues; a missing run is only shown where the other schedule runs and finds no row in any source: the clock
    may be days ahead, and that issue asks for it."""
    missing = {issue.key for issue in found if issue.reason is WatchReason.RUN_MISSING}
    stale = {issue.key for issue in found if issue.reason is WatchReason.DATA_STALE}
    ahead = any({f"{of}:{each}" for of in sources} <= stale and each not in missing for each in SCHEDULES)
    for issue in found:
        is_run = issue.reason is WatchReason.RUN_MISSING and issue.key in SCHEDULES
        yield replace(issue, severity="info") if ahead and is_run else issue


def _by_stake(issue: HealthIssue, observed: Observed, now: datetime) -> HealthIssue:
    """An issue of a source, critical only where something of it acts now: else nothing acts that is not watched."""
    if issue.severity != "critical" or issue.reason not in (*UNJUDGED, WatchReason.DATA_STALE):
        return issue
    acts = any(
        allowed.allowed and state.source == issue.source and state.label is not None
        for state, allowed in allowed_of_each(observed.switches, now, observed.identity)
    )
    return issue if acts else replace(issue, severity="warning")


def not_heard(found: Iterable[HealthIssue]) -> str | None:
    """That no message reaches Slack, so that only another service can notify people; None if messages do."""
    silent = (each.text for each in found if each.reason in _NO_MESSAGES and each.severity == "critical")
    return next(silent, None)


def _history(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """A history that was restored, or a clock that is behind it: its gates are closed until somebody confirms it."""
    found = observed.identity
    if found is not None and found.newest_at is not None and clock_behind(found.newest_at, now) is not None:
        yield HealthIssue(
            WatchReason.CLOCK_BEHIND,
            "critical",
            "clock",
            f"A switch was changed at {found.newest_at:%Y-%m-%d %H:%M} UTC, which the clock of this machine has not "
            "reached yet. Every gate is closed, and no label acts.",
            "set the clock of this machine; if it is right, and the change was made by one that was ahead, "
            "`calmon db confirm --reason TEXT`",
        )
    if found is None or (found.confirmed and not found.went_back):
        return
    why = found.why or "an older copy was put back"
    yield HealthIssue(
        WatchReason.HISTORY_RESTORED,
        "critical",
        f"{found.mark.history}:{found.mark.epoch}",
        f"The history is not confirmed: {why}. Every gate is closed, and no label acts.",
        "compare `calmon automation status` with what should be on, turn off what should not, then "
        "`calmon db confirm --reason TEXT`",
    )


def _runs(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    for schedule in observed.scheduled:
        newest, late = (windows.last_ready(schedule, at, observed.zone) for at in (now, now - OVERDUE))
        runs_of = observed.runs_of(schedule)
        judged = {source: [r for r in runs if _is_of(r, newest, late)] for source, runs in runs_of.items()}
        missing = [s for s, runs in runs_of.items() if not judged[s] and _is_due(observed, schedule, runs, late)]
        if missing and not any(judged.values()):
            last = max((run.window_start for runs in runs_of.values() for run in runs), default=None)
            yield _missing(schedule, late, last, observed.zone)
        elif missing:
            yield _left_out(schedule, late, missing)
        yield from _gaps(observed, schedule)
        shown = [
            max(judged[source], key=lambda run: run.window_start)
            if judged[source]
            else max(runs, key=lambda run: run.started_at)
            for source, runs in runs_of.items()
            if runs
        ]
        for state in dict.fromkeys((run.window_name, run.state, run.started_at) for run in shown):
            alike = [run for run in shown if (run.window_name, run.state, run.started_at) == state]
            yield from _state(alike, now, is_whole=len(alike) == len(observed.sources))


def _is_of(run: RunSeen, *due: Window) -> bool:
    return any(windows.are_same(run.schedule, run.window_start, window.start) for window in due)


def _is_due(observed: Observed, schedule: Schedule, runs: Sequence[RunSeen], late: Window) -> bool:
    """Whether a source that was run before (``runs``) should have been in the window ``late``.

    One that never was, or a schedule, may be new in alerts.yaml: only runs by the present rules count.
    """
    by_present = [run for run in observed.runs if run.rules_revision == observed.rules_revision]
    since = observed.since if runs else min((run.started_at for run in by_present), default=None)
    beside = any(run.schedule == schedule and run.state == "done" and _is_of(run, late) for run in by_present)
    return beside or (since is not None and since < late.end)


def _gaps(observed: Observed, schedule: Schedule) -> Iterable[HealthIssue]:
    """Windows that were missed before the newest judged one, which hides them."""
    gaps = {source: _gaps_of(observed, schedule, source) for source in observed.sources}
    found = sorted({window for missed in gaps.values() for window in missed})
    if not found:
        return
    of = [source for source in observed.sources if gaps[source]]
    first, last, daily = found[0].name, found[-1].name, " --daily" if schedule == "daily" else ""
    many = f"`calmon backfill{daily} --from {first} --to {last}`"
    yield HealthIssue(
        WatchReason.RUN_MISSING,
        "warning",
        f"{schedule}:gaps",
        f"{_names([window.name for window in found])} {'was' if len(found) == 1 else 'were'} never judged for "
        f"{_names(of)}, though {'a later day was' if daily else 'a later week was'}.",
        f"the next scheduled run judges what was missed; now: {_again(schedule, first) if len(found) == 1 else many}",
    )


def _gaps_of(observed: Observed, schedule: Schedule, source: str) -> list[Window]:
    """Not where nothing could be judged of the newest window: the clock may be ahead, and other issues report it."""
    starts = observed.judged_at.get((schedule, source))
    is_of = (each for each in observed.judged if (each.schedule, each.source) == (schedule, source))
    if not starts or any(not each.evaluated for each in is_of):
        return []
    newest = windows.begun(schedule, max(starts), observed.zone)
    return windows.missed(schedule, starts, newest, observed.zone, windows.CATCH_UP)


def _left_out(schedule: Schedule, late: Window, missing: Sequence[str]) -> HealthIssue:
    """Sources that were not run in a window while others were, as by deployments of single sources."""
    return HealthIssue(
        WatchReason.RUN_MISSING,
        "critical",
        f"{schedule}:sources",
        f"The {schedule} run of {late.name} left out {_names(missing)}: it was of other sources alone.",
        f"{_again(schedule, late.name)}; if each source has a deployment of its own, check that none is paused",
    )


def _missing(schedule: Schedule, late: Window, last: datetime | None, zone: ZoneInfo) -> HealthIssue:
    """``late`` is the newest window whose run is overdue, ``last`` the start of the newest that was run."""
    first, count = late, 1
    if last is not None:
        after = windows.following(windows.begun(schedule, last, zone), zone)
        missed = windows.span(after, late, zone) if after.start < late.start else [late]
        first, count = missed[0], len(missed)
    more = f", and the {count - 1} after it" if count > 2 else ", and the one after it" if count > 1 else ""
    return HealthIssue(
        WatchReason.RUN_MISSING,
        "critical",
        schedule,
        f"The {schedule} run of {first.name} is missing{more}: {'it' if count == 1 else 'the first'} was due at "
        f"{first.end + windows.SETTLE:%Y-%m-%d %H:%M} UTC.",
        "check that the scheduler is running (`calmon serve`, or the Prefect worker), then "
        + (_again(schedule, late.name) if count == 1 else f"`calmon run {schedule}`"),
    )


def _state(runs: Sequence[RunSeen], now: datetime, *, is_whole: bool) -> Iterable[HealthIssue]:
    """That the run of these sources failed or hangs; ``is_whole``: it was of all sources."""
    run, names = runs[0], [run.source for run in runs]
    what = f"The {run.schedule} run of {run.window_name}{'' if is_whole else f' for {_names(names)}'}"
    again = _again(run.schedule, run.window_name)
    key = ":".join((run.schedule, run.window_name, *([] if is_whole else sorted(names))))
    if run.state == "failed":
        yield HealthIssue(
            WatchReason.RUN_FAILED,
            "critical",
            key,
            f"{what} failed: {run.error or 'it left no reason'}",
            f"fix what it names, then {again}: it continues where it stopped",
        )
    elif run.state == "running" and now - run.started_at > HUNG:
        yield HealthIssue(
            WatchReason.RUN_HUNG,
            "critical",
            key,
            f"{what} began at {run.started_at:%Y-%m-%d %H:%M} UTC and has not ended: it hangs, or its process was "
            "killed.",
            f"read the log of the run, then {again}",
        )


def _again(schedule: Schedule, window: str) -> str:
    return f"`{windows.run_command(schedule, window)}`"


def _flows(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    """Issues from the notes of the flows: the watchdog is silent, runs wait, flows failed."""
    looked, waiting = observed.notes.get(WATCHDOG_NOTE), observed.notes.get(WAITING_NOTE)
    if looked is not None and now - looked.at > SILENT:
        yield HealthIssue(
            WatchReason.WATCHDOG_SILENT,
            "critical",
            "watchdog",
            f"The watchdog last looked at {looked.at:%Y-%m-%d %H:%M} UTC; it is due every quarter of an hour.",
            "check that the scheduler is running (`calmon serve`, or the Prefect worker), and that no run of "
            "calmon-watchdog waits in Prefect",
        )
    if waiting is not None and now - waiting.at <= SILENT and waiting.detail.get("runs"):
        yield _waiting(waiting.detail["runs"])
    for key, note in sorted(observed.notes.items()):
        flow = key.removeprefix(FAILED_NOTE)
        # a note from the future is left out: this clock is behind, or the flow's was ahead
        if key != flow and note.at <= now and not _is_over(observed, flow, note):
            yield _flow_failed(flow, note, observed.zone)


def _waiting(runs: Sequence[Mapping[str, str]]) -> HealthIssue:
    shown = "; ".join(f"{run['flow']} due {run['due']} UTC ({run['state']})" for run in runs[:5])
    more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
    return HealthIssue(
        WatchReason.RUNS_WAITING,
        "critical",
        "waiting",
        f"Runs that were due more than an hour ago have not begun: {shown}{more}.",
        "check that the Prefect worker (or `calmon serve`) is running; a slot that a killed run still holds "
        "is freed within ten minutes where the server keeps its leases in files (`calmon docs operations`)",
    )


def _flow_failed(flow: str, note: Note, zone: ZoneInfo) -> HealthIssue:
    schedule = SCHEDULE_OF.get(flow)
    what = f"The {schedule} run" if schedule else f"The flow {flow}"
    again = "the next run shows it"
    if schedule:
        again = f"{_again(schedule, windows.last_ready(schedule, note.at, zone).name)}: it continues where it stopped"
    return HealthIssue(
        WatchReason.RUN_FAILED if schedule else WatchReason.FLOW_FAILED,
        "critical",
        flow,
        f"{what} failed at {note.at:%Y-%m-%d %H:%M} UTC: {note.detail.get('error') or 'it left no reason'}",
        f"fix what it names, then {again}",
    )


def _is_over(observed: Observed, flow: str, note: Note) -> bool:
    """Whether alerts.yaml has none of the flow's sources any more, or their run is stored as failed, which is reported.

    A run that is done settles the note, and so does the next look of the watchdog or the drain.
    """
    named = set(note.detail.get("sources", ()))
    runs = [
        run for run in observed.runs if run.schedule == SCHEDULE_OF.get(flow) and (not named or run.source in named)
    ]
    newest = max(runs, key=lambda run: run.started_at, default=None)
    is_shown = SCHEDULE_OF.get(flow) in observed.scheduled and newest is not None and newest.state == "failed"
    return is_shown or (bool(named) and named.isdisjoint(observed.sources))


def _data(observed: Observed) -> Iterable[HealthIssue]:
    for source, schedule in itertools.product(observed.sources, observed.scheduled):
        found = (r for r in observed.readings if (r.source, r.schedule) == (source, schedule))
        readings = sorted(found, key=lambda r: r.window_start, reverse=True)
        if readings:
            # a day is compared with the same weekday; all weeks begin on the same one
            days = [_weekday(r, observed.zone) for r in readings]
            alike = [r.rows for r, day in zip(readings, days, strict=True) if r.state == "ok" and day == days[0]]
            before = alike[1:] if readings[0].state == "ok" else alike
            yield from _reading(readings, before[:USUAL_WINDOWS], observed.zone)


def _weekday(reading: ReadingSeen, zone: ZoneInfo) -> int:
    return windows.nominal(windows.begun(reading.schedule, reading.window_start, zone)).weekday()


def _reading(readings: Sequence[ReadingSeen], before: Sequence[int], zone: ZoneInfo) -> Iterable[HealthIssue]:
    """The issues of the newest of these readings (the newest comes first) of one source on one schedule."""
    newest = readings[0]
    window = windows.begun(newest.schedule, newest.window_start, zone).name
    key = f"{newest.source}:{newest.schedule}"
    if newest.state != "ok":
        since = _since(readings, zone, lambda each: each.state != "ok")
        yield HealthIssue(
            WatchReason.SOURCE_NOT_READ,
            "critical",
            key,
            f"{newest.source} could not be read for {window}{since}: {newest.error or newest.state}. "
            "Its labels were not judged.",
            f"`calmon check` names what is wrong; fix it, then {_again(newest.schedule, window)}",
            newest.source,
        )
    elif newest.rows == 0 and newest.rejected:
        since = _since(readings, zone, lambda each: each.state == "ok" and not each.rows and each.rejected > 0)
        yield HealthIssue(
            WatchReason.REJECTED_ROWS,
            "critical",
            key,
            f"Every row of {newest.source} for {window}{since} was rejected ({newest.rejected:,}): nothing could be "
            "judged.",
            "`calmon run` and the report count them by reason; fix them at their source, then "
            f"{_again(newest.schedule, window)}",
            newest.source,
        )
    elif newest.rows == 0:
        yield from _empty(readings, before, zone)
    elif len(before) >= FEWEST_WINDOWS and newest.rows < MUCH_SMALLER * median(before):
        alike = "days of this weekday" if newest.schedule == "daily" else "windows"
        yield HealthIssue(
            WatchReason.DATA_SMALL,
            "info",
            key,
            f"{newest.source} has {count_of(newest.rows, 'row')} for {window}; usual are {median(before):,.0f} "
            f"(the median of the {len(before)} {alike} before).{_gone(newest, zone)}",
            "check whether resolutions are loaded late; a window is read once more with the next run",
            newest.source,
        )


def _empty(readings: Sequence[ReadingSeen], before: Sequence[int], zone: ZoneInfo) -> Iterable[HealthIssue]:
    """A window without rows where rows are usual. One empty day may be a holiday; an empty week is not."""
    newest = readings[0]
    run = list(itertools.takewhile(lambda each: each.rows == 0, readings))
    long = newest.schedule == "weekly" or len(run) >= DAYS_OF_A_WEEK
    earlier = [each for each in readings[len(run) :] if each.state == "ok"]
    alike = [each for each in earlier if _weekday(each, zone) == _weekday(newest, zone)] or earlier
    usual = median([each.rows for each in alike[:USUAL_WINDOWS]] if long and earlier else before or [0])
    if usual <= 0:
        return
    window = windows.begun(newest.schedule, newest.window_start, zone).name
    since = _since(readings, zone, lambda each: each.state == "ok" and each.rows == 0)
    undated, are_new = _undated(readings[: len(run) + 1], usual)
    gone = "".join(_gone(each, zone) for each in readings[:2])
    why = "" if newest.before else ": nothing was resolved, or the relation is no longer filled"
    yield HealthIssue(
        WatchReason.DATA_STALE,
        "critical" if long or are_new else "warning",
        f"{newest.source}:{newest.schedule}",
        f"{newest.source} has no row for {window}{since}{why}. Usual are {usual:,.0f}.{undated}{gone}",
        "check the newest resolved_at of the relation, the job that fills it, and the clock (`date -u`)",
        newest.source,
    )


def _gone(reading: ReadingSeen, zone: ZoneInfo) -> str:
    """That rows of a window were there when it was read before, and are gone: the relation was emptied."""
    if not reading.before:
        return ""
    window = windows.begun(reading.schedule, reading.window_start, zone).name
    read = f"{count_of(reading.before, 'row')} {'was' if reading.before == 1 else 'were'} read before"
    left = f"{reading.left:,} {'is' if reading.left == 1 else 'are'}" if reading.left else "none is"
    return f" Of {window} {read}, and {left} left: the relation was emptied or replaced."


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


def _since(readings: Sequence[ReadingSeen], zone: ZoneInfo, holds: Callable[[ReadingSeen], bool]) -> str:
    """``(since 2026-W40)``, where the same held for the consecutive windows up to the newest."""
    run = list(itertools.takewhile(holds, readings))
    if len(run) < 2:
        return ""
    return f" (since {windows.begun(run[-1].schedule, run[-1].window_start, zone).name})"


def _judged(observed: Observed) -> Iterable[HealthIssue]:
    """What the newest evaluation of each source could not judge; a source that was not read has its own issue."""
    for each in observed.judged:
        if each.source not in observed.sources or each.schedule not in observed.scheduled:
            continue
        if not each.evaluated and set(each.reasons) - _REPORTED_ELSEWHERE:
            yield _nothing_judged(each)
        for reason, (watch_reason, why, do_now) in BY_LABEL.items():
            if each.labels.get(reason):
                words = _rejected(each) if reason is Reason.REJECTED_ROWS else (why, do_now)
                yield _not_by_label(each, reason, watch_reason, *words)


def _rejected(each: JudgedSeen) -> tuple[str, str]:
    """Why rows were rejected, and what to do, where that is known: old counts are removed."""
    gravest = each.lost.gravest
    if gravest is None:
        return BY_LABEL[Reason.REJECTED_ROWS][1:]
    items = f" (for example {', '.join(each.examples)})" if each.examples else ""
    return f"{fact(gravest)}{items}", f"{remedy(gravest).removesuffix('.')}: {{again}}"


def _nothing_judged(each: JudgedSeen) -> HealthIssue:
    total = sum(each.reasons.values())
    why = ", ".join(
        f"{reason.value} {count:,}" for reason, count in sorted(each.reasons.items(), key=lambda item: -item[1])
    )
    quiet = set(each.reasons) - _REPORTED_ELSEWHERE == {Reason.TOO_FEW_ROWS}  # a season: the next weeks pool more
    return HealthIssue(
        WatchReason.NOTHING_JUDGED,
        "info" if quiet else "critical",
        f"{each.source}:{each.schedule}",
        f"Nothing of {each.source} was judged in {each.named_since('')}: all {total:,} verdicts of the {each.schedule} "
        f"rules are not evaluated ({why}).",
        f"read `calmon docs {max(each.reasons, key=lambda reason: each.reasons[reason]).value}`; `calmon explain` "
        "a verdict says what is missing",
        each.source,
    )


def _not_by_label(each: JudgedSeen, reason: Reason, watch_reason: WatchReason, why: str, do_now: str) -> HealthIssue:
    found = each.labels[reason]
    severity = min((severity for _, severity, _ in found), key=SEVERITY_RANK.__getitem__)
    names = _names(sorted({label or "the source as a whole" for _, _, label in found}))
    named = sorted({rule for rule, _, _ in found})
    rules = ", ".join(named) if len(named) <= RULES_SHOWN else f"{len(named)} rules"
    return HealthIssue(
        watch_reason,
        severity,
        f"{each.source}:{each.schedule}",
        f"{each.source} in {each.named_since(reason)}: {rules} could not judge {names}: {why}.",
        do_now.replace("{again}", _again(each.schedule, each.window_name)),
        each.source,
    )


def _deliveries(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    stuck = [
        d for d in observed.deliveries if d.state in ("pending", "failed", "sending") and now - d.created_at > STUCK
    ]
    given_up = [d for d in observed.deliveries if now - d.created_at <= RECENT and not d.ended_with_its_message]
    dead = [d for d in given_up if d.state == "dead" and not d.is_of_deleted]
    for messages in _by_channel(stuck):
        error, nobody = _last_error(messages), _reaches_nobody(observed, stuck, messages)
        fix = "`calmon check` asks Slack who we are; invite the bot to the channel, or fix the route in alerts.yaml"
        said = f"waited for more than an hour: {error}"
        yield _unsent(WatchReason.DELIVERY_STUCK, observed, messages, ("has", "have"), said, fix, nobody=nobody)
    for messages in _by_channel(dead):
        look = "`calmon incidents list` shows what was not sent; a form that Slack refuses is a defect: report it"
        said = f"refused by Slack for good: {_last_error(messages)}"
        yield _unsent(WatchReason.DELIVERY_REFUSED, observed, messages, ("was", "were"), said, look)
    # given up for want of a token, by a monitor that had one before
    first, last = observed.sent or (now, now)
    for messages in _by_channel([d for d in given_up if d.state == "not_sent" and d.created_at > first]):
        beside, nobody = messages[0].is_beside_slack, max(d.created_at for d in messages) > last
        what, variable = ("addresses", "CALMON_APPRISE") if beside else ("token", "CALMON_SLACK_BOT_TOKEN")
        said = f"not sent and will not be: a process had no {what}, although messages had been sent before."
        do = (
            f"set {variable} wherever calmon runs (`calmon check` says whose it is); `calmon incidents list` shows "
            "what the messages were about"
        )
        yield _unsent(WatchReason.DELIVERY_NOT_SENT, observed, messages, ("was", "were"), said, do, nobody=nobody)
    if observed.untold:
        names = _names(sorted(Subject(*each).name for each in observed.untold))
        yield HealthIssue(
            WatchReason.DELIVERY_NOT_SENT, "info", "untold",
            f"Nobody was told of {names}: critical, but no route takes it, or there was no token.",
            "`calmon check` says which of them is missing; once it is there, the next run tells people",
        )  # fmt: skip


def _by_channel(deliveries: Sequence[Delivery]) -> list[list[Delivery]]:
    return [[d for d in deliveries if d.channel == each] for each in sorted({d.channel for d in deliveries})]


def _last_error(messages: Sequence[Delivery]) -> str:
    return next((d.error for d in reversed(messages) if d.error), "no error was noted")


def _unsent(
    reason: WatchReason,
    observed: Observed,
    messages: Sequence[Delivery],
    verbs: tuple[str, str],
    said: str,
    do_now: str,
    *,
    nobody: bool = False,
) -> HealthIssue:
    """Messages to one channel or receiver that it does not have; ``nobody``: nothing reaches anybody there now."""
    channel, beside, verb = messages[0].channel, messages[0].is_beside_slack, verbs[len(messages) > 1]
    text = f"{count_of(len(messages), 'message')} to {receiver_name(channel)} {verb} {said}"
    since = "so far" if observed.sent is None else f"since {observed.sent[1]:%Y-%m-%d %H:%M} UTC"
    text += f" Nothing has reached {'anybody' if beside else 'Slack'} {since}." if nobody else ""
    do = BESIDE if beside and reason != WatchReason.DELIVERY_NOT_SENT else do_now
    return HealthIssue(reason, "critical" if nobody else "warning", channel, text, do, channel=channel)


BESIDE = "`calmon incidents test` tries every receiver; correct its address in CALMON_APPRISE"


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
    note, first = observed.notes.get(LISTENER_NOTE), observed.sent[0] if observed.sent else None
    if _has_just_come_back(observed.notes.get(WATCHDOG_NOTE)):
        return
    known = [note.at] if note is not None else [first] if first is not None and observed.has_buttons else []
    restored = observed.identity.restored_at if observed.identity is not None else None
    silent = [now - at for at in (*known, restored) if at is not None]  # a restored note is older than the listener's
    if not known or min(silent) <= NOT_LISTENING or (not observed.has_buttons and min(silent) > RECENT):
        return
    since = f"since {known[0]:%Y-%m-%d %H:%M} UTC"
    what = f"calmon slack has not been connected to Slack {since}"
    never = f"calmon slack has never been noted as connected to Slack, and messages with buttons are sent {since}"
    yield HealthIssue(
        WatchReason.LISTENER_SILENT,
        "warning",
        "listener",
        f"Nobody answers the buttons of messages: {never if note is None else what}.",
        "start `calmon slack`; until it runs, use `calmon incidents ack ID` and "
        "`calmon automation disable --label LABEL --reason TEXT` instead of buttons",
    )


def _has_just_come_back(looked: Note | None) -> bool:
    """Whether the watchdog's last look was the first after a pause, as of the machine: the others may still start."""
    before = None if looked is None else looked.detail.get("before")
    return looked is not None and before is not None and looked.at - datetime.fromisoformat(before) > NOT_LISTENING


def _leases(observed: Observed, now: datetime) -> Iterable[HealthIssue]:
    on = [
        state for state, allowed in allowed_of_each(observed.present, now, observed.identity)
        # the end of an operator's enable is reported in the thread of the incident that it was against
        if allowed.reason in (GateReason.ON, GateReason.LEASE_ENDED)
        and not (is_for_a_time(state) and (state.source, state.label) in observed.in_threads)
    ]  # fmt: skip
    for (source, minute), states in _by_lease(on):
        until = max(s.lease_until for s in states if s.lease_until is not None)
        hours = (until - now) / timedelta(hours=1)
        band = next((band for band in LEASE_WARNINGS if 0 < hours <= band), None)
        names = _names([s.label or "the source as a whole" for s in states])
        planned = any(map(is_for_a_time, states))
        if band is not None and (planned or _will_be_renewed(observed, source, until, now)):
            continue
        no_news = all((s.source, s.label) in observed.not_news for s in states)
        judged_since = any(
            run.source == source and run.state == "done" and run.finished_at is not None and run.finished_at > until
            for run in observed.runs
        )
        if hours <= 0:
            yield HealthIssue(
                WatchReason.LEASE_ENDED,
                "info" if no_news or judged_since else "warning" if planned else "critical",
                f"{source}:{minute.isoformat()}",
                f"The lease of {source} ended at {until:%Y-%m-%d %H:%M} UTC for {names}: no evaluation renewed it, so "
                "automation is off.",
                "`calmon explain` the newest verdict of the label shows why no rule was judged",
                source,
            )
        elif band is not None:
            yield HealthIssue(
                WatchReason.LEASE_ENDING,
                "info" if no_news else "critical" if band == min(LEASE_WARNINGS) else "warning",
                f"{source}:{minute.isoformat()}:{band}",
                f"Automation of {source} ends by itself at {until:%Y-%m-%d %H:%M} UTC, in less than {band} hours, for "
                f"{names}, unless an evaluation renews its lease.",
                "check that the next run takes place and can judge an acting rule of these labels",
                source,
            )


def _lost(observed: Observed) -> Iterable[HealthIssue]:
    """Sources with automation on that alerts.yaml has lost, as after a new name there: gates refuse them since then."""
    on = [(s.source, s.label) for s in observed.switches if s.state == "on" and observed.is_lost(s.source)]
    for source in sorted({source for source, label in on if label is not None}):
        names = _names([label for of, label in on if of == source and label is not None])
        yield HealthIssue(
            WatchReason.LEASE_ENDED,
            "critical",
            f"{source}:lost",
            f"Automation of {source} ended for {names}: alerts.yaml has no source {source} any more, so every gate "
            "refuses it.",
            "put the source back into alerts.yaml; if it is gone for good or has a new name, "
            f"`calmon automation disable --source {source} --all --reason TEXT` ends this",
            source,
        )


def _turned_off(observed: Observed) -> Iterable[HealthIssue]:
    """Labels that are off because nothing could be judged (``when_not_evaluated: disable``)."""
    off = [s for s in observed.switches if s.state == "off" and not s.by_operator and s.not_evaluated is not None]
    for source in sorted({state.source for state in off if state.source in observed.sources}):
        states = [state for state in off if state.source == source]
        names = _names([state.label or "the source as a whole" for state in states])
        why = ", ".join(sorted({str(state.not_evaluated) for state in states}))
        yield HealthIssue(
            WatchReason.TURNED_OFF,
            "critical",
            source,
            f"Automation of {source} was turned off for {names}, since no acting rule could be judged ({why}).",
            "`calmon explain` a verdict of the label shows why; then `calmon automation enable`, or let good windows "
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


def _by_lease(states: Iterable[SwitchState]) -> list[tuple[tuple[str, datetime], list[SwitchState]]]:
    """By source and the minute in which the lease ends: one command enables many labels, each a moment later."""
    groups: dict[tuple[str, datetime], list[SwitchState]] = {}
    for state in states:
        if state.lease_until is not None:
            minute = state.lease_until.replace(second=0, microsecond=0)
            groups.setdefault((state.source, minute), []).append(state)
    return sorted(groups.items(), key=lambda group: group[0])


def _names(labels: Sequence[str]) -> str:
    shown = ", ".join(sorted(labels)[:NAMES_SHOWN])
    rest = len(labels) - NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
