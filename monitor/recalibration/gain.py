"""The gain of recalibration on rows that no fit saw: newest windows, or halves of a single one; on counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

import numpy as np

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import population_edges
from monitor.core.counts import CELLS, BinCounts, Counts, Floats, Ints, bin_counts, pool
from monitor.core.records import Interval
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.metrics.calibration import brier, nll
from monitor.recalibration.fitting import CannotFit, fit, mapped, rescored
from monitor.recalibration.score_map import METHODS, Method

FOLDS, HALVES = 5, 2
LEAST_ROWS = 200
"""No map is fitted to fewer effective rows, nor with fewer than 10 of either outcome."""
LEAST_OUTCOMES = 10
ISOTONIC_ROWS = 2_000
"""With fewer effective rows an isotonic map follows their noise. In the worst of the study's 15 populations it leaves
an ECE of about .04 at 500 rows; at 2,000 about half of the .05 that is well calibrated.
"""
_NO_VARIANCE = 1e-18  # less is rounding
_OF_BINS = ("upper", "n", "w", "ws", "wy", "n_eff", "kish")
_EXACT_DRAWS = 10**9  # the limit of NumPy's hypergeometric draws
_COUNTED = 2_000_000  # up to so many rows drawing one by one is faster than drawing by cell
_MANY_CELLS = 2_000  # from so many on neighbours are taken together, so that a trial takes less than half as long
_TOGETHER, _ALONE = 10, 500  # so many cells; but not of those below .05 and above .95, where logits change quickly

Unseen = Literal["windows", "rows"]


@dataclass(frozen=True, slots=True)
class ScoreQuality:
    """The quality of scores: debiased ECE with its interval, Brier score, log loss, and debiased MCE."""

    ece: Interval
    brier: float | None
    nll: float | None
    mce: float | None = None

    def plain(self) -> dict[str, float | None]:
        """The quality as plain data, for JSON."""
        ece = {"ece": self.ece.value, "ece_low": self.ece.low, "ece_high": self.ece.high}
        return ece | {"brier": self.brier, "nll": self.nll, "mce": self.mce}


@dataclass(frozen=True, slots=True)
class Gain:
    """One method on one subject: the quality before and after, of the same rows in the same bins, which no fit saw.

    ``sure`` is by how many standard errors the fall of the Brier score and that of the ECE are above 0, the lesser of
    the two. ``unseen`` says which rows these are. ``refused`` is why there is no ``after`` (a heading of
    docs/recalibration.md); None if there is one.
    """

    method: Method
    before: ScoreQuality
    after: ScoreQuality | None
    rows: int
    refused: str | None = None
    sure: float = 0.0
    unseen: Unseen = "rows"


@dataclass(frozen=True, slots=True)
class Fold:
    """The ``held`` out rows, and the ``rest`` on which their map is fitted."""

    held: Counts
    rest: Counts


def refusal(method: Method, counts: Counts) -> str | None:
    """Why this method is not offered for these counts; None if it is."""
    least = ISOTONIC_ROWS if method == "isotonic" else LEAST_ROWS
    if counts.effective_rows < least:
        return "too_few_rows"
    share = counts.positives / float(counts.w.sum())
    return "too_few_outcomes" if counts.effective_rows * min(share, 1 - share) < LEAST_OUTCOMES else None


def folds(held: Counts, k: int, rng: np.random.Generator) -> list[Fold]:
    """Split the rows of groups of positive weight at random into k folds of (almost) equal size.

    The split has the law of shuffled rows: multivariate hypergeometric draws of the hits and misses of each group. With
    unequal weights a group's hits share its ``wy`` equally, and its misses the rest. If a group's soft outcomes round
    to only hits or only misses, all its rows get its mean outcome.
    """
    hits = np.rint(held.n * held.rate).astype(np.int64)
    everything = np.concatenate([hits, held.n - hits])
    left, made = everything, []
    for remaining in range(k, 0, -1):
        drawn = left if remaining == 1 else _drawn(left, remaining, rng)
        made.append(Fold(_part(held, everything, drawn), _part(held, everything, everything - drawn)))
        left = left - drawn
    return made


def _drawn(left: Ints, folds_left: int, rng: np.random.Generator) -> Ints:
    """A draw of 1 / ``folds_left`` of the rows left, by kind (hits and misses of each cell)."""
    total = int(left.sum())
    if total >= _EXACT_DRAWS:  # with so many rows, independent draws and exact shares are equivalent
        return rng.binomial(left, 1 / folds_left)
    if total <= _COUNTED:
        return rng.multivariate_hypergeometric(left, total // folds_left, method="count")
    return rng.multivariate_hypergeometric(left, total // folds_left, method="marginals")


def _part(whole: Counts, outcomes: Ints, drawn: Ints) -> Counts:
    """The counts of the drawn hits and misses (2K,) of each group, which get their share of the group's sums.

    ``outcomes`` (2K,) are all hits and misses.
    """
    (hits, misses), (all_hits, all_misses) = np.split(drawn, 2), np.split(outcomes, 2)
    n = hits + misses
    share, mixed, missed = n / whole.n, (all_hits > 0) & (all_misses > 0), whole.w - whole.wy
    wy = np.where(mixed, whole.wy * hits / np.maximum(all_hits, 1), whole.wy * share)
    missed = np.where(mixed, missed * misses / np.maximum(all_misses, 1), missed * share)
    w, wy2 = wy + np.maximum(missed, 0.0), np.where(mixed, wy, whole.wy2 * share)
    part = replace(whole, n=n, w=w, w2=whole.w2 * share, wy=wy, wy2=wy2)
    return rescored(part, whole.score).weighted()


def coarser(counts: Counts) -> Counts:
    """The groups by cell; of very many, those of scores between .05 and .95 are taken together by tens.

    The folds are of these. A line that is fitted to them differs by less than 1e-4 from one fitted to all cells, and an
    isotonic map is as good a map. (A map that is put to use is fitted to all cells.)
    """
    cells = counts.by_cell()
    if len(cells.cell) <= _MANY_CELLS:
        return cells
    middle = (cells.cell >= _ALONE) & (cells.cell < CELLS - _ALONE)
    tens = cells.cell // _TOGETHER * _TOGETHER + _TOGETHER // 2
    return replace(cells, cell=np.where(middle, tens, cells.cell)).by_cell()


def held_apart(windows: Sequence[Counts], rng: np.random.Generator) -> tuple[list[Fold], Unseen]:
    """The rows to judge, with those to fit on: the newest windows, about half of all rows, against the older ones.

    ``windows`` are newest first. Of a single one, or where a part is too few to fit or to judge, two random halves of
    all rows are judged, each by the other. No parts where all rows are too few.
    """
    cells = [coarser(each).weighted() for each in windows]
    whole = pool(cells)
    if refusal("temperature", whole) is not None:
        return [], "rows"
    rows = np.cumsum([each.rows for each in cells])
    at = min(int(np.searchsorted(rows, whole.rows / HALVES)) + 1, len(cells) - 1)
    if at > 0:
        part = Fold(pool(cells[:at]), pool(cells[at:]))
        if all(refusal("temperature", each) is None for each in (part.held, part.rest)):
            return [part], "windows"
    return folds(whole.by_cell().weighted(), HALVES, rng), "rows"


def gains_on_unseen(
    windows: Sequence[Counts], rng: np.random.Generator, evaluation: EvaluationConfig
) -> dict[Method, Gain]:
    """The gain of every method on a subject in these windows, newest first.

    Before and after are of the same rows in the same bins of the old scores, as configured, both debiased. After a map,
    each half has its own row in each bin: merged they would hide the errors of their maps, since if one is too low by
    chance, the other is too high. Intervals are analytic. Halves are of rows: if clusters are in both, the gain looks
    larger than it is.
    """
    whole, (parts, unseen) = pool(windows), held_apart(windows, rng)
    held = [part.held for part in parts]
    judged = held if unseen == "windows" else [whole]
    edges = population_edges(judged[0], evaluation)
    before, bins = _quality(judged, edges, evaluation), _folded(held, edges)
    found = {}
    for method in METHODS:
        refused, after, sure = refusal(method, whole), None, 0.0
        if refused is None:
            try:
                new = [mapped(fit(method, part.rest), part.held) for part in parts]
            except CannotFit as error:
                refused = error.reason
            else:
                moved = [rescored(*each) for each in zip(held, new, strict=True)]
                after = _quality(moved, edges, evaluation)
                sure = min(_sure_of_brier(held, new), _sure_of_ece(bins, _folded(moved, edges)))
        found[method] = Gain(method, before, after, whole.rows, refused, sure, unseen)
    return found


def _quality(parts: Sequence[Counts], edges: Sequence[int], evaluation: EvaluationConfig) -> ScoreQuality:
    """The quality of the parts: their ECE in the bins of each part, all else in those of all parts merged."""
    one, confidence = pool(parts), evaluation.confidence
    (ece,) = ece_intervals([_folded(parts, edges)], [], confidence=confidence, form="analytic")
    (mce,) = mce_intervals([bin_counts(one, edges)], confidence=confidence)
    return ScoreQuality(ece, brier(one), nll(one), mce.interval.value)


def _folded(parts: Sequence[Counts], edges: Sequence[int]) -> BinCounts:
    """The bins of every part, one after the other."""
    binned = [bin_counts(part, edges) for part in parts]
    return BinCounts(*(np.concatenate([getattr(each, name) for each in binned] or [[]]) for name in _OF_BINS))


def _sure_of_brier(held: Sequence[Counts], new: Sequence[Floats]) -> float:
    """The fall of the Brier score of rows with new scores, in its standard errors."""
    old, score = (np.concatenate(each) for each in ([one.score for one in held], new))
    w, wy = (np.concatenate([getattr(one, name) for one in held]) for name in ("w", "wy"))
    miss, less = old**2 - score**2, 2 * (old - score)  # what a row gains if it did not come true, less if it did
    mean = float(w @ miss - wy @ less) / float(w.sum())
    square = float(w @ miss**2 + wy @ (less**2 - 2 * miss * less)) / float(w.sum())
    rows = sum(one.effective_rows for one in held)
    return mean / sqrt(max((square - mean**2) / rows, _NO_VARIANCE))


def _sure_of_ece(before: BinCounts, after: BinCounts) -> float:
    """The fall of the textbook ECE, in its standard errors; it is too small where the map is right, so never too sure.

    Hit rates are the same before and after, so their noise counts only where one is between the old and the new score.
    """
    used = before.n_eff > 0
    old, new, w, n = (each[used] for each in (before.score, after.score, before.w, before.n_eff))
    rate, share = before.wy[used] / w, w / w.sum()
    fall = float(share @ (np.abs(rate - old) - np.abs(rate - new)))
    expected = (new + rate) / 2
    turns = np.sign(rate - old) != np.sign(rate - new)
    variance = float((2 * share[turns]) ** 2 @ (expected * (1 - expected) / n)[turns])
    return fall / sqrt(max(variance, _NO_VARIANCE))


# --- which method to take


LEAST_GAIN = 0.005
"""The smallest fall of the ECE that is worth a change of the scores."""
SURE = 1.645
"""How many standard errors the gain must be above 0: chance alone has that in 5%."""
KEPT = 0.95
"""The simplest method with at least this share of the best gain in Brier score is taken."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The method to take, or None, and why: ``reason`` is a heading of docs/recalibration.md."""

    method: Method | None
    reason: str
    sentence: str


