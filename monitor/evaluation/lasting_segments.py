"""Rules of ``scope: segments``: is a label overconfident in any part of its rows, and in which?

*Label first*: a label has the mean of its segments' evidence, of one channel, one language, one band of scores each.
However segments overlap and depend on each other, the mean of detectors is one, so that the family of labels keeps its
run length (:mod:`monitor.inference.sequential`). Segments that compensate each other are found: the label's own total,
in which they cancel out, is not asked. *Then its segments*: of a label that is named, those k with m A / k or more
evidence are named, m being its segments and A what the label needed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from monitor.config.model import EvaluationConfig, Rule, SourceConfig
from monitor.core.promises import Promise, Segment, pooled_promise
from monitor.core.records import SCORE_BAND, Comparison, DecisionCheck, Window
from monitor.evaluation.accumulated import (
    DatedPromise,
    EvidencePath,
    comparable,
    evidence_of,
    family_detail,
    paths_of,
    run_length,
    shown,
)
from monitor.evaluation.comparisons import RuleInput, gates, without_evidence
from monitor.evaluation.rule_metrics import POWER
from monitor.inference.sequential import LONGEST, evidence_needed, would_be_seen

if TYPE_CHECKING:
    from monitor.evaluation.evaluate import SourceData

NAMED = 5
"""Segments that a verdict keeps the numbers of, those with the most evidence first."""

SegmentRuns = Mapping[Segment, Sequence[DatedPromise]]


def segments_asked(rule: Rule, source: SourceConfig) -> tuple[str, ...]:
    """The columns of a source that a rule looks at; none where it is about other sources' columns.

    >>> tickets = SourceConfig(relation="t", score_is="probability_of_label", segments=("channel", "language"))
    >>> every = Rule(id="x", metric="shortfall", threshold=0.02, scope="segments", segments=("all",))
    >>> segments_asked(every, tickets)
    ('channel', 'language', 'score_band')
    """
    if source.kind == "regression":
        return ()
    known = (*source.segments, SCORE_BAND)
    return known if "all" in rule.segments else tuple(column for column in known if column in rule.segments)


def dated_segments(
    rule: Rule, data: SourceData, label: str | None, columns: Sequence[str]
) -> dict[Segment, list[DatedPromise]]:
    """What each segment of a label promised and kept in each window that may speak about it, newest first.

    Of those that have rows in the judged window: of others there is nothing to say now.
    """
    found: dict[Segment, list[DatedPromise]] = {
        segment: []
        for segment, promises in sorted(data.current.segments.get(label, {}).items())
        if segment[0] in columns and rule.where in promises
    }
    for part in islice(comparable(data, label), LONGEST):
        known = part.segments.get(label, {})
        for segment, run in found.items():
            promise = known.get(segment, {}).get(rule.where)
            if promise is not None and promise.effective > 0:
                run.append((part.window, promise))
    return {segment: run for segment, run in found.items() if run}


def accumulate_segments(
    rule: Rule, family: Sequence[RuleInput], runs: Sequence[SegmentRuns], evaluation: EvaluationConfig
) -> list[Comparison]:
    """The evidence of one rule on the segments of each of several labels; one comparison a label.

    It has the numbers of the segment with the most evidence, and the evidence of the label.
    """
    asked = [gates(rule, material, has_rows=bool(run)) for material, run in zip(family, runs, strict=True)]
    judged = [place for place, (_, problem) in enumerate(asked) if problem is None]
    length = run_length(rule)
    alone = [float(len(judged) * length * len(runs[place])) for place in judged for _ in runs[place]]
    made = iter(paths_of(rule, [run for place in judged for run in runs[place].values()], alone))
    paths = {place: {segment: next(made) for segment in runs[place]} for place in judged}
    evidence = {place: _mean([path.now for path in paths[place].values()]) for place in judged}
    needed = evidence_needed(list(evidence.values()), length)
    shared = family_detail(rule, evaluation, needed, len(judged))
    return [
        without_evidence(material, problem, checks)
        if problem is not None
        else _of_label(rule, material, paths[place], {**shared, "sure": evidence[place] >= needed}, needed, checks)
        for place, (material, (checks, problem)) in enumerate(zip(family, asked, strict=True))
    ]


def _of_label(
    rule: Rule,
    material: RuleInput,
    paths: Mapping[Segment, EvidencePath],
    shared: dict[str, Any],
    needed: float,
    checks: tuple[DecisionCheck, ...],
) -> Comparison:
    ranked = sorted(paths, key=lambda segment: _strength(paths[segment]), reverse=True)
    parts = {segment: _seen(rule, paths[segment], shared) for segment in ranked}
    named = _named(ranked, paths, needed) if shared["sure"] else []
    lead = _lead(parts, named)
    found, grown = evidence_of(rule, material, paths[lead], shared, checks), _grown(paths)
    steps = [[*step[:4], shown(grown[step[0]])] for step in found.detail["path"]]
    detail = {
        **found.detail, "evidence": shown(_mean([path.now for path in paths.values()])), "path": steps,
        "segment": list(lead), "segment_evidence": shown(paths[lead].now), "segments": len(paths),
        "segments_judged": sum(part.adequate for part in parts.values()),
        "segments_named": [_line(each, parts[each], paths[each]) for each in named[:NAMED]],
    }  # fmt: skip
    return replace(found, detail=detail, data_digest=_digest(paths))


@dataclass(frozen=True, slots=True)
class _Seen:
    """The rows of one segment that its value is of, and what they could show."""

    total: Promise
    beyond: bool
    adequate: bool


def _seen(rule: Rule, path: EvidencePath, shared: Mapping[str, Any]) -> _Seen:
    total, matters = pooled_promise(path.promises[path.start :]), rule.threshold + shared["seen_at_most"]
    enough = total.rows >= shared["rows_needed"]
    adequate = enough and would_be_seen(total, matters, rule.threshold, path.alone, POWER)
    return _Seen(total, total.shortfall > rule.threshold, adequate)


def _digest(paths: Mapping[Segment, EvidencePath]) -> str:
    """A hash of the rows of all segments; by nine decimals, since engines may add in different orders."""
    hashed = hashlib.sha256()
    for segment, path in sorted(paths.items()):
        hashed.update(repr((segment, [window.name for window in path.windows])).encode())
        numbers = [(each.rows, each.effective, each.promised, each.kept) for each in path.promises]
        hashed.update((np.round(np.array(numbers), 9) + 0.0).tobytes())
    return hashed.hexdigest()[:16]


def _strength(path: EvidencePath) -> tuple[float, float]:
    """Evidence, and of segments whose evidence is capped the one with more rows."""
    return path.now, sum(promise.effective for promise in path.promises[path.start :])


def _lead(parts: Mapping[Segment, _Seen], named: Sequence[Segment]) -> Segment:
    """The segment that the verdict is about; ``parts`` are in the order of their evidence.

    Of those named the first that is beyond the threshold still: one of them may be fixed. Without any, the first of
    those with enough rows to be judged.
    """
    if named:
        return next((segment for segment in named if parts[segment].beyond), named[0])
    return next((segment for segment, part in parts.items() if part.adequate), next(iter(parts)))


def _named(ranked: Sequence[Segment], paths: Mapping[Segment, EvidencePath], needed: float) -> list[Segment]:
    """The segments of a found label that are named, of all by their evidence; the first at least."""
    steps = [needed + math.log(len(ranked) / k) for k in range(1, len(ranked) + 1)]
    last = max((k + 1 for k, segment in enumerate(ranked) if paths[segment].now >= steps[k]), default=1)
    return list(ranked[:last])


def _line(segment: Segment, part: _Seen, path: EvidencePath) -> list[Any]:
    """A segment that is named: column, value, rows, mean score, hit rate, evidence."""
    total = part.total
    return [*segment, total.rows, round(total.promised, 6), round(total.kept, 6), shown(path.now)]


def _grown(paths: Mapping[Segment, EvidencePath]) -> dict[str, float]:
    """The label's log evidence after every window: a segment without a row in one keeps what it had."""
    windows: list[Window] = sorted({window for path in paths.values() for window in path.windows})
    now, found = dict.fromkeys(paths, -math.inf), {}
    known = {segment: dict(zip(path.windows, path.evidence, strict=True)) for segment, path in paths.items()}
    for window in windows:
        now = {segment: known[segment].get(window, before) for segment, before in now.items()}
        found[window.name] = _mean(list(now.values()))
    return found


def _mean(evidence: Sequence[float]) -> float:
    """The log of the mean of what has these logarithms."""
    return float(np.logaddexp.reduce(np.array(evidence))) - math.log(len(evidence))
