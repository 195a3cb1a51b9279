"""CSV files some of whose lines have too few or too many fields.

DuckDB finds out by itself how a file is written. A single line that does not fit makes it take each line for one value,
so the separator is that of the line of names. Files whose lines all fit are read as DuckDB finds them written. Else a
line with too few fields is a row with missing values; a line with too many is an error that names it. No line is lost.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from glob import glob
from typing import Any

import sqlalchemy as sa

from monitor.warehouse.relation import CsvFiles, UnreadableFile, from_clause

Run = Callable[[sa.Select[Any]], Any]
"""Runs a statement that gives one value. Raises duckdb.Error."""

_EVERY_VALUE: sa.ColumnElement[Any] = sa.literal_column("count(COLUMNS(*))")  # count(*) alone would look at no value
_SEPARATORS = (",", ";", "\t", "|")
_PADDED = ("null_padding = true", "quote = '\"'", "escape = '\"'", "comment = ''", "parallel = false")
"""One thread: several would take a line break in quotes for the end of a short line."""
_LINE = re.compile(r"CSV Error on Line: (\d+)")
_FIELDS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_FILE = re.compile(r'^\s*file = (.+)$|file "([^"]+)"', re.MULTILINE)
_QUOTED = "put a value that has the separator or a line break in quotes"


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a file: how its names are separated, and how many they are."""

    path: str
    separator: str
    names: int


def readable(files: CsvFiles, run: Run) -> CsvFiles:
    """The same files, with the options by which all their lines are read. Raises :class:`UnreadableFile`."""
    headers = [header_of(path, line) for path, line in _first_lines(files.path, run)]
    separators = {header.separator for header in headers}
    known = len(separators) == 1 and "" not in separators
    # with skip, DuckDB does not leave out first lines that do not fit, the names among them
    plain = replace(files, options=(f"delim = '{separators.pop()}'", "skip = 0")) if known else files
    error = _error_of(plain, run)
    if error is None:
        return plain
    if not known:
        raise unreadable(error, files.path)
    padded = replace(plain, options=(*plain.options, *_PADDED))
    for header in headers:
        _check(header, run)
    if (error := _error_of(padded, run)) is not None:
        raise unreadable(error, files.path)
    return padded


def header_of(path: str, line: str) -> Header:
    """The separator that divides a line of names into most names; none ("") if there is one name only, or a remark.

    >>> header_of("x.csv", 'item;"label, or none";score')
    Header(path='x.csv', separator=';', names=3)
    """
    counts = {separator: len(next(csv.reader([line], delimiter=separator), [])) for separator in _SEPARATORS}
    most = max(counts, key=lambda separator: counts[separator])
    divided = counts[most] > 1 and not line.startswith("#")
    return Header(path, most if divided else "", counts[most])


def unreadable(message: str, path: str) -> UnreadableFile:
    """DuckDB's error about a CSV file in plain words, with the line if DuckDB says it."""
    line, fields, file = _LINE.search(message), _FIELDS.search(message), _FILE.search(message)
    named = path if file is None else file[1] or file[2]
    where = named if line is None else f"line {line[1]} of {named}"
    if "Invalid unicode" in message or "not utf-8" in message:
        remedy = "write the file in UTF-8 (if it is in Latin-1: iconv -f latin1 -t utf-8)"
        return UnreadableFile(f"{where} is not in UTF-8", remedy)
    if fields is not None:
        many = f"{fields[2]} field{'' if fields[2] == '1' else 's'}"
        return UnreadableFile(f"{where} has {many}, and the line of names has {fields[1]}", f"correct it: {_QUOTED}")
    if "sniffing" in message:
        what = "cannot be divided into fields: lines have another number of fields than the line of names"
        return UnreadableFile(f"{where} {what}, or a quoted value does not end", _QUOTED)
    return UnreadableFile(f"{where} cannot be read: {message.strip().splitlines()[0]}", _QUOTED)


def _first_lines(pattern: str, run: Run) -> Sequence[tuple[str, str]]:
    return [(path, _first_line(path, run)) for path in sorted(glob(pattern, recursive=True))]  # noqa: PTH207 - absolute


def _first_line(path: str, run: Run) -> str:
    """The first line of a file, whatever its encoding; "" where it has none."""
    if path.lower().endswith(".zst"):
        return _first_line_by_duckdb(path, run)
    opened = gzip.open if path.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        return str(file.readline().decode("utf-8-sig", errors="replace").rstrip("\r\n"))


def _first_line_by_duckdb(path: str, run: Run) -> str:
    import duckdb  # noqa: PLC0415 - other engines do without it

    lines = _lines(path)
    try:
        return str(run(sa.select(lines.c.line).select_from(lines).limit(1)) or "")
    except duckdb.Error:  # not in UTF-8, which is said when its values are read
        return ""


def _lines(path: str) -> Any:
    """The lines of a file as a relation with one column, by a separator that no text has."""
    options = (
        "auto_detect = false", "header = false", "delim = chr(1)", "quote = ''", "escape = ''", "strict_mode = false",
        "columns = {'line': 'VARCHAR'}",
    )  # fmt: skip
    named = sa.bindparam("path", path, sa.Text, unique=True)
    return sa.func.read_csv(named, *map(sa.literal_column, options)).table_valued("line", name="lines")


def _error_of(files: CsvFiles, run: Run) -> str | None:
    """DuckDB's message if a line of the files does not fit; None if all can be read."""
    return _error_within(sa.select(_EVERY_VALUE).select_from(from_clause(files)), run)


def _error_within(statement: sa.Select[Any], run: Run) -> str | None:
    import duckdb  # noqa: PLC0415 - other engines do without it

    try:
        run(statement)
    except duckdb.Error as error:
        return str(error)
    return None


def _check(header: Header, run: Run) -> None:
    """Raise :class:`UnreadableFile` for a line with more fields than there are names, or a quote that does not end.

    DuckDB would add columns for the first, and take all lines after the second for one value.
    """
    columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(header.names))
    options = ("auto_detect = false", "header = true", f"delim = '{header.separator}'", f"columns = {{{columns}}}")
    path = sa.bindparam("path", header.path, sa.Text, unique=True)
    rows = sa.func.read_csv(path, *map(sa.literal_column, (*options, "skip = 0", *_PADDED))).table_valued(name="rows")
    error = _error_within(sa.select(_EVERY_VALUE).select_from(rows), run)
    if error is not None:
        raise unreadable(error, header.path)
    lines = _lines(header.path)
    quotes = sa.func.length(lines.c.line) - sa.func.length(sa.func.replace(lines.c.line, '"', ""))
    if run(sa.select(sa.func.coalesce(sa.func.sum(quotes), 0) % 2).select_from(lines)):
        raise UnreadableFile(f"a quoted value of {header.path} does not end", "close the quote, or double it")
