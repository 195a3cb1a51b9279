"""Functions for one table (or sample), made from those for many together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.core.counts import CELLS, BinCounts, Counts
from monitor.inference.bins import merge_thin
from monitor.inference.change import Side, ece_increase_ps, ece_level_ps, mce_increase_ps, mce_level_ps
from monitor.inference.detectability import (
    ece_increase_detectables,
    ece_level_detectables,
    mce_increase_detectables,
    mce_level_detectables,
)
from monitor.inference.intervals import MceInterval, mce_intervals
from monitor.inference.levels import law_of
from monitor.inference.maximum import Unchanged
from monitor.inference.maximum import unchanged as unchanged_pairs


def table(rows: npt.ArrayLike, score: npt.ArrayLike, rate: npt.ArrayLike, effect: npt.ArrayLike = 1.0) -> BinCounts:
    """Bins with these rows, mean scores, hit rates and design effects, edges evenly spread."""
    w = np.array(rows, dtype=float)
    upper = np.array([CELLS * (k + 1) // len(w) for k in range(len(w))])
    return BinCounts(upper, w.astype(int), w, w * np.array(score), w * np.array(rate), w / effect)


def merged(window: BinCounts, baseline: BinCounts) -> tuple[BinCounts, BinCounts]:
    now, then = merge_thin([window, baseline])
    return now, then


def mce_interval(bins: BinCounts, *, confidence: float = 0.95) -> MceInterval:
    return mce_intervals([bins], confidence=confidence)[0]


def unchanged(window: BinCounts, baseline: BinCounts) -> Unchanged:
    return unchanged_pairs([(window, baseline)])


def ece_increase_p(window: BinCounts, baseline: BinCounts) -> float:
    return ece_increase_ps([(window, baseline)])[0]


def mce_increase_p(window: BinCounts, baseline: BinCounts) -> float:
    return mce_increase_ps([merged(window, baseline)])[0]


def ece_level_p(bins: BinCounts, threshold: float, *, side: Side = "above") -> float:
    return ece_level_ps([bins], threshold, side=side)[0]


def mce_level_p(bins: BinCounts, threshold: float, *, side: Side = "above") -> float:
    return mce_level_ps(merge_thin([bins]), threshold, side=side)[0]


def ece_increase_detectable(window: BinCounts, baseline: BinCounts, *, rate: float) -> float | None:
    return ece_increase_detectables([(window, baseline)], rate=rate)[0]


def mce_increase_detectable(window: BinCounts, baseline: BinCounts, *, rate: float) -> float | None:
    return mce_increase_detectables([merged(window, baseline)], rate=rate)[0]


def ece_level_detectable(bins: BinCounts, threshold: float, *, rate: float, side: Side = "above") -> float | None:
    return ece_level_detectables([bins], threshold, rate=rate, side=side)[0]


def mce_level_detectable(bins: BinCounts, threshold: float, *, rate: float, side: Side = "above") -> float | None:
    return mce_level_detectables(merge_thin([bins]), threshold, rate=rate, side=side)[0]


def level_p(name: str, counts: Counts, threshold: float, side: Side) -> float | None:
    law = law_of(name, counts)
    return None if law is None else law.p_value(threshold, side)


def level_detectable(name: str, counts: Counts, threshold: float, side: Side, rate: float) -> float | None:
    law = law_of(name, counts)
    return None if law is None else law.detectable(threshold, side, rate)
