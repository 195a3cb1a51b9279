"""Harm is counted where automation was on; where it was off it "would have been"."""

from __future__ import annotations

import pytest

from monitor.automation.harm import Harm, HarmKind, TimeOn, together

COUNTS = {"low": 21.0, "high": 56.2, "wrong": 68.0, "expected": 30.2, "rows": 900}


def harm(on: TimeOn, excess: float = 37.8) -> Harm:
    return Harm(excess, on, "weekly", **COUNTS)  # type: ignore[arg-type]


def test_on_during_the_whole_window_all_of_it_happened() -> None:
    found = harm(TimeOn(1.0))
    assert (found.kind, found.done) == (HarmKind.HAPPENED, 37.8)
    assert found.sentence == (
        "about 38 more wrong than scores claimed (21 to 56): 68 of 900 automated were wrong, 30 were to be expected"
    )


def test_off_during_the_whole_window_nothing_happened_and_nothing_is_called_automated() -> None:
    found = harm(TimeOn(0.0))
    assert (found.kind, found.done) == (HarmKind.AVERTED, 0.0)
    assert found.sentence == (
        "automation was off the whole week: about 38 more would have been wrong than scores claimed (21 to 56); "
        "68 of 900 items were wrong, 30 were to be expected"
    )


def test_on_for_a_part_of_the_window_it_is_an_estimate_by_time_and_says_so() -> None:
    found = harm(TimeOn(0.5))
    assert (found.kind, found.done) == (HarmKind.ESTIMATED, 18.9)
    assert found.sentence == (
        "about 38 more wrong than scores claimed (21 to 56), "
        "an estimated 19 of them while automation was on (50% of the week); "
        "68 of 900 items were wrong, 30 were to be expected"
    )


@pytest.mark.parametrize(
    ("share", "said"), [(0.003, "less than 1%"), (0.01, "1%"), (0.99, "99%"), (0.998, "more than 99%")]
)
def test_a_part_of_the_time_is_neither_none_nor_all_of_it(share: float, said: str) -> None:
    assert harm(TimeOn(share)).short.endswith(f" of them while automation was on ({said} of the week)")


def test_with_blocked_scores_it_is_an_estimate_and_names_them() -> None:
    found = harm(TimeOn(1.0, ((0.8, 0.9),)))
    assert found.kind is HarmKind.ESTIMATED
    assert found.short == (
        "about 38 more wrong than scores claimed, an estimated 38 of them while automation was on "
        "(the whole week, scores 0.8 to 0.9 blocked for some of it, but counted)"
    )


def test_segments_that_were_off_are_named_as_counted() -> None:
    web = TimeOn(0.5, ((0.8, 0.9),), segments=(("channel", "web"),), throughout=True)
    assert harm(web).short.endswith(
        "(50% of the week, scores 0.8 to 0.9 blocked and channel = web off for all of it, but counted)"
    )
    assert harm(TimeOn(1.0, segments=(("channel", "web"),), throughout=True)).kind is HarmKind.ESTIMATED


def test_fewer_errors_than_promised_are_no_harm_and_are_reported_as_fewer() -> None:
    assert harm(TimeOn(1.0), -12.2).short == "about 12 fewer wrong than scores claimed"


def test_the_day_is_named_where_the_window_is_one() -> None:
    assert Harm(3.0, TimeOn(0.0), "daily").short == (
        "automation was off the whole day: about 3 more would have been wrong than scores claimed"
    )


@pytest.mark.parametrize(
    ("parts", "share"),
    [([], 0.0), ([(0, TimeOn(1.0))], 0.0), ([(10, TimeOn(1.0)), (30, TimeOn(1.0))], 1.0),
     ([(10, TimeOn(1.0)), (30, TimeOn(0.0))], 0.25)],
)  # fmt: skip
def test_several_labels_weigh_by_their_rows(parts: list[tuple[float, TimeOn]], share: float) -> None:
    assert together(parts).share == share


def test_of_labels_that_were_on_in_part_it_is_said_so() -> None:
    found = harm(together([(10, TimeOn(1.0)), (30, TimeOn(0.0))]))
    assert found.short.endswith("an estimated 9 of them while automation was on (some labels or some of the week)")
