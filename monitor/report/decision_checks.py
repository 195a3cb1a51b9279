"""A verdict as the chain of checks that led to it, in the order in which the code takes them.

`comparisons.compare` asks whether there is anything to judge, `verdicts.outcome_of` what is decided. Here
the same questions are answered once more from what is *stored* with a verdict, never from today's rules
or rows. Where the stored numbers do not tell (an old verdict keeps fewer), a check says that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from monitor.core.records import Reason, Verdict, Where
from monitor.core.rejection_records import from_detail
from monitor.core.rejection_words import fact
from monitor.core.wording import title
from monitor.metrics.registry import METRICS, WHOLE

TESTS = ("ks", "psi", "chi_square")
BINNED = ("ece", "mce")
_LEAST = 1e-15
ROWS: Mapping[Where, str] = {"all": "rows", "predicted": "predicted rows", "automated": "automated rows"}


@dataclass(frozen=True, slots=True)
class DecisionCheck:
    """One question and its answer; ``passed`` is None where the stored numbers do not tell."""

    name: str
    question: str
    passed: bool | None
    answer: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The question with its answer, as one line."""
        said = {True: "Yes", False: "No", None: "Not known"}[self.passed]
        return f"{self.question} {said}: {self.answer}."


def chain(verdict: Verdict) -> tuple[DecisionCheck, ...]:
    """The checks that were made, up to the one that decided."""
    asked: list[DecisionCheck] = []
    for gate in _GATES:
        check = gate(verdict)
        if check is not None:
            asked.append(check)
            if check.passed is False:
                return tuple(asked)
    three = [check for check in (_beyond(verdict), _every_window(verdict), _sure(verdict)) if check is not None]
    last = _behaviour(verdict) if all(check.passed for check in three) else _could_be_seen(verdict)
    return (*asked, *three, *([last] if last is not None else []))


def decided(verdict: Verdict, checks: tuple[DecisionCheck, ...]) -> Reason | None:
    """The reason to which the checks lead; None where one of them is not known.

    An explanation whose chain leads elsewhere than the stored verdict must say so: it was decided by
    another version of this program.
    """
    if any(check.passed is None for check in checks):
        return None
    failed = {check.name for check in checks if not check.passed}
    stopped = failed & set(_STOPS)
    if stopped:
        name = stopped.pop()
        return _STOPS[name] if name != "readable" else verdict.reason
    if not failed & {"beyond", "every_window", "sure"}:
        return _breach(verdict, mixed="behaviour" in failed)
    if "could_be_seen" in failed:
        return Reason.TOO_FEW_ROWS
    if "beyond" in failed:
        return Reason.WITHIN_THRESHOLD
    return Reason.STREAK_INCOMPLETE if "every_window" in failed else Reason.NOT_SIGNIFICANT_IN_FAMILY


def _breach(verdict: Verdict, *, mixed: bool) -> Reason:
    if verdict.metric in TESTS:
        return Reason.DISTRIBUTION_SHIFTED
    if rises(verdict):
        return Reason.TRAFFIC_MIX if mixed else Reason.INCREASED
    return Reason.BELOW_THRESHOLD if verdict.detail.get("condition") == "below" else Reason.ABOVE_THRESHOLD


# --- words that the explanation shares


def number(value: float | None) -> str:
    """A number for people.

    >>> number(0.01234567), number(None)
    ('0.01235', 'undefined')
    """
    return "undefined" if value is None else f"{value:.4g}"


def chance(value: float) -> str:
    """A probability for people. Below 1e-15 the sums it comes from are rounding errors; and nothing has chance 0.

    >>> chance(0.01234), chance(0.0)
    ('0.0123', 'less than 1e-15')
    """
    return f"less than {_LEAST:.0e}" if value < _LEAST else f"{value:.3g}"


def equals(name: str, value: float) -> str:
    """The same as an equation.

    >>> equals("p", 0.01234), equals("p", 0.0)
    ('p = 0.0123', 'p < 1e-15')
    """
    return f"{name} < {_LEAST:.0e}" if value < _LEAST else f"{name} = {value:.3g}"


def share(value: float | None) -> str:
    """A share of rows in per cent."""
    return "unknown" if value is None else f"{value:.0%}"


def rises(verdict: Verdict) -> bool:
    """Whether the rule asks for an increase over the baseline."""
    return verdict.metric not in TESTS and verdict.detail.get("condition") == "increase"


def measured(verdict: Verdict) -> float | None:
    """What was held against the threshold: the change for an increase, else the value."""
    return verdict.change if rises(verdict) else verdict.value


def beyond_words(verdict: Verdict) -> str:
    """How "beyond" reads for this rule."""
    return "less than" if verdict.detail.get("condition") == "below" else "more than"


def smallest_seen(verdict: Verdict) -> str:
    """The detectable change in words: of a level, how far beyond the threshold the truth would have to be."""
    what = "a rise of" if rises(verdict) else "a truth beyond the threshold by"
    return f"{what} {number(verdict.detectable)}"


