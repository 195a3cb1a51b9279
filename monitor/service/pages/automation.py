"""``/automation``: every switch as it is now, with what the rules say of its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from monitor.automation.state import effective
from monitor.core.records import SCHEDULES, SwitchState, Verdict
from monitor.evaluation.label_state import LabelState, counts_text, states_of
from monitor.report.newest import newest_verdicts
from monitor.service.pages.base import Page, PageContent, PageContext, Table

Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class SwitchTableRow:
    """One switch on the page: what holds now, in words, and the score from which it may act.

    ``found`` is what its rules say, by the name of the newest window of each schedule.
    """

    switch: SwitchState
    allowed: bool
    state: str
    threshold: float | None
    found: tuple[tuple[str, LabelState], ...] = ()


def make(asked: PageContext) -> PageContent:
    """The switches by source and label, and how many labels are in which state."""
    stored = {(switch.source, switch.label): switch for switch in asked.store.switches()}
    scores, found = asked.store.thresholds(), _states(asked)

    def line(key: Key) -> SwitchTableRow:
        source, label = key
        whole = None if label is None else stored.get((source, None))
        allowed = effective(stored[key], asked.now.astimezone(UTC), whole=whole)
        blocked = ", ".join(f"{low:g} to {high:g}" for low, high in allowed.blocked)
        state = allowed.detail if not allowed.allowed else f"on, but for {blocked}" if blocked else "on"
        score = None if label is None else scores.get(key, scores.get((source, None)))
        said = tuple((name, of[key]) for name, of in found if key in of)
        return SwitchTableRow(stored[key], allowed.allowed, state, score, said)

    lines = [line(key) for key in sorted(stored, key=lambda key: (key[0], key[1] or ""))]
    counts = [(name, counts_text([state for (_, label), state in of.items() if label])) for name, of in found]
    values = {"lines": lines, "counts": counts}
    return PageContent("automation.html.j2", "Automation", values, {"switches": lambda: _table(lines)})


def _states(asked: PageContext) -> list[tuple[str, dict[Key, LabelState]]]:
    """What the rules say of every label, by the name of each newest window, weeks before days."""
    by_window: dict[str, list[Verdict]] = {}
    for schedule in SCHEDULES:
        for verdict in newest_verdicts(asked.store, schedule, asked.config.sources):
            by_window.setdefault(verdict.window.name, []).append(verdict)
    return [
        (name, {(subject.source, subject.label): state for subject, state in states_of(mine).items()})
        for name, mine in by_window.items()
    ]


def _table(lines: Sequence[SwitchTableRow]) -> Table:
    head = ("source", "label", "state", "threshold", "lease_until", "changed_at", "changed_by", "reason")
    rows = [
        (s.source, s.label, line.state, line.threshold, s.lease_until, s.changed_at, s.actor, s.reason)
        for line in lines
        for s in (line.switch,)
    ]
    return Table(head, rows)


PAGE = Page("/automation", make, nav="Automation")
