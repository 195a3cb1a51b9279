"""The rows behind a finding: which rows are requested, and what is shown of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """Which rows: those whose decision was ``right`` (or wrong), with scores from ``least`` to ``most``, inclusive.

    ``label`` None means any label, ``segment`` (column, value) only rows of that part. At most ``limit`` rows are
    given, those with the most confident decisions first.
    """

    label: str | None = None
    right: bool = False
    least: float = 0.0
    most: float = 1.0
    limit: int = 20
    segment: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One row of the warehouse with its score, decision and truth. ``resolved_at`` is in UTC.

    ``true_labels`` are the labels that are true for the item, where rows of the source say so.
    """

    item: str
    label: str
    score: float
    actual: float
    predicted: bool
    resolved_at: datetime
    segments: Mapping[str, str]
    true_labels: tuple[str, ...] = ()


def example_row(row: Mapping[str, Any], segments: tuple[str, ...]) -> ExampleRow:
    """The example of a row of :meth:`~monitor.warehouse.statements.Statements.behind`, with its date as Python's."""
    return ExampleRow(
        item=str(row["item"]),
        label=str(row["label"]),
        score=float(row["score"]),
        actual=float(row["actual"]),
        predicted=float(row["predicted"]) == 1,
        resolved_at=row["resolved"].astimezone(UTC),
        segments={name: str(row[f"segment_{index}"]) for index, name in enumerate(segments)},
    )
