"""The addresses for people, and for Prometheus: pages and their form, documents, numbers."""

from __future__ import annotations

from typing import Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from monitor.core import documents
from monitor.report.document_page import document_html, index_html
from monitor.service.access import OPEN, PAGE, QUERY, SCOPE, Guard, GuardedRoute, named
from monitor.service.answers import backend_of, has, made
from monitor.service.error_pages import root_of
from monitor.service.forms import fields_of, refuse_other_site, scope_of, turn
from monitor.service.pages import PAGES, items
from monitor.service.pages.base import POLICY, STATIC, Page, PageRequest, static
from monitor.service.problems import ON_PAGES, ProblemReason, RequestRefused, documented

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
    refuse_other_site(request.headers)
    fields = fields_of(request.headers.get("content-type", ""), await request.body())
    guard: Guard = request.app.state.guard
    token = fields.pop("token", "").strip()
    name = f"api:{await to_thread.run_sync(guard.let_token, token, scope_of(fields))}"
    target = await to_thread.run_sync(turn, backend_of(request), fields, name)
    return Response(status_code=303, headers={"Cache-Control": "no-store", "Location": target})


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
