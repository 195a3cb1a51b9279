"""Where the pages of the dashboard are, relative to its own address: messages and pages link alike."""

from __future__ import annotations

from urllib.parse import quote, urlencode

_DOTS = frozenset({".", ".."})


def label_path(source: str, label: str | None) -> str:
    """The page of a label (None: of the source as a whole), without a slash before it.

    What a browser or a proxy would take for a step in the path is given as a query.

    >>> label_path("tickets", "billing"), label_path("tickets", None), label_path("tickets", "a/b?")
    ('label/tickets/billing', 'label/tickets/', 'label/tickets/a%2Fb%3F')
    >>> label_path("tickets", "..")
    'label?source=tickets&label=..'
    """
    name = label or ""
    if "/" in source or not _DOTS.isdisjoint({source, *name.split("/")}):
        return "label?" + urlencode({"source": source, "label": name})
    return f"label/{quote(source, safe='')}/{quote(name, safe='')}"
