"""What people see, taken apart: the texts of messages and pages, their numbers, names and dates, and their commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import typer

from monitor.cli.common import program

_TOKEN = re.compile(
    r"\d{4}-W\d\d|\d{4}-\d\d-\d\d(?: \d\d:\d\d)?|\b[0-9a-f]{8}\b|(?<![\w.])-?\d[\d,]*(?:\.\d+)?%?(?:e-?\d+)?"
)
_COMMAND = re.compile(r"`(calmon [^`]+)`|<code>(calmon [^<]+)</code>")
USAGE_ERROR = typer.BadParameter.__bases__[0]  # Typer has its own copy of click
_MARK = re.compile(r"<!?(?:subteam|here|channel|@)[^>]*>|:[a-z_]+:|<(https?://[^|>]+)\|([^>]*)>")


def tokens(text: str) -> list[str]:
    """The numbers, dates and ids of a text, in their order.

    >>> tokens("58% right since 2026-W35 (1,204 items), incident 4f1c9a02, until Mon 2026-09-01 06:30 UTC")
    ['58%', '2026-W35', '1,204', '4f1c9a02', '2026-09-01 06:30']
    """
    return [match[0].rstrip(",") for match in _TOKEN.finditer(text)]


def leaves(value: Any) -> Iterator[Any]:
    """Every number, text and time in nested data."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield value


def forms(value: Any) -> Iterator[str]:
    """The ways in which a stored value may be written."""
    if isinstance(value, str):
        yield from tokens(value)
    elif isinstance(value, datetime):
        yield f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
        yield f"{value.astimezone(UTC):%Y-%m-%d}"
    elif isinstance(value, int | float):
        for number in {value, abs(value)}:
            yield from (f"{100 * number:.1f}", f"{100 * number:.0f}", f"{number:.3f}", f"{number:.2f}", f"{number:g}")
            yield from (share(number), f"{round(number):,}", f"{number:.1f}")


def share(value: float) -> str:
    """A share as it is written: with a decimal only where it is small."""
    number = 100 * value
    return f"{number:.1f}%" if abs(number) < 10 else f"{number:.0f}%"


def all_forms(values: Iterable[Any]) -> set[str]:
    """The ways in which any of these values may be written."""
    return {form for value in values for form in forms(value)}


def shown(payload: Mapping[str, Any]) -> str:
    """The visible text of a Slack payload."""
    parts = [str(payload.get(name, "")) for name in ("text", "title", "alt")]
    for block in payload.get("blocks", ()):
        parts += [block["text"]["text"]] if "text" in block else []
        parts += [str(e["text"]) for e in block.get("elements", ()) if block["type"] == "context" and "text" in e]
    text = _MARK.sub(lambda match: match[2] or " ", "\n".join(parts))
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def buttons(payload: Mapping[str, Any]) -> set[str]:
    """The actions that a message offers."""
    blocks = [block for block in payload.get("blocks", ()) if block["type"] == "actions"]
    return {element["action_id"] for block in blocks for element in block["elements"] if "action_id" in element}


def links(payload: Mapping[str, Any]) -> list[str]:
    """The addresses of a message."""
    return re.findall(r"<(https?://[^|>]+)\|", str(payload.get("blocks", "")))


def commands(text: str) -> list[str]:
    """The commands that a text prints."""
    return [match[1] or match[2] for match in _COMMAND.finditer(text)]


def refusal(command: str) -> str | None:
    """Why the command line does not take a command as it is printed; None if it does. Nothing is run.

    >>> refusal("calmon incidents ack 4f1c9a02"), refusal("calmon incidents show a or b") is None
    (None, False)
    """
    group = program()
    context = group.make_context("calmon", shlex.split(command)[1:])
    try:
        while hasattr(group, "resolve_command"):
            name, group, rest = group.resolve_command(context, [*context._protected_args, *context.args])
            context = group.make_context(name, list(rest), parent=context)
    except typer.Exit:
        return None
    except USAGE_ERROR as error:
        return str(error.format_message())
    return None


# --- pages


class _Page(HTMLParser):
    """The texts of the stories on a page, without the figures in them: parts of the class "story" or "told"."""

    STORIES, SKIPPED = frozenset({"story", "told"}), frozenset({"svg", "details", "script"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._within: list[str] = []
        self._skipped: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._within and tag in self.SKIPPED:
            self._skipped.append(tag)
        elif self._within and tag == self._within[0]:
            self._within.append(tag)
        elif not self._within and self.STORIES & set((dict(attrs).get("class") or "").split()):
            self._within = [tag]
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and tag == self._skipped[-1]:
            self._skipped.pop()
        elif self._within and tag == self._within[-1]:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if self._within and not self._skipped:
            self.texts[-1] += data


def told_on(html: str) -> list[str]:
    """The texts of the stories on a page."""
    page = _Page()
    page.feed(html)
    return [" ".join(text.split()) for text in page.texts]
