"""Selective prediction: how often automated decisions are wrong, and how many items are left to people.

The confidence is the score. With ``probability_of_label`` these metrics use the rows whose label was predicted, since
nobody acts on a label that was not given. With ``confidence_in_prediction`` they use all rows, since each is a decision
with its confidence. A row is right if its outcome came true.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats
from monitor.metrics.classification import Share, came_true, share_of
from monitor.metrics.definition import Metric
from monitor.metrics.groups import Groups, over


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """Risk (share of wrong ones) among the most confident rows, by their share of all; arrays have shape (T,).

    Point k is "score >= threshold[k]", highest threshold first. Between two points, rows with one score come in random
    order. ``oracle`` is the lowest risk of any order of these rows at that coverage; ``aurc`` is the area under the
    curve, ``oracle_aurc`` that under the oracle's.
    """

    threshold: Floats
    coverage: Floats
    risk: Floats
    oracle: Floats
    aurc: float
    oracle_aurc: float


def looked_at(counts: Counts) -> Counts:
    """The rows of the curve: the predicted ones, or all if the score is the confidence in the prediction."""
    # as a population of its own, whose design effect may be larger than the label's
    return counts.where("predicted") if counts.score_is == "probability_of_label" else counts


def risk_coverage(counts: Counts) -> RiskCoverage | None:
    """The risk-coverage curve with the oracle's; None without rows. El-Yaniv & Wiener 2010.

    >>> from monitor.core.counts import counts_from_rows
    >>> curve = risk_coverage(counts_from_rows([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 1]))
    >>> curve.coverage.tolist(), curve.risk.round(4).tolist(), curve.oracle.tolist()
    ([0.25, 0.5, 0.75, 1.0], [0.0, 0.5, 0.3333, 0.25], [0.0, 0.0, 0.0, 0.25])
    """
    cells = looked_at(counts).by_cell().weighted()
    if len(cells.w) == 0:
        return None
    wrong = (cells.w - np.clip(cells.wy, 0.0, cells.w))[::-1]
    held = np.cumsum(cells.w[::-1])
    coverage, risk = held / held[-1], np.cumsum(wrong) / held
    overall = float(risk[-1])
    oracle = np.maximum(coverage - (1 - overall), 0.0) / coverage
    area = float(_area(wrong, cells.w[::-1]))
    return RiskCoverage(cells.cell[::-1] / CELLS, coverage, risk, oracle, area, float(oracle_area(np.array(overall))))


def oracle_area(risk: Floats) -> Floats:
    """The area under the oracle's curve if a share r of all rows is wrong: r + (1 - r) ln(1 - r). Shape as ``risk``.

    Geifman, Uziel & El-Yaniv 2019.

    >>> round(float(oracle_area(np.array(0.25))), 6)
    0.034238
    """
    right = np.maximum(1 - np.asarray(risk, dtype=np.float64), 0.0)
    return np.asarray(np.maximum(1 - right + right * np.log(np.where(right > 0, right, 1.0)), 0.0))


def _area(wrong: Floats, held: Floats) -> Floats:
    """The area under risk over coverage, of the weights of wrong and of all rows of each score, highest first.

    Within a score rows come in random order, so that wrong ones grow evenly: with E and C before it and rate r,
    the integral of (E + r (c - C)) / c from C to C + w is r w + (E - r C) ln(1 + w / C).
    """
    before = np.cumsum(held, axis=-1) - held
    errors = np.cumsum(wrong, axis=-1) - wrong
    rate = over(wrong, held, 0.0)
    steps = np.where(before > 0, (errors - rate * before) * np.log1p(over(held, before, 0.0)), 0.0)
    return over((wrong + steps).sum(axis=-1), held.sum(axis=-1))


def aurc_core(groups: Groups) -> Floats:
    """Area under the risk-coverage curve, in [0, 1]. Shape (...).

    The mean, over all shares c, of the share of wrong ones among the c most confident rows. Weights are masses: the
    textbook's mean over whole rows is larger by about risk ln(n) / n. Geifman & El-Yaniv 2017.
    """
    return _area(*_by_score(groups))


def e_aurc_core(groups: Groups) -> Floats:
    """The AURC minus that of the oracle, who puts every wrong row last; 0 is a perfect order. Shape (...)."""
    wrong, held = _by_score(groups)
    overall = over(wrong.sum(axis=-1), held.sum(axis=-1))
    return np.maximum(_area(wrong, held) - oracle_area(overall), 0.0)


def _by_score(groups: Groups) -> tuple[Floats, Floats]:
    """The weights of the wrong rows and of all rows, by distinct cell, highest first; shapes (T,) or (B, T)."""
    of_label = groups.score_is == "probability_of_label"
    chosen = groups.predicted if of_label else np.ones_like(groups.predicted)
    cell, hit, miss = groups.cell[chosen], groups.hit[..., chosen], groups.miss[..., chosen]
    if len(cell) == 0:
        return miss, miss
    starts = np.flatnonzero(np.concatenate(([True], np.diff(cell) > 0)))  # cells are in order
    wrong, right = (np.add.reduceat(part, starts, axis=-1)[..., ::-1] for part in (miss, hit))
    return wrong, wrong + right


def left_to_people(counts: Counts) -> Share | None:
    """The share of the predicted rows that were not automated, with its effective rows; None without a prediction."""
    chosen = counts.where("predicted")
    return share_of(chosen, chosen.w[~chosen.automated])


def excess_errors_core(groups: Groups) -> Floats:
    """Errors seen among the automated rows minus those that the scores claimed: sum w (s - y), in rows. Shape (...).

    Negative: fewer were wrong than the scores claimed.
    """
    acted = groups.automated.astype(np.float64)
    observed, held = groups.miss @ acted, (groups.hit + groups.miss) @ acted
    promised = (groups.hit + groups.miss) @ (acted * (1 - groups.score))
    return np.where(held > 0, observed - promised, np.nan)


OF_AUTOMATED: frozenset[str] = frozenset({"automated_accuracy", "excess_errors"})
"""Metrics that use only the automated rows of the given ones."""

REGISTERED: tuple[Metric, ...] = (
    Metric("aurc", "Area under the risk-coverage curve", "lower", core=aurc_core),
    Metric("e_aurc", "Excess area under the risk-coverage curve", "lower", core=e_aurc_core),
    Metric("automated_accuracy", "Accuracy of the automated part", "higher", share=came_true("automated")),
    Metric("share_to_people", "Share sent to people", "lower", share=left_to_people),
    Metric("review_rate", "Share of items sent to people", "lower", share=came_true("all")),
    Metric("excess_errors", "Excess errors", "lower", core=excess_errors_core),
)
