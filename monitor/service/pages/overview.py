"""``/``: where to look first: tiles, and every label over the weeks in bands of its rules' thresholds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any

from markupsafe import Markup

from monitor.automation.as_of import on_spans
from monitor.automation.state import Allowed, effective
from monitor.config.model import Rule
from monitor.core.records import SEVERITY_RANK, Subject, SwitchState, TimelineEvent, Verdict, Where, Window
from monitor.evaluation.label_state import LabelState, State, state_of, states_of
from monitor.report import words
from monitor.report.figures import heat
from monitor.report.figures.svg import figure, number
from monitor.report.newest import LOOKS_BACK
from monitor.service.pages.base import WEEKS_SHOWN, Page, PageContent, PageContext, Table

FOLDED = 50
"""How many labels are shown before somebody asks for all."""
_STATES = (*(state.value for state in State), "off")
_ACTED: tuple[str, Where] = ("excess_errors", "all")
_SERIES: tuple[tuple[str, Where], ...] = (("shortfall", "automated"), ("shortfall", "predicted"), _ACTED)
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
    """One number above the grid, what it is, and where it leads."""

    name: str
    value: str
    about: str
    link: str


@dataclass(frozen=True)
class Overview:
    """What the page reads, each part once."""

    asked: PageContext
    windows: Sequence[Window]
    """Oldest first; the last is the one shown."""
    runs: Sequence[Mapping[str, Any]]
    rules: Mapping[str, Rule]

    @property
    def week(self) -> Window:
        """The week shown."""
        return self.windows[-1]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Of each source those of the newest week, up to the one shown, in which it was read."""
        looked = self.windows[-LOOKS_BACK:]
        newest: dict[str, datetime] = {}
        for row in self.asked.store.readings_seen(looked[0].start, self.week.start):  # newest first
            if row["schedule"] == "weekly":
                newest.setdefault(row["source"], row["window_start"])
        found: list[Verdict] = []
        for start in sorted(set(newest.values())):
            mine = [source for source, own in newest.items() if own == start]
            found += self.asked.store.verdict_lines("weekly", [start], mine)
        return found

    @cached_property
    def switches(self) -> dict[tuple[str, str | None], SwitchState]:
        """Every switch that was ever set."""
        return {(each.source, each.label): each for each in self.asked.store.switches()}

    @cached_property
    def states(self) -> dict[Subject, LabelState]:
        """The state of each label under all rules, by name."""
        return states_of(self.verdicts)

    def allowed(self, subject: Subject) -> Allowed:
        """Whether automation may act for a label now."""
        key = (subject.source, subject.label)
        own = self.switches.get(key, SwitchState(*key))
        whole = None if subject.label is None else self.switches.get((subject.source, None))
        return effective(own, self.asked.now.astimezone(UTC), whole=whole)

    @cached_property
    def shares(self) -> dict[str, tuple[float, float, float]]:
        """How far each rule's value went towards its threshold, as the grid computes it."""
        found = {id: heat.share_of(rule) for id, rule in self.rules.items()}
        return {id: share for id, share in found.items() if share is not None}


def make(asked: PageContext) -> PageContent:
    """The overview of the week, of the labels that the filters leave."""
    rows = asked.store.runs("weekly", limit=WEEKS_SHOWN, until=asked.now)
    shown = asked.week()
    known = [Window(r["window_start"], r["window_end"], r["window_name"], "weekly") for r in reversed(rows)]
    windows = [window for window in known if shown is not None and window.start <= shown.start]
    weekly = {rule.id: rule for rule in asked.config.rules_for("weekly")}
    rule = asked.choice("rule", weekly, "all")
    rules = weekly if rule == "all" else {rule: weekly[rule]}
    seen = Overview(asked, windows, rows, rules)
    chosen = sorted(_rows(seen), key=lambda row: row.order) if windows else []
    folded = asked.choice("show", ["all"], "first") == "first"
    first = chosen[:FOLDED] if folded else chosen
    values: dict[str, Any] = {
        "week": shown, "weeks": [window.name for window in reversed(known)], "rules": list(weekly), "states": _STATES,
        "severities": list(SEVERITY_RANK), "rows": first, "hidden": len(chosen) - len(first), "total": len(chosen),
        "letters": heat.LETTERS, "drawn": _grid(seen, first) if windows else {}, "windows": windows,
        "tiles": _tiles(seen) if windows else [], "as_text": asked.choice("as", ["text"], "drawing") == "text",
        "bands": _BANDS,
    }  # fmt: skip
    values |= {"events": _events(seen), "strip": _strip(seen)} if windows else {"events": [], "strip": Markup()}
    values["before"] = {event: _week_before(windows, event.at) for event in values["events"]}
    tables = {"labels": lambda: _labels_table(chosen), "grid": lambda: _grid_table(seen, chosen)}
    return PageContent("overview.html.j2", "Overview", values, tables)


