"""How much the weeks of a baseline differed, stored with it, since their rows may be gone when it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.core.records import Where


@dataclass(frozen=True, slots=True)
class WeekSpread:
    """How much one metric of a label differed between ``weeks`` weeks.

    ``statistic`` is Cochran's Q, the squares of the differences divided by the variance that the weeks' own rows give
    them, and ``freedom`` its mean if weeks were draws from one urn. Each unit of correlation between two rows of one
    week would add ``rows`` to it.
    """

    statistic: float
    freedom: float
    rows: float
    weeks: int


WeekSpreads = Mapping[str, WeekSpread]
"""By metric and population (:func:`spread_key`)."""


def spread_key(metric: str, where: Where) -> str:
    """The name under which the spread of a metric is stored."""
    return f"{metric} {where}"
