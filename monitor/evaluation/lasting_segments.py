"""Rules of ``scope: segments``: is a label overconfident in any part of its rows, and in which?

*Label first*: the evidence of a label is the mean of its segments' evidence (each is a channel, a language or a band of
scores). However segments overlap and depend on each other, the mean of detectors is a detector, so that the family of
labels keeps its run length (:mod:`monitor.inference.sequential`). Segments that compensate each other are found, since
the label's own total, in which they cancel out, is not used. *Then its segments*: for a label that is named, those k
segments are named that have evidence of m A / k or more, where m is the number of its segments and A what it needed.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from monitor.config.model import Config, Rule
from monitor.config.rule_sources import segment_columns
from monitor.core.promises import Promise, Promises, Segment, columns, is_part, pooled_promise
from monitor.core.records import Comparison, Window
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.accumulated import (
    SHOWN,
    EvidencePath,
    Proof,
    Run,
    evidence_of,
    margin_of,
    mean_evidence,
    proofs,
    rounded_evidence,
)
from monitor.evaluation.comparisons import judged
from monitor.evaluation.data import RuleInput, SourceData, evidence_windows
from monitor.inference.sequential import LONGEST, would_be_seen

NAMED = 5
"""The most segments whose numbers a verdict keeps, those with the most evidence first."""

SegmentRuns = Mapping[Segment, Run]
Paths = Mapping[Segment, EvidencePath]
_NOTHING: Promises = {}


def dated_segments(rule: Rule, data: SourceData, label: str | None, columns: Sequence[str]) -> SegmentRuns:
    """The promise of each segment of a label in each window whose evidence adds up.

    Segments without rows in the judged window are left out: nothing can be said about them now.
    """
    where = rule.where
    found: dict[Segment, list[tuple[Window, Promise]]] = {
        segment: []
        for segment, promises in sorted(data.current.segments.get(label, {}).items())
        if segment[0] in columns and where in promises
    }
    for part in reversed(list(islice(evidence_windows(data, label), LONGEST))):
        known = part.segments.get(label, {})
        for segment, run in found.items():
            promise = known.get(segment, _NOTHING).get(where)
            if promise is not None and promise.effective > 0:
                run.append((part.window, promise))
    return {segment: run for segment, run in found.items() if run}


def accumulate_segments(rule: Rule, family: Sequence[RuleInput], data: SourceData, config: Config) -> list[Comparison]:
    """The evidence of one rule on the segments of each of several labels; one comparison a label.

    A comparison has the numbers of one segment (:func:`_leading_segment`), and the evidence of the label.
    """
    columns = segment_columns(rule, config.sources[data.name])
    runs = [dated_segments(rule, data, each.subject.label, columns) for each in family]

    def measured(places: Sequence[int]) -> list[Comparison]:
        strands = [(list(runs[at].values()), [margin_of(rule)] * len(runs[at])) for at in places]
        found = proofs(rule, strands, config.evaluation)
        return [
            _of_label(rule, family[at], dict(zip(runs[at], proof.paths, strict=True)), proof)
            for at, proof in zip(places, found, strict=True)
        ]

    return judged(rule, family, [bool(each) for each in runs], measured)


def _of_label(rule: Rule, rule_input: RuleInput, paths: Paths, proof: Proof) -> Comparison:
    totals = _totals(rule, paths, proof.detail)
    # among segments with capped evidence, the one with more rows comes first
    ranked = sorted(paths, key=lambda segment: (paths[segment].now, totals[segment].total.effective), reverse=True)
    parts = {segment: totals[segment] for segment in ranked}
    named = _named(ranked, paths, proof.needed) if proof.detail["sure"] else []
    named_parts = [each for each in named if is_part(each, paths)]
    lead = _leading_segment(parts, named_parts or named)
    found = evidence_of(rule, rule_input, paths[lead], proof.detail)
    grown = _label_path(paths, paths[lead].windows[-SHOWN:])
    steps = [[*step[:4], rounded_evidence(now)] for step, now in zip(found.detail["path"], grown, strict=True)]
    detail: VerdictDetail = {
        **found.detail,
        "evidence": rounded_evidence(proof.now),
        "path": steps,
        "segment": list(lead) if is_part(lead, paths) else None,
        "segment_evidence": rounded_evidence(paths[lead].now),
        "segments": len(paths),
        "segments_judged": sum(part.adequate for part in parts.values()),
        "segments_named": [
            [*each, of.rows, round(of.promised, 6), round(of.kept, 6), rounded_evidence(paths[each].now)]
            for each in named_parts[:NAMED]
            for of in [parts[each].total]
        ],
    }
    if rule.turns_off == "segments":
        detail |= {
            "turns_off": [list(each) for each in named if parts[each].beyond],
            "segments_within": [list(each) for each, part in parts.items() if part.adequate and not part.beyond],
        }
    return replace(found, detail=detail, data_digest=_digest(paths))


@dataclass(frozen=True, slots=True)
class _SegmentTotal:
    """One segment over the windows that its value covers: its promise, and if it is beyond and could be judged."""

    total: Promise
    beyond: bool
    adequate: bool


def _totals(rule: Rule, paths: Paths, shared: Mapping[str, Any]) -> dict[Segment, _SegmentTotal]:
    """The total of each segment over the windows that its value covers."""
    totals = [pooled_promise(path.promises[path.start :]) for path in paths.values()]
    needed, matters = [path.alone for path in paths.values()], rule.threshold + shared["seen_at_most"]
    visible = would_be_seen(totals, matters, rule.threshold, needed).tolist()
    return {
        segment: _SegmentTotal(
            total, total.overconfidence > rule.threshold, total.rows >= shared["rows_needed"] and seen
        )
        for segment, total, seen in zip(paths, totals, visible, strict=True)
    }


def _digest(paths: Paths) -> str:
    """A hash of the rows of all segments, to nine decimals, since engines may add in different orders."""
    hashed = hashlib.sha256()
    for segment, path in sorted(paths.items()):
        hashed.update(repr((segment, [window.name for window in path.windows])).encode())
        numbers = columns([path.promises])[:, 0]
        hashed.update((np.round(numbers.T, 9) + 0.0).tobytes())
    return hashed.hexdigest()[:16]


def _leading_segment(parts: Mapping[Segment, _SegmentTotal], named: Sequence[Segment]) -> Segment:
    """The segment that the verdict is about; ``parts`` are in the order of their evidence.

    The first named segment that is still beyond the threshold, since others may be fixed. If none is named, the first
    segment with enough rows to be judged.
    """
    if named:
        return next((segment for segment in named if parts[segment].beyond), named[0])
    return next((segment for segment, part in parts.items() if part.adequate), next(iter(parts)))


def _named(ranked: Sequence[Segment], paths: Paths, needed: float) -> list[Segment]:
    """The segments to name of a label that is named, at least the first; ``ranked`` has all of them by evidence."""
    steps = [needed + math.log(len(ranked) / k) for k in range(1, len(ranked) + 1)]
    last = max((k + 1 for k, segment in enumerate(ranked) if paths[segment].now >= steps[k]), default=1)
    return list(ranked[:last])


def _label_path(paths: Paths, windows: tuple[Window, ...]) -> list[float]:
    """The label's log evidence after each of these windows: a segment without rows in one keeps its evidence.

    Before its first window that is minus infinity.
    """
    per_segment: list[Sequence[float]] = []
    for path in paths.values():
        if path.windows[-len(windows) :] == windows:
            per_segment.append(path.evidence[-len(windows) :])
        else:
            ends = [bisect_right(path.windows, window) for window in windows]
            per_segment.append([path.evidence[end - 1] if end else -math.inf for end in ends])
    return [mean_evidence(now) for now in zip(*per_segment, strict=True)]
