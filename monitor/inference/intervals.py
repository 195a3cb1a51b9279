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

from monitor.counts import BinCounts, Floats
from monitor.inference.gaps import analytic_limits, curves, stack
from monitor.inference.maximum import clopper_pearson, largest_gap, only_filled, point
from monitor.inference.merging import merge_thin
from monitor.inference.resampling import bootstrap_positions, whole_rows
from monitor.records import Interval

__all__ = ["Form", "MceInterval", "breaching_bins", "ece_intervals", "mce_interval", "merge_thin"]

Form = Literal["bootstrap", "analytic", "percentile"]

_NOTHING = Interval(None, None, None, None)
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
    that a result does not depend on which other tables are asked about at the same time.

    * ``bootstrap``: hits drawn per bin, ``resamples`` times, under each hypothesis (the default);
    * ``analytic``: the same inversion with an Edgeworth expansion, for very many tables;
    * ``percentile``: the textbook bootstrap, kept for comparison only: it may never cover.

    Raises ValueError for another form, or where a generator is missing.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> calm = bin_counts(counts_from_rows([0.2] * 100, [1] * 20 + [0] * 80), (10000,))
    >>> found = ece_intervals([calm], [], form="analytic")[0]
    >>> found.value, found.low, round(found.high, 2)
    (0.0, 0.0, 0.09)
    """
    if form not in ("bootstrap", "analytic", "percentile"):
        raise ValueError(f"form must be bootstrap, analytic or percentile, not {form!r}")
    if form != "analytic" and len(rngs) != len(tables):
        raise ValueError(f"one generator a table is needed: {len(tables)} tables, {len(rngs)} generators")
    filled = [index for index, table in enumerate(tables) if (table.w > 0).any()]
    found = [_NOTHING] * len(tables)
    for first in range(0, len(filled), _AT_ONCE):
        part = filled[first : first + _AT_ONCE]
        chosen = [tables[index] for index in part]
        if form == "percentile":
            intervals = [_percentile(tables[index], rngs[index], confidence, resamples) for index in part]
        elif form == "analytic":
            intervals = _analytic(chosen, confidence)
        else:
            intervals = _bootstrap(chosen, [rngs[index] for index in part], confidence, resamples)
        for index, interval in zip(part, intervals, strict=True):
            found[index] = interval
    return found


def _records(limits: tuple[Floats, Floats, Floats], plug_in: Floats) -> list[Interval]:
    low, value, high = (limit.tolist() for limit in limits)
    textbook = np.clip(plug_in, 0.0, 1.0).tolist()
    return [Interval(*numbers) for numbers in zip(value, low, high, textbook, strict=True)]


def _analytic(tables: Sequence[BinCounts], confidence: float) -> list[Interval]:
    stacked = stack(tables)
    return _records(analytic_limits(stacked, confidence), stacked.plug_in)


def _bootstrap(
    tables: Sequence[BinCounts], rngs: Sequence[np.random.Generator], confidence: float, resamples: int
) -> list[Interval]:
    stacked = stack(tables)
    asked = curves(stacked, confidence)
    position = asked.analytic()
    for row, rng in enumerate(rngs):
        own = np.arange(4) * len(tables) + row
        position[own] = bootstrap_positions(asked.take(own), position[own], rng, resamples)
    return _records(asked.limits(position), stacked.plug_in)


def _percentile(table: BinCounts, rng: np.random.Generator, confidence: float, resamples: int) -> Interval:
    """Quantiles of resampled plug-in ECEs; widened to hold the plug-in, which they often do not."""
    bins = whole_rows(stack([table]))
    n, score, share = bins.n[0], bins.score[0], bins.share[0]
    drawn = rng.binomial(n.astype(np.int64), np.clip(score + bins.gap[0], 0, 1), size=(resamples, len(n)))
    error = (share * np.abs(drawn / n - score)).sum(axis=1)
    low, high = np.quantile(error, [(1 - confidence) / 2, (1 + confidence) / 2])
    value = min(float(bins.plug_in[0]), 1.0)
    return Interval(value, min(float(low), value), min(max(float(high), value), 1.0), value)


@dataclass(frozen=True, slots=True)
class MceInterval:
    """The MCE with its interval, and the bin it comes from.

    ``worst`` is the index of that bin in ``bins`` (thin bins merged), ``worst_range`` its scores
    (lower, upper], ``worst_n`` its rows, ``worst_gap`` its hit rate minus its mean score (negative:
    more was promised than kept). Without a row: -1, (0, 1), 0 and 0.
    """

    interval: Interval
    worst: int
    worst_range: tuple[float, float]
    worst_n: int
    worst_gap: float
    bins: BinCounts


def mce_interval(bins: BinCounts, *, confidence: float = 0.95) -> MceInterval:
    """The MCE over bins of 100 rows and more, median-unbiased, with exact limits; names the worst bin.

    Thin adjacent bins are merged first; ``plug_in`` is the textbook value of the bins as given. The
    lower limit shares its error among the M bins (Bonferroni), the upper one does not need to.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> rows = counts_from_rows([0.9] * 200, [1] * 120 + [0] * 80)
    >>> found = mce_interval(bin_counts(rows, (10000,)))
    >>> round(found.interval.low, 3), round(found.interval.high, 3), round(found.worst_gap, 3), found.worst_n
    (0.232, 0.371, -0.3, 200)
    """
    merged = merge_thin([bins])[0]
    if not (merged.w > 0).any():
        return MceInterval(_NOTHING, -1, (0.0, 1.0), 0, 0.0, merged)
    whole = stack([merged])
    table = only_filled(whole)
    low = float(_lower_limits(merged, confidence).max())
    high = float(_upper_limits(merged, confidence).max())
    value = min(max(point(table), low), high)
    worst = int(np.argmax(np.abs(whole.gap[0])))
    return MceInterval(
        interval=Interval(value, low, high, largest_gap(stack([bins]))),
        worst=worst,
        worst_range=merged.range_of(worst),
        worst_n=int(merged.n[worst]),
        worst_gap=float(whole.gap[0, worst]),
        bins=merged,
    )


def _lower_limits(merged: BinCounts, confidence: float) -> Floats:
    """How far from its mean score each bin's hit rate is at least, all bins at once; (M,), 0 where empty."""
    table = stack([merged])
    filled = table.share[0] > 0
    n, score = table.n[0], table.score[0]
    low, high = clopper_pearson(n * (score + table.gap[0]), n, (1 - confidence) / (2 * max(int(filled.sum()), 1)))
    return np.where(filled, np.maximum(0.0, np.maximum(low - score, score - high)), 0.0)


def _upper_limits(merged: BinCounts, confidence: float) -> Floats:
    """How far from its mean score each bin's hit rate may be; (M,), 0 where empty."""
    table = stack([merged])
    n, score = table.n[0], table.score[0]
    low, high = clopper_pearson(n * (score + table.gap[0]), n, (1 - confidence) / 2)
    return np.where(table.share[0] > 0, np.maximum(np.abs(low - score), np.abs(high - score)), 0.0)


def breaching_bins(bins: BinCounts, threshold: float, confidence: float) -> list[tuple[float, float]]:
    """The score ranges (lower, upper] whose gap is surely above ``threshold``, adjacent ones joined.

    "Surely": the bin's own lower limit (thin bins merged, error shared among all of them) exceeds it.
    """
    merged = merge_thin([bins])[0]
    beyond = _lower_limits(merged, confidence) > threshold
    ranges: list[tuple[float, float]] = []
    for index in np.flatnonzero(beyond).tolist():
        low, high = merged.range_of(index)
        if ranges and beyond[index - 1]:
            low = ranges.pop()[0]
        ranges.append((low, high))
    return ranges
