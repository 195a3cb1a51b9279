"""Confidence intervals of the expected and the maximum calibration error.

The textbook ECE is biased upwards, and resampling it adds the bias once more, so that the usual
bootstrap interval can miss the truth every time. Here the interval is the set of true ECEs under
which the observed one would not be surprising (test inversion, with noise drawn per bin). The MCE
has exact binomial (Clopper-Pearson) limits. ``docs/statistics.md`` shows how often they cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from monitor.core.counts import BinCounts, Floats
from monitor.core.records import Interval
from monitor.inference.bins import merge_thin
from monitor.inference.gaps import GapTables, curves, each_at, stack
from monitor.inference.maximum import clopper_pearson, points
from monitor.inference.resampling import bootstrap_positions
from monitor.inference.shared import at_least_shared

Form = Literal["bootstrap", "analytic"]

NOTHING = Interval(None, None, None, None)
"""Of a metric that the rows do not define, or that a source does not have."""
_AT_ONCE = 1024  # tables worked on together: their arrays stay in the processor's cache


def ece_intervals(
    tables: Sequence[BinCounts],
    rngs: Sequence[np.random.Generator],
    *,
    confidence: float = 0.95,
    form: Form = "bootstrap",
    resamples: int = 1000,
) -> list[Interval]:
    """The ECE of each table, debiased, with its interval; all None for a table without rows.

    ``rngs`` has one generator a table (not used, and may be empty, for ``form="analytic"``), so
    that a result does not depend on the other tables of the call. Where rows are
    clustered (fewer effective rows than rows), the upper limit of both forms also allows for
    noise that bins share: see ``monitor.inference.shared``.

    * ``bootstrap``: hits drawn per bin, ``resamples`` times, under each hypothesis (the default);
    * ``analytic``: the same inversion with an Edgeworth expansion, for very many tables.

    Raises ValueError where a generator is missing.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> calm = bin_counts(counts_from_rows([0.2] * 100, [1] * 20 + [0] * 80), (10000,))
    >>> found = ece_intervals([calm], [], form="analytic")[0]
    >>> found.value, found.low, round(found.high, 2)
    (0.0, 0.0, 0.09)
    """
    if form != "analytic" and len(rngs) != len(tables):
        raise ValueError(f"one generator a table is needed: {len(tables)} tables, {len(rngs)} generators")
    found = [NOTHING] * len(tables)
    for part in _batches(tables):
        chosen = [tables[index] for index in part]
        generators = [] if form == "analytic" else [rngs[index] for index in part]
        intervals = _inverted(chosen, generators, confidence, resamples)
        for index, interval in zip(part, intervals, strict=True):
            found[index] = interval
    return found


def _inverted(
    tables: Sequence[BinCounts], rngs: Sequence[np.random.Generator], confidence: float, resamples: int
) -> list[Interval]:
    """Intervals by test inversion: in closed form, refined by draws where there are generators.

    Draws do not lower the upper limit where a bin has less than one effective row: bins that are drawn together make
    a small ECE look impossible under every hypothesis, so that less evidence would give a lower limit.
    """
    stacked = stack(tables)
    questions = curves(stacked, confidence, stack(tables, inside=True))
    position = questions.analytic()
    thin = (stacked.n < 1).any(axis=1)
    least = np.where(thin, questions.limits(position)[2], 0.0) if thin.any() else 0.0
    for row, rng in enumerate(rngs):
        four = np.arange(4) * len(tables) + row
        position[four] = bootstrap_positions(each_at(questions, four), position[four], rng, resamples)
    low, value, high = questions.limits(position)
    high = at_least_shared(tables, np.maximum(high, least), confidence)
    columns = (column.tolist() for column in (value, low, high, np.clip(stacked.plug_in, 0.0, 1.0)))
    return [Interval(*numbers) for numbers in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class MceInterval:
    """The MCE with its interval, and the bin it comes from.

    That bin is one of ``bins`` (thin bins merged): ``worst_range`` are its scores (lower, upper],
    ``worst_n`` its rows, ``worst_gap`` its hit rate minus its mean score (negative: the scores were
    too high). Without a row: (0, 1), 0 and 0.
    """

    interval: Interval
    worst_range: tuple[float, float]
    worst_n: int
    worst_gap: float
    bins: BinCounts


def mce_intervals(tables: Sequence[BinCounts], *, confidence: float = 0.95) -> list[MceInterval]:
    """The MCE of each table over bins of 100 rows and more, median-unbiased, with exact limits; names the worst bin.

    Thin adjacent bins are merged first; ``plug_in`` is the textbook value of the bins as given. The
    lower limit shares its error among the M bins (Bonferroni), the upper one does not need to.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> rows = counts_from_rows([0.9] * 200, [1] * 120 + [0] * 80)
    >>> (found,) = mce_intervals([bin_counts(rows, (10000,))])
    >>> round(found.interval.low, 3), round(found.interval.high, 3), round(found.worst_gap, 3), found.worst_n
    (0.232, 0.371, -0.3, 200)
    """
    merged = [merge_thin([table])[0] for table in tables]
    found = [MceInterval(NOTHING, (0.0, 1.0), 0, 0.0, bins) for bins in merged]
    for part in _batches(merged):
        table = stack([merged[index] for index in part])
        ends = clopper_pearson(*_outcomes(table), (1 - confidence) / 2)
        farthest = np.maximum(*(np.abs(end - table.score) for end in ends))
        low, high = _lower_limits(table, confidence).max(axis=1), np.where(table.share > 0, farthest, 0.0).max(axis=1)
        value = np.minimum(np.maximum(points(table), low), high)
        worst = np.abs(table.gap).argmax(axis=1)
        gap = np.take_along_axis(table.gap, worst[:, None], axis=1)[:, 0]
        plug_in = np.abs(stack([tables[index] for index in part]).gap).max(axis=1)
        columns = (column.tolist() for column in (value, low, high, plug_in, worst, gap))
        for index, *numbers, at, difference in zip(part, *columns, strict=True):
            bins = merged[index]
            interval = Interval(*numbers)
            found[index] = MceInterval(interval, bins.range_of(at), int(bins.n[at]), difference, bins)
    return found


def _batches(tables: Sequence[BinCounts]) -> list[list[int]]:
    """The indices of the tables with rows, sorted by number of bins, in parts to compute at once."""
    filled = [index for index, table in enumerate(tables) if table.w.max(initial=0.0) > 0]
    filled.sort(key=lambda index: len(tables[index].n))
    return [filled[first : first + _AT_ONCE] for first in range(0, len(filled), _AT_ONCE)]


def _lower_limits(table: GapTables, confidence: float) -> Floats:
    """The least distance of each bin's hit rate from its mean score, for all bins jointly; (T, M), 0 where empty."""
    filled = table.share > 0
    score = table.score
    tail = (1 - confidence) / (2 * np.maximum(filled.sum(axis=1, keepdims=True), 1))
    low, high = clopper_pearson(*_outcomes(table), tail)
    return np.where(filled, np.maximum(0.0, np.maximum(low - score, score - high)), 0.0)


def _outcomes(table: GapTables) -> tuple[Floats, Floats]:
    """The hits and misses of each bin, (T, M)."""
    hits = table.n * np.minimum(table.score + table.gap, 1.0)
    return hits, table.n - hits


def breaching_bins(bins: BinCounts, threshold: float, confidence: float) -> list[tuple[float, float]]:
    """The score ranges (lower, upper] whose gap is significantly above ``threshold``, adjacent ones joined.

    A bin's own lower limit (thin bins merged, error shared among all of them) exceeds the threshold.
    """
    merged = merge_thin([bins])[0]
    beyond = _lower_limits(stack([merged]), confidence)[0] > threshold
    ranges: list[tuple[float, float]] = []
    for index in np.flatnonzero(beyond).tolist():
        low, high = merged.range_of(index)
        if ranges and beyond[index - 1]:
            low = ranges.pop()[0]
        ranges.append((low, high))
    return ranges
