"""What truths that are wrong themselves, in the share that a source states, make of a verdict's numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from monitor.config.model import SourceConfig
from monitor.core.records import Verdict
from monitor.core.verdict_detail import WrongTruths

_ACCURACIES = ("accuracy", "automated_accuracy", "precision")


def classes_of(source: SourceConfig, labels: Collection[str | None]) -> int:
    """How many values a truth has: yes and no, or one of the labels."""
    if source.kind == "multilabel" or "actual" in source.columns:
        return 2
    return max(2, len(set(labels) - {None}))


def with_wrong_truths(verdict: Verdict, stated: float, error: float, classes: int) -> Verdict:
    """The verdict with what its threshold is without wrong truths, and its value as it would be without them.

    ``without`` has the value and its limits, where the metric says how many are right; otherwise it is not known.
    """
    values = (verdict.value, verdict.low, verdict.high)
    without = [
        known
        for value in values
        if value is not None and (known := _without(verdict, value, error, classes)) is not None
    ]
    facts: WrongTruths = {"share": error, "stated": stated}
    if len(without) == len(values):
        facts["without"] = without
    return replace(verdict, detail={**verdict.detail, "truth_error": facts})


def _without(verdict: Verdict, value: float, error: float, classes: int) -> float | None:
    """The value against true truths, no share beyond 0 and 1."""
    claimed = verdict.detail.get("promised")
    if verdict.metric in _ACCURACIES:
        return share_of_right(value, error, classes)
    if verdict.metric == "overconfidence" and claimed is not None:
        return float(claimed) - share_of_right(float(claimed) - value, error, classes)
    return None


def share_of_right(measured: float, error: float, classes: int) -> float:
    """The accuracy, where ``measured`` is that against truths wrong with probability ``error``, each any of the others.

    0 or 1 where the measured share cannot be one of so many wrong truths.

    >>> round(share_of_right(0.86, error=0.05, classes=2), 6)
    0.9
    """
    by_chance = error / (classes - 1)
    return min(max((measured - by_chance) / (1 - error - by_chance), 0.0), 1.0)
