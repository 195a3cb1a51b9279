"""``/incidents``: one row a label, source or trouble of the monitor, open ones first, with what people did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from monitor.alerting.health.message import reasons_of
from monitor.core.records import SEVERITY_RANK, UNCHECKED, Incident
from monitor.core.wording import duration
from monitor.report.csv_table import Table
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.story.incident import state_words
from monitor.story.label import LabelStory, labels_words

SPANS = {"13": 13, "26": 26, "52": 52, "156": 156}
ROWS_SHOWN = 200
Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """One incident with what it is about, and the times until it was acknowledged and resolved (None: it was not)."""

    incident: Incident
    what: str
    acknowledged_after: timedelta | None
    resolved_after: timedelta | None


def make(context: PageContext) -> PageContent:
    """The incidents of the span, those that are open first."""
    weeks = SPANS[context.choice("weeks", SPANS, "52")]
    state = context.choice("state", ("all", "open", "resolved"), "all")
    severity = context.choice("severity", ("", *SEVERITY_RANK), "")
    since, store = context.now - timedelta(weeks=weeks), context.store
    known = [*store.unresolved_incidents(since=since), *store.unresolved_incidents(since=since, of_monitor=True)]
    stories = {(story.source, story.label): _told(story) for story in teller(context).of_all()}
    lines = [line_of(incident, stories) for incident in known]
    source, label = context.text("source"), context.text("label").casefold()
    selected = [
        line
        for line in lines
        if (state == "all" or line.incident.is_open == (state == "open"))
        and severity in ("", line.incident.severity)
        and source in ("", line.incident.source)
        and label in (line.incident.label or "").casefold()
    ]
    shown = sorted(selected, key=_place)
    rows = _rows(shown)
    values = {
        "rows": rows[:ROWS_SHOWN], "hidden": len(rows) - ROWS_SHOWN, "summary": summary(shown), "spans": SPANS,
        "weeks": str(weeks), "state": state, "severity": severity, "severities": tuple(SEVERITY_RANK),
        "sources": tuple(context.config.sources), "duration": duration, "state_of": state_words,
    }  # fmt: skip
    return PageContent("incidents.html.j2", "Incidents", values, {"incidents": lambda: _table(shown)})


def _told(story: LabelStory) -> str:
    """The story after the name of its label, which stands before it as a link."""
    return story.sentence.removeprefix(story.name).lstrip(": ")


def _place(line: IncidentLine) -> tuple[bool, int, float, str]:
    severity = SEVERITY_RANK[line.incident.severity] if line.incident.is_open else 0
    return not line.incident.is_open, severity, -line.incident.opened_at.timestamp(), line.incident.name


def _rows(lines: Sequence[IncidentLine]) -> list[list[IncidentLine]]:
    """The lines of each subject and kind, in the order of the first: its newest incident, then its earlier ones."""
    by_subject: dict[str, list[IncidentLine]] = {}
    for line in lines:
        by_subject.setdefault(line.incident.fingerprint, []).append(line)
    return list(by_subject.values())


def line_of(incident: Incident, stories: Mapping[Key, str]) -> IncidentLine:
    """The incident with its words, and the times until somebody acknowledged it and until it was resolved for good."""
    first, resolved = incident.acknowledged_at, incident.resolved_at if not incident.is_open else None
    return IncidentLine(
        incident,
        what_of(incident, stories),
        None if first is None else first - incident.opened_at,
        None if resolved is None else resolved - incident.opened_at,
    )


def what_of(incident: Incident, stories: Mapping[Key, str]) -> str:
    """What is the matter: the story of a label that has an open one, else the named reason."""
    if incident.is_of_monitor:
        return reasons_of(incident)
    if incident.labels:
        what = "no truth of what acts alone" if incident.kind == UNCHECKED else "many labels at once"
        return f"{what}: {labels_words(incident.labels)}"
    told = stories.get((incident.source, incident.label), "") if incident.is_open else ""
    return told or incident.reasons_words


def summary(lines: Sequence[IncidentLine]) -> Mapping[str, object]:
    """The numbers of incidents, and the median times until they were acknowledged and resolved."""
    acknowledged = [line.acknowledged_after for line in lines if line.acknowledged_after is not None]
    resolved = [line.resolved_after for line in lines if line.resolved_after is not None]
    return {
        "count": len(lines),
        "open": sum(line.incident.is_open for line in lines),
        "acknowledged": len(acknowledged),
        "to_acknowledge": _median(acknowledged),
        "resolved": len(resolved),
        "to_resolve": _median(resolved),
        "reopened": sum(line.incident.reopened > 0 for line in lines),
    }


def _median(lengths: Sequence[timedelta]) -> timedelta | None:
    return timedelta(seconds=median(each.total_seconds() for each in lengths)) if lengths else None


def _table(lines: Sequence[IncidentLine]) -> Table:
    opened = ("id", "source", "label", "kind", "severity", "state", "opened_at", "opened_window", "acknowledged_by")
    return Table.of(
        lines, *(f"{name}=incident.{name}" for name in opened), "hours_to_acknowledge=acknowledged_after",
        "resolved_at=incident.resolved_at", "resolved_by=incident.resolved_by", "hours_to_resolve=resolved_after",
        "reopened=incident.reopened", "reason=incident.reasons",
    )  # fmt: skip


PAGE = Page("/incidents", make, nav="Incidents", query=frozenset({"weeks", "state", "severity", "source", "label"}))
