"""The incidents of one message by label; each label has one state, one set of facts and one row of buttons. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from monitor.alerting.slack.blocks import plain
from monitor.automation.harm import Harm
from monitor.config.model import Rule
from monitor.core.records import (
    SEVERITY_RANK,
    Incident,
    IncidentEvent,
    IncidentReason,
    Interval,
    Severity,
    Subject,
    Verdict,
    Window,
)
from monitor.core.score_ranges import Ranges
from monitor.core.wording import advice, clean, count_of, reason_of, segment_name, who

RULES_NAMED = 6


@dataclass(frozen=True, slots=True)
class SwitchLine:
    """The state of a label's switch at one moment.

    ``words`` is a sentence without its full stop. ``button`` is what the message offers to undo: "on" offers to
    turn it off, "off" to turn it on, None nothing. ``allowed``: automation may act, but not on ``segments``.
    ``held_until``: an operator's enable against the evidence ends then. ``ended_by`` is whose enable has ended by
    itself at ``ended_at``, "" where none has. ``stays`` says why it does not come back by itself, where alerts.yaml has
    lost the rules that would judge it. ``short`` is ``words`` without who turned it on ("": no shorter ones).
    ``enable_helps``: an operator's enable turns it on, which it does not while every gate is closed.
    """

    words: str
    button: Literal["on", "off"] | None = None
    allowed: bool = False
    blocked: Ranges = ()
    held_until: datetime | None = None
    ended_by: str = ""
    ended_at: datetime | None = None
    segments: tuple[tuple[str, str], ...] = ()
    stays: str = ""
    short: str = ""
    enable_helps: bool = True


class Now(StrEnum):
    """The state of an incident or a label by the newest evaluation; the worst first."""

    IN_BREACH = "in breach"
    UNCONFIRMED = "above the limit, not confirmed"
    NOT_JUDGED = "not judged"
    HELD_BACK = "within the limit, not resolved yet"
    RESOLVED = "resolved"


_ORDER = {now: place for place, now in enumerate(Now)}
IN_PART = "resolved in part"
AGAIN = "open again, not in this message"
_BY_REASON = {
    IncidentReason.UNCONFIRMED_OPEN: Now.UNCONFIRMED,
    IncidentReason.NOT_EVALUATED_OPEN: Now.NOT_JUDGED,
    IncidentReason.DISAPPEARED: Now.NOT_JUDGED,
    IncidentReason.NEWEST_WITHIN_OPEN: Now.HELD_BACK,
}


@dataclass(frozen=True, slots=True)
class AlertItem:
    """One incident of a message with its last breach and the facts about it.

    ``latest`` is the verdict of its newest evaluation, ``window`` the window of that evaluation (None: that of
    ``verdict``). ``switch`` is its present switch, ``harm`` the harm that automation has done, ``excess_errors`` how
    many more of the items that may be automated were wrong than their scores claimed. ``worst_segment`` is the
    segment that fails most, ``last`` the newest event of the incident. ``open_elsewhere`` are the rules of its label
    whose incidents are not resolved and not in this message (another route may have taken them), or not in this reply.
    """

    verdict: Verdict
    incident: Incident
    rule: Rule | None = None
    baseline_interval: Interval | None = None
    switch: SwitchLine | None = None
    harm: Harm | None = None
    excess_errors: float | None = None
    worst_segment: str = ""
    last: IncidentEvent | None = None
    latest: Verdict | None = None
    window: Window | None = None
    open_elsewhere: tuple[str, ...] = ()

    @property
    def newest(self) -> Window:
        """The newest window that an evaluation saw for this incident."""
        window = self.window or (self.latest.window if self.latest is not None else self.verdict.window)
        return max(window, self.verdict.window, key=lambda window: window.end)

    @property
    def now(self) -> Now:
        """Its state by the newest evaluation."""
        if self.incident.state == "resolved":
            return Now.RESOLVED
        reason = reason_of(self.last)  # comes before the count of good windows, which may be older
        otherwise = Now.HELD_BACK if self.incident.ok_windows else Now.IN_BREACH
        return otherwise if reason is None else _BY_REASON.get(reason, otherwise)


@dataclass(frozen=True, slots=True)
class LabelFindings:
    """All incidents of one label in one message; the first of ``findings`` is the one that the message describes."""

    findings: tuple[AlertItem, ...]

    @property
    def lead(self) -> AlertItem:
        """The worst of the findings."""
        return self.findings[0]

    @property
    def key(self) -> tuple[str, str | None]:
        """(source, label)."""
        return self.lead.incident.source, self.lead.incident.label

    @property
    def name(self) -> str:
        """The label as the beginning of a sentence."""
        return who(self.lead.verdict.subject)

    @property
    def now(self) -> Now:
        """The worst state by the newest evaluations."""
        return min((each.now for each in self.findings), key=_ORDER.__getitem__)

    @property
    def severity(self) -> Severity:
        """The highest severity of the incidents that are not resolved, else of all."""
        return min((f.verdict.severity for f in self.unresolved or self.findings), key=SEVERITY_RANK.__getitem__)

    @property
    def unresolved(self) -> tuple[AlertItem, ...]:
        """The findings that are not resolved."""
        return tuple(each for each in self.findings if each.now != Now.RESOLVED)

    @property
    def lead_id(self) -> str:
        """The id of the worst incident that is not resolved; buttons carry it, and act on all of the label's."""
        return (self.unresolved or self.findings)[0].incident.id

    @property
    def state(self) -> str:
        """open, acknowledged, silenced or resolved; open where any incident still mentions people."""
        states = {each.incident.state for each in self.findings}
        return next(each for each in ("open", "acknowledged", "silenced", "resolved") if each in states)

    @property
    def is_resolved_in_part(self) -> bool:
        """Whether all incidents of this message are resolved, but others of the label are not."""
        return self.now == Now.RESOLVED and bool(self.lead.open_elsewhere)

    @property
    def state_when_resolved(self) -> str:
        """What a label is whose incidents in this message are all resolved; a later incident may have its rule."""
        if not self.is_resolved_in_part:
            return Now.RESOLVED.value
        return IN_PART if self._resolved_rules else AGAIN

    def resolved_words(self, name: str) -> str:
        """What is resolved: the label, or only these rules of it."""
        if self.is_resolved_in_part and self._resolved_rules:
            return f"{name}: {_listed(self._resolved_rules)} resolved"
        return f"{name} {self.state_when_resolved}"

    @property
    def _resolved_rules(self) -> list[str]:
        """The rules that are resolved, each once: not those of which another incident of this label is open."""
        still = {*self.lead.open_elsewhere, *(each.incident.rule for each in self.unresolved)}
        return [rule for rule in dict.fromkeys(each.incident.rule for each in self.findings) if rule not in still]

    @property
    def ended(self) -> AlertItem:
        """The finding that was resolved last, of the rules that have not failed again if there are any."""
        over = [each for each in self.findings if each.incident.rule in self._resolved_rules] or self.findings
        return max(over, key=lambda each: (each.incident.resolved_at is not None, each.incident.resolved_at))

    @property
    def elsewhere_words(self) -> str:
        """The rules of this label that are not resolved; "" where all are."""
        rules = self.lead.open_elsewhere if self.is_resolved_in_part else ()
        return f"Not resolved, and not in this message: {_listed(rules)}" if rules else ""

    @property
    def not_resolved_words(self) -> str:
        """The same in a reply, whose thread may be that of these rules too."""
        return f"Not resolved: {_listed(self.lead.open_elsewhere)}" if self.is_resolved_in_part else ""

    def others(self, *, failing: bool) -> str:
        """The other rules by name, grouped by their state in the newest evaluation; "" where there are none.

        Those in breach are named with ``failing`` only.

        A rule that was resolved and failed again has two incidents in one message. It is named once, by its present
        state: the first of its findings, since the worst come first and only one of its incidents can be open.
        """
        known: dict[str, Now] = {}
        for each in self.findings:
            known.setdefault(each.incident.rule, each.now)
        del known[self.lead.incident.rule]
        grouped = ((words, [rule for rule in known if known[rule] == now]) for now, words in _OTHERS.items())
        if not failing:
            grouped = ((words, rules) for words, rules in grouped if words != _OTHERS[Now.IN_BREACH])
        return " ".join(f"{words}: {_listed(rules)}." for words, rules in grouped if rules)


