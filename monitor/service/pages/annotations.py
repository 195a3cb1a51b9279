"""``/annotations``: the timeline of events, and a form to add an annotation."""

from __future__ import annotations

from datetime import timedelta

from monitor.core.records import LABEL_BYTES
from monitor.history.values import ANY
from monitor.operations.annotate import LONGEST
from monitor.report.csv_table import Table
from monitor.service.pages.base import WEEKS_SHOWN, Page, PageContent, PageContext

ROWS_SHOWN = 200


def make(context: PageContext) -> PageContent:
    """The timeline of three years, newest first."""
    source, label = context.text("source") or None, context.text("label") or None
    since, until = context.now - timedelta(weeks=WEEKS_SHOWN), context.now + timedelta(weeks=WEEKS_SHOWN)
    events = context.store.timeline(source, ANY if label is None else label, since=since, until=until)[::-1]
    values = {
        "events": events[:ROWS_SHOWN],
        "hidden": max(0, len(events) - ROWS_SHOWN),
        "source": source,
        "label": label,
        "sources": tuple(context.config.sources),
        "longest": LONGEST,
        "label_longest": LABEL_BYTES,
    }
    columns = ("at", "kind", "source", "label", "text", "by", "id")
    return PageContent("annotations.html.j2", "Annotations", values, {"timeline": lambda: Table.of(events, *columns)})


PAGE = Page("/annotations", make, nav="Annotations", query=frozenset({"source", "label"}))