def _rows(seen: Overview) -> Iterable[OverviewRow]:
    """The labels that the filters leave, in no order."""
    asked = seen.asked
    by_label: dict[Subject, list[Verdict]] = {subject: [] for subject in seen.states}
    for verdict in seen.verdicts:
        if verdict.rule in seen.rules:
            by_label[verdict.subject].append(verdict)
    source, text = asked.text("source"), asked.text("q").casefold()
    state, severity = asked.choice("state", _STATES, "any"), asked.choice("severity", SEVERITY_RANK, "any")
    for subject, mine in by_label.items():
        found, allowed = state_of(mine), seen.allowed(subject)
        fits = (
            source in ("", subject.source),
            text in f"{subject.source}/{subject.label or ''}".casefold(),
            state in ("any", found.state.value) or (state == "off" and not allowed.allowed),
            severity in ("any", found.severity),
        )
        if all(fits):
            worst = max(mine, key=lambda v: (v.outcome == "breach", _share(seen, v)), default=None)
            yield OverviewRow(subject, found, worst, 0.0 if worst is None else _share(seen, worst), allowed)


def _share(seen: Overview, verdict: Verdict) -> float:
    """How far a verdict's value went towards its threshold; 0 where it has none."""
    way = seen.shares.get(verdict.rule)
    if way is None or verdict.value is None or verdict.outcome == "not_evaluated":
        return 0.0
    return way[0] * verdict.value + way[1] * (verdict.baseline or 0.0) + way[2]


# The grid


def _letters(seen: Overview, rows: Iterable[OverviewRow]) -> dict[Subject, str]:
    """The letters of each label, one a week."""
    starts = [window.start for window in seen.windows]
    found: dict[Subject, list[str]] = {row.subject: [heat.MISSING] * len(starts) for row in rows}
    for source, subjects in _by_source(found):
        labels = [each.label for each in subjects]
        cells = seen.asked.store.grid_cells(source, labels, starts, schedule="weekly", shares=seen.shares)
        for cell in cells:
            found[Subject(source, cell.label)][cell.place] = heat.letter(cell.worst, cell.least, cell.share)
    return {subject: "".join(each) for subject, each in found.items()}


def _by_source(subjects: Iterable[Subject]) -> Iterable[tuple[str, list[Subject]]]:
    ordered = sorted(subjects, key=lambda subject: (subject.source, subject.label or ""))
    return ((source, list(mine)) for source, mine in groupby(ordered, key=lambda subject: subject.source))


def _grid(seen: Overview, rows: Sequence[OverviewRow]) -> dict[Subject, tuple[str, Markup]]:
    """Of each label its letters and its drawing."""
    letters, names = _letters(seen, rows), [window.name for window in seen.windows]
    starts, end = [window.start for window in seen.windows], seen.week.end
    found = {}
    for source, subjects in _by_source(letters):
        steps = seen.asked.store.switch_steps(source, [each.label for each in subjects])
        by_label: dict[str, list[Any]] = {}
        for step in steps:
            by_label.setdefault(step.label, []).append(step)
        whole = by_label.get("", [])
        for subject in subjects:
            own = by_label.get(subject.label or "", [])
            on = on_spans(own, whole if subject.label else [], starts[0], min(end, seen.asked.now))
            off = [(_place(starts, end, a), _place(starts, end, b)) for a, b in _between(on, starts[0], end)]
            drawn = heat.heat_row(letters[subject], off, f"{subject.name}: {heat.in_words(letters[subject], names)}")
            found[subject] = letters[subject], drawn
    return found


def _between(on: Spans, start: datetime, end: datetime) -> Iterable[tuple[datetime, datetime]]:
    """The spans that are left between others."""
    since = start
    for low, high in on:
        if low > since:
            yield since, low
        since = high
    if since < end:
        yield since, end


def _place(starts: Sequence[datetime], end: datetime, at: datetime) -> float:
    """Where a time is, in cells: weeks that were not run have none."""
    place = max(bisect_right(starts, at) - 1, 0)
    following = starts[place + 1] if place + 1 < len(starts) else end
    share = (at - starts[place]) / (following - starts[place])
    return place + min(max(share, 0.0), 1.0)


# The tiles


def _tiles(seen: Overview) -> list[Tile]:
    asked, states = seen.asked, seen.states
    labels = {subject: state for subject, state in states.items() if subject.label is not None}
    of = {state: sum(each.state is state for each in labels.values()) for state in State}
    off = sum(not seen.allowed(subject).allowed for subject in labels)
    open_now = asked.store.unresolved_incidents()
    named = f"of {len(labels):,} labels in {seen.week.name}"
    found = [
        Tile("In breach", f"{of[State.BREACH]:,}", named, asked.url(state="breach")),
        Tile("Not confirmed", f"{of[State.UNCONFIRMED]:,}", "beyond the threshold", asked.url(state="unconfirmed")),
        Tile("Not evaluated", f"{of[State.NOT_EVALUATED]:,}", "a rule or more", asked.url(state="not_evaluated")),
        Tile("Automation off", f"{off:,}", f"of {len(labels):,} labels, now", asked.url(state="off")),
        Tile("Open incidents", f"{len(open_now):,}", _oldest(open_now, asked), f"{asked.request.root}incidents"),
    ]
    return [*found, *_work(seen, labels), _age(seen)]