# --- is there anything to judge?


def _readable(verdict: Verdict) -> DecisionCheck:
    failures = {
        Reason.RELATION_ERROR: "its relation is not what alerts.yaml says",
        Reason.WAREHOUSE_FAILED: "the warehouse did not answer",
    }
    passed = verdict.reason not in failures
    answer = failures.get(verdict.reason, f"{verdict.subject.source} was read for {verdict.window.name}")
    return DecisionCheck("readable", "Could the source be read?", passed, answer)


def _accepted(verdict: Verdict) -> DecisionCheck | None:
    """Asked only where it decided: verdicts do not store the rows that were accepted."""
    if verdict.reason != Reason.REJECTED_ROWS:
        return None
    found = verdict.detail.get("rejected")
    told = f": {fact(from_detail(found))}" if found else ""
    answer = f"what is left of {verdict.window.name} says nothing about the rest{told}"
    return DecisionCheck("accepted", "Were the rows accepted?", False, answer, found or {})


def _rows(verdict: Verdict) -> DecisionCheck:
    kind, passed = ROWS[verdict.where], verdict.reason != Reason.NO_ROWS
    answer = f"{verdict.n:,} {kind if verdict.outcome != 'not_evaluated' else 'rows'}"
    if not passed:
        other = f" (of {verdict.n:,} rows of any kind)" if verdict.n else ""
        answer = f"not one of the {kind} in this window or in those that may be pooled with it{other}"
    return DecisionCheck("rows", "Are there rows to look at?", passed, answer, {"n": verdict.n})


def _outside_baseline(verdict: Verdict) -> DecisionCheck:
    passed = verdict.reason != Reason.IN_BASELINE
    metric = METRICS.get(verdict.metric)
    # a verdict on items as a whole names no baseline, whether there is one or not
    silent = metric is not None and metric.needs in WHOLE
    none = "it lies outside, or none was pinned" if silent else "it has none"
    answer = "it lies outside" if verdict.baseline_version is not None else none
    if not passed:
        answer = f"{verdict.window.name} is part of what the baseline was made from"
    return DecisionCheck("outside_baseline", "Is the window outside the baseline's own time?", passed, answer)


def _baseline(verdict: Verdict) -> DecisionCheck | None:
    if not rises(verdict) and verdict.metric not in TESTS:
        return None  # a level rule compares with a number
    passed = verdict.reason != Reason.NO_BASELINE
    version = verdict.baseline_version
    answer = "none was pinned" if not passed else "one was pinned" if version is None else f"version {version}"
    return DecisionCheck("baseline", "Is there a baseline to compare with?", passed, answer, {"version": version})


def _comparable(verdict: Verdict) -> DecisionCheck | None:
    if not (rises(verdict) and verdict.metric in BINNED):
        return None
    moved, held = verdict.detail.get("moved_share"), verdict.detail.get("comparable")
    passed = verdict.reason != Reason.SCORES_MOVED
    answer = "window and baseline were looked at through the same bins"
    if verdict.detail.get("rebinned"):
        answer = f"after new bins were made for both, since scores had moved; they hold {share(held)} of the rows"
    if not passed:
        answer = (
            f"{share(moved)} of the window's rows lie in bins whose mean score moved, and new bins for which the "
            f"baseline has enough rows hold {share(held)} of them (80% in at least 5 bins are needed)"
        )
    return DecisionCheck(
        "comparable", "Can the bins be compared?", passed, answer, {"moved_share": moved, "comparable": held}
    )


def _test_result(verdict: Verdict) -> DecisionCheck | None:
    if verdict.metric not in TESTS:
        return None
    passed = verdict.value is not None
    answer = f"{title(verdict.metric)} {number(verdict.value)}" if passed else "it has none for so few independent rows"
    return DecisionCheck("test_result", "Has the test a result?", passed, answer, {"value": verdict.value})


_GATES: tuple[Callable[[Verdict], DecisionCheck | None], ...] = (
    _readable, _accepted, _rows, _outside_baseline, _baseline, _comparable, _test_result,
)  # fmt: skip

_STOPS = {
    "readable": Reason.RELATION_ERROR,
    "accepted": Reason.REJECTED_ROWS,
    "rows": Reason.NO_ROWS,
    "outside_baseline": Reason.IN_BASELINE,
    "baseline": Reason.NO_BASELINE,
    "comparable": Reason.SCORES_MOVED,
    "test_result": Reason.TOO_FEW_ROWS,
}


# --- what is decided?


def _beyond(verdict: Verdict) -> DecisionCheck:
    seen, limit = measured(verdict), verdict.threshold
    what = "the change" if rises(verdict) else title(verdict.metric)
    if seen is None:
        passed: bool = False
        answer = f"{what} is undefined for these rows"
    else:
        derived = seen < limit if verdict.detail.get("condition") == "below" else seen > limit
        passed = bool(verdict.detail.get("beyond", derived))
        answer = f"{what} {number(seen)} is {'' if passed else 'not '}{beyond_words(verdict)} {number(limit)}"
    return DecisionCheck(
        "beyond", "Is it beyond the threshold?", passed, answer, {"measured": seen, "threshold": limit}
    )


