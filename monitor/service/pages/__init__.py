"""The pages of the dashboard, one module each, in the order of the navigation; ``base`` says how to add one."""

from __future__ import annotations

from monitor.service.pages import (
    automation,
    compare,
    incidents,
    items,
    label,
    monitor,
    overview,
    rules,
)
from monitor.service.pages.base import Page

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    label.PAGE,
    items.PAGE,
    incidents.PAGE,
    incidents.ONE,
    automation.PAGE,
    compare.PAGE,
    rules.PAGE,
    monitor.PAGE,
)
