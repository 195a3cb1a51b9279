"""Applies a score map to many scores, and to counts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from monitor.core.counts import CELLS, Counts, Floats
from monitor.recalibration.score_map import CLIP, ScoreMap


def apply(score_map: ScoreMap, scores: npt.ArrayLike) -> Floats:
    """The new scores of old ones in [0, 1], of any shape; raises ValueError for another number (NaN too).

    >>> apply(ScoreMap("temperature", slope=0.5), [0.9, 0.5]).round(6).tolist()
    [0.75, 0.5]
    """
    old = np.asarray(scores, dtype=np.float64)
    wrong = ~((old >= 0) & (old <= 1))
    if wrong.any():
        raise ValueError(f"scores must lie in [0, 1]; {int(wrong.sum())} do not, such as {old[wrong].flat[0]}")
    return _stepped(score_map, old) if score_map.method == "isotonic" else _straight(score_map, clipped_logit(old))


def _stepped(score_map: ScoreMap, scores: Floats) -> Floats:
    x, y = np.array(score_map.knots).T
    return np.asarray(np.interp(scores, x, y))


def _straight(score_map: ScoreMap, logits: Floats) -> Floats:
    return np.asarray(expit(score_map.slope * logits + score_map.intercept))


def clipped_logit(scores: Floats) -> Floats:
    """ln(s / (1 - s)), with scores near 0 and 1 held off them."""
    return np.asarray(logit(np.clip(scores, CLIP, 1 - CLIP)))


@lru_cache(maxsize=16)  # compared by identity: the parts of five folds, for which two methods need the same
def logits(counts: Counts) -> Floats:
    """:func:`clipped_logit` of the mean score of each group, (K,), which cannot be changed."""
    found = clipped_logit(counts.score)
    found.setflags(write=False)
    return found


def mapped(score_map: ScoreMap, counts: Counts) -> Floats:
    """:func:`apply` on the mean score of each group of positive weight, (K,)."""
    if score_map.method == "isotonic":
        return _stepped(score_map, counts.score)
    return _straight(score_map, logits(counts))


def rescored(counts: Counts, score: Floats) -> Counts:
    """The groups (K,) with new scores (K,), in the cells of the old ones."""
    return replace(counts, ws=counts.w * score, wsy=counts.wy * score, ws2=counts.w * score**2)


def moved(counts: Counts, score: Floats) -> Counts:
    """The groups (K,) of positive weight with new scores (K,), in the cells of these."""
    cell = np.floor(score * CELLS + 0.5).astype(np.int64)
    return replace(rescored(counts, score), cell=cell).by_cell()
