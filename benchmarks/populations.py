"""Populations whose true calibration is known: the distribution of scores, and the hit rate of each.

A population is a list of equally likely points. Each is a score of four decimals with the probability
that it comes true. So the true ECE of any bins is a sum, not an estimate, and rows are drawn quickly.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from monitor.core.counts import CELLS, BinCounts, Counts, equal_frequency_edges

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Shape = tuple[float, ...]

POINTS = 2**15  # the number of points of a population; a power of two is drawn fastest
VERBAL = (0.05, 0.20, 0.35, 0.50, 0.70, 0.85, 0.95)
"""The scores of a language model that answers "almost certainly not", "unlikely", ... "almost certain"."""


@dataclass(frozen=True, slots=True)
class Scores:
    """A mixture of (share, shape), where a shape is (a, b) of a beta distribution or one (score,)."""

    parts: tuple[tuple[float, Shape], ...]

    @property
    def discrete(self) -> bool:
        """Whether there are only a few distinct scores."""
        return all(len(shape) == 1 for _, shape in self.parts)

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        """``n`` scores with all decimals, strictly between 0 and 1, shape (n,)."""
        shares = np.array([share for share, _ in self.parts])
        part = rng.choice(len(shares), n, p=shares / shares.sum())
        drawn = [rng.beta(*shape, n) if len(shape) == 2 else np.full(n, shape[0]) for _, shape in self.parts]
        return np.asarray(np.clip(np.choose(part, drawn), 1e-6, 1 - 1e-6))

    def points(self) -> Floats:
        """Scores of four decimals between 0 and 1, all equally likely, shape (about POINTS,)."""
        total = sum(share for share, _ in self.parts)
        drawn = [_quantiles(shape, max(1, round(share / total * POINTS))) for share, shape in self.parts]
        return np.asarray(np.clip(np.rint(np.concatenate(drawn) * CELLS), 1, CELLS - 1) / CELLS)


@lru_cache(maxsize=1024)
def _quantiles(shape: Shape, points: int) -> Floats:
    if len(shape) == 1:
        return np.full(points, shape[0])
    return np.asarray(beta(*shape).ppf((np.arange(points) + 0.5) / points))


def mixture(likely: float, high: Shape = (6.0, 1.8), low: Shape = (0.8, 8.0)) -> Scores:
    """``likely`` of the scores from Beta(*high), the rest from Beta(*low)."""
    return Scores(((likely, high), (1 - likely, low)))


@dataclass(frozen=True, slots=True)
class Curve:
    """The true probability behind a score s: expit(logit(s) / temperature + offset), then steps.

    At temperature 1 and offset 0 scores are calibrated. Above temperature 1 they are too extreme
    (overconfident), below 1 underconfident; with a negative offset they are too high everywhere. A step
    (low, high, by) changes the probabilities of scores in (low, high].
    """

    temperature: float = 1.0
    offset: float = 0.0
    steps: tuple[tuple[float, float, float], ...] = ()

    def worth(self, score: Floats) -> Floats:
        """The true probability behind each score, in [0, 1]."""
        worth = expit(logit(score) / self.temperature + self.offset)
        for low, high, by in self.steps:
            worth = worth + by * ((score > low) & (score <= high))
        return np.asarray(np.clip(worth, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Population:
    """A name, the distribution of scores, and their true probabilities; automation begins at ``automate_at``."""

    name: str
    scores: Scores = field(default_factory=lambda: mixture(0.5, (5.0, 2.0), (2.0, 5.0)))
    curve: Curve = field(default_factory=Curve)
    automate_at: float = 0.8

    def rows(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> tuple[Ints, Bools]:
        """(cells, outcomes) of random rows, both of shape ``size``."""
        points = endless(self)
        picked = rng.integers(len(points.cell), size=size)
        return points.cell[picked], rng.random(size) < points.worth[picked]

    def draw(self, rng: np.random.Generator, n: int) -> Counts:
        """The counts of ``n`` random rows, as the warehouse would return them."""
        return counted(*self.rows(rng, n), self.automate_at)


@dataclass(frozen=True, slots=True, eq=False)
class Endless:
    """The points of a population: ``cell`` and true probability ``worth`` (K,), and cumulative sums by cell.

    ``mass`` is the share of the points at or below a cell, ``gap`` their sum of (worth - score) / K,
    both of shape (10002,): index 0 is "below every cell".
    """

    cell: Ints
    worth: Floats
    mass: Floats
    gap: Floats


@lru_cache(maxsize=512)
def endless(population: Population) -> Endless:
    """The points of a population, which is like infinitely many rows."""
    score = population.scores.points()
    cell, worth = np.rint(score * CELLS).astype(np.int64), population.curve.worth(score)
    sums = (np.bincount(cell, weights=part, minlength=CELLS + 1) for part in (np.ones_like(score), worth - score))
    mass, gap = (np.concatenate([[0.0], np.cumsum(part)]) / len(score) for part in sums)
    return Endless(cell, worth, mass, gap)


def counted(cells: npt.NDArray[np.integer[Any]], outcomes: Bools, automate_at: float) -> Counts:
    """Rows of four-decimal scores as :class:`Counts`; the classifier's decision is yes from .5 on."""
    size = np.bincount(cells, minlength=CELLS + 1)
    hits = np.bincount(cells, weights=outcomes, minlength=CELLS + 1)
    cell = np.flatnonzero(size)
    n, wy, score = size[cell], hits[cell].astype(np.float64), cell / CELLS
    w, predicted = n.astype(np.float64), score >= 0.5
    return Counts(
        cell=cell, predicted=predicted, automated=predicted & (score >= automate_at),
        n=n, w=w, w2=w, ws=w * score, wy=wy, wsy=wy * score, ws2=w * score * score, wy2=wy,
    )  # fmt: skip


