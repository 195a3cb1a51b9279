"""The true effect of recalibration, by method and number of rows: ``python -m benchmarks.recalibration``.

Maps are fitted on samples of the study's populations and tried on the populations themselves, whose true ECE is known.
The results of cross-validation on the same samples are shown too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.populations import LABELS, POPULATIONS, Population, endless
from monitor.config.model import EvaluationConfig
from monitor.core.counts import CELLS, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.metrics.calibration import brier, ece
from monitor.recalibration.applying import apply, moved
from monitor.recalibration.choice import choose
from monitor.recalibration.fitting import CannotFit, fit
from monitor.recalibration.gain import Gain, cross_validated
from monitor.recalibration.score_map import METHODS, Method, ScoreMap

SIZES = (500, 1_000, 2_000, 5_000, 10_000, 50_000)
EVALUATION = EvaluationConfig()


@dataclass(frozen=True)
class Tried:
    """One map on its population: its true ECE and gain in Brier score, and cross-validation's estimates of both."""

    population: str
    method: Method
    true_ece: float
    brier_gain: float
    found: Gain
    chosen: bool


def whole(population: Population) -> Counts:
    """The population itself as counts, with true probabilities as outcomes."""
    points = endless(population)
    return counts_from_rows(points.cell / CELLS, points.worth)


def recalibrated(counts: Counts, score_map: ScoreMap) -> Counts:
    """The same rows with new scores: the rows of a cell get the new score of its mean score."""
    cells = counts.by_cell()
    cells = cells.take(cells.w > 0)
    return moved(cells, apply(score_map, cells.score))


def true_ece(counts: Counts) -> float:
    found = ece(bin_counts(counts, equal_frequency_edges(counts, EVALUATION.bins)))
    assert found is not None
    return found


def tried(population: Population, n: int, repetitions: int, seed: int) -> Iterator[Tried]:
    """Try each method on ``repetitions`` samples of ``n`` rows, if cross-validation offers it."""
    truth = whole(population)
    rngs = [np.random.default_rng([seed, n, i]) for i in range(repetitions)]
    samples = [population.draw(rng, n) for rng in rngs]
    for sample, gains in zip(samples, cross_validated(samples, rngs, EVALUATION), strict=True):
        choice = choose(gains)
        for method, gain in gains.items():
            try:
                after = recalibrated(truth, fit(method, sample))
            except CannotFit:
                continue
            fall = (brier(truth) or 0.0) - (brier(after) or 0.0)
            yield Tried(population.name, method, true_ece(after), fall, gain, choice.method == method)


def line(method: Method, n: int, rows: Sequence[Tried]) -> str:
    """One row of the table, over all populations."""
    by_population = {
        name: np.mean([row.true_ece for row in rows if row.population == name])
        for name in {row.population for row in rows}
    }
    offered = [row for row in rows if row.found.after is not None]
    mean = float(np.mean(list(by_population.values())))
    left = f"| {method} | {n:,} | {mean:.4f} | {max(by_population.values()):.4f} |"
    if not offered:
        return f"{left} – | – | – | – |"
    after = [row.found.after.ece for row in offered if row.found.after is not None]
    estimated = np.mean([one.value or 0.0 for one in after])
    covered = np.mean([row.true_ece <= (one.high or 0.0) for row, one in zip(offered, after, strict=True)])
    gains = [
        (row.brier_gain, (row.found.before.brier or 0.0) - (row.found.after.brier or 0.0))
        for row in offered
        if row.found.after is not None
    ]
    truth, found = np.mean(gains, axis=0)
    return f"{left} {estimated:.4f} | {covered:.2f} | {truth:+.5f} | {found:+.5f} |"


def chosen_line(n: int, rows: Sequence[Tried]) -> str:
    """The line of how often calibrated populations were recalibrated nevertheless, and their ECE afterwards."""
    calm = [row for row in rows if row.population.endswith("calibrated")]
    samples = len(calm) // len(METHODS)
    taken = [row.true_ece for row in calm if row.chosen]
    worst = f"{max(taken):.4f}" if taken else "–"
    return f"| {n:,} | {len(taken)} of {samples} | {worst} |"


def seconds(labels: Sequence[Population], n: int) -> float:
    """CPU seconds for the gains of these labels with ``n`` rows each."""
    samples = [label.draw(np.random.default_rng(i), n) for i, label in enumerate(labels)]
    start = time.process_time()
    cross_validated(samples, [np.random.default_rng(i) for i in range(len(samples))], EVALUATION)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20, help="samples of each population and size")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    by_size = {
        n: [row for p in POPULATIONS for row in tried(p, n, arguments.repetitions, arguments.seed)] for n in SIZES
    }
    print(f"{len(POPULATIONS)} populations, {arguments.repetitions} samples each. True ECE after, on the population:\n")
    print("| method | rows | mean | worst population | cross-validated | below its upper limit | Brier gain | found |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for method in METHODS:
        for n, rows in by_size.items():
            print(line(method, n, [row for row in rows if row.method == method]))
    print("\nCalibrated populations recalibrated all the same by `auto`, and the largest true ECE then:\n")
    print("| rows | recalibrated | true ECE |\n| --- | --- | --- |")
    for n, rows in by_size.items():
        print(chosen_line(n, rows))
    print(f"\n{len(LABELS)} labels x 100,000 rows, every method: {seconds(LABELS, 100_000):.2f} CPU seconds")


if __name__ == "__main__":
    main()
