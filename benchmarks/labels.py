"""Very many labels: 1,000,000 items with five scored labels each, of 100,000 labels, few of them frequent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.contestants import CONFIDENCE, SEED
from benchmarks.peers import BINS
from benchmarks.scan import NOW, SOURCE, WINDOW, address
from benchmarks.size import Size
from benchmarks.tables import Table
from benchmarks.timing import fresh, number, peak, timed
from benchmarks.weeks import shipped
from monitor.core.baseline import edges_of
from monitor.core.counts import Counts, bin_counts, equal_frequency_edges
from monitor.core.records import Subject
from monitor.evaluation.estimates import Sample, estimate
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.warehouse.reader import Warehouse

PER_ITEM = 5
WANTED_S, WANTED_MIB = 30.0, 4096.0

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """A step, its seconds, and the peak memory of its process up to its end, in MiB."""

    name: str
    seconds: float
    memory: float


@dataclass(frozen=True, slots=True)
class Found:
    """The steps from the warehouse to the intervals, and figures about the labels."""

    reading: Step
    intervals: tuple[Step, ...]
    every_metric: Step
    labels: int
    rows: int
    groups: int
    largest: int
    median: float
    with_500: int


def tables(size: Size) -> Iterator[Table]:
    """The table. The rows are made in one process and measured in another."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warehouse.duckdb"
        fresh(write, path, size)
        yield table_of(size, fresh(measured, path, size))


def write(path: Path, size: Size) -> None:
    """Write a warehouse with all rows, in one week."""
    rng = np.random.default_rng(SEED)
    label = drawn_labels(rng, size).ravel()
    score = rng.beta(0.6, 3.0, len(label))
    rows = pd.DataFrame({
        "item": np.repeat(np.arange(size.items), PER_ITEM), "label": label, "score": score,
        "actual": (rng.random(len(label)) < score).astype(np.int8),
    })  # fmt: skip
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false")  # spawned processes would print it
        connection.register("made", rows)
        connection.execute(
            f"""
            CREATE TABLE predictions AS
            SELECT item::VARCHAR AS item, 'label ' || label AS label, score, actual,
                   TIMESTAMPTZ '{WINDOW.start.isoformat()}' + to_seconds(item * 604799.0 / {size.items}) AS resolved_at
            FROM made
            """
        )


def drawn_labels(rng: np.random.Generator, size: Size) -> Ints:
    """The labels of each item, all different, shape (items, 5).

    The frequency of the k-th label is proportional to 1/k (Zipf). Each label has a row: the first items have one each.
    """
    ends = np.cumsum(1 / np.arange(1, size.many + 1))
    found = np.searchsorted(ends, rng.random((size.items, PER_ITEM)) * ends[-1], side="right")
    found[: size.many, 0] = np.arange(size.many)
    for place in range(1, PER_ITEM):
        while (again := (found[:, :place] == found[:, place, None]).any(axis=1)).any():
            found[again, place] = np.searchsorted(ends, rng.random(int(again.sum())) * ends[-1], side="right")
    items: Ints = np.minimum(found, size.many - 1).astype(np.int64)
    return items


def measured(path: Path, size: Size) -> Found:
    """Measure from the warehouse to the intervals. Call it in its own process."""
    with Warehouse.from_url(address(path)) as warehouse:
        seconds, read = timed(lambda: warehouse.read("predictions", SOURCE, WINDOW, now=NOW))
    reading = Step("rows to counts of every label, on DuckDB", seconds, peak())
    names, counts = list(read.labels), list(read.labels.values())
    rows = np.array([each.rows for each in counts])
    return Found(
        reading, tuple(intervals(counts)), every_metric(names, counts, size), len(counts), int(rows.sum()),
        sum(len(each.cell) for each in counts), int(rows.max()), float(np.median(rows)), int((rows >= 500).sum()),
    )  # fmt: skip


def intervals(counts: Sequence[Counts]) -> Iterator[Step]:
    """The steps from the counts of every label to the debiased ECE and MCE, with their intervals."""
    seconds, edges = timed(lambda: [equal_frequency_edges(each, BINS) for each in counts])
    yield Step("equal-frequency edges", seconds, peak())
    seconds, bins = timed(lambda: [bin_counts(*each) for each in zip(counts, edges, strict=True)])
    yield Step("bins", seconds, peak())
    seconds, eces = timed(lambda: ece_intervals(bins, [], confidence=CONFIDENCE, form="analytic"))
    yield Step("ECE, analytic form", seconds, peak())
    seconds, mces = timed(lambda: mce_intervals(bins, confidence=CONFIDENCE))
    yield Step("MCE", seconds, peak())
    assert len(eces) == len(mces) == len(counts)
    assert all(e.value is not None and m.interval.value is not None for e, m in zip(eces, mces, strict=True))


def every_metric(names: Sequence[str], counts: Sequence[Counts], size: Size) -> Step:
    """All estimates of a run, of every population, on randomly picked labels; the time is scaled to all labels."""
    evaluation = shipped().evaluation.model_copy(update={"interval": "analytic"})
    picked = np.random.default_rng(SEED).permutation(len(names))[: size.estimated].tolist()

    def run() -> object:
        samples = [
            Sample(Subject("predictions", names[at]), counts[at], edges_of(counts[at], evaluation)) for at in picked
        ]
        return estimate(samples, WINDOW, evaluation)

    seconds, _ = timed(run)
    return Step(f"every metric of a run, of all kinds of rows (scaled from {len(picked):,} labels)",
                seconds * len(names) / len(picked), peak())  # fmt: skip


def table_of(size: Size, found: Found) -> Table:
    """The table of the steps, and of those between counts and intervals together."""
    total = sum(step.seconds for step in found.intervals)
    memory = max(step.memory for step in found.intervals)
    lines = [
        found.reading, *(Step(f"- {step.name}", step.seconds, step.memory) for step in found.intervals),
        Step("counts to ECE and MCE with 95% intervals", total, memory), found.every_metric,
    ]  # fmt: skip
    rows = tuple((step.name, number(step.seconds), f"{step.memory:,.0f}") for step in lines)
    notes = (
        f"Wanted for 100,000 labels: counts to intervals in less than {WANTED_S:.0f} s, and at most "
        f"{WANTED_MIB:,.0f} MiB. Here: {number(total)} s and {memory:,.0f} MiB.",
        f"{found.labels:,} labels, {found.rows:,} rows in {found.groups:,} groups; a label has {found.median:,.0f} "
        f"rows (median), the largest {found.largest:,}; {found.with_500:,} labels have 500 or more.",
        "MiB: what the process has held at most so far (getrusage), with Python, libraries, DuckDB and all counts. "
        "Every metric: of the labels that were asked about only.",
    )
    title = f"{size.many:,} labels, five scored labels an item, {size.items:,} items, one thread"
    return Table(title, ("step", "s", "MiB at most"), rows, notes)
