"""Populations whose true calibration is known: how scores are drawn, and what each is worth.

A score s comes true with probability expit(logit(s) / temperature + offset). At temperature 1 and
offset 0 scores mean what they say; above 1 they are too extreme (overconfident), below 1 too timid;
a negative offset promises too much everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from monitor.counts import BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges

Floats = npt.NDArray[np.float64]

VERBAL = np.array([0.05, 0.20, 0.35, 0.50, 0.70, 0.85, 0.95])
"""A language model that says "almost certainly not", "unlikely", ... "almost certain"."""
_ENDLESS = 30_000  # quantiles that stand for an endless population: exact to about 1e-4


@dataclass(frozen=True, slots=True)
class Population:
    """Scores from ``likely`` of Beta(*high) and the rest of Beta(*low), or ``verbal`` ones, equally often."""

    name: str
    temperature: float = 1.0
    offset: float = 0.0
    likely: float = 0.3
    high: tuple[float, float] = (6.0, 1.8)
    low: tuple[float, float] = (0.8, 8.0)
    verbal: bool = False

    def draw_scores(self, rng: np.random.Generator, n: int) -> Floats:
        """``n`` scores, shape (n,), strictly between 0 and 1."""
        if self.verbal:
            return rng.choice(VERBAL, n)
        drawn = np.where(rng.random(n) < self.likely, rng.beta(*self.high, n), rng.beta(*self.low, n))
        return np.clip(drawn, 1e-6, 1 - 1e-6)

    def worth(self, score: Floats) -> Floats:
        """The true probability behind each score."""
        return np.asarray(expit(logit(score) / self.temperature + self.offset))

    def draw(self, rng: np.random.Generator, n: int) -> Counts:
        """The counts of ``n`` rows, as the warehouse would give them."""
        score = self.draw_scores(rng, n)
        return counts_from_rows(score, rng.random(n) < self.worth(score), automate_at=0.8)

    def endless(self) -> Counts:
        """Endlessly many rows: quantiles of the scores, each outcome its own probability."""
        if self.verbal:
            score = np.repeat(VERBAL, _ENDLESS // len(VERBAL))
        else:
            parts = ((self.high, self.likely), (self.low, 1 - self.likely))
            score = np.concatenate([_quantiles(shape, round(share * _ENDLESS)) for shape, share in parts])
        return counts_from_rows(score, self.worth(score), automate_at=0.8)


@cache
def _quantiles(shape: tuple[float, float], points: int) -> Floats:
    middle = (np.arange(points) + 0.5) / points
    return np.clip(beta(*shape).ppf(middle), 1e-6, 1 - 1e-6)


def true_ece(bins: BinCounts) -> float:
    """The ECE of bins in which nothing is left to chance."""
    return float(np.abs(bins.ws - bins.wy).sum() / bins.w.sum())


def true_mce(bins: BinCounts) -> float:
    """The MCE of bins in which nothing is left to chance."""
    held = bins.n > 0
    return float(np.abs(bins.rate - bins.score)[held].max())


@cache
def raised(population: Population, rise: float, bins: int = 15) -> Population:
    """The population made overconfident until its true ECE is larger by ``rise``; scores stay as they are."""
    edges = equal_frequency_edges(population.endless(), bins)
    before = true_ece(bin_counts(population.endless(), edges))

    def missing(step: float) -> float:
        moved = replace(population, offset=population.offset - step)
        return true_ece(bin_counts(moved.endless(), edges)) - before - rise

    return replace(population, offset=population.offset - float(brentq(missing, 0.0, 5.0, xtol=1e-4)))


POPULATIONS = (
    Population("calibrated"),
    Population("temperature 0.6", temperature=0.6),
    Population("temperature 1.5", temperature=1.5),
    Population("shifted by -0.5", offset=-0.5),
    Population("verbal, temperature 1.5", temperature=1.5, verbal=True),
)


HARD = (Population("rare (0.3%), temperature 0.6", temperature=0.6, likely=0.0, low=(0.6, 30.0)),)
"""Where no 95% is to be expected: at 200 rows most samples hold no hit at all."""

LABELS = tuple(
    Population(f"label {i + 1:02}", temperature, offset, likely)
    for i, (likely, temperature, offset) in enumerate(
        (likely, temperature, offset)
        for likely in (0.08, 0.15, 0.25, 0.35)
        for temperature, offset in ((1.0, 0.0), (1.0, 0.0), (0.85, 0.0), (1.2, 0.0), (1.0, -0.15))
    )
)
"""Twenty labels of one source: a fifth timid, a fifth overconfident, a fifth shifted, and it stays like that."""
