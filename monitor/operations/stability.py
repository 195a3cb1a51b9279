"""How much the metrics of a label vary between random parts of its rows: k folds, from counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import edges_of
from monitor.core.counts import Counts
from monitor.core.records import Interval, Subject, Where, Window
from monitor.evaluation.estimates import Sample, estimate, extra_estimates, generator
from monitor.metrics.registry import CONTRACT
from monitor.recalibration.gain import shared_out


@dataclass(frozen=True, slots=True)
class Stability:
    """One metric: its interval over all rows, and its value in each fold (None if undefined there)."""

    metric: str
    whole: Interval
    folds: tuple[float | None, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The folds that have a value."""
        return tuple(value for value in self.folds if value is not None)

    @property
    def mean(self) -> float | None:
        """The mean over folds."""
        return float(np.mean(self.known)) if self.known else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over folds, with the divisor k - 1."""
        return float(np.std(self.known, ddof=1)) if len(self.known) > 1 else None


def stability(
    subject: Subject, counts: Counts, window: Window, folds: int, names: Sequence[str], evaluation: EvaluationConfig
) -> list[Stability]:
    """The metrics ``names`` over all rows and over each of ``folds`` random parts of equal size.

    All use the bins of all rows and analytic intervals. The same rows give the same folds. Rows are assigned to folds
    one by one, even if they come in clusters.
    """
    quick = evaluation.model_copy(update={"interval": "analytic"})
    rng = generator(evaluation.seed, subject, f"stability {folds}", window.name)
    kept = counts.take(counts.w > 0)
    edges = edges_of(kept, quick)
    samples = [Sample(subject, each, edges) for each in (kept, *(fold.held for fold in shared_out(kept, folds, rng)))]
    found = [_values(sample, window, names, quick) for sample in samples]
    whole, parts = found[0], found[1:]
    return [Stability(name, whole[name], tuple(part[name].value for part in parts)) for name in names]


def _values(sample: Sample, window: Window, names: Sequence[str], evaluation: EvaluationConfig) -> dict[str, Interval]:
    extra: list[tuple[str, Where]] = [(name, "all") for name in names if name not in CONTRACT]
    found = {e.metric: e.interval for e in estimate([sample], window, evaluation) if e.where == "all"}
    return found | {e.metric: e.interval for e in extra_estimates([sample], extra, window, evaluation)}
