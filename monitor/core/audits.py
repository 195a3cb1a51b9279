"""Items that people checked since they were drawn at random among those that act alone: the truth of what acts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.core.records import Window

SHEET = ("source", "label", "item", "score", "week", "truth")
"""The columns of what people fill in: a CSV file, or a table of their own."""


@dataclass(frozen=True, slots=True)
class AuditedItem:
    """An item drawn of the week that begins at ``window_start``, one of ``of`` that act alone on its label.

    ``outcome``: its label was right (1) or wrong (0), None while people have not decided. ``stated`` is what the
    relation said of it when it was last drawn, None if nothing.
    """

    source: str
    window_start: datetime
    label: str
    item: str
    score: float
    of: int
    outcome: float | None = None
    stated: float | None = None


def sheet_row(item: AuditedItem, window: Window) -> tuple[str, str, str, float, str, str | None]:
    """A row of :data:`SHEET` whose truth people write."""
    return item.source, item.label, item.item, item.score, window.name, None