def endless_edges(population: Population, bins: int = 15) -> tuple[int, ...]:
    """The edges of equal-frequency bins in the population."""
    points = endless(population)
    return equal_frequency_edges(counted(points.cell, points.worth > 2, population.automate_at), bins)


def true_gaps(population: Population, upper: npt.ArrayLike) -> tuple[Floats, Floats]:
    """(share of the rows, true rate - mean score) of each bin with these upper edges, empty bins left out."""
    points, edges = endless(population), np.concatenate([[0], np.asarray(upper, dtype=np.int64) + 1])
    share, gap = np.diff(points.mass[edges]), np.diff(points.gap[edges])
    is_used = share > 0
    return share[is_used], gap[is_used] / share[is_used]


def given_gaps(population: Population, table: BinCounts) -> tuple[Floats, Floats]:
    """:func:`true_gaps` with the shares and mean scores of drawn rows: the error of what was drawn, not of the law."""
    points, edges = endless(population), np.concatenate([[0], table.upper + 1])
    held = np.searchsorted(edges, points.cell, side="right") - 1
    size = np.maximum(np.bincount(held, minlength=len(table.n)), 1)
    rate = np.bincount(held, weights=points.worth, minlength=len(table.n)) / size
    is_used = table.w > 0
    return table.w[is_used] / table.w.sum(), (rate - table.score)[is_used]


def true_ece(population: Population, upper: npt.ArrayLike) -> float:
    """The ECE of the population in these bins."""
    share, gap = true_gaps(population, upper)
    return float((share * np.abs(gap)).sum())


def true_mce(population: Population, upper: npt.ArrayLike) -> float:
    """The MCE of the population in these bins."""
    return float(np.abs(true_gaps(population, upper)[1]).max())


