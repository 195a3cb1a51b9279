"""The bootstrap on counts and of whole rows: the spread of any function of them.

Of counts the cost does not depend on the rows. Cells are drawn instead of rows: the hits and the misses of each group
are Poisson counts of its effective rows, each with the group's mean weight. So sums of weights have the mean w and the
variance sum w^2 times the design effect, as if rows (or clusters) were drawn. The total varies too,
which does not affect a ratio. Limits and p-values come from the standard error and the
skewness of the draws, never from counting draws: a thousand of them cannot show a p-value of .0005.

Of whole rows each item of a draw counts a Poisson number of times (mean 1). Metrics that are functions of weighted sums
(:class:`~monitor.metrics.row_sums.RowStatistic`) are drawn from sums by block of items, made once: the cost does not
grow with items x draws. Areas under curves have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Counts, Floats, ProbabilityRows, RegressionRows
from monitor.inference.sampling import OfMoments, Skewed
from monitor.metrics import certainty, information, multiclass, regression
from monitor.metrics.names import range_of
from monitor.metrics.row_sums import RowStatistic, Sums, scores

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


# --- whole rows: items are drawn, with all scores of an item together


Rows = TypeVar("Rows", bound=ProbabilityRows | RegressionRows)

STATISTICS: Mapping[str, RowStatistic] = {
    statistic.name: statistic
    for module in (multiclass, certainty, information, regression)
    for statistic in module.STATISTICS
}
Spreads = dict[str, Spread | None]
"""By metric; None where rows do not define one."""
BLOCKS = 1000  # so many blocks give a standard error to 1 / sqrt(2 x 1000) = 2%
UNSEEN_ITEMS = 1.0  # wrongly predicted items that draws have on average beyond those seen
_CLASSES = 25  # the most true classes of unseen items; of more, some are chosen evenly over the labels
_FEWEST = 100  # the fewest blocks of many items, however large the sums are
_AT_ONCE = 8_000_000  # numbers in one array of sums: 64 MB


def row_spreads(
    rows: ProbabilityRows | RegressionRows,
    names: Iterable[str],
    rng: np.random.Generator,
    *,
    resamples: int = 1000,
) -> Spreads:
    """The value and the spread of registered metrics of whole rows, by name; None where rows do not define one.

    ``names`` are metrics that need ``rows`` or ``regression``, according to the rows given (KeyError for another).
    ``rng`` puts the items into blocks and draws these; the same draws serve all metrics. A draw has, on average, one
    item more than was seen, predicted wrongly (or with the largest error seen and outside its interval): otherwise the
    spread would be 0 where every item was right. Entropies, mutual information and the divergence are debiased by the
    draws of the items seen: from few items their textbook values are too small or too large.

    >>> rng = np.random.default_rng(1)
    >>> label = rng.integers(0, 2, 400)
    >>> shown = np.where(rng.random(400) < 0.8, label, 1 - label)
    >>> rows = ProbabilityRows(("a", "b"), np.eye(2)[shown] * 0.8 + 0.1, np.eye(2)[label], np.ones(400), 400)
    >>> found = row_spreads(rows, ["top1_accuracy"], rng)["top1_accuracy"]
    >>> bool(0.75 < found.value < 0.85), bool(0.017 < found.se < 0.023)
    (True, True)
    """
    requested = list(names)
    found: Spreads = {}
    if isinstance(rows, ProbabilityRows) and not set(requested).isdisjoint(multiclass.AREAS):
        areas = multiclass.area_estimates(rows)
        found |= {name: Spread(area.value, area.se, area.skew, plug_in=area.value) for name, area in areas.items()}
    statistics = [STATISTICS[name] for name in requested if name not in multiclass.AREAS]
    found.update(_by_blocks(rows, statistics, rng, resamples))
    return {name: found.get(name) for name in requested}


def _by_blocks(
    rows: ProbabilityRows | RegressionRows,
    statistics: Sequence[RowStatistic],
    rng: np.random.Generator,
    resamples: int,
) -> Spreads:
    if not statistics or not float(rows.weight.sum()) > 0:
        return {}
    arranged, blocks = _arranged(rows, rng)
    # the blocks that were seen, then the unseen items, each a block of its own
    parts = dict.fromkeys(part for statistic in statistics for part in statistic.sums)
    sums = {part: np.concatenate((part(arranged, blocks), _unseen(rows, part))) for part in parts}
    extra = len(next(iter(sums.values()))) - blocks
    rate = np.concatenate((np.ones(blocks), np.full(extra, UNSEEN_ITEMS / extra)))
    drawn: dict[str, list[Floats]] = {statistic.name: [] for statistic in statistics}
    again: dict[str, list[Floats]] = {statistic.name: [] for statistic in statistics if statistic.biased}
    step = max(1, min(resamples, _AT_ONCE // _numbers(rows)))
    for start in range(0, resamples, step):
        times = rng.poisson(rate, (min(step, resamples - start), len(rate))).astype(np.float64)
        _append_values(statistics, sums, times, drawn)
        _append_values([each for each in statistics if each.biased], sums, times[:, :blocks], again)
    found: Spreads = {}
    for statistic in statistics:
        value = statistic.value(*(sums[part][:blocks].sum(axis=0) for part in statistic.sums))
        bias = 0.0  # the mean of the draws of the items seen minus the value (Efron & Tibshirani 1993)
        if value is not None and statistic.biased:
            of_seen = np.concatenate(again[statistic.name])
            bias = float(of_seen[np.isfinite(of_seen)].mean()) - value if np.isfinite(of_seen).any() else 0.0
        draws = np.concatenate(drawn[statistic.name])
        least, most = range_of(statistic.name)
        if statistic.of_labels and isinstance(rows, ProbabilityRows):
            most = min(most, math.log(len(rows.labels)))
        found[statistic.name] = spread_of(value, draws, least=least, most=most, bias=bias)
    return found


def _append_values(
    statistics: Sequence[RowStatistic], sums: Mapping[Sums, Floats], times: Floats, into: dict[str, list[Floats]]
) -> None:
    """Appends the value of each statistic in draws that have each block so many ``times``, shape (B, blocks)."""
    parts = dict.fromkeys(part for statistic in statistics for part in statistic.sums)
    totals = {part: np.tensordot(times, sums[part][: times.shape[1]], axes=1) for part in parts}
    for statistic in statistics:
        into[statistic.name].append(statistic.of(*(totals[part] for part in statistic.sums)))


def take(rows: Rows, index: npt.NDArray[np.intp]) -> Rows:
    """The items at these positions, with an unchanged number of ``items``; ``index`` has shape (N,)."""
    arrays: dict[str, Any] = {
        field.name: getattr(rows, field.name)[index]
        for field in fields(rows)
        if isinstance(getattr(rows, field.name), np.ndarray)
    }
    return replace(rows, **arrays)


def _numbers(rows: ProbabilityRows | RegressionRows) -> int:
    """The number of sums of a block, for any metrics: the draws depend on it, and must not depend on the metrics."""
    return len(rows.labels) ** 2 if isinstance(rows, ProbabilityRows) else 1


def _arranged(rows: Rows, rng: np.random.Generator) -> tuple[Rows, int]:
    """The items in random order, padded with items of no weight to equal blocks, and the number of blocks."""
    total = len(rows.weight)
    blocks = min(total, max(_FEWEST, min(BLOCKS, _AT_ONCE // _numbers(rows))))
    each = -(-total // blocks)
    filling = each * blocks - total
    order = rng.permutation(np.concatenate((np.arange(total), np.zeros(filling, dtype=np.intp))))
    arranged = take(rows, order)
    if filling:
        # the first item is at the padded places too: only one of its places keeps its weight
        weight = arranged.weight.copy()
        weight[np.flatnonzero(order == 0)[1:]] = 0.0
        arranged = replace(arranged, weight=weight)
    return arranged, blocks


def _unseen(rows: ProbabilityRows | RegressionRows, part: Sums) -> Floats:
    """The sums of unseen items, by item: one for each of up to 25 true classes, with the next class on top.

    For numbers, one item with the largest error. Scores have their average height.
    """
    usual = float((rows.weight**2).sum() / rows.weight.sum())
    if isinstance(rows, RegressionRows):
        of_coverage = part is regression.coverage_sums
        return regression.worst_coverage_sums(usual) if of_coverage else regression.worst_sums(rows, usual)
    k = len(rows.labels)
    known = scores(rows)
    top = float(np.average(known.max(axis=1), weights=rows.weight))
    rest = float(np.average(known.sum(axis=1), weights=rows.weight)) - top
    true = np.unique(np.linspace(0, k - 1, min(k, _CLASSES)).astype(np.intp))
    probability = np.full((len(true), k), max(rest, 0.0) / max(k - 1, 1))
    probability[np.arange(len(true)), (true + 1) % k] = top
    unseen = ProbabilityRows(rows.labels, probability, np.eye(k)[true], np.full(len(true), usual), len(true))
    return part(unseen, len(true))
