"""The counts of one label by the values of its segment columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from monitor.core.counts import Counts

SegmentCounts: TypeAlias = "Mapping[tuple[str, str], Counts]"
"""Counts by (column, value)."""
