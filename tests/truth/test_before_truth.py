"""What is said of verdicts on estimates before the truth can be read, and what is false of it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from monitor.core.records import Reason, Subject, Verdict
from monitor.core.windows import week
from monitor.core.wording import plain_words
from tests.truth.claims import Reader
from tests.truth.facts import Facts
from tests.truth.sentences import VERDICT

PLAIN = Verdict(
    "v1", "expected-accuracy", Subject("tickets", "billing"), week("2026-W46", ZoneInfo("UTC")), "expected_accuracy",
    "all", "breach", Reason.BELOW_THRESHOLD, "warning", 0.9, value=0.873, n=120, p_adjusted=0.004,
    detail={"before_truth": True, "condition": "below", "rows_needed": 50},
)  # fmt: skip
ABOVE = {**PLAIN.detail, "condition": "above"}
SAID = {
    "billing is lower than allowed: expected accuracy (an estimate) 87%, at least 90% required": PLAIN,
    "billing is worse than allowed: expected ECE (an estimate) 0.123, at most 0.080 allowed": replace(
        PLAIN, metric="expected_ece", reason=Reason.ABOVE_THRESHOLD, value=0.1234, threshold=0.08, detail=ABOVE
    ),
    "billing is within the limit: expected overconfidence (an estimate) 2.1 points (limit 5.0 points)": replace(
        PLAIN, metric="expected_overconfidence", outcome="ok", reason=Reason.WITHIN_THRESHOLD, value=0.021, threshold=0.05,
        detail=ABOVE,
    ),
    "billing is below the limit, not confirmed: expected accuracy (an estimate) 87% (limit 90%), adjusted p 0.2": replace(
        PLAIN, outcome="unconfirmed", reason=Reason.NOT_SIGNIFICANT_IN_FAMILY, p_adjusted=0.2
    ),
    "billing was not judged: no item of this window waits for its outcome": replace(
        PLAIN, outcome="not_evaluated", reason=Reason.NO_ROWS, value=None, n=0
    ),
    "billing was not judged: there is no baseline to compare with yet": replace(
        PLAIN, outcome="not_evaluated", reason=Reason.NO_BASELINE, value=None
    ),
}  # fmt: skip


def row_of(verdict: Verdict) -> dict[str, Any]:
    names = ("metric", "outcome", "value", "threshold", "p_adjusted", "n", "windows")
    found = {name: getattr(verdict, name) for name in names}
    about = {"source": verdict.subject.source, "label": verdict.subject.label, "reason": verdict.reason.value}
    return {**found, **about, "detail": dict(verdict.detail), "population": verdict.where}


def read(text: str, verdict: Verdict) -> Reader:
    reader = Reader(cast("Facts", None))
    VERDICT.read(reader, text, row_of(verdict))
    return reader


@pytest.mark.parametrize("text", SAID)
def test_what_is_said_of_an_estimate_is_read_and_is_true(text: str) -> None:
    assert plain_words(SAID[text]) == text
    assert read(text, SAID[text]).false == []


def test_a_measurement_that_is_called_an_estimate_and_wrong_numbers_are_found() -> None:
    text = next(iter(SAID))
    assert read(text, replace(PLAIN, detail={"condition": "below"})).false
    assert read(text.replace("87%", "88%"), PLAIN).false
    assert read(text.replace("90%", "91%"), PLAIN).false
