"""The checks that led to a verdict, in words.

The questions, their order and their answers are stored with the verdict: ``comparisons.gates`` and
``verdicts.decision_of`` record them while they decide. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from monitor.config.model import TestName
from monitor.core.records import DecisionCheck, Reason, Verdict, Where
from monitor.core.rejection_records import from_detail
from monitor.core.rejection_words import fact
from monitor.core.wording import (
    as_judged,
    changed_settings,
    count_of,
    missing_part,
    out_of_reach,
    reference,
    title,
    waits_for,
)
from monitor.metrics.names import ACCUMULATES
from monitor.metrics.registry import METRICS, WHOLE

TESTS: tuple[str, ...] = get_args(TestName)
BINNED = ("ece", "mce")
_LEAST = 1e-15
ROW: Mapping[Where, str] = {"all": "row", "predicted": "predicted row", "automated": "automated row"}


def checks_of(verdict: Verdict) -> tuple[DecisionCheck, ...]:
    """The checks that were made, up to the one that decided."""
    stored = verdict.detail.get("checks", ())
    return tuple(DecisionCheck(name, passed, tuple(numbers)) for name, passed, numbers in stored)


def text_of(verdict: Verdict, check: DecisionCheck) -> str:
    """A check as one line: the question with its answer."""
    question, answer = _WORDS[check.name](verdict, check)
    return f"{question} {'Yes' if check.passed else 'No'}: {answer}."


_RECORDS = {"accepted": "rejected", "mature": "maturity"}
"""Checks whose numbers are kept as one record."""


def numbers_of(verdict: Verdict, check: DecisionCheck) -> dict[str, Any]:
    """The numbers that a check used, under the names that ``calmon explain --json`` has for them."""
    if check.name in _RECORDS:
        return dict(verdict.detail.get(_RECORDS[check.name]) or {})
    names = {"baseline_version": "version"}
    if check.name == "beyond":
        names |= {"value": "measured", "change": "measured"}
    judged = as_judged(verdict)
    stored = {name: getattr(judged, name, judged.detail.get(name)) for name in check.numbers}
    return {names.get(name, name): number for name, number in stored.items()}


def too_few_to_compare(verdict: Verdict) -> bool:
    """Whether nothing was measured since so few rows were not compared with the baseline's."""
    if verdict.reason != Reason.TOO_FEW_ROWS or verdict.value is not None or "kept" in verdict.detail:
        return False
    return any(check.name == "enough_rows" and not check.passed for check in checks_of(verdict))


# --- words that the explanation shares


def number(value: float | None) -> str:
    """A number with four significant digits.

    >>> number(0.01234567), number(None)
    ('0.01235', 'undefined')
    """
    return "undefined" if value is None else f"{value:.4g}"


def chance(value: float) -> str:
    """A probability with three significant digits. Below 1e-15 it is a rounding error, and no chance is 0.

    >>> chance(0.01234), chance(0.0)
    ('0.0123', 'less than 1e-15')
    """
    return f"less than {_LEAST:.0e}" if value < _LEAST else f"{value:.3g}"


