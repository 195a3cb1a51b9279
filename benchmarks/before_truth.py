"""Estimates before the truth, compared with the later truth of the same rows.

Two worlds. *demo*: the two sources of the demo, without the labels and weeks of its planted changes. *intents*: 77
intents as in Banking77, one row for each item with its predicted intent and confidence. The shares of intents and the
difficulty of items change from week to week; calibration does not. Half of the truths come within five days.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
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
from monitor.core.counts import Counts, bin_counts, pool
from monitor.core.records import Estimate, Where, Window
from monitor.core.windows import before, week
from monitor.demo.generator import write_demo
from monitor.demo.population import PLANTED
from monitor.evaluation.before_truth import estimates_before_truth
from monitor.inference.gaps import analytic_points, stack
from monitor.inference.levels import law_of
from monitor.warehouse.reader import Warehouse

SEED = 20260101
ZONE = ZoneInfo("UTC")
LAST = "2026-W46"
BASELINE_WEEKS = 8
INTENTS, INTENT_WEEKS = 77, 20
MEDIAN_DAYS, SIGMA_DAYS = 5.0, 1.0
EVALUATION = EvaluationConfig()


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
    known = {"relation": relation, "score_is": score_is, "unresolved": True}
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
    right = rng.random(items) < 1 / (1 + np.exp(-(tilt[intent] + slope[intent] * logit)))
    other = (intent + rng.integers(1, INTENTS, items)) % INTENTS
    predicted_at = window.start + pd.to_timedelta(np.sort(rng.random(items)) * 7 * 86_400, unit="s")
    delay = pd.to_timedelta(MEDIAN_DAYS * np.exp(SIGMA_DAYS * rng.standard_normal(items)) * 86_400, unit="s")
    return pd.DataFrame(
        {
            "item": [f"i{number}-{place}" for place in range(items)],
            "predicted_label": np.char.add("intent ", intent.astype(str)),
            "confidence": confidence,
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
    """Our estimates by week, and the baselines."""

    estimates: tuple[Estimate, ...]
    baselines: Mapping[str | None, Baseline]


def ours(world: World) -> Ours:
    """Our estimates. The baseline is read once, then the waiting rows of each later week, both from the warehouse."""
    later = world.weeks[BASELINE_WEEKS:]
    with Warehouse.from_url(world.url) as warehouse:
        pinned = baselines_of(world, warehouse)
        waiting = [warehouse.unresolved(world.name, world.source, window) for window in later]
    found = [e for rows in waiting for e in estimates_before_truth(world.name, rows, pinned, EVALUATION, pinned)]
    return Ours(tuple(found), pinned)


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
    settings = {"relation": relation, "window_on": "predicted_at", "unresolved": False}
    reading = warehouse.read(
        world.name, world.source.model_copy(update=settings), window, now=_late(world), whole=False
    )  # fmt: skip
    labels: dict[str | None, Counts] = dict(reading.labels.items())
    return labels | ({None: pool(reading.labels.values())} if labels else {})


def _measured(e: Estimate, rows: Counts, baseline: Baseline) -> float | None:
    if e.metric == "expected_ece":
        return float(analytic_points(stack([bin_counts(rows, baseline.edges[e.where])]))[0])
    law = law_of(e.metric.removeprefix("expected_"), rows)
    return None if law is None else law.value


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="items a week of the 77 intents")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worlds = {w.name: w for w in (*demo_worlds(folder, given.seed), intents_world(folder, given.seed, given.items))}
        mine = {each: ours(world) for each, world in worlds.items()}
        found = {each: compared(world, mine[each]) for each, world in worlds.items()}
    table = held_table(found)
    print(table.markdown()) if given.markdown else table.show(console())


if __name__ == "__main__":
    main()
