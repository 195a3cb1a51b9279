"""``/automation``: every switch now, what automation did month by month, who changed what, and a form for changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from monitor.automation.as_of import lease_ends
from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import SwitchEvent, SwitchState, Window
from monitor.history.values import ANY
from monitor.report.csv_table import Table
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.service.pages.work import Work, steps_of, work_by_month
from monitor.story.gather import LOOKS_BACK
from monitor.story.switch import SwitchStory

SPANS = {"13": 13, "26": 26, "52": 52}
LEASE_ENDED = "lease ended"


def make(context: PageContext) -> PageContent:
    """The switches by source and label, the months of work, the changes, and the form for the requested switch."""
    chosen = context.choice("weeks", SPANS, "26")
    weeks = context.weeks(SPANS[chosen])[::-1]
    source, label = context.text("source"), context.text("label")
    store, sources = context.store, [source] if source in context.config.sources else context.config.sources
    labels = {
        name: [label] if label else sorted(each for each in store.known_labels(name) if each is not None)
        for name in sources
    }
    months = work_by_month(context, weeks, labels) if weeks else {}
    changes = _changes(context, weeks, source, label)
    values = {
        "lines": list(_switches(context)), "spans": SPANS, "weeks": chosen, "source": source, "label": label,
        "months": list(months.items())[::-1], "shows_until": partial(_shows_until, context),
        "costs": any(work.priced or work.spared for work in months.values()), "changes": changes,
        "enable": context.choice("switch", ("disable", "enable"), "disable") == "enable",
    }  # fmt: skip
    tables = {
        "months": lambda: _work_table(months),
        "changes": lambda: Table.of(
            changes, "at", "source", "label", "kind", "from=from_state", "to=to_state", "until", "by=actor", "reason"
        ),
    }
    return PageContent("automation.html.j2", "Automation", values, tables)


def _switches(context: PageContext) -> Iterator[tuple[SwitchState, SwitchStory, DiagnosisState | None, float | None]]:
    """Every switch now, by source and label: its story, the state of its label, the score from which it acts."""
    tells, scores = teller(context), context.store.thresholds()
    newest = context.store.newest_diagnoses(back=LOOKS_BACK, until=context.now)
    states = {(each.source, each.label): each.state for each in newest}
    for switch in sorted(context.store.switches(), key=lambda each: (each.source, each.label or "")):
        key = switch.source, switch.label
        state = states.get(key)  # None: not judged
        story = tells.switch_now(switch, against=state is DiagnosisState.UNSAFE)
        yield switch, story, state, None if key[1] is None else scores.get(key, scores.get((key[0], None)))


def _changes(context: PageContext, weeks: Sequence[Window], source: str, label: str) -> list[SwitchEvent]:
    """Changes from on to off and back, of blocked scores, and leases that ended, newest first."""
    if not weeks:
        return []
    since = weeks[0].start
    changes = context.store.switch_changes(source or None, label or ANY, since=since)
    ended = [
        SwitchEvent(LEASE_ENDED, name, own, at, LEASE_ENDED, "on", "off", "", "nothing renewed it")
        for name in ([source] if source else context.config.sources)
        for (_, own), steps in steps_of(context, name, weeks).items()
        if label in ("", own)
        for at in lease_ends(steps, context.now)
        if at >= since
    ]
    return sorted([*changes, *ended], key=lambda event: event.at, reverse=True)


def _shows_until(context: PageContext, event: SwitchEvent) -> bool:
    """Whether a change has an end that people should see: an enable of a critical label holds against no run."""
    if event.until is None or event.until <= event.at or event.kind == "segment_disabled":
        return False
    source = context.config.sources.get(event.source)
    return event.kind != "enabled" or source is None or not source.is_critical(event.label)


def _work_table(months: Mapping[str, Work]) -> Table:
    records = [
        {**asdict(work), "month": month, "low": work.limits[0], "high": work.limits[1]}
        for month, work in months.items()
    ]
    return Table.of(
        records, "month", "predicted", "could_have_acted=eligible", "acted", "wrong_actions=wrong",
        "extra_errors=extra", "errors_avoided=avoided", "avoided_low=low", "avoided_high=high",
        "cost_of_wrong_actions=priced", "cost_avoided=spared",
    )  # fmt: skip


PAGE = Page("/automation", make, nav="Automation", query=frozenset({"weeks", "source", "label", "switch"}))
