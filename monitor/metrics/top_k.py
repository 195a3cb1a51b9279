"""Top-k calibration: are the k highest scores of each item right as often as they say?

A label can be calibrated on all its rows although its highest-ranked scores are not: ranking selects scores that are
too high. So the metrics here read the counts of the rows of rank 1 to k alone (Ullah et al., extreme multi-label
classification). The rank is taken in the warehouse, by score from the highest and among equal scores by label name.
"""

from __future__ import annotations

from collections.abc import Mapping

from monitor.core.counts import Counts
from monitor.metrics.calibration import CALIBRATION_BANDS
from monitor.metrics.definition import Band, Direction, Metric
from monitor.metrics.names import RANKS


def precision_at(counts: Counts) -> float | None:
    """P@k: the share of the k highest-scored labels that are true, in [0, 1]; None without rows.

    Equal to the mean over items of hits / k if each item has at least k scored labels.

    >>> from monitor.core.counts import counts_from_rows
    >>> precision_at(counts_from_rows([0.9, 0.8], [1, 0]))
    0.5
    """
    total = float(counts.w.sum())
    return min(max(float(counts.wy.sum()) / total, 0.0), 1.0) if total > 0 else None


_KINDS: tuple[tuple[str, str, Direction, tuple[Band, ...], str], ...] = (
    ("ece", "ECE", "lower", CALIBRATION_BANDS, "equal_width_ece"),
    ("ace", "ACE", "lower", CALIBRATION_BANDS, "ace"),
    ("brier", "Brier", "lower", (), "brier"),
    ("nll", "NLL", "lower", (), "nll"),
    ("precision", "P", "higher", (), "prevalence"),
)
ON_RANKED: Mapping[str, str] = {f"{kind}_at_{k}": same for k in RANKS for kind, *_, same in _KINDS}
"""For each of :data:`REGISTERED`, the metric of counts that it computes on the counts of rank 1 to k; its law holds
here too."""
REGISTERED: tuple[Metric, ...] = (
    *(
        Metric(f"{kind}_at_{k}", f"{title}@{k}", direction, bands)
        for k in RANKS
        for kind, title, direction, bands, _ in _KINDS
    ),
    *(Metric(f"ndcg_at_{k}", f"nDCG@{k}", "higher") for k in RANKS),
    Metric("hamming_loss", "Hamming loss", "lower"),
    Metric("subset_loss", "Subset loss", "lower"),
)
