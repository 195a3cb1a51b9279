"""What a page of the dashboard is given, what it returns, and how that is sent.

To add a page:

1. a module in ``monitor/service/pages`` with a function ``make(context: PageContext) -> PageContent``, which reads the
   history (one query where possible) and nothing else, and a
   ``PAGE = Page("/name", make, nav="Name", query=frozenset({...}))``;
2. its line in ``PAGES`` of ``__init__.py``: that gives it an address, its place in the navigation and the guard of
   all pages;
3. a template in ``monitor/service/templates`` that extends ``base.html.j2`` (blocks ``content`` and ``tools``). Figures
   are SVG from :mod:`monitor.report.figures.svg`; the policy allows neither inline script nor inline style, so looks go
   to ``static/page.css`` and every figure has a text or a table beside it;
4. its row in docs/dashboard.md, and its address in ``ADDRESSES`` of tests/browser/test_pages.py.

What a page shows is in its address: query parameters that ``Page.query`` does not name are refused, and
:meth:`PageContext.url` makes links that keep the others. ``PageContent.tables`` are the tables of the page by name;
``?csv=NAME`` answers one as CSV, and the macro ``csv`` of ``macros.html.j2`` links to it. Links within the dashboard
are relative (``root``), so that it may lie below a path of a proxy. The answer has an ETag over all but its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment

from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.core import documents
from monitor.core.page_paths import label_path
from monitor.core.records import Window
from monitor.core.wording import duration, percent
from monitor.history.store import Store
from monitor.report import words
from monitor.report.csv_table import Table, csv_text
from monitor.report.html import templates_of
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.story.gather import Teller
from monitor.story.incident import event_words, state_words
from monitor.story.label import STATE_WORDS, people_words

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
WEEKS_SHOWN = 156
"""How many windows a page looks back: three years of weeks."""
RANGES = {"13": 13, "26": 26, "52": 52, "all": WEEKS_SHOWN}
"""How many weeks a strip or a trend shows, by the value of the parameter ``range``."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a page shows: its template with its values, and its tables by name, made only on request."""

    template: str
    title: str
    values: Mapping[str, Any]
    tables: Mapping[str, Callable[[], Table]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page: parts of the path, the query, the relative path to the root."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    root: str


@dataclass(frozen=True, slots=True)
class PageContext:
    """Everything that a page is given. ``config`` is the newest alerts.yaml that could be read."""

    store: Store
    config: Config
    settings: Settings
    now: datetime
    request: PageRequest

    def text(self, name: str, default: str = "") -> str:
        """A query parameter, or a part of the path."""
        return self.request.path.get(name) or self.request.query.get(name, default)

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        """A query parameter out of ``allowed``. Raises RequestRefused for any other."""
        found, known = self.request.query.get(name) or default, [default, *allowed]
        if found not in known:
            raise RequestRefused(ProblemReason.REQUEST_INVALID, f"{name} is one of: {', '.join(dict.fromkeys(known))}")
        return found

    def url(self, **changes: str | None) -> str:
        """A link to this page with changed parameters (None or "": removed); it keeps the others."""
        found = {name: value for name, value in {**self.request.query, **changes}.items() if value and name != "csv"}
        return "?" + urlencode(found | ({"csv": changes["csv"]} if changes.get("csv") else {}))

    def weeks(self, limit: int = WEEKS_SHOWN) -> list[Window]:
        """The weeks that were evaluated, newest first."""
        return list(self.store.evaluated_windows("weekly", limit=limit, until=self.now))

    def range_name(self) -> str:
        """The chosen range of weeks. Raises RequestRefused for an unknown one."""
        return self.choice("range", RANGES, "26")

    def range_weeks(self) -> int:
        """How many weeks a strip or a trend shows. Raises RequestRefused for an unknown range."""
        return RANGES[self.range_name()]

    def week(self) -> Window | None:
        """The week that the address names, else the newest (None: there is none yet). Raises RequestRefused."""
        requested = self.request.query.get("week")
        return self.week_named(requested) if requested else next(iter(self.weeks(1)), None)

    def week_named(self, name: str) -> Window:
        """A week that was evaluated, by its name. Raises RequestRefused for any other."""
        found = next((window for window in self.weeks() if window.name == name), None)
        if found is None:
            raise RequestRefused(ProblemReason.UNKNOWN_WEEK)
        return found


def teller(context: PageContext, week: Window | None = None) -> Teller:
    """Who tells the stories of a page: as of now, or where the address names a past week, as of its run."""
    if week is None or not context.text("week"):
        return Teller(context.store, context.config, context.now)
    return Teller.of_run(context.store, context.config, week, context.now)


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its address, as Starlette writes it, what makes it, its name in the navigation ("": not in it).

    ``query`` are the parameters it takes (``csv`` is every page's).
    """

    address: str
    make: Callable[[PageContext], PageContent]
    nav: str = ""
    aliases: tuple[str, ...] = ()
    query: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to send: the body, and a weak ETag that stays the same if only the time of the page differs."""

    body: bytes
    media_type: str
    etag: str
    filename: str | None = None


def answer(page: Page, pages: Sequence[Page], context: PageContext) -> Answer:
    """Make a page, or with ``?csv=`` one of its tables. Raises RequestRefused for an unknown table."""
    view, table = page.make(context), context.request.query.get("csv")
    if table and table not in view.tables:
        raise RequestRefused(ProblemReason.NOT_FOUND, f"tables of this page: {', '.join(view.tables) or 'none'}")
    if table:
        body = csv_text(view.tables[table]()).encode()
        return Answer(body, "text/csv; charset=utf-8", etag_of(body), f"calmon-{table}.csv")
    made_at = words.moment_text(context.now, context.config.zone)
    frame = {
        "title": view.title,
        "root": context.request.root,
        "context": context,
        "tz": context.config.zone,
        "made_at": made_at,
        "replica": context.store.replica(),
        "version": version(),
        "nav": [(each.nav, each.address.lstrip("/"), each is page) for each in pages if each.nav],
    }
    text = environment().get_template(view.template).render(**frame, **view.values)
    return Answer(text.encode(), "text/html; charset=utf-8", etag_of(text.replace(made_at, "").encode()))


def etag_of(body: bytes) -> str:
    """A weak validator of an answer.

    >>> etag_of(b"")
    'W/"e3b0c44298fc1c149afbf4c8996fb924"'
    """
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


@cache
def environment() -> Environment:
    """The templates of the pages; every value in them is escaped."""
    found = templates_of("monitor.service")
    found.globals.update(
        percent=percent, label_path=label_path, state_words=STATE_WORDS, duration=duration, state_of=state_words,
        event_words=event_words, people=people_words, documents=documents.pages(), ranges=RANGES,
    )  # fmt: skip
    return found


@cache
def static(name: str) -> bytes:
    """The style sheet or the script of all pages. Raises KeyError for another name."""
    if name not in STATIC:
        raise KeyError(name)
    return (files("monitor.service") / "static" / name).read_bytes()


@cache
def version() -> str:
    """The version of style sheet and script: a browser requests them again only after a change."""
    return hashlib.sha256(b"".join(static(name) for name in sorted(STATIC))).hexdigest()[:12]
