"""Lines of a CSV file that are no rows, as Python's own reader of CSV finds them.

DuckDB leaves such lines out, but does not say of each way to read a file what it lost. So the file is read here too:
which lines are no rows, and how many rows DuckDB has to find.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from monitor.core.records import Window
from monitor.warehouse.csv_header import Header, misnamed, not_in_utf8
from monitor.warehouse.dates import instant_by, instant_of
from monitor.warehouse.relation import UnreadableFile

MOST_BYTES = 2_000_000
"""DuckDB reads no longer line."""
TOO_LONG, TOO_MANY, WRONG_QUOTE = "more than 2,000,000 bytes", "more fields than names", "text after a closing quote"
_CLOSED = "close the quote, or double it if it is part of the value"
csv.field_size_limit(2 * MOST_BYTES)


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line of a file that is no row: its number from 1, why not, and what it holds."""

    path: str
    line: int
    why: str
    content: str
    header: Header

    def moments(self, column: str, form: str | None) -> Iterator[datetime]:
        """The dates of the line where ``column`` may be; ``form`` is that of dates that are no ISO dates.

        Values beyond the names move the column to the right by as many places at most. Any place counts where the file
        has no such column, or the line no more values than names.
        """
        values, names = self.content.split(self.header.separator), [name.casefold() for name in self.header.names]
        beyond = len(values) - len(names)
        if column.casefold() in names and beyond > 0:
            place = names.index(column.casefold())
            values = values[place : place + beyond + 1]
        for value in (value.strip(' "\r\n') for value in values):
            moment = instant_of(value) or (None if form is None else instant_by(value, form))
            if moment is not None:
                yield moment


def lines_between(lines: Iterable[UnreadableLine], column: str, form: str | None, window: Window) -> int:
    """How many of these lines have a date in the window where ``column`` may be."""
    return sum(any(window.start <= each < window.end for each in line.moments(column, form)) for line in lines)


@dataclass(slots=True)
class FileRows:
    """What a file holds: its rows, the lines that are no rows, and how the lines of rows end.

    ``unended`` is the line of a quote that took other lines with it, from which on nothing is known.
    """

    rows: int = 0
    unreadable: list[UnreadableLine] = field(default_factory=list)
    line_ends: set[str] = field(default_factory=set)
    has_quotes: bool = False
    unended: int | None = None

    @property
    def wrong_quotes(self) -> tuple[bool, int]:
        """How much this way to read quotes does not fit; the least is the best."""
        return self.unended is not None, sum(each.why == WRONG_QUOTE for each in self.unreadable)


def look_at(path: str, lines: Iterable[str], header: Header, escaped: str) -> FileRows:
    """Read a file, in which a quote within quotes is doubled, or has the character ``escaped`` before it.

    Raises :class:`UnreadableFile` for a line that is not in UTF-8.
    """
    seen, of_row = FileRows(), list[str]()
    taken = _as_doubled(islice(lines, header.before, None), of_row, header.separator, escaped)
    reader = csv.reader(taken, delimiter=header.separator, strict=True)
    with suppress(csv.Error):  # the names were read before, less strictly
        next(reader)
    while seen.unended is None:
        of_row.clear()
        number = header.before + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            if len(of_row) > 1:
                seen.unended = number
            # a last line may end within a value: it is a row without it
            why = None if "end of data" in str(error) else WRONG_QUOTE
        else:
            why = TOO_MANY if any(row[len(header.names) :]) else None
        text = "".join(of_row)
        try:
            why = TOO_LONG if len(text.encode()) > MOST_BYTES else why
        except UnicodeEncodeError as error:  # bytes that are no text
            raise not_in_utf8(f"line {number} of {path}") from error
        seen.has_quotes = seen.has_quotes or '"' in text
        seen.line_ends.add(text[len(text.rstrip("\r\n")) :])
        if why:
            seen.unreadable.append(UnreadableLine(path, number, why, text, header))
        else:
            seen.rows += bool(text.strip("\r\n"))
    return seen


def check(path: str, header: Header, seen: FileRows) -> None:
    """Raise :class:`UnreadableFile` if a quote took other lines with it, or if most lines are no rows."""
    if seen.unended is not None:
        raise UnreadableFile(f"line {seen.unended} of {path} has a quoted value that does not end", _CLOSED)
    if len(seen.unreadable) > seen.rows:
        raise misnamed(path, header, seen.unreadable[0].line)


def _as_doubled(lines: Iterable[str], of_row: list[str], separator: str, escaped: str) -> Iterator[str]:
    """The lines, each of which is added to ``of_row``, with quotes within quotes doubled.

    Blanks around quotes are left out, which DuckDB does not heed.
    """
    apart = re.escape(separator)
    blanks = re.compile(rf'(?:^|(?<={apart})) +"|" +(?={apart}|[\r\n]|$)')
    for line in lines:
        of_row.append(line)
        plain = blanks.sub('"', line) if ' "' in line or '" ' in line else line
        if escaped != '"' and escaped in plain:
            plain = re.sub(rf"{re.escape(escaped)}(.)", lambda part: '""' if part[1] == '"' else part[1], plain)
        yield plain
