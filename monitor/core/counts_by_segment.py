"""The counts of one label by the values of all its segment columns at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from monitor.core.counts import Counts

SegmentCounts: TypeAlias = "Mapping[tuple[str, str], Counts]"
"""Counts by (column, value)."""
Segment = tuple[tuple[str, str], ...]
"""One or two (column, value): a segment, or the rows that two segments share."""


@dataclass(frozen=True, slots=True, eq=False)
class CountsBySegment:
    """``parts`` maps one value for each of ``columns``, in order, to the counts of the rows with all these values."""

    columns: tuple[str, ...]
    parts: Mapping[tuple[str, ...], Counts] = field(default_factory=dict)
