"""One table of a report, as plain texts: the terminal, Markdown and the page show the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.records import Interval, Subject

Marked = tuple[Interval, str]
Cell = str | Subject | Interval | Marked


@dataclass(frozen=True, slots=True)
class Element:
    """One table.

    Texts are ours; a name from the data is a :class:`~monitor.core.records.Subject`, and whoever shows it makes it
    harmless (with a segment, it is the segment alone). An :class:`~monitor.core.records.Interval` is its value with
    its limits, with a word after it in a pair. ``numbers`` are the columns that are aligned on the right,
    ``whole`` others that may not be broken, ``drawn`` those of characters that only a font of equal widths shows.
    ``note`` says how to read the table.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    drawn: frozenset[int] = frozenset()
    note: str = ""
