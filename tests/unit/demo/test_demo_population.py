"""What is true in the demo."""

import numpy as np
import pytest

from monitor.demo.population import BASELINE_WEEKS, PLANTED, SOURCES, WEEKS, Planted, planted_on, true_probability
from tests.fakes.demo_truth import truth

EVERY_LABEL = [(source, label) for source, spec in SOURCES.items() for label in spec.labels]
UNPLANTED = [name for name in EVERY_LABEL if planted_on(*name) is None]


def change_of_ece(source: str, label: str, week: int) -> float:
    return truth(source, label, week).ece - truth(source, label, 1).ece


def beyond(change: Planted, week: int) -> bool:
    if change.kind == "automated":
        return truth(change.source, change.label, week).automated_overconfidence > 0.05
    return change_of_ece(change.source, change.label, week) > 0.02


@pytest.mark.parametrize(("source", "label"), UNPLANTED)
def test_a_label_on_which_nothing_was_planted_is_the_same_in_all_weeks(source: str, label: str) -> None:
    assert len({truth(source, label, week) for week in range(1, WEEKS + 1)}) == 1


@pytest.mark.parametrize(("source", "label"), UNPLANTED)
def test_a_label_on_which_nothing_was_planted_is_far_from_every_threshold(source: str, label: str) -> None:
    true = truth(source, label, 1)
    assert true.ece < 0.01
    assert true.automated_overconfidence < 0.02


def test_phishing_is_caught() -> None:
    assert 0.001 < truth("mail", "phishing", WEEKS).false_negative_rate < 0.005


@pytest.mark.parametrize("change", PLANTED, ids=lambda change: change.label)
def test_a_planted_change_passes_its_threshold_in_the_week_that_is_written_down_and_stays(change: Planted) -> None:
    assert [week for week in range(1, WEEKS + 1) if beyond(change, week)] == list(
        range(change.passes_threshold, WEEKS + 1)
    )


@pytest.mark.parametrize("change", PLANTED, ids=lambda change: change.label)
def test_nothing_is_planted_in_the_baseline(change: Planted) -> None:
    assert change.week > BASELINE_WEEKS + 1
    assert truth(change.source, change.label, change.week - 1) == truth(change.source, change.label, 1)


def test_the_four_kinds_of_change_are_there_once_each() -> None:
    assert sorted(change.kind for change in PLANTED) == ["automated", "channel", "drift", "step"]


def test_the_change_among_automated_rows_stays_below_the_ece_rule() -> None:
    assert change_of_ece("tickets", "outage", WEEKS) < 0.018
    assert truth("tickets", "outage", WEEKS).prevalence < 0.08


def test_the_change_in_one_channel_leaves_the_other_alone() -> None:
    scores = np.linspace(0, 1, 101)
    before, after = (
        {name: true_probability("mail", "complaint", week, scores, name) for name in ("email", "web")}
        for week in (16, 17)
    )
    np.testing.assert_array_equal(before["email"], after["email"])
    high = (scores >= 0.7) & (scores <= 0.95)
    assert (after["web"][high] < before["web"][high] - 0.2).all()
