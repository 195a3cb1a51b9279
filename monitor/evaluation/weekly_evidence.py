"""What scores claimed and what came true, window by window, in a label and in each part of its rows, as arrays. Pure.

The first line of every array is the label, the others are its segments. ``value`` rises as things get worse, whatever
the problem is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from monitor.core.counts import Bools, Floats
from monitor.core.diagnoses import LabelProblem, Segment
from monitor.core.episodes import Episode
from monitor.core.promises import columns
from monitor.core.records import SCORE_BAND, Verdict
from monitor.evaluation.accumulated import population
from monitor.evaluation.label_facts import LabelFacts
from monitor.evaluation.shift.onset import Level

SURE = 3.0
"""How many standard deviations a break must be away from 0."""
LARGER = 1.5
"""A break is so many times larger than the worst window before it differs from the mean of those."""
_USUAL = 4.0  # rows at the usual hit rate that are added to a window's own for its variance: none is never 0
_SHAPES: Mapping[LabelProblem, tuple[float, float]] = {
    LabelProblem.LESS_ACCURATE: (1.0, 0.0), LabelProblem.MISSES: (1.0, 0.0), LabelProblem.UNDERCONFIDENT: (-1.0, 1.0),
}  # fmt: skip
_OF_OVERCONFIDENCE = (1.0, 1.0)
"""The sign and the claims of :class:`WeeklyEvidence`, by problem."""


@dataclass(frozen=True, slots=True, eq=False)
class WeeklyEvidence:
    """Effective ``rows``, mean score ``claimed`` and hit rate ``kept``, each of shape (1 + S, T), oldest window first.

    ``sign`` and ``claims`` make the value: sign * (claims * claimed - kept). A trouble cannot have begun before the
    window ``first``: those before it are known to be good, or lie before the trouble that ended last.
    """

    windows: tuple[str, ...]
    segments: tuple[Segment, ...]
    rows: Floats
    claimed: Floats
    kept: Floats
    sign: float = 1.0
    claims: float = 1.0
    first: int = 0

    @property
    def value(self) -> Floats:
        """How bad it is, shape (1 + S, T)."""
        return np.asarray(self.sign * (self.claims * self.claimed - self.kept))

    @property
    def variance(self) -> Floats:
        """The variance of the values; infinite without rows."""
        total = self.rows.sum(axis=1, keepdims=True)
        usual = (self.rows * self.kept).sum(axis=1, keepdims=True) / np.maximum(total, 1e-9)
        rate = (self.rows * self.kept + _USUAL * np.clip(usual, 0.01, 0.99)) / (self.rows + _USUAL)
        with np.errstate(divide="ignore"):
            return np.asarray(rate * (1 - rate) / self.rows)

    @property
    def share(self) -> Floats:
        """Each segment's share of the rows of its window, shape (S, T)."""
        return np.asarray(self.rows[1:] / np.maximum(self.rows[0], 1e-9))

    def rest(self) -> WeeklyEvidence:
        """The same, with the rows outside of each segment in its place."""
        rows = np.maximum(self.rows[0] - self.rows[1:], 0.0)

        def outside(of: Floats) -> Floats:
            sums = self.rows[0] * of[0] - self.rows[1:] * of[1:]
            mean = np.divide(sums, rows, out=np.zeros_like(rows), where=rows > 1e-6)
            return np.vstack([of[:1], np.clip(mean, 0.0, 1.0)])

        whole = np.vstack([self.rows[:1], np.where(rows > 1e-6, rows, 0.0)])
        return replace(self, rows=whole, claimed=outside(self.claimed), kept=outside(self.kept))

    def against(self, rest: WeeklyEvidence) -> tuple[Floats, Floats]:
        """By how much each segment is worse than the ``rest`` of the rows, and the variance of that, shape (S, T)."""
        return self.value[1:] - rest.value[1:], self.variance[1:] + rest.variance[1:]

    def levels(self, line: int = 0) -> tuple[Level | None, list[Level]]:
        """The level before :attr:`first` (None: not known), and those from there on, of one line of the arrays."""
        own = (self.rows[line].cumsum() > 0).astype(int) * line  # what is new was part of the label before
        at_each = np.arange(len(self.windows))
        value, variance, rows = (of[own, at_each] for of in (self.value, self.variance, self.rows))
        known = rows > 0
        after = [
            Level(name, float(value[at]), float(variance[at]))
            for at, name in enumerate(self.windows)
            if at >= self.first and known[at]
        ]
        before = np.flatnonzero(known[: self.first])
        if not len(before):
            return None, after
        mean, certainty = mean_of(value[before], variance[before])
        return Level("before", mean, 1 / certainty), after


