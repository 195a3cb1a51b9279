"""The labels of a family are worked out together: what is found of one does not depend on the others."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from monitor.config.model import Condition, EvaluationConfig, Rule
from monitor.core.records import Interval, Subject
from monitor.evaluation.comparisons import compare, compare_family
from monitor.evaluation.data import RuleInput
from monitor.inference.change import LEAST_P
from monitor.inference.maximum import strays
from monitor.inference.memory import each_by_content, forget
from tests.fakes.one_table import mce_increase_p, table
from tests.properties.test_verdict_consistency import material

EVALUATION = EvaluationConfig(resamples=100, min_samples=60, false_discovery_rate=0.05)
CONDITIONS = [each for each in get_args(Condition) if each not in ("accumulated", "decrease")]  # not of every metric
KINDS = [(metric, condition) for metric in ("ece", "mce", "overconfidence") for condition in CONDITIONS]


def same(one: Any, other: Any) -> bool:
    """Equal, numbers to 1e-9."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-9)
    if is_dataclass(one):
        return type(one) is type(other) and all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def family(seed: int, labels: int = 5) -> list[RuleInput]:
    """Labels of all kinds: with and without a baseline, weights, clusters, rows; of one to four windows."""
    rng = np.random.default_rng(seed)
    return [material(rng, f"label-{place}", "probability_of_label") for place in range(labels)]


@pytest.mark.parametrize(("metric", "condition"), KINDS)
def test_a_family_finds_of_each_label_what_is_found_of_it_alone(metric: str, condition: Condition):
    judged = 0
    for seed in range(6):
        rule = Rule(
            id="rule", metric=metric, condition=condition, threshold=(0.02, 0.1, 0.3)[seed % 3],
            for_windows=(1, 1, 2)[seed % 3], min_samples=(1, 60)[seed % 2], actions=("slack", "block_scores"),
        )  # fmt: skip
        forget()
        together = compare_family(rule, family(seed), EVALUATION)
        forget()
        alone = []
        for each in family(seed):
            forget()
            alone.append(compare(rule, each, EVALUATION))
        assert [found.subject.label for found in together] == [f"label-{place}" for place in range(5)]
        assert [found for found, other in zip(together, alone, strict=True) if not same(found, other)] == []
        judged += sum(found.p_value is not None for found in together)
    assert judged >= 5


def test_what_is_the_same_is_distinguished_from_what_is_not():
    one = Interval(0.1, 0.05, 0.2, 0.1)
    assert same([one, {"a": 1.0}], [replace(one, value=0.1 + 1e-12), {"a": 1.0}])
    assert not same([one], [replace(one, value=0.1 + 1e-8)])
    assert not same({"a": 1.0}, {"a": None})


def test_hits_beyond_a_limit_are_those_of_the_binomial_distribution():
    rng = np.random.default_rng(3)
    n = np.concatenate([[1.0, 100.0, 700.0], np.rint(rng.uniform(1, 6000, 5)), [250.0, 250.0, 40.5]])[None]
    score = np.append(rng.random(8), [0.02, 0.98, 0.4])[None]
    rate = np.clip(score + rng.normal(0, 0.03, n.shape), 0, 1)
    rate[0, :2] = 0.0, 1.0
    limit = np.array([[0.004, 0.03, 0.1, 0.25]])
    found = strays(limit[0][:, None], n, score, rate)
    for place in range(n.shape[1] - 1):
        rows, c, p = int(n[0, place]), score[0, place], rate[0, place]
        k = np.arange(rows + 1)
        chance = stats.binom.pmf(k, rows, p)
        expected = [chance[np.abs(k / rows - c) >= x - 1e-9].sum() for x in limit[0]]
        assert found[:, place] == pytest.approx(expected, abs=1e-12)
    # a fractional number of rows: P(K >= k) = I_p(k, n - k + 1) at k = n (c + x), and the same of the misses
    part, c, p = (float(array[0, -1]) for array in (n, score, rate))
    high, low = part * (c + limit[0]), part * (1 - c + limit[0])
    beyond = stats.beta.cdf(p, high, part + 1 - high) + stats.beta.cdf(1 - p, low, part + 1 - low)
    assert found[:, -1] == pytest.approx(np.minimum(beyond, 1), abs=1e-12)


def test_hits_of_very_many_rows_keep_the_digits_of_both_tails():
    n = np.array([[8e5, 3e6, 3e6, 2e7, 100.0]])
    score, rate = np.array([[[0.5, 0.3, 0.9, 0.02, 0.4]], [[0.5, 0.3005, 0.9001, 0.0201, 0.4]]])
    limit = np.array([[0.0, 1e-4, 1e-3, 4e-3, 0.97]])
    found = strays(limit[0][:, None], n, score, rate)
    for place in range(n.shape[1]):
        rows, c, p = int(n[0, place]), score[0, place], rate[0, place]
        fewer, more = np.floor(rows * (c - limit[0]) + 1e-9 * rows), np.ceil(rows * (c + limit[0]) - 1e-9 * rows)
        expected = np.minimum(stats.binom.cdf(fewer, rows, p) + stats.binom.sf(more - 1, rows, p), 1.0)
        assert found[:, place] == pytest.approx(expected, rel=1e-6, abs=1e-300)
    assert 0 < found[3, 0] < 1e-12


def test_a_p_value_of_the_mce_is_small_but_never_nothing():
    tables = [table([2000, 2000], [0.3, 0.6], [0.3 + gap, 0.6]) for gap in (0.0, 0.05, 0.1, 0.12, 0.4)]
    p = [mce_increase_p(risen, tables[0]) for risen in tables]
    assert p == sorted(p, reverse=True)
    assert p[1] < 0.01
    assert LEAST_P <= p[-1] <= p[-2] < 1e-9


def test_a_subject_and_a_name_distinguish_results():
    told = each_by_content(lambda asked: [f"{subject.label} {name}" for subject, name in asked])
    one, two = Subject("tickets", "a"), Subject("tickets", "b")
    assert told([(one, "x"), (two, "x"), (one, "y")]) == ["a x", "b x", "a y"]
