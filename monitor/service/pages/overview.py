"""``/``: the overview: tiles, and every label over the weeks in bands of its rules' thresholds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any

from markupsafe import Markup

from monitor.automation.as_of import any_on, on_spans
from monitor.automation.state import Allowed, effective, of_source
from monitor.config.model import Rule
from monitor.core.records import (
    SEVERITY_RANK,
    Identity,
    Subject,
    SwitchState,
    TimelineEvent,
    Verdict,
    Window,
)
from monitor.core.wording import count_of
from monitor.evaluation.label_state import LabelState, State, state_of, states_of
from monitor.history.grid import steps_by_label
from monitor.report import words
from monitor.report.figures import heat
from monitor.report.figures.automation_work import together
from monitor.report.figures.svg import figure, number
from monitor.service.pages.base import Page, PageContent, PageContext, Table
from monitor.service.pages.work import work_of_weeks

LOOKS_BACK = 12
"""How many weeks are looked through for the newest of each source: a run may be about one source only."""
FOLDED = 50
"""How many labels are shown unless all are requested."""
_STATES = (*(state.value for state in State), "off")
Spans = Sequence[tuple[datetime, datetime]]


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One label: its state in the week, the verdict that is farthest beyond its threshold, and its switch now."""

    subject: Subject
    state: LabelState
    worst: Verdict | None
    share: float
    automation: Allowed

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place by attention: by state and severity, then by how far it is beyond its threshold, then by name."""
        return self.state.rank, -self.share, self.subject.source, self.subject.label or ""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number above the grid, what it means, and its link."""

    name: str
    value: str
    about: str
    link: str


@dataclass(frozen=True)
class Overview:
    """What the page reads; each part is read once."""

    context: PageContext
    windows: Sequence[Window]
    """Oldest first; the last is the one shown."""
    rules: Mapping[str, Rule]

    @property
    def week(self) -> Window:
        """The week shown."""
        return self.windows[-1]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """For each source, the verdicts of the newest week, up to the one shown, in which it was read."""
        looked = self.windows[-LOOKS_BACK:]
        newest: dict[str, datetime] = {}
        for row in self.context.store.readings_seen(looked[0].start, self.week.start):  # newest first
            if row["schedule"] == "weekly":
                newest.setdefault(row["source"], row["window_start"])
        found: list[Verdict] = []
        for start in sorted(set(newest.values())):
            sources = [source for source, at in newest.items() if at == start]
            found += self.context.store.verdict_lines("weekly", [start], sources)
        return found

    @cached_property
    def switches(self) -> dict[tuple[str, str | None], SwitchState]:
        """Every switch that was ever set."""
        return {(each.source, each.label): each for each in self.context.store.switches()}

    @cached_property
    def identity(self) -> Identity:
        """The history's own: on a copy of one nothing may act."""
        return self.context.store.identity()

    @cached_property
    def states(self) -> dict[Subject, LabelState]:
        """The state of each label under all rules, by name."""
        return states_of(self.verdicts)

    def allowed(self, subject: Subject) -> Allowed:
        """Whether automation may act now for a label, or for which part of a source's labels."""
        key, now = (subject.source, subject.label), self.context.now.astimezone(UTC)
        if subject.label is None:
            return of_source(subject.source, self.switches, now, identity=self.identity)
        state, whole = self.switches.get(key, SwitchState(*key)), self.switches.get((subject.source, None))
        return effective(state, now, whole=whole, identity=self.identity)

    @cached_property
    def events(self) -> list[TimelineEvent]:
        """The events around the labels, newest first."""
        source = self.context.text("source") or None
        found = self.context.store.timeline(source, since=self.windows[0].start, until=self.week.end)
        return list(reversed(found))

    @cached_property
    def shares(self) -> dict[str, tuple[float, float, float]]:
        """The factors of :func:`heat.share_of` by rule, as the grid uses them."""
        found = {id: heat.share_of(rule) for id, rule in self.rules.items()}
        return {id: share for id, share in found.items() if share is not None}


