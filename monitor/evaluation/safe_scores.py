"""From which score a label in breach may go on acting alone. Pure.

It is the lowest one from which its promise is shown to hold in the windows since the trouble began. Every run shows it
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from monitor.config.model import Config, Rule
from monitor.config.rule_sources import beside_wrong_truths
from monitor.core.counts import CELLS, Counts, pool
from monitor.core.promises import Promise, promise_of
from monitor.core.records import KeptScores, Verdict
from monitor.core.score_ranges import below
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.data import SourceData, comparable, poolable, rows_in, windows_pooled
from monitor.evaluation.shift.onset import Level, onset
from monitor.inference.sampling import Proportion, binomial_tail
from monitor.inference.selective import OperatingPoint, lowest_safe
from monitor.metrics.selective import looked_at

RATE = 0.05
"""The chance that a score is named from which the promise is not kept."""
MARGIN = 0.05
"""By how much scores may exceed the truth where no rule on overconfidence says it."""
SCORES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
"""The scores for which is shown what would act from there on."""


def with_safe_scores(rule: Rule, verdicts: Sequence[Verdict], data: SourceData, config: Config) -> list[Verdict]:
    """The verdicts; a breach with ``limit_scores`` says which scores it blocks, and what is shown of the others.

    It blocks no range where no score is shown to be safe: the switch then turns the label off.
    """
    if "limit_scores" not in rule.actions:
        return list(verdicts)
    return [
        replace(each, detail={**each.detail, **_limits(rule, each, data, config)}) if each.outcome == "breach" else each
        for each in verdicts
    ]


def _limits(rule: Rule, verdict: Verdict, data: SourceData, config: Config) -> VerdictDetail:
    label, source = verdict.subject.label, config.sources[data.name]
    most = windows_pooled(rule, config, data.current.window)
    known = [(part.window, part.promise(label, "automated")) for part in comparable(data, label)]
    levels = [_level(rule, window.name, promise) for window, promise in reversed(known) if promise is not None]
    baseline = data.baselines.get(label)
    before = promise_of(baseline.counts.where("automated")) if baseline is not None else None
    began = onset(None if before is None else _level(rule, "before", before), levels, rising=True)
    # the windows after the latest one in which the trouble may have begun
    starts = {window.name: window.start for window, _ in known}
    latest = starts[began.high] if began is not None else data.current.window.start
    parts = [part.labels[label] for part in poolable(data, label, most) if part.window.start >= latest]
    acting, floor = [rows_in("automated", part) for part in parts], floor_of(config, data.name, label)
    point = lowest_safe(pool(acting), floor=floor, margin=rule.threshold, rate=RATE) if acting else None
    if point is not None and point.threshold is not None and len(acting) > 1:
        # where the newest window alone refutes it, as while a fault grows, that window alone must show a score
        promise = promise_of(acting[0].take(acting[0].cell >= round(point.threshold * CELLS)))
        if promise is not None and binomial_tail(1 - promise.kept, promise.effective, 1 - point.target) < RATE:
            point = lowest_safe(acting[0], floor=floor, margin=rule.threshold, rate=RATE)
    if point is None or point.threshold is None:
        return {"blocked": [], "limit": None}
    at = source.automate_from(label) if label is not None else source.automate_at
    assert point.coverage is not None and point.accuracy is not None  # noqa: S101, PT018 - a point that is met has both
    assert point.accuracy_low is not None and point.accuracy_high is not None  # noqa: S101, PT018
    kept = KeptScores(point.threshold, point.coverage, point.accuracy, point.accuracy_low, point.accuracy_high)
    return {"blocked": [list(each) for each in below(point.threshold, at)], "limit": asdict(kept)}


def floor_of(config: Config, source: str, label: str | None) -> float | None:
    """The share of automated decisions that the owner's rules say must be right; None where no rule says so."""

    def is_asked(rule: Rule) -> bool:
        return rule.metric == "automated_accuracy" or (rule.metric, rule.where) == ("accuracy", "automated")

    return max(_thresholds(config, source, label, is_asked, "below"), default=None)


def margin_of(config: Config, source: str, label: str | None) -> float:
    """By how much the scores that act may exceed the truth: the least threshold of a rule on it."""
    asked = ("overconfidence", "automated", "labels")
    chosen = _thresholds(config, source, label, lambda rule: (rule.metric, rule.where, rule.scope) == asked, "above")
    return min(chosen, default=MARGIN)


def _thresholds(
    config: Config, source: str, label: str | None, is_asked: Callable[[Rule], bool], condition: str
) -> list[float]:
    """The thresholds of the rules of a label that are asked for."""
    of = config.sources[source]
    return [
        beside_wrong_truths(rule, of).threshold
        for rule in config.rules
        if rule.condition == condition
        and is_asked(rule)
        and rule.applies_to(source, label, critical=of.is_critical(label))
    ]


@dataclass(frozen=True, slots=True)
class FromScore:
    """What the rows from one ``score`` on kept: ``share`` of those that act now, ``wrong`` of ``rows`` not right.

    ``correct`` of them are right, with 95% limits, where the scores ``claimed`` so many.
    """

    score: float
    rows: int
    share: float
    claimed: float
    correct: float
    low: float
    high: float
    wrong: int


def from_scores(counts: Counts, more: Iterable[float] = ()) -> list[FromScore]:
    """What would have acted alone from each of :data:`SCORES`, and from ``more``; scores without rows are left out."""
    acting, given = rows_in("automated", counts).w.sum(), looked_at(counts)
    found = []
    for score in sorted({*SCORES, *more}):
        kept = given.take(given.cell >= round(score * CELLS))
        promise = promise_of(kept)
        if promise is None:
            continue
        low, high = Proportion(promise.kept, promise.effective).interval(0.95)
        share, wrong = float(kept.w.sum() / acting) if acting else 0.0, round(promise.rows * (1 - promise.kept))
        found.append(FromScore(score, promise.rows, share, promise.promised, promise.kept, low, high, wrong))
    return found


@dataclass(frozen=True, slots=True)
class KeptFrom:
    """What each score would have kept on some rows of a label, and ``safe``: the lowest shown to keep its promise.

    It acts from ``automate_at``; the promise is ``floor``, or else the mean score less ``margin``.
    """

    automate_at: float
    floor: float | None
    margin: float
    safe: OperatingPoint
    scores: Sequence[FromScore]


def kept_from(counts: Counts, config: Config, source: str, label: str, must_be_right: float | None = None) -> KeptFrom:
    """What each score would have kept of these rows by the rules of the label, or by ``must_be_right``."""
    floor = must_be_right if must_be_right is not None else floor_of(config, source, label)
    margin, at = margin_of(config, source, label), config.sources[source].automate_from(label)
    safe = lowest_safe(looked_at(counts), floor=floor, margin=margin)
    more = [at, *([] if safe.threshold is None else [safe.threshold])]
    return KeptFrom(at, floor, margin, safe, from_scores(counts, more))


def _level(rule: Rule, window: str, promise: Promise) -> Level:
    """How wrong a window is: by how much scores exceed the truth, or for accuracy the share of wrong decisions."""
    value = 1 - promise.kept if rule.measure in ("accuracy", "automated_accuracy") else promise.overconfidence
    return Level(window, value, Proportion(promise.kept, max(promise.effective, 1e-9)).variance)
