"""What fits a volume: no longer pooling than nearly all need, a baseline for all labels, rules that can see."""

from __future__ import annotations

from monitor.config.model import BaselineConfig, Config, EvaluationConfig
from monitor.evaluation.visible_changes import Typical, visible_changes
from monitor.operations.propose_evaluation import Tuning, aside_of, round_pairs, tuning_of
from tests.unit.evaluation.test_visible_changes import LEVEL, RISE, SHORT, config, rows, typical


def of(volumes: dict[str, int]) -> Typical:
    """Labels with so many rows in each of eight weeks."""
    return typical(8, **{label: rows(8 * n, seed) for seed, (label, n) in enumerate(volumes.items())})


def tuned(settings: Config, volumes: dict[str, int], available: int = 26) -> Tuning:
    return tuning_of("tickets", settings, of(volumes), available)


def test_large_labels_keep_the_usual_numbers() -> None:
    found = tuned(config(LEVEL, RISE), {"a": 3_000, "b": 2_000})
    assert found == Tuning(500, 4, 8, 10_000)
    assert found.beside(EvaluationConfig(), BaselineConfig()) == {}


def test_small_labels_are_pooled_for_longer_and_have_a_longer_baseline() -> None:
    found = tuned(config(SHORT, RISE), {"a": 10, "b": 10})
    assert (found.pool_weeks, found.weeks, found.min_pairs) == (13, 26, 200)
    assert found.beside(EvaluationConfig(), BaselineConfig()) == {
        "evaluation": {"min_samples": 500, "pool_weeks": 13},
        "baseline": {"weeks": 26, "min_pairs": 200},
    }
    assert tuned(config(SHORT, RISE), {"a": 10, "b": 10}, available=10).weeks == 10


def test_one_small_label_among_many_does_not_make_all_wait() -> None:
    volumes = {f"l{number}": 700 for number in range(10)} | {"rare": 40}
    assert tuned(config(LEVEL), volumes).pool_weeks == 4
    assert tuned(config(LEVEL), {"rare": 40}).pool_weeks == 8


def test_a_rule_that_no_label_has_rows_for_is_put_aside_with_the_reason_and_one_that_acts_never_is() -> None:
    acting = SHORT.model_copy(update={"id": "acting", "actions": ("disable_automation",)})
    whole = LEVEL.model_copy(update={"id": "whole", "scope": "source"})
    settings, few = config(acting, LEVEL, whole), of({"a": 3, "b": 2})
    found = aside_of(settings, visible_changes("tickets", settings, few), few)
    assert found == {"level": "no label has rows enough (at most 3 a week), even in 4 weeks"}


def test_fewer_pairs_are_asked_for_in_round_numbers() -> None:
    assert [round_pairs(pairs) for pairs in (12_000, 999, 50, 49, 0)] == [10_000, 500, 50, 49, 1]
