"""The numbers of the newest windows in the history, in the text format of Prometheus.

They are read for every request and nothing is counted in this process, so they always agree with the history. The
number of series is limited: of more than :data:`MOST_LABELS` labels, the first by name are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monitor.alerting.health.issues import WATCHDOG_NOTE, Observed, findings
from monitor.alerting.health.look import observed
from monitor.automation.state import allowed_of_each, off_segments
from monitor.config.model import Config
from monitor.core.records import SCHEDULES, Estimate, Verdict
from monitor.core.windows import begun
from monitor.history.store import Store
from monitor.metrics.registry import CONTRACT
from monitor.story.gather import LOOKS_BACK

MOST_LABELS = 1_000
_SOURCE = ("schedule", "source")
_Gauge = tuple[str, str, Sequence[str], Mapping[Any, float]]
"""Its name and words, the names of its labels, and their values -> its value."""


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
    newest: list[dict[str, Any]] = [
        {"schedule": schedule, "source": source, "window_start": run.window_start}
        for schedule in SCHEDULES
        for source, run in seen.newest_done(schedule).items()
    ]
    verdicts = [verdict for each in newest for verdict in store.verdicts(**each)]
    for name, words, labels, values in chain(
        _runs(store, config, seen),
        _of_windows(store, now, seen, newest, verdicts),
        _estimates([estimate for each in newest for estimate in store.estimates(**each)]),
        _switches(seen, now),
    ):
        family = GaugeMetricFamily(name, words, labels=labels)
        for key, value in sorted(values.items()):
            family.add_metric(key, value)
        yield family


def _runs(store: Store, config: Config, seen: Observed) -> Iterator[_Gauge]:
    newest: dict[tuple[str, str, str], float] = {}
    for run in seen.runs:
        at, key = (run.finished_at or run.started_at).timestamp(), (run.schedule, run.source, run.state)
        newest[key] = max(newest.get(key, at), at)
    yield (
        "calmon_last_run_timestamp_seconds", "When a run of this schedule and source last came to this state",
        ("schedule", "source", "state"), newest,
    )  # fmt: skip
    ends = {
        (schedule, source): begun(schedule, start, config.zone).end.timestamp()
        for schedule in seen.scheduled
        for source in config.sources
        if (start := store.newest_evaluated(schedule, source)) is not None
    }
    yield (
        "calmon_judged_until_timestamp_seconds",
        "The end of the newest window in which at least one rule was judged", _SOURCE, ends,
    )  # fmt: skip
    took = {
        (schedule, source): (run.finished_at - run.started_at).total_seconds()
        for schedule in seen.scheduled
        for source, run in seen.newest_done(schedule).items()
        if run.finished_at is not None
    }
    yield "calmon_run_seconds", "How long the run of the newest window took", _SOURCE, took
    looked = seen.notes.get(WATCHDOG_NOTE)
    looks = {} if looked is None else {(): looked.at.timestamp()}
    yield "calmon_watchdog_timestamp_seconds", "When the watchdog last looked", (), looks


def _of_windows(
    store: Store, now: datetime, seen: Observed, newest: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict]
) -> Iterator[_Gauge]:
    wrong = Counter((f.reason.value, f.severity) for f in findings(seen, now))
    yield (
        "calmon_monitor_findings", "What is wrong with the monitor itself, by named reason", ("reason", "severity"),
        wrong,
    )  # fmt: skip
    yield (
        "calmon_verdicts", "Verdicts of the newest window of each schedule and source",
        ("schedule", "rule", "source", "outcome"),
        Counter((v.window.schedule, v.rule, v.subject.source, v.outcome) for v in verdicts),
    )  # fmt: skip
    diagnoses = store.newest_diagnoses(back=LOOKS_BACK, until=now)
    counts = Counter((each.source, each.state.value) for each in diagnoses if each.label is not None)
    yield "calmon_labels", "Labels in each state, by their newest diagnosis", ("source", "state"), counts
    kept = set(sorted({each.label or "" for each in diagnoses})[:MOST_LABELS])
    yield (
        "calmon_label_state", "1 for the state of a label by its newest diagnosis (label empty: the source as a whole)",
        ("source", "label", "state"),
        {(d.source, d.label or "", d.state.value): 1.0 for d in diagnoses if (d.label or "") in kept},
    )  # fmt: skip
    incidents = Counter((each.severity, each.state) for each in store.unresolved_incidents(of_monitor=None))
    yield "calmon_incidents", "Incidents that are not resolved", ("severity", "state"), incidents
    deliveries = {(state,): count for state, count in store.delivery_counts().items()}
    yield "calmon_deliveries", "Messages and changes of messages by state", ("state",), deliveries
    rows = {(each.schedule, each.source): each.rows for each in reversed(seen.readings)}  # newest first
    yield "calmon_rows", "Rows of the newest window that was read", _SOURCE, rows
    yield (
        "calmon_quarantined_rows", "Rejected rows of the newest window, by reason", (*_SOURCE, "reason"),
        {
            (each["schedule"], q.source, q.reason): q.rows
            for each in newest
            for q in store.quality(each["schedule"], each["window_start"], each["source"])
        },
    )  # fmt: skip


def _estimates(estimates: Sequence[Estimate]) -> Iterator[_Gauge]:
    contracted = [e for e in estimates if e.metric in CONTRACT and e.subject.segment is None]
    kept = set(sorted({(e.subject.source, e.subject.label or "") for e in contracted})[:MOST_LABELS])
    intervals = {
        (e.window.schedule, e.subject.source, e.subject.label or "", e.metric, e.where): e.interval for e in contracted
    }
    for name, words, part in (
        ("calmon_estimate", "Debiased value of a metric in the newest window", "value"),
        ("calmon_estimate_low", "Lower limit of its interval", "low"),
        ("calmon_estimate_high", "Upper limit of its interval", "high"),
    ):
        found = {key: getattr(interval, part) for key, interval in intervals.items() if key[1:3] in kept}
        known = {key: value for key, value in found.items() if value is not None}
        yield name, words, (*_SOURCE, "label", "metric", "where"), known


def _switches(seen: Observed, now: datetime) -> Iterator[_Gauge]:
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
    of = ("source", "label")
    yield "calmon_automation_on", "1 where automation may act now (label empty: the source's own switch)", of, on
    yield (
        "calmon_gate_refuses", "Labels whose switch is on and that gates refuse all the same, by reason",
        ("source", "reason"), refused,
    )  # fmt: skip
    words = "Segments of a label that are off by themselves: where automation is on, it is not for these"
    yield "calmon_segments_off", words, of, segments
    yield (
        "calmon_lease_seconds",
        "Seconds until the lease ends, and automation with it; negative: it has ended",
        of,
        leases,
    )
