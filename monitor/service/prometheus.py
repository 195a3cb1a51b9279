"""The history as Prometheus reads it: the numbers of the newest windows in its text format.

Built anew for every request from what is stored, so nothing runs out of step with the history; nothing is counted in
this process. The number of series is bounded: of more than :data:`MOST_LABELS` labels the first by name are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monitor.alerting.health.issues import Observed, findings
from monitor.alerting.health.watchdog import observed
from monitor.automation.state import effective
from monitor.config.model import Config
from monitor.core.records import DeliveryState, Estimate, RejectedRows, Schedule, SwitchState, Verdict
from monitor.evaluation.label_state import states_of
from monitor.history.store import Store
from monitor.metrics.registry import CONTRACT
from monitor.report.newest import newest_verdicts

MOST_LABELS = 1_000
SCHEDULES: tuple[Schedule, ...] = ("weekly", "daily")


@dataclass(frozen=True, slots=True)
class Shown:
    """Everything that is reported, read at one time."""

    at: datetime
    seen: Observed
    verdicts: Sequence[Verdict] = ()
    estimates: Sequence[Estimate] = ()
    quality: Sequence[tuple[Schedule, RejectedRows]] = ()
    incidents: Counter[tuple[str, str]] | None = None
    deliveries: Mapping[DeliveryState, int] = field(default_factory=dict)


def exposition(store: Store, config: Config, now: datetime) -> bytes:
    """The whole text, in Prometheus' format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(gather(store, config, now)))
    return generate_latest(registry)


def gather(store: Store, config: Config, now: datetime) -> Shown:
    """What the history holds: of each schedule the newest window that was judged."""
    seen = observed(store, config, now)
    verdicts: list[Verdict] = []
    estimates: list[Estimate] = []
    quality: list[tuple[Schedule, RejectedRows]] = []
    for schedule in SCHEDULES:
        verdicts += newest_verdicts(store, schedule, config.sources)
        newest = next((run for run in seen.runs if run.schedule == schedule and run.state == "done"), None)
        if newest is not None:
            estimates += store.estimates(schedule=schedule, window_start=newest.window_start)
            quality += [(schedule, each) for each in store.quality(schedule, newest.window_start)]
    return Shown(
        now, seen, verdicts, estimates, quality,
        Counter((each.severity, each.state) for each in store.unresolved_incidents()),
        store.delivery_counts(),
    )  # fmt: skip


def families(shown: Shown) -> Iterator[Metric]:
    """One family a kind of number; every name and label is in docs/watching.md."""
    yield from _runs(shown)
    yield _gauge(
        "calmon_monitor_findings", "What is wrong with the monitor itself, by named reason", ("reason", "severity"),
        Counter((f.reason.value, f.severity) for f in findings(shown.seen, shown.at)).items(),
    )  # fmt: skip
    yield _gauge(
        "calmon_verdicts", "Verdicts of the newest window of each schedule and source",
        ("schedule", "rule", "source", "outcome"),
        Counter((v.window.schedule, v.rule, v.subject.source, v.outcome) for v in shown.verdicts).items(),
    )  # fmt: skip
    yield from _states(shown)
    yield _gauge(
        "calmon_incidents", "Incidents that are not resolved", ("severity", "state"), (shown.incidents or {}).items()
    )
    yield _gauge(
        "calmon_deliveries", "Messages and changes of messages by state", ("state",),
        (((state,), count) for state, count in shown.deliveries.items()),
    )  # fmt: skip
    yield from _data(shown)
    yield from _estimates(shown)
    yield from _switches(shown)


def _runs(shown: Shown) -> Iterator[Metric]:
    newest: dict[tuple[str, str], float] = {}
    for run in shown.seen.runs:
        at = (run.finished_at or run.started_at).timestamp()
        newest[run.schedule, run.state] = max(newest.get((run.schedule, run.state), at), at)
    yield _gauge(
        "calmon_last_run_timestamp_seconds", "When a run of this schedule last came to this state",
        ("schedule", "state"), newest.items(),
    )  # fmt: skip


