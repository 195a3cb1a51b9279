"""``/weeks``: the weeks that were evaluated, each with its report."""

from __future__ import annotations

from monitor.service.pages.base import Page, PageContent, PageContext, Table


def make(context: PageContext) -> PageContent:
    """The list of weeks, newest first."""
    found = context.weeks()

    def table() -> Table:
        return Table(("week", "start", "end"), [(week.name, week.start, week.end) for week in found])

    return PageContent("weeks.html.j2", "Weeks", {"weeks": found}, {"weeks": table})


PAGE = Page("/weeks", make, nav="Weeks")
