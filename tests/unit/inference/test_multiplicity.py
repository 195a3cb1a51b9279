"""The price of testing many labels with many rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from monitor.inference.multiplicity import adjust


def test_one_label_and_one_rule_pay_nothing():
    assert adjust([0.03], 1) == [0.03]


def test_labels_pay_by_benjamini_hochberg_in_the_order_given():
    p = [0.20, 0.001, 0.012, 0.9, 0.011]
    ranked = sorted(p)
    expected = {value: min(ranked[j] * 5 / (j + 1) for j in range(i, 5)) for i, value in enumerate(ranked)}
    assert adjust(p, 1) == pytest.approx([expected[value] for value in p])


def test_rules_multiply_and_nothing_exceeds_one():
    assert adjust([0.01, 0.4], 6) == pytest.approx([0.12, 1.0])


def test_no_label_is_no_family():
    assert adjust([], 3) == []


def test_impossible_values_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        adjust([0.5], 0)
    with pytest.raises(ValueError, match=r"0 <= pvals|between 0 and 1|\[0, 1\]|within"):
        adjust([1.5], 1)


FAMILIES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(FAMILIES, st.integers(1, 8))
def test_a_family_is_scipys_times_the_rules_and_never_beyond_one(p: list[float], rules: int):
    expected = np.minimum(1.0, false_discovery_control(p, method="bh") * rules)
    assert adjust(p, rules) == pytest.approx(expected.tolist())


@given(FAMILIES, st.integers(1, 8), st.floats(0.001, 0.2))
def test_below_the_rate_are_those_that_the_step_up_procedure_rejects(p: list[float], rules: int, rate: float):
    """Benjamini & Hochberg as they wrote it: reject the k smallest, k the last with p(k) <= k/m of the level."""
    level, ranked = rate / rules, sorted(p)
    if any(abs(value - (k + 1) / len(p) * level) < 1e-12 for k, value in enumerate(ranked)):
        return  # on the edge rounding decides
    last = max((k + 1 for k, value in enumerate(ranked) if value < (k + 1) / len(p) * level), default=0)
    cut = ranked[last - 1] if last else -1.0
    assert [adjusted < rate for adjusted in adjust(p, rules)] == [value <= cut for value in p]
