"""The HTTP service of the switch: routers read it, operators turn labels off and on. No state of its own.

:func:`create_app` is given a :class:`Backend`, which has history and configuration; this module decides what a
request may do, and how it is answered. docs/http.md is the page for users.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import json
import logging
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args
from urllib.parse import urlencode

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from monitor.automation.gate.snapshot import REQUEST, Decision, SwitchSnapshot, terms, to_json
from monitor.automation.state import GateReason, off_segments
from monitor.core.records import LABEL_BYTES, Annotation
from monitor.core.score_ranges import merged
from monitor.core.windows import FIRST_YEAR, LAST_YEAR
from monitor.operations.annotate import LONGEST, NewAnnotation
from monitor.service.error_pages import answer_refused, root_of
from monitor.service.forms import FORMS, Form, fields_of, refuse_other_site
from monitor.service.pages.base import POLICY, STATIC, Answer, Page, PageRequest, PageScope, refused_html, static
from monitor.service.pages.registry import PAGES
from monitor.service.problems import PROBLEMS, SCHEMA_NAME, ProblemReason, RequestRefused, documented
from monitor.service.request_limits import CALLER, RequestLimits
from monitor.service.tokens import Entry, TokensBroken, TokensFile, entry_of, hidden

log = logging.getLogger("monitor.http")
T = TypeVar("T")

PAGES_WAITING = 4
PROMETHEUS = "text/plain; version=0.0.4"
_SCOPE = "x-scope"
_QUERY = "x-query"
_REPEATED = frozenset({"segment"})
"""Query parameters that may be given more than once: one value for each column."""
_PAGE: Literal["page"] = "page"
_PAGE_SCOPES: tuple[PageScope, ...] = get_args(PageScope)
_OPEN: Literal["open"] = "open"
"""The scope of the documents, which everybody may read: they are the same in every installation."""
_WHEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
_NO_CONTROL = r"\u0000-\u001F\u007F-\u009F"
_WORDS = rf"^[^{_NO_CONTROL}]*[^\s{_NO_CONTROL}][^{_NO_CONTROL}]*$"
_DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
)
_DRIFT_POLICY = (  # Evidently's own page: its scripts run in a sandbox, and reach nothing
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_R = ProblemReason
_SENT = (_R.PATH_INVALID, _R.METHOD_NOT_ALLOWED, _R.BODY_TOO_SLOW, _R.BODY_TOO_LARGE)
_ANY = (*_SENT, _R.INTERNAL_ERROR, _R.TOO_BUSY)
_MAY = (_R.TOKEN_MISSING, _R.TOKEN_UNKNOWN, _R.SCOPE_MISSING, _R.NOT_LOCAL, _R.TOKENS_UNREADABLE)
_PAGES = (*_MAY, *_SENT, _R.REQUEST_INVALID, _R.INTERNAL_ERROR, _R.STORE_UNREADABLE, _R.TOO_BUSY)
_ASKS = (*_PAGES, _R.NOT_FOUND, _R.UNKNOWN_SOURCE)
_REFUSED = (_R.NO_TOKENS, _R.UNKNOWN_LABEL, _R.NOT_JSON, _R.UNTIL_PAST, _R.KEY_REUSED, _R.CONFIG_UNREADABLE)
_CHANGES = (*(r for r in _ASKS if r is not _R.NOT_LOCAL), *_REFUSED)
_NOTES = tuple(r for r in _CHANGES if r not in (_R.UNTIL_PAST, _R.CONFIG_UNREADABLE))


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A requested change: one switch (label None: the source's own) on or off.

    ``key`` is the client's idempotency key with the token's name before it.
    """

    source: str
    label: str | None
    enable: bool
    by: str
    reason: str
    until: datetime | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A change in the history; ``already``: an earlier request made it."""

    source: str
    label: str | None
    state: str
    by: str
    reason: str
    at: datetime
    until: datetime | None
    lease_until: datetime | None
    already: bool


class Backend(Protocol):
    """What the service needs. Every method may raise :class:`RequestRefused`, and is called in a thread."""

    def board(self) -> SwitchSnapshot:
        """Every switch and threshold, now."""

    def now(self) -> datetime:
        """The time, with its zone."""

    def change(self, requested: RequestedChange) -> Stored:
        """Turn a switch off or on, once for each key."""

    def annotations(self, source: str | None, label: str | None) -> list[Annotation]:
        """The annotations that are not removed, by time; for a label with those of its whole source."""

    def annotate(self, requested: NewAnnotation) -> tuple[Annotation, bool]:
        """Store an annotation, once for each key; returns it, and whether an earlier request stored it."""

    def remove_annotation(self, id: str, by: str, reason: str) -> tuple[Annotation, bool]:
        """Remove an annotation from every axis; returns it, and whether it was removed before."""

    def show(self, page: Page, request: PageRequest) -> Answer:
        """A page of the dashboard, or one of its tables."""

    def submit(self, form: Form, fields: Mapping[str, str], by: str) -> str:
        """Do what a form asks for; returns the address of the page that shows it."""

    def newest_week(self) -> str | None:
        """The name of the newest week that was evaluated; None if none was."""

    def report(self, week: str) -> str:
        """The report of one week as HTML."""

    def drift(self, source: str, week: str) -> str:
        """The page about a source's feature columns that a run kept. Raises :class:`RequestRefused` without one."""

    def metrics(self) -> str:
        """The newest numbers in Prometheus' text format."""

    def document(self, name: str) -> str:
        """A document as HTML ("" is the list of all). Raises :class:`RequestRefused` for an unknown name."""

    def picture(self, name: str) -> bytes:
        """A PNG of the documents. Raises :class:`RequestRefused` for an unknown name."""


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy on this machine where people sign in: ``header`` has their name, ``host`` is the host they ask for.

    The host keeps out a page of another site that reaches this address under a name of its own: such a page could
    send any header.
    """

    header: str
    host: str

    def person(self, request: Request) -> str | None:
        """The name of the person who signed in; None where the request is not from that proxy."""
        peer = request.client.host if request.client else ""
        named = request.headers.getlist(self.header)
        if not is_loopback(peer) or request.headers.get("host", "").lower() != self.host.lower() or len(named) != 1:
            return None
        name = "".join(char for char in named[0] if char.isprintable()).strip()[:100]
        return f"proxy:{hidden(name)}" if name else None


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may do what. ``local``: the service listens on this machine only. ``proxy`` names those who may see pages."""

    tokens: TokensFile | None
    local: bool
    proxy: TrustedProxy | None = None

    def let(self, request: Request, scope: str) -> str | None:
        """The name of the caller (None: no name is needed). Raises :class:`RequestRefused`."""
        if scope == _OPEN:
            return None
        here, reads = self.local and is_loopback(request.headers.get("host", "")), scope in (*_PAGE_SCOPES, "read")
        if here and (scope == _PAGE or (self.tokens is None and reads)):
            return None
        if self.proxy is not None and scope in _PAGE_SCOPES and (person := self.proxy.person(request)) is not None:
            return person
        if self.tokens is None:
            raise RequestRefused(_R.NOT_LOCAL if reads else _R.NO_TOKENS)
        entry = self._entry(self.tokens, request, page=scope in _PAGE_SCOPES)
        needed = "read" if scope in _PAGE_SCOPES else scope
        return _with_scope(entry, needed)

    def let_token(self, token: str, scope: str) -> str:
        """The name of the token in a form's own field. Raises :class:`RequestRefused` where it lacks the scope."""
        if self.tokens is None:
            raise RequestRefused(_R.NO_TOKENS)
        entry = entry_of(self._entries(self.tokens), token.strip()) if token.strip() else None
        if entry is None:
            raise RequestRefused(_R.TOKEN_UNKNOWN if token.strip() else _R.TOKEN_MISSING)
        return _with_scope(entry, scope)

    def _entries(self, file: TokensFile) -> Sequence[Entry]:
        try:
            return file.entries()
        except TokensBroken as broken:
            log.error("%s", broken)
            raise RequestRefused(_R.TOKENS_UNREADABLE) from None

    def _entry(self, file: TokensFile, request: Request, *, page: bool) -> Entry:
        entries = self._entries(file)
        asks = {"WWW-Authenticate": 'Basic realm="calmon", charset="UTF-8"' if page else 'Bearer realm="calmon"'}
        token = _token(request.headers.get("authorization", ""), page=page)
        found = None if token is None else entry_of(entries, token)
        if found is None:
            raise RequestRefused(_R.TOKEN_MISSING if token is None else _R.TOKEN_UNKNOWN, headers=asks)
        return found