@cache
def with_ece(population: Population, error: float) -> Population:
    """The population with another offset, such that its true ECE is ``error`` (not less than its present one).

    It becomes overconfident, or underconfident if its scores are too low for that. The scores stay the same.
    """
    edges = endless_edges(population)

    def moved(step: float) -> Population:
        return replace(population, curve=replace(population.curve, offset=population.curve.offset + step))

    end = next(step for step in (-8.0, 8.0) if true_ece(moved(step), edges) > error)
    return moved(float(brentq(lambda step: true_ece(moved(step), edges) - error, 0.0, end, xtol=1e-4)))


def raised(population: Population, rise: float) -> Population:
    """The population with a true ECE that is larger by ``rise``."""
    return with_ece(population, true_ece(population, endless_edges(population)) + rise)


def less_precise(population: Population, precision: float, above: float) -> Population:
    """The population with this precision above the score ``above``; all rates there change by the same amount."""
    points = endless(population)
    rate = float(points.worth[points.cell > above * CELLS].mean())
    step = (above, 1.0, precision - rate)
    return replace(population, curve=replace(population.curve, steps=(*population.curve.steps, step)))


_ODD = Curve(steps=((0.55, 0.80, -0.15),))
_CONFIDENT = Scores(((0.5, (8.0, 0.7)), (0.5, (0.7, 8.0))))
_RARE = Scores(((1.0, (0.5, 9.5)),))
_VERBAL = Scores(tuple((1.0, (score,)) for score in VERBAL))

POPULATIONS = (
    Population("calibrated"),
    Population("temperature 0.6", curve=Curve(0.6)),
    Population("temperature 1.1", curve=Curve(1.1)),
    Population("temperature 1.5", curve=Curve(1.5)),
    Population("temperature 2", curve=Curve(2.0)),
    Population("shifted by -0.5", curve=Curve(offset=-0.5)),
    Population("locally wrong", curve=_ODD),
    Population("confident, calibrated", _CONFIDENT),
    Population("confident, temperature 1.5", _CONFIDENT, Curve(1.5)),
    Population("confident, temperature 2", _CONFIDENT, Curve(2.0)),
    Population("rare, calibrated", _RARE),
    Population("rare, temperature 1.5", _RARE, Curve(1.5)),
    Population("verbal, calibrated", _VERBAL),
    Population("verbal, temperature 1.5", _VERBAL, Curve(1.5)),
    Population("verbal, locally wrong", _VERBAL, _ODD),
)
"""Fifteen populations: seven curves on a beta mixture, and some of them on confident, rare and verbal scores."""

_SURE, _UNLIKELY = Scores(((1.0, (60.0, 1.5)),)), Scores(((1.0, (1.5, 60.0)),))
WALLS = (
    Population("nearly always right", _SURE, Curve(offset=3.0)),
    Population("always right", _SURE, Curve(offset=40.0)),
    Population("nearly never true", _UNLIKELY, Curve(offset=-3.0)),
    Population("never true", _UNLIKELY, Curve(offset=-40.0)),
)
"""Labels with a hit rate near or at 1 or 0, where a gap ends. Their scores are near it too, but not as near."""

PHISHING = Population("phishing", mixture(0.2, (20.0, 1.5), (0.3, 150.0)), automate_at=0.9)
"""The critical label of the shipped rules. It misses fewer positives than the allowed 2%."""
SIX_PERCENT = Population("label 20", mixture(0.05, (8.0, 1.8), (0.7, 34.0)))
"""About 6% of the rows are positive, and about 90% of those above .8 are right."""
_CURVES = (Curve(), Curve(0.85), Curve(), Curve(1.2), Curve(offset=-0.15))
_ORDINARY = [(likely, curve) for likely in (0.08, 0.15, 0.25, 0.35) for curve in _CURVES][1:19]
LABELS = (
    PHISHING,
    *(Population(f"label {i:02}", mixture(likely), curve) for i, (likely, curve) in enumerate(_ORDINARY, start=2)),
    SIX_PERCENT,
)
"""Twenty unchanging labels of one source: nine calibrated, the others underconfident, overconfident or shifted."""
