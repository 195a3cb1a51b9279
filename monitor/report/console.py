"""Consoles and plain tables, where every command prints. Every command imports this, so it imports only Rich."""

from __future__ import annotations

import os
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 140


def console(*, stderr: bool = False) -> Console:
    """A console. In a file or a log, lines are wide enough for whole tables.

    The environment variable COLUMNS overrides that width, as usual.
    """
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else int(os.environ.get("COLUMNS", WIDE)))


def plain_table(*columns: str, title: str | Text | None = None) -> Table:
    """A table of texts. A narrow terminal wraps a text and never cuts it: two texts may differ only at their ends."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
