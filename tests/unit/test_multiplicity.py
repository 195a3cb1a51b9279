"""The price of testing many labels with many rules."""

from __future__ import annotations

import pytest

from monitor.inference.multiplicity import adjust


def test_one_label_and_one_rule_pay_nothing() -> None:
    assert adjust([0.03], 1) == [0.03]


def test_labels_pay_by_benjamini_hochberg_in_the_order_given() -> None:
    p = [0.20, 0.001, 0.012, 0.9, 0.011]
    ranked = sorted(p)
    expected = {value: min(ranked[j] * 5 / (j + 1) for j in range(i, 5)) for i, value in enumerate(ranked)}
    assert adjust(p, 1) == pytest.approx([expected[value] for value in p])


def test_rules_multiply_and_nothing_exceeds_one() -> None:
    assert adjust([0.01, 0.4], 6) == pytest.approx([0.12, 1.0])


def test_no_label_is_no_family() -> None:
    assert adjust([], 3) == []


def test_impossible_values_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        adjust([0.5], 0)
    with pytest.raises(ValueError, match=r"0 <= pvals|between 0 and 1|\[0, 1\]|within"):
        adjust([1.5], 1)
