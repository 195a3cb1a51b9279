"""What changed when a label began to fail, and where it fails most. Pure: short sentences, nothing escaped.

These are leads, not proofs: each sentence says what was seen and when, and a reader decides. What began at another
time is left out, and so is what is about neither the label nor its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.core.records import Estimate, ShiftResult, Verdict
from monitor.core.wording import clean, percent, points, title

#: An effect size below this, or a p-value above, is no lead worth a line.
EFFECT, SURE = 0.1, 0.001
#: By how much a segment's lower limit must pass the overconfidence of the rest of its label.
WORSE_BY = 0.02
_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Context:
    """What is known around the first window of a run of breaches.

    ``versions`` are (window name, rows by model version), newest first, from the window after the first breach to those
    before it; ``shifts`` the source's distribution tests of that first window, ``before`` those of the window before it
    (None: none were made then).
    """

    versions: Sequence[tuple[str, Mapping[str, int]]] = ()
    shifts: Sequence[ShiftResult] = ()
    before: Sequence[ShiftResult] | None = None


def changes(verdict: Verdict, context: Context) -> tuple[str, ...]:
    """What changed when the breaches of ``verdict``'s rule began: by time, then by size; empty where nothing did."""
    began = [_moved(shift) for shift in _began(verdict, context)]
    return tuple(each for each in (new_version(context.versions), *began) if each)


def new_version(versions: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """The newest change of the model version that most rows came from.

    >>> new_version([("2026-W47", {"v4": 900}), ("2026-W46", {"v4": 500, "v3": 400}), ("2026-W45", {"v3": 900})])
    'the model version changed from v3 to v4 in 2026-W46 (56% of its rows)'
    """
    for (name, rows), (_, before) in pairwise(versions):
        now, then = _main(rows), _main(before)
        if now and then and now != then:
            share = rows[now] / sum(rows.values())
            of_rows = "" if share > 0.995 else f" ({percent(share)} of its rows)"
            return (
                f"the model version changed from {clean(then, _NAME_LENGTH)} to {clean(now, _NAME_LENGTH)} "
                f"in {clean(name, _NAME_LENGTH)}{of_rows}"
            )
    return ""


def _main(rows: Mapping[str, int]) -> str:
    return max(sorted(rows), key=lambda version: rows[version]) if rows else ""


def worst_segment(verdict: Verdict, estimates: Sequence[Estimate]) -> str:
    """The segment that is confirmed to be more overconfident than the rest of its label: the worst, "" if none is."""
    subject = verdict.subject
    mine = [e for e in estimates if (e.subject.source, e.subject.label) == (subject.source, subject.label)]
    mine = [e for e in mine if (e.metric, e.where) == ("shortfall", "all") and e.interval.value is not None]
    whole = next((e for e in mine if e.subject.segment is None), None)
    if whole is None:
        return ""
    rest = {id(each): _rest(whole, each) for each in mine if each.subject.segment}
    worse = [
        e for e in mine
        if e.subject.segment and e.interval.low is not None and e.interval.low > max(rest[id(e)], 0.0) + WORSE_BY
    ]  # fmt: skip
    if not worse:
        return ""
    worst = max(worse, key=lambda e: (e.interval.value or 0.0, str(e.subject.segment)))
    column, value = worst.subject.segment or ("", "")
    where, elsewhere = f"{clean(column, _NAME_LENGTH)} = {clean(value, _NAME_LENGTH)}", rest[id(worst)]
    other = f"by {points(elsewhere)} elsewhere" if elsewhere >= 0.0005 else "not elsewhere"
    return f"{where}: overconfident by {points(worst.interval.value)}, {other} (n = {worst.n:,})"


def _rest(whole: Estimate, part: Estimate) -> float:
    """The overconfidence of the rows outside a segment; that of all rows where there are no others."""
    all_of, of_part = whole.interval.value or 0.0, part.interval.value or 0.0
    others = whole.n - part.n
    return (all_of * whole.n - of_part * part.n) / others if others > 0 else all_of


def _began(verdict: Verdict, context: Context) -> list[ShiftResult]:
    """The tests that found a shift then and none in the window before, the largest first; one of each column."""
    mine = [
        s for s in context.shifts
        if _is_lead(s) and s.test != verdict.metric and s.subject.source == verdict.subject.source
        and s.subject.label in (verdict.subject.label, None)
    ]  # fmt: skip
    known = {_key(s) for s in context.before or () if _is_lead(s)}
    largest: dict[tuple[str | None, str], ShiftResult] = {}
    for each in sorted(mine, key=lambda s: (-abs(s.statistic or 0.0), s.test, s.column)):
        largest.setdefault((each.subject.label, each.column), each)
    return [each for each in largest.values() if _key(each) not in known]


def _is_lead(shift: ShiftResult) -> bool:
    large = shift.statistic is not None and abs(shift.statistic) >= EFFECT
    return large and shift.p_value is not None and shift.p_value < SURE


def _key(shift: ShiftResult) -> tuple[str | None, str]:
    return shift.subject.label, shift.column


def _moved(shift: ShiftResult) -> str:
    size = f"{clean(title(shift.test), _NAME_LENGTH)} {abs(shift.statistic or 0.0):.2f}, since {shift.window.name}"
    if shift.column == "score":
        whose = "its scores" if shift.subject.label is not None else "the scores of the whole source"
        return f"{whose} are distributed differently than in the baseline ({size})"
    if shift.test == "chi_square" and shift.column == "label":
        return f"labels come in other proportions than in the baseline ({size})"
    return f"{clean(shift.column, _NAME_LENGTH)} of the source is distributed differently than in the baseline ({size})"
