"""The addresses for programs: the switch, decisions and annotations. docs/http.md is their page for users."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from monitor.automation.gate.snapshot import REQUEST, Decision, SwitchSnapshot, terms, to_json
from monitor.automation.state import GateReason, off_segments
from monitor.core.records import LABEL_BYTES, Annotation
from monitor.core.score_ranges import merged
from monitor.operations.annotate import NewAnnotation
from monitor.operations.change_switch import SwitchChange
from monitor.report.csv_table import Table
from monitor.service.access import GuardedRoute, named
from monitor.service.answers import backend_of, fresh, has
from monitor.service.bodies import (
    PLAIN,
    AnnotationBody,
    AnnotationsBody,
    BoardBody,
    ChangeBody,
    ChangedBody,
    DecisionBody,
    NewAnnotationBody,
    RemovalBody,
)
from monitor.service.pages.base import etag_of
from monitor.service.problems import (
    ON_CHANGES,
    ON_NOTES,
    ON_PAGES,
    ON_QUESTIONS,
    ProblemReason,
    RequestRefused,
    documented,
)
from monitor.service.request_limits import CALLER

_R = ProblemReason
router = APIRouter(route_class=GuardedRoute)
_ABOUT_LABEL = f"A label, percent-encoded, up to {LABEL_BYTES:,} bytes; it may have slashes."
_ABOUT_KEY = "A request sent again with its key is done once and answered the same."
_ABOUT_ONCE = "Another text for each request: it comes back, so that an answer from a cache is known."
_NAME: dict[str, Any] = {"min_length": 1, "max_length": LABEL_BYTES, "pattern": PLAIN}
_KEY: dict[str, Any] = {"min_length": 1, "max_length": 200, "pattern": "^[\\x21-\\x7E]+$"}
SourcePath = Annotated[str, Path(description="A source of alerts.yaml.", pattern=PLAIN, examples=["tickets"])]
_SEGMENT = "A value of a segment column of the item, as column=value; once for each column."
LabelPath = Annotated[str, Path(description=_ABOUT_LABEL, **_NAME, examples=["billing"])]
KeyHeader = Annotated[str | None, Header(alias="Idempotency-Key", **_KEY, description=_ABOUT_KEY)]
OnceQuery = Annotated[str | None, Query(alias="request", pattern="^[A-Za-z0-9_-]{1,64}$", description=_ABOUT_ONCE)]

_ETAG = {"description": "Of everything but `at`.", "schema": {"type": "string"}, "required": True}
_ECHO = {"description": "The `request` that was sent.", "schema": {"type": "string"}}
_SAME = "Nothing but `at` is other than at the ETag of If-None-Match."
_BOARD: dict[int | str, dict[str, Any]] = {
    200: {"model": BoardBody, "headers": {"ETag": _ETAG}},
    304: {"description": _SAME, "headers": {REQUEST: _ECHO}},
}


@router.get(
    "/v1/automation",
    **named("board", "read", "Every switch and threshold"),
    responses=_BOARD | documented(ON_PAGES),
)
def get_board(
    request: Request,
    if_none_match: Annotated[str | None, Header(description="ETags of answers that the client still has.")] = None,
    once: OnceQuery = None,
) -> Response:
    """What a gate keeps in memory and decides from. Ask with If-None-Match: most answers are then a short 304.

    Send another `request` each time, and refuse an answer (or a 304, by its header) that brings another one back.
    """
    body = to_json(backend_of(request).board())
    # weak, since `at` differs where the ETag does not
    tag = etag_of(json.dumps({name: body[name] for name in body if name != "at"}, sort_keys=True).encode())
    headers = {"ETag": tag, "Cache-Control": "private, no-cache" if once is None else "no-store"}
    headers |= {REQUEST: once} if once is not None else {}
    if has(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    return JSONResponse({**body, "request": once}, headers=headers)


@router.get(
    "/v1/automation/{source}/{label:path}",
    **named("decide", "read", "May automation act on this item?"),
    response_model=DecisionBody,
    responses=documented(ON_QUESTIONS),
)
def get_decision(
    request: Request,
    source: SourcePath,
    label: LabelPath,
    score: Annotated[float | None, Query(ge=0, le=1, allow_inf_nan=False, description="Of the item.")] = None,
    segment: Annotated[list[str] | None, Query(description=_SEGMENT)] = None,
) -> Response:
    """Yes or no for an item of this label with this score. Without a score: the state of the switch, and never yes.

    While automation is off for a value of a column, an item whose value of that column is not given is a no.
    """
    backend = backend_of(request)
    check_label(label)
    board, now = backend.board(), backend.now()
    if not any(name == source for name, _ in (*board.switches, *board.automate_at)):
        raise RequestRefused(_R.UNKNOWN_SOURCE)
    # a text without = and a column given twice are left out
    pairs = [(column, value) for column, sign, value in (text.partition("=") for text in segment or ()) if sign]
    columns = [column for column, _ in pairs]
    given = {column: value for column, value in pairs if columns.count(column) == 1}
    return fresh(_decision(board, source, label, score, now, given))


def _decision(
    board: SwitchSnapshot, source: str, label: str, score: float | None, now: datetime, segments: Mapping[str, str]
) -> dict[str, Any]:
    """The decision with its reasons; ``allowed`` is None where no score was given: never a yes."""
    found = terms(board, source, label, now)
    without_score = Decision(False, GateReason.ON, found.yes.until, "on; give a score to get a decision")
    judged = found.judge(score, segments) if score is not None else found.closed
    decision = without_score if judged is None else judged  # not "or": a no is false
    stored = [board.switches[key] for key in ((source, label), (source, None)) if key in board.switches]
    return {
        "source": source, "label": label, "score": score, "allowed": None if score is None else decision.allowed,
        "reason": decision.reason, "detail": decision.detail, "until": decision.until,
        "threshold": board.threshold(source, label), "blocked": merged(r for state in stored for r in state.blocked),
        "segments_off": [{"column": c, "value": v} for state in stored for c, v in off_segments(state, now)],
        "at": board.at,
    }  # fmt: skip


def _once(request: Request, key: str | None) -> str | None:
    return f"http:{request.scope[CALLER]}:{key}" if key else None


def _change(request: Request, source: str, label: str | None, body: ChangeBody, key: str | None) -> Response:
    if label is not None:
        check_label(label)
    enable, by = request.scope["route"].path.endswith("/enable"), f"api:{request.scope[CALLER]}"
    change = SwitchChange(source, label, enable, by, body.reason, body.until, _once(request, key))
    done = backend_of(request).change(change)
    (facts,) = Table.of(
        [done.event], "source", "label", "state=to_state", "by=actor", "reason", "at", "until", "lease_until"
    ).documents
    return fresh(facts, already=done.already)


_CHANGED: dict[str, Any] = {"response_model": ChangedBody, "responses": documented(ON_CHANGES)}
_STOP = "Turn the source's own switch off: no label of it may act, whatever its own switch says."
_LIFT = "Turn the source's own switch on: each label is again what its own switch says."
_OFF = "Turn a label off. No run undoes it; from `until` on, good windows may where `re_enable` lets them."
_ON = "Turn a label on. It holds against runs until `until` (24 hours), except for critical labels."


@router.post(
    "/v1/automation/{source}/enable", description=_LIFT,
    **named("enableSource", "enable", "Lift the stop of a whole source"), **_CHANGED,
)  # fmt: skip
@router.post(
    "/v1/automation/{source}/disable", description=_STOP, **named("disableSource", "disable", "Stop a whole source"),
    **_CHANGED,
)  # fmt: skip
def change_source(request: Request, source: SourcePath, body: ChangeBody, key: KeyHeader = None) -> Response:
    """Change the source's own switch."""
    return _change(request, source, None, body, key)