def _every_window(verdict: Verdict) -> DecisionCheck | None:
    asks = verdict.detail.get("asks", 1)
    incomplete = verdict.reason == Reason.STREAK_INCOMPLETE
    if asks <= 1 and not incomplete:
        return None
    groups = verdict.detail.get("groups", [])
    passed = verdict.detail.get("streak", False if incomplete else None)
    told = [f"{number(group['value'])} (n = {group['n']:,})" for group in groups]
    answer = f"newest first {', '.join(told)}" if told else "their values were not stored"
    if groups and len(groups) < asks:
        answer = f"there are only {len(groups)} of them; {answer}"
    unit = "windows" if all(group["windows"] == 1 for group in groups) else "groups of windows"
    question = f"Is each of the {asks} {unit} beyond it by itself?" if told else "Is each window beyond it by itself?"
    return DecisionCheck("every_window", question, passed, answer, {"groups": groups})


def _sure(verdict: Verdict) -> DecisionCheck:
    adjusted, rate = verdict.p_adjusted, verdict.detail.get("rate")
    numbers = {"p_value": verdict.p_value, "p_adjusted": adjusted, "rate": rate}
    if verdict.metric == "psi":
        passed = _stored_or(verdict, "adequate", told_by=(Reason.DISTRIBUTION_SHIFTED, Reason.TOO_FEW_ROWS))
        answer = f"PSI has no p-value; what counts is whether there are enough rows, and {_rows_words(verdict)}"
        return DecisionCheck("sure", "Is it confirmed?", passed, answer, numbers)
    if adjusted is None:
        return DecisionCheck("sure", "Is it confirmed?", False, "these rows give no p-value", numbers)
    below = adjusted < rate if rate is not None else _by_outcome(verdict)
    against = "the false discovery rate, which was not stored" if rate is None else number(rate)
    told = number(adjusted) if adjusted >= _LEAST else f"({chance(adjusted)})"
    how = "compared with" if below is None else "below" if below else "not below"
    return DecisionCheck("sure", "Is it confirmed?", below, f"the adjusted p-value {told} is {how} {against}", numbers)


def _by_outcome(verdict: Verdict) -> bool | None:
    if verdict.outcome == "breach":
        return True
    return False if verdict.reason == Reason.NOT_SIGNIFICANT_IN_FAMILY else None


def _stored_or(verdict: Verdict, name: str, *, told_by: tuple[Reason, Reason]) -> bool | None:
    """A stored flag; of older verdicts what their reason tells: (true, false)."""
    if name in verdict.detail:
        return bool(verdict.detail[name])
    return {told_by[0]: True, told_by[1]: False}.get(verdict.reason)


def _behaviour(verdict: Verdict) -> DecisionCheck | None:
    """Asked of a breach only: is it the label, or the traffic?"""
    detail = verdict.detail
    p_rate, rate = detail.get("p_rate"), detail.get("rate")
    if not rises(verdict) or ("p_rate" in detail and p_rate is None):
        return None  # no such test exists for this metric
    question, numbers = "Does the label behave differently at equal scores?", {"p_rate": p_rate, "rate": rate}
    if p_rate is None or rate is None:
        answer = "so says the verdict; the p-value for it was not stored"
        return DecisionCheck("behaviour", question, verdict.reason == Reason.INCREASED, answer, numbers)
    below = p_rate < rate
    against = f"{'' if below else 'not '}below {number(rate)}"
    answer = f"with the gaps of both windows pooled {equals('p', p_rate)}, {against}"
    return DecisionCheck("behaviour", question, below, answer, numbers)


def _could_be_seen(verdict: Verdict) -> DecisionCheck:
    passed = verdict.detail.get("adequate", verdict.reason != Reason.TOO_FEW_ROWS)
    parts = [_rows_words(verdict)]
    most = verdict.detail.get("seen_at_most")
    if verdict.metric not in TESTS:
        if measured(verdict) is None:
            parts.append("what is undefined shows nothing")
        elif verdict.detectable is None:
            parts.append("not even the largest possible change would have shown")
        else:
            limit = "" if most is None else f" (at most {number(most)} is asked for)"
            parts.append(f"{smallest_seen(verdict)} would have shown with 80% power{limit}")
    numbers = {"n": verdict.n, "detectable": verdict.detectable, "seen_at_most": most}
    return DecisionCheck(
        "could_be_seen", "Could a change that matters have been seen?", passed, ", and ".join(parts), numbers
    )


def _rows_words(verdict: Verdict) -> str:
    needed = verdict.detail.get("rows_needed")
    rows = f"there are {verdict.n:,} {ROWS[verdict.where]}"
    return rows if needed is None else f"{rows} ({needed:,} are needed)"
