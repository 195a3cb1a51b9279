"""The benchmark of the newest window alone: what breaks is found there, and it runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import newest
from benchmarks.newest import BROKEN, at_threshold, p_values, rule_of, verdicts_of_week
from benchmarks.populations import LABELS, endless_edges, true_ece


def test_a_break_in_a_small_week_is_found_alone_and_hidden_by_older_weeks() -> None:
    def of_week(looks: bool) -> list[str]:
        rng = np.random.default_rng(1)
        return [each.outcome for each in verdicts_of_week(rule_of("ece-increase"), 130, 0.2, rng, looks=looks)]

    alone, pooled = of_week(True), of_week(False)
    assert alone[BROKEN] == "breach"
    assert pooled[BROKEN] != "breach"
    assert [*alone[:BROKEN], *alone[BROKEN + 1 :]] == [*pooled[:BROKEN], *pooled[BROKEN + 1 :]]


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


def test_a_quick_look_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    newest.main(["--quick"])
    printed = capsys.readouterr().out
    assert "A label that breaks in a week of few rows" in printed
    assert "One small window alone, nothing wrong" in printed