def _listed(rules: Collection[str]) -> str:
    names = [clean(each) for each in rules]
    more = f" and {len(names) - RULES_NAMED} more" if len(names) > RULES_NAMED else ""
    return f"{', '.join(names[:RULES_NAMED])}{more}"


_OTHERS = {
    Now.IN_BREACH: "Also failing",
    Now.UNCONFIRMED: "Above the limit, not confirmed",
    Now.NOT_JUDGED: "Not judged",
    Now.HELD_BACK: "Within the limit, not resolved yet",
    Now.RESOLVED: "Resolved",
}


def by_label(findings: Sequence[AlertItem]) -> list[LabelFindings]:
    """The labels of a message: the most severe first, resolved ones last.

    In each, the finding with the worst state in the newest evaluation comes first and gives the label its state.
    """
    groups: dict[tuple[str, str | None], list[AlertItem]] = {}
    for finding in sorted(findings, key=lambda each: (_ORDER[each.now], *_place(each))):
        groups.setdefault((finding.incident.source, finding.incident.label), []).append(finding)
    labels = (LabelFindings(tuple(each)) for each in groups.values())
    return sorted(labels, key=lambda each: (each.now == Now.RESOLVED, SEVERITY_RANK[each.severity], *_place(each.lead)))


def _place(finding: AlertItem) -> tuple[int, int, float, str, str, bool, str]:
    verdict, excess = finding.verdict, finding.excess_errors or 0.0
    subject, rank = verdict.subject, (SEVERITY_RANK[verdict.severity], _ORDER[finding.now], -excess)
    return (*rank, subject.source, subject.label or "", verdict.metric != "overconfidence", verdict.rule)


