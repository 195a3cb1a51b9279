"""The functions whose speed is compared. They do different work, which their docstrings describe.

All return, for every label, the plug-in ECE and 95% limits of ECE and MCE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.peers import BINS, PEERS, Peer
from benchmarks.populations import POPULATIONS
from benchmarks.timing import Size, timed
from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.intervals import Form, ece_intervals, mce_intervals

CONFIDENCE = 0.95
SEED = 20260101
PILOT = 5  # resamples of the trial, and the minimum that is measured

Floats = npt.NDArray[np.float64]
Limits = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The plain rows of one label: scores and 0/1 outcomes, each of shape (n,)."""

    score: Floats
    outcome: Floats


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for one label; ``mce`` is None if the library has no MCE."""

    plug_in: float
    ece: Limits
    mce: Limits | None


def made_up_label(label: int, n: int) -> Rows:
    """``n`` rows of one label, from the populations of the simulation with continuous scores."""
    rng = np.random.default_rng((SEED, label, n))
    continuous = [population for population in POPULATIONS if not population.scores.discrete]
    population = continuous[label % len(continuous)]
    score = population.scores.draw(rng, n)
    return Rows(score, (rng.random(n) < population.curve.worth(score)).astype(np.float64))


def made_up_rows(labels: int, n: int) -> list[Rows]:
    """``n`` rows of each label."""
    return [made_up_label(label, n) for label in range(labels)]


def count(labels: Sequence[Rows]) -> list[Counts]:
    """Counts of rows, computed in numpy. In a run the warehouse does this in SQL, and only counts leave it."""
    return [counts_from_rows(rows.score, rows.outcome) for rows in labels]


def ours(counts: Sequence[Counts], form: Form) -> list[Answer]:
    """From counts: edges, bins, the debiased ECE and MCE, and intervals that cover (test inversion)."""
    tables = [bin_counts(each, equal_frequency_edges(each, BINS)) for each in counts]
    rngs = [np.random.default_rng((SEED, label)) for label in range(len(tables))]
    eces = ece_intervals(tables, rngs, confidence=CONFIDENCE, form=form)
    mces = [each.interval for each in mce_intervals(tables, confidence=CONFIDENCE)]
    return [
        Answer(ece.plug_in, (ece.low, ece.high), (mce.low, mce.high))  # type: ignore[arg-type] # rows there are
        for ece, mce in zip(eces, mces, strict=True)
    ]


def row_bootstrap(labels: Sequence[Rows], resamples: int) -> list[Answer]:
    """From rows: the textbook percentile bootstrap, which does not cover (docs/statistics.md).

    This is as fast as numpy allows. Rows are sorted by bin once. A resample is how often each row was drawn: one
    reduceat over it gives the rows of every bin, and one over its product with the residuals the gaps. The bins of the
    sample are used for every resample.
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
        rows_in_bin = np.add.reduceat(times, starts)
        gap = np.abs(np.add.reduceat(times * residual, starts))
        ece[b], mce[b] = gap.sum() / n, (gap / np.maximum(rows_in_bin, 1)).max()
    plug_in = float(np.abs(np.add.reduceat(residual, starts)).sum()) / n
    return Answer(plug_in, _percentiles(ece), _percentiles(mce))


def _percentiles(values: Floats) -> Limits:
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def sklearn_bootstrap(labels: Sequence[Rows], resamples: int) -> list[Answer]:
    """From rows: scikit-learn's calibration_curve (with new bins each time) in scipy.stats.bootstrap.

    Percentile limits too. The curve has no bin sizes, but quantile bins have equal sizes, so the
    ECE is the plain mean of its gaps.
    """
    # imported here: a run of the monitor needs neither, and they must not count in the memory of the other rows
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
        low, high = (np.asarray(end) for end in result.confidence_interval)
        plug_in = float(errors(rows.outcome, rows.score)[0])
        found.append(Answer(plug_in, (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))))
    return found


