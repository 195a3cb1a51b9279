"""The law of every registered metric of counts that has no closed form of its own in ``levels.py``.

Shares of rows are exact binomials. All other metrics are bootstrapped: their cores compute them from one set of Poisson
draws of the hits and misses of coarse groups (:mod:`monitor.inference.bootstrap`) for all metrics of a sample.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from monitor.core.counts import SUMS, Counts, bin_counts, counts_from_groups, equal_frequency_edges
from monitor.inference.bootstrap import Spread, drawn_weight, draws, spread_of
from monitor.inference.sampling import Proportion
from monitor.metrics import calibration, cost
from monitor.metrics.definition import MetricSpec
from monitor.metrics.groups import Groups, groups_of, over
from monitor.metrics.registry import CONTRACT, METRICS, range_of

RESAMPLES = 400  # a standard error is known to 1 / sqrt(2 x 400) = 3.5%
COARSE = 32  # bins of scores in which draws are made; variation within one does not matter for a standard error
BINS = calibration.BINS


def largest_allowed(name: str, threshold: float) -> float:
    """The largest detectable distance from a threshold with which an ``ok`` is still justified.

    A quarter of the largest distance that a share can have. A metric outside the contract with values outside [-1, 1]
    has no such distance: there it is the threshold itself.

    >>> largest_allowed("ece", 0.05), largest_allowed("excess_errors", 40.0)
    (0.2375, 40.0)
    """
    least, most = range_of(name)
    if name in CONTRACT or name not in METRICS or (least >= -1 and most <= 1):
        return max(threshold, 1 - threshold) / 4
    return abs(threshold) if threshold else math.inf


def law(metric: str | MetricSpec, counts: Counts) -> Proportion | Spread | None:
    """The law by which the metric varies; None where it is not defined. KeyError for one that needs no counts.

    >>> from monitor.core.counts import counts_from_rows
    >>> counts = counts_from_rows([0.9] * 60 + [0.2] * 40, [1] * 50 + [0] * 50)
    >>> law("precision", counts).value == 50 / 60
    True
    >>> low, high = law("balanced_accuracy", counts).interval(0.95)
    >>> 0.8 < low < law("balanced_accuracy", counts).value < high < 0.97
    True
    """
    spec = MetricSpec.of(metric)
    name, definition = spec.name, METRICS[spec.name]
    if definition.share is not None:
        return Proportion.of(definition.share(counts))
    core = cost.ON_GROUPS[name](cost.Costs(*spec.parameters)) if spec.parameters else definition.core
    if core is None:
        raise KeyError(name)
    in_bins = definition.needs == "bins"
    groups = groups_of(coarse(counts, by_decision=False)) if in_bins else _groups_of(counts)
    value = float(core(groups)) if len(groups.hit) else math.nan
    if not math.isfinite(value):
        return None
    least, most = range_of(name)
    drawn = np.asarray(core(_draws_of(counts, in_bins=in_bins)), dtype=np.float64)
    return spread_of(value, drawn, least=least, most=most, bias=_bias(name, counts))


def _bias(name: str, counts: Counts) -> float:
    """The bias of the textbook value of a part of the Brier score (Ferro & Fricker 2012); 0 for other metrics."""
    if name not in ("brier_reliability", "brier_resolution"):
        return 0.0
    bins = bin_counts(counts, equal_frequency_edges(counts, BINS)).filled()
    share, noise = bins.w / bins.w.sum(), bins.rate * (1 - bins.rate)
    inner = float((share * noise / np.maximum(bins.n_eff - 1, 1.0)).sum())
    if name == "brier_reliability":
        return inner
    rate = float(bins.wy.sum() / bins.w.sum())
    return inner - rate * (1 - rate) / max(counts.effective_rows - 1, 1.0)


@lru_cache(maxsize=8)  # compared by identity, not by content: all metrics of a sample are computed in turn
def _draws_of(counts: Counts, *, in_bins: bool) -> Groups:
    """The draws of a sample as groups with hits and misses of shape (resamples, groups); the same every time."""
    rows = coarse(counts, by_decision=not in_bins)
    rng = np.random.default_rng(int(rows.digest(), 16))
    groups = groups_of(rows).drawn(*draws(rows, rng, resamples=RESAMPLES))
    # the mean score of the rows drawn from a group varies too
    deviation = np.sqrt(groups.within * drawn_weight(rows))
    hit_score, miss_score = (
        score + rng.standard_normal(weight.shape) * over(deviation, np.sqrt(weight), 0.0)
        for score, weight in ((groups.hit_score, groups.hit), (groups.miss_score, groups.miss))
    )
    return replace(groups, hit_score=hit_score, miss_score=miss_score)


_groups_of = lru_cache(maxsize=8)(groups_of)


@lru_cache(maxsize=8)
def coarse(counts: Counts, *, by_decision: bool) -> Counts:
    """The counts in coarse bins of equally many rows, separate for predicted and automated rows.

    Without ``by_decision`` rows are not separated, in the :data:`BINS` bins of the parts of the Brier score.
    """
    edges = np.asarray(equal_frequency_edges(counts, COARSE if by_decision else BINS), dtype=np.int64)
    index = np.minimum(np.searchsorted(edges, counts.cell, side="left"), len(edges) - 1)
    key = index * 4 + (counts.predicted * 2 + counts.automated if by_decision else 0)
    keys, group = np.unique(key, return_inverse=True)
    sums: dict[str, Any] = {
        name: np.bincount(group, weights=getattr(counts, name), minlength=len(keys)) for name in SUMS
    }
    columns = {"cell": edges[keys // 4], "predicted": keys % 4 >= 2, "automated": keys % 2 == 1, **sums}
    found = counts_from_groups(columns, design_effect=counts.design_effect, score_is=counts.score_is)
    return replace(found, acting_effects=counts.acting_effects)
