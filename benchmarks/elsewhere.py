"""Random populations: shapes, scores, bins and numbers of rows are drawn from a seed.

The author of an interval knows the fifteen populations of the study, but not these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.coverage import Cell, Kind, in_parts
from benchmarks.populations import Curve, Population, Scores, endless_edges
from monitor.core.counts import CELLS

FEWEST, MOST = 100, 50_000
KINDS: tuple[Kind, ...] = ("bootstrap", "analytic", "mce")


def _mixture(rng: np.random.Generator) -> Scores:
    parts = int(rng.integers(1, 4))
    shares, shapes = rng.dirichlet(np.ones(parts)), np.exp(rng.uniform(np.log(0.4), np.log(15), (parts, 2)))
    return Scores(tuple((float(w), (float(a), float(b))) for w, (a, b) in zip(shares, shapes, strict=True)))


def _few_values(rng: np.random.Generator) -> Scores:
    values = np.sort(rng.choice(np.arange(1, 100), int(rng.integers(3, 41)), replace=False)) / 100
    shares = rng.dirichlet(np.ones(len(values)))
    return Scores(tuple((float(w), (float(value),)) for w, value in zip(shares, values, strict=True)))


def _piled_up(rng: np.random.Generator) -> Scores:
    """A mixture with many rows at one or two scores near 0 or 1."""
    piles = [(float(rng.uniform(0.1, 0.5)), (float(end),)) for end in rng.choice([0.01, 0.02, 0.98, 0.99], 2)]
    return Scores((*_mixture(rng).parts, *piles))


def _smooth(rng: np.random.Generator, _: Scores, __: int) -> Curve:
    waves = [(float(rng.normal(0, 0.06)), float(rng.uniform(0.3, 3)), float(rng.random())) for _ in range(3)]
    return Curve(float(np.exp(rng.normal(0, 0.3))), float(rng.normal(0, 0.3)), waves=tuple(waves))


def _jumping(rng: np.random.Generator, scores: Scores, bins: int) -> Curve:
    """A different gap in each bin, with jumps at the edges; in half of these populations the signs alternate."""
    edges = np.array([0, *endless_edges(Population("", scores), bins)]) / CELLS
    size = rng.uniform(0.02, 0.2) * rng.random(len(edges) - 1)
    sign = np.where(np.arange(len(size)) % 2, 1, -1) if rng.random() < 0.5 else rng.choice([-1, 1], len(size))
    steps = zip(edges[:-1].tolist(), edges[1:].tolist(), (size * sign).tolist(), strict=True)
    return Curve(steps=tuple(steps))


_SCORES: tuple[tuple[str, Callable[[np.random.Generator], Scores]], ...] = (
    ("beta mixture", _mixture),
    ("few values", _few_values),
    ("piled up", _piled_up),
)
_GAPS: tuple[tuple[str, Callable[[np.random.Generator, Scores, int], Curve]], ...] = (
    ("smooth", _smooth),
    ("jumps", _jumping),
)


def random_cell(number: int, seed: int) -> Cell:
    """The cell with this number, without repetitions yet. Score laws and gap shapes alternate."""
    rng = np.random.default_rng((seed, number))
    (law, scores_of), (shape, curve_of) = _SCORES[number % 3], _GAPS[number // 3 % 2]
    bins = int(rng.integers(5, 31))
    n = round(float(np.exp(rng.uniform(np.log(FEWEST), np.log(MOST)))))
    scores = scores_of(rng)
    population = Population(f"random {number + 1:02}", scores, curve_of(rng, scores, bins))
    line = (number + 1, law, shape, bins, n)
    return Cell("elsewhere", line, population, n, 0, 0, seed, KINDS, bins)


def random_cells(cells: int, repetitions: int, seed: int) -> list[Cell]:
    """``cells`` random populations, in parts."""
    return [part for number in range(cells) for part in in_parts(random_cell(number, seed), repetitions)]
