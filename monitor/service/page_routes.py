"""The addresses for people, and for Prometheus: pages and their form, documents, numbers.

The form turns automation off or on. It carries a token in a field of its own, so a browser that is logged in changes
nothing by itself: a page of another site does not know the token. Besides, only a form from a page of this service is
accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from monitor.core import documents
from monitor.operations.change_switch import SwitchChange
from monitor.report.document_page import document_html, index_html
from monitor.service.access import OPEN, PAGE, QUERY, SCOPE, Guard, GuardedRoute, named
from monitor.service.answers import backend_of, has, made
from monitor.service.backend import Service
from monitor.service.error_pages import root_of
from monitor.service.pages import PAGES, items
from monitor.service.pages.base import POLICY, STATIC, Page, PageRequest, static
from monitor.service.problems import ON_PAGES, ProblemReason, RequestRefused, documented
from monitor.service.tokens import Scope

router = APIRouter(route_class=GuardedRoute)
PROMETHEUS = "text/plain; version=0.0.4"
_DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_DRIFT_POLICY = (  # Evidently's own page: its scripts run in a sandbox, and reach nothing
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FORM_TYPE = "application/x-www-form-urlencoded"
FIELDS = frozenset({"source", "label", "switch", "reason", "until", "token"})
MOST_FIELDS, LONGEST = 20, 1_000
Fields = Mapping[str, str]
_R = ProblemReason
_T = TypeVar("_T")


def _add_page(page: Page) -> None:
    """Serve a page at its addresses, with the same parameters and headers at all of them."""

    async def get(request: Request) -> Response:
        page_request = PageRequest(request.path_params, request.query_params, root_of(request))
        lane = "items" if page is items.PAGE else "pages"
        answer = await made(request, lambda: backend_of(request).show(page, page_request), lane)
        headers = {"ETag": answer.etag, "Cache-Control": "private, no-cache", "Content-Security-Policy": POLICY}
        if answer.filename is not None:
            headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
        if has(request.headers.get("if-none-match"), answer.etag):
            return Response(status_code=304, headers=headers)
        return Response(answer.body, media_type=answer.media_type, headers=headers)

    extra = {SCOPE: PAGE, QUERY: sorted(page.query | {"csv"})}
    for address in (page.address, *page.aliases):
        router.add_api_route(address, get, include_in_schema=False, openapi_extra=extra, response_model=None)


for _each in PAGES:
    _add_page(_each)


@router.post("/automation", include_in_schema=False, openapi_extra={SCOPE: PAGE})
async def post_switch(request: Request) -> Response:
    """Turn automation off or on: only from a page of this service, with a token in the form."""
    headers = request.headers  # a form that was not sent from a page of this service is refused, as far as they say
    fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
    same = fetched == "same-origin" if fetched is not None else urlsplit(origin or "").netloc == headers.get("host")
    if not same:
        raise RequestRefused(_R.REQUEST_INVALID, "the form was not sent from a page of this service")
    fields = fields_of(headers.get("content-type", ""), await request.body())
    guard: Guard = request.app.state.guard
    token = fields.pop("token", "").strip()
    name = f"api:{await to_thread.run_sync(guard.let_token, token, scope_of(fields))}"
    target = await to_thread.run_sync(turn, backend_of(request), fields, name)
    return Response(status_code=303, headers={"Cache-Control": "no-store", "Location": target})


def fields_of(content_type: str, body: bytes) -> dict[str, str]:
    """The fields as they were sent. Raises RequestRefused for a body that does not fit the form."""
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise RequestRefused(_R.REQUEST_INVALID, f"a form is sent as {FORM_TYPE}")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise RequestRefused(_R.REQUEST_INVALID, "the form cannot be read") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names) or not set(names) <= FIELDS:
        raise RequestRefused(_R.REQUEST_INVALID, "a field of the form is unknown or is given twice")
    return dict(pairs)


def scope_of(fields: Fields) -> Scope:
    """The scope that its token needs: off needs another one than on. Raises RequestRefused."""
    found = fields.get("switch")
    if found not in ("disable", "enable"):
        raise RequestRefused(_R.REQUEST_INVALID, "say whether to turn off or on")
    return "enable" if found == "enable" else "disable"


def turn(service: Service, fields: Fields, by: str) -> str:
    """Turn automation off or on; returns the address, relative to the root, of the page that shows it.

    ``by`` is the token's name. Raises RequestRefused.
    """
    source, label, reason = fields.get("source", ""), fields.get("label", ""), fields.get("reason", "").strip()
    if not reason or len(reason) > LONGEST or not reason.isprintable():
        raise RequestRefused(_R.REQUEST_INVALID, f"a reason of up to {LONGEST:,} characters is needed, in one line")
    until = service.local_time(fields["until"]) if fields.get("until") else None
    service.change(SwitchChange(source, label or None, scope_of(fields) == "enable", by, reason, until))
    return "automation?" + urlencode({"source": source, "label": label}) + "#switch"


@router.get("/static/{name}", include_in_schema=False, openapi_extra={SCOPE: OPEN, QUERY: ["v"]})
def get_static(name: str) -> Response:
    """The style sheet and the script of the pages; ``v`` changes when they change."""
    if name not in STATIC:
        raise RequestRefused(_R.NOT_FOUND)
    return Response(static(name), media_type=STATIC[name], headers={"Cache-Control": "public, max-age=31536000"})


@router.get("/drift", include_in_schema=False, openapi_extra={SCOPE: PAGE})
async def get_drift(request: Request, source: str, week: str) -> Response:
    """Evidently's page about the feature columns of a source in one week."""
    text = await made(request, lambda: backend_of(request).drift(source, week))
    return HTMLResponse(text, headers={"Cache-Control": "no-store", "Content-Security-Policy": _DRIFT_POLICY})


@router.get("/docs", include_in_schema=False, openapi_extra={SCOPE: OPEN})
@router.get("/docs/{name:path}", include_in_schema=False, openapi_extra={SCOPE: OPEN, QUERY: ["q"]})
def get_document(request: Request, name: str = "", q: str = "") -> Response:
    """A runbook page, the page of a rule, or another document; they ship with the program and need no token."""
    kept = {"Cache-Control": "public, max-age=300"}
    if request.url.path.endswith("/docs"):
        return Response(status_code=307, headers={"Location": "docs/"})
    if name.endswith(".png"):
        return Response(_shipped(documents.picture_of(name)), media_type="image/png", headers=kept)
    name = name.removesuffix(".md")
    if name:
        text = document_html(name, _shipped(documents.text_of(name)), documents.pages())
    else:
        text = index_html(documents.titles(), q)
    return HTMLResponse(text, headers={**kept, "Content-Security-Policy": _DOCUMENT_POLICY})


def _shipped(found: _T | None) -> _T:
    if found is None:
        raise RequestRefused(_R.NOT_FOUND)
    return found


_METRICS: dict[str, Any] = {"response_class": PlainTextResponse, "responses": documented(ON_PAGES)}


@router.get("/metrics", **named("metrics", "read", "Numbers for Prometheus"), **_METRICS)
async def get_metrics(request: Request) -> Response:
    """Runs, verdicts, incidents, estimates, switches and leases of the newest windows."""
    text = await made(request, backend_of(request).metrics, "metrics")
    return PlainTextResponse(text, headers={"Cache-Control": "no-store"}, media_type=PROMETHEUS)
