"""The paths of the dashboard's pages, relative to its address, for messages and pages."""

from __future__ import annotations

import hashlib
from unicodedata import category
from urllib.parse import quote, urlencode

FILE_NAME_BYTES, SHORTENED = 200, 40
_DOTS = frozenset({".", ".."})


def label_path(source: str, label: str | None) -> str:
    """The page of a label (None: of the source as a whole), without a slash before it.

    Names that a browser or a proxy would resolve as path segments, such as "..", are given as a query. So are names
    with a control character, which the service takes in no path.

    >>> label_path("tickets", "billing"), label_path("tickets", None), label_path("tickets", "a/b?")
    ('label/tickets/billing', 'label/tickets/', 'label/tickets/a%2Fb%3F')
    >>> label_path("tickets", "..")
    'label?source=tickets&label=..'
    >>> label_path("tickets", "new\\ttab")
    'label?source=tickets&label=new%09tab'
    """
    name = label or ""
    controls = any(category(char) == "Cc" for char in source + name)
    if controls or "/" in source or not _DOTS.isdisjoint({source, *name.split("/")}):
        return "label?" + urlencode({"source": source, "label": name})
    return f"label/{quote(source, safe='')}/{quote(name, safe='')}"


def drift_file(source: str) -> str:
    """The name of the file with the drift of a source's feature columns, in the folder of its window.

    >>> drift_file("tickets"), drift_file("../a b")
    ('drift-tickets.html', 'drift-___a_b.html')
    """
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in source)
    if len(safe.encode()) > FILE_NAME_BYTES:
        safe = f"{safe[:SHORTENED]}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    return f"drift-{safe}.html"


def drift_path(source: str, week: str) -> str:
    """The page with the drift of a source's feature columns in one week, without a slash before it.

    >>> drift_path("tickets & mail", "2026-W46")
    'drift?source=tickets+%26+mail&week=2026-W46'
    """
    return "drift?" + urlencode({"source": source, "week": week})
