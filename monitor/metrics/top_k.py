"""Top-k calibration: are the k highest scores of each item right as often as they say?

A label can be calibrated on all its rows while the scores that win are not: ranking selects the scores that are too
high. So the metrics here read the counts of the rows of rank 1 to k alone (Ullah et al., extreme multi-label
classification). The rank is taken in the warehouse, by score from the highest and among equal scores by label name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from monitor.core.counts import Bools, Counts, counts_from_rows
from monitor.core.rows import ProbabilityRows
from monitor.metrics.calibration import ace, brier, equal_width_ece, nll
from monitor.metrics.definition import Band, Metric

RANKS = (1, 3, 5)


def within_rank(rows: ProbabilityRows, k: int) -> Bools:
    """Which scores are among their item's k highest, shape (N, K) in the order of ``rows.labels``.

    Of equal scores the label first by name comes first. Labels that were not scored have no rank.
    """
    order = sorted(range(len(rows.labels)), key=rows.labels.__getitem__)
    left = np.where(np.isnan(rows.probability), -1.0, rows.probability)[:, order]
    chosen = np.zeros(left.shape, dtype=bool)
    every = np.arange(len(left))
    for _ in range(min(k, left.shape[1])):
        best = left.argmax(axis=1)
        scored = left[every, best] >= 0
        chosen[every[scored], best[scored]] = True
        left[every, best] = -1.0
    back = np.argsort(order)
    return np.asarray(chosen[:, back])


def ranked_counts(rows: ProbabilityRows, k: int) -> Counts:
    """The counts of each item's k highest scores, as the warehouse makes them.

    >>> rows = ProbabilityRows(("a", "b"), np.array([[0.7, 0.9], [0.7, 0.4]]), np.eye(2), np.ones(2), 2)
    >>> ranked_counts(rows, 1).cell.tolist()
    [7000, 9000]
    """
    chosen = within_rank(rows, k)
    weight = np.broadcast_to(rows.weight[:, None], chosen.shape)[chosen]
    return counts_from_rows(rows.probability[chosen], rows.truth[chosen], weight=weight)


def precision_at(counts: Counts) -> float | None:
    """P@k: the share of the k highest-scored labels that are true, in [0, 1]; None without rows.

    Equal to the mean over items of hits / k where each item has k scored labels or more.

    >>> from monitor.core.counts import counts_from_rows
    >>> precision_at(counts_from_rows([0.9, 0.8], [1, 0]))
    0.5
    """
    total = float(counts.w.sum())
    return min(max(float(counts.wy.sum()) / total, 0.0), 1.0) if total > 0 else None


_SAME = {"ece": "equal_width_ece", "ace": "ace", "brier": "brier", "nll": "nll", "precision": "prevalence"}
ON_RANKED: Mapping[str, str] = MappingProxyType({f"{kind}_at_{k}": same for k in RANKS for kind, same in _SAME.items()})
"""The metric of counts that each of :data:`REGISTERED` is, of the counts of rank 1 to k: its law holds here too."""

_ECE_BANDS = (
    Band(0.0, 0.05, "well calibrated"),
    Band(0.05, 0.10, "somewhat off"),
    Band(0.10, 0.20, "recalibrate"),
    Band(0.20, 1.0, "severely miscalibrated"),
)
_KINDS: tuple[tuple[str, str, tuple[Band, ...], Callable[[Counts], float | None]], ...] = (
    (
        "ece",
        "ECE@{k}: how far {scores} of an item lie from their hit rates, equal-width bins",
        _ECE_BANDS,
        equal_width_ece,
    ),
    ("ace", "ACE@{k}: how far {scores} of an item lie from their hit rates, equal-frequency bins", _ECE_BANDS, ace),
    ("brier", "Brier@{k}: mean squared distance of {scores} of an item from the outcome", (), brier),
    ("nll", "NLL@{k}: log loss of {scores} of an item, in nats", (), nll),
    ("precision", "P@{k}: the share of hits among {scores} of an item", (), precision_at),
)


def _registered(k: int) -> tuple[Metric, ...]:
    scores = "the highest score" if k == 1 else f"the {k} highest scores"
    return tuple(
        Metric(
            name=f"{kind}_at_{k}",
            summary=summary.format(k=k, scores=scores),
            direction="higher" if kind == "precision" else "lower",
            bands=bands,
            reference="Ullah et al., calibration of extreme multi-label classifiers",
            docs_anchor=f"{kind}_at_{k}",
            needs="ranked",
            point=point,
            rank=k,
        )
        for kind, summary, bands, point in _KINDS
    )


REGISTERED: tuple[Metric, ...] = tuple(metric for k in RANKS for metric in _registered(k))
