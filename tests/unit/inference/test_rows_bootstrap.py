"""The spread of metrics of whole rows: against closed forms, redrawn samples and the plain item bootstrap."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from monitor.core.counts import ProbabilityRows, RegressionRows
from monitor.inference.bootstrap import row_spreads, take
from monitor.metrics import certainty, information, multiclass, regression
from tests.fakes.points import point
from tests.fakes.whole_rows import classifier, rows_of

REGISTERED = (*multiclass.REGISTERED, *certainty.REGISTERED, *information.REGISTERED, *regression.REGISTERED)
OF_ROWS = {metric.name: metric for metric in REGISTERED if metric.needs == "rows"}
OF_NUMBERS = {metric.name: metric for metric in REGISTERED if metric.needs == "regression"}


def rng(seed: int | list[int] = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def predictions(seed: int, n: int) -> RegressionRows:
    draw = rng(seed)
    predicted, deviation = draw.normal(8, 3, n), draw.uniform(0.5, 2, n)
    return RegressionRows(predicted, deviation, draw.normal(predicted, 1.2 * deviation), draw.choice([1.0, 3.0], n), n)


def weighted(rows: ProbabilityRows, seed: int) -> ProbabilityRows:
    weight = rng(seed).choice([1.0, 4.0], len(rows.weight))
    return ProbabilityRows(rows.labels, rows.probability, rows.truth, weight, rows.items)


def test_every_registered_metric_of_rows_has_a_spread_with_its_own_value():
    rows, numbers = weighted(classifier(1, 1500), 2), predictions(3, 1500)
    for data, metrics in ((rows, OF_ROWS), (numbers, OF_NUMBERS)):
        found = row_spreads(data, metrics, rng())
        assert list(found) == list(metrics)
        for name, spread in found.items():
            assert spread.plug_in == pytest.approx(point(name, data), rel=1e-9), name
            assert spread.value == pytest.approx(spread.plug_in, abs=0.3 * spread.se), name  # but for a little bias
            low, high = spread.interval(0.95)
            assert low < spread.value < high, name


def test_spreads_from_blocks_are_those_of_the_plain_item_bootstrap():
    rows, numbers = weighted(classifier(4, 2500), 5), predictions(6, 2500)
    for data, metrics in ((rows, OF_ROWS), (numbers, OF_NUMBERS)):
        quick = row_spreads(data, metrics, rng(7))
        n, w = len(data.weight), data.weight
        drawn = [replace(data, weight=w * rng([8, seed]).poisson(1.0, n)) for seed in range(200)]
        for name in metrics:
            # 200 draws know a standard error to 5%, 1000 to 2%
            plain = np.std([point(name, again) for again in drawn], ddof=1)
            assert quick[name].se == pytest.approx(plain, rel=0.2), name


def test_the_spread_of_an_accuracy_is_the_binomial_one():
    found = row_spreads(classifier(9, 20_000), ["top1_accuracy"], rng(10), resamples=2000)["top1_accuracy"]
    assert found.se == pytest.approx(math.sqrt(found.value * (1 - found.value) / 20_000), rel=0.08)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    names = ["macro_f1", "certainty_ratio", "auc_ovo", "class_mutual_information", "certainty_divergence"]
    population = classifier(11, 100_000)
    truths = {name: point(name, population) for name in names}
    held = dict.fromkeys(names, 0)
    for seed in range(60):
        sample = take(population, rng(seed).choice(100_000, 500, replace=False))
        for name, spread in row_spreads(sample, names, rng(seed), resamples=400).items():
            low, high = spread.interval(0.95)
            held[name] += low <= truths[name] <= high
    # of 60 at .95, 51 or fewer come out in one case of 300
    assert {name: count for name, count in held.items() if count < 52} == {}


def test_entropies_and_mutual_information_lose_most_of_their_bias():
    population = classifier(26, 100_000)
    names = ["class_entropy", "class_mutual_information", "certainty_divergence"]
    truths = {name: point(name, population) for name in names}
    plain, debiased = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for seed in range(150):
        sample = take(population, rng(seed).choice(100_000, 80, replace=False))
        for name, spread in row_spreads(sample, names, rng(seed), resamples=200).items():
            plain[name] += (spread.plug_in - truths[name]) / 150
            debiased[name] += (spread.value - truths[name]) / 150
    assert plain["class_entropy"] == pytest.approx(-3 / (2 * 80), rel=0.5)  # Miller 1955: -(K - 1) / (2 n)
    assert plain["class_mutual_information"] == pytest.approx(9 / (2 * 80), rel=0.5)
    for name in names:
        assert abs(debiased[name]) < abs(plain[name]) / 2, name


def test_entropies_and_their_limits_are_at_most_the_logarithm_of_the_number_of_labels():
    names = ["class_entropy", "class_mutual_information", "score_entropy"]
    score = [[0.9, 0.1, 0.0], [0.8, 0.0, 0.2], [0.6, 0.1, 0.3], [0.4, 0.3, 0.3], [0.1, 0.8, 0.1], [0.0, 0.9, 0.1]]
    few = rows_of(score, [0, 0, 0, 1, 1, 2])
    even = rows_of(np.full((90, 3), 1 / 3), [0, 1, 2] * 30)
    perfect = rows_of(np.eye(3)[[0, 1, 2] * 4], [0, 1, 2] * 4)
    for rows in (few, even, perfect):
        for name, spread in row_spreads(rows, names, rng()).items():
            assert 0.0 <= spread.value <= np.log(3), name
            assert spread.interval(0.95)[1] <= np.log(3), name
    assert row_spreads(even, ["class_entropy"], rng())["class_entropy"].value == pytest.approx(np.log(3))


def test_what_was_always_right_is_not_taken_for_certain():
    rows = rows_of(np.eye(3)[[0, 1, 2] * 10] * 0.7 + 0.1, [0, 1, 2] * 10)
    for name in ("top1_accuracy", "macro_f1", "kappa", "auc_ovo"):
        spread = row_spreads(rows, [name], rng())[name]
        assert spread.value == 1.0
        assert 0.7 < spread.interval(0.95)[0] < 0.99, name
    numbers = RegressionRows(np.zeros(30), np.ones(30), np.linspace(-1, 1, 30), np.ones(30), 30)
    covered = row_spreads(numbers, ["interval_coverage"], rng())["interval_coverage"]
    assert 0.8 < covered.interval(0.95)[0] < 0.99


def test_what_the_rows_do_not_define_is_none():
    one_class = rows_of([[0.7, 0.3]] * 20, [0] * 20)
    found = row_spreads(one_class, ["auc_ovo", "kappa", "top1_accuracy"], rng())
    assert (found["auc_ovo"], found["kappa"]) == (None, None)
    assert found["top1_accuracy"] is not None
    nothing = rows_of(np.empty((0, 2)), np.empty((0, 2)))
    assert set(row_spreads(nothing, OF_ROWS, rng()).values()) == {None}


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError, match="ece"):
        row_spreads(classifier(1, 50), ["ece"], rng())


def test_the_same_generator_gives_the_same_spread_and_the_unit_of_weights_does_not_matter():
    rows = weighted(classifier(12, 300), 13)
    scaled = ProbabilityRows(rows.labels, rows.probability, rows.truth, rows.weight * 1e3, rows.items)
    names = [name for name in OF_ROWS if name not in multiclass.AREAS]
    one, again, other = (row_spreads(data, names, rng(14)) for data in (rows, rows, scaled))
    assert one == again
    for name in names:
        assert (other[name].value, other[name].se) == pytest.approx((one[name].value, one[name].se), rel=1e-6), name