def make(context: PageContext) -> PageContent:
    """The overview of the week, for the labels that pass the filters."""
    shown, known = context.week(), list(reversed(context.weeks()))
    windows = [window for window in known if shown is not None and window.start <= shown.start]
    weekly = {rule.id: rule for rule in context.config.rules_for("weekly")}
    rule = context.choice("rule", weekly, "all")
    rules = weekly if rule == "all" else {rule: weekly[rule]}
    overview = Overview(context, windows, rules)
    chosen = sorted(_rows(overview), key=lambda row: row.order) if windows else []
    folded = context.choice("show", ["all"], "first") == "first"
    first = chosen[:FOLDED] if folded else chosen
    values: dict[str, Any] = {
        "week": shown, "weeks": [window.name for window in reversed(known)], "rules": list(weekly), "states": _STATES,
        "severities": list(SEVERITY_RANK), "rows": first, "hidden": len(chosen) - len(first), "total": len(chosen),
        "letters": heat.LETTERS, "drawn": _grid(overview, first) if windows else {}, "windows": windows,
        "tiles": _tiles(overview) if windows else [], "as_text": context.choice("as", ["text"], "drawing") == "text",
        "bands": _BANDS, "counted": _counted(chosen),
    }  # fmt: skip
    values |= {"events": overview.events, "strip": _strip(overview)} if windows else {"events": [], "strip": Markup()}
    values["before"] = {event: _week_before(windows, event.at) for event in values["events"]}
    tables = {"labels": lambda: _labels_table(chosen), "grid": lambda: _grid_table(overview, chosen)}
    return PageContent("overview.html.j2", "Overview", values, tables)


def _counted(rows: Sequence[OverviewRow]) -> str:
    """How many labels, and how many sources as a whole, the rows are of."""
    wholes = sum(row.subject.label is None for row in rows)
    labels = len(rows) - wholes
    found = count_of(labels, "label")
    return f"{found} and {count_of(wholes, 'source')} as a whole" if wholes else found


def _rows(overview: Overview) -> Iterable[OverviewRow]:
    """The labels that pass the filters, in no order."""
    context = overview.context
    by_label: dict[Subject, list[Verdict]] = {subject: [] for subject in overview.states}
    for verdict in overview.verdicts:
        if verdict.rule in overview.rules:
            by_label[verdict.subject].append(verdict)
    source, text = context.text("source"), context.text("q").casefold()
    state, severity = context.choice("state", _STATES, "any"), context.choice("severity", SEVERITY_RANK, "any")
    for subject, verdicts in by_label.items():
        found, allowed = state_of(verdicts), overview.allowed(subject)
        fits = (
            source in ("", subject.source),
            text in f"{subject.source}/{subject.label or ''}".casefold(),
            state in ("any", found.state.value) or (state == "off" and not allowed.allowed),
            severity in ("any", found.severity),
        )
        if all(fits):
            worst = max(verdicts, key=lambda v: (v.outcome == "breach", _share(overview, v)), default=None)
            yield OverviewRow(subject, found, worst, 0.0 if worst is None else _share(overview, worst), allowed)


def _share(overview: Overview, verdict: Verdict) -> float:
    """The share of the way to its threshold that a verdict's value went; 0 without a value."""
    factors = overview.shares.get(verdict.rule)
    if factors is None or verdict.value is None or verdict.outcome == "not_evaluated":
        return 0.0
    return factors[0] * verdict.value + factors[1] * (verdict.baseline or 0.0) + factors[2]


# The grid


def _letters(overview: Overview, rows: Iterable[OverviewRow]) -> dict[Subject, str]:
    """The letters of each label, one for each week."""
    starts = [window.start for window in overview.windows]
    found: dict[Subject, list[str]] = {row.subject: [heat.MISSING] * len(starts) for row in rows}
    for source, subjects in _by_source(found):
        labels = [each.label for each in subjects]
        cells = overview.context.store.grid_cells(source, labels, starts, schedule="weekly", shares=overview.shares)
        row_of = {each.label: found[each] for each in subjects}
        for label, place, worst, least, share in cells:
            row_of[label][place] = heat.letter(worst, least, share)
    return {subject: "".join(each) for subject, each in found.items()}