def _with_scope(entry: Entry, scope: str) -> str:
    if scope not in entry.scopes:
        has = f"{entry.name} may {', '.join(sorted(entry.scopes))}, but not {scope}"
        raise RequestRefused(_R.SCOPE_MISSING, has)
    return entry.name


def is_loopback(host: str) -> bool:
    """Whether a host, or a Host header, is this machine itself.

    A page of another site that reaches this machine under a name of that site (DNS rebinding) has another host.

    >>> is_loopback("127.0.0.1:8080"), is_loopback("[::1]:80"), is_loopback("localhost"), is_loopback("evil.example")
    (True, True, True, False)
    """
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::\d*)?", host)
    name = bracketed[1] if bracketed else (host.rpartition(":")[0] if host.count(":") == 1 else host)
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _token(header: str, *, page: bool) -> str | None:
    """The token of an Authorization header; a browser can only send it as the password of Basic."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if not page or scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


class GuardedRoute(APIRoute):
    """A route that checks the caller before the request. Its scope is in the OpenAPI document."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler behind the guard. Raises KeyError where the route has no scope."""
        inner, extra = super().get_route_handler(), self.openapi_extra or {}
        scope = str(extra[_SCOPE])
        names = {field.alias for field in self.dependant.query_params} | set(extra.get(_QUERY, ()))

        async def handler(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            # in a thread, since it reads a file
            request.scope[CALLER] = await to_thread.run_sync(guard.let, request, scope)
            _check_form(request, names, has_body=self.body_field is not None)
            return await inner(request)

        return handler


def _check_form(request: Request, names: set[str], *, has_body: bool) -> None:
    """Refuse parameters that would be ignored: ``?scor=0.3`` must not be answered as if no score had been given."""
    given = [name for name, _ in request.query_params.multi_items() if name not in _REPEATED]
    given += {*request.query_params} & _REPEATED
    if len(given) != len(set(given)) or not set(given) <= names:
        known = ", ".join(sorted(names)) or "none"
        raise RequestRefused(_R.REQUEST_INVALID, f"a query parameter is unknown or is given twice; known: {known}")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and media_type != "application/json":
        raise RequestRefused(_R.NOT_JSON)
    if has_body and len(request.headers.getlist("idempotency-key")) > 1:
        raise RequestRefused(_R.REQUEST_INVALID, "Idempotency-Key is given twice")


# The bodies


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Score = Annotated[float, Field(ge=0, le=1)]
Blocked = Annotated[list[Annotated[list[Score], Field(min_length=2, max_length=2)]], Field(description="(low, high)")]


class SegmentBody(_Body):
    """A part of a label's items: those with this value in this column."""

    column: str
    value: str


class SegmentSwitchBody(SegmentBody):
    """A segment that automation is off for, from a moment on that may lie ahead."""

    off_from: AwareDatetime


class SwitchBody(_Body):
    """One switch as it is stored; `label` null is the source's own.

    With `segments` that are off, `blocked` holds every score, for readers that know no segments, and
    `blocked_scores` what is blocked.
    """

    source: str
    label: str | None
    state: Literal["never_set", "off", "on"]
    blocked: Blocked
    lease_until: AwareDatetime | None
    by: str
    reason: str
    verdict: str | None
    changed_at: AwareDatetime | None
    version: int
    blocked_scores: Blocked | None = None
    segments: list[SegmentSwitchBody] | None = None


class ThresholdBody(_Body):
    """The score from which a label may act alone; `label` null is for labels without their own."""

    source: str
    label: str | None
    score: Score


class MarkBody(_Body):
    """The version of the history: operators raise `epoch`, changes raise `version`. A lower one means an old copy."""

    history: str
    epoch: int
    version: int


class BoardBody(_Body):
    """Every switch and threshold at one moment; `request` repeats what the client sent."""

    at: AwareDatetime
    request: str | None
    history: MarkBody | None
    newest_at: AwareDatetime | None
    closed: Literal["history_restored", "history_went_back"] | None
    switches: list[SwitchBody]
    automate_at: list[ThresholdBody]


_OfSwitch = Literal["on", "never_set", "off", "source_off", "no_lease", "lease_ended"]
_OfScore = Literal["below_automate_at", "score_blocked", "no_threshold", "segment_off", "segment_missing"]
_OfHistory = Literal["history_restored", "history_went_back", "clock_behind"]


class DecisionBody(_Body):
    """Whether automation may act on one item; without a score, the state of the switch (`allowed` is null)."""

    source: str
    label: str
    score: Score | None
    allowed: bool | None
    reason: Literal[_OfSwitch, _OfScore, _OfHistory]
    detail: str
    until: AwareDatetime | None
    threshold: Score | None
    blocked: Blocked
    segments_off: list[SegmentBody]
    at: AwareDatetime


class ChangedBody(_Body):
    """A stored change: the same for a request and all its repetitions."""

    source: str
    label: str | None
    state: Literal["off", "on"]
    by: str
    reason: str
    at: AwareDatetime
    until: AwareDatetime | None
    lease_until: AwareDatetime | None


class HealthBody(_Body):
    """The process is running. It does not check whether the history can be read."""

    status: Literal["ok"]


class ProblemBody(_Body):
    """An error (RFC 9457), with the reason by its name."""

    type: str
    title: str
    status: int
    detail: str
    reason: ProblemReason


class AnnotationBody(_Body):
    """What somebody noted at a time; `label` null is for all labels of the source."""

    id: str
    source: str
    label: str | None
    at: AwareDatetime
    text: str
    by: str
    added_at: AwareDatetime
    removed_at: AwareDatetime | None
    removed_by: str | None
    removed_reason: str | None


class AnnotationsBody(_Body):
    """The annotations that were asked for, by time."""

    annotations: list[AnnotationBody]


def _moment(value: Any) -> datetime:
    if not isinstance(value, str) or not _WHEN.fullmatch(value):
        raise ValueError("write a time with its zone, like 2026-11-22T18:00:00Z")
    found = datetime.fromisoformat(value.upper())
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise ValueError(f"that time is out of range: the years are {FIRST_YEAR} to {LAST_YEAR}")
    return found.astimezone(UTC)


_DATE_TIME = WithJsonSchema({"type": "string", "format": "date-time"})
_Until = Annotated[datetime, BeforeValidator(_moment), _DATE_TIME]


class ChangeBody(_Body):
    """Why, and until when it holds against runs."""

    reason: Annotated[str, Field(min_length=1, max_length=1000, pattern=_WORDS, examples=["model is being replaced"])]
    until: _Until | None = None


class NewAnnotationBody(_Body):
    """What happened, when, to which source or label (null: all labels of the source)."""

    source: Annotated[str, Field(min_length=1, pattern=rf"^[^{_NO_CONTROL}]*$", examples=["tickets"])]
    label: Annotated[str, Field(min_length=1, max_length=LABEL_BYTES, pattern=rf"^[^{_NO_CONTROL}]*$")] | None = None
    at: _Until
    text: Annotated[str, Field(min_length=1, max_length=LONGEST, pattern=_WORDS, examples=["prompt v7"])]


class RemovalBody(_Body):
    """Why an annotation is removed; it stays stored with the reason and the name of the token."""

    reason: Annotated[str, Field(min_length=1, max_length=LONGEST, pattern=_WORDS, examples=["wrong week"])]


# The addresses

router = APIRouter(route_class=GuardedRoute)
_PLAIN = rf"^[^{_NO_CONTROL}]*$"
_ABOUT_LABEL = f"A label, percent-encoded, up to {LABEL_BYTES:,} bytes; it may have slashes."
_ABOUT_KEY = "A request sent again with its key is done once and answered the same."
_ABOUT_ONCE = "Another text for each request: it comes back, so that an answer from a cache is known."
_NAME: dict[str, Any] = {"min_length": 1, "max_length": LABEL_BYTES, "pattern": _PLAIN}
_KEY: dict[str, Any] = {"min_length": 1, "max_length": 200, "pattern": "^[\\x21-\\x7E]+$"}
SourcePath = Annotated[str, Path(description="A source of alerts.yaml.", pattern=_PLAIN, examples=["tickets"])]
_SEGMENT = "A value of a segment column of the item, as column=value; once for each column."
LabelPath = Annotated[str, Path(description=_ABOUT_LABEL, **_NAME, examples=["billing"])]
KeyHeader = Annotated[str | None, Header(alias="Idempotency-Key", **_KEY, description=_ABOUT_KEY)]
OnceQuery = Annotated[str | None, Query(alias="request", pattern="^[A-Za-z0-9_-]{1,64}$", description=_ABOUT_ONCE)]


def _named(operation: str, scope: str, summary: str) -> dict[str, Any]:
    """The OpenAPI description of an address, and the scope that it needs."""
    extra = {_SCOPE: scope, "security": [{"token": []}]}
    return {"operation_id": operation, "summary": summary, "openapi_extra": extra}


_ETAG = {"description": "Of everything but `at`.", "schema": {"type": "string"}, "required": True}
_ECHO = {"description": "The `request` that was sent.", "schema": {"type": "string"}}
_SAME = "Nothing but `at` is other than at the ETag of If-None-Match."
_BOARD: dict[int | str, dict[str, Any]] = {
    200: {"model": BoardBody, "headers": {"ETag": _ETAG}},
    304: {"description": _SAME, "headers": {REQUEST: _ECHO}},
}


@router.get(
    "/v1/automation",
    **_named("board", "read", "Every switch and threshold"),
    responses=_BOARD | documented(_PAGES),
)
def get_board(
    request: Request,
    if_none_match: Annotated[str | None, Header(description="ETags of answers that the client still has.")] = None,
    once: OnceQuery = None,
) -> Response:
    """What a gate keeps in memory and decides from. Ask with If-None-Match: most answers are then a short 304.

    Send another `request` each time, and refuse an answer (or a 304, by its header) that brings another one back.
    """
    body = to_json(_backend(request).board())
    tag = etag(body)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache" if once is None else "no-store"}
    headers |= {REQUEST: once} if once is not None else {}
    if _has(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    return JSONResponse({**body, "request": once}, headers=headers)


def _has(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this answer already: the weak comparison of RFC 9110."""
    known = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return if_none_match == "*" or tag.removeprefix("W/") in known


def etag(board: Mapping[str, Any]) -> str:
    """The validator of a snapshot: weak, since ``at`` differs where the ETag does not.

    >>> etag({"at": "1"}) == etag({"at": "2"}), etag({"at": "1", "switches": []}) == etag({"at": "1"})
    (True, False)
    """
    facts = json.dumps({name: board[name] for name in board if name != "at"}, sort_keys=True)
    return f'W/"{hashlib.sha256(facts.encode()).hexdigest()[:32]}"'


@router.get(
    "/v1/automation/{source}/{label:path}",
    **_named("decide", "read", "May automation act on this item?"),
    response_model=DecisionBody,
    responses=documented(_ASKS),
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
    backend = _backend(request)
    _check_label(label)
    board, now = backend.board(), backend.now()
    if not any(name == source for name, _ in (*board.switches, *board.automate_at)):
        raise RequestRefused(_R.UNKNOWN_SOURCE)
    return _fresh(decision_body(board, source, label, score, now, _segments_given(segment or [])))


def _segments_given(texts: Sequence[str]) -> dict[str, str]:
    """The values of segment columns, from ``column=value``; a text without = and a column given twice are left out."""
    pairs = [(column, value) for column, sign, value in (text.partition("=") for text in texts) if sign]
    columns = [column for column, _ in pairs]
    return {column: value for column, value in pairs if columns.count(column) == 1}


def decision_body(
    board: SwitchSnapshot,
    source: str,
    label: str,
    score: float | None,
    now: datetime,
    segments: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The decision with its reasons; ``allowed`` is None where no score was given: never a yes."""
    found = terms(board, source, label, now)
    without_score = Decision(False, GateReason.ON, found.yes.until, "on; give a score to get a decision")
    judged = found.judge(score, segments) if score is not None else found.closed
    decision = without_score if judged is None else judged  # not "or": a no is false
    stored = [board.switches[key] for key in ((source, label), (source, None)) if key in board.switches]
    blocked = merged(r for state in stored for r in state.blocked)
    about = {"source": source, "label": label, "score": score, "allowed": None if score is None else decision.allowed}
    why = {"reason": decision.reason.value, "detail": decision.detail, "until": _iso(decision.until)}
    off = [{"column": c, "value": v} for state in stored for c, v in off_segments(state, now)]
    limits = {"threshold": board.threshold(source, label), "blocked": [list(r) for r in blocked], "segments_off": off}
    return about | why | limits | {"at": _iso(board.at)}


def _change(
    request: Request, source: str, label: str | None, body: ChangeBody, key: str | None, *, enable: bool
) -> Response:
    if label is not None:
        _check_label(label)
    name = request.scope[CALLER]
    once = f"{name}:{key}" if key else None
    change = RequestedChange(source, label, enable, f"api:{name}", body.reason, body.until, once)
    stored = _backend(request).change(change)
    facts = {field: getattr(stored, field) for field in ("source", "label", "state", "by", "reason")}
    times = {field: _iso(getattr(stored, field)) for field in ("at", "until", "lease_until")}
    return _fresh(facts | times, {"Idempotency-Replayed": "true"} if stored.already else {})


_CHANGED: dict[str, Any] = {"response_model": ChangedBody, "responses": documented(_CHANGES)}


@router.post("/v1/automation/{source}/disable", **_named("disableSource", "disable", "Stop a whole source"), **_CHANGED)
def disable_source(request: Request, source: SourcePath, body: ChangeBody, key: KeyHeader = None) -> Response:
    """Turn the source's own switch off: no label of it may act, whatever its own switch says."""
    return _change(request, source, None, body, key, enable=False)


@router.post(
    "/v1/automation/{source}/enable", **_named("enableSource", "enable", "Lift the stop of a whole source"), **_CHANGED
)
def enable_source(request: Request, source: SourcePath, body: ChangeBody, key: KeyHeader = None) -> Response:
    """Turn the source's own switch on: each label is again what its own switch says."""
    return _change(request, source, None, body, key, enable=True)


@router.post("/v1/automation/{source}/{label:path}/disable", **_named("disable", "disable", "Stop a label"), **_CHANGED)
def disable_label(
    request: Request, source: SourcePath, label: LabelPath, body: ChangeBody, key: KeyHeader = None
) -> Response:
    """Turn a label off. No run undoes it; from `until` on, good windows may where `re_enable` lets them."""
    return _change(request, source, label, body, key, enable=False)


@router.post(
    "/v1/automation/{source}/{label:path}/enable", **_named("enable", "enable", "Let a label act again"), **_CHANGED
)
def enable_label(
    request: Request, source: SourcePath, label: LabelPath, body: ChangeBody, key: KeyHeader = None
) -> Response:
    """Turn a label on. It holds against runs until `until` (24 hours), except for critical labels."""
    return _change(request, source, label, body, key, enable=True)


@router.get(
    "/v1/annotations",
    **_named("annotations", "read", "What was noted, and when"),
    response_model=AnnotationsBody,
    responses=documented(_PAGES),
)
def get_annotations(
    request: Request,
    source: Annotated[str | None, Query(min_length=1, pattern=_PLAIN, description="Only of this source.")] = None,
    label: Annotated[str | None, Query(**_NAME, description="Only of this label and of its whole source.")] = None,
) -> Response:
    """The annotations that are not removed, by time."""
    found = _backend(request).annotations(source, label)
    return _fresh({"annotations": [_annotation(each) for each in found]})


@router.post(
    "/v1/annotations",
    **_named("annotate", "annotate", "Note what happened at a time"),
    response_model=AnnotationBody,
    responses=documented(_NOTES),
)
def post_annotation(request: Request, body: NewAnnotationBody, key: KeyHeader = None) -> Response:
    """It is shown on every axis of the dashboard, with the token's name."""
    if body.label is not None:
        _check_label(body.label)
    name = request.scope[CALLER]
    once = f"http:{name}:{key}" if key else None
    requested = NewAnnotation(body.source, body.label, body.at, body.text, f"api:{name}", once)
    stored, already = _backend(request).annotate(requested)
    return _fresh(_annotation(stored), {"Idempotency-Replayed": "true"} if already else {})


@router.post(
    "/v1/annotations/{id}/remove",
    **_named("removeAnnotation", "annotate", "Take an annotation away"),
    response_model=AnnotationBody,
    responses=documented(r for r in _NOTES if r not in (_R.UNKNOWN_SOURCE, _R.UNKNOWN_LABEL, _R.KEY_REUSED)),
)
def remove_annotation(
    request: Request,
    id: Annotated[str, Path(pattern="^[0-9a-f]{1,32}$", examples=["3f1c9a024be07d51"])],
    body: RemovalBody,
) -> Response:
    """It stays stored, with who removed it and why; removed twice is removed once."""
    stored, already = _backend(request).remove_annotation(id, f"api:{request.scope[CALLER]}", body.reason)
    return _fresh(_annotation(stored), {"Idempotency-Replayed": "true"} if already else {})


def _annotation(found: Annotation) -> dict[str, Any]:
    fields = {name: getattr(found, name) for name in ("id", "source", "label", "text", "removed_by", "removed_reason")}
    times = {name: _iso(getattr(found, name)) for name in ("at", "added_at", "removed_at")}
    return {**fields, **times, "by": found.added_by}


def _add_page(page: Page) -> None:
    """Serve a page at its addresses, with the same parameters and headers at all of them."""

    async def get(request: Request) -> Response:
        page_request = PageRequest(request.path_params, request.query_params, root_of(request), request.scope[CALLER])
        made = await _made(request, lambda: _backend(request).show(page, page_request))
        headers = {"ETag": made.etag, "Cache-Control": "private, no-cache", "Content-Security-Policy": POLICY}
        if made.filename is not None:
            headers["Content-Disposition"] = f'attachment; filename="{made.filename}"'
        if _has(request.headers.get("if-none-match"), made.etag):
            return Response(status_code=304, headers=headers)
        return Response(made.body, media_type=made.media_type, headers=headers)

    extra = {_SCOPE: page.scope, _QUERY: sorted(page.query | {"csv"})}
    for address in (page.address, *page.aliases):
        router.add_api_route(address, get, include_in_schema=False, openapi_extra=extra, response_model=None)


for _each in PAGES:
    _add_page(_each)


def _add_form(form: Form) -> None:
    """Accept a form: from a page of this service only, with a token in it where it changes something."""

    async def post(request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "Content-Security-Policy": POLICY}
        try:
            refuse_other_site(request.headers)
            fields = fields_of(form, request.headers.get("content-type", ""), await request.body())
            guard: Guard = request.app.state.guard
            scope, token = form.scope(fields), fields.pop("token", "")
            name = "" if scope is None else f"api:{await to_thread.run_sync(guard.let_token, token, scope)}"
            target = await to_thread.run_sync(_backend(request).submit, form, fields, name)
        except RequestRefused as refusal:
            text = refused_html(PROBLEMS[refusal.reason][1], refusal.detail, form.address.lstrip("/"))
            return HTMLResponse(text, refusal.status, headers)
        return Response(status_code=303, headers={**headers, "Location": target})

    extra = {_SCOPE: _PAGE}
    router.add_api_route(form.address, post, methods=["POST"], include_in_schema=False, openapi_extra=extra)


for _form in FORMS:
    _add_form(_form)


@router.get("/static/{name}", include_in_schema=False, openapi_extra={_SCOPE: _OPEN, _QUERY: ["v"]})
def get_static(name: str) -> Response:
    """The style sheet and the script of the pages; ``v`` changes when they change."""
    if name not in STATIC:
        raise RequestRefused(_R.NOT_FOUND)
    return Response(static(name), media_type=STATIC[name], headers={"Cache-Control": "public, max-age=31536000"})


@router.get("/report", include_in_schema=False, openapi_extra={_SCOPE: _PAGE})
async def get_report(request: Request, week: str = "") -> Response:
    """The report of one week, else the way to that of the newest; its own policy is in the page."""
    if not week:
        newest = await _made(request, _backend(request).newest_week)
        to = "weeks" if newest is None else f"report?{urlencode({'week': newest})}"
        return Response(status_code=307, headers={"Location": to, "Cache-Control": "no-store"})
    text = await _made(request, lambda: _backend(request).report(week))
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})


@router.get("/drift", include_in_schema=False, openapi_extra={_SCOPE: _PAGE})
async def get_drift(request: Request, source: str, week: str) -> Response:
    """Evidently's page about the feature columns of a source in one week."""
    text = await _made(request, lambda: _backend(request).drift(source, week))
    return HTMLResponse(text, headers={"Cache-Control": "no-store", "Content-Security-Policy": _DRIFT_POLICY})


@router.get("/docs", include_in_schema=False, openapi_extra={_SCOPE: _OPEN})
@router.get("/docs/{name:path}", include_in_schema=False, openapi_extra={_SCOPE: _OPEN})
def get_document(request: Request, name: str = "") -> Response:
    """A runbook page, the page of a rule, or another document; they ship with the program and need no token."""
    backend, kept = _backend(request), {"Cache-Control": "public, max-age=300"}
    if request.url.path.endswith("/docs"):
        return Response(status_code=307, headers={"Location": "docs/"})
    if name.endswith(".png"):
        return Response(backend.picture(name), media_type="image/png", headers=kept)
    text = backend.document(name.removesuffix(".md"))
    return HTMLResponse(text, headers={**kept, "Content-Security-Policy": _DOCUMENT_POLICY})


_METRICS: dict[str, Any] = {"response_class": PlainTextResponse, "responses": documented(_PAGES)}


@router.get("/metrics", **_named("metrics", "read", "Numbers for Prometheus"), **_METRICS)
async def get_metrics(request: Request) -> Response:
    """Runs, verdicts, incidents, estimates, switches and leases of the newest windows; made anew for each request."""
    text = await _made(request, _backend(request).metrics)
    return PlainTextResponse(text, headers={"Cache-Control": "no-store"}, media_type=PROMETHEUS)


async def _made(request: Request, make: Callable[[], T]) -> T:
    """Make a page, one at a time: a page takes seconds, in which routers wait."""
    limiter: CapacityLimiter = request.app.state.pages
    if limiter.statistics().tasks_waiting >= PAGES_WAITING:
        raise RequestRefused(_R.TOO_BUSY, headers={"Retry-After": "5"})
    return await to_thread.run_sync(make, limiter=limiter)


def get_health() -> dict[str, str]:
    """Whether the process lives. Needs no token, and does not look at the history."""
    return {"status": "ok"}


# The application


def create_app(backend: Backend, guard: Guard, *, docs: str | None = None) -> ASGIApp:
    """The service as an ASGI application. ``docs``: the address of docs/http.md, for the ``type`` of problems."""
    return RequestLimits(api(backend, guard, docs=docs), docs=docs)


def api(backend: Backend, guard: Guard, *, docs: str | None = None) -> FastAPI:
    """The application behind the request limits; its ``openapi()`` is docs/openapi.json."""
    about = "May automation act? The switch of calibration-monitor."
    app = FastAPI(
        title="calmon automation", version="1", description=about, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.backend, app.state.guard, app.state.pages = backend, guard, CapacityLimiter(1)
    app.include_router(router)
    health: dict[str, Any] = {"response_model": HealthBody, "operation_id": "health", "summary": "Liveness"}
    app.add_api_route("/health", get_health, **health, responses=documented(_ANY))
    _answer_errors(app, docs)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    return app


def openapi(app: FastAPI) -> dict[str, Any]:
    """The description of the service, with the shape of problems and of tokens."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        parts = document["components"]
        parts["schemas"][SCHEMA_NAME] = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
        parts["schemas"] |= parts["schemas"][SCHEMA_NAME].pop("$defs")
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = document
    return app.openapi_schema


def _answer_errors(app: FastAPI, docs: str | None) -> None:
    """Answer every error with a problem, and a browser with a page that says the same."""

    @app.exception_handler(RequestRefused)
    async def refused(request: Request, error: RequestRefused) -> Response:
        return answer_refused(request, error, docs)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer_refused(request, RequestRefused(_R.REQUEST_INVALID, _plain(error)), docs)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        if error.status_code == PROBLEMS[_R.METHOD_NOT_ALLOWED][0]:
            return _other_method(request, docs)
        reason = _R.NOT_FOUND if error.status_code == PROBLEMS[_R.NOT_FOUND][0] else _R.REQUEST_INVALID
        detail = "" if reason is _R.NOT_FOUND else "the body is not JSON that can be read"
        return answer_refused(request, RequestRefused(reason, detail), docs)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return answer_refused(request, RequestRefused(_R.INTERNAL_ERROR), docs)


def _other_method(request: Request, docs: str | None) -> Response:
    methods = {"OPTIONS"}
    for route in (*router.routes, *request.app.routes):
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    allow = {"Allow": ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allow)
    refused = RequestRefused(_R.METHOD_NOT_ALLOWED, f"allowed: {allow['Allow']}", allow)
    return answer_refused(request, refused, docs)


def _plain(error: RequestValidationError) -> str:
    """Where the errors are and what they are, without the values: one may be a secret in the wrong place."""
    found = []
    for one in error.errors():
        where = hidden(".".join(str(step) for step in one["loc"][:2]))  # a name, too, may be a token
        what = str(one["msg"]).removeprefix("Value error, ")
        found.append(f"{where}: {'write words, without control characters' if 'pattern' in one['type'] else what}")
    return "; ".join(found)


def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def _check_label(label: str) -> None:
    if len(label.encode()) > LABEL_BYTES:
        raise RequestRefused(_R.REQUEST_INVALID, f"a label has at most {LABEL_BYTES:,} bytes")


def _fresh(body: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(body, headers={"Cache-Control": "no-store", **(headers or {})})


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
