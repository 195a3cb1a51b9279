"""The average precision with hardly any miss among the highest scores, in a population drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.populations import Curve, Population, Scores, endless
from monitor.inference.levels import law_of
from monitor.inference.sampling import LogitArea

ROWS, REPETITIONS = 260, 400
PILED_UP = Scores(((1.0, (4.885566729723009, 0.41502729267395516)), (0.3597836979, (0.02,)), (0.3509967341, (0.02,))))
STEPS = (
    (0.0, 0.02, -0.1468), (0.02, 0.6426, 0.1036), (0.6426, 0.7856, -0.0919), (0.7856, 0.8521, 0.1692),
    (0.8521, 0.8944, -0.1749), (0.8944, 0.9242, 0.1001), (0.9242, 0.9461, -0.0577), (0.9461, 0.9626, 0.0280),
    (0.9626, 0.975, -0.1104), (0.975, 0.9843, 0.0564), (0.9843, 0.991, -0.0113), (0.991, 0.9955, 0.0081),
    (0.9955, 0.9983, -0.0141), (0.9983, 0.9996, 0.0658), (0.9996, 1.0, -0.1834),
)  # fmt: skip
"""A population that was drawn at random: many rows at one low score, and another gap in each bin of the others."""


def test_the_interval_holds_the_truth_and_would_not_without_the_miss_that_was_not_seen() -> None:
    population = Population("drawn at random", PILED_UP, Curve(steps=STEPS))
    made = endless(population)
    _, place = np.unique(made.cell, return_inverse=True)
    hits, rows = (np.bincount(place, weights=part)[::-1] for part in (made.worth, np.ones(len(place))))
    truth = float((hits * np.cumsum(hits) / np.cumsum(rows)).sum() / hits.sum())
    held, without = 0, 0
    for repetition in range(REPETITIONS):
        law = law_of("pr_auc", population.draw(np.random.default_rng((20260106, repetition)), ROWS))
        assert isinstance(law, LogitArea)
        low, high = law.interval(0.95)
        held += low <= truth <= high
        low, high = replace(law, low_centre=law.centre, low_se=law.se).interval(0.95)
        without += low <= truth <= high
    assert held / REPETITIONS >= 0.93
    assert without / REPETITIONS < 0.92
