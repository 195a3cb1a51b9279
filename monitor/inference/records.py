"""The records that the tests of this room hand upwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class IncreaseTest:
    """The evidence on the change of one metric from a baseline to a window; None where undefined.

    ``value0`` and ``value1`` are the (debiased) points of the baseline and of the window, ``change``
    is ``value1 - value0`` and ``[low, high]`` its MOVER interval (Zou & Donner 2008). ``p_value`` is
    one-sided for "the metric got larger" (in the metric's own direction: see where it is computed).
    ``p_rate`` is the p-value of the variant that is blind to a mere change of traffic, None for a
    metric that has none. ``detail`` carries what is worth keeping beside the numbers.
    """

    value0: float | None
    value1: float | None
    change: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_rate: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