def peer_bootstrap(peer: Peer, labels: Sequence[Rows], resamples: int) -> list[Answer]:
    """From rows: a library's own errors of every resample, with percentile limits too.

    A plain loop passes the drawn rows to the library. A library with its own bootstrap would draw once for each error,
    and is not quicker.
    """
    measure = peer.measure()
    found = []
    for k, rows in enumerate(labels):
        rng, n, outcome = np.random.default_rng((SEED, k)), len(rows.score), rows.outcome.astype(np.int64)
        drawn = (rng.integers(0, n, n) for _ in range(resamples))
        limits = [_percentiles(each) for each in np.array([measure(rows.score[at], outcome[at]) for at in drawn]).T]
        found.append(Answer(measure(rows.score, outcome)[0], limits[0], limits[1] if len(limits) > 1 else None))
    return found


@dataclass(frozen=True, slots=True)
class Contestant:
    """A row of the table. ``asked`` is the required number of resamples, ``done`` how many are measured (0: none).

    ``patience`` is the maximum seconds of a round. ``alike``: it has our bins, so its plug-in ECE must equal ours.
    ``run`` is None if a library is not installed.
    """

    name: str
    reads: str
    run: Callable[[Sequence[Rows], Sequence[Counts], int], list[Answer]] | None
    asked: int = 0
    done: int = 0
    patience: float = 0.0
    alike: bool = True

    @property
    def scale(self) -> float:
        """The factor for the measured time; it allows for the one evaluation of the sample itself."""
        return (self.asked + 1) / (self.done + 1)

    @property
    def resamples(self) -> str:
        """The text of the table: how many resamples, and how many of them were measured."""
        if self.run is None:
            return "not installed"
        if not self.asked:
            return "-"
        return f"{self.asked:,}" if self.done == self.asked else f"{self.asked:,} (scaled from {self.done:,})"

    def answers(self, rows: Sequence[Rows], counts: Sequence[Counts]) -> list[Answer]:
        """Its results, with the measured number of resamples."""
        assert self.run is not None
        return self.run(rows, counts, self.done)


def contestants(size: Size) -> Iterator[Contestant]:
    """All contestants, with the required number of resamples."""
    asked, slow = size.resamples, size.peer_patience
    yield Contestant("ours, analytic form", "counts", lambda rows, counts, b: ours(counts, "analytic"))
    yield Contestant("ours, bootstrap form", "counts", lambda rows, counts, b: ours(counts, "bootstrap"))
    yield Contestant(
        "numpy row bootstrap", "rows", lambda rows, counts, b: row_bootstrap(rows, b), asked, asked, size.patience
    )
    yield Contestant(
        "scikit-learn in scipy.stats.bootstrap", "rows", lambda rows, counts, b: sklearn_bootstrap(rows, b),
        asked, asked, slow,
    )  # fmt: skip
    for peer in PEERS:
        run = _peer(peer) if peer.installed else None
        yield Contestant(f"{peer.name} in a row bootstrap", "rows", run, asked, asked, slow, peer.frequent)


def _peer(peer: Peer) -> Callable[[Sequence[Rows], Sequence[Counts], int], list[Answer]]:
    return lambda rows, counts, b: peer_bootstrap(peer, rows, b)


def affordable(runner: Contestant, size: Size) -> Contestant:
    """The contestant with as many resamples as fit into a round, from a short trial on one label."""
    if not runner.asked or runner.run is None:
        return runner
    trial = replace(runner, done=min(PILOT, runner.asked))
    rows = made_up_rows(1, size.rows)
    seconds, _ = timed(lambda: trial.answers(rows, []))
    return replace(runner, done=within(runner.patience, seconds / (trial.done + 1) * size.labels, runner.asked))


def within(patience: float, a_resample: float, asked: int) -> int:
    """How many of ``asked`` resamples are measured if each takes ``a_resample`` seconds: at least PILOT, if required.

    >>> within(10.0, 0.001, 1000), within(10.0, 0.1, 1000), within(10.0, 100.0, 1000)
    (1000, 99, 5)
    """
    most = int(patience / a_resample) - 1  # the sample itself is evaluated too
    return min(asked, max(PILOT, most))
