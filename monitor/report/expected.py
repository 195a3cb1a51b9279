"""Estimates before the truth as a sentence and as a table; both say that they are estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from monitor.core.records import Estimate, Interval, Where
from monitor.core.wording import count_of, percent
from monitor.metrics.names import EXPECTED
from monitor.report import words
from monitor.report.data import SubjectReport
from monitor.report.detail import Detail
from monitor.report.element import Cell, Element

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


def before_truth(found: Sequence[tuple[SubjectReport, Detail]]) -> Element:
    """The waiting rows of each label, and what is expected of them."""
    rows: list[tuple[Cell, ...]] = []
    for report, detail in found:
        first = next((e for e in detail.estimates if (e.metric, e.where) == ("expected_accuracy", "all")), None)
        if first is not None:
            known = first.detail.get("known")
            counts = f"{first.n:,}", "–" if known is None else f"{known:,}"
            rows.append((report.subject, *counts, *(detail.interval(*key) or "–" for key in SHOWN)))
    head = ("label", "waiting", "known", *(f"expected {name}" for name in SHOWN.values()))
    note = (
        "Estimates, not measurements: what the baseline's calibration map says of the rows that were predicted in this "
        "window and had no truth at its end. They hold while scores mean what they meant in the baseline; where the "
        "newest judged windows have shown that they do not, the map is that of these windows."
    )
    return Element("Before the truth (estimates)", head, tuple(rows), frozenset({1, 2}), note=note)
