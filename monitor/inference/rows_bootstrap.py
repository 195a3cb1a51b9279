"""The spread of metrics of whole rows: items are drawn, with all scores of an item together.

Each item of a draw counts a Poisson number of times (mean 1). Metrics that are functions of weighted sums
(:class:`~monitor.metrics.row_sums.RowStatistic`) are drawn from sums by block of items, made once: the cost does not
grow with items x draws. Areas under curves have a closed form. Limits and p-values come from the standard error and
the skewness of the draws (:class:`~monitor.inference.counts_bootstrap.Spread`), never from counting draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Floats, ProbabilityRows, RegressionRows
from monitor.inference.counts_bootstrap import Spread, spread_of
from monitor.metrics import certainty, information, multiclass, regression
from monitor.metrics.names import range_of
from monitor.metrics.row_sums import RowStatistic, Sums, scores

Rows = TypeVar("Rows", bound=ProbabilityRows | RegressionRows)

STATISTICS: Mapping[str, RowStatistic] = {
    statistic.name: statistic
    for module in (multiclass, certainty, information, regression)
    for statistic in module.STATISTICS
}
Spreads = dict[str, Spread | None]
"""By metric; None where rows do not define one."""
BLOCKS = 1000  # so many blocks give a standard error to 1 / sqrt(2 x 1000) = 2%
UNSEEN = 1.0  # wrongly predicted items that draws have on average beyond those seen
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
    rate = np.concatenate((np.ones(blocks), np.full(extra, UNSEEN / extra)))
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