def newest_window(findings: Sequence[AlertItem], schedule: str | None = None) -> Window | None:
    """The newest window in which any of the findings was seen; with ``schedule``, of that schedule.

    Only findings that are not resolved count, if there are any: a day on which one ended says nothing about the others.
    """
    unresolved = [each for each in findings if each.now != Now.RESOLVED]
    all_windows = [window for each in unresolved or findings for window in (each.newest, each.verdict.window)]
    candidates = [window for window in all_windows if schedule in (None, window.schedule)]
    return max(candidates, key=lambda window: (window.end, window.schedule == "weekly"), default=None)


def headline(labels: Sequence[LabelFindings], window: Window) -> str:
    """The message in one line of plain text: the label or the number of labels, their state, the newest window."""
    over = all(each.now == Now.RESOLVED for each in labels)
    if len(labels) > 1:
        whole = over and not any(each.is_resolved_in_part for each in labels)
        what = f"all {len(labels)} labels resolved" if whole else ", ".join(_counts(labels))
    elif over:
        what = labels[0].resolved_words(plain(labels[0].name))
    else:
        (only,) = labels
        marks = [only.severity, *([only.state] if only.state != "open" else [])]
        what = f"{plain(only.name)} {only.now.value}: {', '.join(marks)}"
    return f"{what} ({window.name})"


def _counts(labels: Sequence[LabelFindings]) -> Iterator[str]:
    known = Counter(each.state_when_resolved if each.now == Now.RESOLVED else each.now.value for each in labels)
    (first, number), *rest = [(now, known[now]) for now in (*_ORDER, IN_PART, AGAIN) if known[now]]
    yield f"{count_of(number, 'label')} {first}"
    yield from (f"{number} {now}" for now, number in rest)
    critical = sum(each.severity == "critical" and each.now != Now.RESOLVED for each in labels)
    if critical:
        yield f"{critical} critical"
    by_state = [(state, sum(each.state == state for each in labels)) for state in ("acknowledged", "silenced")]
    yield from (f"{number} {state}" for state, number in by_state if number)


def tonight(label: LabelFindings) -> str:
    """What a person on call does at any hour: as little as is safe."""
    switch, lead = label.lead.switch, label.lead.verdict
    first = "look through recent items for missed ones; " if lead.metric == "false_negative_rate" else ""
    return first + _about_the_switch(label, switch)


def _about_the_switch(label: LabelFindings, switch: SwitchLine | None) -> str:
    if switch is not None and not switch.allowed:
        waits = "people decide these items: check that somebody does"
        return waits if switch.button is not None else "nothing acts alone, nothing to do"
    if switch is not None and switch.held_until is not None:
        return "automation goes on as its operator wants: turn it off if their reason no longer holds"
    if switch is not None and switch.blocked:
        return "people decide the items in the blocked scores: check that somebody does"
    if switch is not None and switch.segments:
        parts = ", ".join(segment_name(*segment) for segment in switch.segments)
        return f"people decide the items of {parts}: check that somebody does"
    if label.severity == "critical" and label.now == Now.IN_BREACH:
        return _about_a_critical_breach(label.lead.verdict.subject, switch)
    return "nothing to do"


def _about_a_critical_breach(subject: Subject, switch: SwitchLine | None) -> str:
    """What is done about automation that may go on; ``switch`` None: of a source as a whole it was never set."""
    if switch is not None:
        return "turn automation off if wrong items do harm"
    if subject.label is not None:
        return "nothing to do"
    return (  # its labels may act
        "turn automation off where wrong items do harm: "
        f"`calmon automation disable --source {shlex.quote(subject.source)} --label LABEL --reason TEXT`, "
        "or `--all` for every label"
    )


def tomorrow(label: LabelFindings) -> str:
    """What the team does in working hours: find the cause, then fix it."""
    lead = label.lead
    if reason_of(lead.last) == IncidentReason.DISAPPEARED and lead.now == Now.NOT_JUDGED:
        ids = " or ".join(each.incident.id[:8] for each in label.unresolved)
        return (
            "check whether outcomes of this label still reach the warehouse. If it is gone for good: "
            f'`calmon incidents resolve {ids} --reason "..."`.'
        )
    if label.now in _NEXT:
        return _NEXT[label.now]
    text = _TOMORROW.get((lead.verdict.metric, lead.verdict.reason.value)) or advice(lead.verdict)
    is_off = lead.switch is not None and not lead.switch.allowed and lead.switch.button is not None
    end = ", then turn automation on." if is_off and lead.verdict.metric == "overconfidence" else ""
    return f"{text[:1].lower()}{text[1:].rstrip('.') if end else text[1:]}{end}"


_NEXT = {
    Now.UNCONFIRMED: "find the cause of the last breach; the next window decides.",
    Now.NOT_JUDGED: "find out why it was not judged (`calmon explain`).",
    Now.HELD_BACK: "nothing to do; the next window decides.",
}
_TOMORROW = {
    ("overconfidence", "above_threshold"): "Read wrong items (`calmon examples`), raise `automate_at` or recalibrate.",
    ("mce", "above_threshold"): "Recalibrate if the next window is as wrong.",
    ("false_negative_rate", "above_threshold"): "Lower the decision threshold or retrain.",
}
