"""The sentence of a verdict whose newest window is beyond the limit by itself while all windows together are within it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from monitor.core.records import Reason, Subject, Verdict, Window
from monitor.core.wording import plain_words
from monitor.report.explanation import VerdictContext, explain
from tests.truth.claims import Reader
from tests.truth.explained import EXPLAINED
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
    verdict("above", "overconfidence", 0.09, value=-0.01, threshold=0.05, segment=["channel", "web"]),
    verdict("increase", "overconfidence", 0.09, value=0.03, threshold=0.05, change=0.01, baseline=0.02),
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


TOGETHER = {"windows": 4, "n": 1_912, "value": 0.031, "p_value": 0.31}
ALONE = [
    verdict("above", "ece", 0.117, value=0.117, threshold=0.08, windows=1),
    verdict("increase", "ece", 0.031, value=0.06, threshold=0.02, change=0.041, baseline=0.019, windows=1),
    verdict("above", "overconfidence", 0.3, value=0.3, threshold=0.05, windows=1, segment=["channel", "web"]),
]


@pytest.mark.parametrize("given", ALONE, ids=plain_words)
def test_what_is_said_of_the_windows_together_is_what_was_stored(given: Verdict) -> None:
    together = TOGETHER | ({"change": 0.012} if given.detail["condition"] == "increase" else {})
    of = replace(given, outcome="breach", detail={**given.detail, "together": together, "times_judged": 5})
    (sentence,) = [step.text for step in explain(VerdictContext(of, "r")).steps if step.name == "not_pooled"]

    def false_of(**changes: Any) -> list[str]:
        reader = Reader(cast("Facts", None))
        detail = {**of.detail, "together": {**together, **changes.pop("together", {})}, **changes}
        EXPLAINED.read(reader, sentence, {"windows": of.windows, "detail": detail})
        return [claim.kind for claim in reader.false]

    assert false_of() == []
    assert false_of(together={"n": 1_913}) == ["rows together"]
    assert false_of(together={"windows": 3}) == ["windows"]
    assert false_of(together={"p_value": 0.4}) == ["probability"]
    assert false_of(together={"change" if "change" in together else "value": 0.02}) == ["together"]
    assert false_of(times_judged=4) == ["judged once more"]
