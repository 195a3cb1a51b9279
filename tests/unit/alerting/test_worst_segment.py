"""Where a label is said to fail most, and when nothing is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.alerting.slack.worst_segment import worst_segment
from monitor.core.records import Estimate, Interval, Reason, Subject, Verdict, Window

START = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(START, START + timedelta(weeks=1), "2026-W46", "weekly")


def verdict(**given: Any) -> Verdict:
    known: dict[str, Any] = {
        "id": "v", "rule": "ece-increase", "subject": Subject("tickets", "billing"), "window": WEEK, "metric": "ece",
        "where": "all", "outcome": "breach", "reason": Reason.INCREASED, "severity": "warning", "threshold": 0.02,
    }  # fmt: skip
    return Verdict(**(known | given))


def overconfidence(
    value: float, segment: tuple[str, str] | None = None, label: str = "billing", n: int = 300
) -> Estimate:
    seen = Interval(value, value - 0.03, value + 0.03, value)
    return Estimate(Subject("tickets", label, segment), WEEK, "overconfidence", "all", seen, n, 40.0)


def test_the_worst_segment_is_named_with_what_the_rest_is() -> None:
    estimates = [
        overconfidence(0.0359, n=1583), overconfidence(0.0062, ("channel", "email"), n=949),
        overconfidence(0.0802, ("channel", "web <b>"), n=634),
        overconfidence(0.9, ("channel", "other label"), label="refund"),
    ]  # fmt: skip
    assert worst_segment(verdict(), estimates) == (
        "channel = web <b>: overconfident by 8.0 points, by 0.6 points elsewhere (n = 634)"
    )


@pytest.mark.parametrize("value", [0.06, 0.085, -0.3])
def test_a_segment_that_is_not_confirmed_to_be_worse_than_the_rest_is_not_named(value: float) -> None:
    estimates = [overconfidence(0.04), overconfidence(value, ("channel", "web"))]
    assert worst_segment(verdict(), estimates) == ""
