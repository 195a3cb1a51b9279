"""Reliability diagrams of the k highest scores of items, from the bins that a window's estimates keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from monitor.core.counts import OF_DIAGRAM, BinCounts
from monitor.core.records import Estimate
from monitor.metrics.top_k import RANKS
from monitor.report.figures.reliability import Reliability, reliability_data

KEPT_IN: Mapping[str, int] = {f"ece_at_{k}": k for k in RANKS}
"""The metrics whose estimates keep bins, each with its k."""


def ranked_reliability(estimates: Iterable[Estimate], confidence: float = 0.95) -> dict[int, Reliability]:
    """The diagram of each k, with its bin sizes (the histogram of the scores); {} where no estimate keeps bins."""
    kept = ((KEPT_IN.get(e.metric), e.detail.get("bins")) for e in estimates)
    return {k: reliability_data(_bins(bins), confidence=confidence) for k, bins in kept if k is not None and bins}


def _bins(kept: Mapping[str, Any]) -> BinCounts:
    whole = ("upper", "n")
    columns = {name: kept[name] for name in OF_DIAGRAM}
    return BinCounts(**{name: np.asarray(c, dtype=np.int64 if name in whole else float) for name, c in columns.items()})
