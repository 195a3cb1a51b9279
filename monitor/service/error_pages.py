"""Errors as pages, for people: a browser that is refused gets a page of the service, every other client JSON."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from monitor.service.pages import PAGES
from monitor.service.pages.base import POLICY, environment, version
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.service.request_limits import problem_response
from monitor.service.tokens import hidden

SHOWN = 200
"""How much of an address a page shows."""
_PROGRAMS = ("/v1", "/v1/", "/metrics", "/health")
"""Addresses of programs; one that ends with a slash is that of all below it."""
_FOR_PEOPLE: Mapping[ProblemReason, str] = {
    ProblemReason.TOKEN_MISSING: "the browser asks for a name and a password: any name, and a token of the scope read",
    ProblemReason.TOKEN_UNKNOWN: "the password must be a token of the tokens file, of the scope read",
}


def answer_refused(request: Request, refused: RequestRefused, docs: str | None) -> Response:
    """The answer to a refused request: a page where a browser asks for one, else a problem as JSON."""
    path = request.scope["path"]
    if not (_is_of_people(path) and asks_for_page(request.headers.getlist("accept"))):
        return problem_response(refused, docs)
    form = path.lstrip("/") if (request.method, path) == ("POST", "/automation") else ""
    text = environment().get_template("error.html.j2").render(
        replica=None, version=version(),
        title=f"{'Not done: ' if form else ''}{refused.reason.heading}", form=form, root=root_of(request),
        detail=refused.detail if form else _FOR_PEOPLE.get(refused.reason, refused.detail),
        address=hidden(path)[:SHOWN], nav=[(page.nav, page.address.lstrip("/"), False) for page in PAGES if page.nav],
    )  # fmt: skip
    return HTMLResponse(text, refused.status, {**refused.headers, "Content-Security-Policy": POLICY})


def _is_of_people(path: str) -> bool:
    return not any(path.startswith(each) if each.endswith("/") else path == each for each in _PROGRAMS)


def root_of(request: Request) -> str:
    """The relative path from the request's address to the root of the service, which may lie below a proxy's path."""
    depth = request.scope["raw_path"].count(b"/") - 1
    return "../" * depth if depth > 0 else "./"


def asks_for_page(accept: list[str]) -> bool:
    """Whether ``Accept`` names HTML and no JSON, as browsers do when somebody opens an address.

    >>> asks_for_page(["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"])
    True
    >>> asks_for_page(["*/*"]), asks_for_page(["application/json, text/html;q=0.5"]), asks_for_page([])
    (False, False, False)
    """
    ranges = [part.partition(";")[0].strip().lower() for line in accept for part in line.split(",")]
    return "text/html" in ranges and not any(each.endswith(("/json", "+json")) for each in ranges)
