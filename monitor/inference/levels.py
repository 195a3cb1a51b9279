"""Intervals and tests of the metrics that are not binned, in closed form on counts.

Accuracy, shortfall and false-negative rate are shares of rows (exact binomial), Brier score and log
loss are means (normal, corrected for skewness), the two areas are normal on the logit scale. Rows
are effective rows throughout: Kish's size over the design effect.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from monitor.counts import Counts
from monitor.inference.change import Side, mover
from monitor.inference.records import IncreaseTest
from monitor.inference.sampling import Area, Mean, Proportion, to_normal
from monitor.metrics.calibration import Losses, brier, log_losses, nll, shortfall, squared_losses
from monitor.metrics.classification import missed, right
from monitor.metrics.discrimination import (
    area_of_precision_recall,
    area_of_roc,
    classes,
    with_unseen_hit,
    with_unseen_pair,
)
from monitor.metrics.standard_errors import loss_moments
from monitor.records import Interval

Law = Proportion | Mean | Area

_FEW = 9.99  # with fewer effective rows no skewness can be told (not 10: a rounding error must not decide)
_NOTHING = 1e-9  # a standard error this small is the rounding error of a loss that did not vary


def interval(name: str, counts: Counts, confidence: float) -> Interval:
    """The metric with its interval; all None where it is undefined, and value = plug_in.

    ``name`` is one of brier, nll, roc_auc, pr_auc, accuracy, shortfall and false_negative_rate (KeyError for
    another). The shortfall's is conditional on the mean score.

    >>> from monitor.counts import counts_from_rows
    >>> found = interval("accuracy", counts_from_rows([0.9] * 100, [1] * 90 + [0] * 10), 0.95)
    >>> round(found.value, 2), round(found.low, 4), round(found.high, 4)
    (0.9, 0.8238, 0.951)
    """
    law = law_of(name, counts)
    if law is None:
        return Interval(None, None, None, None)
    low, high = law.interval(confidence)
    return Interval(law.value, low, high, law.value)


def level_p(name: str, counts: Counts, threshold: float, side: Side) -> float | None:
    """One-sided p-value for "the true value is beyond the threshold"; None where undefined.

    >>> from monitor.counts import counts_from_rows
    >>> counts = counts_from_rows([0.9] * 100, [1] * 75 + [0] * 25)
    >>> round(level_p("shortfall", counts, 0.05, "above"), 4)  # P(Bin(100, 0.85) <= 75)
    0.0061
    """
    law = law_of(name, counts)
    return None if law is None else law.p_value(threshold, side)


def level_detectable(
    name: str, counts: Counts, threshold: float, side: Side, rate: float, *, power: float = 0.8
) -> float | None:
    """The smallest distance beyond the threshold at which :func:`level_p` <= rate with probability ``power``.

    Exact for shares of rows. None where the metric is undefined or not even its farthest value would be seen; 0
    where no value can be beyond the threshold (a shortfall above .05 when the mean score is .03).
    """
    law = law_of(name, counts)
    return None if law is None else law.detectable(threshold, side, rate, power)


def increase_test(name: str, window: Counts, baseline: Counts, confidence: float) -> IncreaseTest:
    """Has the metric grown from the baseline to the window? ``p_value`` is for "it has", whatever its direction.

    z of the change with both standard errors; shares take the larger of the variance found and of the one under no
    change, losses keep the skewness of both windows. The interval is MOVER's (Zou & Donner 2008).
    """
    found, frozen = law_of(name, window), law_of(name, baseline)
    if found is None or frozen is None:
        values = [None if law is None else law.value for law in (frozen, found)]
        return IncreaseTest(values[0], values[1], None, None, None, None)
    low, high = mover(interval(name, baseline, confidence), interval(name, window, confidence))
    change = found.value - frozen.value
    return IncreaseTest(frozen.value, found.value, change, low, high, _increase_p(found, frozen))


def increase_detectable(
    name: str, window: Counts, baseline: Counts, rate: float, *, power: float = 0.8
) -> float | None:
    """The smallest increase that :func:`increase_test` would show with ``power`` at the unadjusted rate.

    None where the metric is undefined or not even its largest value would be seen.
    """
    found, frozen = law_of(name, window), law_of(name, baseline)
    if found is None or frozen is None:
        return None
    reach = float(ndtri(power) - ndtri(rate))
    if isinstance(found, Proportion):
        return _share_increase(found, frozen, reach)
    increase = reach * math.sqrt(found.variance + frozen.variance)
    most = found.most if isinstance(found, Mean) else 1.0
    return increase if frozen.value + increase <= most else None


def law_of(name: str, counts: Counts) -> Law | None:
    """The law by which this metric of these counts varies; None where the metric is undefined."""
    return _LAWS[name](counts)


def _accuracy(counts: Counts) -> Law | None:
    share = right(counts)
    return None if share is None else Proportion(share.value, share.rows)


def _false_negative_rate(counts: Counts) -> Law | None:
    share = missed(counts)
    return None if share is None else Proportion(share.value, share.rows)


def _shortfall(counts: Counts) -> Law | None:
    if shortfall(counts) is None:
        return None
    promised = float(counts.ws.sum() / counts.w.sum())
    kept = min(max(float(counts.wy.sum() / counts.w.sum()), 0.0), 1.0)
    return Proportion(kept, counts.effective_rows, offset=promised, scale=-1.0)


def _brier(counts: Counts) -> Law | None:
    return _mean_loss(squared_losses(counts), brier(counts), counts.effective_rows, most=1.0)


def _nll(counts: Counts) -> Law | None:
    return _mean_loss(log_losses(counts), nll(counts), counts.effective_rows, most=math.inf)


def _mean_loss(losses: Losses | None, value: float | None, rows: float, *, most: float) -> Law | None:
    if losses is None or value is None:
        return None
    found = loss_moments(losses, value)
    if found.se > _NOTHING and rows > _FEW and not losses.one_class:
        return Mean(value, found.se, found.skew, most)
    # The outcome that would show how much the loss varies has not been seen. Of all losses between
    # 0 and the largest possible with this mean, those that are one or the other vary most.
    return Proportion(min(value / losses.largest, 1.0), rows, scale=losses.largest)


def _roc_auc(counts: Counts) -> Law | None:
    two = classes(counts)
    if not (two.hit.any() and two.miss.any()):
        return None
    wider = area_of_roc(with_unseen_pair(two))
    return Area(area_of_roc(two).value, wider.value, math.sqrt(wider.variance))


def _pr_auc(counts: Counts) -> Law | None:
    two = classes(counts)
    if not two.hit.any():
        return None
    if not two.miss.any():
        return Proportion(1.0, 0.0)  # 1 whatever the scores: no row speaks about the truth
    wider = area_of_precision_recall(with_unseen_hit(two))
    return Area(area_of_precision_recall(two).value, wider.value, math.sqrt(wider.variance))


_LAWS = {
    "brier": _brier,
    "nll": _nll,
    "roc_auc": _roc_auc,
    "pr_auc": _pr_auc,
    "accuracy": _accuracy,
    "shortfall": _shortfall,
    "false_negative_rate": _false_negative_rate,
}


def _increase_p(found: Law, frozen: Law) -> float:
    change = found.value - frozen.value
    variance = found.variance + frozen.variance
    if isinstance(found, Proportion) and isinstance(frozen, Proportion):
        variance = max(variance, _unchanged_variance(found, frozen))
    third = (found.third if isinstance(found, Mean) else 0.0) - (frozen.third if isinstance(frozen, Mean) else 0.0)
    return float(ndtr(-to_normal(change / math.sqrt(variance), third / variance**1.5)))


def _unchanged_variance(found: Proportion, frozen: Proportion) -> float:
    """Variance of the change if both windows had the same true value (the two pooled)."""
    rows = found.rows + frozen.rows
    same = (found.value * found.rows + frozen.value * frozen.rows) / rows if rows > 0 else found.value
    return sum(law.variance_at(law.share_at(same)) for law in (found, frozen))


def _share_increase(found: Proportion, frozen: Law, reach: float) -> float | None:
    """The increase d with d = reach * sd of the change, the window's share being that of baseline + d.

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
