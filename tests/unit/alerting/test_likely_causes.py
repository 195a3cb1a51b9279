"""What is said to have changed when a label began to fail, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.alerting.slack.likely_causes import Context, changes, worst_segment
from monitor.core.records import Estimate, Interval, Reason, ShiftResult, Subject, Verdict, Window

START = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(START, START + timedelta(weeks=1), "2026-W46", "weekly")


def verdict(**given: Any) -> Verdict:
    known: dict[str, Any] = {
        "id": "v", "rule": "ece-increase", "subject": Subject("tickets", "billing"), "window": WEEK, "metric": "ece",
        "where": "all", "outcome": "breach", "reason": Reason.INCREASED, "severity": "warning", "threshold": 0.02,
    }  # fmt: skip
    return Verdict(**(known | given))


def shortfall(value: float, segment: tuple[str, str] | None = None, label: str = "billing", n: int = 300) -> Estimate:
    seen = Interval(value, value - 0.03, value + 0.03, value)
    return Estimate(Subject("tickets", label, segment), WEEK, "shortfall", "all", seen, n, 40.0)


def shift(statistic: float | None, p_value: float | None, **given: Any) -> ShiftResult:
    known = {"label": "billing", "test": "ks", "column": "score"} | given
    subject = Subject("tickets", known["label"])
    return ShiftResult(subject, WEEK, known["test"], known["column"], statistic, p_value, 900, 9000)


LANGUAGE = shift(0.2, 1e-40, label=None, test="chi_square", column="language")


def test_nothing_is_named_where_nothing_is_known() -> None:
    assert changes(verdict(), Context()) == ()


def test_a_changed_model_version_is_named_with_its_week() -> None:
    context = Context(versions=[("2026-W47", {"v2": 9}), ("2026-W46", {"v2": 9}), ("2026-W45", {"v1": 9})])
    assert changes(verdict(reason=Reason.TRAFFIC_MIX), context) == (
        "the model version changed from v1 to v2 in 2026-W46",
    )


@pytest.mark.parametrize(
    "versions",
    [
        [("2026-W46", {"v1": 9}), ("2026-W45", {"v1": 9})],
        [("2026-W46", {"v1": 9})],
        [("2026-W46", {}), ("2026-W45", {"v1": 9})],
        [("2026-W46", {"v1": 9, "v2": 8}), ("2026-W45", {"v1": 9})],
    ],
)
def test_a_version_that_is_the_main_one_still_is_no_change(versions: list[tuple[str, dict[str, int]]]) -> None:
    assert changes(verdict(), Context(versions=versions)) == ()


def test_a_change_of_language_is_named_only_where_it_began_with_the_breaches() -> None:
    assert changes(verdict(), Context(shifts=[LANGUAGE], before=[LANGUAGE])) == ()
    assert changes(verdict(), Context(shifts=[], before=[])) == ()
    assert changes(verdict(), Context(shifts=[LANGUAGE], before=[replace(LANGUAGE, statistic=0.02)])) == (
        "language of the source is distributed differently than in the baseline (Cramér's V 0.20, since 2026-W46)",
    )


def test_the_worst_segment_is_named_with_what_the_rest_is() -> None:
    estimates = [
        shortfall(0.0359, n=1583), shortfall(0.0062, ("channel", "email"), n=949),
        shortfall(0.0802, ("channel", "web <b>"), n=634),
        shortfall(0.9, ("channel", "other label"), label="refund"),
    ]  # fmt: skip
    assert worst_segment(verdict(), estimates) == (
        "channel = web <b>: overconfident by 8.0 points, by 0.6 points elsewhere (n = 634)"
    )


@pytest.mark.parametrize("value", [0.06, 0.085, -0.3])
def test_a_segment_that_is_not_confirmed_to_be_worse_than_the_rest_is_not_named(value: float) -> None:
    estimates = [shortfall(0.04), shortfall(value, ("channel", "web"))]
    assert worst_segment(verdict(), estimates) == ""


def test_what_is_about_neither_the_label_nor_its_source_is_left_out_and_the_largest_comes_first() -> None:
    shifts = [
        shift(0.18, 1e-9), shift(0.12, 1e-9, test="psi"), shift(0.3, 1e-9, label="refund"),
        shift(0.4, 1e-9, label=None, test="ks", column="body_length"),
    ]  # fmt: skip
    assert changes(verdict(), Context(shifts=shifts)) == (
        "body_length of the source is distributed differently than in the baseline (KS distance 0.40, since 2026-W46)",
        "its scores are distributed differently than in the baseline (KS distance 0.18, since 2026-W46)",
    )


@pytest.mark.parametrize(("statistic", "p_value"), [(0.09, 1e-9), (0.3, 0.01), (0.3, None), (None, None)])
def test_a_small_or_unconfirmed_shift_is_not_named(statistic: float | None, p_value: float | None) -> None:
    assert changes(verdict(), Context(shifts=[shift(statistic, p_value)])) == ()


def test_a_test_is_no_cause_of_its_own_finding() -> None:
    assert changes(verdict(metric="ks"), Context(shifts=[shift(0.3, 1e-9)])) == ()