def _by_source(subjects: Iterable[Subject]) -> Iterable[tuple[str, list[Subject]]]:
    ordered = sorted(subjects, key=lambda subject: (subject.source, subject.label or ""))
    return ((source, list(group)) for source, group in groupby(ordered, key=lambda subject: subject.source))


def _grid(overview: Overview, rows: Sequence[OverviewRow]) -> dict[Subject, tuple[str, Markup]]:
    """For each label, its letters and its drawing."""
    letters, names = _letters(overview, rows), [window.name for window in overview.windows]
    starts, end = [window.start for window in overview.windows], overview.week.end
    found, gates = {}, overview.context.store.gate_events()
    for source, subjects in _by_source(letters):
        labels = [each.label for each in subjects]
        steps = overview.context.store.switch_steps(source, None if None in labels else labels)
        by_label = steps_by_label(steps)
        whole, until = by_label.pop("", []), min(end, overview.context.now)
        for subject in subjects:
            if subject.label is None:
                on = any_on(by_label.values(), whole, gates, starts[0], until)
            else:
                on = on_spans(by_label.get(subject.label, []), whole, gates, starts[0], until)
            off = [(_place(starts, end, a), _place(starts, end, b)) for a, b in _between(on, starts[0], end)]
            drawn = heat.heat_row(letters[subject], off, f"{subject.name}: {heat.in_words(letters[subject], names)}")
            found[subject] = letters[subject], drawn
    return found


