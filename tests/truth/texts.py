"""Texts taken apart: what a terminal, a page, a Markdown file or a message shows, as lines and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text as RichText


@dataclass
class Table:
    """A table as people see it: a title (or ""), the names of its columns, and the texts of its cells."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def records(self) -> Iterator[dict[str, str]]:
        """Each row by the names of the columns."""
        for row in self.rows:
            yield dict(zip(self.head, row, strict=False))


Part = str | Table
_PLAIN = Console(width=1000, file=None, no_color=True)


class Recorder(Console):
    """A console that keeps what it is asked to print, and prints nothing: drawing tables takes most of the time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(width=1000, **options)
        self.seen: list[Part] = []

    def print(self, *objects: Any, **options: Any) -> None:
        for each in objects:
            self.seen.extend(parts_of(each))

    def taken(self) -> list[Part]:
        """What was printed since this was asked last."""
        found, self.seen = self.seen, []
        return found


def parts_of(shown: Any) -> Iterator[Part]:
    """The lines and tables of anything that Rich prints."""
    if isinstance(shown, Group):
        for each in shown.renderables:
            yield from parts_of(each)
    elif isinstance(shown, RichTable):
        columns = [[plain(cell) for cell in column._cells] for column in shown.columns]
        head = tuple(plain(column.header) for column in shown.columns)
        title = "" if shown.title is None else plain(shown.title)
        yield Table(title, head, list(zip(*columns, strict=True)))
        if shown.caption is not None:
            yield plain(shown.caption)
    elif hasattr(shown, "__rich_console__") and not isinstance(shown, RichText):
        for each in shown.__rich_console__(_PLAIN, _PLAIN.options):  # a table that is built for its room
            yield from parts_of(each)
    else:
        yield from (line for line in plain(shown).split("\n") if line.strip())


def plain(cell: Any) -> str:
    """The text of a cell, whatever draws it."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, RichText):
        return cell.plain
    lines = _PLAIN.render_lines(cell, _PLAIN.options, pad=False)
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


# --- Markdown

_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+!|~<>&-])")


def unescaped(text: str) -> str:
    """Markdown as people read it: without its escapes."""
    return _ESCAPED.sub(r"\1", text).replace("**", "")


def _cells(line: str) -> tuple[str, ...]:
    cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return tuple(unescaped(cell.strip()).replace("<br>", "\n") for cell in cells)


# --- HTML

_BLOCKS = {"p", "li", "h1", "h2", "h3", "summary", "caption", "figcaption", "title", "dt", "dd", "div", "header", "a"}
_SKIPPED = {"script", "style"}


class _Page(HTMLParser):
    """Lines and tables of a page; parts of a cell that are elements of their own are joined by " | "."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[Part] = []
        self._skipped = 0
        self._text: list[str] = []
        self._title = ""
        self._table: Table | None = None
        self._head: list[str] = []
        self._row: list[str] | None = None
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _SKIPPED:
            self._skipped += 1
        elif tag == "table":
            self._flush()
            self._table, self._head = Table(self._title, ()), []
        elif tag == "tr" and self._table is not None:
            self._row = []
        elif tag in ("td", "th") and self._row is not None:
            self._cell = []
        elif self._cell is not None and tag in ("span", "code", "li", "br", "bdi", "a"):
            self._cell.append("\x1f")
        elif tag in _BLOCKS and self._table is None:
            self._flush()
        label = given.get("aria-label")
        if label and self._table is None:
            self.parts.append(label)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipped -= 1
        elif self._cell is not None and tag in ("span", "code", "li", "bdi", "a"):
            self._cell.append("\x1f")
        elif tag in ("td", "th") and self._row is not None and self._cell is not None:
            self._row.append(_joined("".join(self._cell)))
            self._cell = None
        elif tag == "tr" and self._row is not None and self._table is not None:
            if not self._table.head:
                self._table.head = tuple(self._row)
            else:
                self._table.rows.append(tuple(self._row))
            self._row = None
        elif tag == "table" and self._table is not None:
            self.parts.append(self._table)
            self._table = None
        elif tag in _BLOCKS and self._table is None:
            self._flush(title=tag in ("h1", "h2", "h3", "summary"))

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if self._cell is not None:
            self._cell.append(data)
        elif self._table is None:
            self._text.append(data)

    def _flush(self, *, title: bool = False) -> None:
        text = " ".join("".join(self._text).split())
        self._text = []
        if text:
            self.parts.append(f"# {text}" if title else text)
            if title:
                self._title = text

    def done(self) -> list[Part]:
        self._flush()
        return self.parts


def _joined(text: str) -> str:
    parts = (" ".join(part.split()) for part in text.split("\x1f"))
    return " | ".join(part for part in parts if part)


# --- messages

_LINK = re.compile(r"<(https?://[^|>]+)\|([^>]*)>")


@dataclass
class Message:
    """A Slack payload as people see it."""

    push: str
    blocks: list[tuple[str, list[str]]]  # (kind, lines)
    buttons: list[tuple[str, str, str]]  # (action, text, value)
    links: list[tuple[str, str]]  # (address, text)


def message_of(payload: Mapping[str, Any]) -> Message:
    """Header, sections, context and buttons of a payload in their order."""
    made = Message(_shown(str(payload.get("text", ""))), [], [], [])
    for block in payload.get("blocks") or ():
        kind = block["type"]
        texts: list[str] = []
        if kind in ("header", "section") and "text" in block:
            texts = [block["text"]["text"]]
        texts += [each["text"] for each in block.get("fields", ())]
        if kind == "context":
            texts = [each["text"] for each in block["elements"] if "text" in each]
        if kind == "actions":
            made.buttons += [
                (e["action_id"], e["text"]["text"], e.get("value", "")) for e in block["elements"] if "action_id" in e
            ]  # fmt: skip
        if kind == "section" and "accessory" in block:
            e = block["accessory"]
            made.buttons.append((e.get("action_id", ""), e.get("text", {}).get("text", ""), e.get("value", "")))
        for text in texts:
            made.links += [(match[1], match[2]) for match in _LINK.finditer(text)]
        lines = [line for text in texts for line in _shown(text).split("\n") if line.strip()]
        if lines:
            made.blocks.append((kind, lines))
    return made


def _shown(text: str) -> str:
    """``mrkdwn`` as people read it: links by their text, marks gone."""
    text = _LINK.sub(lambda match: match[2], text)
    for code, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(code, char)
    return re.sub(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])", r"\1", text)


def rows_of(parts: Sequence[Part]) -> Iterator[tuple[Table, dict[str, str]]]:
    """Every row of every table."""
    for part in parts:
        if isinstance(part, Table):
            for record in part.records():
                yield part, record
