"""CSV files as rows, also where some lines do not have the fields that the line of names has.

DuckDB reads a file whose lines all fit, and would refuse a whole file because of one line. So other files are looked at
one by one: a line with too few fields is a row with missing values; a line that is no row (too many fields, text after
a closing quote, two megabytes) is left out and counted. Fields without name and value, as separators at the end of a
line make them, are ignored. A file is refused where lines could be lost without being counted, or where most are no
rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import islice
from pathlib import Path
from typing import Any

from monitor.config.relation import CsvFiles, CsvPart, TableName, literal
from monitor.warehouse.csv_header import QUOTED, Header, header_of, not_in_utf8, opened, readable
from monitor.warehouse.csv_rejects import FileRows, UnreadableLine, check, look_at
from monitor.warehouse.parquet_types import visible_files
from monitor.warehouse.relation import UnreadableFile, select_of

COPIED_BYTES = 64 * 2**20
"""CSV files of at most this many bytes on the disk are read once a session."""
_ESCAPES = ('"', "\\")
_HEAD_LINES, _CHUNK = 1_000, 10_000
_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")  # how such a text begins, if it is read as UTF-8
_EXPLICIT = "auto_detect = false"
_SHORT = ("null_padding = true", "ignore_errors = true")
_ONE_THREAD = "parallel = false"
"""Several threads would take a line break in quotes for the end of a short line."""


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The rows of CSV files as a relation, and their lines that are no rows."""

    relation: CsvFiles | TableName
    unreadable: tuple[UnreadableLine, ...] = ()


def csv_rows(driver: Any, path: str, table: str) -> CsvRows:
    """The rows of the files of a path or pattern. Small files are copied into the temporary table ``table``.

    ``driver`` is a connection of DuckDB without a transaction. Raises :class:`UnreadableFile`.
    """
    if "://" in path:
        raise UnreadableFile(f"{path} is no file of this machine", "download it first: nothing is read over a network")
    paths = visible_files(path)
    headers = {each: header for each in paths if (header := header_of(each, head_of(driver, each))) is not None}
    if not headers:
        raise UnreadableFile(f"{path} is empty", "a CSV file begins with a line of names: write the file again")
    into = table if sum(Path(each).stat().st_size for each in headers) <= COPIED_BYTES else None
    files = CsvFiles(path, _merged(_part(each, header) for each, header in headers.items()))
    if _fits(driver, files, into):
        return CsvRows(TableName((into,)) if into else files)
    found = [_of_file(driver, each, header) for each, header in headers.items()]
    files = CsvFiles(path, _merged(part for part, _ in found))
    if into:
        driver.execute(f"CREATE TEMP TABLE {into} AS {select_of(files)}")
    return CsvRows(TableName((into,)) if into else files, tuple(line for _, lines in found for line in lines))


def head_of(driver: Any, path: str) -> Sequence[str]:
    """The first lines of a file, without their ends. Raises :class:`UnreadableFile`."""
    head = "".join(islice(_lines(driver, path, f"LIMIT {_HEAD_LINES}"), _HEAD_LINES)).removeprefix("\ufeff")
    if head.startswith(_UTF_16):
        raise not_in_utf8(path, "iconv -f utf-16 -t utf-8", "UTF-16")
    return re.split("\r\n|\n|\r", head)


def _lines(driver: Any, path: str, limit: str = "") -> Iterator[str]:
    """The lines of a file with their ends, also of a packed one. Bytes that are no UTF-8 become surrogates."""
    if path.lower().endswith(".zst"):
        yield from _packed_lines(driver, path, limit)
        return
    with readable(path), io.TextIOWrapper(opened(path), "utf-8-sig", "surrogateescape", newline="") as file:
        yield from file


def _packed_lines(driver: Any, path: str, limit: str) -> Iterator[str]:
    """The lines of a file that only DuckDB unpacks, by a separator that no text has."""
    import duckdb  # noqa: PLC0415 - other engines do without it

    options = (
        _EXPLICIT, "header = false", "delim = chr(1)", "quote = ''", "escape = ''", "strict_mode = false",
        "columns = {'line': 'VARCHAR'}",
    )  # fmt: skip
    try:
        read = f"read_csv({literal(escape(path))}, {', '.join(options)})"
        rows = driver.execute(f"SELECT line FROM {read} {limit}")
        while chunk := rows.fetchmany(_CHUNK):
            yield from (f"{line or ''}\n" for (line,) in chunk)
    except duckdb.InvalidInputException as error:
        raise not_in_utf8(f"one of the lines of {path}") from error


