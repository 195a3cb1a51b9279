"""A label that has another name now is found by its share of the rows and its scores, and no other one is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.core.promises import PastWindow, Promise
from monitor.core.records import Window
from monitor.evaluation.label_facts import renamed_to

MONDAY = datetime(2026, 9, 7, tzinfo=UTC)
Rows = dict[str, int]
USUAL = {"Top-up": 60, "Refund": 240}


def weeks(*rows: Rows, scores: dict[str, float] | None = None) -> list[PastWindow]:
    made = []
    for at, labels in enumerate(rows):
        start = MONDAY + timedelta(weeks=at)
        of = {
            label: {"all": Promise(n, float(n), (scores or {}).get(label, 0.8), 0.8)}
            for label, n in labels.items()
            if n
        }
        made.append(PastWindow(Window(start, start + timedelta(weeks=1), f"W{at}", "weekly"), {**of}))
    return made


@pytest.mark.parametrize(
    ("newest", "found"),
    [
        ([{"Refund": 240, "Topup": 55}], "Topup"),  # renamed on a Monday
        ([{"Top-up": 20, "Topup": 40, "Refund": 240}, {"Refund": 240, "Topup": 58}], "Topup"),  # within a week
        ([{"Refund": 240, "Topup": 55}, {"Refund": 240, "Topup": 70}], "Topup"),  # a week later, still
        ([{"Refund": 240, "Topup": 100, "Top up": 75}], "Top up"),  # of two, the one that is more like it
        ([{"Refund": 240}], ""),  # only gone
        ([{"Refund": 300}], ""),  # another label took its rows, which is not new
        ([{"Refund": 240, "Topup": 5}], ""),  # another size
        ([{"Refund": 240}, {"Refund": 240, "Topup": 60}, {"Refund": 240, "Topup": 60}], ""),  # two weeks later
        ([{"Top-up": 60, "Refund": 240, "Topup": 60}], ""),  # not gone
        ([{"Refund": 240, "Topup": 60}, {"Refund": 240}], ""),  # the new one is gone too
    ],
)
def test_the_new_name_appears_when_the_old_one_vanishes_and_is_as_large(newest: list[Rows], found: str):
    assert renamed_to("Top-up", weeks(USUAL, USUAL, *newest)) == found


def test_a_label_with_other_scores_is_another_one():
    past = weeks(USUAL, USUAL, {"Refund": 240, "Topup": 60}, scores={"Topup": 0.6})
    assert renamed_to("Top-up", past) == ""


def test_in_the_first_known_week_every_label_is_new():
    assert renamed_to("Top-up", weeks(USUAL, {"Refund": 240, "Topup": 60})) == ""
