"""In which part of a label's rows a trouble is, and from which window on. Pure.

Each segment is compared with the rest of the label's rows, window by window, so that what changes everywhere names
none. All segments and windows are one family (Bonferroni); the one named has the largest gap that is sure, not the
most rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from monitor.core.counts import Bools, Floats
from monitor.core.diagnoses import Segment
from monitor.core.records import SCORE_BAND
from monitor.evaluation.weekly_evidence import WeeklyEvidence, changes, spread_beyond_chance

NEARLY_ALL = 0.9
"""A segment with a larger share of the rows is the label."""
LEAST_ROWS = 20.0
"""The effective rows that a segment needs since its trouble began."""
CHANCE = 0.01
"""The chance that any segment of a label is named where all are alike."""


@dataclass(frozen=True, slots=True)
class TroubledSegment:
    """A segment that became worse than the rest from the window of index ``at`` on."""

    segment: Segment
    at: int


def troubled_segments(
    evidence: WeeklyEvidence, margin: float, near: tuple[int, int] | None = None
) -> list[TroubledSegment]:
    """The segments in trouble, the one to name first. Bands of scores come last: any fault is larger in some of them.

    A segment is in trouble if it surely changed more than the rest, by more than ``margin`` and by more than the rest
    changed itself. One that has nearly all rows is never named. ``near`` are the indices of the first and last window
    in which it may have begun, where that is known of the label; the fewer, the smaller the family.
    """
    if not evidence.segments or not evidence.windows:
        return []
    rest = evidence.rest()
    gap, variance = evidence.against(rest)
    newest = len(evidence.windows) - 1
    first, last = near or (evidence.first, newest)
    first, last = min(max(first, 1), newest), min(max(last, 1), newest)
    change, noise = (part[:, first : last + 1] for part in changes(gap, variance))
    at = (change / np.sqrt(noise)).argmax(axis=1)
    line = np.arange(len(at))
    more, spread = change[line, at], noise[line, at]
    place = at + first
    spread = spread * [spread_beyond_chance(gap[k], variance[k], int(place[k])) for k in line]
    sure = more - ndtri(1 - CHANCE / change.size) * np.sqrt(spread)
    moved = changes(rest.value[1:], rest.variance[1:])[0][line, place]
    named = (sure > 0) & (more > np.maximum(margin, moved)) & (more + moved > margin) & _is_part(evidence, place)
    found = sorted(np.flatnonzero(named), key=lambda k: (evidence.segments[k][0] == SCORE_BAND, -sure[k]))
    return [TroubledSegment(evidence.segments[k], int(place[k])) for k in found]


def _is_part(evidence: WeeklyEvidence, place: Floats) -> Bools:
    """Whether each segment has enough rows since its window ``place``, and leaves some to the rest."""
    since = np.arange(len(evidence.windows)) >= place[:, None]
    rows = (evidence.rows[1:] * since).sum(axis=1)
    share = rows / np.maximum((evidence.rows[:1] * since).sum(axis=1), 1e-9)
    return np.asarray((rows >= LEAST_ROWS) & (np.maximum(share, evidence.share[:, -1]) <= NEARLY_ALL))
