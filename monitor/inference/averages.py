"""Averages over the labels of a source: macro, weighted and micro precision, recall and F1, with their spread.

A label's own precision, recall and F1 have closed forms (``levels``). An average over labels has none: it is
drawn by the bootstrap on counts, from two groups a label, so that thousands of labels cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from monitor.core.counts import Counts, Floats, pool
from monitor.core.records import Interval, ScoreIs
from monitor.inference.counts_bootstrap import CountSamples, Spread, bootstrap, by_prediction
from monitor.inference.levels import interval

_Rate = Callable[[Floats, Floats, Floats], Floats]
_RATES: dict[str, _Rate] = {
    "precision": lambda tp, fp, fn: _over(tp, tp + fp),
    "recall": lambda tp, fp, fn: _over(tp, tp + fn),
    "f1": lambda tp, fp, fn: _over(2 * tp, 2 * tp + fp + fn),
}


def averaged(
    name: str,
    parts: Sequence[Counts],
    confidence: float,
    rng: np.random.Generator,
    *,
    design_effect: float = 1.0,
    resamples: int = 1000,
) -> Interval:
    """An average over labels with its interval; all None where no label defines it, and value = plug_in.

    ``name`` is macro_, weighted_ (by actual positives) or micro_ (of all rows together) with precision, recall or f1
    (KeyError for another); ``parts`` are the labels' counts. Labels that do not define the metric are left out, where
    scikit-learn would take them for 0. Labels are drawn independently; ``design_effect`` widens the spread where
    the rows of one item go together (that of the source as a whole, clustered by item). Memory and time grow
    with labels x resamples, not with rows.

    >>> from monitor.core.counts import counts_from_rows
    >>> labels = [counts_from_rows([0.9] * 100 + [0.1] * 100, [1] * k + [0] * (200 - k)) for k in (70, 90)]
    >>> found = averaged("macro_precision", labels, 0.95, np.random.default_rng(1))
    >>> round(found.value, 2), found.low < 0.78, found.high > 0.82
    (0.8, True, True)
    """
    kind, _, metric = name.partition("_")
    rate = _RATES[metric]
    if kind == "micro":
        together = pool(parts) if parts else None
        if together is None or together.rows == 0:
            return Interval(None, None, None, None)
        return interval(metric, together.with_design_effect(design_effect), confidence)
    weigh = {"macro": False, "weighted": True}[kind]
    groups = [by_prediction(part.with_design_effect(max(design_effect, part.design_effect))) for part in parts]
    found = spread_of(rate, groups, rng, weigh=weigh, resamples=resamples)
    if found is None:
        return Interval(None, None, None, None)
    low, high = found.interval(confidence)
    return Interval(found.value, low, high, found.value)


def spread_of(
    rate: _Rate, parts: Sequence[Counts], rng: np.random.Generator, *, weigh: bool, resamples: int
) -> Spread | None:
    """The spread of the (weighted) mean over labels of a rate of their true and false positives and negatives."""
    score_is: ScoreIs = parts[0].score_is if parts else "probability_of_label"

    def mean(drawn: Sequence[CountSamples]) -> Floats:
        total = weight = np.zeros(len(drawn[0].hit))
        for label in drawn:
            tp, fp, fn = _confusion(label, score_is)
            value = rate(tp, fp, fn)
            weighs = np.where(np.isfinite(value), tp + fn if weigh else 1.0, 0.0)
            total, weight = total + weighs * np.nan_to_num(value), weight + weighs
        return _over(total, weight)

    return bootstrap(parts, mean, rng, resamples=resamples)


def _confusion(drawn: CountSamples, score_is: ScoreIs) -> tuple[Floats, Floats, Floats]:
    """True positives, false positives and false negatives of each draw, shapes (B,)."""
    yes, no = drawn.predicted, ~drawn.predicted
    missed = drawn.hit if score_is == "probability_of_label" else drawn.miss
    return drawn.hit[:, yes].sum(axis=1), drawn.miss[:, yes].sum(axis=1), missed[:, no].sum(axis=1)


def _over(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.full_like(whole, np.nan, dtype=np.float64), where=whole > 0)
