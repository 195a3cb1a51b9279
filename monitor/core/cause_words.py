"""The causes of a change in words, for messages, explanations and the report."""

from __future__ import annotations

from typing import Any

from monitor.core.causes import Began, Cause, Causes, ChangePart, from_json
from monitor.core.counts_by_segment import Segment
from monitor.core.records import Verdict
from monitor.core.wording import clean, part_name, percent, points

_LENGTH = 40


def causes_of(verdict: Verdict) -> Causes | None:
    """The causes that are stored with a verdict; None if no search was made."""
    stored: dict[str, Any] | None = verdict.detail.get("causes")
    return None if stored is None else from_json(stored)


def cause_line(verdict: Verdict) -> str:
    """All causes in one line, which begins with their number; "" if no search was made."""
    found = causes_of(verdict)
    if found is None:
        return ""
    if not found.causes:
        return f"Likely cause: {nothing(found)}"
    return (
        f"Likely cause{'s' if len(found.causes) > 1 else ''}: {'; '.join(cause_words(c, found) for c in found.causes)}"
    )


def short_cause_line(verdict: Verdict) -> str:
    """The causes in a few words, for a message: names, shares, and since when."""
    found = causes_of(verdict)
    if found is None:
        return ""
    named = [
        f"{segment_words(c.segment)}{_arrived_elsewhen(c, found)} ({percent(min(c.share, 1.0))} of the change)"
        for c in found.causes
    ]
    began = next((c.began for c in found.causes if c.began is not None), found.began)
    since = "" if began is None else f", {_roughly(began)}{began.window}"
    none = f"none found{'' if found.columns else ' (no segments to look in)'}"
    return f"Likely cause{'s' if len(named) > 1 else ''}: {'; '.join(named) or none}{since}"


def split_words(found: Causes) -> str:
    """The split of the change by each segment column: mix and rate, each with its interval."""
    whole = f"Change of the {_METRIC[found.metric]} since the baseline: {_signed(found.change)}."
    parts = (
        f"{clean(s.column, _LENGTH)}: {_signed(s.mix)} by other traffic, {_signed(s.rate)} by other calibration"
        for s in found.splits
    )
    listed = "; ".join(parts)
    return f"{whole} Of this, by {listed}." if listed else whole


def _signed(part: ChangePart) -> str:
    return f"{100 * part.value:+.1f} points ({100 * part.low:+.1f} to {100 * part.high:+.1f})"


def nothing(found: Causes) -> str:
    """Why no cause is named."""
    if found.change.low <= 0 <= found.change.high:
        return f"none found, as the {_METRIC[found.metric]} has not changed significantly since the baseline"
    columns = ", ".join(clean(column, _LENGTH) for column in found.columns)
    began = f"; it began in {_when(found.began)}" if found.began is not None else ""
    return f"none found{f' in {columns}' if columns else f': {_NO_COLUMNS}'}{began}"


_NO_COLUMNS = "no segment column to look in (name some under segments in alerts.yaml, of at most 40 values each)"


def cause_words(cause: Cause, found: Causes) -> str:
    """One cause with its share of the change and when it began."""
    name, metric = segment_words(cause.segment), _METRIC[found.metric]
    before, now = (percent(share) for share in cause.traffic)
    explained = f"{percent(min(cause.share, 1.0))} of the change"
    if cause.kind == "mix":
        text = f"{name} makes {now} of the rows ({before} in the baseline), at unchanged calibration: {explained}"
    elif cause.arrived:
        when = "" if _arrived_elsewhen(cause, found) else ", when it began"
        text = f"{name} arrived in {cause.arrived}{when}: {metric} {_moved(cause.part.value)}: {explained}"
        if when:
            return text
    else:
        new = f" ({now} of the rows, not in the baseline)" if cause.traffic[0] == 0 else ""
        others = f", elsewhere {_moved(cause.elsewhere)}" if cause.traffic[1] < 1 else ""
        text = f"{name}{new}: {metric} {_moved(cause.own)}{others}: {explained}"
    began = cause.began or found.began
    return f"{text}, since {_when(began)}" if began is not None else text


def _arrived_elsewhen(cause: Cause, found: Causes) -> str:
    """When a replacing value came, unless that is the window in which the change most likely began."""
    began = cause.began or found.began
    is_same = began is not None and began.window == cause.arrived
    return f" arrived in {cause.arrived}" if cause.arrived and not is_same else ""


def segment_words(segment: Segment) -> str:
    """A segment in words, such as ``channel = chat``; a pair is joined with "and".

    >>> segment_words((("channel", "chat"), ("language", "de")))
    'channel = chat and language = de'
    """
    return " and ".join(f"{part_name(column, _LENGTH)} = {part_name(value, _LENGTH)}" for column, value in segment)


_METRIC = {"overconfidence": "overconfidence", "ece": "ECE"}


def _moved(change: float) -> str:
    if abs(change) < 0.0005:
        return "unchanged"
    return f"{'up' if change > 0 else 'down'} by {points(abs(change))}"


def _when(began: Began) -> str:
    """When a change began, with the span that the data allow.

    >>> _when(Began("2026-W37", "2026-W35", "2026-W37", earliest="2026-W31"))
    '2026-W37 (between 2026-W35 and 2026-W37; or from 2026-W31 on, if it grew little by little)'
    >>> _when(Began("2026-W31", "2026-W30", "2026-W33", gradual=True))
    '2026-W31, little by little (between 2026-W30 and 2026-W33)'
    """
    events, single = " and ".join(began.events), began.low == began.high
    parts = [] if single else [f"between {began.low} and {began.high}"]
    parts += [f"in that time {events}"] if events and not single else []
    parts += [f"or from {began.earliest} on, if it grew little by little"] if began.earliest else []
    then = f", when {events}" if events and single else ""
    span = f" ({'; '.join(parts)})" if parts else ""
    return f"{began.window}{_little(began)}{then}{span}"


def _little(began: Began) -> str:
    return ", little by little" if began.gradual else ""


def _roughly(began: Began) -> str:
    if began.gradual:
        return "slowly since "
    return "since " if began.low == began.high and not began.earliest else "since about "
