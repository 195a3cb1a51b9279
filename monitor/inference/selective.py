"""The threshold that meets a target accuracy, and the one from which scores still keep their promise.

A threshold chosen on the same rows that measure it looks better than it is. So a candidate meets the target only if the
exact binomial lower limit of its accuracy does. Candidates are tested in a fixed order, from the highest threshold
down, and each sequence ends at its first failure ("learn then test"). Several sequences start at different coverages
and share the chance of error, since the few rows at the top alone often cannot show anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import betainc

from monitor.core.counts import CELLS, Bools, Counts, Floats, Ints
from monitor.inference.sampling import Proportion
from monitor.metrics.selective import looked_at

STARTS = 8
CANDIDATES = 100
_LEAST = 1e-9

Reason = Literal["met", "not_shown", "too_few_rows", "no_rows"]


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """The lowest threshold whose accuracy is shown to meet ``target``; its numbers are None where there is none.

    ``reason``: ``met``; ``not_shown`` (no threshold passed), ``too_few_rows`` (not even a faultless sample of this size
    could pass), ``no_rows``. ``coverage`` is the share of the rows looked at that would act alone, ``rows`` their
    number. Limits hold with ``confidence`` although the threshold was chosen on these rows; ``accuracy_low`` is at
    least the target.
    """

    target: float
    confidence: float
    reason: Reason
    threshold: float | None = None
    rows: int = 0
    coverage: float | None = None
    coverage_low: float | None = None
    coverage_high: float | None = None
    accuracy: float | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None

    @property
    def to_people(self) -> float | None:
        """The share that would be left to people."""
        return None if self.coverage is None else 1 - self.coverage


def threshold_for(counts: Counts, target: float, *, confidence: float = 0.95) -> OperatingPoint:
    """The lowest score from which the rows are shown to be right in at least ``target`` of the cases.

    The rows are those of the risk-coverage curve (:func:`~monitor.metrics.selective.looked_at`), candidates at most 100
    thresholds, chosen by the numbers of rows alone. With probability (1 + confidence) / 2 or more the true accuracy
    above the threshold meets the target (fixed-sequence testing with eight starts: Angelopoulos, Bates, Candes, Jordan
    & Lei 2021; Clopper & Pearson 1934, conservative for scores that differ: Hoeffding 1956). The other limits are
    Bonferroni's over the candidates. Raises ValueError unless 0 < target < 1.

    >>> from monitor.core.counts import counts_from_rows
    >>> score = np.repeat([0.95, 0.85, 0.55], 400)
    >>> right = np.concatenate([np.arange(400) >= 4, np.arange(400) >= 12, np.arange(400) >= 160])
    >>> found = threshold_for(counts_from_rows(score, right), 0.95)
    >>> found.threshold, round(found.coverage, 4), found.accuracy, round(found.accuracy_low, 4)
    (0.85, 0.6667, 0.98, 0.9648)
    """
    if not 0 < target < 1:
        raise ValueError(f"a target accuracy lies between 0 and 1, not at {target}: 0.95 is right in 95 of 100 cases")
    steps = _Steps.of(looked_at(counts).by_cell().weighted())
    return replace(_lowest(steps, np.full(len(steps.cell), target), confidence), target=target)


def lowest_safe(acting: Counts, *, floor: float | None, margin: float, rate: float = 0.05) -> OperatingPoint:
    """The lowest score from which rows that act alone are shown to keep their promise, whatever is wrong below it.

    The promise is the ``floor`` (a share that must be right), or without one the mean score of the rows from there on
    minus ``margin``. The chance that a score is named from which it is not kept is at most ``rate``, by the tests of
    :func:`threshold_for`; ``target`` of the result is the promise there. Geifman & El-Yaniv 2017.

    >>> from monitor.core.counts import counts_from_rows
    >>> score = np.repeat([0.97, 0.85], 500)
    >>> right = np.concatenate([np.arange(500) >= 15, np.arange(500) >= 200])
    >>> found = lowest_safe(counts_from_rows(score, right), floor=None, margin=0.05)
    >>> found.threshold, found.coverage, found.accuracy, round(found.target, 2)
    (0.97, 0.5, 0.97, 0.92)
    """
    cells = acting.by_cell().weighted()
    steps = _Steps.of(cells)
    if floor is not None:
        targets = np.full(len(steps.cell), floor)
    else:
        targets = np.cumsum(cells.ws[::-1]) / np.cumsum(cells.w[::-1], dtype=np.float64) - margin
    return _lowest(steps, np.clip(targets, _LEAST, 1 - _LEAST), 1 - 2 * rate)


def _lowest(steps: _Steps, targets: Floats, confidence: float) -> OperatingPoint:
    """The lowest step whose accuracy is shown to meet its target; ``targets`` of shape (T,)."""
    if len(steps.cell) == 0:
        return OperatingPoint(math.nan, confidence, "no_rows")
    last, tail = float(targets[-1]), (1 - confidence) / 2
    candidates = _candidates(steps, np.log(tail / STARTS) / np.log(targets))
    if len(candidates) == 0:
        return OperatingPoint(last, confidence, "too_few_rows")
    rows, hits = steps.effective[candidates], steps.accuracy[candidates] * steps.effective[candidates]
    # the chance of at least as many right rows if the accuracy were the target
    chance = betainc(np.maximum(hits, 1e-12), np.maximum(rows - hits, 0.0) + 1, targets[candidates])
    passed = _passed(np.where(hits > 0, chance, 1.0) <= tail / STARTS, steps.coverage[candidates])
    if not passed.any():
        return OperatingPoint(last, confidence, "not_shown")
    k = int(candidates[np.flatnonzero(passed)[-1]])
    target, each = float(targets[k]), 1 - (1 - confidence) / len(candidates)
    accuracy, coverage = float(steps.accuracy[k]), min(float(steps.coverage[k]), 1.0)
    low, high = Proportion(accuracy, float(steps.effective[k])).interval(each)
    coverage_low, coverage_high = Proportion(coverage, float(steps.effective[-1])).interval(each)
    return OperatingPoint(
        target, confidence, "met", float(steps.cell[k] / CELLS), int(steps.n[k]),
        coverage, coverage_low, coverage_high, accuracy, max(low, min(target, accuracy)), high,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The rows with "score >= cell", highest cell first: rows, effective rows, coverage and accuracy, shape (T,)."""

    cell: Ints
    n: Ints
    effective: Floats
    coverage: Floats
    accuracy: Floats

    @classmethod
    def of(cls, cells: Counts) -> _Steps:
        sums = (cells.w, cells.w2, np.clip(cells.wy, 0.0, cells.w))
        w, w2, wy = (np.cumsum(part[::-1], dtype=np.float64) for part in sums)
        whole = w[-1] if len(w) else 1.0
        effective = w**2 / w2 / cells.design_effect
        return cls(cells.cell[::-1], np.cumsum(cells.n[::-1]), effective, w / whole, np.minimum(wy / w, 1.0))


def _candidates(steps: _Steps, least: Floats) -> Ints:
    """At most ``CANDIDATES`` steps with enough rows to pass, evenly spaced in coverage, the last step included."""
    enough = np.flatnonzero(np.maximum.accumulate(steps.effective) >= least)
    if len(enough) <= CANDIDATES:
        return enough
    coverage = steps.coverage[enough]
    places = np.searchsorted(coverage, np.linspace(coverage[0], coverage[-1], CANDIDATES))
    return np.asarray(enough[np.unique(np.minimum(places, len(enough) - 1))])


def _passed(alone: Bools, coverage: Floats) -> Bools:
    """The candidates that pass in one of the sequences; each sequence goes on while its candidates pass.

    Each sequence starts with a multiple of the rows of the one before: few rows show only large distances from the
    target, many rows include lower scores.
    """
    reached = np.zeros_like(alone)
    starts = np.searchsorted(coverage, np.geomspace(coverage[0], coverage[-1], STARTS) * (1 - 1e-12))
    for start in np.unique(np.minimum(starts, len(alone) - 1)):
        failed = np.flatnonzero(~alone[start:])
        reached[start : start + failed[0] if len(failed) else len(alone)] = True
    return reached
