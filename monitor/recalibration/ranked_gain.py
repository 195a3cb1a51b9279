"""Recalibration of the k highest scores of items: one map fitted jointly on their rows, before and after by k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monitor.core.counts import Counts, difference, pool
from monitor.metrics.calibration import brier, equal_width_ece, nll
from monitor.metrics.top_k import precision_at
from monitor.recalibration.fitting import fit, mapped, moved
from monitor.recalibration.gain import FOLDS, folds
from monitor.recalibration.score_map import Method


@dataclass(frozen=True, slots=True)
class RankedQuality:
    """The k highest scores of each item: textbook ECE@k, Brier@k, NLL@k and P@k; None without rows."""

    k: int
    ece: float | None
    brier: float | None
    nll: float | None
    precision: float | None


@dataclass(frozen=True, slots=True)
class RankedGain:
    """One method: the quality for each k before, and after by maps that were fitted on other rows."""

    method: Method
    before: tuple[RankedQuality, ...]
    after: tuple[RankedQuality, ...]


def ranked_gain(method: Method, ranked: Mapping[int, Counts], rng: np.random.Generator, bins: int = 10) -> RankedGain:
    """The gain of one joint map for each k. Ullah et al., extreme multi-label classification.

    ``ranked`` are counts of the rows of rank 1 to k, by k. The map of a fold is fitted on all ranks of the other folds'
    rows of the largest k, so that it keeps the order of an item's labels: P@k and nDCG@k do not change. Raises
    :class:`~monitor.recalibration.fitting.CannotFit`.
    """
    ks = sorted(ranked)
    further = [difference(ranked[k], [ranked[less]]) for less, k in pairwise(ks)]
    bands = [ranked[ks[0]], *(band for band in further if band is not None)]
    shared = [folds(band.take(band.w > 0), FOLDS, rng) if band.w.any() else [] for band in bands]
    found: list[list[Counts]] = [[] for _ in bands]
    for turn in range(FOLDS):
        rest = pool([parts[turn].rest for parts in shared if parts])
        for place, parts in enumerate(shared):
            if parts:
                held = parts[turn].held
                found[place].append(moved(held, mapped(fit(method, rest), held)))
    before = tuple(_quality(k, bands[: place + 1], bins) for place, k in enumerate(ks))
    after = tuple(_quality(k, [c for part in found[: place + 1] for c in part], bins) for place, k in enumerate(ks))
    return RankedGain(method, before, after)


def _quality(k: int, parts: Sequence[Counts], bins: int) -> RankedQuality:
    whole = pool(parts)
    return RankedQuality(k, equal_width_ece(whole, bins), brier(whole), nll(whole), precision_at(whole))
