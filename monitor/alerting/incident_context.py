"""What the history has about an incident, gathered for its message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from monitor.alerting.incidents import last_reported
from monitor.alerting.slack.labels import AlertItem, Now, SwitchLine
from monitor.alerting.slack.worst_segment import worst_segment
from monitor.alerting.switch_line import switch_line
from monitor.automation.acting_scores import PublishedScores
from monitor.automation.as_of import Key, by_switch, off_since, time_on
from monitor.automation.harm import Harm, TimeOn
from monitor.automation.state import effective
from monitor.automation.staying_off import stays_off
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import (
    Delivery,
    Estimate,
    Incident,
    IncidentEvent,
    Interval,
    Schedule,
    SwitchEvent,
    Verdict,
    Window,
)
from monitor.history.errors import HistoryError
from monitor.history.readings import StoredReading
from monitor.report.figures.trend import Trend, trend_data

if TYPE_CHECKING:
    from monitor.core.baseline import Baseline
    from monitor.report.figures.reliability import Reliability

_T = TypeVar("_T")
#: How many windows are drawn as the trend.
TREND = 26
BINS_DRAWN = 8
EVENTS_BACK = timedelta(weeks=26)


@dataclass(frozen=True, slots=True)
class IncidentContext:
    """The history for the composition of one message; what several findings need is read once."""

    monitor: Monitor
    _read_once: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def brief(self, incident: Incident, last: IncidentEvent | None = None) -> AlertItem:
        """The incident with its last breach, and what decides its place in a message; enough for one line."""
        verdict = self.monitor.store.verdict(incident.last_verdict)
        estimates = self._estimates(verdict, segments=False, metric="overconfidence")
        zone, name = self.monitor.config.zone, "" if last is None else last.window
        window = windows.named(incident.schedule, name, zone) if name else None
        return AlertItem(
            verdict,
            incident,
            excess_errors=excess_errors(verdict, estimates),
            last=last,
            latest=self._latest(last),
            rule=next((r for r in self.monitor.config.rules if r.id == verdict.rule), None),
            window=window,
        )

    def with_switch(self, brief: AlertItem) -> AlertItem:
        """The same with the present switch of its label."""
        return replace(brief, switch=self.switch(brief.verdict, brief))

    def finding(self, brief: AlertItem) -> AlertItem:
        """The same with everything about its last breach."""
        verdict = brief.verdict
        estimates = self._estimates(verdict, segments=True)
        return replace(
            brief,
            baseline_interval=self._baseline_interval(verdict),
            switch=self.switch(verdict, brief),
            harm=self._harm(verdict, estimates),
            worst_segment=worst_segment(verdict, estimates),
        )

    def last(self, incident: Incident, event: IncidentEvent | None = None) -> IncidentEvent | None:
        """The newest event that says the incident's state: ``event``, which is not stored yet, or a stored one."""
        stored = self.monitor.store.incident_events(incident.id)
        return last_reported(incident, [*stored, *([event] if event is not None else [])])

    def _latest(self, last: IncidentEvent | None) -> Verdict | None:
        """The verdict of the newest evaluation of the incident; None where it is not stored.

        It has the present numbers where late truths have changed the numbers but not the outcome.
        """
        if last is None or last.verdict is None:
            return None
        try:
            found = self.monitor.store.verdict(last.verdict)
        except HistoryError:
            return None
        subject, window = found.subject, found.window
        judged = self.monitor.store.verdicts(
            source=subject.source, label=subject.label, schedule=window.schedule, window_start=window.start
        )
        return next((v for v in judged if (v.rule, v.outcome) == (found.rule, found.outcome)), found)

    def picture(self, verdict: Verdict) -> tuple[str, bytes] | None:
        """(what it shows, a PNG): the reliability diagram of the verdict's window, and the trend up to it."""
        reliability, trend = self._reliability(verdict), self._trend(verdict)
        if reliability is None and trend.empty:
            return None
        from monitor.report.figures.png import incident_png  # noqa: PLC0415 - brings SciPy: not before a picture needs it

        what = [] if reliability is None else ["reliability diagram"]
        title = f"{verdict.subject.name}, {verdict.window.name}"
        return " and ".join([*what, *([] if trend.empty else ["trend"])]), incident_png(reliability, trend, title)

    def _estimates(self, verdict: Verdict, *, segments: bool, metric: str | None = None) -> list[Estimate]:
        subject, window = verdict.subject, verdict.window
        return self.monitor.store.estimates(
            source=subject.source,
            label=subject.label,
            schedule=window.schedule,
            window_start=window.start,
            segments=segments,
            metric=metric,
        )

    def _baseline_interval(self, verdict: Verdict) -> Interval | None:
        """The baseline's analytic interval; None where it does not contain the value that was compared with."""
        baseline = self._baseline(verdict)
        if baseline is None or verdict.baseline is None:
            return None
        from monitor.evaluation.estimates import Sample, estimate  # noqa: PLC0415 - brings SciPy: not before a message needs it

        span = Window(baseline.start, baseline.end, baseline.last_window, verdict.window.schedule)
        analytic = self.monitor.config.evaluation.model_copy(update={"interval": "analytic"})
        for computed in estimate([Sample(verdict.subject, baseline.counts, baseline.edges)], span, analytic):
            found = computed.interval
            if (computed.metric, computed.where) == (verdict.metric, verdict.where) and found.low is not None:
                fits = found.high is not None and found.low <= verdict.baseline <= found.high
                return found if fits else None
        return None

    def _baseline(self, verdict: Verdict) -> Baseline | None:
        def pinned(source: str, label: str | None, version: int) -> Baseline | None:
            return next(iter(self.monitor.store.baselines(source, label, version=version)), None)

        subject, version = verdict.subject, verdict.baseline_version
        if version is None:
            return None
        return self._once("baseline", subject.source, subject.label, version, make=pinned)

    def switch(self, verdict: Verdict, finding: AlertItem) -> SwitchLine | None:
        """The present switch of the verdict's label: it acts before the message is written.

        None for a source's own switch that was never set, which forbids nothing.
        """
        source, label = verdict.subject.source, verdict.subject.label
        if label is None and self.monitor.store.switch(source, None).state == "never_set":
            return None
        against = finding.rule is not None and finding.rule.acts and finding.now == Now.IN_BREACH
        state, now = self.monitor.store.switch(source, label), self.monitor.clock()
        whole = None if label is None else self.monitor.store.switch(source, None)
        identity = self.monitor.store.identity()
        is_off = not effective(state, now, whole=whole, identity=identity).allowed
        line = switch_line(
            state,
            now,
            whole=whole,
            identity=identity,
            against=against,
            dry_run=self.monitor.config.automation.dry_run,
            off_since=self._off_since(source, label) if is_off else None,
        )
        helps = line.enable_helps and source in self.monitor.config.sources
        return replace(line, stays=stays_off(state, self.monitor.config), enable_helps=helps)

    def _off_since(self, source: str, label: str | None) -> datetime | None:
        """Since when the switch is off, from the events of half a year, else from all events."""
        now = self.monitor.clock()
        recent = now - EVENTS_BACK
        found = off_since(self._events(source, label, recent), (source, label), now, since=recent)
        return found or off_since(self._events(source, label, None), (source, label), now)

    def _harm(self, verdict: Verdict, estimates: Sequence[Estimate]) -> Harm | None:
        """The harm in the verdict's window, for the time that automation was on."""
        found = _automated(verdict, estimates)
        if found is None or found.interval.value is None:
            return None
        source, label, schedule = verdict.subject.source, verdict.subject.label, verdict.window.schedule
        on_of = self._on_of(source, label, verdict.window)
        on = None if label is None else on_of(label)
        as_configured = on is not None and self._acted_as_configured(source, label, on)
        if on is not None and as_configured and verdict.rules_revision == self.monitor.config.revision:
            return _harm_of(found, on, schedule)
        reading = self._reading(verdict.window, source)
        if reading is not None and label in reading.labels:
            return self._harm_of_rows(verdict, on_of, reading)
        # of a source as a whole nothing is known without its labels: each has errors and a time of its own
        return _harm_of(found, on, schedule) if on is not None and as_configured else None

    def _acted_as_configured(self, source: str, label: str | None, on: TimeOn) -> bool:
        """Whether gates acted on a label from ``automate_at`` of the present alerts.yaml while automation was on."""
        thresholds = self.monitor.config.thresholds
        configured = thresholds.get((source, label), thresholds.get((source, None)))
        return all(score == configured for score, _ in on.scores)

    def _harm_of_rows(self, verdict: Verdict, on_of: Callable[[str], TimeOn], reading: StoredReading) -> Harm | None:
        """The harm counted from the scores from which gates acted; that of a source as a whole from its labels."""
        from monitor.report.acting_harm import (  # noqa: PLC0415 - imports NumPy; an emergency stop must not wait
            ActingLabel,
            counted_harm,
            counted_together,
        )

        config, subject, window = self.monitor.config, verdict.subject, verdict.window
        source, counts = config.sources.get(subject.source), reading.labels[subject.label]
        if source is None:
            return None
        confidence = config.evaluation.confidence
        if subject.label is None:
            parts = [
                ActingLabel(each, on_of(label), source.automate_from(label))
                for label, each in reading.labels.items()
                if label is not None
            ]
            done = counted_together(counts, parts, window.schedule, confidence)
        else:
            on, configured = on_of(subject.label), source.automate_from(subject.label)
            done = counted_harm(counts, on, configured, window.schedule, confidence)
        return None if done is None else done.harm

    def _published(self) -> PublishedScores:
        store = self.monitor.store
        return self._once("published", make=lambda: PublishedScores(store.thresholds(), store.publications()))

    def _on_of(self, source: str, label: str | None, window: Window) -> Callable[[str], TimeOn]:
        """The function from a label to when it was on: of ``label`` alone, or (None) of any of the source."""
        if label is not None:
            events = self._events(source, label, window.start)
        else:
            store = self.monitor.store
            events = by_switch([*store.switch_events(source, since=window.start), *store.gate_events()])
        return lambda each: time_on(events, (source, each), window.start, window.end, self._published())

    def _events(self, source: str, label: str | None, since: datetime | None) -> dict[Key, list[SwitchEvent]]:
        """The events of a label's switch, of its source's and of all gates that say the state from ``since`` on."""
        store, switches = self.monitor.store, dict.fromkeys((None, label))
        own = [event for each in switches for event in store.switch_events(source, each, since=since)]
        return by_switch([*own, *store.gate_events()])

    def _reading(self, window: Window, source: str) -> StoredReading | None:
        return self._once("reading", window.schedule, window.start, source, make=self.monitor.store.load_reading)

    def _reliability(self, verdict: Verdict) -> Reliability | None:
        reading, baseline = self._reading(verdict.window, verdict.subject.source), self._baseline(verdict)
        counts = None if reading is None else reading.labels.get(verdict.subject.label)
        if counts is None or not counts.where(verdict.where).rows:
            return None
        from monitor.core.baseline import edges_of  # noqa: PLC0415 - as above
        from monitor.core.counts import bin_counts  # noqa: PLC0415 - as above
        from monitor.report.figures.reliability import fewer, reliability_data  # noqa: PLC0415 - as above

        evaluation = self.monitor.config.evaluation
        edges = (edges_of(counts, evaluation) if baseline is None else baseline.edges)[verdict.where]
        edges = fewer(edges, BINS_DRAWN)
        then = None if baseline is None else bin_counts(baseline.counts.where(verdict.where), edges)
        now = bin_counts(counts.where(verdict.where), edges)
        return reliability_data(now, then, confidence=evaluation.confidence)

    def _trend(self, verdict: Verdict) -> Trend:
        """The trend of the verdict's metric; for a shift test, which has no estimates, that of the ECE."""
        store, subject, window = self.monitor.store, verdict.subject, verdict.window
        rule = next((r for r in self.monitor.config.rules if r.id == verdict.rule and r.metric), None)
        metric, where = (verdict.metric, verdict.where) if rule is not None else ("ece", "all")
        shown = [*windows.before(window, TREND - 1, self.monitor.config.zone), window]
        span = (min(each.start for each in shown), window.start)
        about: dict[str, Any] = {"schedule": window.schedule, "source": subject.source, "label": subject.label}
        about["between"] = span
        known = store.estimates(metric=metric, where=where, **about)
        first = min((e.window.start for e in known), default=window.start)
        return trend_data(
            metric,
            where,
            known,
            store.verdicts(**about),
            windows=[each for each in shown if each.start >= first],
            baseline=verdict.baseline,
            rules=() if rule is None else (rule,),
        )

    def unresolved(self) -> list[Incident]:
        """The incidents that are not resolved, as they were when first read."""
        return self._once("unresolved", make=self.monitor.store.unresolved_incidents)

    def of_message(self, root: str) -> list[Incident]:
        """The incidents that a message is about, as they were when first read."""
        return self._once("of message", root, make=lambda each: self.monitor.store.incidents_of([each]))

    def look_up(self, roots: Collection[str]) -> None:
        """Read the incidents of many messages in one query: most of these messages get no edit."""
        found: dict[str, list[Incident]] = {root: [] for root in roots}
        for incident in self.monitor.store.incidents_of(list(roots)):
            found[cast("str", incident.root)].append(incident)
        self._read_once.update({("of message", root): incidents for root, incidents in found.items()})

    def message(self, root: str) -> Delivery | None:
        """A living message as it was composed first."""
        return self._once("message", root, make=self.monitor.store.message)[0]

    def lives(self, root: str) -> bool:
        """Whether a message is in its channel, or on its way, and nobody has deleted it in Slack."""
        found, is_deleted = self._once("message", root, make=self.monitor.store.message)
        return found is not None and not is_deleted and found.state in ("pending", "sending", "sent", "failed")

    def channel(self, root: str) -> str:
        """The channel of a living message ("" where it is no longer known)."""
        found = self.message(root)
        return "" if found is None else found.channel

    def _once(self, *key: Any, make: Callable[..., _T]) -> _T:
        if key not in self._read_once:
            self._read_once[key] = make(*key[1:])
        return cast("_T", self._read_once[key])


def _automated(verdict: Verdict, estimates: Sequence[Estimate]) -> Estimate | None:
    """The overconfidence of the automated rows of the verdict; None for small labels, which have none stored."""
    if "small_labels" in verdict.detail:
        return None
    key = (verdict.subject, "overconfidence", "automated")
    return next((each for each in estimates if (each.subject, each.metric, each.where) == key), None)


def excess_errors(verdict: Verdict, estimates: Sequence[Estimate]) -> float | None:
    """How many more of the items from ``automate_at`` on were wrong than their scores claimed."""
    found = _automated(verdict, estimates)
    return None if found is None or found.interval.value is None else found.interval.value * _items_of(found)


def _harm_of(overconfidence: Estimate, on: TimeOn, schedule: Schedule) -> Harm:
    items = _items_of(overconfidence)
    return Harm((overconfidence.interval.value or 0.0) * items, on, schedule, rows=round(items))


def _items_of(overconfidence: Estimate) -> float:
    """The number of items that the automated rows represent: one each, unless they have weights."""
    return float(overconfidence.detail.get("items", overconfidence.n))
