"""Counts with another `automate_at`: which rows would act alone."""

from __future__ import annotations

from dataclasses import replace

from monitor.config.model import SourceConfig
from monitor.core.counts import CELLS, Counts, pool
from monitor.evaluation.evaluate import ByLabel
from monitor.inference.memory import kept_with


def acting_from(labels: ByLabel, before: SourceConfig, after: SourceConfig) -> ByLabel:
    """The counts with the `automate_at` of ``after``; labels whose threshold does not change stay as they are.

    Thresholds are rounded to cells of 0.0001: a row that is closer to one may fall on the other side. The design
    effects of automated rows stay.
    """
    requested = {label: after.automate_from(label) for label in labels if label is not None}
    moved = {label: score for label, score in requested.items() if score != before.automate_from(label)}
    if not moved:
        return labels
    found = {label: _acting(counts, moved[label]) if label in moved else counts for label, counts in labels.items()}
    if None in labels:
        parts = [counts for label, counts in found.items() if label is not None]
        key = ("automate_at", *sorted(moved.items(), key=str))
        whole = labels[None]
        found[None] = kept_with(whole, key, lambda: replace(pool(parts), design_effect=whole.design_effect))
    return found


def _acting(counts: Counts, automate_at: float) -> Counts:
    acts = counts.predicted & (counts.cell >= round(automate_at * CELLS))

    def made() -> Counts:
        parts = [replace(counts.take(mask), automated=acts[mask]) for mask in (acts, ~acts)]
        return replace(pool(parts), design_effect=counts.design_effect, acting_effects=counts.acting_effects)

    return kept_with(counts, ("automate_at", automate_at), made)
