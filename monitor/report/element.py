"""One table of a report as plain text; the terminal, Markdown and the page show the same tables."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.records import Interval, Subject

Marked = tuple[Interval, str]
Cell = str | Subject | Interval | Marked


@dataclass(frozen=True, slots=True)
class Element:
    """One table.

    A text comes from this program. A name from the data is a :class:`~monitor.core.records.Subject`: each output
    escapes it, and shows the segment alone where it has one. An :class:`~monitor.core.records.Interval` is a value with
    its limits; in a pair, a word follows them. ``numbers`` are the columns that are aligned on the right, ``whole``
    other columns that are never wrapped, ``drawn`` columns whose characters need a fixed-width font. ``note`` says how
    to read the table.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    drawn: frozenset[int] = frozenset()
    note: str = ""
