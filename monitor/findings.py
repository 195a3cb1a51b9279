"""What the history knows around an incident, gathered for its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from monitor import windows
from monitor.adapters import Monitor
from monitor.alerts.causes import Context, causes
from monitor.alerts.message import Finding
from monitor.alerts.slack import MESSAGE_DELETED
from monitor.automation.state import effective
from monitor.baselines import Baseline, edges_of
from monitor.counts import bin_counts
from monitor.estimates import Sample, estimate
from monitor.figures.png import incident_png
from monitor.figures.reliability import Reliability, reliability_data
from monitor.figures.trend import Trend, trend_data
from monitor.history.readings import StoredReading
from monitor.records import Delivery, Estimate, Incident, IncidentEvent, Interval, Verdict, Window

#: How many windows before a verdict's own are looked at for a new model version, and drawn as its trend.
VERSIONS_BACK, TREND = 4, 26


@dataclass(frozen=True, slots=True)
class Desk:
    """The history as one message is composed from it; what several findings ask for is read once."""

    monitor: Monitor
    _seen: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def brief(self, incident: Incident, last: IncidentEvent | None = None) -> Finding:
        """The incident with its last breach, and what decides its place in a message: for one line."""
        verdict = self.monitor.store.verdict(incident.last_verdict)
        estimates = self._estimates(verdict, segments=False, metric="shortfall")
        return Finding(verdict, incident, excess_errors=excess_errors(verdict, estimates), last=last)

    def finding(self, incident: Incident, last: IncidentEvent | None = None) -> Finding:
        """The incident with its last breach and all that is known around that. ``last``: what happened last."""
        verdict = self.monitor.store.verdict(incident.last_verdict)
        estimates = self._estimates(verdict, segments=True)
        state, words = self._switch(verdict)
        return Finding(
            verdict=verdict, incident=incident,
            rule=next((r for r in self.monitor.config.rules if r.id == verdict.rule), None),
            baseline_interval=self._baseline_interval(verdict), switch_state=words,
            excess_errors=excess_errors(verdict, estimates), causes=self._causes(verdict, estimates),
            last=last, automation=state,
        )  # fmt: skip

    def picture(self, verdict: Verdict) -> tuple[str, bytes] | None:
        """(what it shows, a PNG): the reliability diagram of the verdict's window, and the trend up to it."""
        reliability, trend = self._reliability(verdict), self._trend(verdict)
        if reliability is None and trend.empty:
            return None
        what = [] if reliability is None else ["reliability diagram"]
        return " and ".join([*what, *([] if trend.empty else ["trend"])]), incident_png(reliability, trend)

    def _causes(self, verdict: Verdict, estimates: Sequence[Estimate]) -> tuple[str, ...]:
        window = verdict.window
        before = windows.before(window, VERSIONS_BACK, self.monitor.config.zone)
        read = [(w.name, self._reading(w, verdict.subject.source)) for w in (window, *before)]
        versions = [(name, reading.versions) for name, reading in read if reading is not None]
        shifts = self._once("shifts", window, verdict.subject.source, make=self._shifts)
        return causes(verdict, Context(versions, estimates, shifts))

    def _shifts(self, window: Window, source: str) -> Any:
        return self.monitor.store.shifts(window.schedule, window.start, source)

    def _estimates(self, verdict: Verdict, *, segments: bool, metric: str | None = None) -> list[Estimate]:
        subject, window = verdict.subject, verdict.window
        return self.monitor.store.estimates(
            source=subject.source, label=subject.label, schedule=window.schedule, window_start=window.start,
            segments=segments, metric=metric,
        )  # fmt: skip

    def _baseline_interval(self, verdict: Verdict) -> Interval | None:
        """The baseline's own limits, in the analytic form; None where they are not of the number compared with."""
        baseline = self._baseline(verdict)
        if baseline is None or verdict.baseline is None:
            return None
        span = Window(baseline.start, baseline.end, baseline.last_window, verdict.window.schedule)
        analytic = self.monitor.config.evaluation.model_copy(update={"interval": "analytic"})
        for own in estimate([Sample(verdict.subject, baseline.counts, baseline.edges)], span, analytic):
            found = own.interval
            if (own.metric, own.where) == (verdict.metric, verdict.where) and found.low is not None:
                fits = found.high is not None and found.low <= verdict.baseline <= found.high
                return found if fits else None
        return None

    def _baseline(self, verdict: Verdict) -> Baseline | None:
        def newest_of(source: str, label: str | None) -> list[Baseline]:
            return self.monitor.store.baselines(source, label)

        known = self._once("baselines", verdict.subject.source, verdict.subject.label, make=newest_of)
        return next((b for b in known if b.version == verdict.baseline_version), None)

    def _switch(self, verdict: Verdict) -> tuple[Literal["on", "off"] | None, str]:
        """What the switch says now, for a button and for people: it has acted before the message is written."""
        source, label, now = verdict.subject.source, verdict.subject.label, self.monitor.clock()
        state = self.monitor.store.switch(source, label)
        whole = None if label is None else self.monitor.store.switch(source, None)
        found = effective(state, now, whole=whole)
        dry = self.monitor.config.automation.dry_run
        told = " (dry run: this finding has not touched the switch)" if dry else ""
        if state.state == "never_set" and found.reason == "never set":
            return None, f"automation is off (never set){told}"
        if not found.allowed:
            since = f" since {state.changed_at:%Y-%m-%d %H:%M} UTC" if state.changed_at and state.state == "off" else ""
            why = "" if since and found.reason == "off" else f" ({found.reason})"
            return "off", f"automation is off{since}{why}{told}"
        if found.blocked:
            ranges = ", ".join(f"{low:g} to {high:g}" for low, high in found.blocked)
            return "on", f"automation is on, but blocked for scores {ranges}{told}"
        return "on", f"automation is still on{told}"

    def _reading(self, window: Window, source: str) -> StoredReading | None:
        def load(window: Window, source: str) -> StoredReading | None:
            return self.monitor.store.load_reading(window.schedule, window.start, source)

        found: StoredReading | None = self._once("reading", window, source, make=load)
        return found

    def _reliability(self, verdict: Verdict) -> Reliability | None:
        reading, baseline = self._reading(verdict.window, verdict.subject.source), self._baseline(verdict)
        counts = None if reading is None else reading.labels.get(verdict.subject.label)
        if counts is None or not counts.where(verdict.where).rows:
            return None
        evaluation = self.monitor.config.evaluation
        edges = (edges_of(counts, evaluation) if baseline is None else baseline.edges)[verdict.where]
        then = None if baseline is None else bin_counts(baseline.counts.where(verdict.where), edges)
        now = bin_counts(counts.where(verdict.where), edges)
        return reliability_data(now, then, confidence=evaluation.confidence)

    def _trend(self, verdict: Verdict) -> Trend:
        """Of the verdict's metric; of a distribution test, which has no estimates, of the ECE."""
        store, subject, window = self.monitor.store, verdict.subject, verdict.window
        rule = next((r for r in self.monitor.config.rules if r.id == verdict.rule and r.metric), None)
        metric, where = (verdict.metric, verdict.where) if rule is not None else ("ece", "all")
        known = store.estimates(
            metric=metric, source=subject.source, label=subject.label, where=where, schedule=window.schedule
        )
        shown = [*windows.before(window, TREND - 1, self.monitor.config.zone), window]
        first = min((e.window.start for e in known), default=window.start)
        return trend_data(
            metric, where, known, store.verdicts(schedule=window.schedule, source=subject.source, label=subject.label),
            windows=[each for each in shown if each.start >= first], baseline=verdict.baseline,
            rules=() if rule is None else (rule,),
        )  # fmt: skip

    def incidents(self) -> list[Incident]:
        """All incidents, as they were when they were first asked for."""
        found: list[Incident] = self._once("incidents", make=self.monitor.store.incidents)
        return found

    def message(self, root: str) -> Delivery | None:
        """A living message as it was composed first."""
        thread: list[Delivery] = self._once("thread", root, make=self.monitor.store.thread)
        return next((each for each in thread if each.id == root), None)

    def lives(self, root: str) -> bool:
        """Whether a message is in its channel, or on the way there; not one that somebody deleted in Slack."""
        thread: list[Delivery] = self._once("thread", root, make=self.monitor.store.thread)
        if any(each.state == "dead" and (each.error or "").startswith(MESSAGE_DELETED) for each in thread):
            return False
        found = self.message(root)
        return found is not None and found.state in ("pending", "sending", "sent", "failed")

    def channel(self, root: str) -> str:
        """Where a living message stands ("" where it is not known any more)."""
        found = self.message(root)
        return "" if found is None else found.channel

    def _once(self, *key: Any, make: Any) -> Any:
        if key not in self._seen:
            self._seen[key] = make(*key[1:])
        return self._seen[key]


def excess_errors(verdict: Verdict, estimates: Sequence[Estimate]) -> float | None:
    """How many more of the automated items were wrong than their scores promised."""
    for each in estimates:
        if (each.subject, each.metric, each.where) == (verdict.subject, "shortfall", "automated"):
            value = each.interval.value
            return None if value is None else value * each.n
    return None
