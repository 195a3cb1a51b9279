"""``/items/<source>/<label>``: the items behind a finding, read from the warehouse when somebody asks."""

from __future__ import annotations

from typing import Any

from monitor.context import Monitor
from monitor.core.records import Subject, Window
from monitor.operations.examples import Examples, NoSuchRows, examples
from monitor.operations.open import open_warehouse
from monitor.service.pages.base import Page, PageContent, PageContext, Table
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.warehouse.examples import ExampleQuery, ExampleRow

SHOWN = 50
SECONDS = 30
"""How long the warehouse may take: other pages wait."""


def make(context: PageContext) -> PageContent:
    """The most confident decisions of one label in one week: the wrong ones, or the right ones on request.

    Raises RequestRefused for an unknown source or week, and for an invalid score.
    """
    subject, week = Subject(context.text("source"), context.text("label") or None), context.week()
    if subject.source not in context.config.sources:
        raise RequestRefused(ProblemReason.UNKNOWN_SOURCE)
    right = context.choice("decisions", ("wrong", "right"), "wrong") == "right"
    least, most = _score(context, "from", 0.0), _score(context, "to", 1.0)
    found, failed = None, ""
    if week is not None:
        found, failed = _read(context, subject, week, ExampleQuery(subject.label, right, least, most, SHOWN))
    values: dict[str, Any] = {
        "subject": subject,
        "week": week,
        "weeks": [window.name for window in context.weeks()],
        "right": right,
        "least": least,
        "most": most,
        "found": found,
        "failed": failed,
        "segments": list(found.rows[0].segments) if found is not None and found.rows else [],
    }
    return PageContent("items.html.j2", f"Items of {subject.name}", values, {"items": lambda: _table(found)})


def _score(context: PageContext, name: str, default: float) -> float:
    """A score of the query. Raises RequestRefused for an invalid one."""
    text = context.text(name)
    try:
        score = float(text) if text else default
    except ValueError:
        score = -1.0
    if not 0.0 <= score <= 1.0:
        raise RequestRefused(ProblemReason.REQUEST_INVALID, f"{name} is a score from 0 to 1")
    return score


def _read(context: PageContext, subject: Subject, week: Window, query: ExampleQuery) -> tuple[Examples | None, str]:
    """The items, or why there are none: a warehouse that does not answer is no error of the page."""
    settings = context.settings.model_copy(update={"warehouse_timeout_s": SECONDS})
    try:
        with open_warehouse(settings, context.config) as warehouse:
            monitor = Monitor(context.config, settings, warehouse, context.store, None, lambda: context.now)
            return examples(monitor, subject.source, week, query), ""
    except NoSuchRows as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - engines raise their own; their texts may hold addresses
        return None, f"the warehouse could not be read ({type(error).__name__}); `calmon examples` says more"


def _table(found: Examples | None) -> Table:
    rows: tuple[ExampleRow, ...] = () if found is None else found.rows
    names = list(rows[0].segments) if rows else []
    lines = (
        (r.item, r.label, r.score, r.actual, int(r.predicted), r.resolved_at, *(r.segments[n] for n in names))
        for r in rows
    )
    return Table(("item", "label", "score", "actual", "predicted", "resolved_at", *names), lines)


PAGE = Page(
    "/items/{source}/{label:path}",
    make,
    aliases=("/items",),
    query=frozenset({"week", "decisions", "from", "to", "source", "label"}),
)
