"""Time and size of the dashboard's pages, on a history of 3 years of 200 labels.

``python -m benchmarks.pages`` makes such a history through the store's functions (once for a ``--folder``), and
requests each page of :data:`PAGES` in one thread. It prints the median server time and the size.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import sqlalchemy as sa

from benchmarks.tables import Table, console
from monitor.cli import GARBAGE_AFTER
from monitor.config.load import load_config
from monitor.config.model import Config, Rule
from monitor.config.settings import Settings, load_settings
from monitor.core import windows
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.diagnoses import Cost, Diagnosis, DiagnosisState, LabelProblem, LikelyCause, NextStep, Since
from monitor.core.records import (
    WHERES,
    Estimate,
    Incident,
    IncidentEvent,
    Interval,
    Outcome,
    Reason,
    Subject,
    SwitchEvent,
    Verdict,
    Where,
    Window,
)
from monitor.core.verdict_detail import VerdictDetail
from monitor.history import tables
from monitor.history.connect import row_of
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.metrics.registry import METRICS
from monitor.service.backend import Service
from monitor.service.pages import PAGES as KNOWN
from monitor.service.pages.base import PageRequest

WEEKS, LABELS, ROUNDS = 156, 200, 9
NEWEST = "2026-W46"
SEED, SOURCE = 20260101, "tickets"
BASELINE_WEEKS, MODEL_WEEKS = 8, 40
BAD_FROM = 140
ROWS = 900
_THREE = frozenset(
    {"accuracy", "brier", "ece", "mce", "nll", "pr_auc", "roc_auc", "overconfidence", "false_negative_rate"}
)

SHIPPED = Path(__file__).parents[1] / "alerts.yaml"
PAGES = {
    "overview": ("/", 300, 150),
    "overview, all weeks": ("/?range=all", 300, 150),
    "label": ("/label/tickets/label%20010", 300, 300),
    "label, another week": ("/label/tickets/label%20010?week=2026-W20&against=2025-W20&range=all", 300, 300),
    "compare": ("/compare?a=2026-W20&b=2026-W46", 500, 300),
    "incidents": ("/incidents?weeks=156", 500, 300),
    "automation": ("/automation", 500, 300),
    "rules": ("/rules", 500, 300),
    "monitor": ("/monitor", 500, 300),
}
"""Name -> address with its query, maximum milliseconds and kilobytes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One page: wall and processor milliseconds of each round, and bytes."""

    name: str
    took: tuple[float, ...]
    processor: tuple[float, ...]
    size: int


@cache
def shipped() -> Config:
    """The shipped alerts.yaml."""
    return load_config(SHIPPED)


def label_name(number: int) -> str:
    """The name of a label by its number."""
    return f"label {number:03d}"


def make(folder: Path, weeks: int, labels: int) -> None:
    """Make a history of ``weeks`` weeks and ``labels`` labels in ``folder``, with its alerts.yaml."""
    text = SHIPPED.read_text("utf-8")
    without_mail = re.sub(r"  mail:\n(    .*\n)+", "", text)
    (folder / "alerts.yaml").write_text(without_mail, "utf-8")
    rng, zone = np.random.default_rng(SEED), shipped().zone
    newest = windows.week(NEWEST, zone)
    past = (*reversed(windows.before(newest, weeks - 1, zone)), newest)
    names = [label_name(number) for number in range(labels)]
    counts = [_counts(rng, shift) for shift in np.repeat((0.0, 0.06), 20)]
    with Store.from_url(f"sqlite:///{folder}/history.sqlite") as store:
        store.save_baselines([_baseline(name, counts[k % 20], past) for k, name in enumerate(names)])
        for number, window in enumerate(past):
            _week(store, window, number, names, counts, rng)
        _switching(folder, past, names)
        for k, name in enumerate(names):
            _incidents(store, name, past[k % 26 + 1 :: 26])


def _counts(rng: np.random.Generator, shift: float) -> Counts:
    score = np.round(rng.beta(2.2, 1.2, ROWS), 2)
    return counts_from_rows(score, rng.random(ROWS) < np.clip(score - shift, 0, 1), automate_at=0.8)


def _baseline(label: str, counts: Counts, past: Sequence[Window]) -> Baseline:
    first, last = past[0], past[BASELINE_WEEKS - 1]
    edges = edges_of(counts, shipped().evaluation)
    return Baseline(
        SOURCE,
        label,
        1,
        first.start,
        last.end,
        first.name,
        last.name,
        counts,
        edges,
        last.end,
        "ann",
        "the first weeks",
    )


def _week(
    store: Store, window: Window, number: int, names: Sequence[str], counts: Sequence[Counts], rng: np.random.Generator
) -> None:
    at = window.end + timedelta(hours=30)
    store.begin_run(window, [SOURCE], run=f"weekly {window.name}", acts=True, rules_revision="r1", now=at)
    bad = [k % 10 == 0 and number >= BAD_FROM - k % 7 for k in range(len(names))]
    counts_of: dict[str | None, Counts] = {name: counts[k % 20 + (20 if bad[k] else 0)] for k, name in enumerate(names)}
    versions = {f"2.{number // MODEL_WEEKS}": ROWS * len(names)}
    store.save_reading(window, StoredReading(SOURCE, labels=counts_of, versions=versions, rows=ROWS * len(names)), at)
    about = [Subject(SOURCE, name) for name in names]
    estimates = [e for k, subject in enumerate(about) for e in _estimates(subject, window, bad[k], rng)]
    rules = [rule for rule in shipped().rules_for("weekly") if rule.match.label is None]
    verdicts = [
        _verdict(rule, subject, window, number, bad[k], rng) for k, subject in enumerate(about) for rule in rules
    ]
    store.save_evaluation(window, [SOURCE], estimates, verdicts, [], at)
    store.save_diagnoses(window, [SOURCE], [_diagnosis(name, window, bad[k]) for k, name in enumerate(names)], at)
    store.finish_run(window, [SOURCE], state="done", now=at + timedelta(minutes=4))


def _series() -> Iterator[tuple[str, Where]]:
    """The (metric, population) pairs that a run stores for a label: some of three populations, others of all rows."""
    for name, metric in METRICS.items():
        if name in _THREE:
            yield from ((name, where) for where in WHERES)
        elif metric.needs in ("counts", "bins"):
            yield name, "all"


SERIES = tuple(_series())


def _estimates(subject: Subject, window: Window, bad: bool, rng: np.random.Generator) -> Iterator[Estimate]:
    level = 0.09 if bad else 0.012
    noise = rng.normal(0, 0.004, 80)
    for place, (metric, where) in enumerate(SERIES):
        value = (0.9 if metric in ("roc_auc", "pr_auc", "accuracy") else level) + float(noise[place % 80])
        interval = Interval(value, value - 0.01, value + 0.01, value + 0.003)
        yield Estimate(subject, window, metric, where, interval, ROWS, ROWS / 2, {})


def _diagnosis(label: str, window: Window, bad: bool) -> Diagnosis:
    if not bad:
        return Diagnosis(SOURCE, label, window, DiagnosisState.FINE)
    since = Since(f"since {BAD_FROM}", "2026-W30", "2026-W32")
    return Diagnosis(
        SOURCE, label, window, DiagnosisState.UNSAFE, LabelProblem.OVERCONFIDENT, since, "2026-W33",
        Cost(900, 0.81, 0.87, 54, 40, 68), cause=LikelyCause("version", "2.3", "2026-W31", 0.8),
        advice=NextStep("recalibrate", "platt", before=0.1, after=0.01),
        because=(_id("automated-overconfidence", label, window),),
    )  # fmt: skip


def _id(rule: str, label: str | None, window: Window) -> str:
    return hashlib.sha256(f"{rule} {label} {window.name}".encode()).hexdigest()[:16]


def _verdict(rule: Rule, subject: Subject, window: Window, number: int, bad: bool, rng: np.random.Generator) -> Verdict:
    outcome: Outcome = "ok"
    reason = Reason.WITHIN_THRESHOLD
    baseline = 0.012 if rule.compares else None
    value = abs(float(rng.normal(0.4, 0.15))) * rule.threshold + (baseline or 0.0)
    if rule.metric == "roc_auc":
        value = 0.93 + float(rng.normal(0, 0.01))
    elif number < BASELINE_WEEKS:
        outcome, reason = "not_evaluated", Reason.IN_BASELINE
    elif bad and rule.metric in ("ece", "overconfidence"):
        outcome, value = "breach", value + 1.5 * rule.threshold
        reason = Reason.INCREASED if rule.compares else Reason.ABOVE_THRESHOLD
    elif rng.random() < 0.02:
        outcome, reason, value = "unconfirmed", Reason.NOT_SIGNIFICANT_IN_FAMILY, value + rule.threshold
    checks = [[name, True] for name in ("readable", "rows", "outside_baseline", "beyond", "sure")]
    detail: VerdictDetail = {
        "confidence": 0.95, "rows_needed": 500, "condition": rule.condition, "checks": checks, "promised": 0.88,
        "kept": 0.87, "effective_rows": 812.2, "design_effect": 1.08, "asks": 1, "groups": [], "rate": 0.01,
        "family": 6, "rules": 6, "beyond": outcome != "ok", "streak": True, "adequate": True, "p_rate": 0.2, "rank": 1,
    }  # fmt: skip
    return Verdict(
        _id(rule.id, subject.label, window), rule.id, subject, window, rule.metric or rule.test or "", rule.where,
        outcome, reason, rule.severity, rule.threshold, value=value, low=value - 0.01, high=value + 0.01,
        plug_in=value + 0.003, baseline=baseline, change=None if baseline is None else value - baseline, n=ROWS,
        p_value=0.0001, p_adjusted=0.001,
        baseline_version=1, rules_revision="r1", data_digest="d", actions=rule.actions, detail=detail,
    )  # fmt: skip


def _switching(folder: Path, past: Sequence[Window], names: Sequence[str]) -> None:
    """Store switches that are on from the end of the baseline; each tenth label goes off in its first bad week."""
    rows = []
    for k, name in enumerate(names):
        for number, window in enumerate(past[BASELINE_WEEKS:], BASELINE_WEEKS):
            at, off = window.end + timedelta(hours=30), k % 10 == 0 and number >= BAD_FROM - k % 7
            first = number == BASELINE_WEEKS
            kind = "enabled" if first else "disabled" if off else "renewed"
            before, after = "never_set" if first else "on", "off" if off else "on"
            lease = None if off else at + timedelta(days=9)
            reason = "automated-overconfidence: above_threshold" if off else "within the threshold"
            event = SwitchEvent(f"weekly:{window.name}", SOURCE, name, at, kind, before, after, "weekly run", reason,
                                lease_until=lease)  # fmt: skip
            rows.append(row_of(tables.switch_events, event))
            if off:
                break
    engine = sa.create_engine(f"sqlite:///{folder}/history.sqlite")
    with engine.begin() as connection:
        connection.execute(tables.switch_events.insert(), rows)
    engine.dispose()


def _incidents(store: Store, label: str, weeks: Sequence[Window]) -> None:
    """Store one incident each half year: opened, acknowledged, resolved."""
    opened, events = [], []
    for window in weeks:
        at, id = window.end + timedelta(hours=30), f"{label}-{window.name}"
        seen, over = at + timedelta(hours=2), at + timedelta(days=7)
        opened.append(Incident(
            id, "label", SOURCE, label, "warning", "resolved", at, window.name, window.name, window.end, window.end,
            "miscalibrated", "fine_again", ("ece-increase",), resolved_at=over, resolved_window=window.name,
            acknowledged_at=seen, acknowledged_by="ann",
        ))  # fmt: skip
        for kind, moment in (("opened", at), ("acknowledged", seen), ("resolved", over)):
            events.append(IncidentEvent(f"{id}:{kind}", id, moment, kind, kind, "ann", window.name))
    store.apply_incidents(opened, [], events)


def measured(service: Service, name: str) -> Measured:
    """Request a page several times; the first round warms up."""
    address, _, _ = PAGES[name]
    took, processor, size = [], [], 0
    for _ in range(ROUNDS + 1):
        began, worked = time.perf_counter(), time.process_time()
        size = len(ask(service, address))
        took.append(1000 * (time.perf_counter() - began))
        processor.append(1000 * (time.process_time() - worked))
    return Measured(name, tuple(took[1:]), tuple(processor[1:]), size)


def ask(service: Service, address: str) -> bytes:
    """A page as the service makes it, without HTTP. Raises KeyError for an address that no page has."""
    parts = urlsplit(address)
    steps = parts.path.strip("/").split("/")
    for page in KNOWN:
        for pattern in (page.address, *page.aliases):
            names = pattern.strip("/").split("/")
            if len(names) == len(steps) and all(n == s or n.startswith("{") for n, s in zip(names, steps, strict=True)):
                path = {
                    n.strip("{}").partition(":")[0]: unquote(s)
                    for n, s in zip(names, steps, strict=True)
                    if n[:1] == "{"
                }
                root = "../" * (len(steps) - 1) or "./"
                return service.show(page, PageRequest(path, dict(parse_qsl(parts.query)), root)).body
    raise KeyError(address)


def table_of(found: Sequence[Measured]) -> Table:
    """The table of time and size of each page."""
    rows = []
    for each in found:
        _, most, kilobytes = PAGES[each.name]
        median, worked = statistics.median(each.took), statistics.median(each.processor)
        remark = "" if worked <= most and each.size <= 1000 * kilobytes else "too much"
        rows.append((
            each.name, f"{worked:.0f}", f"{median:.0f}", f"{most:.0f}", f"{each.size / 1000:.0f}", f"{kilobytes:.0f}",
            remark,
        ))  # fmt: skip
    head = ("page", "processor ms", "ms", "limit", "kB", "limit", "")
    note = "Limits are held against the processor's time: that by the clock is of a machine that others use too."
    return Table(f"Pages over {WEEKS} weeks of {LABELS} labels, {ROUNDS} rounds", head, tuple(rows), (note,))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="Where the history is, or is made and kept.")
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--labels", type=int, default=LABELS)
    options = parser.parse_args()
    gc.set_threshold(*GARBAGE_AFTER)  # as the command that serves the pages does
    with tempfile.TemporaryDirectory() as spare:
        folder = options.folder or Path(spare)
        if not (folder / "history.sqlite").exists():
            folder.mkdir(parents=True, exist_ok=True)
            make(folder, options.weeks, options.labels)
        service = Service(settings_of(folder), clock=lambda: datetime(2026, 11, 16, 12, tzinfo=UTC))
        try:
            table_of([measured(service, name) for name in PAGES]).show(console())
        finally:
            service.close()


def settings_of(folder: Path) -> Settings:
    """Settings for the history in a folder, without a warehouse."""
    return load_settings({
        "CALMON_STORE_URL": f"sqlite:///{folder}/history.sqlite", "CALMON_CONFIG": str(folder / "alerts.yaml"),
        "CALMON_WAREHOUSE_URL": f"duckdb:///{folder}/none.duckdb",
    })  # fmt: skip


if __name__ == "__main__":
    main()
