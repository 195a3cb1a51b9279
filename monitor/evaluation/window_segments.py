"""Rules of ``scope: segments`` that judge a window: in which part of its rows is a label beyond the threshold, if any?

*Label first*: each segment is compared as a label would be, with pooling. The p-value of the label is Simes' p-value of
its segments with enough rows; a segment within the threshold counts as 1. Labels are a family as in every rule. *Then
its segments*: for a label that is found, the segments are named by Benjamini and Hochberg at the rate times the share
of labels found. The expected share of false names, averaged over the labels found, then stays within the rate
(Benjamini and Bogomolov 2014, doi 10.1111/rssb.12028). A label that is found has at least one named segment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from monitor.config.model import EvaluationConfig, Rule, SourceConfig
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts, SegmentCounts
from monitor.core.promises import Segment, bands_of, is_part
from monitor.core.records import SCORE_BAND, Comparison, DecisionCheck, Reason, Subject
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.comparisons import gates, without_evidence
from monitor.evaluation.data import RuleInput, WholeSource, WindowCounts, rows_of
from monitor.evaluation.row_comparisons import comparisons_of
from monitor.evaluation.rule_metrics import rows_needed
from monitor.inference.memory import kept_with
from monitor.inference.multiplicity import named_within, simes

NAMED = 5
"""The most segments whose numbers a verdict keeps, the smallest p first."""


def segments_of(
    rule: Rule, columns: Sequence[str], label: RuleInput, windows: Sequence[WindowCounts], frozen: SegmentCounts
) -> dict[Segment, RuleInput]:
    """The input of each segment of a label with rows in the judged window.

    ``windows`` are the judged window and those that may be pooled with it, newest first. Bins are those of the label's
    baseline; ``frozen`` are the baseline's rows of each segment.
    """
    subject, each = label.subject, [_parts(part, label.subject.label, columns) for part in windows]
    return {
        segment: replace(
            label,
            subject=Subject(subject.source, subject.label, segment),
            counts=tuple(parts[segment] for parts in each if segment in parts),
            baseline=_frozen(rule, label.baseline, segment, frozen),
        )
        for segment, now in sorted((each[0] if each else {}).items())
        if rows_of(rule, now).w.any()
    }


def _parts(window: WindowCounts, label: str | None, columns: Sequence[str]) -> dict[Segment, Counts]:
    by_segment = window.segment_counts.get(label, {})
    found = {segment: counts for segment, counts in by_segment.items() if segment[0] in columns}
    return {**found, **_bands(window.labels[label])} if SCORE_BAND in columns and label in window.labels else found


def _bands(counts: Counts) -> dict[Segment, Counts]:
    return kept_with(counts, "bands", lambda: dict(bands_of(counts)))


def _frozen(rule: Rule, baseline: Baseline | None, segment: Segment, frozen: SegmentCounts) -> Baseline | None:
    """The label's baseline, whose bins a level needs; for a change, with the segment's rows (None without any)."""
    if baseline is None or not rule.compares:
        return baseline
    counts = (_bands(baseline.counts) if segment[0] == SCORE_BAND else frozen).get(segment)
    return None if counts is None else replace(baseline, counts=counts)


def compare_segments(
    rule: Rule,
    family: Sequence[RuleInput],
    inputs: Sequence[Mapping[Segment, RuleInput]],
    source: SourceConfig,
    evaluation: EvaluationConfig,
    rules: int,
) -> list[Comparison]:
    """The evidence of one rule on the segments of each of several labels; one comparison a label.

    ``inputs`` are those of the segments of each label. A comparison has the numbers of one segment: the named one with
    the smallest p, else the one closest to a breach among those that could have shown a change. ``rules`` is the number
    of decision rules of the schedule.
    """
    compared = _compared(rule, inputs, source, evaluation, rules)
    gated = [
        gates(rule, each, has_rows=any(part.problem is not Reason.NO_ROWS for part in parts.values()))
        for each, parts in zip(family, compared, strict=True)
    ]
    p_values = [
        _p_values(rule, parts, evaluation) if problem is None else {}
        for parts, (_, problem) in zip(compared, gated, strict=True)
    ]
    rate = evaluation.false_discovery_rate
    places = named_within([list(of_label.values()) for of_label in p_values], rate, rules)
    named = [[list(of_label)[place] for place in chosen] for of_label, chosen in zip(p_values, places, strict=True)]
    return [
        _of_label(rule, each, parts, of_label, chosen, gate)
        for each, parts, of_label, chosen, gate in zip(family, compared, p_values, named, gated, strict=True)
    ]


def _compared(
    rule: Rule,
    family: Sequence[Mapping[Segment, RuleInput]],
    source: SourceConfig,
    evaluation: EvaluationConfig,
    rules: int,
) -> list[dict[Segment, Comparison]]:
    """The comparison of each segment, made as for a label, with analytic intervals like those of its estimates.

    The newest window of a segment is judged alone as well, where it is significant among all segments of all labels.
    """
    most = max(map(len, family), default=0)
    level = evaluation.false_discovery_rate / max(1, rules * len(family) * most)
    inputs = [part for each in family for part in each.values()]
    analytic = evaluation.model_copy(update={"interval": "analytic"})
    made = iter(comparisons_of(rule, inputs, WholeSource(), source, analytic, level=level))
    return [{segment: next(made) for segment in each} for each in family]


def _p_values(rule: Rule, parts: Mapping[Segment, Comparison], evaluation: EvaluationConfig) -> dict[Segment, float]:
    """The p-value of each segment with enough rows; 1 for one that is not beyond the threshold in every window.

    Of a segment whose newest window is judged alone the windows together have enough.
    """
    needed = rows_needed(rule, evaluation)
    return {
        segment: part.p_value if part.beyond and part.streak else 1.0
        for segment, part in parts.items()
        if part.problem is None and part.p_value is not None and _rows_together(part) >= needed
    }


def _rows_together(part: Comparison) -> int:
    together = part.detail.get("together")
    return part.n if together is None else together["n"]


def _of_label(
    rule: Rule,
    label: RuleInput,
    parts: Mapping[Segment, Comparison],
    p_values: Mapping[Segment, float],
    named: Sequence[Segment],
    gate: tuple[tuple[DecisionCheck, ...], Reason | None],
) -> Comparison:
    checks, problem = gate
    if problem is not None:
        return without_evidence(label, problem, checks)
    judged = {segment: part for segment, part in parts.items() if part.problem is None}
    if not judged:
        first = next(iter(parts.values()))
        return without_evidence(label, first.problem or Reason.NO_ROWS, first.checks)
    named_parts = [each for each in named if is_part(each, parts)]
    lead = (named_parts or [*named, _leading_segment(judged, p_values)])[0]
    found = judged[lead]
    detail: VerdictDetail = {
        "segment": list(lead) if is_part(lead, parts) else None,
        "segment_p": p_values.get(lead),
        "segments": len(parts),
        "segments_judged": sum(part.adequate for part in judged.values()),
        "segments_tested": len(p_values),
        "segments_named": [
            _named_numbers(segment, judged[segment], p_values[segment]) for segment in named_parts[:NAMED]
        ],
        "segments_found": [list(segment) for segment in named],
    }
    if rule.turns_off == "segments":
        within = [segment for segment, part in judged.items() if part.adequate and part.is_within]
        detail |= {"turns_off": detail["segments_found"], "segments_within": [list(segment) for segment in within]}
    p_value = simes(list(p_values.values())) if p_values else None
    digest = hashlib.sha256(repr([(s, part.data_digest) for s, part in sorted(parts.items())]).encode()).hexdigest()
    return replace(
        found, subject=label.subject, p_value=p_value, data_digest=digest[:16], detail={**found.detail, **detail}
    )


def _leading_segment(judged: Mapping[Segment, Comparison], p_values: Mapping[Segment, float]) -> Segment:
    """The segment that an outcome without a breach is about: the closest to a breach of those that could show one."""

    def closeness(segment: Segment) -> tuple[bool, bool, float, float, int]:
        part = judged[segment]
        p_value = 1.0 if part.p_value is None else part.p_value
        return not part.adequate, part.is_within, p_values.get(segment, 1.0), p_value, -part.n

    return min(judged, key=closeness)


def _named_numbers(segment: Segment, part: Comparison, p_value: float) -> list[Any]:
    """The numbers of a named segment: column, value, rows, the judged value or change, p."""
    measured = part.value if part.change is None else part.change
    return [*segment, part.n, None if measured is None else round(measured, 6), float(f"{p_value:.4g}")]
