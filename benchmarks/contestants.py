"""The functions whose speed is compared. They do different work; each docstring says what.

All return, for every label, the plug-in ECE, the ECE that is reported, and 95% limits of ECE and MCE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.populations import POPULATIONS
from monitor.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.intervals import Form, ece_intervals, mce_interval

BINS = 15
CONFIDENCE = 0.95
SEED = 20260101

Floats = npt.NDArray[np.float64]
Limits = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The plain rows of one label: scores and 0/1 outcomes, each of shape (n,)."""

    score: Floats
    outcome: Floats


@dataclass(frozen=True, slots=True)
class Answer:
    """What is found for one label."""

    plug_in: float
    ece: Limits
    mce: Limits


def made_up_label(label: int, n: int) -> Rows:
    """``n`` rows of one label, from the populations of the simulation with continuous scores."""
    rng = np.random.default_rng((SEED, label, n))
    continuous = [population for population in POPULATIONS if not population.verbal]
    population = continuous[label % len(continuous)]
    score = population.draw_scores(rng, n)
    return Rows(score, (rng.random(n) < population.worth(score)).astype(np.float64))


def made_up_rows(labels: int, n: int) -> list[Rows]:
    """``n`` rows of each label."""
    return [made_up_label(label, n) for label in range(labels)]


def count(labels: Sequence[Rows]) -> list[Counts]:
    """Rows to counts in numpy; in a run the warehouse does this in SQL and only counts leave it."""
    return [counts_from_rows(rows.score, rows.outcome) for rows in labels]


def ours(counts: Sequence[Counts], form: Form) -> list[Answer]:
    """From counts: edges, bins, the debiased ECE and MCE, and intervals that cover (test inversion)."""
    tables = [bin_counts(each, equal_frequency_edges(each, BINS)) for each in counts]
    rngs = [np.random.default_rng((SEED, label)) for label in range(len(tables))]
    found = []
    for ece, table in zip(ece_intervals(tables, rngs, confidence=CONFIDENCE, form=form), tables, strict=True):
        worst = mce_interval(table, confidence=CONFIDENCE).interval
        assert None not in (ece.plug_in, ece.low, ece.high, worst.low, worst.high)
        found.append(Answer(ece.plug_in, (ece.low, ece.high), (worst.low, worst.high)))  # type: ignore[arg-type]
    return found


def row_bootstrap(labels: Sequence[Rows], resamples: int) -> list[Answer]:
    """From rows: the textbook percentile bootstrap, which does not cover (docs/statistics.md).

    As fast as numpy lets it be: rows are sorted by bin once; a resample is how often each row was
    drawn, and one reduceat over that gives the rows and one over its product with the residuals the
    gap of every bin. Bins are those of the sample, not made anew for every resample.
    """
    return [_row_bootstrap(rows, resamples, np.random.default_rng((SEED, k))) for k, rows in enumerate(labels)]


def _row_bootstrap(rows: Rows, resamples: int, rng: np.random.Generator) -> Answer:
    order = np.argsort(rows.score, kind="stable")
    residual = (rows.outcome - rows.score)[order]
    n = len(residual)
    edges = np.quantile(rows.score, np.arange(1, BINS) / BINS)
    starts = np.unique(np.append(0, np.searchsorted(rows.score[order], edges, side="right")))
    starts = starts[starts < n]
    ece, mce = np.empty(resamples), np.empty(resamples)
    for b in range(resamples):
        times = np.bincount(rng.integers(0, n, n, dtype=np.int32), minlength=n)
        held = np.add.reduceat(times, starts)
        gap = np.abs(np.add.reduceat(times * residual, starts))
        ece[b], mce[b] = gap.sum() / n, (gap / np.maximum(held, 1)).max()
    plug_in = float(np.abs(np.add.reduceat(residual, starts)).sum()) / n
    return Answer(plug_in, _percentiles(ece), _percentiles(mce))


def _percentiles(values: Floats) -> Limits:
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def sklearn_bootstrap(labels: Sequence[Rows], resamples: int) -> list[Answer]:
    """From rows: scikit-learn's calibration_curve (its bins made anew each time) in scipy.stats.bootstrap.

    Percentile limits as well. The curve carries no bin sizes; quantile bins are equal ones, so the
    ECE is the plain mean of its gaps.
    """
    # imported here: a run of the monitor needs neither, and the other rows' memory must not hold them
    from scipy.stats import bootstrap  # noqa: PLC0415
    from sklearn.calibration import calibration_curve  # noqa: PLC0415

    def errors(outcome: Floats, score: Floats) -> Floats:
        kept, promised = calibration_curve(outcome, score, n_bins=BINS, strategy="quantile")
        gap = np.abs(kept - promised)
        return np.array([gap.mean(), gap.max()])

    found = []
    for k, rows in enumerate(labels):
        result = bootstrap(
            (rows.outcome, rows.score), errors, paired=True, vectorized=False, n_resamples=resamples,
            confidence_level=CONFIDENCE, method="percentile", rng=np.random.default_rng((SEED, k)),
        )  # fmt: skip
        low, high = result.confidence_interval
        plug_in = float(errors(rows.outcome, rows.score)[0])
        found.append(Answer(plug_in, (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))))
    return found


@dataclass(frozen=True, slots=True)
class Contestant:
    """A row of the table. ``asked`` resamples are what it should do, ``done`` what is measured (0: none)."""

    name: str
    reads: str
    run: Callable[[Sequence[Rows], Sequence[Counts], int], object]
    asked: int = 0
    done: int = 0

    @property
    def scale(self) -> float:
        """What the measured time is multiplied with; the sample itself is evaluated once as well."""
        return (self.asked + 1) / (self.done + 1)

    @property
    def resamples(self) -> str:
        """For people: how many resamples, and how many of them were measured."""
        if not self.asked:
            return "-"
        return f"{self.asked:,}" if self.done == self.asked else f"{self.asked:,} (scaled from {self.done:,})"


def contestants(resamples: int, rows_done: int, sklearn_done: int) -> tuple[Contestant, ...]:
    """All of them; the row bootstraps may be measured with fewer resamples than they are asked for."""
    return (
        Contestant("counting in numpy", "rows", lambda rows, counts, b: count(rows)),
        Contestant("ours, analytic form", "counts", lambda rows, counts, b: ours(counts, "analytic")),
        Contestant("ours, bootstrap form", "counts", lambda rows, counts, b: ours(counts, "bootstrap")),
        Contestant("numpy row bootstrap", "rows", lambda rows, counts, b: row_bootstrap(rows, b), resamples, rows_done),
        Contestant(
            "scikit-learn in scipy bootstrap", "rows", lambda rows, counts, b: sklearn_bootstrap(rows, b),
            resamples, sklearn_done,
        ),
    )  # fmt: skip
