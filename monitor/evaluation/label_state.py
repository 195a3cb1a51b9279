"""The state of a label for people, from its verdicts: worst first, with the rules and reasons behind it. Pure.

The page, the terminal, Markdown, the exports, the run's summary, the dashboard and /metrics all use it.
A label is ``ok`` only where every one of its rules was evaluated and is within its threshold. The handbook's traffic
light is separate: a band of the numbers, shown as "level" (:func:`monitor.report.data.level`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from monitor.core.records import Outcome, Severity, Verdict
from monitor.core.wording import FLOORS

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


class State(StrEnum):
    """The states, worst first."""

    BREACH = "breach"
    UNCONFIRMED = "unconfirmed"
    NOT_EVALUATED = "not_evaluated"
    OK = "ok"
    NO_RULE = "no_rule"


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of the state in words: ``what`` it is, and ``which`` rules with their reasons."""

    state: State
    what: str
    which: str = ""
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class LabelState:
    """The state of one subject, and the verdicts behind it: each group the most severe first, then by rule."""

    state: State
    breaches: tuple[Verdict, ...] = ()
    unconfirmed: tuple[Verdict, ...] = ()
    not_evaluated: tuple[Verdict, ...] = ()
    ok: tuple[Verdict, ...] = ()

    @property
    def severity(self) -> Severity | None:
        """The severity of the worst breach, else of the worst unconfirmed verdict; None where there is neither."""
        found = self.breaches or self.unconfirmed
        return found[0].severity if found else None

    @property
    def evaluated(self) -> bool:
        """Whether any rule could be judged."""
        return bool(self.breaches or self.unconfirmed or self.ok)

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The state in words, worst first: every rule that is not within its threshold is named."""
        return tuple(_clauses(self))

    @property
    def lines(self) -> tuple[str, ...]:
        """The clauses as texts.

        >>> state_of([]).lines
        ('no rule',)
        """
        return tuple(f"{clause.what}: {clause.which}" if clause.which else clause.what for clause in self.clauses)

    @property
    def words(self) -> str:
        """The lines as one text."""
        return "; ".join(self.lines)

    @property
    def rank(self) -> tuple[int, int]:
        """The sort key from the worst state to the best: by state, then by severity."""
        severity = len(SEVERITIES) if self.severity is None else SEVERITIES.index(self.severity)
        return list(State).index(self.state), severity


def state_of(verdicts: Iterable[Verdict]) -> LabelState:
    """The state of the subject whose verdicts these are, in one window or in the newest of each schedule."""
    of: dict[Outcome, list[Verdict]] = {"breach": [], "unconfirmed": [], "not_evaluated": [], "ok": []}
    for verdict in sorted(verdicts, key=lambda each: (SEVERITIES.index(each.severity), each.rule)):
        of[verdict.outcome].append(verdict)
    worst = next((outcome for outcome, found in of.items() if found), "no_rule")
    return LabelState(State(worst), *(tuple(found) for found in of.values()))


def counted(states: Iterable[LabelState]) -> dict[State, int]:
    """The number of labels in each state, worst first, zeros included."""
    found = [each.state for each in states]
    return {state: found.count(state) for state in State}


def not_confirmed(verdict: Verdict) -> str:
    """An unconfirmed verdict in words: ``below`` the limit for rules with a lower limit, else ``above``."""
    side = "below" if verdict.detail.get("condition") in FLOORS else "above"
    return f"{side} the limit, not confirmed"


def reasons_text(verdicts: Iterable[Verdict]) -> str:
    """Why rules were not evaluated: each reason with its rules.

    >>> reasons_text([])
    ''
    """
    by_reason: dict[str, list[str]] = {}
    for verdict in verdicts:
        by_reason.setdefault(verdict.reason.value, []).append(_rule(verdict))
    return ", ".join(f"{reason} ({', '.join(dict.fromkeys(rules))})" for reason, rules in by_reason.items())


def _clauses(found: LabelState) -> Iterable[Clause]:
    for severity in SEVERITIES:
        group = [v for v in found.breaches if v.severity == severity]
        if group:
            yield Clause(State.BREACH, f"{severity} breach", _named(group), severity)
    for words in dict.fromkeys(not_confirmed(v) for v in found.unconfirmed):
        group = [v for v in found.unconfirmed if not_confirmed(v) == words]
        yield Clause(State.UNCONFIRMED, words, _named(group), group[0].severity)
    if found.not_evaluated:
        yield Clause(State.NOT_EVALUATED, "not evaluated", reasons_text(found.not_evaluated))
    if found.state is State.OK:
        many = len(found.ok)
        yield Clause(State.OK, "ok", "its rule was evaluated" if many == 1 else f"all {many} rules were evaluated")
    elif found.state is State.NO_RULE:
        yield Clause(State.NO_RULE, "no rule")


def _named(verdicts: Iterable[Verdict]) -> str:
    return ", ".join(f"{_rule(v)} ({v.reason.value})" for v in verdicts)


def _rule(verdict: Verdict) -> str:
    segment = verdict.subject.segment
    return verdict.rule if segment is None else f"{verdict.rule} [{segment[0]}={segment[1]}]"
