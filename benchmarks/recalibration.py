"""Whether recalibration keeps what it promises: the gain on rows not seen, against that of its map on the population.

``python -m benchmarks.recalibration [--runs 200] [--windows 1]`` prints one line a world and size. The promised gain is
that of `calmon recalibrate`, of runs in which it takes a map; the kept one is of that map, fitted to all rows, on the
whole population in the same bins. Seeded; limits are those of the mean difference, 95%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.populations import VERBAL, Curve, Population, Scores, endless, endless_edges
from benchmarks.tables import Table, console
from monitor.config.model import EvaluationConfig
from monitor.core.counts import CELLS
from monitor.core.records import Subject
from monitor.operations.recalibrate import FittingRows, recalibrate
from monitor.recalibration.fitting import apply
from monitor.recalibration.gain import brier_gain, ece_gain
from monitor.recalibration.score_map import ScoreMap

SEED = 20260101
_LEVELS = Scores(tuple((1.0, (score,)) for score in VERBAL))
_ODD = ((0.6, 0.8, -0.2), (0.8, 0.9, 0.1))
_Gains = tuple[float, float, float, float]
WORLDS = (
    (Population("levels of a language model", _LEVELS, Curve(1.0, -0.3, _ODD)), (500, 2_000)),
    (Population("sharp: .3 too high from .75 to .85", curve=Curve(steps=((0.75, 0.85, -0.3),))), (2_000, 10_000)),
    (Population("locally wrong", curve=Curve(steps=((0.55, 0.80, -0.15),))), (2_000, 10_000)),
    (Population("smooth overconfidence", curve=Curve(1.5)), (500, 2_000, 10_000)),
    (Population("calibrated"), (500, 2_000, 10_000)),
)  # fmt: skip


def kept(population: Population, made: ScoreMap) -> tuple[float, float]:
    """By how much a map lowers the ECE (in 15 bins of the old scores) and the Brier score of the whole population."""
    points, edges = endless(population), endless_edges(population)
    old = points.cell / CELLS
    new, place = apply(made, old), np.searchsorted(edges, points.cell)
    before, after = (np.abs(np.bincount(place, weights=score - points.worth)).sum() for score in (old, new))
    brier = float(((old - points.worth) ** 2 - (new - points.worth) ** 2).mean())
    return float(before - after) / len(old), brier


def runs(population: Population, rows: int, windows: int, repetitions: int) -> Iterator[_Gains]:
    """(promised, kept) of the ECE and of the Brier score, in each run that takes a map."""
    for seed in range(repetitions):
        rng = np.random.default_rng([SEED, rows, windows, seed])
        drawn = [population.draw(rng, rows // windows) for _ in range(windows)]
        found = recalibrate(FittingRows(Subject("tickets", "a"), drawn, f"{seed}", f"{seed}"), None, EvaluationConfig())
        if found.score_map is not None and found.choice.method is not None:
            gain = found.gains[found.choice.method]
            ece, brier = kept(population, found.score_map)
            yield ece_gain(gain), ece, brier_gain(gain), brier


def line(population: Population, rows: int, windows: int, repetitions: int) -> tuple[str, ...]:
    """One line of the table."""
    found = np.array(list(runs(population, rows, windows, repetitions))).reshape(-1, 4)
    about = (population.name, f"{rows:,}", f"{len(found)} of {repetitions}")
    if not len(found):
        return (*about, *("-" * 6))
    promised, held, brier, brier_held = found.mean(axis=0)
    difference = found[:, 0] - found[:, 1]
    error = 1.96 * difference.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.inf
    limits = f"{difference.mean() - error:+.4f} to {difference.mean() + error:+.4f}"
    wrong = int((found[:, 1] < 0).sum())
    numbers = (
        f"{promised:.4f}",
        f"{held:.4f}",
        limits,
        f"{promised / held:.2f}",
        f"{wrong}",
        f"{brier / brier_held:.2f}",
    )
    return (*about, *numbers)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--windows", type=int, default=1)
    given = parser.parse_args()
    lines = tuple(line(each, rows, given.windows, given.runs) for each, sizes in WORLDS for rows in sizes)
    head = ("world", "rows", "taken", "promised", "kept", "promised - kept", "ratio", "kept < 0", "ratio of Brier")
    Table("Gain in ECE by recalibration", head, lines, texts=1).show(console())


if __name__ == "__main__":
    main()