def _between(on: Spans, start: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    """The gaps between spans."""
    since = start
    for low, high in on:
        if low > since:
            yield since, low
        since = high
    if since < end:
        yield since, end


def _place(starts: Sequence[datetime], end: datetime, at: datetime) -> float:
    """The place of a time, in cells: weeks without a run have no cell."""
    place = max(bisect_right(starts, at) - 1, 0)
    following = starts[place + 1] if place + 1 < len(starts) else end
    share = (at - starts[place]) / (following - starts[place])
    return place + min(max(share, 0.0), 1.0)


# The tiles


def _tiles(overview: Overview) -> list[Tile]:
    context, states = overview.context, overview.states
    labels = {subject: state for subject, state in states.items() if subject.label is not None}
    of = {state: sum(each.state is state for each in labels.values()) for state in State}
    off = sum(not overview.allowed(subject).allowed for subject in labels)
    open_now = context.store.unresolved_incidents()
    named = f"of {count_of(len(labels), 'label')} in {overview.week.name}"
    found = [
        Tile("In breach", f"{of[State.BREACH]:,}", named, context.url(state="breach")),
        Tile("Not confirmed", f"{of[State.UNCONFIRMED]:,}", "beyond the threshold", context.url(state="unconfirmed")),
        Tile("Not evaluated", f"{of[State.NOT_EVALUATED]:,}", "a rule or more", context.url(state="not_evaluated")),
        Tile("Automation off", f"{off:,}", f"of {count_of(len(labels), 'label')}, now", context.url(state="off")),
        Tile("Open incidents", f"{len(open_now):,}", _oldest(open_now, context), f"{context.request.root}incidents"),
    ]
    return [*found, *_work(overview, labels), _age(overview)]


def _oldest(incidents: Sequence[Any], context: PageContext) -> str:
    if not incidents:
        return "no label has one"
    return f"of labels, oldest of {words.day_text(min(each.opened_at for each in incidents), context.config.zone)}"


def _work(overview: Overview, labels: Iterable[Subject]) -> Iterable[Tile]:
    """What automation did in the week: its share of predictions, and errors beyond those that scores claimed."""
    context, week, link = overview.context, overview.week, f"{overview.context.request.root}automation"
    by_source = {
        source: [each.label for each in subjects if each.label is not None] for source, subjects in _by_source(labels)
    }
    done = work_of_weeks(context, [week], by_source)
    work = together(week.name, done.by_week[0])
    share = work.share(work.acted)
    if share is not None:
        yield Tile("Acted alone", f"{100 * share:.0f}%", f"of predictions in {week.name}", link)
    sign = "" if round(work.extra) <= 0 else "+"
    value = f"{sign}{work.extra:,.0f}".replace("-", "−")
    rest = f"; not known for {count_of(done.unknown, 'label')}" if done.unknown else ""
    yield Tile("Extra errors while on", value, f"more than scores claimed, in {week.name}{rest}", link)


def _age(overview: Overview) -> Tile:
    """The newest run of the source that needs attention most: one that was not done, else the one that is oldest."""
    context, newest = overview.context, dict[str, Mapping[str, Any]]()
    for row in context.store.runs("weekly", limit=LOOKS_BACK, until=context.now):
        newest.setdefault(row["source"], row)
    shown = [row for source, row in newest.items() if source in context.config.sources] or list(newest.values())
    run = min(shown, key=lambda row: (row["state"] == "done", row["finished_at"] or context.now))
    ended: datetime | None = run["finished_at"]
    name = run["window_name"] + (f" of {run['source']}" if len(shown) > 1 else "")
    root = context.request.root
    if ended is None:
        return Tile("Last run", run["state"], f"{name}, not finished", f"{root}monitor")
    hours = (overview.context.now - ended) / timedelta(hours=1)
    value = f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"
    return Tile("Last run", value, f"ago: {name}, {run['state']}", f"{root}monitor")


# The strip of events


def _week_before(windows: Sequence[Window], at: datetime) -> str | None:
    """The last week that had ended at the time of an event, to compare with the newest."""
    return next((window.name for window in reversed(windows) if window.end <= at), None)


def _strip(overview: Overview) -> Markup:
    """A mark for each event over the columns of the grid."""
    starts, width = [window.start for window in overview.windows], heat.cell_width(len(overview.windows))
    parts = []
    for event in overview.events:
        x = _place(starts, overview.week.end, event.at) * width
        about = event.source or "all sources"
        title = f"{words.day_text(event.at, overview.context.config.zone)} {about}: {event.text}"
        path = f"M{number(x)} 2v10"
        mark = Markup('<path class="mark {}" d="{}"><title>{}</title></path>').format(event.kind, path, title)
        parts.append(str(mark))
    count = len(parts)
    return figure(len(starts) * width, 14, parts, f"{count_of(count, 'event')} over the weeks below; the list has each")


# As tables


def _labels_table(rows: Sequence[OverviewRow]) -> Table:
    head = (
        "source", "label", "state", "severity", "rules", "automation", "rule", "metric", "where", "value", "low",
        "high", "baseline", "threshold", "n", "share_of_threshold",
    )  # fmt: skip

    def line(row: OverviewRow) -> Sequence[object]:
        v, allowed = row.worst, row.automation
        about = (row.subject.source, row.subject.label, row.state.state.value, row.state.severity, row.state.words)
        on = allowed.words
        if v is None:
            return (*about, on, *[None] * 10)
        return (*about, on, v.rule, v.metric, v.where, v.value, v.low, v.high, v.baseline, v.threshold, v.n, row.share)

    return Table(head, map(line, rows))


def _grid_table(overview: Overview, rows: Sequence[OverviewRow]) -> Table:
    letters = _letters(overview, rows)
    head = ("source", "label", "week", "start", "band", "means")
    lines = (
        (subject.source, subject.label, window.name, window.start, f"band {each}", heat.LETTERS[each])
        for subject, row in letters.items()
        for window, each in zip(overview.windows, row, strict=True)
    )
    return Table(head, lines)


_BANDS = (("0", "b0"), ("1", "b1"), ("2", "b2"), ("3", "b3"), ("4", "b4"))
_QUERY = frozenset({"week", "rule", "source", "q", "state", "severity", "show", "as"})
PAGE = Page("/", make, nav="Overview", query=_QUERY)
