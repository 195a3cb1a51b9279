"""``/automation``: every switch now, what automation did week by week, who changed what, and a form for changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from monitor.automation.state import effective
from monitor.automation.staying_off import stays_off
from monitor.core.records import SCHEDULES, Schedule, SwitchEvent, SwitchState, Verdict, Window
from monitor.core.wording import segment_name
from monitor.evaluation.label_state import LabelState, counts_text, states_of
from monitor.history.values import ANY
from monitor.report.figures import automation_work as drawings
from monitor.report.figures.automation_work import LabelWork, Work, together
from monitor.service.pages.base import Page, PageContent, PageContext, Table
from monitor.service.pages.work import WorkOfWeeks, work_of_weeks

Key = tuple[str, str | None]
SPANS = {"13": 13, "26": 26, "52": 52}
CHANGES_SHOWN = 100
LOOKS_BACK = timedelta(weeks=12)


@dataclass(frozen=True, slots=True)
class SwitchTableRow:
    """One switch on the page: its present state in words, and the score from which it may act.

    ``found`` is the state of its label by its rules, with the name of the newest window of each schedule. ``stays``
    says why it does not come back by itself, where alerts.yaml has lost the rules that would judge it.
    """

    switch: SwitchState
    allowed: bool
    state: str
    threshold: float | None
    found: tuple[tuple[str, LabelState], ...] = ()
    stays: str = ""


def make(context: PageContext) -> PageContent:
    """The switches by source and label, the weeks of work, the changes, and the form for the requested switch."""
    lines, counts = _switches(context)
    weeks = context.weeks(SPANS[context.choice("weeks", SPANS, "26")])[::-1]
    source, label = context.text("source"), context.text("label")
    done = _work(context, weeks, source, label)
    work = [together(window.name, found) for window, found in zip(weeks, done.by_week, strict=True)]
    months = _months(context, weeks, done.by_week)
    changes = _changes(context, weeks, source, label)
    values = {
        "lines": lines, "counts": counts, "spans": SPANS, "weeks": context.choice("weeks", SPANS, "26"),
        "source": source, "label": label, "sources": tuple(context.config.sources), "months": months[::-1],
        "unknown": done.unknown, "shows_until": lambda event: _shows_until(context, event),
        "drawn": [
            ("Of all predictions", drawings.share_drawing(work)),
            ("Accuracy of what could act", drawings.accuracy_drawing(work)),
            ("Errors beyond those that scores claimed", drawings.errors_drawing(work)),
        ] if work else [],
        "costs": any(each.cost is not None for each in months), "changes": changes[:CHANGES_SHOWN],
        "more_changes": max(0, len(changes) - CHANGES_SHOWN), "has_switch": source in context.config.sources,
        "enable": context.choice("switch", ("disable", "enable"), _likely(lines, source, label)) == "enable",
    }  # fmt: skip
    tables = {
        "switches": lambda: _table(lines),
        "weeks": lambda: _work_table(work),
        "months": lambda: _work_table(months),
        "changes": lambda: _changes_table(changes),
    }
    return PageContent("automation.html.j2", "Automation", values, tables)


def _likely(lines: Sequence[SwitchTableRow], source: str, label: str) -> str:
    """The likely choice in the form of a switch: the opposite of its present state."""
    is_on = any(line.allowed for line in lines if (line.switch.source, line.switch.label or "") == (source, label))
    return "disable" if is_on or not label else "enable"


def _switches(context: PageContext) -> tuple[list[SwitchTableRow], list[tuple[str, str]]]:
    """Every switch now, and how many labels are in which state."""
    stored = {(switch.source, switch.label): switch for switch in context.store.switches()}
    scores, found, identity = context.store.thresholds(), _states(context), context.store.identity()

    def line(key: Key) -> SwitchTableRow:
        source, label = key
        whole = None if label is None else stored.get((source, None))
        allowed = effective(stored[key], context.now.astimezone(UTC), whole=whole, identity=identity)
        closed = [f"{low:g} to {high:g}" for low, high in allowed.blocked]
        closed += [segment_name(*segment) for segment in allowed.segments]
        state = allowed.detail if not allowed.allowed else f"on, but for {', '.join(closed)}" if closed else "on"
        score = None if label is None else scores.get(key, scores.get((source, None)))
        states = tuple((name, of[key]) for name, of in found if key in of)
        return SwitchTableRow(
            stored[key], allowed.allowed, state, score, states, stays_off(stored[key], context.config)
        )

    lines = [line(key) for key in sorted(stored, key=lambda key: (key[0], key[1] or ""))]
    return lines, [(name, counts_text([state for (_, label), state in of.items() if label])) for name, of in found]


def _states(context: PageContext) -> list[tuple[str, dict[Key, LabelState]]]:
    """The state of every label by its rules, by the name of each newest window, weeks before days."""
    newest: dict[tuple[Schedule, str], datetime] = {}
    for row in context.store.readings_seen(context.now - LOOKS_BACK, context.now):  # newest first
        newest.setdefault((row["schedule"], row["source"]), row["window_start"])
    by_window: dict[str, list[Verdict]] = {}
    for schedule in SCHEDULES:
        for start in sorted({at for (kind, _), at in newest.items() if kind == schedule}, reverse=True):
            sources = [source for (kind, source), at in newest.items() if (kind, at) == (schedule, start)]
            for verdict in context.store.verdict_lines(schedule, [start], sources):
                by_window.setdefault(verdict.window.name, []).append(verdict)
    return [
        (name, {(subject.source, subject.label): state for subject, state in states_of(verdicts).items()})
        for name, verdicts in by_window.items()
    ]


# What automation did


def _work(context: PageContext, weeks: Sequence[Window], source: str, label: str) -> WorkOfWeeks:
    """For each week, the work of every selected label."""
    sources = [source] if source in context.config.sources else list(context.config.sources)
    labels = {
        name: [label] if label else sorted(each for each in context.store.known_labels(name) if each is not None)
        for name in sources
    }
    return work_of_weeks(context, weeks, labels)


def _months(context: PageContext, weeks: Sequence[Window], by_week: Sequence[Sequence[LabelWork]]) -> list[Work]:
    """The weeks by the month in which they begin."""
    zone = context.config.zone
    named = [(f"{window.start.astimezone(zone):%b %Y}", found) for window, found in zip(weeks, by_week, strict=True)]
    return [
        together(name, [each for _, found in group for each in found])
        for name, group in groupby(named, key=lambda pair: pair[0])
    ]


# Who changed what


def _changes(context: PageContext, weeks: Sequence[Window], source: str, label: str) -> list[SwitchEvent]:
    """Changes from on to off and back, and of blocked scores, newest first."""
    if not weeks:
        return []
    return context.store.switch_changes(source or None, label or ANY, since=weeks[0].start)[::-1]


def _shows_until(context: PageContext, event: SwitchEvent) -> bool:
    """Whether a change has an end that people should see: an enable of a critical label holds against no run."""
    if event.until is None or event.until <= event.at or event.kind == "segment_disabled":
        return False
    source = context.config.sources.get(event.source)
    return event.kind != "enabled" or source is None or not source.is_critical(event.label)


def _table(lines: Sequence[SwitchTableRow]) -> Table:
    head = ("source", "label", "state", "threshold", "lease_until", "changed_at", "changed_by", "reason")
    rows = [
        (s.source, s.label, line.state, line.threshold, s.lease_until, s.changed_at, s.actor, s.reason)
        for line in lines
        for s in (line.switch,)
    ]
    return Table(head, rows)


def _work_table(work: Sequence[Work]) -> Table:
    head = (
        "span", "predicted", "could_have_acted", "acted", "to_people", "accuracy_claimed", "accuracy", "wrong_actions",
        "extra_errors", "errors_avoided", "avoided_low", "avoided_high", "cost_of_wrong_actions", "cost_avoided",
    )  # fmt: skip
    rows = [
        (
            w.name, w.predicted, w.eligible, w.acted, w.people, w.promised, w.kept, w.wrong, w.extra, w.avoided,
            w.avoided_low, w.avoided_high, w.cost, w.cost_avoided,
        )
        for w in work
    ]  # fmt: skip
    return Table(head, rows)


def _changes_table(changes: Sequence[SwitchEvent]) -> Table:
    head = ("at", "source", "label", "kind", "from", "to", "until", "by", "reason")
    rows = [(e.at, e.source, e.label, e.kind, e.from_state, e.to_state, e.until, e.actor, e.reason) for e in changes]
    return Table(head, rows)


PAGE = Page("/automation", make, nav="Automation", query=frozenset({"weeks", "source", "label", "switch"}))
