"""The true values of the demo: the metrics of an infinitely large window, computed from its populations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.demo.population import (
    ARRIVED,
    DELAY_MEDIAN,
    DELAY_RANGE,
    DELAY_SIGMA,
    SECOND_LABEL,
    SOURCES,
    Floats,
    rounded,
    true_probability,
)

BINS = 15


def candidate_share(source: str, label: str) -> float:
    """The share of items that are candidates of a label, as first or second label."""
    labels = SOURCES[source].labels
    own = labels[label].first
    second = sum(spec.first * own / (1.0 - spec.first) for name, spec in labels.items() if name != label)
    return own + SECOND_LABEL * second


@cache
def carried_over() -> float:
    """The share of the rows resolved in a week that had been predicted in the week before.

    An item with delay d is among them if it comes in the last d hours of its week.
    """
    quantiles = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    delays = np.clip(DELAY_MEDIAN * np.exp(DELAY_SIGMA * quantiles), *DELAY_RANGE)
    return float(np.mean(1.0 - np.interp(168.0 - delays, np.arange(169), ARRIVED)))


@cache
def population(source: str, label: str, week: int, points: int = 40_000) -> Counts:
    """The rows resolved in a week in the limit of infinitely many: each outcome is its probability.

    The scores are quantiles of their distribution, ``points`` in all; so any metric of these counts
    is the true value, to about 1 / points.
    """
    spec = SOURCES[source].labels[label]
    score = _score_quantiles(source, label, points)
    old, new = (true_probability(source, label, each, score) for each in (week - 1, week))
    outcome = carried_over() * old + (1.0 - carried_over()) * new
    return counts_from_rows(score, outcome, automate_at=spec.automate_at)


@cache
def _score_quantiles(source: str, label: str, points: int) -> Floats:
    spec = SOURCES[source].labels[label]
    candidates = round(points * candidate_share(source, label))
    parts = [
        stats.beta(*shape).ppf((np.arange(size) + 0.5) / size)
        for shape, size in ((spec.candidates, candidates), (spec.others, points - candidates))
    ]
    return rounded(np.concatenate(parts), spec.decimals)


@dataclass(frozen=True, slots=True)
class Truth:
    """The true values of an infinitely large window, without noise and bias."""

    ece: float
    overconfidence: float
    automated_overconfidence: float
    automated_share: float
    false_negative_rate: float
    prevalence: float


@cache
def truth(source: str, label: str, week: int, bins: int = BINS) -> Truth:
    """The true values of one label among the rows resolved in one week (1..26).

    The ECE is over ``bins`` equal-frequency bins whose edges come from week 1, as a baseline's would.

    >>> truth("tickets", "billing", 12).ece < 0.001, truth("tickets", "billing", 14).ece > 0.06
    (True, True)
    """
    counts = population(source, label, week)
    binned = bin_counts(counts, equal_frequency_edges(population(source, label, 1), bins)).filled()
    automated = counts.where("automated")
    missed = counts.take(~counts.predicted).positives
    return Truth(
        ece=float(np.abs(binned.ws - binned.wy).sum() / binned.w.sum()),
        overconfidence=_overconfidence(counts),
        automated_overconfidence=_overconfidence(automated),
        automated_share=automated.rows / counts.rows,
        false_negative_rate=missed / counts.positives,
        prevalence=counts.positives / counts.rows,
    )


def _overconfidence(counts: Counts) -> float:
    return float((counts.ws.sum() - counts.wy.sum()) / counts.w.sum())
