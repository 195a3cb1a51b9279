"""``/``: what needs somebody first, in words; then what is degraded, what cannot be told, and what is fine."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import SCHEDULES, TimelineEvent, Window
from monitor.core.windows import span
from monitor.report.csv_table import Table
from monitor.report.figures.strip import strip
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.service.pages.incidents import what_of
from monitor.story.label import STATE_WORDS, LabelStory
from monitor.story.window import source_stories

Key = tuple[str, str | None]


def make(context: PageContext) -> PageContent:
    """The labels that pass the filters, as of now or as of a past week."""
    week, weeks = context.week(), context.weeks()
    # the weeks of the strips, oldest first, with those that were not evaluated; the last is the one shown
    shown = [] if week is None else span(weeks[-1], week, context.config.zone)[-context.range_weeks() :]
    states, names = _states(context, shown), [window.name for window in shown]
    source, text = context.text("source"), context.text("q").casefold()
    stories = [
        each
        for each in teller(context, week).of_all()
        if source in ("", each.source) and text in f"{each.source}/{each.label or ''}".casefold()
    ]
    groups = {state.value: [story for story in stories if _group(story) is state] for state in DiagnosisState}
    # the newest runs of both schedules: a source may have missed some windows
    runs = [run for schedule in SCHEDULES for run in context.store.runs(schedule, limit=12, until=context.now)]
    values = {
        "week": week, "weeks": weeks, "groups": groups, "shown": shown, "stories": stories,
        "drawn": lambda each: strip(states.get((each.source, each.label), [""] * len(names)), names, STATE_WORDS),
        "sources": source_stories(runs, context.config.sources, context.now),
        # nothing is said of the monitor itself as of a past week
        "of_monitor": () if context.text("week") else context.store.unresolved_incidents(of_monitor=True),
        "what": what_of, "events": _events(context, shown),
    }  # fmt: skip
    cost = (f"{name}=diagnosis.cost.{name}" for name in ("items", "correct", "claimed", "extra_errors"))
    columns = (
        "source", "label", "state", "problem=diagnosis.problem", "since=diagnosis.since.window",
        "found=diagnosis.found", *cost, "automation=switch.state", "cause", "reason=diagnosis.reason", "window",
        "sentence", "next_step",
    )  # fmt: skip
    return PageContent("overview.html.j2", "Overview", values, {"labels": lambda: Table.of(stories, *columns)})


def _group(story: LabelStory) -> DiagnosisState:
    """A label that has vanished needs somebody, and a source of which other labels tell all needs nobody."""
    if story.needs_somebody == story.diagnosis.is_trouble:
        return story.state
    if story.goes_on_unseen and story.trouble is not None:
        return story.trouble.state
    return DiagnosisState.DEGRADED if story.needs_somebody else DiagnosisState.FINE


def _states(context: PageContext, shown: Sequence[Window]) -> dict[Key, list[str]]:
    """The state of each label in each week; "" where it was not judged."""
    places = {window.start: place for place, window in enumerate(shown)}
    states: dict[Key, list[str]] = {}
    if shown:
        for source, label, start, state in context.store.states_of_weeks(since=shown[0].start, until=shown[-1].end):
            if start in places:
                states.setdefault((source, label), [""] * len(shown))[places[start]] = state
    return states


def _events(context: PageContext, shown: Sequence[Window]) -> list[TimelineEvent]:
    """The events of the weeks shown, newest first."""
    if not shown:
        return []
    source = context.text("source") or None
    return context.store.timeline(source, since=shown[0].start, until=shown[-1].end)[::-1]


PAGE = Page("/", make, nav="Overview", query=frozenset({"week", "range", "source", "q"}))
