"""The numbers of the newest windows in the history, in the text format of Prometheus.

They are read for every request and nothing is counted in this process, so they always agree with the history. The
number of series is limited: of more than :data:`MOST_LABELS` labels, the first by name are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monitor.alerting.health.issues import WATCHDOG_NOTE, Observed, findings
from monitor.alerting.health.look import observed
from monitor.automation.state import allowed_of_each, off_segments
from monitor.config.model import Config
from monitor.core.diagnoses import Diagnosis
from monitor.core.records import Estimate, Schedule
from monitor.core.windows import begun
from monitor.history.store import Store
from monitor.metrics.registry import CONTRACT
from monitor.story.gather import LOOKS_BACK

MOST_LABELS = 1_000
SCHEDULES: tuple[Schedule, ...] = ("weekly", "daily")


def exposition(store: Store, config: Config, now: datetime, *, has_buttons: bool = False) -> bytes:
    """The whole text, in Prometheus' format 0.0.4. ``has_buttons``: both tokens of ``calmon slack`` are set here."""
    made = families(store, config, now, observed(store, config, now, has_buttons=has_buttons))
    registry = CollectorRegistry()
    registry.collect = lambda: made  # type: ignore[method-assign]
    return generate_latest(registry)


def families(store: Store, config: Config, now: datetime, seen: Observed) -> Iterator[Metric]:
    """One family for each kind of number; every name and label is in docs/watching.md.

    They are of the newest window that was judged, for each schedule and source.
    """
    newest = [
        (schedule, source, run.window_start)
        for schedule in SCHEDULES
        for source, run in seen.newest_done(schedule).items()
    ]
    yield from _runs(store, config, seen)
    words = "What is wrong with the monitor itself, by named reason"
    wrong = Counter((f.reason.value, f.severity) for f in findings(seen, now))
    yield _gauge("calmon_monitor_findings", words, ("reason", "severity"), wrong)
    words = "Verdicts of the newest window of each schedule and source"
    verdicts = Counter(
        (schedule, v.rule, source, v.outcome)
        for schedule, source, start in newest
        for v in store.verdicts(schedule=schedule, source=source, window_start=start)
    )
    yield _gauge("calmon_verdicts", words, ("schedule", "rule", "source", "outcome"), verdicts)
    yield from _states(store.newest_diagnoses(back=LOOKS_BACK, until=now))
    incidents = Counter((each.severity, each.state) for each in store.unresolved_incidents(of_monitor=None))
    yield _gauge("calmon_incidents", "Incidents that are not resolved", ("severity", "state"), incidents)
    deliveries = {(state,): count for state, count in store.delivery_counts().items()}
    yield _gauge("calmon_deliveries", "Messages and changes of messages by state", ("state",), deliveries)
    rows: dict[tuple[str, ...], float] = {}
    for each in seen.readings:  # newest first
        rows.setdefault((each.schedule, each.source), each.rows)
    yield _gauge("calmon_rows", "Rows of the newest window that was read", ("schedule", "source"), rows)
    words, names = "Rejected rows of the newest window, by reason", ("schedule", "source", "reason")
    aside = {
        (schedule, q.source, q.reason): q.rows
        for schedule, source, start in newest
        for q in store.quality(schedule, start, source)
    }
    yield _gauge("calmon_quarantined_rows", words, names, aside)
    yield from _estimates(
        [
            estimate
            for schedule, source, start in newest
            for estimate in store.estimates(schedule=schedule, source=source, window_start=start)
        ]
    )
    yield from _switches(seen, now)


