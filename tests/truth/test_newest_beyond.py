"""The sentence of a verdict whose newest window is beyond the limit by itself while all windows together are within it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from monitor.core.records import Reason, Subject, Verdict, Window
from monitor.core.wording import plain_words
from tests.truth.claims import Reader
from tests.truth.facts import Facts
from tests.truth.sentences import VERDICT

START = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(START, START + timedelta(weeks=1), "2026-W46", "weekly")


def verdict(condition: str, metric: str, newest: float, *, windows: int = 2, **more: Any) -> Verdict:
    groups = [{"windows": windows // 2, "n": 70, "value": value, "beyond": value == newest} for value in (newest, 0.0)]
    segment = {"segment": more.pop("segment")} if "segment" in more else {}
    return Verdict(
        "v1", "two", Subject("tickets", "billing"), WEEK, metric, "all", "unconfirmed", Reason.STREAK_INCOMPLETE,
        "warning", windows=windows, detail={"condition": condition, "asks": 2, "beyond": False, "groups": groups} | segment,
        **more,
    )  # fmt: skip


VERDICTS = [
    verdict("above", "ece", 0.117, value=0.061, threshold=0.08),
    verdict("above", "ece", 0.117, value=0.061, threshold=0.08, windows=6),
    verdict("above", "ece", 0.117, value=0.061, threshold=0.08, segment=["channel", "in a"]),
    verdict("increase", "ece", 0.031, value=0.05, threshold=0.02, change=0.012, baseline=0.038),
    verdict("decrease", "roc_auc", -0.05, value=0.9, threshold=0.03, change=-0.01, baseline=0.91),
    verdict("below", "roc_auc", 0.78, value=0.82, threshold=0.8),
    verdict("above", "shortfall", 0.09, value=-0.01, threshold=0.05, segment=["channel", "web"]),
    verdict("increase", "shortfall", 0.09, value=0.03, threshold=0.05, change=0.01, baseline=0.02),
]


def claims_of(sentence: str, of: Verdict) -> Reader:
    row = {
        "source": "tickets", "label": "billing", "outcome": of.outcome, "reason": of.reason.value, "metric": of.metric,
        "value": of.value, "change": of.change, "threshold": of.threshold, "windows": of.windows, "detail": of.detail,
    }  # fmt: skip
    reader = Reader(cast("Facts", None))
    VERDICT.read(reader, sentence, row)
    return reader


@pytest.mark.parametrize("given", VERDICTS, ids=plain_words)
def test_what_is_said_of_the_newest_window_is_what_was_stored(given: Verdict) -> None:
    sentence = plain_words(given)
    assert claims_of(sentence, given).false == []
    newest, before = given.detail["groups"]
    other = replace(given, detail={**given.detail, "groups": [{**newest, "value": 0.2}, before]})
    assert [claim.kind for claim in claims_of(sentence, other).false] == ["newest window"]
    assert claims_of(sentence, replace(given, value=0.5, change=0.4)).false
