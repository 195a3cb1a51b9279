"""A baseline whose source has another `automate_at` since: cut at it from its cells, as if it had been pinned so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.core.baseline import Baseline, References, edges_of
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.evaluation.other_thresholds import at_present_threshold

START = datetime(2026, 6, 1, tzinfo=UTC)
EVALUATION = EvaluationConfig()
ROWS = {"a": 4_000, "b": 3_000, "few": 200}


def counts(label: str, automate_at: float) -> Counts:
    rng = np.random.default_rng(sum(map(ord, label)))
    score = rng.integers(0, 101, ROWS[label]) / 100
    return counts_from_rows(score, rng.random(ROWS[label]) < score, automate_at=automate_at)


def pinned(thresholds: Mapping[str, float], *, without: str = "few") -> dict[str | None, Baseline]:
    """Baselines of labels that acted from these scores on; ``without`` had too few rows for one."""
    parts = {label: counts(label, at) for label, at in thresholds.items()}
    whole = pool(parts[label] for label in sorted(parts))
    of = {label: part for label, part in parts.items() if label != without}
    return {
        label: Baseline("t", label, 1, START, START + timedelta(weeks=8), "", "", part,
                        edges_of(part, EVALUATION), START, "", "")
        for label, part in {None: whole, **of}.items()
    }  # fmt: skip


def source(automate_at: float, **special: float) -> SourceConfig:
    labels = {label: {"automate_at": at} for label, at in special.items()}
    return SourceConfig(relation="t", score_is="probability_of_label", automate_at=automate_at, labels=labels)


def alike(one: Mapping[str | None, Baseline], other: Mapping[str | None, Baseline]) -> bool:
    return one.keys() == other.keys() and all(
        one[label].counts.digest() == other[label].counts.digest() and one[label].edges == other[label].edges
        for label in one
    )


@pytest.mark.parametrize("now", [{"automate_at": 0.8}, {"automate_at": 0.95}, {"automate_at": 0.9, "a": 0.7}], ids=str)
def test_it_is_as_if_it_had_been_pinned_under_the_present_one(now: dict[str, float]):
    configured = source(**now)
    then = pinned(dict.fromkeys(ROWS, 0.9))
    found = at_present_threshold(References(then), configured, EVALUATION)
    assert alike(found.baselines, pinned({label: configured.automate_from(label) for label in ROWS}))
    assert not found.not_cut
    assert not alike(found.baselines, then)


def test_a_baseline_of_the_present_threshold_stays_as_it_is():
    then = pinned({"a": 0.7, "b": 0.9, "few": 0.9})
    found = at_present_threshold(References(then), source(0.9, a=0.7), EVALUATION)
    assert all(found.baselines[label] is then[label] for label in then)


def test_of_all_labels_together_it_is_not_cut_where_cells_do_not_say_which_label_a_row_is_of():
    then = pinned(dict.fromkeys(ROWS, 0.9))
    found = at_present_threshold(References(then), source(0.8, few=0.6), EVALUATION)
    assert found.not_cut == {None}
    assert found.baselines[None] is then[None]
    assert found.baselines["a"].counts.where("automated").rows == counts("a", 0.8).where("automated").rows


def test_nor_where_a_label_was_pinned_again_by_itself():
    then = pinned(dict.fromkeys(ROWS, 0.9))
    then["a"] = replace(then["a"], start=START + timedelta(weeks=1))
    assert not at_present_threshold(References(then), source(0.8), EVALUATION).not_cut  # all are cut at one score
    assert at_present_threshold(References(then), source(0.9, a=0.7), EVALUATION).not_cut == {None}


def test_the_whole_stays_as_it_is_where_each_label_is_cut_as_it_was():
    then = pinned({"a": 0.7, "b": 0.9, "few": 0.9})
    then["a"] = replace(then["a"], start=START + timedelta(weeks=1))  # so `a` is part of what the others leave
    found = at_present_threshold(References(then), source(0.9, a=0.7), EVALUATION)
    assert not found.not_cut
    assert found.baselines[None] is then[None]
