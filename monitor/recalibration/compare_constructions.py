"""Which way of making scores is best calibrated on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Interval, ScoreIs
from monitor.inference.intervals import ece_intervals
from monitor.inference.levels import interval
from monitor.metrics.calibration import brier, nll
from monitor.warehouse.score_construction import Scored


@dataclass(frozen=True, slots=True)
class Compared:
    """One construction on the rows: ECE (debiased, with its interval), Brier score, log loss and ROC-AUC."""

    name: str
    rows: int
    ece: Interval
    brier: float | None
    nll: float | None
    roc_auc: Interval


def counts_of(
    made: Mapping[str, Scored],
    outcome: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
    score_is: ScoreIs = "probability_of_label",
) -> dict[str, Counts]:
    """The counts of every construction over the rows of which all of them have a score, so that they can be compared.

    ``outcome`` in [0, 1] and ``weight`` have shape (N,), like the scores. Raises ValueError where the lengths differ or
    an outcome lies outside.

    >>> from monitor.warehouse.score_construction import scores
    >>> rows = ["[-0.1, -0.3]", "[0.5]", "[-1.2]"]
    >>> made = {name: scores(name, rows) for name in ("min_probability", "mean_probability")}
    >>> {name: counts.rows for name, counts in counts_of(made, [1, 1, 0]).items()}
    {'min_probability': 2, 'mean_probability': 2}
    """
    y = np.asarray(outcome, dtype=np.float64)
    w = np.ones_like(y) if weight is None else np.asarray(weight, dtype=np.float64)
    if any(scored.score.shape != y.shape for scored in made.values()) or w.shape != y.shape:
        raise ValueError(f"scores, outcomes ({y.shape}) and weights ({w.shape}) must have the same length")
    if not ((y >= 0) & (y <= 1)).all():
        raise ValueError(f"row {int(np.argmin((y >= 0) & (y <= 1)))}: the outcome must lie in [0, 1]")
    common = np.isfinite(np.stack([scored.score for scored in made.values()])).all(axis=0)
    return {
        name: counts_from_rows(scored.score[common], y[common], weight=w[common], score_is=score_is)
        for name, scored in made.items()
    }


def compare(constructions: Mapping[str, Counts], *, bins: int = 15, confidence: float = 0.95) -> list[Compared]:
    """Every construction with its calibration and discrimination, the best calibrated first.

    ECE on equal-frequency bins of the construction's own scores, with the analytic interval. Of equal ECEs (several may
    be 0 when debiased) the one with the lower Brier score comes first; those without rows come last.
    """
    tables = [bin_counts(counts, equal_frequency_edges(counts, bins)) for counts in constructions.values()]
    eces = ece_intervals(tables, [], confidence=confidence, form="analytic")
    found = [
        Compared(name, counts.rows, ece, brier(counts), nll(counts), interval("roc_auc", counts, confidence))
        for (name, counts), ece in zip(constructions.items(), eces, strict=True)
    ]
    return sorted(found, key=_order)


def _order(one: Compared) -> tuple[float, float]:
    ece, score = one.ece.value, one.brier
    return (np.inf if ece is None else ece, np.inf if score is None else score)