def _runs(store: Store, config: Config, seen: Observed) -> Iterator[Metric]:
    newest: dict[tuple[str, str, str], float] = {}
    for run in seen.runs:
        at, key = (run.finished_at or run.started_at).timestamp(), (run.schedule, run.source, run.state)
        newest[key] = max(newest.get(key, at), at)
    words = "When a run of this schedule and source last came to this state"
    yield _gauge("calmon_last_run_timestamp_seconds", words, ("schedule", "source", "state"), newest)
    names = ("schedule", "source")
    words = "The end of the newest window in which at least one rule was judged"
    ends = {
        (schedule, source): begun(schedule, start, config.zone).end.timestamp()
        for schedule in seen.scheduled
        for source in config.sources
        if (start := store.newest_evaluated(schedule, source)) is not None
    }
    yield _gauge("calmon_judged_until_timestamp_seconds", words, names, ends)
    took = {
        (schedule, source): (run.finished_at - run.started_at).total_seconds()
        for schedule in seen.scheduled
        for source, run in seen.newest_done(schedule).items()
        if run.finished_at is not None
    }
    yield _gauge("calmon_run_seconds", "How long the run of the newest window took", names, took)
    looked = seen.notes.get(WATCHDOG_NOTE)
    looks = {} if looked is None else {(): looked.at.timestamp()}
    yield _gauge("calmon_watchdog_timestamp_seconds", "When the watchdog last looked", (), looks)


def _states(diagnoses: Sequence[Diagnosis]) -> Iterator[Metric]:
    labels = [each for each in diagnoses if each.label is not None]
    counts = Counter((each.source, each.state.value) for each in labels)
    yield _gauge("calmon_labels", "Labels in each state, by their newest diagnosis", ("source", "state"), counts)
    kept = set(sorted({each.label or "" for each in diagnoses})[:MOST_LABELS])
    states = {
        (each.source, each.label or "", each.state.value): 1.0 for each in diagnoses if (each.label or "") in kept
    }
    words = "1 for the state of a label by its newest diagnosis (label empty: the source as a whole)"
    yield _gauge("calmon_label_state", words, ("source", "label", "state"), states)


def _estimates(estimates: Sequence[Estimate]) -> Iterator[Metric]:
    contracted = [e for e in estimates if e.metric in CONTRACT and e.subject.segment is None]
    labels = [(e.subject.source, e.subject.label or "") for e in contracted]
    kept, names = set(sorted(set(labels))[:MOST_LABELS]), ("schedule", "source", "label", "metric", "where")
    shared = [
        ((e.window.schedule, *label, e.metric, e.where), e.interval)
        for e, label in zip(contracted, labels, strict=True)
        if label in kept
    ]
    for name, words, part in (
        ("calmon_estimate", "Debiased value of a metric in the newest window", "value"),
        ("calmon_estimate_low", "Lower limit of its interval", "low"),
        ("calmon_estimate_high", "Upper limit of its interval", "high"),
    ):
        found = {key: getattr(interval, part) for key, interval in shared}
        yield _gauge(name, words, names, {key: value for key, value in found.items() if value is not None})


def _switches(seen: Observed, now: datetime) -> Iterator[Metric]:
    switches = allowed_of_each(seen.switches, now, seen.identity)
    on, leases, segments = {}, {}, {}
    refused = Counter[tuple[str, str]]()
    for s, found in sorted(switches, key=lambda each: (each[0].source, each[0].label or ""))[:MOST_LABELS]:
        key = s.source, s.label or ""
        on[key] = float(found.allowed and not seen.is_lost(s.source))
        if s.state == "on" and s.label is not None and not found.allowed:
            refused[s.source, found.reason.value] += 1
        if s.label is not None:
            segments[key] = float(len(off_segments(s, now)))
        if s.state == "on" and s.lease_until is not None:
            leases[key] = (s.lease_until - now).total_seconds()
    words = "1 where automation may act now (label empty: the source's own switch)"
    yield _gauge("calmon_automation_on", words, ("source", "label"), on)
    words = "Labels whose switch is on and that gates refuse all the same, by reason"
    yield _gauge("calmon_gate_refuses", words, ("source", "reason"), refused)
    words = "Segments of a label that are off by themselves: where automation is on, it is not for these"
    yield _gauge("calmon_segments_off", words, ("source", "label"), segments)
    words = "Seconds until the lease ends, and automation with it; negative: it has ended"
    yield _gauge("calmon_lease_seconds", words, ("source", "label"), leases)


def _gauge(name: str, words: str, labels: Sequence[str], values: Mapping[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family