def _states(shown: Shown) -> Iterator[Metric]:
    found = {
        (schedule, subject): state
        for schedule in SCHEDULES
        for subject, state in states_of(v for v in shown.verdicts if v.window.schedule == schedule).items()
    }
    yield _gauge(
        "calmon_labels", "Labels in each state in the newest window", ("schedule", "source", "state"),
        Counter((schedule, subject.source, state.state.value)
                for (schedule, subject), state in found.items() if subject.label is not None).items(),
    )  # fmt: skip
    kept = set(sorted({(subject.source, subject.label or "") for _, subject in found})[:MOST_LABELS])
    yield _gauge(
        "calmon_label_state", "1 for the state of a label in the newest window (label empty: the source as a whole)",
        ("schedule", "source", "label", "state", "severity"),
        (((schedule, subject.source, subject.label or "", state.state.value, state.severity or ""), 1.0)
         for (schedule, subject), state in found.items() if (subject.source, subject.label or "") in kept),
    )  # fmt: skip


def _data(shown: Shown) -> Iterator[Metric]:
    rows: dict[tuple[str, ...], float] = {}
    for each in shown.seen.readings:  # newest first
        rows.setdefault((each.schedule, each.source), each.rows)
    yield _gauge("calmon_rows", "Rows of the newest window that was read", ("schedule", "source"), rows.items())
    yield _gauge(
        "calmon_quarantined_rows", "Rows set aside in the newest window, by reason", ("schedule", "source", "reason"),
        (((schedule, q.source, q.reason), q.rows) for schedule, q in shown.quality),
    )  # fmt: skip


def _estimates(shown: Shown) -> Iterator[Metric]:
    mine = [e for e in shown.estimates if e.metric in CONTRACT and e.subject.segment is None]
    kept = set(sorted({(e.subject.source, e.subject.label or "") for e in mine})[:MOST_LABELS])
    names = ("schedule", "source", "label", "metric", "where")
    shared = [((e.window.schedule, e.subject.source, e.subject.label or "", e.metric, e.where), e.interval)
              for e in mine if (e.subject.source, e.subject.label or "") in kept]  # fmt: skip
    for name, words, part in (
        ("calmon_estimate", "Debiased value of a metric in the newest window", "value"),
        ("calmon_estimate_low", "Lower limit of its interval", "low"),
        ("calmon_estimate_high", "Upper limit of its interval", "high"),
    ):
        found = ((key, getattr(interval, part)) for key, interval in shared)
        yield _gauge(name, words, names, ((key, value) for key, value in found if value is not None))


def _switches(shown: Shown) -> Iterator[Metric]:
    whole = {s.source: s for s in shown.seen.switches if s.label is None}
    mine = sorted(shown.seen.switches, key=lambda s: (s.source, s.label or ""))[:MOST_LABELS]
    yield _gauge(
        "calmon_automation_on", "1 where automation may act now (label empty: the source's own switch)",
        ("source", "label"), (((s.source, s.label or ""), float(_is_on(s, whole, shown.at))) for s in mine),
    )  # fmt: skip
    yield _gauge(
        "calmon_lease_seconds", "Seconds until automation ends by itself; negative: it has ended",
        ("source", "label"),
        (((s.source, s.label or ""), (s.lease_until - shown.at).total_seconds())
         for s in mine if s.state == "on" and s.lease_until is not None),
    )  # fmt: skip


def _is_on(state: SwitchState, whole: dict[str, SwitchState], now: datetime) -> bool:
    return effective(state, now, whole=None if state.label is None else whole.get(state.source)).allowed


def _gauge(
    name: str, words: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in sorted(values):
        family.add_metric(key, value)
    return family


class _Collector:
    """What the client library asks for families."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        return families(self._shown)
