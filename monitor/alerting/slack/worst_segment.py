"""The segment in which a label fails most in one window, for messages without a likely cause. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.core.records import Estimate, Verdict
from monitor.core.wording import part_name, points

#: By how much a segment's lower limit must exceed the overconfidence of the rest of its label.
WORSE_BY = 0.02
_NAME_LENGTH = 40


def worst_segment(verdict: Verdict, estimates: Sequence[Estimate]) -> str:
    """The worst segment that is confirmed to be more overconfident than the rest of its label; "" if none is."""
    if verdict.detail.get("segment") is not None:  # the verdict names one, from more weeks
        return ""
    subject = verdict.subject
    of_label = [e for e in estimates if (e.subject.source, e.subject.label) == (subject.source, subject.label)]
    of_label = [
        e for e in of_label if (e.metric, e.where) == ("overconfidence", "all") and e.interval.value is not None
    ]
    whole = next((e for e in of_label if e.subject.segment is None), None)
    if whole is None:
        return ""
    rest = {id(each): _rest(whole, each) for each in of_label if each.subject.segment}
    worse = [
        e
        for e in of_label
        if e.subject.segment and e.interval.low is not None and e.interval.low > max(rest[id(e)], 0.0) + WORSE_BY
    ]
    if not worse:
        return ""
    worst = max(worse, key=lambda e: (e.interval.value or 0.0, str(e.subject.segment)))
    column, value = worst.subject.segment or ("", "")
    where, outside = f"{part_name(column, _NAME_LENGTH)} = {part_name(value, _NAME_LENGTH)}", rest[id(worst)]
    other = f"by {points(outside)} elsewhere" if outside >= 0.0005 else "not elsewhere"
    return f"{where}: overconfident by {points(worst.interval.value)}, {other} (n = {worst.n:,})"


def _rest(whole: Estimate, part: Estimate) -> float:
    """The overconfidence of the rows outside a segment; that of all rows where there are no others."""
    all_of, of_part = whole.interval.value or 0.0, part.interval.value or 0.0
    outside = whole.n - part.n
    return (all_of * whole.n - of_part * part.n) / outside if outside > 0 else all_of