def brier_gain(gain: Gain) -> float:
    """By how much the Brier score falls on held-out rows; negative if it rises, 0 without a map."""
    if gain.after is None or gain.after.brier is None or gain.before.brier is None:
        return 0.0
    return gain.before.brier - gain.after.brier


def ece_gain(gain: Gain) -> float:
    """By how much the debiased ECE falls on held-out rows; 0 without a map."""
    if gain.after is None or gain.after.ece.value is None or gain.before.ece.value is None:
        return 0.0
    return gain.before.ece.value - gain.after.ece.value


def helps(gain: Gain) -> bool:
    """Whether the Brier score and the ECE surely fall, and the ECE enough.

    The Brier score is on the same rows; it has no bins, which could hide a map's errors.
    """
    return gain.sure > SURE and ece_gain(gain) >= LEAST_GAIN


def choose(gains: Mapping[Method, Gain]) -> Choice:
    """The method with the lowest Brier score among those that help; among nearly equal ones the simplest."""
    helping = [method for method in METHODS if method in gains and helps(gains[method])]
    if helping:
        best = max(brier_gain(gains[method]) for method in helping)
        method = next(method for method in helping if brier_gain(gains[method]) >= KEPT * best)
        before, after = gains[method].before.ece, (gains[method].after or gains[method].before).ece
        limits = "" if after.low is None else f" ({after.low:.4f} to {after.high:.4f})"
        fall = f"the ECE falls from {before.value:.4f} to {after.value:.4f}{limits} on rows not seen"
        return Choice(method, "helps", f"{method} helps: {fall}")
    fitted = [gain for gain in gains.values() if gain.after is not None]
    if not fitted:
        refused = [gains[method].refused for method in METHODS if method in gains]
        reason = next((one for one in refused if one is not None), "too_few_rows")
        return Choice(None, reason, f"no method can be fitted: {reason}")
    if not (fitted[0].before.ece.low or 0.0) > 0:
        return Choice(None, "nothing_to_mend", "nothing to fix: the ECE is not significantly above 0")
    least = f"none surely lowers the ECE, by {LEAST_GAIN} or more, and the Brier score"
    return Choice(None, "none_helps", f"no method helps: {least}")
