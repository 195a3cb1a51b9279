"""Counts with another `automate_at`: which rows would act alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.core.baseline import Baseline, Baselines, References, population_edges
from monitor.core.counts import CELLS, Counts, SegmentCounts, difference, pool
from monitor.evaluation.data import ByLabel
from monitor.inference.memory import kept_with


def acting_from(labels: ByLabel, before: SourceConfig, after: SourceConfig) -> ByLabel:
    """The counts with the `automate_at` of ``after``; labels whose threshold does not change stay as they are.

    Thresholds are rounded to cells of 0.0001: a row that is closer to one may fall on the other side. The design
    effects of automated rows stay.
    """
    requested = {label: after.automate_from(label) for label in labels if label is not None}
    return _moved_to(labels, {label: at for label, at in requested.items() if at != before.automate_from(label)})


def labels_at_present_threshold(labels: ByLabel, source: SourceConfig) -> ByLabel:
    """The counts of a window with the `automate_at` of ``source``, whatever it was when they were read."""
    requested = {label: source.automate_from(label) for label in labels if label is not None}
    return _moved_to(labels, {label: at for label, at in requested.items() if acts_otherwise(labels[label], at)})


def _moved_to(labels: ByLabel, moved: Mapping[str, float]) -> ByLabel:
    """The counts with other thresholds for some labels, and the source as a whole with the same rows."""
    if not moved:
        return labels
    found = {
        label: _acting(counts, moved[label]) if label is not None and label in moved else counts
        for label, counts in labels.items()
    }
    if None in labels:
        parts = [counts for label, counts in found.items() if label is not None]
        key = ("automate_at", *sorted(moved.items(), key=str))
        whole = labels[None]
        found[None] = kept_with(whole, key, lambda: pool(parts).with_design_effect(whole.design_effect))
    return found


def _acting(counts: Counts, automate_at: float) -> Counts:
    acts = counts.predicted & (counts.cell >= round(automate_at * CELLS))

    def made() -> Counts:
        parts = [replace(counts.take(mask), automated=acts[mask]) for mask in (acts, ~acts)]
        return replace(pool(parts), design_effect=counts.design_effect, acting_effects=counts.acting_effects)

    return kept_with(counts, ("automate_at", automate_at), made)


def acts_otherwise(counts: Counts, automate_at: float) -> bool:
    """Whether the counts were read with another `automate_at`, as far as their rows show it.

    The cell of the threshold itself may hold rows of both sides, so it shows nothing.

    >>> from monitor.core.counts import counts_from_rows
    >>> counts = counts_from_rows([0.85, 0.95], [1, 1], automate_at=0.9)
    >>> acts_otherwise(counts, 0.9), acts_otherwise(counts, 0.8), acts_otherwise(counts, 0.92)
    (False, True, False)
    """
    edge = round(automate_at * CELLS)
    decided = counts.predicted & (counts.cell != edge)
    return bool((counts.automated[decided] != (counts.cell[decided] > edge)).any())


def at_present_threshold(references: References, source: SourceConfig, evaluation: EvaluationConfig) -> References:
    """The references with automated rows by the `automate_at` of today, cut from the stored cells.

    A baseline whose threshold has not changed stays as it is. That of the source as a whole is added up anew; where its
    cells do not say which label a row is of, it is left as it is and named in ``not_cut``.
    """
    kept = references.baselines
    found: dict[str | None, Baseline] = {
        label: _with_counts(each, _counts_at(each.counts, source.automate_from(label)), evaluation)
        for label, each in kept.items()
        if label is not None
    }
    whole = kept.get(None)
    if whole is None:
        return replace(references, baselines=found)
    counts = _whole_at(whole, kept, found, source)
    if counts is None:
        return replace(references, baselines={None: whole, **found}, not_cut=frozenset({None}))
    return replace(references, baselines={None: _with_counts(whole, counts, evaluation), **found})


def segments_at_present_threshold(
    segments: Mapping[str | None, SegmentCounts], source: SourceConfig
) -> dict[str | None, SegmentCounts]:
    """The counts of a baseline's segments, with automated rows by the `automate_at` of today."""
    return {
        label: {name: _counts_at(counts, source.automate_from(label)) for name, counts in parts.items()}
        for label, parts in segments.items()
    }


def _counts_at(counts: Counts, automate_at: float) -> Counts:
    return _acting(counts, automate_at) if acts_otherwise(counts, automate_at) else counts


def _with_counts(baseline: Baseline, counts: Counts, evaluation: EvaluationConfig) -> Baseline:
    """The baseline with these counts; bins of automated rows are made anew, the others stay frozen."""
    if counts is baseline.counts:
        return baseline
    edges = {**baseline.edges, "automated": population_edges(counts.where("automated"), evaluation)}
    return replace(baseline, counts=counts, edges=edges)


def _whole_at(whole: Baseline, before: Baselines, after: Baselines, source: SourceConfig) -> Counts | None:
    """The counts of the source as a whole, each label cut at its threshold; None where they cannot be cut.

    Labels that had too few rows for a baseline are in the whole alone: they are what remains without the others.
    """
    changed = any(after[label] is not before[label] for label in after)
    special = {name for name, label in source.labels.items() if label.automate_at is not None}
    if not changed and not special and not acts_otherwise(whole.counts, source.automate_at):
        return whole.counts
    same = [label for label in after if (before[label].start, before[label].end) == (whole.start, whole.end)]
    rest = difference(whole.counts, [before[label].counts for label in same])
    if rest is None or (rest.rows and special - set(same)):
        return None if changed else whole.counts
    if not changed and not acts_otherwise(rest, source.automate_at):
        return whole.counts
    parts = [*(after[label].counts for label in same), _counts_at(rest, source.automate_at)]
    known = whole.counts
    pooled = pool(part for part in parts if part.rows)
    return replace(pooled, design_effect=known.design_effect, acting_effects=known.acting_effects)
