"""Estimates before the truth, compared with the later truth, and with NannyML's CBPE on the same rows.

Two worlds. *demo*: the two sources of the demo, without the labels and weeks of its planted changes. *intents*: 77
intents as in Banking77, one row for each item with its predicted intent and confidence. The shares of intents and the
difficulty of items change from week to week; calibration does not. Half of the truths come within five days.

NannyML is not a dependency: ``--nannyml PYTHON`` names the interpreter of an environment that has it (and statsmodels,
which version 0.13.1 needs but does not declare). It estimates the accuracy of each label and week in its own process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd

from benchmarks.tables import Table, console
from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import CELLS, Counts, bin_counts, pool
from monitor.core.records import Estimate, Where, Window
from monitor.core.unresolved import UnresolvedRows
from monitor.core.windows import before, week
from monitor.demo.generator import write_demo
from monitor.demo.population import PLANTED
from monitor.evaluation.before_truth import estimates_before_truth
from monitor.inference.before_truth import CalibrationMap, accuracy_law, calibration_map, expectation
from monitor.inference.gaps import analytic_points, stack
from monitor.metrics.registry import METRICS
from monitor.warehouse.reader import Warehouse

SEED = 20260101
ZONE = ZoneInfo("UTC")
LAST = "2026-W46"
BASELINE_WEEKS = 8
INTENTS, INTENT_WEEKS = 77, 20
MEDIAN_DAYS, SIGMA_DAYS = 5.0, 1.0
EVALUATION = EvaluationConfig()
PEER = Path(__file__).with_name("before_truth_peer.py")


@dataclass(frozen=True, slots=True)
class World:
    """One source of a warehouse, its weeks (oldest first), and the labels that change from a week on."""

    name: str
    url: str
    source: SourceConfig
    weeks: tuple[Window, ...]
    changed: tuple[tuple[str, int], ...] = ()

    def is_quiet(self, label: str | None, at: int) -> bool:
        """Whether this label (None: every label) is unchanged up to week number ``at``, counted from 1."""
        return not any(at >= since and label in (None, name) for name, since in self.changed)


@dataclass(frozen=True, slots=True)
class Compared:
    """One estimate, with the value that was measured later on the same rows."""

    label: str | None
    week: str
    metric: str
    where: Where
    n: int
    value: float
    low: float
    high: float
    truth: float

    @property
    def error(self) -> float:
        """Estimate minus truth."""
        return self.value - self.truth

    @property
    def held(self) -> bool:
        """Whether the truth is within the limits."""
        return self.low - 1e-9 <= self.truth <= self.high + 1e-9


# --- worlds


def demo_worlds(folder: Path, seed: int) -> list[World]:
    """The two sources of the demo."""
    end = week(LAST, ZONE)
    path = folder / "demo.duckdb"
    write_demo(path, end, seed=seed)
    weeks = (*before(end, 25, ZONE)[::-1], end)
    return [
        World(
            f"demo, {name}", f"duckdb:///{path}", _source(name, labels=labels), weeks,
            tuple((change.label, change.week) for change in PLANTED if change.source == name),
        )
        for name, labels in (("tickets", {}), ("mail", {"phishing": {"automate_at": 0.9}}))
    ]  # fmt: skip


def intents_world(folder: Path, seed: int, items: int) -> World:
    """A source of 77 intents, with ``items`` items a week."""
    weeks = (*before(week(LAST, ZONE), INTENT_WEEKS - 1, ZONE)[::-1], week(LAST, ZONE))
    frame = pd.concat([_intents(seed, number, each, items) for number, each in enumerate(weeks)], ignore_index=True)
    path = folder / "intents.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE intents AS SELECT * FROM frame ORDER BY predicted_at")
    return World("77 intents", f"duckdb:///{path}", _source("intents", kind="single_label"), weeks)


def _source(relation: str, **settings: object) -> SourceConfig:
    score_is = "confidence_in_prediction" if settings.get("kind") == "single_label" else "probability_of_label"
    known = {"relation": relation, "score_is": score_is, "unresolved": SourceConfig.OWN_RELATION}
    return SourceConfig.model_validate(known | settings)


def _intents(seed: int, number: int, window: Window, items: int) -> pd.DataFrame:
    """The items of one week. Each intent has confident and unconfident items, and its own overconfidence."""
    fixed, rng = np.random.default_rng(seed), np.random.default_rng([seed, number])
    share = fixed.dirichlet(np.full(INTENTS, 5.0))
    tilt, slope = fixed.normal(-0.3, 0.4, INTENTS), fixed.uniform(0.6, 1.0, INTENTS)
    moved = share * np.exp(rng.normal(0.0, 0.3, INTENTS))
    intent = rng.choice(INTENTS, items, p=moved / moved.sum())
    logit = rng.normal(1.6 + rng.normal(0.0, 0.3), 1.4, items)
    confidence = np.round(1 / (1 + np.exp(-logit)), 4)
    chance = 1 / (1 + np.exp(-(tilt[intent] + slope[intent] * logit)))
    right = rng.random(items) < chance
    other = (intent + rng.integers(1, INTENTS, items)) % INTENTS
    predicted_at = window.start + pd.to_timedelta(np.sort(rng.random(items)) * 7 * 86_400, unit="s")
    delay = pd.to_timedelta(MEDIAN_DAYS * np.exp(SIGMA_DAYS * rng.standard_normal(items)) * 86_400, unit="s")
    return pd.DataFrame(
        {
            "item": [f"i{number}-{place}" for place in range(items)],
            "predicted_label": np.char.add("intent ", intent.astype(str)),
            "confidence": confidence,
            "chance": chance,
            "true_label": np.char.add("intent ", np.where(right, intent, other).astype(str)),
            "predicted_at": predicted_at.floor("s"),
            "resolved_at": (predicted_at + delay).floor("s"),
        }
    )


# --- ours


def baselines_of(world: World, warehouse: Warehouse) -> dict[str | None, Baseline]:
    """Baselines of the first weeks, pinned as a run pins them."""
    first, last = world.weeks[0], world.weeks[BASELINE_WEEKS - 1]
    plain = world.source.model_copy(update={"segments": ()})
    span = Window(first.start, last.end, f"{first.name}..{last.name}", "weekly")
    reading = warehouse.read(world.name, plain, span, now=_late(world), whole=False)
    labels: dict[str | None, Counts] = dict(reading.labels.items())
    labels[None] = pool(reading.labels.values()).with_design_effect(reading.whole_design_effect)
    return {
        label: Baseline(
            source=world.name, label=label, version=1, start=first.start, end=last.end, first_window=first.name,
            last_window=last.name, counts=counts, edges=edges_of(counts, EVALUATION), pinned_at=last.end, pinned_by="",
            reason="",
        )
        for label, counts in labels.items()
    }  # fmt: skip


def _late(world: World) -> datetime:
    return world.weeks[-1].end + timedelta(days=3_650)


@dataclass(frozen=True, slots=True)
class Ours:
    """Our estimates by week, with processor seconds for reading, for accuracy only, and for all metrics."""

    estimates: tuple[Estimate, ...]
    baselines: Mapping[str | None, Baseline]
    reading: float
    of_accuracy: float
    of_everything: float


def ours(world: World) -> Ours:
    """Our estimates. The baseline is read once, then the waiting rows of each later week, both from the warehouse."""
    later = world.weeks[BASELINE_WEEKS:]
    with Warehouse.from_url(world.url) as warehouse:
        began = time.process_time()
        pinned = baselines_of(world, warehouse)
        waiting = [warehouse.unresolved(world.name, world.source, window) for window in later]
        read = time.process_time() - began
    began = time.process_time()
    maps = {label: calibration_map(baseline.counts) for label, baseline in pinned.items()}
    accuracies = [limits for rows in waiting for limits in _accuracies(rows, maps)]
    of_accuracy = time.process_time() - began
    began = time.process_time()
    found = [e for rows in waiting for e in estimates_before_truth(world.name, rows, pinned, EVALUATION)]
    everything = time.process_time() - began
    if not accuracies:
        raise ValueError(f"{world.name} has no waiting rows")
    return Ours(tuple(found), pinned, read, of_accuracy, everything)


def _accuracies(rows: UnresolvedRows, maps: Mapping[str | None, CalibrationMap]) -> Iterator[tuple[float, float]]:
    """The interval of the expected accuracy over all rows, for each label."""
    for label in (label for label in rows.labels if label in maps):
        law = accuracy_law(expectation(maps[label], rows.waiting_of(label), (CELLS,)))
        if law is not None:
            yield law.interval(EVALUATION.confidence)


def compared(world: World, found: Ours) -> list[Compared]:
    """Each estimate of an unchanged label, with the value measured later on the same rows."""
    at = {window.name: number for number, window in enumerate(world.weeks, 1)}
    with Warehouse.from_url(world.url) as warehouse:
        truths = {window.name: _truths(world, warehouse, window) for window in world.weeks[BASELINE_WEEKS:]}
    lines = []
    for e in found.estimates:
        counts = truths[e.window.name].get(e.subject.label)
        if counts is None or not world.is_quiet(e.subject.label, at[e.window.name]):
            continue
        rows, limits = counts.where(e.where), (e.interval.low, e.interval.high)
        truth = _measured(e, rows, found.baselines[e.subject.label]) if rows.rows else None
        if truth is not None and e.interval.value is not None and None not in limits:
            low, high = (limit or 0.0 for limit in limits)
            lines.append(
                Compared(e.subject.label, e.window.name, e.metric, e.where, e.n, e.interval.value, low, high, truth)
            )
    return lines


def _truths(world: World, warehouse: Warehouse, window: Window) -> dict[str | None, Counts]:
    """The counts of the rows that had no truth at the end of a week, with their later truths."""
    waited = f"predicted_at < TIMESTAMPTZ '{window.end}' AND resolved_at >= TIMESTAMPTZ '{window.end}'"
    relation = f"SELECT * FROM {world.source.relation} WHERE predicted_at >= TIMESTAMPTZ '{window.start}' AND {waited}"
    settings = {"relation": relation, "window_on": "predicted_at", "unresolved": None}
    reading = warehouse.read(
        world.name, world.source.model_copy(update=settings), window, now=_late(world), whole=False
    )  # fmt: skip
    labels: dict[str | None, Counts] = dict(reading.labels.items())
    return labels | ({None: pool(reading.labels.values())} if labels else {})


def chances(world: World) -> dict[tuple[str, str], float]:
    """(label, start of the week) -> the mean probability with which the truths of its waiting rows were drawn."""
    if world.source.kind != "single_label":
        return {}
    week_of = "date_trunc('week', predicted_at)"
    keys = f"predicted_label, strftime({week_of}, '%Y-%m-%d')"
    waited = f"resolved_at >= {week_of} + INTERVAL 7 DAY"
    with duckdb.connect(world.url.removeprefix("duckdb:///"), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(
            f"SELECT {keys}, avg(chance) FROM {world.source.relation} WHERE {waited} GROUP BY ALL"
        ).fetchall()
    return {(label, start): chance for label, start, chance in found}


def _measured(e: Estimate, rows: Counts, baseline: Baseline) -> float | None:
    if e.metric == "expected_ece":
        return float(analytic_points(stack([bin_counts(rows, baseline.edges[e.where])]))[0])
    value = METRICS[e.metric.removeprefix("expected_")].point(rows)
    return None if value is None else float(value)


# --- NannyML


@dataclass(frozen=True, slots=True)
class Theirs:
    """NannyML's accuracy by (label, start of the week), its processor seconds, and how many estimates failed."""

    values: Mapping[tuple[str, str], float]
    loading: float
    seconds: float
    failed: int
    version: str


