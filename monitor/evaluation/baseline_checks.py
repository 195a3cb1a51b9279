"""Has anything changed within a span of weeks, or around it? Checked before a baseline is made of it. Pure.

Each label is compared with itself: the first half of the weeks with the second, the rows of each model version with
the others, and the whole with the weeks before and after. Two properties are compared: calibration (the ECE, either
way) and the distribution of scores. Where calibration is the same in all of these, each week is compared with the
others, since one bad week in the middle changes no half by much. A reported change is significant over all labels and
as large as a rule would call a change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from monitor.config.model import Config, EvaluationConfig
from monitor.core.baseline import population_edges
from monitor.core.counts import BinCounts, Counts, bin_counts, pool
from monitor.core.records import Subject, Window
from monitor.core.rejection_records import Rejection
from monitor.core.rejection_words import fact
from monitor.core.wording import and_more
from monitor.evaluation.shift.counts_tests import MIN_ROWS, ks
from monitor.inference.change import ece_increase_ps
from monitor.inference.intervals import ece_intervals
from monitor.inference.multiplicity import adjust

AROUND = 4
"""Weeks before, and weeks after, that a span is compared with."""
ECE_CHANGE, SCORE_SHIFT = 0.02, 0.1
"""Changes that matter where no rule of alerts.yaml names one: of the ECE, and the KS distance of scores."""
NAMED_VERSIONS = 3


class Between(StrEnum):
    """What was compared."""

    HALVES = "halves"
    VERSIONS = "versions"
    BEFORE = "before"
    AFTER = "after"
    WEEK = "week"


@dataclass(frozen=True, slots=True, eq=False)
class WeekSeen:
    """One week of one label; ``versions`` are the model versions of the source in that week, with their rows."""

    window: Window
    counts: Counts
    versions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class SpanSeen:
    """The weeks of a label that will be a baseline, oldest first, the weeks around them, and its counts by version."""

    subject: Subject
    inside: Sequence[WeekSeen]
    before: Sequence[WeekSeen] = ()
    after: Sequence[WeekSeen] = ()
    by_version: Mapping[str, Counts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Concern:
    """A change within a span, or between it and the weeks around it; it begins in ``week``, "" where none is named.

    ``what`` is "calibration" (``change`` is the rise of the ECE), "scores" (the KS distance) or "rejected".
    """

    subject: Subject
    what: str
    between: Between
    week: str = ""
    change: float = 0.0
    p_adjusted: float | None = None
    versions: tuple[str, str] = ("", "")
    rejection: Rejection | None = None

    @property
    def is_inside(self) -> bool:
        """Whether it is about the weeks themselves: then they are no one thing, and not pinned.

        What was otherwise before them is over, and what comes after them is for the rules to report.
        """
        return self.between not in (Between.BEFORE, Between.AFTER)

    def __str__(self) -> str:
        if self.rejection is not None:
            return f"{self.subject.name}: {self.week}: {fact(self.rejection)}"
        changed = f"{self.subject.name}: {_WHAT[self.what].format(abs(self.change), _WAY[self.change > 0])}"
        where = _WHERE[self.between].format(week=self.week, version=self.versions[1])
        known = self.between is not Between.VERSIONS and all(self.versions)
        versions = " → ".join(dict.fromkeys(self.versions))
        return f"{changed} {where}" + (f"; model version {versions}" if known else "")


_WHAT = {
    "calibration": "ECE {1} by {0:.3f}",
    "scores": "scores are distributed differently (KS distance {0:.2f})",
}
_WAY = {True: "higher", False: "lower"}
_WHERE = {
    Between.HALVES: "within the span, from {week} on",
    Between.VERSIONS: "in the rows of model version {version}",
    Between.BEFORE: "than in the weeks before, from {week} on",
    Between.AFTER: "after the span, from {week} on",
    Between.WEEK: "in {week} than in the other weeks",
}


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two samples of one subject: earlier and later."""

    span: SpanSeen
    between: Between
    then: Counts
    now: Counts
    week: str
    versions: tuple[str, str]


def concerns(spans: Sequence[SpanSeen], config: Config) -> list[Concern]:
    """Every change that is significant over all labels, and large, by subject.

    It is large beyond the threshold of the most sensitive rule on such changes, or else by default.
    """
    evaluation = config.evaluation
    rises = [rule.threshold for rule in config.rules if rule.metric == "ece" and rule.condition == "increase"]
    of_ece = min(rises, default=ECE_CHANGE)
    of_scores = min((rule.threshold for rule in config.rules if rule.test == "ks"), default=SCORE_SHIFT)
    pairs = [pair for span in spans for pair in _pairs(span) if _enough(pair.then) and _enough(pair.now)]
    shifts = [ks(pair.now, pair.then) for pair in pairs]
    tables = [_tables(pair, evaluation) for pair in pairs]
    rises, falls = ece_increase_ps(tables), ece_increase_ps([(then, now) for now, then in tables])
    moved = [min(1.0, 2 * min(both)) for both in zip(rises, falls, strict=True)]
    adjusted = adjust([*(1.0 if s.p_value is None else s.p_value for s in shifts), *moved], 1)
    rate = evaluation.false_discovery_rate
    found: list[Concern] = []
    for place, pair in enumerate(pairs):
        p_scores, p_ece = adjusted[place], adjusted[place + len(pairs)]
        size = shifts[place].statistic or 0.0
        if p_scores < rate and size > of_scores:
            found.append(_concern(pair, "scores", size, p_scores, evaluation))
        change = _change(*tables[place]) if p_ece < rate else 0.0
        if abs(change) > of_ece:
            found.append(_concern(pair, "calibration", change, p_ece, evaluation))
    named = {concern.subject for concern in found if concern.what == "calibration"}
    return [*found, *_single_weeks([span for span in spans if span.subject not in named], of_ece, evaluation)]


