"""Items that people checked since they were drawn at random among those that act alone: the truth of what acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import ScoreIs


@dataclass(frozen=True, slots=True)
class AuditedItem:
    """An item drawn of the week that begins at ``window_start``, one of ``of`` that act alone on its label.

    ``outcome``: its label was right (1) or wrong (0), None while people have not decided. ``stated`` is what the
    relation said of it when it was last drawn, None if nothing.
    """

    source: str
    window_start: datetime
    label: str
    item: str
    score: float
    of: int
    outcome: float | None = None
    stated: float | None = None


def with_audits(labels: Mapping[str, Counts], items: Iterable[AuditedItem], score_is: ScoreIs) -> dict[str, Counts]:
    """The counts of labels, which are without rows that act, with checked items in place of these.

    Each checked item stands for as many as act on its label for each that was checked. Those whose truth came in
    another way are left out: it need not be at random that it came.
    """
    checked = [item for item in items if item.outcome is not None]
    found = {label: [item for item in checked if item.label == label] for label in {item.label for item in checked}}
    return {**labels, **{label: _with_checked(labels.get(label), of, score_is) for label, of in found.items()}}


def _with_checked(counts: Counts | None, items: list[AuditedItem], score_is: ScoreIs) -> Counts:
    weight = np.full(len(items), max(1.0, max(item.of for item in items) / len(items)))
    score, outcome = [item.score for item in items], [item.outcome or 0.0 for item in items]
    acts = np.ones(len(items), dtype=bool)
    checked = counts_from_rows(score, outcome, predicted=acts, weight=weight, automate_at=0.0, score_is=score_is)
    if counts is None:
        return checked
    effects = replace(checked, design_effect=counts.design_effect, acting_effects=counts.acting_effects)
    return pool([counts, effects])
