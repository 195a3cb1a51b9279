"""``/items/<source>/<label>``: the items behind a finding, read from the warehouse when somebody asks."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from monitor.context import Monitor
from monitor.core.diagnoses import Diagnosis, LabelProblem
from monitor.core.records import Subject, Window, WrongRequest
from monitor.core.wording import segment_name
from monitor.operations.examples import Examples, examples, really
from monitor.operations.open import open_warehouse
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.warehouse.statements import ExampleQuery

SHOWN, HALF = 50, 0.5
ABOUT_ACTING = frozenset({LabelProblem.OVERCONFIDENT, LabelProblem.LESS_ACCURATE})
SECONDS = 30
"""How long the warehouse may take: other pages wait."""


def make(context: PageContext) -> PageContent:
    """The most confident decisions of one label in one week: the wrong ones, or the right ones on request.

    Unless the address says otherwise, they are those of the rows that the label's trouble is about. Raises
    RequestRefused for an unknown source or week, and for an invalid score.
    """
    subject, week = Subject(context.text("source"), context.text("label") or None), context.week()
    if subject.source not in context.config.sources:
        raise RequestRefused(ProblemReason.UNKNOWN_SOURCE)
    right = context.choice("decisions", ("wrong", "right"), "wrong") == "right"
    story = None if week is None else teller(context, week).of_label(subject.source, subject.label)
    about = None if story is None else story.trouble
    is_of_trouble = about is not None and context.choice("rows", ("all",), "trouble") == "trouble"
    acts_from = context.config.sources[subject.source].automate_from(subject.label)
    query = query_of(about if is_of_trouble else None, subject.label, acts_from)
    query = replace(
        query, right=right, least=_score(context, "from", query.least), most=_score(context, "to", query.most)
    )
    found, failed = (None, "") if week is None else _read(context, subject, week, query)
    values: dict[str, Any] = {
        "subject": subject, "week": week, "weeks": context.weeks(), "right": right,
        "query": query, "story": story, "found": found, "failed": failed, "is_of_trouble": is_of_trouble,
        "part": None if query.segment is None else segment_name(*query.segment),
        "command": "" if week is None else _command(subject, week, query),
        "really": "" if found is None or right else really(found.rows),
    }  # fmt: skip
    return PageContent("items.html.j2", f"Items of {subject.name}", values)


def query_of(trouble: Diagnosis | None, label: str | None, acts_from: float) -> ExampleQuery:
    """The rows that a trouble is about: where it is about what acts, those that act; of misses, those left out."""
    if trouble is None:
        return ExampleQuery(label, limit=SHOWN)
    least = acts_from if trouble.problem in ABOUT_ACTING else 0.0
    most = HALF if trouble.problem is LabelProblem.MISSES else 1.0
    return ExampleQuery(label, least=least, most=most, limit=SHOWN, segment=trouble.segment)


def _command(subject: Subject, week: Window, query: ExampleQuery) -> str:
    """The command that shows more of these rows; of a segment those of the other values too."""
    words = ["--source", subject.source, *(() if subject.label is None else ("--label", subject.label))]
    words += ["--week" if week.schedule == "weekly" else "--date", week.name, "--right" if query.right else "--wrong"]
    words += ["--score-min", f"{query.least:g}"] if query.least > 0 else []
    words += ["--score-max", f"{query.most:g}"] if query.most < 1 else []
    return shlex.join(["calmon", "examples", *words, "--limit", "1000"])


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
    except WrongRequest as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - engines raise their own; their texts may hold addresses
        return None, f"the warehouse could not be read ({type(error).__name__}); `calmon examples` says more"


PAGE = Page(
    "/items/{source}/{label:path}",
    make,
    aliases=("/items",),
    query=frozenset({"week", "decisions", "rows", "from", "to", "source", "label"}),
)
