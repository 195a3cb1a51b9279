"""The adjustment of p-values for testing many labels with many rules."""

from __future__ import annotations

from collections.abc import Sequence

import scipy  # its parts are loaded when they are first used, and most commands never use them


def adjust(p_values: Sequence[float], rules: int) -> list[float]:
    """min(1, Benjamini-Hochberg p times ``rules``), to be compared with the false discovery rate.

    ``p_values`` are those of the labels of one (source, window, rule): the family; ``rules`` is the
    number of decision rules of that schedule. Raises ValueError for p outside [0, 1] or rules < 1.

    >>> [round(p, 6) for p in adjust([0.01, 0.04, 0.03, 0.005], 2)]
    [0.04, 0.08, 0.08, 0.04]
    """
    if rules < 1:
        raise ValueError(f"rules counts the decision rules of a schedule, at least 1, not {rules}")
    if not p_values:
        return []
    return [min(1.0, float(p) * rules) for p in scipy.stats.false_discovery_control(list(p_values), method="bh")]