def weekly_evidence(problem: LabelProblem, lead: Verdict, facts: LabelFacts, runs: Sequence[Episode]) -> WeeklyEvidence:
    """The windows behind the leading verdict, oldest first, without those of earlier troubles (``runs``).

    Segments are those with rows in the newest window. Windows are left out in which the label's rows were rejected.
    """
    windows, label = facts.windows.get(lead.window.schedule, ()), facts.label
    decides = problem in (LabelProblem.MISSES, LabelProblem.LESS_ACCURATE)
    rows_of = population(lead.metric, lead.where) if decides else lead.where
    starts = {each.window.name: each.window.start for each in windows}
    over = [
        (starts.get(run.first.since.window if run.first.since else "", run.first.window.start), run.ended.window.start)
        for run in runs
        if run.ended is not None
    ]
    used = [
        each
        for each in windows
        if rows_of in each.labels.get(label, {}) and each.rejected.of(label) is None
        if not any(low <= each.window.start < high for low, high in over)
    ]
    newest = used[-1].segments.get(label, {}) if used else {}
    segments = tuple(sorted(segment for segment, promises in newest.items() if rows_of in promises))
    of_label = [each.labels[label].get(rows_of) for each in used]
    parts = [[each.segments.get(label, {}).get(of, {}).get(rows_of) for each in used] for of in segments]
    rows, claimed, kept = np.ascontiguousarray(columns([of_label, *parts])[1:])
    names = tuple(each.window.name for each in used)
    before = sum(1 for each in used if each.window.start < over[-1][1]) if over else 0  # no trouble begins there
    sign, claims = _SHAPES.get(problem, _OF_OVERCONFIDENCE)
    return WeeklyEvidence(names, segments, rows, claimed, kept, sign, claims, min(before, max(len(names) - 1, 0)))


def mean_of(value: Floats, variance: Floats) -> tuple[float, float]:
    """The mean of values by how certain each is, and how certain that is: one over its variance."""
    weight = 1 / variance
    return float(weight @ value / weight.sum()), float(weight.sum())


def changes(value: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """How much the mean from each window on exceeds the mean before it, and the variance of that: shape (S, T).

    A line without rows before a window is compared with 0, exactly known: what is new is expected to be as the rest.
    """
    weight = np.where(np.isfinite(variance) & (variance > 0), 1 / variance, 0.0)
    before_weight = np.cumsum(weight, axis=1) - weight
    before_sum = np.cumsum(weight * value, axis=1) - weight * value
    after_weight = weight.sum(axis=1, keepdims=True) - before_weight
    after_sum = (weight * value).sum(axis=1, keepdims=True) - before_sum
    before, after = (
        np.divide(of, by, out=np.zeros_like(of), where=by > 0)
        for of, by in ((before_sum, before_weight), (after_sum, after_weight))
    )
    inverse = [np.divide(1.0, by, out=np.zeros_like(by), where=by > 0) for by in (before_weight, after_weight)]
    return after - before, inverse[0] + np.where(after_weight > 0, inverse[1], np.inf)


def spread_beyond_chance(value: Floats, variance: Floats, at: int) -> float:
    """By how much one line's values vary more than by chance about a step at window ``at``: a factor, at least 1.

    >>> steady, flapping = np.array([0.0, 0.01, 0.2, 0.21]), np.array([0.0, 0.2, 0.0, 0.2])
    >>> [round(spread_beyond_chance(value, np.full(4, 0.0004), 2), 1) for value in (steady, flapping)]
    [1.0, 50.0]
    """
    known: Bools = np.isfinite(variance) & (variance > 0)
    misfit, freedom = 0.0, 0
    for side in (known & (np.arange(len(value)) < at), known & (np.arange(len(value)) >= at)):
        if side.any():
            mean, _ = mean_of(value[side], variance[side])
            misfit += float((1 / variance[side]) @ (value[side] - mean) ** 2)
            freedom += int(side.sum()) - 1
    return max(1.0, misfit / freedom) if freedom else 1.0


def breaks_at(evidence: WeeklyEvidence, line: int, at: int) -> bool:
    """Whether one line surely becomes worse in the window of index ``at``, by clearly more than it varied before."""
    value, variance = evidence.value[line], evidence.variance[line]
    change, noise = (float(part[0, at]) for part in changes(value[None], variance[None]))
    known = np.flatnonzero(np.isfinite(variance[:at]))
    if not len(known):
        return bool(change > SURE * noise**0.5)
    usual = value[known] - mean_of(value[known], variance[known])[0]
    return bool(change > max(SURE * noise**0.5, LARGER * float(usual.max())))


# --- in which part of a label's rows a trouble is


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
    # with enough rows since its window, and some left to the rest
    since = np.arange(len(evidence.windows)) >= place[:, None]
    rows = (evidence.rows[1:] * since).sum(axis=1)
    share = rows / np.maximum((evidence.rows[:1] * since).sum(axis=1), 1e-9)
    is_part = (rows >= LEAST_ROWS) & (np.maximum(share, evidence.share[:, -1]) <= NEARLY_ALL)
    named = (sure > 0) & (more > np.maximum(margin, moved)) & (more + moved > margin) & is_part
    found = sorted(np.flatnonzero(named), key=lambda k: (evidence.segments[k][0] == SCORE_BAND, -sure[k]))
    return [TroubledSegment(evidence.segments[k], int(place[k])) for k in found]
