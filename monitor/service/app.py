"""The HTTP service of the switch: routers read it, operators turn labels off and on. No state of its own.

:func:`create_app` is given a :class:`~monitor.service.backend.Service`, which has history and configuration. ``access``
decides what a request may do, ``api`` and ``page_routes`` answer it. docs/http.md is the page for users.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from monitor.service import api, page_routes
from monitor.service.access import Guard
from monitor.service.answers import LANES, Lane
from monitor.service.backend import Service
from monitor.service.bodies import HealthBody, ProblemBody
from monitor.service.error_pages import answer_refused
from monitor.service.problems import ALWAYS, SCHEMA_NAME, ProblemReason, RequestRefused, documented
from monitor.service.request_limits import RequestLimits
from monitor.service.tokens import hidden

_R = ProblemReason


def create_app(backend: Service, guard: Guard, *, docs: str | None = None) -> ASGIApp:
    """The service as an ASGI application. ``docs``: the address of docs/http.md, for the ``type`` of problems."""
    return RequestLimits(application(backend, guard, docs=docs), docs=docs)


def application(backend: Service, guard: Guard, *, docs: str | None = None) -> FastAPI:
    """The application behind the request limits; its ``openapi()`` is docs/openapi.json."""
    about = "May automation act? The switch of calibration-monitor."
    app = FastAPI(
        title="calmon automation", version="1", description=about, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.backend, app.state.guard, app.state.lanes = backend, guard, {lane: Lane() for lane in LANES}
    app.include_router(api.router)
    app.include_router(page_routes.router)
    health: dict[str, Any] = {"response_model": HealthBody, "operation_id": "health", "summary": "Liveness"}
    app.add_api_route("/health", get_health, **health, responses=documented(ALWAYS))
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
        if error.status_code == _R.METHOD_NOT_ALLOWED.status:
            return _other_method(request, docs)
        reason = _R.NOT_FOUND if error.status_code == _R.NOT_FOUND.status else _R.REQUEST_INVALID
        detail = "" if reason is _R.NOT_FOUND else "the body is not JSON that can be read"
        return answer_refused(request, RequestRefused(reason, detail), docs)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return answer_refused(request, RequestRefused(_R.INTERNAL_ERROR), docs)


def _other_method(request: Request, docs: str | None) -> Response:
    methods = {"OPTIONS"}
    for route in (*api.router.routes, *page_routes.router.routes, *request.app.routes):
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


def get_health() -> dict[str, str]:
    """Whether the process lives. Needs no token, and does not look at the history."""
    return {"status": "ok"}
