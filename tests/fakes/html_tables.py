"""The tables of a page as a reader sees them."""

from __future__ import annotations

import html
import re


def table_of(page: str, named: str) -> list[list[str]]:
    """The rows of the table that is labelled by ``named`` (an id, or a text of its own), without its head."""
    label = rf'aria-(?:labelledby|label)="{re.escape(named)}"'
    found = re.search(rf"<div [^>]*{label}[^>]*>\s*<table.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", found[1], re.DOTALL)
    return [[_text(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


def _text(cell: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split())
