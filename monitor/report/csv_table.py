"""Tables for other programs, and the one way in which they become CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from monitor.history.values import plain

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Table:
    """A table for programs: raw numbers, aware times, unchanged names (:func:`csv_text` makes them harmless)."""

    head: tuple[str, ...]
    rows: Iterable[Sequence[object]]

    @classmethod
    def of(cls, records: Iterable[object], *columns: str) -> Table:
        """A row for each record. A column is a field, or its own name with the path to the value: ``week=at.name``.

        >>> Table.of([{"at": {"year": 2026}, "n": None}], "year=at.year", "rows=n.value").rows
        [[2026, None]]
        """
        named = [(name, path or name) for name, _, path in (column.partition("=") for column in columns)]
        rows = [[_at(record, path) for _, path in named] for record in records]
        return cls(tuple(name for name, _ in named), rows)

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Each row with its names, as JSON has it: times as ISO texts, numbers that are not finite as null."""
        return [plain(dict(zip(self.head, row, strict=True))) for row in self.rows]


def _at(record: Any, path: str) -> object:
    for name in path.split("."):
        if record is not None:
            record = record.get(name) if isinstance(record, Mapping) else getattr(record, name)
    return record


def csv_text(table: Table) -> str:
    """CSV with a header: numbers in full, times with their zone, nothing for None, and no text that begins a formula.

    >>> csv_text(Table(("label", "ece"), [("=1+1", -0.5), ("billing", None)]))
    "label,ece\\n'=1+1,-0.5\\nbilling,\\n"
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(table.head)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return written.getvalue()


def _cell(value: object) -> object:
    """A value as CSV writes it: yes and no as 1 and 0, a length of time in hours, several names in one field."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return round(value.total_seconds() / 3600, 3)
    if isinstance(value, tuple):
        value = ", ".join(value)
    return no_formula(value) if isinstance(value, str) else value


def no_formula(text: str) -> str:
    """A text that no spreadsheet runs as a formula: the name of a label must not run code on its reader's computer.

    >>> no_formula("=HYPERLINK(1)"), no_formula("billing"), no_formula("a=b")
    ("'=HYPERLINK(1)", 'billing', 'a=b')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text
