"""The gain of recalibration on held-out rows: k-fold cross-validation, on counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import population_edges
from monitor.core.counts import CELLS, BinCounts, Bools, Counts, Floats, Ints, bin_counts, pool
from monitor.core.records import Estimate, Interval, Subject, Window
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.metrics.calibration import brier, nll
from monitor.recalibration.applying import mapped, moved
from monitor.recalibration.fitting import CannotFit, fit
from monitor.recalibration.score_map import METHODS, Method

FOLDS = 5
LEAST_ROWS = 200
"""No map is fitted to fewer effective rows, nor with fewer than 10 of either outcome."""
LEAST_OUTCOMES = 10
ISOTONIC_ROWS = 2_000
"""With fewer effective rows an isotonic map follows their noise. In the worst of the study's 15 populations it leaves
an ECE of about .04 at 500 rows; at 2,000 about half of the .05 that is well calibrated.
"""
_OF_BINS = ("upper", "n", "w", "ws", "wy", "n_eff", "kish")
_EXACT_DRAWS = 10**9  # the limit of NumPy's hypergeometric draws
_COUNTED = 2_000_000  # up to so many rows drawing one by one is faster than drawing by cell
_MANY_CELLS = 2_000  # from so many on neighbours are taken together, so that a trial takes less than half as long
_TOGETHER, _ALONE = 10, 500  # so many cells; but not of those below .05 and above .95, where logits change quickly

METRIC_OF: Mapping[Method, str] = MappingProxyType({method: f"recalibrated_ece_{method}" for method in METHODS})
"""The metric name of each method's cross-validated ECE in stored estimates."""


@dataclass(frozen=True, slots=True)
class ScoreQuality:
    """The quality of scores: debiased ECE with its interval, Brier score, log loss, and debiased MCE."""

    ece: Interval
    brier: float | None
    nll: float | None
    mce: float | None = None

    def plain(self) -> dict[str, float | None]:
        """The quality as plain data, for the history and for JSON."""
        ece = {"ece": self.ece.value, "ece_low": self.ece.low, "ece_high": self.ece.high}
        return ece | {"brier": self.brier, "nll": self.nll, "mce": self.mce}


@dataclass(frozen=True, slots=True)
class Gain:
    """One method on one subject: the quality before, and after on held-out rows.

    ``refused`` is why there is no ``after`` (a heading of docs/recalibration.md); None if there is one.
    """

    method: Method
    before: ScoreQuality
    after: ScoreQuality | None
    rows: int
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """The ``held`` out rows, and the ``rest`` on which their map is fitted."""

    held: Counts
    rest: Counts


def refusal(method: Method, counts: Counts) -> str | None:
    """Why this method is not offered for these counts; None if it is."""
    least = ISOTONIC_ROWS if method == "isotonic" else LEAST_ROWS
    if counts.effective_rows < least:
        return "too_few_rows"
    share = counts.positives / float(counts.w.sum())
    return "too_few_outcomes" if counts.effective_rows * min(share, 1 - share) < LEAST_OUTCOMES else None


def folds(counts: Counts, k: int, rng: np.random.Generator) -> list[Fold]:
    """Split the rows at random into k folds of (almost) equal size.

    The split has the law of shuffled rows: multivariate hypergeometric draws of the hits and misses of each cell. With
    unequal weights a cell's hits share its ``wy`` equally, and its misses the rest. If a cell's soft outcomes round to
    only hits or only misses, all its rows get its mean outcome.
    """
    return shared_out(counts.by_cell().weighted(), k, rng)


def shared_out(held: Counts, k: int, rng: np.random.Generator) -> list[Fold]:
    """As :func:`folds`, for groups of positive weight, which are kept apart by decision."""
    outcomes = _Outcomes.of(held)
    everything = np.concatenate([outcomes.hits, outcomes.misses])
    left, made = everything, []
    for remaining in range(k, 0, -1):
        drawn = left if remaining == 1 else _drawn(left, remaining, rng)
        made.append(Fold(outcomes.part(drawn), outcomes.part(everything - drawn)))
        left = left - drawn
    return made


