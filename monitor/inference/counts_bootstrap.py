"""The bootstrap on counts: the spread of any function of counts, at a cost that does not depend on the rows.

Cells are drawn instead of rows: the hits and the misses of each group are Poisson counts of its
effective rows, each with the group's mean weight. So sums of weights have the mean w and the
variance sum w^2 times the design effect, as if rows (or clusters) were drawn. The total varies too,
which does not affect a ratio. Limits and p-values come from the standard error and the
skewness of the draws, never from counting draws: a thousand of them cannot show a p-value of .0005.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Counts, Floats
from monitor.inference.sampling import OfMoments, Skewed

UNSEEN = 1.0  # rows of each outcome, over all groups, that draws have on average beyond those seen
_DEFINED = 0.5  # if a smaller share of the draws is defined, nothing is concluded


@dataclass(frozen=True, slots=True)
class Spread(OfMoments):
    """A statistic with the standard error and the skewness of its draws; its range is ``least`` to ``most``.

    The law of the truth has twice the skewness of the estimate and half a step more to either side, as the mid-P
    limits of a Poisson count have: exact to the second order for a weighted sum of counts. ``value`` is debiased where
    the metric is known to need it; ``plug_in`` is the textbook value (None: as ``value``).
    """

    value: float
    se: float
    skew: float
    least: float = 0.0
    most: float = 1.0
    plug_in: float | None = None

    @property
    def above(self) -> Skewed:
        """The law of the truth, which bounds it from above and from below."""
        step = self.skew * self.se
        return Skewed(self.value + step / 2, self.se**2 + step**2 / 2, 2 * self.skew * self.se**3 + step**3)

    below = above


def spread_of(
    value: float | None, drawn: Floats, *, least: float = -math.inf, most: float = math.inf, bias: float = 0.0
) -> Spread | None:
    """The spread of draws (B,), NaN where undefined; None without a value, or where most draws are undefined.

    ``bias`` is subtracted from the value.
    """
    held = drawn[np.isfinite(drawn)]
    if value is None or len(held) < max(2.0, _DEFINED * len(drawn)):
        return None
    se = float(held.std(ddof=1))
    # a spread of rounding errors counts as 0
    se = se if se > 1e-12 * max(1.0, float(np.abs(held).max())) else 0.0
    skew = float(((held - held.mean()) ** 3).mean()) / se**3 if se > 0 else 0.0
    return Spread(min(max(value - bias, least), most), se, skew, least, most, value)


def draws(counts: Counts, rng: np.random.Generator, *, resamples: int = 1000) -> tuple[Floats, Floats]:
    """The sums of weights of the hits and of the misses in each group of the draws, both of shape (resamples, G).

    Draws have, on average, one row of each outcome more than were seen, spread evenly over the groups: otherwise the
    spread would be 0 where every row was right. Counts must have a weight above 0.

    >>> from monitor.core.counts import counts_from_rows
    >>> counts = counts_from_rows([0.9] * 100, [1] * 80 + [0] * 20)
    >>> hit, miss = (part.sum(axis=1) for part in draws(counts, np.random.default_rng(1)))
    >>> bool(0.035 < spread_of(0.8, hit / (hit + miss)).se < 0.045)
    True
    """
    hit = np.clip(counts.wy, 0.0, counts.w)
    miss = counts.w - hit
    unit = drawn_weight(counts)
    more = UNSEEN / len(unit)
    hits, misses = (rng.poisson(part / unit + more, (resamples, len(unit))) for part in (hit, miss))
    return hits * unit, misses * unit


def drawn_weight(counts: Counts) -> Floats:
    """The weight of one drawn row of each group, shape (G,): the group's mean weight times the design effect."""
    usual = float(counts.w2.sum() / counts.w.sum())  # for empty groups
    mean_weight = np.divide(counts.w2, counts.w, out=np.full_like(counts.w, usual), where=counts.w > 0)
    return mean_weight * counts.design_effect
