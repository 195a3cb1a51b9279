"""Which leads a finding names, and which it leaves out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.alerts.causes import Context, causes
from monitor.records import Estimate, Interval, Reason, ShiftResult, Subject, Verdict, Window

START = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(START, START + timedelta(weeks=1), "2026-W46", "weekly")


def verdict(**given: Any) -> Verdict:
    known: dict[str, Any] = {
        "id": "v", "rule": "ece-increase", "subject": Subject("tickets", "billing"), "window": WEEK, "metric": "ece",
        "where": "all", "outcome": "breach", "reason": Reason.INCREASED, "severity": "warning", "threshold": 0.02,
    }  # fmt: skip
    return Verdict(**(known | given))


def shortfall(value: float, segment: tuple[str, str] | None = None, label: str = "billing") -> Estimate:
    seen = Interval(value, value - 0.03, value + 0.03, value)
    return Estimate(Subject("tickets", label, segment), WEEK, "shortfall", "all", seen, 300, 40.0)


def shift(statistic: float | None, p_value: float | None, **given: Any) -> ShiftResult:
    known = {"label": "billing", "test": "ks", "column": "score"} | given
    subject = Subject("tickets", known["label"])
    return ShiftResult(subject, WEEK, known["test"], known["column"], statistic, p_value, 900, 9000)


def test_nothing_stands_out_where_nothing_is_known() -> None:
    assert causes(verdict(), Context()) == ()


def test_traffic_that_moved_is_named_first() -> None:
    context = Context(versions=[("2026-W46", {"v2": 9}), ("2026-W45", {"v1": 9})])
    assert causes(verdict(reason=Reason.TRAFFIC_MIX), context) == (
        "traffic moved to scores that were wrong before", "the model version changed from v1 to v2 in 2026-W46",
    )  # fmt: skip


@pytest.mark.parametrize(
    "versions",
    [
        [("2026-W46", {"v1": 9}), ("2026-W45", {"v1": 9})],
        [("2026-W46", {"v1": 9})],
        [("2026-W46", {}), ("2026-W45", {"v1": 9})],
        [("2026-W46", {"v1": 9, "v2": 8}), ("2026-W45", {"v1": 9})],
    ],
)
def test_a_version_that_is_the_main_one_still_is_no_lead(versions: list[tuple[str, dict[str, int]]]) -> None:
    assert causes(verdict(), Context(versions=versions)) == ()


def test_the_worst_segment_is_named_with_what_it_is_over_all() -> None:
    estimates = [
        shortfall(0.04), shortfall(0.12, ("channel", "web")), shortfall(0.21, ("channel", "e mail <b>")),
        shortfall(0.9, ("channel", "other label"), label="refund"),
    ]  # fmt: skip
    assert causes(verdict(), Context(estimates=estimates)) == (
        "worst where channel = e mail <b>: right 21 points less often than promised, 4.0 points over all (n = 300)",
    )


@pytest.mark.parametrize("value", [0.06, 0.085, -0.3])
def test_a_segment_that_is_not_surely_worse_than_the_label_is_no_lead(value: float) -> None:
    estimates = [shortfall(0.04), shortfall(value, ("channel", "web"))]
    assert causes(verdict(), Context(estimates=estimates)) == ()


def test_the_strongest_test_of_the_label_and_of_the_source_are_named() -> None:
    shifts = [
        shift(0.18, 1e-9), shift(0.12, 1e-9, test="psi"), shift(0.3, 1e-9, label="refund"),
        shift(0.2, 1e-9, label=None, test="chi_square", column="label"),
        shift(0.4, 1e-9, label=None, test="ks", column="body_length"),
    ]  # fmt: skip
    assert causes(verdict(), Context(shifts=shifts)) == (
        "its scores lie elsewhere than in the baseline (KS distance 0.18)",
        "body_length has other values than in the baseline (KS distance 0.40)",
    )


@pytest.mark.parametrize(("statistic", "p_value"), [(0.09, 1e-9), (0.3, 0.01), (0.3, None), (None, None)])
def test_a_small_or_unsure_shift_is_no_lead(statistic: float | None, p_value: float | None) -> None:
    assert causes(verdict(), Context(shifts=[shift(statistic, p_value)])) == ()


def test_a_test_is_no_cause_of_its_own_finding() -> None:
    assert causes(verdict(metric="ks"), Context(shifts=[shift(0.3, 1e-9)])) == ()
