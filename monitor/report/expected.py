"""Estimates before the truth as a sentence that says that they are estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.core.records import Estimate, Interval, Where
from monitor.core.wording import count_of, percent
from monitor.metrics.names import EXPECTED
from monitor.report import words

SHOWN: Mapping[tuple[str, Where], str] = {
    ("expected_accuracy", "all"): "accuracy",
    ("expected_overconfidence", "automated"): "overconfidence (automated)",
    ("expected_ece", "all"): "ECE",
}
"""The estimates that are shown first, and what each of them estimates."""
MEASURED: Mapping[tuple[str, Where], tuple[str, Where]] = {
    ("ece", "all"): ("expected_ece", "all"),
    ("overconfidence", "automated"): ("expected_overconfidence", "automated"),
}
"""Measured series, and the estimate that is drawn beside each."""


def sentence(estimates: Iterable[Estimate]) -> str:
    """What is expected of the waiting rows of one subject; "" if there is no estimate, or none that is news.

    Where the newest judged windows have shown that scores no longer mean what they did, that is the news.
    """
    found = {(e.metric, e.where): e for e in estimates if e.metric in EXPECTED}
    first = found.get(("expected_accuracy", "all"))
    if first is None or first.detail.get("refuted"):
        return ""
    values = [f"{name} {_value_text(found[key].interval, key[0])}" for key, name in SHOWN.items() if key in found]
    waiting = f"{count_of(first.n, 'row')} had no truth at the end of {first.window.name}"
    return f"{waiting}; expected, an estimate: {', '.join(values)}"


def _value_text(found: Interval, metric: str) -> str:
    if metric != "expected_accuracy":
        return words.measured(found)
    return f"{percent(found.value)} ({percent(found.low)} to {percent(found.high)})"