def _oldest(incidents: Sequence[Any], asked: PageContext) -> str:
    if not incidents:
        return "none is open"
    return f"oldest of {words.day_text(min(each.opened_at for each in incidents), asked.config.zone)}"


def _work(seen: Overview, labels: Iterable[Subject]) -> Iterable[Tile]:
    """What automation did in the week: its share of predictions, and errors beyond those that scores claimed."""
    acted = predicted = extra = 0.0
    week, link = seen.week, f"{seen.asked.request.root}automation"
    since = week.start - 2 * seen.asked.config.automation.lease
    for source, subjects in _by_source(labels):
        values = seen.asked.store.grid_numbers(
            [week.start], source, [each.label for each in subjects], _SERIES, schedule="weekly"
        )
        steps: dict[str, list[Any]] = {}
        for step in seen.asked.store.switch_steps(source, since=since):
            steps.setdefault(step.label, []).append(step)
        on = {each.label or "": _share_on(seen, each, steps) for each in subjects}
        acted += sum(r.n * on[r.label] for r in values if (r.metric, r.population) == _SERIES[0])
        predicted += sum(r.n for r in values if (r.metric, r.population) == _SERIES[1])
        extra += sum((r.value or 0.0) * on[r.label] for r in values if (r.metric, r.population) == _ACTED)
    if predicted:
        yield Tile("Acted alone", f"{100 * acted / predicted:.0f}%", f"of predictions in {week.name}", link)
    sign = "" if round(extra) <= 0 else "+"
    value = f"{sign}{extra:,.0f}".replace("-", "−")
    yield Tile("Extra errors while on", value, f"more than scores claimed, in {week.name}", link)


def _share_on(seen: Overview, subject: Subject, steps: Mapping[str, Sequence[Any]]) -> float:
    """The share of the week in which automation was on for a label."""
    start, end = seen.week.start, seen.week.end
    on = on_spans(steps.get(subject.label or "", []), steps.get("", []), start, end)
    return sum(((b - a) for a, b in on), timedelta()) / (end - start)


def _age(seen: Overview) -> Tile:
    run = seen.runs[0]
    ended: datetime | None = run["finished_at"]
    name, root = run["window_name"], seen.asked.request.root
    if ended is None:
        return Tile("Last run", run["state"], f"{name}, not finished", f"{root}monitor")
    hours = (seen.asked.now - ended) / timedelta(hours=1)
    value = f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"
    return Tile("Last run", value, f"ago: {name}, {run['state']}", f"{root}monitor")


# The strip of events


def _events(seen: Overview) -> list[TimelineEvent]:
    """What happened around the labels, newest first."""
    source = seen.asked.text("source") or None
    found = seen.asked.store.timeline(source, since=seen.windows[0].start, until=seen.week.end)
    return list(reversed(found))


def _week_before(windows: Sequence[Window], at: datetime) -> str | None:
    """The last week that had ended when something happened: what the newest is compared with."""
    return next((window.name for window in reversed(windows) if window.end <= at), None)


def _strip(seen: Overview) -> Markup:
    """A mark for each event over the columns of the grid."""
    starts, width = [window.start for window in seen.windows], heat.cell_width(len(seen.windows))
    parts = []
    for event in _events(seen):
        x = _place(starts, seen.week.end, event.at) * width
        about = event.source or "all sources"
        said = f"{words.day_text(event.at, seen.asked.config.zone)} {about}: {event.text}"
        path = f"M{number(x)} 2v10"
        mark = Markup('<path class="mark {}" d="{}"><title>{}</title></path>').format(event.kind, path, said)
        parts.append(str(mark))
    count = len(parts)
    return figure(len(starts) * width, 14, parts, f"{count} events over the weeks below; the list has each")


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


def _grid_table(seen: Overview, rows: Sequence[OverviewRow]) -> Table:
    letters = _letters(seen, rows)
    head = ("source", "label", "week", "start", "band", "means")
    lines = (
        (subject.source, subject.label, window.name, window.start, f"band {each}", heat.LETTERS[each])
        for subject, row in letters.items()
        for window, each in zip(seen.windows, row, strict=True)
    )
    return Table(head, lines)


_BANDS = (("0", "b0"), ("1", "b1"), ("2", "b2"), ("3", "b3"), ("4", "b4"))
_QUERY = frozenset({"week", "rule", "source", "q", "state", "severity", "show", "as"})
PAGE = Page("/", make, nav="Overview", query=_QUERY)
