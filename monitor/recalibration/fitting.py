"""Fits score maps to counts: temperature, Platt, isotonic. Cells are weighted by their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded at first use, and most commands never use them
from scipy.special import expit, logit

from monitor.core.counts import CELLS, Counts, Floats
from monitor.core.records import Refused
from monitor.recalibration.score_map import CLIP, MOST_KNOTS, Method, ScoreMap

LEAST_TEMPERATURE, MOST_TEMPERATURE = 0.05, 20.0
_GRADIENT = 1e-9  # where it is smaller a logistic regression is done
_MOST_STEPS = 100
_SAME = 1e-15  # losses this close are equal but for rounding

_REVERSED = "higher scores do not come true more often: a map would turn their order round, or level them"


class CannotFit(Refused):
    """No map of this method can be fitted to these counts; ``reason`` is a heading of docs/recalibration.md."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def fit(method: Method, counts: Counts) -> ScoreMap:
    """A map of this method, fitted to these counts, with soft outcomes and with rows by weight.

    Raises :class:`CannotFit` if there are not two outcomes, or if low scores come true more often, so that a map would
    reverse their order.
    """
    held = counts.by_cell().weighted()
    positives, total = float(held.wy.sum()), float(held.w.sum())
    if not 0 < positives < total:
        raise CannotFit("one_outcome", "all rows have the same outcome: nothing can be learned from them")
    return _FITS[method](held)


def fit_temperature(counts: Counts) -> ScoreMap:
    """The temperature T at which expit(logit(s) / T) has the least log loss. Guo et al. 2017.

    It is searched between 1/20 and 20. Raises CannotFit if it would be larger: such scores carry no information, or are
    in reverse order.
    """
    z, w, wy = logits(counts), counts.w, counts.wy
    held = np.empty_like(z)

    def rise(slope: float) -> float:
        np.multiply(z, slope, out=held)
        np.multiply(expit(held, out=held), w, out=held)
        return float(z @ np.subtract(held, wy, out=held))

    least, most = 1 / MOST_TEMPERATURE, 1 / LEAST_TEMPERATURE
    ends = {least: rise(least), most: rise(most)}  # scipy asks for them again
    if ends[least] >= 0:
        raise CannotFit("order_reversed", _REVERSED)
    # the loss is convex in the slope, so its minimum is where it stops falling
    slope = most
    if ends[most] > 0:
        slope = float(scipy.optimize.brentq(lambda at: ends[at] if at in ends else rise(at), least, most))
    return ScoreMap("temperature", slope=slope, rows=counts.rows)


def fit_platt(counts: Counts) -> ScoreMap:
    """Logistic regression of the outcome on logit(s), without penalty. Platt 1999.

    As in the paper, outcomes 1 and 0 are replaced by (N+ + 1) / (N+ + 2) and 1 / (N- + 2), so that perfectly separated
    rows have a finite solution. Raises CannotFit if the slope is not positive.
    """
    yes, no = counts.wy, np.maximum(counts.w - counts.wy, 0.0)
    effective = counts.effective_rows / float(counts.w.sum())
    high = 1 - 1 / (effective * float(yes.sum()) + 2)
    low = 1 / (effective * float(no.sum()) + 2)
    total = float(yes.sum() + no.sum())
    slope, intercept = _logistic(logits(counts), (yes + no) / total, (high * yes + low * no) / total)
    if slope <= 0:
        raise CannotFit("order_reversed", _REVERSED)
    return ScoreMap("platt", slope=slope, intercept=intercept, rows=counts.rows)


def _logistic(z: Floats, w: Floats, hits: Floats) -> tuple[float, float]:
    """Slope and intercept of least log loss, for shares of rows ``w`` and of their hits; arrays of shape (K,).

    By Newton's steps, each halved until the loss, which is convex, does not rise.
    """
    design, line = np.stack([z, np.ones_like(z)]), np.array([1.0, 0.0])

    def loss(at: Floats) -> float:
        return float(w @ np.logaddexp(0.0, at @ design) - hits @ (at @ design))

    for _ in range(_MOST_STEPS):
        rate = expit(line @ design)
        gradient = design @ (w * rate - hits)
        if np.linalg.norm(gradient) < _GRADIENT:
            break
        # the least-squares step also serves where all rows have one score
        step = np.linalg.lstsq((design * (w * rate * (1 - rate))) @ design.T, gradient, rcond=None)[0]
        while loss(line - step) > loss(line) + _SAME:
            step = step / 2
        line = line - step
    return float(line[0]), float(line[1])


def fit_isotonic(counts: Counts) -> ScoreMap:
    """Centered isotonic regression: the rising steps of least squared error, with their centers joined by lines.

    Zadrozny & Elkan 2002; Oron & Flournoy 2017 for the centers (a step's mean score), which are closer to the truth
    than the steps and keep different scores different between the first and the last. New scores stay 1 / (n + 2) away
    from 0 and 1, n being the effective rows. Of more than 200 steps, 200 are kept, evenly spaced by number. Raises
    CannotFit if no step rises.
    """
    scores, w, wy, ws = _by_score(counts)
    steps = scipy.optimize.isotonic_regression(wy / w, weights=w)
    begins = steps.blocks[:-1]
    y = np.clip(steps.x[begins], 0.0, 1.0)
    if len(y) == 1 and len(scores) > 1:
        raise CannotFit("order_reversed", _REVERSED)
    x = np.add.reduceat(ws, begins) / np.add.reduceat(w, begins)
    margin = 1 / (counts.effective_rows + 2)
    kept = np.unique(np.rint(np.linspace(0, len(x) - 1, MOST_KNOTS)).astype(np.int64))
    knots = zip(x[kept].tolist(), np.clip(y, margin, 1 - margin)[kept].tolist(), strict=True)
    return ScoreMap("isotonic", knots=tuple(knots), rows=counts.rows)


def _by_score(counts: Counts) -> tuple[Floats, Floats, Floats, Floats]:
    """The distinct scores, rising, and for each the sums w, wy and ws of its cells."""
    scores = counts.score
    if (np.diff(scores) > 0).all():
        return scores, counts.w, counts.wy, counts.ws
    distinct, place = np.unique(scores, return_inverse=True)
    w, wy, ws = (np.asarray(np.bincount(place, weights=sums), np.float64) for sums in (counts.w, counts.wy, counts.ws))
    return distinct, w, wy, ws


_FITS: Mapping[Method, Callable[[Counts], ScoreMap]] = {
    "temperature": fit_temperature,
    "platt": fit_platt,
    "isotonic": fit_isotonic,
}


# --- use of a map


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