def _drawn(left: Ints, folds_left: int, rng: np.random.Generator) -> Ints:
    """A draw of 1 / ``folds_left`` of the rows left, by kind (hits and misses of each cell)."""
    total = int(left.sum())
    if total >= _EXACT_DRAWS:  # with so many rows, independent draws and exact shares are equivalent
        return rng.binomial(left, 1 / folds_left)
    if total <= _COUNTED:
        return rng.multivariate_hypergeometric(left, total // folds_left, method="count")
    return rng.multivariate_hypergeometric(left, total // folds_left, method="marginals")


@dataclass(frozen=True, slots=True, eq=False)
class _Outcomes:
    """The hits and misses (K,) of the groups of a sample, with what is the same for every part of it.

    ``missed`` is the weight of the misses. ``mixed`` says which groups have both outcomes.
    """

    whole: Counts
    hits: Ints
    misses: Ints
    missed: Floats
    mixed: Bools
    score: Floats
    square: Floats

    @classmethod
    def of(cls, whole: Counts) -> _Outcomes:
        """The outcomes of groups of positive weight."""
        hits, score = np.rint(whole.n * whole.rate).astype(np.int64), whole.score
        misses = whole.n - hits
        return cls(whole, hits, misses, whole.w - whole.wy, (hits > 0) & (misses > 0), score, score**2)

    def part(self, drawn: Ints) -> Counts:
        """The counts of the drawn hits and misses (2K,) of each group, which get their share of the group's sums."""
        whole, (hits, misses) = self.whole, np.split(drawn, 2)
        n = hits + misses
        share = n / whole.n
        wy = np.where(self.mixed, whole.wy * hits / np.maximum(self.hits, 1), whole.wy * share)
        missed = np.where(self.mixed, self.missed * misses / np.maximum(self.misses, 1), self.missed * share)
        w = wy + np.maximum(missed, 0.0)
        sums: dict[str, Any] = {
            "n": n,
            "w": w,
            "w2": whole.w2 * share,
            "ws": w * self.score,
            "wy": wy,
            "wsy": wy * self.score,
        }
        return replace(whole, **sums, ws2=w * self.square).weighted()


def coarser(counts: Counts) -> Counts:
    """The groups by cell; of very many, those of scores between .05 and .95 are taken together by tens.

    The folds are of these. A line that is fitted to them differs by less than 1e-4 from one fitted to all cells, and an
    isotonic map is as good a map. (A map that is put to use is fitted to all cells.)
    """
    cells = counts.by_cell()
    if len(cells.cell) <= _MANY_CELLS:
        return cells
    middle = (cells.cell >= _ALONE) & (cells.cell < CELLS - _ALONE)
    tens = cells.cell // _TOGETHER * _TOGETHER + _TOGETHER // 2
    return replace(cells, cell=np.where(middle, tens, cells.cell)).by_cell()


def held_out(method: Method, parts: Sequence[Fold]) -> list[Counts]:
    """The rows of each fold with new scores, by a map fitted on the other folds. Raises :class:`CannotFit`."""
    return [moved(part.held, mapped(fit(method, part.rest), part.held)) for part in parts]


def cross_validated(
    counts: Sequence[Counts], rngs: Sequence[np.random.Generator], evaluation: EvaluationConfig
) -> list[dict[Method, Gain]]:
    """The gain of every method on each of the counts (for example all rows of a label), with one generator each.

    The ECE before and after are on bins of their own scores, as configured; after, each fold has its own row in each
    bin. Merged folds would hide the errors of their maps: if one fold's map is too low by chance, another's is too
    high, since it was fitted on the rows that the first one lacked. Intervals are analytic. Folds are of rows: if
    clusters span several folds, the gain looks slightly larger than it is.
    """
    plans = [list(_held_outs(one, rng, evaluation)) for one, rng in zip(counts, rngs, strict=True)]
    made: list[_Measured] = []
    for one, plan in zip(counts, plans, strict=True):
        made += [_measured([one], evaluation), *(after for _, after, _ in plan if after)]
    quality = iter(_qualities(made, evaluation))
    found: list[dict[Method, Gain]] = []
    for one, plan in zip(counts, plans, strict=True):
        before = next(quality)
        tried = (Gain(method, before, next(quality) if m else None, one.rows, refused) for method, m, refused in plan)
        found.append({gain.method: gain for gain in tried})
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """What the quality of a sample is made of: far smaller than its counts, of which each label has many.

    ``folded`` has the bins of every fold, one fold after the other, ``bins`` those of all folds merged.
    """

    folded: BinCounts
    bins: BinCounts
    brier: float | None
    nll: float | None


def gains_over(parts: Sequence[Fold], evaluation: EvaluationConfig) -> dict[Method, Gain]:
    """The gain of every method on the held rows of each part by a map of its rest, such as other windows.

    Intervals are analytic. Raises ValueError without parts.
    """
    whole = pool([part.held for part in parts])
    least = min((part.rest for part in parts), key=lambda rest: rest.effective_rows)
    plan = list(_tried(least, parts, evaluation))
    before, *rest = _qualities([_measured([whole], evaluation), *(m for _, m, _ in plan if m)], evaluation)
    after = iter(rest)
    return {
        method: Gain(method, before, next(after) if m else None, whole.rows, refused) for method, m, refused in plan
    }


def _held_outs(
    counts: Counts, rng: np.random.Generator, evaluation: EvaluationConfig
) -> Iterator[tuple[Method, _Measured | None, str | None]]:
    parts = folds(coarser(counts), FOLDS, rng) if refusal("temperature", counts) is None else []
    return _tried(counts, parts, evaluation)


def _tried(
    counts: Counts, parts: Sequence[Fold], evaluation: EvaluationConfig
) -> Iterator[tuple[Method, _Measured | None, str | None]]:
    """Each method on the parts, or why it is refused for ``counts``."""
    for method in METHODS:
        reason = refusal(method, counts)
        if reason is not None:
            yield method, None, reason
            continue
        try:
            yield method, _measured(held_out(method, parts), evaluation), None
        except CannotFit as error:
            yield method, None, error.reason


def _measured(parts: Sequence[Counts], evaluation: EvaluationConfig) -> _Measured:
    """The measures of one sample, given in folds; these are merged, except for the ECE."""
    one = pool(parts)
    edges = population_edges(one, evaluation)
    binned = [bin_counts(part, edges) for part in parts]
    folded = BinCounts(*(np.concatenate([getattr(each, name) for each in binned]) for name in _OF_BINS))
    return _Measured(folded, bin_counts(one, edges), brier(one), nll(one))


def _qualities(made: Sequence[_Measured], evaluation: EvaluationConfig) -> list[ScoreQuality]:
    """The quality of each sample; their intervals are computed together, which is faster."""
    eces = ece_intervals([one.folded for one in made], [], confidence=evaluation.confidence, form="analytic")
    mces = mce_intervals([one.bins for one in made], confidence=evaluation.confidence)
    found = zip(eces, mces, made, strict=True)
    return [ScoreQuality(ece, one.brier, one.nll, mce.interval.value) for ece, mce, one in found]


def gains(
    samples: Sequence[tuple[Subject, Counts]],
    window: Window,
    evaluation: EvaluationConfig,
    rngs: Sequence[np.random.Generator],
) -> list[Estimate]:
    """One estimate a sample and method that is offered: its ECE after recalibration, cross-validated.

    The metric is ``recalibrated_ece_<method>``, and ``detail`` holds ``method``, ``before`` and ``after`` (each with
    ``ece``, ``ece_low``, ``ece_high``, ``brier``, ``nll``, ``mce``) and ``n``. ``rngs`` has one generator a sample.
    """
    found = cross_validated([counts for _, counts in samples], rngs, evaluation)
    return [
        Estimate(
            subject,
            window,
            METRIC_OF[method],
            "all",
            gain.after.ece,
            counts.rows,
            counts.positives,
            {"method": gain.method, "n": gain.rows, "before": gain.before.plain(), "after": gain.after.plain()},
        )
        for (subject, counts), by_method in zip(samples, found, strict=True)
        for method, gain in by_method.items()
        if gain.after is not None
    ]


def gains_of(estimates: Sequence[Estimate]) -> dict[Method, Gain]:
    """The gains of one subject, from its stored estimates (others are ignored)."""
    by_name = {name: method for method, name in METRIC_OF.items()}
    found = ((by_name.get(one.metric), one.detail) for one in estimates)
    return {
        method: Gain(method, _read(detail["before"]), _read(detail["after"]), int(detail["n"]))
        for method, detail in found
        if method is not None and "before" in detail
    }


def _read(detail: Mapping[str, Any]) -> ScoreQuality:
    ece = Interval(detail["ece"], detail["ece_low"], detail["ece_high"], None)
    return ScoreQuality(ece, detail["brier"], detail["nll"], detail.get("mce"))
