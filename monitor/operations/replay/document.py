"""The result of a replay as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from monitor.core.records import Subject
from monitor.operations.replay.model import Opened, Pair, Replay, Side
from monitor.report.csv_table import Table


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
        "missing": Table.of(
            found.missing, "schedule", "source", "from=first", "to=last", "windows", "reason"
        ).documents,
        "omitted": Table.of(found.omitted, "in=side", "rule", "source", "reason", "windows").documents,
    }


def _about(subject: Subject) -> dict[str, str | None]:
    return {"source": subject.source, "label": subject.label}


def _side(side: Side) -> dict[str, Any]:
    off, blocked = ([_about(subject) for subject in side.switched(how)] for how in ("off", "blocked"))
    switches = {"switched_off": off, "blocked": blocked}
    weeks = {"label_weeks": side.weeks, "label_weeks_not_evaluated": side.weeks_not_evaluated}
    return {"revision": side.revision, "incidents": len(side.incidents)} | switches | weeks


def _pair(pair: Pair) -> dict[str, Any]:
    (about,) = Table.of([pair.either.incident], "kind", "source", "label").documents
    opened = {"present": pair.present, "proposed": pair.proposed}
    return {"in": where_of(pair)} | about | {name: found and _opened(found) for name, found in opened.items()}


def _opened(opened: Opened) -> dict[str, Any]:
    names = ("opened=opened_window", "resolved=resolved_window", "severity", "reopened", "rules")
    (row,) = Table.of([opened.incident], *names).documents
    return row | {"automation": opened.switch or None, "limit": opened.limit and asdict(opened.limit)}


def where_of(pair: Pair) -> str:
    """Which file opened an incident: present, proposed or both."""
    if pair.present is None:
        return "proposed"
    return "present" if pair.proposed is None else "both"