def _part(path: str, header: Header, *more: str, quote: str = '"', escaped: str = '"') -> CsvPart:
    """A file in which each line has as many fields as the line of names, or with :data:`_SHORT` fewer."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.names)
    quoting = (f"quote = {literal(quote)}", f"escape = {literal(escaped)}")
    return CsvPart((escape(path),), (_EXPLICIT, f"columns = {{{columns}}}", *_division(header), *quoting, *more))


def _detected(path: str, header: Header) -> CsvPart:
    """The same with quotes as DuckDB detects them: none, if they are plain characters, or single ones."""
    names = ", ".join(map(literal, header.names))
    return CsvPart((escape(path),), ("all_varchar = true", f"names = [{names}]", *_division(header)))


def _division(header: Header) -> tuple[str, ...]:
    return "header = true", f"delim = {literal(header.separator)}", f"skip = {header.before}", "comment = ''"


def _merged(parts: Iterable[CsvPart]) -> tuple[CsvPart, ...]:
    """Files that are read alike as one part. A file whose quotes are detected stays alone."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for part in parts:
        alone = () if _EXPLICIT in part.options else part.paths
        found.setdefault((part.options, alone), []).extend(part.paths)
    return tuple(CsvPart(tuple(paths), options) for (options, _), paths in found.items())


def _fits(driver: Any, files: CsvFiles, into: str | None = None) -> bool:
    """Whether all lines of the files fit. Every value is read, and copied if ``into`` names a table.

    Raises :class:`UnreadableFile` for a file that ends too early.
    """
    rows = select_of(files)
    return _answer(driver, f"CREATE TEMP TABLE {into} AS {rows}" if into else _count(rows)) is not None


def _count(rows: str) -> str:
    return f"SELECT count(*), count(COLUMNS(*)) FROM ({rows})"  # count(*) alone would look at no value


def _answer(driver: Any, statement: str) -> int | None:
    """The first number that DuckDB answers; None if lines do not fit."""
    import duckdb  # noqa: PLC0415 - as above

    try:
        ((number, *_),) = driver.execute(statement).fetchall()
    except duckdb.InvalidInputException:
        return None
    except duckdb.IOException as error:
        raise UnreadableFile(str(error).splitlines()[0], "write the file again") from error
    return int(number)


def _of_file(driver: Any, path: str, header: Header) -> tuple[CsvPart, Sequence[UnreadableLine]]:
    """How one file is read, and its lines that are no rows. Raises UnreadableFile."""
    for part in (_part(path, header), _detected(path, header)):
        if _fits(driver, CsvFiles(path, (part,))):
            return part, ()
    escaped, seen = _seen(driver, path, header)
    check(path, header, seen)
    ways = [_part(path, header, *_SHORT, _ONE_THREAD, escaped=escaped)]
    if not seen.has_quotes and not seen.unreadable:  # where lines end in two ways, DuckDB reads them only so
        ways.append(_part(path, header, *_SHORT, "strict_mode = false", quote="", escaped=""))
    for part in ways:
        if _answer(driver, _count(select_of(CsvFiles(path, (part,))))) == seen.rows:
            return part, seen.unreadable
    if len(seen.line_ends - {""}) > 1:
        remedy = f"write all of them in one way (sed -i 's/\\r$//' {path})"
        raise UnreadableFile(f"{path} has line ends of two kinds, those of Windows and of Unix", remedy)
    raise UnreadableFile(f"{path} cannot be read: DuckDB does not find its {seen.rows:,} rows", QUOTED)


def _seen(driver: Any, path: str, header: Header) -> tuple[str, FileRows]:
    """How quotes are escaped, and what the file holds. A quote within quotes is doubled, or has a backslash before."""
    doubled, *others = _ESCAPES
    found = {doubled: look_at(path, _lines(driver, path), header, doubled)}
    if any(found[doubled].wrong_quotes):
        found |= {other: look_at(path, _lines(driver, path), header, other) for other in others}
    best = min(found, key=lambda each: found[each].wrong_quotes)
    return best, found[best]
