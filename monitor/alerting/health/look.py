"""One look at the monitor's own work: what the history has of it, the health issues in it, and what is told of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import takewhile

from monitor.alerting.health import issues, message, troubles
from monitor.alerting.health.issues import HealthIssue, JudgedSeen, Observed, ReadingSeen, RunSeen, WatchReason
from monitor.alerting.health.message import MonitorStory, automation_now, ended_leases
from monitor.alerting.notices import messages_of
from monitor.automation.state import clock_behind, closed_history
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.diagnoses import NotTold
from monitor.core.records import SCHEDULES, SEVERITY_RANK, VANISHED, DeliveryState, Incident, Reason, Schedule
from monitor.core.rejection_words import fact, remedy
from monitor.core.wording import clean
from monitor.history.store import Store
from monitor.incidents.life import WATCHDOG

LOOKS_BACK = timedelta(weeks=12)
RUNS = 200
TOO_FEW_FOR = timedelta(weeks=3)
"""A diagnosis that is older says nothing of the present."""
SINCE_BACK = 26
"""How many windows back the start of a lasting condition is searched for."""
EXAMPLES = 3
RULES_SHOWN = 3
_REPORTED_ELSEWHERE = {
    Reason.IN_BASELINE,
    Reason.RELATION_ERROR,
    Reason.WAREHOUSE_FAILED,
    Reason.REJECTED_ROWS,
    Reason.NOT_MATURE,
}
"""Reasons that need no issue of their own: the reading or the label is reported already, the window is part of the
baseline, or a later run judges it once its truths are known."""


_BY_LABEL: Mapping[Reason, tuple[str, str]] = {
    Reason.REJECTED_ROWS: (
        "too many of their rows were rejected, so what is left may not be typical",
        "fix the rows at their source, then {again}",
    ),
    Reason.UNRESOLVED_FAILED: (
        "when their truths came, or which of their items still wait for one, could not be read",
        "the notes of the report say why (`calmon report`); fix it, then {again}",
    ),
    Reason.SCORES_MOVED: (
        "their scores moved, so too few are comparable with the baseline",
        "treat it as a breach until you know why; if the new scores are intended (a new model version), "
        "`calmon baseline pin`",
    ),
}  # fmt: skip
"""By the reason of verdicts that is reported by label, as a health issue of the same name: why, and what to do."""
_ON_ITS_WAY: tuple[DeliveryState, ...] = ("pending", "sending", "failed", "sent", "dead")


def observed(
    store: Store,
    config: Config,
    now: datetime,
    *,
    since: datetime | None = None,
    of_replica: bool = False,
    has_buttons: bool = False,
) -> Observed:
    """What the history has about the monitor's work; readings of twelve weeks, or from an earlier ``since`` on.

    ``has_buttons``: both tokens of ``calmon slack`` are set here.

    Raises StoreUnreachable for a read replica, on which every gate is closed, whatever its switches say; unless the
    caller says so beside what it shows (``of_replica``).
    """
    if not of_replica:
        store.refuse_replica()
    begin = now - LOOKS_BACK if since is None else min(since, now - LOOKS_BACK)
    # a window that is not over was judged while a clock was ahead: its real run is still to come
    over = [row for row in store.runs(limit=RUNS, until=now) if row["window_end"] <= now]
    runs = [RunSeen(**{name: row[name] for name in RunSeen.__slots__}) for row in over]
    readings = [ReadingSeen(**row) for row in store.readings_seen(begin, now)]
    scheduled = tuple(each for each in SCHEDULES if config.rules_for(each))
    unresolved = store.unresolved_incidents()
    newest = store.newest_diagnoses(back=TOO_FEW_FOR, until=now)
    rare = [(each.source, each.label) for each in newest if each.reason is NotTold.TOO_FEW_ROWS]
    vanished = [(each.source, each.label) for each in unresolved if each.kind == VANISHED]
    return Observed(
        zone=config.zone,
        scheduled=scheduled,
        sources=tuple(config.sources),
        runs=runs,
        readings=[r for r in readings if windows.begun(r.schedule, r.window_start, config.zone).end <= now],
        switches=store.switches(),
        deliveries=store.undelivered(now - issues.RECENT),
        since=min((run.started_at for run in runs), default=None),
        rules_revision=config.revision,
        lease=config.automation.lease,
        identity=store.identity(),
        judged={
            (schedule, source): each
            for schedule in scheduled
            for source in config.sources
            if (each := _judged(store, runs, schedule, source)) is not None
        },
        notes=store.notes(),
        in_threads=frozenset((each.source, each.label) for each in unresolved if each.root is not None),
        untold=_untold(store, config, unresolved),
        with_scores=frozenset(source for source, _ in store.thresholds()),
        channels=frozenset(route.addresses[0] for route in config.routes),
        sent=store.sent_between(),
        has_buttons=has_buttons,
        not_news=frozenset({*rare, *vanished}),
        judged_at={
            (schedule, source): [at for at in starts if windows.begun(schedule, at, config.zone).end <= now]
            for (schedule, source), starts in store.judged_windows(now - LOOKS_BACK).items()
        },
    )


def _untold(store: Store, config: Config, unresolved: Sequence[Incident]) -> frozenset[tuple[str, str | None]]:
    """The labels with a critical incident of which no message was sent, or is on its way."""
    calling = [each for each in unresolved if (each.severity, each.state) == ("critical", "open")]
    messages = {each.id: messages_of(config, each) for each in calling}
    found = store.delivery_roots({id for ids in messages.values() for id in ids}) if calling else {}
    told = {id for id, root in found.items() if root.state in _ON_ITS_WAY}
    return frozenset((each.source, each.label) for each in calling if told.isdisjoint(messages[each.id]))


def _judged(store: Store, runs: Sequence[RunSeen], schedule: Schedule, source: str) -> JudgedSeen | None:
    """What the newest run of a source could judge, and could not; None where it has no verdicts."""
    done = [run for run in runs if (run.schedule, run.source, run.state) == (schedule, source, "done")]
    rows = store.judged(schedule, done[0].window_start, source) if done else []
    if not rows:
        return None
    newest, before = done[0], done[1 : SINCE_BACK + 1]
    reasons = {Reason(row["reason"]): row["verdicts"] for row in rows if row["outcome"] == "not_evaluated"}
    evaluated, found = any(row["outcome"] != "not_evaluated" for row in rows), []
    told, by_count = set(reasons) - _REPORTED_ELSEWHERE, sorted(reasons.items(), key=lambda item: -item[1])
    if told and not evaluated:
        counted = ", ".join(f"{reason.value} {count:,}" for reason, count in by_count)
        found.append(
            HealthIssue(
                WatchReason.NOTHING_JUDGED,
                "info" if told == {Reason.TOO_FEW_ROWS} else "critical",  # a season: the next weeks pool more
                f"Nothing of {source} was judged in {_since(store, newest, before, '')}: all "
                f"{sum(reasons.values()):,} verdicts of the {schedule} rules are not evaluated ({counted}).",
                f"read `calmon docs {by_count[0][0].value}`; `calmon explain` a verdict says what is missing",
                source,
            )
        )
    for reason, usual in _BY_LABEL.items():
        if reason in reasons:
            why, do_now = (_rejected(store, newest) if reason is Reason.REJECTED_ROWS else None) or usual
            verdicts = store.not_judged(schedule, newest.window_start, source, reason)
            rules, severities, labels = ({row[name] for row in verdicts} for name in ("rule", "severity", "label"))
            named = ", ".join(sorted(rules)) if len(rules) <= RULES_SHOWN else f"{len(rules)} rules"
            when, of = _since(store, newest, before, reason), issues.of_labels(labels)
            text = f"{source} in {when}: {named} could not judge {of}"
            again = issues.run_again(schedule, newest.window_name)
            found.append(
                HealthIssue(
                    WatchReason(reason.value), min(severities, key=SEVERITY_RANK.__getitem__), f"{text}: {why}.",
                    do_now.replace("{again}", again), source,
                )
            )  # fmt: skip
    return JudgedSeen(evaluated, tuple(found))


def _rejected(store: Store, run: RunSeen) -> tuple[str, str] | None:
    """Why rows of a source were rejected, with the items of some of them, and what to do."""
    gravest = store.rejections(run.schedule, run.window_start, run.source).gravest
    if gravest is None:
        return None
    quality = store.quality(run.schedule, run.window_start, run.source)
    rows = [row for each in quality if each.reason == gravest.reason for row in each.examples if row.get("item")]
    items = ", ".join(list(dict.fromkeys(clean(str(row["item"])) for row in rows))[:EXAMPLES])
    why = f"{fact(gravest)} (for example {items})" if items else fact(gravest)
    return why, f"{remedy(gravest).removesuffix('.')}: {{again}}"


def _since(store: Store, newest: RunSeen, before: Sequence[RunSeen], key: str) -> str:
    """The newest window, with the first consecutive one in which the reason ``key`` held ("": nothing was judged)."""

    def holds(run: RunSeen) -> bool:
        rows = store.judged(run.schedule, run.window_start, run.source)
        if key:
            return any(row["reason"] == key for row in rows)
        return bool(rows) and all(row["outcome"] == "not_evaluated" for row in rows)

    return issues.named_since(newest.window_name, [newest, *takewhile(holds, before)][-1].window_name)


@dataclass(frozen=True)
class Look:
    """One look at the history at one time. ``about``: only these reasons, and those that are reported already."""

    monitor: Monitor
    now: datetime
    since: datetime | None = None
    about: Collection[str] | None = None

    @cached_property
    def seen(self) -> Observed:
        """What the history has about the monitor's work."""
        monitor, has_buttons = self.monitor, self.monitor.settings.has_buttons
        return observed(monitor.store, monitor.config, self.now, since=self.since, has_buttons=has_buttons)

    @cached_property
    def issues(self) -> list[HealthIssue]:
        """All health issues."""
        return issues.findings(self.seen, self.now)

    @cached_property
    def known(self) -> list[Incident]:
        """The monitor's incidents that these issues may belong to, or come back to."""
        return self.monitor.store.unresolved_incidents(since=self.now - troubles.RECALL, of_monitor=True)

    @cached_property
    def needing(self) -> tuple[HealthIssue, ...]:
        """The issues that the incident is about."""
        # of a broken alerts.yaml only a route is known
        about = self.about if self.monitor.config.sources else troubles.NOT_RUNNING
        reported = {reason for incident in self.known if incident.is_open for reason in incident.reasons}
        return troubles.needing(i for i in self.issues if about is None or i.reason in {*about, *reported})

    def story(self, incident: Incident) -> MonitorStory | None:
        """What is told of an incident; None of one that the next look ends."""
        if incident.is_open and not self.needing and incident.quiet_since is None:
            return None
        over = not incident.is_open
        return MonitorStory(
            () if over else self.needing,
            automation_line(self.seen, self.now),
            self.now,
            has_ended=bool(ended_leases(self.seen.present, self.now, self.seen.identity)),
            was=self._reasons(incident) if over else (),
        )

    def news(self, incident: Incident, told: Collection[str], *, calls: bool) -> tuple[list[HealthIssue], bool]:
        """(What a thread that has ``told`` these stages does not say yet, whether people are called for it).

        Not that nothing reaches Slack: it would be read there when it does again.
        """
        heard = [each for each in self.needing if issues.not_heard([each]) is None]
        new = {
            message.stage_of(each): each for each in heard
            if not troubles.is_said_already(each, self.needing, incident.opened_at, self.now)
        }  # fmt: skip
        is_called = calls and any(each.severity == incident.severity for each in heard)
        return [each for stage, each in new.items() if stage not in told], is_called

    def _reasons(self, incident: Incident) -> list[str]:
        """Every reason that an incident has had, in the order in which they came: the last ones are not all of them."""
        stored = (event.reason for event in self.monitor.store.incident_events(incident.id) if event.actor == WATCHDOG)
        known = [reason for reasons in stored for reason in reasons.split(", ") if reason]
        return list(dict.fromkeys([*known, *incident.reasons]))


def automation_line(records: Observed, now: datetime) -> str:
    """Which labels may act alone at ``now``, in one sentence."""
    identity = records.identity
    if identity is not None and closed_history(identity) is not None:
        return message.CLOSED
    behind = None if identity is None else clock_behind(identity.newest_at, now)
    if behind is not None:
        return message.CLOCK_BEHIND
    return automation_now(records.present, now)
