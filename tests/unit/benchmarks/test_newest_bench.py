"""The benchmark of one small window alone: its labels are at the threshold, and it runs."""

from __future__ import annotations

import pytest

from benchmarks import newest
from benchmarks.newest import at_threshold, p_values, rule_of
from benchmarks.populations import LABELS, endless_edges, true_ece


def test_a_level_is_tested_where_the_truth_is_the_threshold() -> None:
    rule = rule_of("ece-two-days")
    found = [true_ece(each, endless_edges(each)) for each in at_threshold(rule)]
    assert found == pytest.approx([rule.threshold] * len(found), abs=1e-3)
    assert at_threshold(rule_of("ece-increase")) == LABELS


def test_p_values_are_those_of_values_beyond_the_threshold() -> None:
    p = p_values(rule_of("ece-increase"), 125, 1)
    assert len(p) == 10 * len(LABELS)
    assert 0 < p.min() < 1
    assert (p == 1).any()


def test_a_quick_look_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    newest.main(["--quick"])
    printed = capsys.readouterr().out
    assert "One small window alone, nothing wrong" in printed
