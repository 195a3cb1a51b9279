"""Consoles and plain tables, where every command prints. Every command imports this, so it imports little but Rich."""

from __future__ import annotations

import os
import sys
from copy import copy
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from monitor.core.process_environment import size_of
from monitor.core.wording import printable

WIDE = 140
_WIDER_THAN_ANY = 10_000


class PlainConsole(Console):
    """A console that prints texts as they are: no text moves the cursor, reorders a line or becomes an emoji."""

    def print(self, *objects: Any, **more: Any) -> None:
        """Print like Rich, texts without control characters and without invisible ones that reorder them."""
        super().print(*(_visible(each) for each in objects), **{"emoji": False} | more)


def _visible(given: Any) -> Any:
    if isinstance(given, str):
        return printable(given)
    if isinstance(given, Text) and printable(given.plain) != given.plain:
        return Text(printable(given.plain), style=given.style)
    return given


def console(*, stderr: bool = False) -> Console:
    """A console. In a file or a log, lines are wide enough for whole tables.

    The environment variable COLUMNS overrides that width, as usual. A stream may be None: it was closed.
    """
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream is not None and stream.isatty()
    return PlainConsole(stderr=stderr, width=None if terminal else size_of(os.environ.get("COLUMNS", "")) or WIDE)


def plain_table(*columns: str, title: str | Text | None = None) -> Table:
    """A table of texts. A narrow terminal wraps a text and never cuts it: two texts may differ only at their ends."""
    table = _WholeTable(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


_IDS, _NARROWEST = ("id", "item", "verdict"), 6


class _WholeTable(Table):
    """A table that is never cut.

    Where a terminal is too narrow for the columns that are not wrapped, Rich cuts them, and leaves 0.0 of 0.083.
    There they are wrapped like the others, of which the widest get narrower first.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = self.__rich_measure__(console, options.update(width=_WIDER_THAN_ANY)).minimum
        shown = copy(self)
        if needed > options.max_width:
            shown.columns = [replace(column, no_wrap=False, min_width=None) for column in self.columns]
        return super(_WholeTable, shown).__rich_console__(console, options)

    def _calculate_column_widths(self, console: Console, options: ConsoleOptions) -> list[int]:
        """Rich's widths, but no word is broken while another column has room to wrap, nor an id, which is copied."""
        widths = super()._calculate_column_widths(console, options)
        least = [self._measure_column(console, options, column).minimum for column in self.columns]
        for place, column in enumerate(self.columns):
            while not column.no_wrap and widths[place] < least[place]:
                spare = [width - low for width, low in zip(widths, least, strict=True)]
                if max(spare) <= 0 and column.header in _IDS:
                    spare = [
                        0 if each.header in _IDS else width - _NARROWEST
                        for each, width in zip(self.columns, widths, strict=True)
                    ]
                if max(spare) <= 0:
                    break
                widths[spare.index(max(spare))] -= 1
                widths[place] += 1
        return widths
