"""The cost of the statistics as windows grow: the same labels with 100,000 to 100,000,000 rows each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from benchmarks.contestants import CONFIDENCE, SEED
from benchmarks.peers import BINS
from benchmarks.populations import LABELS, Population, endless
from benchmarks.size import Size
from benchmarks.tables import Table
from benchmarks.timing import Timing, fresh, in_turns, number, times
from benchmarks.weeks import BASELINE_ENDS, SOURCE, shipped
from monitor.core import windows
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import CELLS, BinCounts, Counts, bin_counts, counts_from_groups, equal_frequency_edges
from monitor.evaluation.evaluate import SourceData, WindowCounts, verdicts_of
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.inference.intervals import Form, ece_intervals, mce_intervals
from monitor.inference.memory import forget

WANTED = 1.3
"""The largest window may cost this many times as much as the smallest."""
BASELINE = 8  # the baseline has this many times the window's rows: the shipped number of weeks


def tables(size: Size) -> Iterator[Table]:
    """The table, measured in its own process."""
    yield table_of(size, fresh(timings, size))


def timings(size: Size) -> dict[int, list[Timing]]:
    """Rows per label -> the timings; everything in turns, after one round to warm up."""
    runs = {
        (rows, name): run
        for rows in size.grown
        for name, run in _work([drawn(label, rows, SEED) for label in LABELS[: size.labels]], rows).items()
    }
    found = in_turns({f"{rows} {name}": run for (rows, name), run in runs.items()}, size.grown_rounds, warm_up=True)
    by_rows: dict[int, list[Timing]] = {rows: [] for rows in size.grown}
    for (rows, name), timing in zip(runs, found, strict=True):
        by_rows[rows].append(Timing(name, timing.seconds))
    return by_rows


def drawn(population: Population, rows: int, seed: int) -> Counts:
    """The counts of ``rows`` rows, drawn directly by cell (rows and hits) and not row by row."""
    made = endless(population)
    rng = np.random.default_rng((seed, rows, *population.name.encode()))
    cell, first, points = np.unique(made.cell, return_index=True, return_counts=True)
    n = rng.multinomial(rows, points / points.sum())
    hits = rng.binomial(n, made.worth[first])
    is_used = n > 0
    cell, n, hits, score = cell[is_used], n[is_used], hits[is_used].astype(np.float64), cell[is_used] / CELLS
    predicted = score >= 0.5
    return counts_from_groups(
        {
            "cell": cell, "predicted": predicted, "automated": predicted & (score >= population.automate_at),
            "n": n, "w": n, "w2": n, "ws": n * score, "wy": hits, "wsy": hits * score, "ws2": n * score**2,
        },
        score_is="probability_of_label",
    )  # fmt: skip


def _work(counts: Sequence[Counts], rows: int) -> Mapping[str, Callable[[], object]]:
    """Name -> the timed function for windows of these counts; nothing is cached between calls."""

    def in_bins() -> list[BinCounts]:
        return [bin_counts(each, equal_frequency_edges(each, BINS)) for each in counts]

    def intervals(form: Form) -> object:
        rngs = [np.random.default_rng((SEED, label)) for label in range(len(counts))]
        return ece_intervals(in_bins(), rngs, confidence=CONFIDENCE, form=form)

    data, config = week_of(counts, rows), shipped()

    def compared() -> object:
        forget()
        shifts = tuple(source_shifts(SOURCE, data.current.window, data.current.labels, data.baselines))
        return [verdicts_of(rule, data, config, shifts) for rule in config.rules_for("weekly")]

    return {
        "edges and bins": in_bins,
        "edges, bins, ECE: analytic": lambda: intervals("analytic"),
        "edges, bins, ECE: bootstrap": lambda: intervals("bootstrap"),
        "edges, bins, MCE": lambda: mce_intervals(in_bins(), confidence=CONFIDENCE),
        "all weekly rules against a baseline": compared,
    }


def week_of(counts: Sequence[Counts], rows: int) -> SourceData:
    """The data of a run: a week with these counts, and a baseline of eight times as many rows of the same labels."""
    config = shipped()
    window = windows.week(BASELINE_ENDS, config.zone)
    before = windows.before(window, BASELINE, config.zone)
    baselines: dict[str | None, Baseline] = {}
    for label in LABELS[: len(counts)]:
        frozen = drawn(label, BASELINE * rows, SEED + 1)
        baselines[label.name] = Baseline(
            SOURCE, label.name, 1, before[-1].start, before[0].end, before[-1].name, before[0].name, frozen,
            edges_of(frozen, config.evaluation), before[0].end, "benchmark", "benchmark",
        )  # fmt: skip
    labels: dict[str | None, Counts] = {label.name: each for label, each in zip(LABELS, counts, strict=False)}
    return SourceData(SOURCE, WindowCounts(window, labels), baselines=baselines)


def table_of(size: Size, found: Mapping[int, Sequence[Timing]]) -> Table:
    """The table with a line for each function: its cost by rows, and the ratio of the largest to the smallest."""
    least, most = min(size.grown), max(size.grown)
    lines = list(zip(*(found[rows] for rows in size.grown), strict=True))
    growths = [line[-1].median / line[0].median for line in lines]
    rows = tuple(
        (line[0].name, *(number(timing.median) for timing in line), times(growth))
        for line, growth in zip(lines, growths, strict=True)
    )
    notes = (
        f"Wanted: less than {WANTED}x. The most that anything grows is {times(max(growths))}.",
        "Behind the counts, which are drawn directly; the warehouse's own cost does grow with the rows.",
        f"Seconds for all {size.labels} labels. The shipped rules, with nothing known of windows and baselines yet.",
    )
    title = f"Cost by rows a label: {size.labels} labels, one thread, medians of {size.grown_rounds} rounds, seconds"
    columns = ("what", *(f"{each:,} rows" for each in size.grown), f"{most:,} / {least:,}")
    return Table(title, columns, rows, notes)
