"""``/``: where to look first."""

from __future__ import annotations

from monitor.service.pages.base import Page, PageContent, PageContext


def make(asked: PageContext) -> PageContent:
    """The overview."""
    return PageContent("overview.html.j2", "Overview", {"week": asked.week()})


PAGE = Page("/", make, nav="Overview", query=frozenset({"week"}))
