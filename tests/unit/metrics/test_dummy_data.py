"""The handbook's dummy data, drawn many times: the figures that it reports, and what its prose got wrong."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_width_edges, pool
from monitor.metrics.calibration import brier, equal_width_ece, nll
from monitor.report.figures.reliability import reliability_data
from tests.fakes.points import point, roc_auc

accuracy, cohens_d, point_biserial = (partial(point, name) for name in ("accuracy", "cohens_d", "point_biserial"))

DRAWS = 200
REPORTED = {
    "accuracy": 0.7150,
    "ece": 0.2098,
    "brier": 0.0894,
    "nll": 0.3253,
    "roc_auc": 0.9827,
    "cohens_d": 3.342,
    "point_biserial": 0.8338,
}


def drawn(seed: int, flips: float = 0.3) -> Counts:
    """5 labels x 200 items; the score of a right one is N(.8, .1), of a wrong one N(.4, .15), clipped."""
    rng = np.random.default_rng(seed)
    right = rng.random(1000) >= flips
    score = np.clip(np.where(right, rng.normal(0.8, 0.1, 1000), rng.normal(0.4, 0.15, 1000)), 0, 1)
    return counts_from_rows(score, right, score_is="confidence_in_prediction")


@pytest.fixture(scope="module")
def draws() -> list[Counts]:
    return [drawn(seed) for seed in range(DRAWS)]


@pytest.mark.parametrize(("name", "reported"), REPORTED.items())
def test_every_exactly_reported_figure_lies_in_the_range_drawn(draws: list[Counts], name: str, reported: float):
    point = {
        "accuracy": accuracy, "ece": lambda counts: equal_width_ece(counts, 10), "brier": brier, "nll": nll,
        "roc_auc": roc_auc, "cohens_d": cohens_d, "point_biserial": point_biserial,
    }[name]  # fmt: skip
    values = [value for counts in draws if (value := point(counts)) is not None]
    assert len(values) == DRAWS
    assert min(values) < reported < max(values)


def test_the_population_has_the_values_that_follow_from_the_recipe():
    whole = pool([drawn(seed, flips=0.285) for seed in range(1000, 1300)])
    assert roc_auc(whole) == pytest.approx(0.987, abs=0.0015)
    assert cohens_d(whole) == pytest.approx(0.4 / np.sqrt((0.1**2 + 0.15**2) / 2), abs=0.03)  # 3.14; clipping adds .02
    assert brier(whole) == pytest.approx(0.088, abs=0.001)
    assert accuracy(whole) == pytest.approx(0.715, abs=0.003)


def test_it_promises_too_much_below_about_six_tenths_and_too_little_above(draws: list[Counts]):
    points = reliability_data(bin_counts(pool(draws), equal_width_edges(20))).points
    below = [point for point in points if point.upper <= 0.55 and point.n >= 100]
    above = [point for point in points if point.lower >= 0.65 and point.n >= 100]
    assert len(below) >= 5
    assert len(above) >= 6
    assert all(point.high < point.score for point in below)  # overconfident, by more than its interval
    assert all(point.low > point.score for point in above)  # underconfident, also above .8


def test_the_recall_of_the_routing_note_is_seventy_three_hundredths():
    # 30 found of 30 + 5 + 6 urgent tickets
    counts = counts_from_rows([0.9] * 30 + [0.1] * 11, [1] * 41)
    assert f"{point('recall', counts):.2f}" == "0.73"