@router.post(
    "/v1/automation/{source}/{label:path}/enable", description=_ON,
    **named("enable", "enable", "Let a label act again"), **_CHANGED,
)  # fmt: skip
@router.post(
    "/v1/automation/{source}/{label:path}/disable", description=_OFF, **named("disable", "disable", "Stop a label"),
    **_CHANGED,
)  # fmt: skip
def change_label(
    request: Request, source: SourcePath, label: LabelPath, body: ChangeBody, key: KeyHeader = None
) -> Response:
    """Change a label's switch."""
    return _change(request, source, label, body, key)


@router.get(
    "/v1/annotations",
    **named("annotations", "read", "What was noted, and when"),
    response_model=AnnotationsBody,
    responses=documented(ON_PAGES),
)
def get_annotations(
    request: Request,
    source: Annotated[str | None, Query(min_length=1, pattern=PLAIN, description="Only of this source.")] = None,
    label: Annotated[str | None, Query(**_NAME, description="Only of this label and of its whole source.")] = None,
) -> Response:
    """The annotations that are not removed, by time."""
    return fresh({"annotations": _rows(backend_of(request).annotations(source, label))})


@router.post(
    "/v1/annotations",
    **named("annotate", "annotate", "Note what happened at a time"),
    response_model=AnnotationBody,
    responses=documented(ON_NOTES),
)
def post_annotation(request: Request, body: NewAnnotationBody, key: KeyHeader = None) -> Response:
    """It is shown on every axis of the dashboard, with the token's name."""
    if body.label is not None:
        check_label(body.label)
    by, once = f"api:{request.scope[CALLER]}", _once(request, key)
    stored, already = backend_of(request).annotate(NewAnnotation(body.source, body.label, body.at, body.text, by, once))
    return fresh(_rows([stored])[0], already=already)


@router.post(
    "/v1/annotations/{id}/remove",
    **named("removeAnnotation", "annotate", "Take an annotation away"),
    response_model=AnnotationBody,
    responses=documented(r for r in ON_NOTES if r not in (_R.UNKNOWN_SOURCE, _R.UNKNOWN_LABEL, _R.KEY_REUSED)),
)
def remove_annotation(
    request: Request,
    id: Annotated[str, Path(pattern="^[0-9a-f]{1,32}$", examples=["3f1c9a024be07d51"])],
    body: RemovalBody,
) -> Response:
    """It stays stored, with who removed it and why; removed twice is removed once."""
    stored, already = backend_of(request).remove_annotation(id, f"api:{request.scope[CALLER]}", body.reason)
    return fresh(_rows([stored])[0], already=already)


def _rows(found: Sequence[Annotation]) -> list[dict[str, Any]]:
    return Table.of(
        found, "id", "source", "label", "text", "removed_by", "removed_reason", "at", "added_at", "removed_at",
        "by=added_by",
    ).documents  # fmt: skip


def check_label(label: str) -> None:
    """Refuse a label that is longer than any. Raises :class:`RequestRefused`."""
    if len(label.encode()) > LABEL_BYTES:
        raise RequestRefused(_R.REQUEST_INVALID, f"a label has at most {LABEL_BYTES:,} bytes")
