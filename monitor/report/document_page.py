"""Documents of ``docs/`` as HTML pages, to which messages link. Pure: Markdown in, HTML out; raw HTML is escaped."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import cast

from markdown_it import MarkdownIt
from markupsafe import Markup

from monitor.core import documents
from monitor.report.html import page

_SEARCH = Markup(
    '<form method="get" role="search"><label>Search titles <input type="search" name="q" value="{}"></label> '
    "<button>Search</button></form>"
)
_ADDRESS_OR_ANCHOR = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def document_html(name: str, text: str, pages: Collection[str]) -> str:
    """The page of the document ``name`` (like ``runbook/increased``); ``pages`` are the names of all.

    >>> html = document_html("runbook/a", "# A & B\\n\\n[b](../b.md#how) [c](../../c.py) <script>", {"runbook/a", "b"})
    >>> '<h1 id="a--b">A &amp; B</h1>' in html, '<a href="../b#how">b</a>' in html, "c.py" in html, "<script>" in html
    (True, True, False, False)
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    headings = [(token, inline.content) for token, inline in pairwise(tokens) if token.type == "heading_open"]
    for token, content in headings:  # links to a section use this id
        token.attrSet("id", re.sub(r"[^\w -]", "", content.lower()).replace(" ", "-"))
    for child in (child for token in tokens for child in token.children or ()):
        # links between documents lead to their pages; those to other files are none
        target = str(child.attrGet("href") or "")
        if child.type != "link_open" or _ADDRESS_OR_ANCHOR.match(target):
            continue
        path, mark, anchor = target.partition("#")
        found = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if found.removesuffix(".md") in pages:
            child.attrSet("href", path.removesuffix(".md") + mark + anchor)
        else:
            cast("dict[str, str]", child.attrs).pop("href", None)
    title = headings[0][1] if headings else name
    return _page(name, title, Markup(parser.renderer.render(tokens, parser.options, {})))  # noqa: S704 - html is off


def index_html(titles: Mapping[str, str], search: str = "") -> str:
    """The list of all documents as they are grouped, by name -> title; ``search`` leaves those with it in their title.

    >>> html = index_html({"tutorial": "Begin", "runbook/a": "A rose", "old": "Old"}, "rose")
    >>> "A rose" in html, "Begin" in html
    (True, False)
    """
    fitting = {name: title for name, title in titles.items() if search.casefold() in f"{title} {name}".casefold()}
    parts = [_SEARCH.format(search)]
    for heading, names in groups_of(fitting).items():
        links = Markup("").join(Markup('<li><a href="{}">{}</a></li>').format(name, fitting[name]) for name in names)
        parts.append(Markup("<h2>{}</h2><ul>{}</ul>").format(heading, links))
    if not fitting:
        parts.append(Markup("<p>No title has this.</p>"))
    return _page("", "Documents", Markup("<h1>Documents</h1>") + Markup("").join(parts))


def groups_of(names: Iterable[str]) -> dict[str, list[str]]:
    """The names by the heading of their group, in the order of :data:`documents.GROUPS`; the others are of the method.

    >>> groups_of(["metrics", "tutorial", "runbook/b", "shift"])
    {'Start': ['tutorial'], 'Reference': ['metrics'], 'Method': ['shift'], 'Runbook': ['runbook/b']}
    """
    listed = {name: heading for heading, members in documents.GROUPS.items() for name in members}
    order = [name for members in documents.GROUPS.values() for name in members]
    by_heading: dict[str, list[str]] = {heading: [] for heading in documents.GROUPS}
    for name in sorted(names, key=lambda name: (order.index(name) if name in listed else len(order), name)):
        of_folder = documents.FOLDERS.get(name.partition("/")[0]) if "/" in name else None
        by_heading[of_folder or listed.get(name, documents.OTHERS)].append(name)
    return {heading: members for heading, members in by_heading.items() if members}


def _page(name: str, title: str, body: Markup) -> str:
    up = "../" * name.count("/")
    return page("document.html.j2", title=title, body=body, index=f"{up}./", home=f"{up}../")
