"""CSV files as rows, also where some lines do not have the fields that the line of names has.

DuckDB reads a file whose lines all fit, and would refuse a whole file because of one line. So other files are looked at
one by one: a line with too few fields is a row with missing values; a line that is no row (too many fields, text after
a closing quote, two megabytes) is left out and counted. Fields without name and value, as separators at the end of a
line make them, are ignored. A file is refused where lines could be lost without being counted, or where most are no
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any

from monitor.config.relation import CsvFiles, CsvPart, TableName, literal
from monitor.warehouse.csv_header import (
    QUOTED,
    Header,
    check_names,
    check_packed,
    head_of,
    header_of,
    lines_of,
    not_in_utf8,
)
from monitor.warehouse.csv_rejects import (
    EXPLICIT,
    NO_LINES,
    ONE_THREAD,
    PADDED,
    Attempt,
    UnreadableLines,
    attempt,
    characters_of,
    check,
    has_two_line_ends,
    lines_of_file,
    unreadable,
)
from monitor.warehouse.parquet_types import visible_files
from monitor.warehouse.relation import UnreadableFile, select_of

COPIED_BYTES = 64 * 2**20
"""CSV files of at most this many bytes on the disk are read once a session."""
_ESCAPES = ('"', "\\")
_HEAD_LINES = 1_000


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The rows of CSV files as a relation, and their lines that are no rows."""

    relation: CsvFiles | TableName
    unreadable: UnreadableLines = NO_LINES


def csv_rows(driver: Any, path: str, table: str) -> CsvRows:
    """The rows of the files of a path or pattern. Small files are copied into the temporary table ``table``.

    ``driver`` is a connection of DuckDB without a transaction. Raises :class:`UnreadableFile`.
    """
    if "://" in path:
        raise UnreadableFile(f"{path} is no file of this machine", "download it first: nothing is read over a network")
    paths = visible_files(path)
    headers = {each: header for each in paths if (header := header_of(each, _head(driver, each))) is not None}
    if not headers:
        raise UnreadableFile(f"{path} is empty", "a CSV file begins with a line of names: write the file again")
    into = table if sum(Path(each).stat().st_size for each in headers) <= COPIED_BYTES else None
    files = CsvFiles(path, _merged(_part(each, header) for each, header in headers.items()))
    if _fits(driver, files, into):
        return CsvRows(TableName((into,)) if into else files)
    found = [_of_file(driver, each, head, f"{table}_lines_{n}") for n, (each, head) in enumerate(headers.items())]
    files = CsvFiles(path, _merged(part for part, _ in found))
    if into:
        driver.execute(f"CREATE TEMP TABLE {into} AS {select_of(files)}")
    return CsvRows(TableName((into,)) if into else files, sum((lines for _, lines in found), NO_LINES))


def _head(driver: Any, path: str) -> Sequence[str]:
    """The first lines of a file. Raises :class:`UnreadableFile`."""
    if not path.lower().endswith(".zst"):
        return head_of(path)
    import duckdb  # noqa: PLC0415 - other engines do without it

    try:
        rows = driver.execute(f"SELECT line FROM {lines_of_file(path)} LIMIT {_HEAD_LINES}").fetchall()
    except duckdb.InvalidInputException as error:
        raise not_in_utf8(f"one of the first lines of {path}") from error
    return lines_of("\n".join(line or "" for (line,) in rows).removeprefix("\ufeff"), whole=True)


def _part(path: str, header: Header, *more: str, quote: str = '"', escaped: str = '"') -> CsvPart:
    """A file in which each line has as many fields as the line of names, or with :data:`PADDED` fewer."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.names)
    quoting = (f"quote = {literal(quote)}", f"escape = {literal(escaped)}")
    return CsvPart((escape(path),), (EXPLICIT, f"columns = {{{columns}}}", *_division(header), *quoting, *more))


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
        alone = () if EXPLICIT in part.options else part.paths
        found.setdefault((part.options, alone), []).extend(part.paths)
    return tuple(CsvPart(tuple(paths), options) for (options, _), paths in found.items())


def _fits(driver: Any, files: CsvFiles, into: str | None = None) -> bool:
    """Whether all lines of the files fit. Every value is read, and copied if ``into`` names a table.

    Raises :class:`UnreadableFile` for a file that ends too early.
    """
    import duckdb  # noqa: PLC0415 - as above

    rows = select_of(files)
    statement = f"CREATE TEMP TABLE {into} AS {rows}" if into else f"SELECT count(COLUMNS(*)) FROM ({rows})"
    try:
        driver.execute(statement).fetchall()
    except duckdb.InvalidInputException:
        return False
    except duckdb.IOException as error:
        raise UnreadableFile(str(error).splitlines()[0], "write the file again") from error
    return True


def _of_file(driver: Any, path: str, header: Header, kept: str) -> tuple[CsvPart, UnreadableLines]:
    """How one file is read, and its lines that are no rows, in a table named ``kept``. Raises UnreadableFile."""
    import duckdb  # noqa: PLC0415 - as above

    for part in (_part(path, header), _detected(path, header)):
        if _fits(driver, CsvFiles(path, (part,))):
            return part, NO_LINES
    check_packed(path)
    check_names(path, header, _head(driver, path))
    try:
        found = _padded(driver, path, header, kept)
    except duckdb.InvalidInputException as error:
        return _without_quotes(driver, path, header, str(error)), NO_LINES
    check(driver, path, header, found)
    return replace(found.part, options=(*found.part.options, "ignore_errors = true")), unreadable(path, header, found)


def _padded(driver: Any, path: str, header: Header, kept: str) -> Attempt:
    """A file whose lines may be short. A quote within quotes is doubled, or else has a backslash before it."""
    first, other = (_part(path, header, PADDED, ONE_THREAD, escaped=each) for each in _ESCAPES)
    found = attempt(driver, first, kept)
    if found.has_wrong_quotes:
        return min((found, attempt(driver, other, f"{kept}_escaped")), key=lambda each: each.rejected)
    return found


def _without_quotes(driver: Any, path: str, header: Header, error: str) -> CsvPart:
    """How a file is read whose lines end in two ways. Raises :class:`UnreadableFile`.

    DuckDB then finds neither a wrong quote nor a line with too many fields, so there must be none.
    """
    characters = characters_of(driver, path, header.separator)
    part = _part(path, header, PADDED, "strict_mode = false", quote="", escaped="")
    if not characters.quotes and characters.separators < len(header.names) and _fits(driver, CsvFiles(path, (part,))):
        return part
    if has_two_line_ends(path):
        remedy = f"write all of them in one way (sed -i 's/\\r$//' {path})"
        raise UnreadableFile(f"{path} has line ends of two kinds, those of Windows and of Unix", remedy)
    raise UnreadableFile(f"{path} cannot be read: {error.strip().splitlines()[0]}", QUOTED)
