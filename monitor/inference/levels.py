"""Intervals and tests of the metrics that are not binned, in closed form on counts.

Accuracy, overconfidence and false-negative rate are shares of rows (exact binomial), Brier score and log
loss are means (gamma laws), the area under the ROC curve is a share of pairs, average precision has
Student's t on the logit scale. Rows are effective rows throughout: Kish's size over the design effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from scipy.special import ndtr, ndtri, stdtrit

from monitor.core.counts import INDEPENDENT, Counts
from monitor.core.promises import DECIDED, Population, Promise, Promises, decided_promise, promises_of
from monitor.core.records import Interval
from monitor.inference.bootstrap import Spread
from monitor.inference.intervals import NOTHING
from monitor.inference.memory import kept_with
from monitor.inference.registered import law as registered_law
from monitor.inference.sampling import FScore, LogitArea, Mean, OfMoments, Proportion, Ranking
from monitor.inference.search import POWER
from monitor.inference.weighted_shares import WeightedShare, unequal_share
from monitor.metrics.calibration import EPSILON, Losses, brier, log_losses, squared_losses
from monitor.metrics.classification import agreed
from monitor.metrics.definition import MetricSpec
from monitor.metrics.discrimination import (
    Classes,
    area_of_precision_recall,
    area_of_roc,
    classes,
    with_unseen_hit,
    with_unseen_miss_on_top,
    with_unseen_pair,
)

if TYPE_CHECKING:
    from monitor.inference.before_truth import Either

Effects = tuple[float, float]
Law = Proportion | FScore | Mean | Ranking | LogitArea | Spread | WeightedShare
MeasuredLaw: TypeAlias = "Law | Either"
"""What a value, its limits and a level are judged by: a law, or several of which one holds."""

_LEAST = 0.5  # degrees of freedom of an average precision with a single hit


def interval(metric: str | MetricSpec, counts: Counts, confidence: float) -> Interval:
    """The metric with its interval; all None where it is undefined, and value = plug_in unless it is debiased.

    ``metric`` is a registered metric of counts other than the binned ECE and MCE (KeyError for another).
    The interval of the overconfidence is conditional on the mean score.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = interval("accuracy", counts_from_rows([0.9] * 100, [1] * 90 + [0] * 10), 0.95)
    >>> round(found.value, 2), round(found.low, 4), round(found.high, 4)
    (0.9, 0.8238, 0.951)
    """
    return interval_of(law_of(metric, counts), confidence)


def interval_of(law: MeasuredLaw | None, confidence: float) -> Interval:
    """The interval by a law; ``plug_in`` is its value, unless that is debiased. All None without a law."""
    if law is None:
        return NOTHING
    plug_in = law.plug_in if isinstance(law, Spread) and law.plug_in is not None else law.value
    return Interval(law.value, *law.interval(confidence), plug_in)


def change_p(
    metric: str | MetricSpec,
    window: Counts,
    baseline: Counts,
    *,
    falls: bool = False,
    accepted: float = 0.0,
    effects: Effects = INDEPENDENT,
) -> float | None:
    """The p-value for a metric that is larger in the window than in the baseline, whether larger is better or worse.

    With ``falls`` that it is smaller; by more than ``accepted``. None where one of both does not define the metric. z
    of the change with both standard errors; shares take the larger of the variance found and of the one under no
    change, losses keep the skewness of both windows. ``effects`` say by how much the variances of window and baseline
    are larger than their rows make them, since weeks differ.
    """
    laws = _laws_of(metric, window, baseline)
    if laws is not None and effects != INDEPENDENT:
        laws = _laws_of(metric, *by_week(window, baseline, effects)) or laws
    if laws is None:
        return None
    found, frozen = laws[::-1] if falls else laws
    if isinstance(found, LogitArea) and isinstance(frozen, LogitArea):
        return found.risen_from(frozen, accepted)
    if isinstance(found, LogitArea) or isinstance(frozen, LogitArea):
        return 0.5  # the other window has no miss: its rows say nothing about the truth
    risen = found.below.minus(frozen.above).below(accepted)
    if isinstance(found, Proportion) and isinstance(frozen, Proportion):
        # if both windows had the same true value (the two pooled)
        hits = found.share * found.rows + found.share_at(frozen.value) * frozen.rows
        same = found.offset + found.scale * (hits + 0.5) / (found.rows + frozen.rows + 1)
        deviation = math.sqrt(sum(law.variance_at(law.share_at(same)) for law in (found, frozen)))
        return max(risen, float(ndtr((frozen.value + accepted - found.value) / deviation)))
    return risen


def _laws_of(metric: str | MetricSpec, window: Counts, baseline: Counts) -> tuple[Law, Law] | None:
    """The laws of the metric in both; None where one does not define it."""
    found, frozen = law_of(metric, window), law_of(metric, baseline)
    return None if found is None or frozen is None else (found, frozen)


def by_week(window: Counts, baseline: Counts, effects: Effects) -> tuple[Counts, Counts]:
    """Both with as many effective rows as they are worth where weeks differ."""
    if effects == INDEPENDENT:
        return window, baseline
    now, then = (
        replace(
            counts,
            design_effect=counts.design_effect * effect,
            acting_effects=(counts.acting_effects[0] * effect, counts.acting_effects[1] * effect),
        )
        for counts, effect in zip((window, baseline), effects, strict=True)
    )
    return now, then


def detectable_change(
    metric: str | MetricSpec,
    window: Counts,
    baseline: Counts,
    rate: float,
    *,
    falls: bool = False,
    accepted: float = 0.0,
) -> float | None:
    """The smallest change that :func:`change_p` would show with ``power`` at the unadjusted rate.

    None where the metric is undefined or not even its largest value (or a fall to 0) would be seen.
    """
    laws = _laws_of(metric, window, baseline)
    if laws is None:
        return None
    found, frozen = laws
    if isinstance(found, Proportion) and isinstance(frozen, Proportion):
        now, then = (_negated(found), _negated(frozen)) if falls else (found, frozen)
        then = replace(then, offset=then.offset + accepted)
        further = _share_increase(now, then, float(ndtri(POWER) - ndtri(rate)))
        return None if further is None else accepted + further
    higher, lower = laws[::-1] if falls else laws
    # at the present variances (and skewness) of the two windows
    if isinstance(higher, LogitArea) and isinstance(lower, LogitArea):
        reach = float(ndtri(POWER) - stdtrit(higher.freedom_with(lower), rate))
        moved = accepted + reach * math.sqrt(higher.variance + lower.variance)
    elif isinstance(higher, LogitArea) or isinstance(lower, LogitArea):
        moved = math.inf
    else:
        high, low = higher.above.minus(lower.below), higher.below.minus(lower.above)
        moved = accepted + (high.quantile(POWER) - low.quantile(rate))
    most = found.most if isinstance(found, OfMoments) else 1.0
    return moved if (moved <= frozen.value if falls else frozen.value + moved <= most) else None


def _negated(law: Proportion) -> Proportion:
    """The law of minus the metric: a fall of one is a rise of the other."""
    return replace(law, offset=-law.offset, scale=-law.scale)


def law_of(metric: str | MetricSpec, counts: Counts) -> Law | None:
    """The sampling law of this metric of these counts; None where the metric is undefined."""
    if not len(counts.cell):
        return None
    name = MetricSpec.of(metric).name
    unequal = unequal_share(name, counts)
    if unequal is not None:
        return FScore(unequal) if name == "f1" else unequal
    made = _LAWS.get(name)
    return registered_law(metric, counts) if made is None else made(counts)


def _f1(counts: Counts) -> Law | None:
    share = Proportion.of(agreed(counts))
    return None if share is None else FScore(share)


def _overconfidence(counts: Counts) -> Law | None:
    total = float(counts.w.sum())
    if not total > 0:
        return None
    claimed, right_share = float(counts.ws.sum() / total), min(max(float(counts.wy.sum() / total), 0.0), 1.0)
    return Proportion(right_share, counts.effective_rows, offset=claimed, scale=-1.0)


def _nll(counts: Counts) -> Law | None:
    losses = log_losses(counts)
    value = None if losses is None else max(losses.mean, 0.0)
    return _mean_loss(losses, value, counts.effective_rows, most=-math.log(EPSILON))


def _mean_loss(losses: Losses | None, value: float | None, rows: float, *, most: float) -> Law | None:
    if losses is None or value is None:
        return None
    variance, third = losses.cumulants()
    skew = third / variance**1.5 if variance > 0 else 0.0
    return Mean(value, math.sqrt(variance), skew, losses.rise / rows, value / rows, most)


@lru_cache(maxsize=8)
def _classes(counts: Counts) -> Classes:
    """The classes of these counts, kept by identity and not by content: both areas need them in turn."""
    return classes(counts)


def _roc_auc(counts: Counts) -> Law | None:
    two = _classes(counts)
    if not (two.hit.any() and two.miss.any()):
        return None
    value = area_of_roc(two).value
    wider = area_of_roc(with_unseen_pair(two, value))
    return Ranking(value, wider.value * (1 - wider.value) / wider.variance)


def _pr_auc(counts: Counts) -> Law | None:
    two = _classes(counts)
    if not two.hit.any():
        return None
    if not two.miss.any():
        return Proportion(1.0, 0.0)  # 1 for any scores: no row says anything about the truth
    with_hit = with_unseen_hit(two)
    wider, lower = (area_of_precision_recall(each) for each in (with_hit, with_unseen_miss_on_top(with_hit)))
    return LogitArea(
        area_of_precision_recall(two).value,
        wider.value,
        math.sqrt(wider.variance),
        freedom=max(min(two.hits, two.misses) - 0.5, _LEAST),
        low_centre=lower.value,
        low_se=math.sqrt(lower.variance),
    )


_LAWS: Mapping[str, Callable[[Counts], Law | None]] = {
    "brier": lambda counts: _mean_loss(squared_losses(counts), brier(counts), counts.effective_rows, most=1.0),
    "nll": _nll,
    "roc_auc": _roc_auc,
    "pr_auc": _pr_auc,
    "overconfidence": _overconfidence,
    "f1": _f1,
}


def _share_increase(found: Proportion, frozen: Proportion, reach: float) -> float | None:
    """The increase d with d = reach * sd of the change, where the window's share is that of baseline + d.

    A quadratic in d, as for Wilson's interval; not below reach times the sd under no change.
    """
    share, up = found.share_at(frozen.value), math.copysign(1.0, found.scale)
    square, other = reach**2, frozen.variance / found.scale**2
    if not (found.rows > 0 and math.isfinite(other)):
        return None
    half = square * up * (1 - 2 * share) / 2
    constant = square * (found.rows * other + share * (1 - share))
    moved = (half + math.sqrt(half**2 + (found.rows + square) * constant)) / (found.rows + square)
    moved = max(moved, reach * math.sqrt(other + share * (1 - share) / found.rows))
    return moved * abs(found.scale) if 0 <= share + up * moved <= 1 else None


# --- what the history keeps of a window for a year


def all_promises_of(counts: Counts) -> Promises:
    """The promise of each population, of each share of right decisions, and of pairs; of whole labels, not of parts."""
    shares: dict[Population, Promise | None] = {name: decided_promise(counts, name) for name in DECIDED}
    found = {**promises_of(counts), **shares, "ranked": ranked_promise(counts)}
    return {name: promise for name, promise in found.items() if promise is not None}


def ranked_promise(counts: Counts) -> Promise | None:
    """The share of pairs of a true and another item that scores put in order, as a promise of 1; None without pairs.

    >>> from monitor.core.counts import counts_from_rows
    >>> ranked_promise(counts_from_rows([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0])).kept
    0.875
    """
    law = kept_with(counts, ("ranked",), lambda: law_of("roc_auc", counts))
    return Promise(counts.rows, law.rows, 1.0, law.value) if isinstance(law, Ranking) else None