def equals(name: str, value: float) -> str:
    """A probability as an equation.

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


def falls(verdict: Verdict) -> bool:
    """Whether the rule asks for a decrease below the baseline."""
    return verdict.metric not in TESTS and verdict.detail.get("condition") == "decrease"


def compares(verdict: Verdict) -> bool:
    """Whether the rule is about a change since the baseline."""
    return rises(verdict) or falls(verdict)


def what_is_measured(verdict: Verdict) -> str:
    """What was compared with the threshold, as words in a sentence."""
    return "the change" if rises(verdict) else "the fall" if falls(verdict) else title(verdict.metric)


def is_accumulated(verdict: Verdict) -> bool:
    """Whether the rule is about evidence over many windows."""
    return verdict.detail.get("condition") == "accumulated"


def size(evidence: float) -> str:
    """Evidence, from 100 on as a whole number, else with two significant digits.

    >>> size(10400.0), size(0.0312)
    ('10,400', '0.031')
    """
    return f"{evidence:,.0f}" if evidence >= 100 else f"{evidence:.2g}"


def measured(verdict: Verdict) -> float | None:
    """What was compared with the threshold: the change for an increase, minus it for a decrease, else the value."""
    judged = as_judged(verdict)
    if falls(verdict):
        return None if judged.change is None else -judged.change
    return judged.change if rises(verdict) else judged.value


def is_floor(verdict: Verdict) -> bool:
    """Whether the threshold is a lower limit: values below it are beyond it."""
    lasting = is_accumulated(verdict) and ACCUMULATES.get(verdict.metric) == "below"
    return lasting or verdict.detail.get("condition") == "below"


def beyond_words(verdict: Verdict) -> str:
    """How "beyond" reads for this rule."""
    return "less than" if is_floor(verdict) else "more than"


def smallest_seen(verdict: Verdict) -> str:
    """The detectable change in words; for a level, how far beyond the threshold the truth would have to be."""
    what = "a rise of" if rises(verdict) else "a fall of" if falls(verdict) else "a truth beyond the threshold by"
    return f"{what} {number(verdict.detectable)}"


# --- each question with its answer


def _readable(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    failures = {
        Reason.RELATION_ERROR: "its relation is not what alerts.yaml says",
        Reason.WAREHOUSE_FAILED: "the warehouse did not answer",
        Reason.UNRESOLVED_FAILED: f"its counts were, but not {missing_part(verdict)}",
    }
    answer = failures.get(verdict.reason, f"{verdict.subject.source} was read for {verdict.window.name}")
    return "Could the source be read?", answer


def _accepted(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    found = verdict.detail.get("rejected")
    facts = f": {fact(from_detail(found))}" if found else ""
    return "Were the rows accepted?", f"what is left of {verdict.window.name} says nothing about the rest{facts}"


def _mature(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    found = verdict.detail.get("maturity")
    return "Are enough truths known?", waits_for(found) if found else "too few are"


def _rows(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    kind = ROW[verdict.where]
    answer = count_of(verdict.n, kind if verdict.outcome != "not_evaluated" else "row")
    if not check.passed:
        other = f" (of {count_of(verdict.n, 'row')} of any kind)" if verdict.n else ""
        answer = f"not one of the {kind}s in this window or in those that may be pooled with it{other}"
    return "Are there rows to look at?", answer


def _outside_baseline(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    question, metric = "Is the window outside the baseline's own time?", METRICS.get(verdict.metric)
    if not check.passed:
        return question, f"{verdict.window.name} is part of what the baseline was made from"
    if verdict.baseline_version is not None:
        return question, "it lies outside"
    if "reference" in verdict.detail:
        return question, f"it is compared with {reference(verdict)}"
    if "settings" in verdict.detail:
        return question, "none of the present settings was pinned"
    # a verdict on items as a whole names no baseline, whether there is one or not
    silent = metric is not None and metric.needs in WHOLE
    return question, "it lies outside, or none was pinned" if silent else "it has none"


def _baseline(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    version, weeks = verdict.baseline_version, verdict.detail.get("reference")
    if weeks is not None:
        answer = (
            f"{reference(verdict)} had {weeks['rows']:,} rows" if check.passed else f"{reference(verdict)} had none"
        )
        return "Is there a baseline to compare with?", answer
    missing = "none was pinned for any of its labels" if "mix_of" in verdict.detail else "none was pinned"
    answer = missing if not check.passed else "one was pinned" if version is None else f"version {version}"
    return "Is there a baseline to compare with?", answer


def _same_settings(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    """Only where it stops the verdict."""
    return "Was the baseline pinned under the present settings of the source?", changed_settings(verdict)


def _comparable(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    moved, held = verdict.detail.get("moved_share"), verdict.detail.get("comparable")
    answer = f"window and {reference(verdict).removeprefix('the ')} were looked at through the same bins"
    if verdict.detail.get("rebinned"):
        answer = f"after new bins were made for both, since scores had moved; they hold {share(held)} of the rows"
    if not check.passed:
        then = "the baseline has" if "reference" not in verdict.detail else f"{reference(verdict)} had"
        answer = (
            f"{share(moved)} of the window's rows lie in bins whose mean score moved, and new bins for which "
            f"{then} enough rows hold {share(held)} of them (80% in at least 5 bins are needed)"
        )
    return "Can the bins be compared?", answer


def _test_result(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    found = f"{title(verdict.metric)} {number(verdict.value)}"
    return "Has the test a result?", found if check.passed else "it has none for so few independent rows"


def _beyond(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    value, what = measured(verdict), what_is_measured(verdict)
    answer = f"{what} is undefined for these rows"
    if value is not None:
        which = f"{'' if check.passed else 'not '}{beyond_words(verdict)}"
        answer = f"{what} {number(value)} is {which} {number(verdict.threshold)}"
    return "Is it beyond the threshold?", answer


def _every_window(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    asks, groups = verdict.detail.get("asks", 1), verdict.detail.get("groups", [])
    if not groups:
        return "Is each window beyond it by itself?", "their values were not stored"
    values = [
        f"{number(group['value'])} (n = {group['n']:,}{', too few to say' if group.get('too_few') else ''})"
        for group in groups
    ]
    few = f"there are only {len(groups)} of them; " if len(groups) < asks else ""
    unit = "windows" if all(group["windows"] == 1 for group in groups) else "groups of windows"
    return f"Is each of the {asks} {unit} beyond it by itself?", f"{few}newest first {', '.join(values)}"


def _sure(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    question, adjusted, rate = "Is it confirmed?", verdict.p_adjusted, verdict.detail.get("rate")
    if verdict.metric == "psi":
        return question, f"PSI has no p-value; what counts is whether there are enough rows, and {_rows_words(verdict)}"
    if adjusted is None:
        return question, "these rows give no p-value"
    against = "the false discovery rate" if rate is None else number(rate)
    p_text = number(adjusted) if adjusted >= _LEAST else f"({chance(adjusted)})"
    return question, f"the adjusted p-value {p_text} is {'' if check.passed else 'not '}below {against}"


def _enough_evidence(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    question, found, needed = "Is there enough evidence?", verdict.detail.get("evidence"), verdict.detail.get("needed")
    if found is None or needed is None:
        return question, "it was not stored"
    against = f"{size(needed)} or more" if check.passed else f"less than {size(needed)}"
    return question, f"evidence {size(found)} is {against}"


def _behaviour(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    """Only for a breach: did the label change, or the traffic?"""
    question = "Does the label behave differently at equal scores?"
    p_rate, rate = verdict.detail.get("p_rate"), verdict.detail.get("rate")
    if p_rate is None or rate is None:
        return question, "so says the verdict; the p-value for it was not stored"
    which = f"{'' if check.passed else 'not '}below {number(rate)}"
    return question, f"with the gaps of both windows pooled {equals('p', p_rate)}, {which}"


def _class_mix(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    """Only for a breach: does another share of true items alone explain it?"""
    question, mix = "Does another share of true items explain it?", verdict.detail.get("class_mix")
    if mix is None:
        return question, "so says the verdict; its numbers were not stored"
    shares = f"{mix['then']:.1%} were true, now {mix['now']:.1%} ({equals('p', mix['p_value'])})"
    fit = f"that true items, and others, are scored as they were has {equals('p', mix['fit'])}"
    if mix.get("is_separable") is False:
        fit += ", but the baseline's scores do not separate the two, so that a fault would look the same"
    return question, f"{shares}, which brings {mix['expected_rise']:+.4f}; {fit}"


def _could_be_seen(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    parts = [_rows_words(verdict)]
    most = verdict.detail.get("seen_at_most")
    if verdict.metric not in TESTS:
        if measured(verdict) is None:
            parts.append("what is undefined shows nothing")
        elif out_of_reach(verdict):
            parts.append("no truth can be beyond the threshold")
        elif verdict.detectable is None:
            parts.append("not even the largest possible change would have shown")
        else:
            limit = "" if most is None else f" (at most {number(most)} is asked for)"
            parts.append(f"{smallest_seen(verdict)} would have shown with 80% power{limit}")
    if "windows_needed" in verdict.detail:
        parts.append(
            f"it would take about {count_of(verdict.detail['windows_needed'], verdict.window.unit)} of such rows"
        )
    return "Could a change that matters have been seen?", ", and ".join(parts)


def _newest_within(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    """Only where it decided: the newest of the windows running is beyond the threshold, all of them are not."""
    newest = verdict.detail["groups"][0]
    which = f"the newest {newest['windows']} windows have" if newest["windows"] > 1 else "the newest window has"
    value = number(-newest["value"] if falls(verdict) else newest["value"])
    answer = f"{which} {value} by itself, which is {beyond_words(verdict)} {number(verdict.threshold)}"
    return "Is the newest of them within it as well?", answer


def _rows_words(verdict: Verdict) -> str:
    needed = verdict.detail.get("rows_needed")
    rows = f"there {'is' if verdict.n == 1 else 'are'} {count_of(verdict.n, ROW[verdict.where])}"
    return rows if needed is None else f"{rows} ({needed:,} are needed)"


def _enough_rows(verdict: Verdict, check: DecisionCheck) -> tuple[str, str]:
    """Only for rules that need no p-value, and of rows too few to be compared with the baseline's."""
    answer, needed = _rows_words(verdict), verdict.detail.get("rows_needed")
    known = measured(verdict) is not None or (needed is not None and verdict.n < needed)
    return "Are there enough rows?", answer if known else f"{answer}, and it is undefined"


_GATES = (_readable, _accepted, _mature, _rows, _outside_baseline, _baseline, _same_settings, _comparable, _test_result)
_DECISIONS = (
    _enough_rows, _beyond, _every_window, _sure, _enough_evidence, _behaviour, _class_mix, _could_be_seen,
    _newest_within,
)  # fmt: skip
_WORDS: Mapping[str, Callable[[Verdict, DecisionCheck], tuple[str, str]]] = {
    words.__name__.removeprefix("_"): words for words in (*_GATES, *_DECISIONS)
}
"""Each check's question and answer; a function has the name of its check."""
