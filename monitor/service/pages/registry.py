"""All pages of the dashboard, in the order of the navigation."""

from __future__ import annotations

from monitor.service.pages import automation, incident, incidents, items, label, monitor, overview, weeks
from monitor.service.pages.base import Page

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    label.PAGE,
    items.PAGE,
    incidents.PAGE,
    incident.PAGE,
    automation.PAGE,
    weeks.PAGE,
    monitor.PAGE,
)
