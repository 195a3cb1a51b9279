"""Documents of ``docs/`` as HTML pages, to which messages link. Pure: Markdown in, HTML out; raw HTML is escaped."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from itertools import pairwise
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from monitor.report.html import page

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
    for token in tokens:
        _rewrite_links(token, name, pages)
    title = headings[0][1] if headings else name
    return _page(name, title, Markup(parser.renderer.render(tokens, parser.options, {})))  # noqa: S704 - html is off


def index_html(pages: Collection[str]) -> str:
    """The list of all documents."""
    links = Markup("").join(Markup('<li><a href="{0}">{0}</a></li>').format(each) for each in sorted(pages))
    return _page("", "Documents", Markup("<h1>Documents</h1><ul>{}</ul>").format(links))


def _page(name: str, title: str, body: Markup) -> str:
    up = "../" * name.count("/")
    return page("document.html.j2", title=title, body=body, index=f"{up}./", home=f"{up}../")


def _rewrite_links(token: Token, name: str, pages: Collection[str]) -> None:
    """Point links between documents to their pages, and remove links to other files."""
    for child in token.children or ():
        target = str(child.attrGet("href") or "")
        if child.type != "link_open" or _ADDRESS_OR_ANCHOR.match(target):
            continue
        path, mark, anchor = target.partition("#")
        found = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if found.removesuffix(".md") in pages:
            child.attrSet("href", path.removesuffix(".md") + mark + anchor)
        else:
            cast("dict[str, str]", child.attrs).pop("href", None)
