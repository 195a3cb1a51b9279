"""What may be behind a finding, from what its evaluation knows. Pure: short sentences, nothing escaped.

These are leads, not proofs: each sentence says what was seen, and a reader decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.alerts.words import clean, points, title
from monitor.records import Estimate, Reason, ShiftResult, Verdict

#: An effect size below this, or a p-value above, is no lead worth a line.
EFFECT, SURE = 0.1, 0.001
#: By how much a segment's lower limit must pass the label's own shortfall.
WORSE_BY = 0.02
_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Context:
    """What is known around a verdict: of its window, and of the windows before it.

    ``versions`` are (window name, rows by model version), newest first, beginning with the verdict's own;
    ``estimates`` are those of its subject and segments in its window, ``shifts`` its source's.
    """

    versions: Sequence[tuple[str, Mapping[str, int]]] = ()
    estimates: Sequence[Estimate] = ()
    shifts: Sequence[ShiftResult] = ()


def causes(verdict: Verdict, context: Context) -> tuple[str, ...]:
    """The leads, the likeliest first; empty where nothing stands out."""
    found = [
        _mix(verdict), new_version(context.versions), worst_segment(verdict, context.estimates),
        *(_moved(verdict, shift) for shift in _strongest(verdict, context.shifts)),
    ]  # fmt: skip
    return tuple(each for each in found if each)


def _mix(verdict: Verdict) -> str:
    return "traffic moved to scores that were wrong before" if verdict.reason == Reason.TRAFFIC_MIX else ""


def new_version(versions: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """The newest change of the model version that most rows came from.

    >>> new_version([("2026-W47", {"v4": 900}), ("2026-W46", {"v4": 500, "v3": 400}), ("2026-W45", {"v3": 900})])
    'the model version changed from v3 to v4 in 2026-W46'
    """
    for (name, rows), (_, before) in pairwise(versions):
        now, then = _main(rows), _main(before)
        if now and then and now != then:
            return (
                f"the model version changed from {clean(then, _NAME_LENGTH)} to {clean(now, _NAME_LENGTH)} "
                f"in {clean(name, _NAME_LENGTH)}"
            )
    return ""


def _main(rows: Mapping[str, int]) -> str:
    return max(sorted(rows), key=lambda version: rows[version]) if rows else ""


def worst_segment(verdict: Verdict, estimates: Sequence[Estimate]) -> str:
    """The segment that surely promises more than it keeps, and more so than the label as a whole: the worst."""
    subject = verdict.subject
    mine = [e for e in estimates if (e.subject.source, e.subject.label) == (subject.source, subject.label)]
    mine = [e for e in mine if (e.metric, e.where) == ("shortfall", "all") and e.interval.value is not None]
    whole = next((e.interval.value for e in mine if e.subject.segment is None), None)
    if whole is None:
        return ""
    least = max(whole, 0.0) + WORSE_BY
    worse = [e for e in mine if e.subject.segment and e.interval.low is not None and e.interval.low > least]
    if not worse:
        return ""
    worst = max(worse, key=lambda e: (e.interval.value or 0.0, str(e.subject.segment)))
    column, value = worst.subject.segment or ("", "")
    where = f"{clean(column, _NAME_LENGTH)} = {clean(value, _NAME_LENGTH)}"
    overall = f"{points(whole)} over all" if whole >= 0.0005 else "not so over all"
    told = f"right {points(worst.interval.value)} less often than promised"
    return f"worst where {where}: {told}, {overall} (n = {worst.n:,})"


def _strongest(verdict: Verdict, shifts: Sequence[ShiftResult]) -> list[ShiftResult]:
    """Of the label's own tests, and of the source's columns, the strongest each; never the rule's own test."""
    sure = [
        s for s in shifts
        if s.statistic is not None and abs(s.statistic) >= EFFECT and s.p_value is not None and s.p_value < SURE
        and s.test != verdict.metric and s.subject.source == verdict.subject.source
    ]  # fmt: skip
    found = []
    for label in dict.fromkeys((verdict.subject.label, None)):
        own = [s for s in sure if s.subject.label == label]
        if own:
            found.append(max(own, key=lambda s: (abs(s.statistic or 0.0), s.test, s.column)))
    return found


def _moved(verdict: Verdict, shift: ShiftResult) -> str:
    size = f"{abs(shift.statistic or 0.0):.2f}"
    if shift.column == "score":
        whose = "its scores" if shift.subject.label is not None else "the scores of the whole source"
        return f"{whose} lie elsewhere than in the baseline ({title(shift.test)} {size})"
    if shift.test == "chi_square" and shift.column == "label":
        return f"labels come in other proportions than in the baseline ({title(shift.test)} {size})"
    column = clean(shift.column, _NAME_LENGTH)
    return f"{column} has other values than in the baseline ({clean(title(shift.test), _NAME_LENGTH)} {size})"
