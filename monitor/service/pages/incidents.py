"""``/incidents``: the troubles of labels, sources and the monitor, and what people did; open ones first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from markupsafe import Markup

from monitor.core.records import SEVERITY_RANK, Incident, IncidentEvent, Subject
from monitor.core.wording import clean, duration
from monitor.report.figures.incident_timeline import IncidentBar, incident_timeline
from monitor.service.pages.base import Page, PageContent, PageContext, Table
from monitor.story.incident import reason_words

SPANS = {"13": 13, "26": 26, "52": 52, "156": 156}
LINES_DRAWN, ROWS_SHOWN = 40, 200
_LOOKS = {"critical": "critical", "warning": "warning", "info": "info"}
_MARKS = {"acknowledged": "ack", "reopened": "again", "resolved": "point"}


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """One incident with the times until it was acknowledged and resolved; None: it was not."""

    incident: Incident
    acknowledged_after: timedelta | None
    resolved_after: timedelta | None
    events: Sequence[IncidentEvent] = ()

    @property
    def about(self) -> str:
        """The label and its source."""
        if self.incident.is_of_monitor:
            return self.incident.source or "the monitor"
        return Subject(self.incident.source, self.incident.label).name

    @property
    def what(self) -> str:
        """What is the matter."""
        return ", ".join(self.incident.reasons).replace("_", " ")

    @property
    def is_open(self) -> bool:
        """Whether it is not resolved."""
        return self.incident.state != "resolved"


def make(context: PageContext) -> PageContent:
    """The incidents of the span, those that are open first."""
    weeks = SPANS[context.choice("weeks", SPANS, "52")]
    state = context.choice("state", ("all", "open", "resolved"), "all")
    severity = context.choice("severity", ("", *SEVERITY_RANK), "")
    since = context.now - timedelta(weeks=weeks)
    store = context.store
    known = [*store.unresolved_incidents(since=since), *store.unresolved_incidents(since=since, of_monitor=True)]
    events: dict[str, list[IncidentEvent]] = {}
    for event in context.store.incident_events(since=min([since, *(i.opened_at for i in known)]), kinds=_MARKS):
        events.setdefault(event.incident, []).append(event)
    lines = [line_of(incident, events.get(incident.id, ())) for incident in known]
    source, label = context.text("source"), context.text("label").casefold()
    selected = [
        line
        for line in lines
        if (state == "all" or line.is_open == (state == "open"))
        and severity in ("", line.incident.severity)
        and source in ("", line.incident.source)
        and label in (line.incident.label or "").casefold()
    ]
    shown = sorted(selected, key=_place)
    values = {
        "lines": shown[:ROWS_SHOWN], "hidden": len(shown) - ROWS_SHOWN, "figure": _figure(context, shown, since),
        "summary": summary(shown), "spans": SPANS, "weeks": str(weeks), "state": state, "severity": severity,
        "severities": tuple(SEVERITY_RANK), "sources": tuple(context.config.sources), "duration": duration,
        "drawn": LINES_DRAWN if len({line.about for line in shown}) > LINES_DRAWN else None,
    }  # fmt: skip
    return PageContent("incidents.html.j2", "Incidents", values, {"incidents": lambda: _table(shown)})


def _place(line: IncidentLine) -> tuple[bool, float, str, str]:
    return not line.is_open, -line.incident.opened_at.timestamp(), line.about, line.incident.kind


def line_of(incident: Incident, events: Sequence[IncidentEvent]) -> IncidentLine:
    """The incident with the times until somebody first acknowledged it, and until it was resolved for good."""
    first = next((event.at for event in events if event.kind == "acknowledged"), incident.acknowledged_at)
    resolved = incident.resolved_at if incident.state == "resolved" else None
    return IncidentLine(
        incident,
        None if first is None else first - incident.opened_at,
        None if resolved is None else resolved - incident.opened_at,
        events,
    )


def summary(lines: Sequence[IncidentLine]) -> Mapping[str, object]:
    """The numbers of incidents, and the median times until they were acknowledged and resolved."""
    acknowledged = [line.acknowledged_after for line in lines if line.acknowledged_after is not None]
    resolved = [line.resolved_after for line in lines if line.resolved_after is not None]
    return {
        "count": len(lines),
        "open": sum(line.is_open for line in lines),
        "acknowledged": len(acknowledged),
        "to_acknowledge": _median(acknowledged),
        "resolved": len(resolved),
        "to_resolve": _median(resolved),
        "reopened": sum(line.incident.reopened > 0 for line in lines),
    }


def _median(lengths: Sequence[timedelta]) -> timedelta | None:
    return timedelta(seconds=median(each.total_seconds() for each in lengths)) if lengths else None


def _figure(context: PageContext, lines: Sequence[IncidentLine], since: datetime) -> Markup | None:
    names = list(dict.fromkeys(line.about for line in lines))[:LINES_DRAWN]
    bars = [_bar(context, line) for line in lines if line.about in names]
    return incident_timeline(bars, since, context.now, context.config.zone) if bars else None


def _bar(context: PageContext, line: IncidentLine) -> IncidentBar:
    incident = line.incident
    ended = (
        f"resolved {incident.resolved_window or ''} by {incident.resolved_by}" if not line.is_open else incident.state
    )
    title = f"{line.about}, {line.what} ({incident.severity}): since {incident.opened_window}, {ended}"
    marks = [
        (e.at, _MARKS[e.kind], f"{e.kind} by {clean(e.actor)}: {reason_words(e.reason)}")
        for e in line.events
        if e.kind in _MARKS
    ]
    link = f"{context.request.root}incidents/{incident.id}"
    end = None if line.is_open else incident.resolved_at
    return IncidentBar(line.about, incident.opened_at, end, _LOOKS[incident.severity], title, link, marks)


def _table(lines: Sequence[IncidentLine]) -> Table:
    head = (
        "id", "source", "label", "kind", "severity", "state", "opened_at", "opened_window", "acknowledged_by",
        "hours_to_acknowledge", "resolved_at", "resolved_by", "hours_to_resolve", "reopened", "reason",
    )  # fmt: skip
    rows = [
        (
            i.id, i.source, i.label, i.kind, i.severity, i.state, i.opened_at, i.opened_window, i.acknowledged_by,
            _hours(line.acknowledged_after), i.resolved_at, i.resolved_by, _hours(line.resolved_after), i.reopened,
            ", ".join(i.reasons),
        )
        for line in lines
        for i in (line.incident,)
    ]  # fmt: skip
    return Table(head, rows)


def _hours(length: timedelta | None) -> float | None:
    return None if length is None else round(length.total_seconds() / 3600, 3)


PAGE = Page("/incidents", make, nav="Incidents", query=frozenset({"weeks", "state", "severity", "source", "label"}))