def _single_weeks(spans: Sequence[SpanSeen], limit: float, evaluation: EvaluationConfig) -> Iterator[Concern]:
    """The weeks of each span in which the ECE is higher than in its others: a family of their own."""
    pairs = [
        _pair(span, Between.WEEK, [*span.inside[:at], *span.inside[at + 1 :]], span.inside[at : at + 1])
        for span in spans
        if len(span.inside) > 1
        for at in range(len(span.inside))
    ]
    pairs = [pair for pair in pairs if _enough(pair.then) and _enough(pair.now)]
    tables = [_tables(pair, evaluation) for pair in pairs]
    for pair, both, p_adjusted in zip(pairs, tables, adjust(ece_increase_ps(tables), 1), strict=True):
        change = _change(*both) if p_adjusted < evaluation.false_discovery_rate else 0.0
        if change > limit:
            yield _concern(pair, "calibration", change, p_adjusted, evaluation)


def _concern(pair: _Pair, what: str, change: float, p_adjusted: float, evaluation: EvaluationConfig) -> Concern:
    """The concern about a pair; if they differ more, about the weeks before and after the likely start of its change.

    The pair only tests: a change in the last weeks is diluted in the second half, or in the weeks after the span.
    """
    inside, weeks, split = list(pair.span.inside), [*pair.span.inside, *pair.span.after], None
    if pair.between is Between.HALVES:
        at = _likely_start(inside, what)
        split = _pair(pair.span, Between.HALVES, inside[:at], inside[at:])
    if pair.between is Between.AFTER:
        at = _likely_start(weeks, what, first=len(inside))
        split = _pair(pair.span, Between.AFTER, weeks[:at], weeks[at:])
    if split is not None:
        size = (
            (ks(split.now, split.then).statistic or 0.0) if what == "scores" else _change(*_tables(split, evaluation))
        )
        if abs(size) >= abs(change):
            pair, change = split, size
    return Concern(pair.span.subject, what, pair.between, pair.week, change, p_adjusted, pair.versions)


def _enough(counts: Counts) -> bool:
    return counts.rows > 0 and counts.effective_rows >= MIN_ROWS


def _pairs(span: SpanSeen) -> Iterator[_Pair]:
    inside, half = list(span.inside), len(span.inside) // 2
    if half:
        yield _pair(span, Between.HALVES, inside[:half], inside[half:])
    if len(span.by_version) > 1:
        for version, counts in sorted(span.by_version.items()):
            others = pool(other for name, other in span.by_version.items() if name != version)
            yield _Pair(span, Between.VERSIONS, others, counts, "", ("", version))
            if len(span.by_version) == 2:
                break  # the other one is the same comparison
    if span.before:
        yield _pair(span, Between.BEFORE, span.before, inside)
    if span.after:
        yield _pair(span, Between.AFTER, inside, span.after)


def _pair(span: SpanSeen, between: Between, then: Sequence[WeekSeen], now: Sequence[WeekSeen]) -> _Pair:
    return _Pair(span, between, _pooled(then), _pooled(now), now[0].window.name, (_versions(then), _versions(now)))


def _pooled(weeks: Sequence[WeekSeen]) -> Counts:
    return pool(week.counts for week in weeks)


def _tables(pair: _Pair, evaluation: EvaluationConfig) -> tuple[BinCounts, BinCounts]:
    """(now, then) through bins of both together."""
    edges = population_edges(pool([pair.then, pair.now]), evaluation)
    return bin_counts(pair.now, edges), bin_counts(pair.then, edges)


def _change(now: BinCounts, then: BinCounts) -> float:
    value1, value0 = (ece_intervals([table], [], form="analytic")[0].value for table in (now, then))
    return 0.0 if value0 is None or value1 is None else value1 - value0


def _likely_start(weeks: Sequence[WeekSeen], what: str, *, first: int = 1) -> int:
    """The index, ``first`` or later, of the week from which on the weeks differ most from those before.

    They differ in scores or in calibration.
    """

    def distance(at: int) -> float:
        then, now = _pooled(weeks[:at]), _pooled(weeks[at:])
        weight = math.sqrt(then.rows * now.rows)  # the fewer rows a side has, the less a distance counts
        if what == "scores":
            return float(ks(now, then).statistic or 0.0) * weight
        gaps = [float((part.wy - part.ws).sum()) / max(float(part.w.sum()), 1e-9) for part in (then, now)]
        return abs(gaps[1] - gaps[0]) * weight

    return max(range(first, len(weeks)), key=distance)


def _versions(weeks: Sequence[WeekSeen]) -> str:
    """The model versions of some weeks in words, the one with most rows first."""
    rows: Counter[str] = Counter()
    for week in weeks:
        rows.update(week.versions)
    return and_more([name for name, _ in rows.most_common()], NAMED_VERSIONS)
