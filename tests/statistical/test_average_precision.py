"""The average precision with hardly any miss among the highest scores, in a population drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.elsewhere import random_cell
from benchmarks.populations import endless
from monitor.inference.levels import law_of
from monitor.inference.sampling import LogitArea

ROWS, REPETITIONS = 260, 400


def test_the_interval_holds_the_truth_and_would_not_without_the_miss_that_was_not_seen() -> None:
    population = random_cell(17, 11).population
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
