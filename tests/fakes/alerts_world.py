"""A monitor whose evaluations are written by hand: real store, real decisions and messages, no warehouse.

Verdicts are stored and acted on as in a run, so a test reads the messages that a run with these verdicts would have
stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from monitor.config.model import Rule
from monitor.context import Monitor
from monitor.core.records import Delivery, Estimate, Incident, Interval, Reason, Subject, Verdict, Window
from monitor.core.windows import named
from monitor.evaluation.data import WindowCounts
from monitor.evaluation.evaluate import Evaluated
from monitor.history.readings import StoredReading
from monitor.operations import act, incident_actions
from monitor.operations.diagnose import diagnoses_of
from monitor.operations.restate import record
from monitor.run import deliver
from tests.fakes.world import make_world

START = datetime(2026, 1, 5, tzinfo=UTC)
CONFIG = """\
version: 1
timezone: UTC
sources:
  tickets: {relation: tickets, score_is: probability_of_label, automate_at: 0.8, segments: [channel]}
rules:
  - {id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     min_samples: 30, severity: critical, actions: [slack, disable_automation]}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02, severity: warning, actions: [slack]}
automation: {when_not_evaluated: keep, initial: on_first_ok, lease: 9d}
routes:
  - {match: {severity: critical}, channel: "#ml-oncall", mention: "<!subteam^S0123>", repeat: 24h}
  - {channel: "#ml-monitoring", repeat: 1w}
"""
_REASONS = {
    ("ok", None): Reason.WITHIN_THRESHOLD, ("breach", "above"): Reason.ABOVE_THRESHOLD,
    ("unconfirmed", None): Reason.NOT_SIGNIFICANT_IN_FAMILY,
    ("breach", "increase"): Reason.INCREASED, ("gone", None): Reason.NO_ROWS, ("few", None): Reason.TOO_FEW_ROWS,
}  # fmt: skip


SEEN = ("ok", "unconfirmed", "breach")


@dataclass
class Clock:
    """A clock that shows one time until it is moved."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True)
class Judged:
    """One line of an evaluation: the outcome of a rule on a label, which is ok, unconfirmed, breach, gone or few."""

    label: str
    rule: str
    outcome: str
    value: float = 0.0


@dataclass
class AlertsWorld:
    """The monitor with its clock, and functions for the events of a test."""

    monitor: Monitor
    clock: Clock
    sends: bool = True

    def evaluate(self, name: str, judged: Iterable[Judged], *, version: str = "v3") -> None:
        """Evaluate a week or a day, six hours and five minutes after its end unless the clock is later."""
        window = named("weekly" if "-W" in name else "daily", name, UTC_ZONE)
        self.clock.now = max(self.clock.now, window.end + timedelta(hours=6, minutes=5))
        reading = StoredReading("tickets", labels={}, versions={version: 2000}, rows=2000)
        self.monitor.store.save_reading(window, reading, self.clock.now)
        self.act_on(self.evaluated(window, list(judged)))
        if self.sends:
            deliver(self.monitor)

    def act_on(self, part: Evaluated, refusal: str = "") -> None:
        """Diagnose and store one evaluation, then act on it, as a run does."""
        record(self.monitor, part.window, [part])
        found = diagnoses_of(self.monitor, part, WindowCounts(part.window))
        self.monitor.store.save_diagnoses(part.window, [part.source], found, self.clock.now)
        act.act(self.monitor, part.window, [part], found, {part.source: refusal})

    def evaluated(self, window: Window, judged: Sequence[Judged]) -> Evaluated:
        """The results that the judging stage would have returned."""
        rules = {rule.id: rule for rule in self.monitor.config.rules}
        verdicts = tuple(verdict_of(rules[line.rule], window, line) for line in judged)
        estimates = tuple(e for line in judged if line.outcome in SEEN for e in estimates_of(window, line))
        return Evaluated("tickets", window, estimates, verdicts, (), ())

    def drain(self, at: datetime) -> None:
        """Do what the drain flow does: end silences, make reminders, then send."""
        self.clock.now = at
        deliver(self.monitor)

    def incident(self, label: str) -> Incident:
        """The newest incident of a label."""
        return max((i for i in self.monitor.store.incidents() if i.label == label), key=lambda i: i.opened_at)

    def person(self, what: str, label: str, who: str, **more: Any) -> incident_actions.Outcome:
        """A person acts on the newest incident of a label."""
        id = self.incident(label).id
        if what == "acknowledges":
            return incident_actions.acknowledge(self.monitor, id, who)
        if what == "silences":
            return incident_actions.silence(self.monitor, id, self.clock.now + more["length"], who)
        if what == "notes":
            return incident_actions.note(self.monitor, id, who, more["why"])
        return incident_actions.resolve(self.monitor, id, who, more["why"])

    def deliveries(self) -> list[Delivery]:
        """All deliveries that were composed, in order."""
        found = self.monitor.store.deliveries()
        order = {"post": 0, "file": 1, "edit": 2, "reply": 3}
        return sorted(found, key=lambda d: (d.created_at, order[d.operation], d.channel, d.sequence))


UTC_ZONE = ZoneInfo("UTC")


def verdict_of(rule: Rule, window: Window, line: Judged) -> Verdict:
    """A verdict with all its numbers, which are derived from one."""
    outcome = "not_evaluated" if line.outcome in ("gone", "few") else line.outcome  # type: ignore[assignment]
    reason = _REASONS[line.outcome, rule.condition if outcome == "breach" else None]
    known = {}
    if outcome != "not_evaluated":
        known = {"value": line.value, "low": line.value - 0.02, "high": line.value + 0.02, "detectable": 0.03, "n": 400}
        if rule.condition == "increase":
            known |= {"baseline": 0.015, "change": line.value - 0.015, "baseline_version": 1}
            known |= {"change_low": line.value - 0.035, "change_high": line.value + 0.005}
        known["p_adjusted"] = 0.0001 if outcome == "breach" else 0.4
    return Verdict(
        id=hashlib.sha256(repr((window.name, line)).encode()).hexdigest()[:16], rule=rule.id,
        subject=Subject("tickets", line.label), window=window, metric=rule.measure, where=rule.where, outcome=outcome,
        reason=reason, severity=rule.severity, threshold=rule.threshold,
        actions=rule.actions if outcome == "breach" else (), detail={"condition": rule.condition}, **known,
    )  # fmt: skip


def estimates_of(window: Window, line: Judged) -> list[Estimate]:
    """The estimate behind a verdict."""
    metric, where = ("overconfidence", "automated") if line.rule == "automated-overconfidence" else ("ece", "all")
    seen = Interval(line.value, line.value - 0.02, line.value + 0.02, line.value)
    return [Estimate(Subject("tickets", line.label), window, metric, where, seen, 400, 40.0)]  # type: ignore[arg-type]


@contextmanager
def alerts_world(folder: Path, *, config: str = CONFIG, sends: bool = True, **settings: str) -> Iterator[AlertsWorld]:
    """A world in ``folder`` with a history of its own; ``settings`` as ``slack_bot_token=...``.

    Without ``sends`` messages stay pending: evaluations drain nothing.
    """
    clock = Clock()
    world = make_world(folder, config=config, warehouse_url=f"duckdb:///{folder / 'unused.duckdb'}")
    with world.opened(clock, **settings) as monitor:
        yield AlertsWorld(monitor, clock, sends)
