"""The result of a replay as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from monitor.core.records import Subject
from monitor.operations.replay.model import Missing, Opened, Pair, Replay, Side


def document(found: Replay) -> dict[str, Any]:
    """The replay as one JSON document: the same for the same history and files."""
    sides = {"present": found.present, "proposed": found.proposed}
    return {
        "from": found.weeks[0].name,
        "to": found.weeks[-1].name,
        "weeks": len(found.weeks),
        **{name: _side(side) for name, side in sides.items()},
        "incidents": [_pair(pair) for pair in found.pairs],
        "timelines": [
            _about(subject) | {name: side.timelines.get(subject) for name, side in sides.items()}
            for subject in found.subjects
        ],
        "missing": [_missing(each) for each in found.missing],
        "omitted": [
            {"in": o.side, "rule": o.rule, "source": o.source, "reason": o.reason, "windows": o.windows}
            for o in found.omitted
        ],
    }


def _missing(missing: Missing) -> dict[str, Any]:
    about = {"schedule": missing.schedule, "source": missing.source, "from": missing.first, "to": missing.last}
    return about | {"windows": missing.windows, "reason": missing.reason}


def _about(subject: Subject) -> dict[str, str | None]:
    return {"source": subject.source, "label": subject.label}


def _side(side: Side) -> dict[str, Any]:
    off, blocked = ([_about(subject) for subject in side.switched(how)] for how in ("off", "blocked"))
    switches = {"switched_off": off, "blocked": blocked}
    weeks = {"label_weeks": side.weeks, "label_weeks_not_evaluated": side.weeks_not_evaluated}
    return {"revision": side.revision, "incidents": len(side.incidents)} | switches | weeks


def _pair(pair: Pair) -> dict[str, Any]:
    about = {name: getattr(pair.either.incident, name) for name in ("kind", "source", "label")}
    opened = {"present": pair.present, "proposed": pair.proposed}
    return {"in": where_of(pair)} | about | {name: found and _opened(found) for name, found in opened.items()}


def _opened(opened: Opened) -> dict[str, Any]:
    incident = opened.incident
    span = {"opened": incident.opened_window, "resolved": incident.resolved_window}
    rest = {name: getattr(incident, name) for name in ("severity", "reopened")} | {"rules": list(incident.rules)}
    return span | rest | {"automation": opened.switch or None, "limit": opened.limit and asdict(opened.limit)}


def where_of(pair: Pair) -> str:
    """Which file opened an incident: present, proposed or both."""
    if pair.present is None:
        return "proposed"
    return "present" if pair.proposed is None else "both"
