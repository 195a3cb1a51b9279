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

from monitor.config.model import Config, Rule
from monitor.config.rule_sources import segment_columns
from monitor.core.counts import Counts
from monitor.core.promises import Segment, bands_of, is_part
from monitor.core.records import SCORE_BAND, Comparison, Reason, Subject
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.comparisons import Gate, gates, without_evidence
from monitor.evaluation.data import RuleInput, SourceData, WholeSource, WindowCounts, poolable, rows_of, windows_pooled
from monitor.evaluation.row_comparisons import comparisons_of
from monitor.evaluation.rule_metrics import rows_needed
from monitor.inference.memory import kept_with
from monitor.inference.multiplicity import named_within, simes

NAMED = 5
"""The most segments whose numbers a verdict keeps, the smallest p first."""


def segments_of(
    rule: Rule, columns: Sequence[str], rule_input: RuleInput, data: SourceData, most: int
) -> dict[Segment, RuleInput]:
    """The input of each segment of a label with rows in the judged window.

    It is of the windows that may be pooled for the label, ``most`` of them with the judged one. Bins are those of the
    label's baseline.
    """
    label, frozen = rule_input.subject.label, data.baseline_segments.get(rule_input.subject.label, {})
    each = [_parts(part, label, columns) for part in poolable(data, label, most)]
    found = {}
    for segment, now in sorted((each[0] if each else {}).items()):
        if not rows_of(rule, now).w.any():
            continue
        baseline = rule_input.baseline
        if baseline is not None and rule.compares:  # with the rows of the segment, if it has any
            then = (_bands(baseline.counts) if segment[0] == SCORE_BAND else frozen).get(segment)
            baseline = None if then is None else replace(baseline, counts=then)
        counts = tuple(parts[segment] for parts in each if segment in parts)
        found[segment] = replace(
            rule_input, subject=Subject(data.name, label, segment), counts=counts, baseline=baseline
        )
    return found


def _parts(window: WindowCounts, label: str | None, columns: Sequence[str]) -> dict[Segment, Counts]:
    by_segment = window.segment_counts.get(label, {})
    found = {segment: counts for segment, counts in by_segment.items() if segment[0] in columns}
    return {**found, **_bands(window.labels[label])} if SCORE_BAND in columns and label in window.labels else found


def _bands(counts: Counts) -> dict[Segment, Counts]:
    return kept_with(counts, "bands", lambda: dict(bands_of(counts)))


def compare_segments(rule: Rule, family: Sequence[RuleInput], data: SourceData, config: Config) -> list[Comparison]:
    """The evidence of one rule on the segments of each of several labels; one comparison a label.

    A comparison has the numbers of one segment: the named one with the smallest p, else the one closest to a breach
    among those that could have shown a change.
    """
    evaluation, source, rules = config.evaluation, config.sources[data.name], config.decision_rules(rule.schedule)
    columns, most = segment_columns(rule, source), windows_pooled(rule, config, data.current.window)
    inputs = [segments_of(rule, columns, each, data, most) for each in family]
    # made as for a label, with analytic intervals like those of its estimates; the newest window of a segment is judged
    # alone as well, where it is significant among all segments of all labels
    level = evaluation.false_discovery_rate / max(1, rules * len(inputs) * max(map(len, inputs), default=0))
    analytic = evaluation.model_copy(update={"interval": "analytic"})
    every = [part for each in inputs for part in each.values()]
    made = iter(comparisons_of(rule, every, WholeSource(), source, analytic, level=level))
    compared = [{segment: next(made) for segment in each} for each in inputs]
    gated = [
        gates(rule, each, has_rows=any(part.problem is not Reason.NO_ROWS for part in parts.values()))
        for each, parts in zip(family, compared, strict=True)
    ]
    # of each segment with enough rows, all windows together; 1 for one that is not beyond the threshold in every window
    needed = rows_needed(rule, evaluation)
    p_values = [
        {
            segment: part.p_value if part.beyond and part.streak else 1.0
            for segment, part in (parts if problem is None else {}).items()
            if part.problem is None and part.p_value is not None
            if part.detail.get("together", {"n": part.n})["n"] >= needed
        }
        for parts, (_, problem) in zip(compared, gated, strict=True)
    ]
    rate = evaluation.false_discovery_rate
    places = named_within([list(of_label.values()) for of_label in p_values], rate, rules)
    named = [[list(of_label)[place] for place in chosen] for of_label, chosen in zip(p_values, places, strict=True)]
    return [
        _of_label(rule, each, parts, of_label, chosen, gate)
        for each, parts, of_label, chosen, gate in zip(family, compared, p_values, named, gated, strict=True)
    ]


def _of_label(
    rule: Rule,
    label: RuleInput,
    parts: Mapping[Segment, Comparison],
    p_values: Mapping[Segment, float],
    named: Sequence[Segment],
    gate: Gate,
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
            [*segment, part.n, None if value is None else round(value, 6), float(f"{p_values[segment]:.4g}")]
            for segment in named_parts[:NAMED]
            for part in [judged[segment]]
            for value in [part.value if part.change is None else part.change]
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
    closeness = {
        segment: (not part.adequate, part.is_within, p_values.get(segment, 1.0), 1.0 if p is None else p, -part.n)
        for segment, part in judged.items()
        for p in [part.p_value]
    }
    return min(judged, key=closeness.__getitem__)
