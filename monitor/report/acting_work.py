"""What automation did on one label in one window, counted from the scores from which gates acted. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from monitor.automation.harm import TimeOn
from monitor.core.counts import CELLS, Counts
from monitor.inference.selective import excess_errors
from monitor.report.figures.automation_work import LabelWork


@dataclass(frozen=True, slots=True)
class Configured:
    """What alerts.yaml says of a label: ``automate_at``, and the cost of one wrong action (None: not configured)."""

    automate_at: float
    cost: float | None = None


def works_of(counts: Counts, on: TimeOn, configured: Configured, confidence: float) -> list[LabelWork]:
    """The work of one label: a part for each score from which it acted, whose sums are those of the window.

    A part counts as much as its share of the time that automation was on. If it never was, there is one part, from
    ``automate_at``, as in a report.
    """
    if not on.scores:
        return [_work(counts, 1.0, on.share, configured, confidence)]
    return [
        _work(acted_from(counts, score, configured.automate_at), share / on.share, on.share, configured, confidence)
        for score, share in on.scores
    ]


def _work(counts: Counts, weight: float, on: float, configured: Configured, confidence: float) -> LabelWork:
    chosen, found = counts.where("automated"), excess_errors(counts, confidence=confidence)
    rows = float(chosen.w.sum())
    return LabelWork(
        predicted=weight * counts.where("predicted").rows,
        eligible=weight * chosen.rows,
        on=on,
        accuracy=float(chosen.wy.sum()) / rows if rows else None,
        promised=float(chosen.ws.sum()) / rows if rows else None,
        excess=0.0 if found is None else weight * found.excess,
        low=None if found is None else weight * found.low,
        high=None if found is None else weight * found.high,
        cost=configured.cost,
    )


def acted_from(counts: Counts, score: float, configured: float) -> Counts:
    """The counts as if rows had acted alone from ``score`` on; ``counts`` itself if they did.

    Rows are counted by cells of scores. Those in the cell of the score itself are kept as they were read, if they were
    read with a threshold in that cell, as ``configured`` is, or with a lower one.
    """
    edge = _cell(score)
    at, above = counts.cell == edge, counts.cell > edge
    is_lower = bool((counts.automated & (counts.cell <= edge)).any())
    is_higher = bool((counts.predicted & ~counts.automated & above).any())
    as_read = is_lower or (not is_higher and _cell(configured) == edge)
    wanted = counts.predicted & (above | (at & counts.automated if as_read else at))
    return counts if np.array_equal(wanted, counts.automated) else replace(counts, automated=wanted)


def _cell(score: float) -> int:
    return int(np.floor(score * CELLS + 0.5))