def theirs(world: World, python: str, folder: Path) -> Theirs:
    """NannyML's estimates of the same rows, in its own process. Its seconds do not include the import."""
    reference, waiting = folder / "reference.parquet", folder / "waiting.parquet"
    first, last = world.weeks[0], world.weeks[BASELINE_WEEKS - 1]
    with duckdb.connect(world.url.removeprefix("duckdb:///"), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        condition = f"resolved_at >= TIMESTAMPTZ '{first.start}' AND resolved_at < TIMESTAMPTZ '{last.end}'"
        connection.execute(f"COPY ({_rows(world, condition)}) TO '{reference}'")
        week_end = "date_trunc('week', predicted_at) + INTERVAL 7 DAY"
        condition = f"predicted_at >= TIMESTAMPTZ '{last.end}' AND resolved_at >= {week_end}"
        connection.execute(f"COPY ({_rows(world, condition)}) TO '{waiting}'")
    out = folder / "theirs.json"
    subprocess.run(  # noqa: S603 - the interpreter is an argument
        [python, str(PEER), str(reference), str(waiting), str(out)], check=True, env=_QUIET
    )
    found = json.loads(out.read_text("utf-8"))
    values = {(label, start): value for label, start, value in found["values"]}
    return Theirs(values, found["loading"], found["seconds"], found["failed"], found["version"])


_QUIET = {**os.environ, "NML_DISABLE_USAGE_LOGGING": "1", "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}


def _rows(world: World, condition: str) -> str:
    """SQL of label, score, decision, truth and time of the valid rows, without duplicates."""
    if world.source.kind == "single_label":
        columns = (
            "predicted_label AS label, confidence AS score, 1 AS decided, (true_label = predicted_label)::INT AS truth"
        )
        return (
            f"SELECT {columns}, predicted_at AS at FROM {world.source.relation} WHERE {condition} ORDER BY predicted_at"
        )
    columns = "label::VARCHAR AS label, score, predicted AS decided, actual::INT AS truth, predicted_at AS at"
    sound = "score BETWEEN 0 AND 1 AND actual IN (0, 1) AND predicted IN (0, 1)"
    newest = "QUALIFY row_number() OVER (PARTITION BY item, label ORDER BY resolved_at DESC) = 1"
    return f"SELECT {columns} FROM {world.source.relation} WHERE {condition} AND {sound} {newest} ORDER BY predicted_at"


# --- tables


def held_table(found: Mapping[str, Sequence[Compared]]) -> Table:
    """The table of coverage and bias by world, metric and population."""
    lines = []
    for name, estimates in found.items():
        for whole in (False, True):
            for key in sorted({(c.metric, c.where) for c in estimates}):
                group = [c for c in estimates if (c.metric, c.where) == key and (c.label is None) == whole]
                if group:
                    errors = np.array([c.error for c in group])
                    n = float(np.median([c.n for c in group]))
                    numbers = (
                        f"{np.mean([c.held for c in group]):.3f}",
                        f"{errors.mean():+.4f}",
                        f"{np.abs(errors).mean():.4f}",
                    )
                    what = "all labels" if whole else "labels"
                    lines.append((name, what, *key, f"{len(group):,}", f"{n:,.0f}", *numbers))
    columns = ("world", "of", "metric", "where", "estimates", "rows (median)", "held", "bias", "error")
    note = "held: the share of estimates whose 95% interval holds the value measured later; error: their mean distance"
    return Table("Estimates before the truth against the truth", columns, tuple(lines), (note,), texts=4)


def peer_table(worlds: Mapping[str, tuple[World, Ours, Sequence[Compared], Theirs]]) -> Table:
    """The table of error and time of the expected accuracy of each label and week, ours and NannyML's."""
    lines = []
    for name, (world, mine, every, peer) in worlds.items():
        starts = {window.name: f"{window.start:%Y-%m-%d}" for window in world.weeks}
        drawn = chances(world)
        shared = [
            (c.value, peer.values[key], c.truth, drawn.get(key, np.nan))
            for c in every
            if (c.metric, c.where) == ("expected_accuracy", "all") and c.label is not None
            for key in [(c.label, starts[c.week])]
            if key in peer.values
        ]
        us, them, truth, chance = np.array(shared).T
        apart = [np.abs(each - of).mean() for of in (truth, chance) for each in (us, them)]
        both = mine.reading + mine.of_accuracy, peer.loading + peer.seconds
        lines.append(
            (
                name, f"{len(shared):,}", *("–" if np.isnan(error) else f"{error:.4f}" for error in apart),
                f"{mine.reading:.2f} s", f"{mine.of_accuracy:.3f} s", f"{mine.of_everything:.2f} s",
                f"{peer.loading:.2f} s", f"{peer.seconds:.1f} s",
                f"{peer.seconds / mine.of_accuracy:.0f} x", f"{both[1] / both[0]:.0f} x",
            )
        )  # fmt: skip
    errors, times = ("error", "theirs", "of the chance", "theirs"), ("reading", "accuracy", "everything")
    columns = ("world", "estimates", *errors, *times, "their loading", "their accuracy", "faster", "with reading")
    version = next(iter(worlds.values()))[-1].version
    notes = (
        f"theirs: NannyML {version}, CBPE of the accuracy of each label by week; seconds of a processor, no imports",
        "reading: rows of the baseline and of each week, grouped by DuckDB; their loading: two Parquet files of these",
        "of the chance: distance from the mean chance with which the truths were drawn, which has no luck in it",
        "everything: three metrics of all, predicted and automated rows, of each label and all together, with limits",
    )
    return Table("Beside NannyML", columns, tuple(lines), notes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="items a week of the 77 intents")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--nannyml", metavar="PYTHON", help="an interpreter that has NannyML")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worlds = {w.name: w for w in (*demo_worlds(folder, given.seed), intents_world(folder, given.seed, given.items))}
        mine = {each: ours(world) for each, world in worlds.items()}
        found = {each: compared(world, mine[each]) for each, world in worlds.items()}
        tables = [held_table(found)]
        if given.nannyml:
            peers = {each: theirs(world, given.nannyml, folder) for each, world in worlds.items()}
            tables.append(peer_table({each: (worlds[each], mine[each], found[each], peers[each]) for each in worlds}))
    for table in tables:
        if given.markdown:
            print(table.markdown(), end="\n\n")
        else:
            table.show(console())


if __name__ == "__main__":
    main()
