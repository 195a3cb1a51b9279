"""Is the monitor itself at work? From what it has left in the history to findings with named reasons. Pure.

A monitor that has stopped says nothing, and so does one whose data have run dry: both look like a quiet week.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from zoneinfo import ZoneInfo

from monitor import windows
from monitor.records import Delivery, Identity, Schedule, Severity, SwitchState

OVERDUE = timedelta(hours=6)
"""How long after a window is ready its run may take: schedules start within 75 minutes, a flow ends within an hour."""
HUNG = timedelta(hours=3)
"""How long a run may say that it is running: three times the time-out of a flow."""
STUCK = timedelta(hours=1)
RECENT = timedelta(days=7)
"""A message that was refused longer ago is history."""
MUCH_SMALLER = 0.2
"""The share of the usual rows below which a window is said to be much smaller than usual."""
USUAL_WINDOWS, FEWEST_WINDOWS = 8, 3
DELETED = "message_deleted"
"""How the error begins of a change to a message that a person has deleted (``monitor.alerts.slack``)."""
LEASE_WARNINGS = (24, 48)  # hours
NAMES_SHOWN = 12


class WatchReason(StrEnum):
    """Why somebody is told about the monitor; each has a page ``docs/runbook/<reason>.md``."""

    RUN_MISSING = "run_missing"
    RUN_FAILED = "run_failed"
    RUN_HUNG = "run_hung"
    SOURCE_NOT_READ = "source_not_read"
    DATA_STALE = "data_stale"
    DATA_SMALL = "data_small"
    DELIVERY_STUCK = "delivery_stuck"
    DELIVERY_REFUSED = "delivery_refused"
    LEASE_ENDING = "lease_ending"
    LEASE_ENDED = "lease_ended"
    HISTORY_RESTORED = "history_restored"


@dataclass(frozen=True, slots=True)
class RunSeen:
    """One evaluation as the history has it: ``state`` is running, done or failed; ``rules_revision`` is that of
    the rules it judged by."""

    schedule: Schedule
    window_start: datetime
    window_name: str
    state: str
    started_at: datetime
    finished_at: datetime | None = None
    error: str | None = None
    rules_revision: str = ""


@dataclass(frozen=True, slots=True)
class ReadingSeen:
    """What reading one source for one window gave, without its counts."""

    schedule: Schedule
    window_start: datetime
    source: str
    state: str
    rows: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """All that is looked at. ``scheduled`` are the schedules that have rules, ``since`` when this history began.

    ``rules_revision`` is that of the present rules, ``lease`` how long an evaluation keeps automation on.
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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with the monitor. ``key`` is the same as long as it is the same thing: told once.

    ``told``: the run itself has told Slack of it, so it is shown (health, metrics) and not sent again.
    """

    reason: WatchReason
    severity: Severity
    key: str
    text: str
    do_now: str
    source: str = ""
    told: bool = False
    detail: Mapping[str, str] = field(default_factory=dict)


def findings(seen: Observed, now: datetime) -> list[Finding]:
    """Everything that is wrong, the gravest first."""
    found = [*_history(seen), *_runs(seen, now), *_data(seen), *_deliveries(seen, now), *_leases(seen, now)]
    rank = {"critical": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda f: (rank[f.severity], f.reason, f.key))


def _history(seen: Observed) -> Iterable[Finding]:
    """A history that was put back: its gates are closed until somebody looks."""
    found = seen.identity
    if found is None or (found.confirmed and not found.went_back):
        return
    why = found.why or "an older copy was put back"
    yield Finding(
        WatchReason.HISTORY_RESTORED, "critical", f"{found.mark.history}:{found.mark.epoch}",
        f"The history is not confirmed: {why}. Every gate is closed, and no label acts.",
        "compare `calmon automation status` with what should be on, turn off what should not, then "
        "`calmon db confirm --reason TEXT`",
    )  # fmt: skip


def _runs(seen: Observed, now: datetime) -> Iterable[Finding]:
    for schedule in seen.scheduled:
        mine = {run.window_start: run for run in seen.runs if run.schedule == schedule}
        newest = windows.last_ready(schedule, now, seen.zone)
        late = windows.last_ready(schedule, now - OVERDUE, seen.zone)
        judged = {newest.start, late.start} & set(mine)
        since = seen.since if mine else _known_since(seen)
        if not judged and since is not None and since < late.end:
            yield _missing(schedule, late.name, f"{late.end + windows.SETTLE:%Y-%m-%d %H:%M} UTC")
        if mine:
            yield from _state(mine[max(judged)] if judged else max(mine.values(), key=lambda r: r.started_at), now)


def _known_since(seen: Observed) -> datetime | None:
    """Since when the present rules are surely in use: a schedule that never ran may be new in alerts.yaml."""
    return min((run.started_at for run in seen.runs if run.rules_revision == seen.rules_revision), default=None)


def _missing(schedule: Schedule, window: str, ready: str) -> Finding:
    return Finding(
        WatchReason.RUN_MISSING, "critical", f"{schedule}:{window}",
        f"The {schedule} run of {window} is missing: it could have begun at {ready}. Nothing was judged, and what "
        "is on stays on until its lease ends.",
        "look whether the scheduler lives (`python -m flows.serve`, or the Prefect worker), then "
        f"`calmon run {schedule}`",
    )  # fmt: skip


def _state(run: RunSeen, now: datetime) -> Iterable[Finding]:
    again = f"`calmon run {run.schedule} --{'week' if run.schedule == 'weekly' else 'date'} {run.window_name}`"
    key = f"{run.schedule}:{run.window_name}"
    if run.state == "failed":
        yield Finding(
            WatchReason.RUN_FAILED, "critical", key,
            f"The {run.schedule} run of {run.window_name} failed: {run.error or 'it left no reason'}",
            f"mend what it names, then {again}: it picks up where it stopped",
            told=now - (run.finished_at or run.started_at) <= STUCK,
        )  # fmt: skip
    elif run.state == "running" and now - run.started_at > HUNG:
        yield Finding(
            WatchReason.RUN_HUNG, "critical", key,
            f"The {run.schedule} run of {run.window_name} began at {run.started_at:%Y-%m-%d %H:%M} UTC and has not "
            "ended: it hangs, or its process was killed.",
            f"look at the log of the run, then {again}",
        )  # fmt: skip


def _data(seen: Observed) -> Iterable[Finding]:
    for source in seen.sources:
        for schedule in seen.scheduled:
            mine = sorted(
                (r for r in seen.readings if (r.source, r.schedule) == (source, schedule)),
                key=lambda r: r.window_start, reverse=True,
            )  # fmt: skip
            if mine:
                yield from _reading(mine[0], _comparable(mine, seen.zone)[:USUAL_WINDOWS], seen.zone)


def _comparable(readings: Sequence[ReadingSeen], zone: ZoneInfo) -> list[int]:
    """The rows of the windows before the newest that are like it: days of its weekday, since a Sunday is no Monday."""

    def weekday(reading: ReadingSeen) -> int:
        return reading.window_start.astimezone(zone).weekday()  # all weeks begin on the same one

    return [r.rows for r in readings[1:] if r.state == "ok" and weekday(r) == weekday(readings[0])]


def _reading(newest: ReadingSeen, before: Sequence[int], zone: ZoneInfo) -> Iterable[Finding]:
    window = windows.containing(newest.schedule, newest.window_start, zone).name
    key = f"{newest.source}:{newest.schedule}:{window}"
    if newest.state != "ok":
        yield Finding(
            WatchReason.SOURCE_NOT_READ, "critical", key,
            f"{newest.source} could not be read for {window}: {newest.error or newest.state}. "
            "Its labels were not judged.",
            "mend what it names; the other sources were judged", newest.source, told=True,
        )  # fmt: skip
        return
    usual, alike = median(before) if before else 0, "days of this weekday" if newest.schedule == "daily" else "windows"
    if newest.rows == 0 and usual > 0:
        yield Finding(
            # one empty day may be a holiday; a week has none
            WatchReason.DATA_STALE, "warning" if newest.schedule == "daily" else "critical", key,
            f"{newest.source} has no row for {window}: nothing was resolved, or the view is no longer filled. Usual "
            f"are {usual:,.0f}.",
            "look at the newest resolved_at of the relation and at the job that fills it", newest.source,
        )  # fmt: skip
    elif len(before) >= FEWEST_WINDOWS and newest.rows < MUCH_SMALLER * usual:
        yield Finding(
            WatchReason.DATA_SMALL, "warning", key,
            f"{newest.source} has {newest.rows:,} rows for {window}; usual are {usual:,.0f} (the median of the "
            f"{len(before)} {alike} before).",
            "look whether resolutions are loaded late; a window is read once more with the next run", newest.source,
        )  # fmt: skip


def _deliveries(seen: Observed, now: datetime) -> Iterable[Finding]:
    stuck = [d for d in seen.deliveries if d.state in ("pending", "failed", "sending") and now - d.created_at > STUCK]
    dead = [d for d in seen.deliveries if _is_refused(d) and now - d.created_at <= RECENT]
    mend = "`calmon check` asks Slack who we are; invite the bot to the channel, or mend the route in alerts.yaml"
    look = "`calmon incidents list` shows what was not told; a form that Slack refuses is a defect: report it"
    for reason, group, words, do_now in (
        (WatchReason.DELIVERY_STUCK, stuck, "have waited for more than an hour", mend),
        (WatchReason.DELIVERY_REFUSED, dead, "were refused by Slack for good", look),
    ):
        for channel in sorted({d.channel for d in group}):
            mine = [d for d in group if d.channel == channel]
            said = next((d.error for d in reversed(mine) if d.error), "no error was noted")
            yield Finding(
                reason, "warning", f"{channel}:{max(d.created_at for d in mine):%Y-%m-%d}",
                f"{len(mine)} messages to {channel} {words}: {said}",
                do_now,
                detail={"channel": channel},
            )  # fmt: skip


def _is_refused(delivery: Delivery) -> bool:
    """Whether Slack will never take it; not what changes a message that a person has deleted on purpose."""
    return delivery.state == "dead" and not (delivery.error or "").startswith(DELETED)


def _leases(seen: Observed, now: datetime) -> Iterable[Finding]:
    on = [s for s in seen.switches if s.state == "on" and s.lease_until is not None]
    for_a_time = {(s.source, s.lease_until) for s in on if _is_for_a_time(s)}
    for (source, until), labels in _by_lease(on):
        hours = (until - now) / timedelta(hours=1)
        band = next((band for band in LEASE_WARNINGS if 0 < hours <= band), None)
        names = _names(labels)
        planned = (source, until) in for_a_time
        if band is not None and (planned or _will_be_renewed(seen, until, now)):
            continue
        if hours <= 0:
            yield Finding(
                WatchReason.LEASE_ENDED, "warning" if planned else "critical", f"{source}:{until.isoformat()}",
                f"Automation of {source} ended by itself at {until:%Y-%m-%d %H:%M} UTC for {names}: no evaluation "
                "renewed its lease.",
                "`calmon explain` the newest verdict of the label; see why no rule could be judged", source,
            )  # fmt: skip
        elif band is not None:
            yield Finding(
                WatchReason.LEASE_ENDING, "critical" if band == min(LEASE_WARNINGS) else "warning",
                f"{source}:{until.isoformat()}:{band}",
                f"Automation of {source} ends by itself at {until:%Y-%m-%d %H:%M} UTC, in less than {band} hours, for "
                f"{names}, unless an evaluation renews its lease.",
                "see that the next run takes place and can judge an acting rule of these labels", source,
            )  # fmt: skip


def _is_for_a_time(state: SwitchState) -> bool:
    """Whether an operator turned it on against a verdict, and so was told when it ends."""
    return state.by_operator and state.verdict is not None and state.lease_until == state.hold_until


def _will_be_renewed(seen: Observed, until: datetime, now: datetime) -> bool:
    """Whether the schedule whose run gave this lease has its next run before the end, and that is not late yet."""
    for schedule in seen.scheduled:
        done = [r.window_start for r in seen.runs if r.schedule == schedule and r.state == "done"]
        if not done:
            continue
        last = windows.containing(schedule, max(done), seen.zone)
        due = windows.following(last, seen.zone).end + windows.SETTLE + OVERDUE
        if last.end + seen.lease == until and now < due <= until:
            return True
    return False


def _by_lease(states: Iterable[SwitchState]) -> list[tuple[tuple[str, datetime], list[str]]]:
    groups: dict[tuple[str, datetime], list[str]] = {}
    for state in states:
        if state.lease_until is not None:
            groups.setdefault((state.source, state.lease_until), []).append(state.label or "the source as a whole")
    return sorted(groups.items())


def _names(labels: Sequence[str]) -> str:
    shown = ", ".join(sorted(labels)[:NAMES_SHOWN])
    rest = len(labels) - NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
