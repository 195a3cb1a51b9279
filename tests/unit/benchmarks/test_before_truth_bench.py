"""The benchmark of estimates before the truth, on few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.before_truth import SEED, compared, held_table, intents_world, ours


def test_estimates_of_few_rows_hold_the_later_truth_and_a_table_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.before_truth.INTENTS", 10)
    monkeypatch.setattr("benchmarks.before_truth.INTENT_WEEKS", 12)
    world = intents_world(tmp_path, SEED, 500)
    found = ours(world)
    every = compared(world, found)
    accuracies = [c for c in every if (c.metric, c.where) == ("expected_accuracy", "all")]
    assert len(accuracies) == 44
    assert sum(c.held for c in accuracies) / len(accuracies) >= 0.9
    row = next(
        row for row in held_table({world.name: every}).rows if row[1:4] == ("labels", "expected_accuracy", "all")
    )
    assert row[4] == f"{sum(c.label is not None for c in accuracies):,}"
