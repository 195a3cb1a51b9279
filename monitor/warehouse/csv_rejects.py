"""Lines of a CSV file that are no rows: which they are, and whether a file can be read without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from glob import escape
from typing import Any

from monitor.config.relation import CsvFiles, CsvPart, literal
from monitor.warehouse.csv_header import Header, misnamed, not_in_utf8, opened
from monitor.warehouse.dates import BEFORE_ZONE, ISO
from monitor.warehouse.relation import UnreadableFile, select_of

SHOWN = 20
EXPLICIT = "auto_detect = false"
PADDED = "null_padding = true"
ONE_THREAD = "parallel = false"
"""Several threads would take a line break in quotes for the end of a short line."""
_CLOSED = "close the quote, or double it if it is part of the value"
_REJECTS, _SCANS = "calmon_csv_rejects", "calmon_csv_scans"
_REJECTING = f"store_rejects = true, rejects_table = '{_REJECTS}', rejects_scan = '{_SCANS}'"
_MOST_MISSING = 1_000_000
_ENCODING, _QUOTE = "INVALID ENCODING", "UNQUOTED VALUE"
_FIRST = f"""\
SELECT line, position, kind, csv_line FROM (
    SELECT *, row_number() OVER (ORDER BY line) AS place, row_number() OVER (PARTITION BY kind ORDER BY line) AS of_kind
    FROM (
        SELECT
            line, min(line_byte_position) AS position, first(csv_line) AS csv_line,
            CASE WHEN bool_or(error_type = '{_QUOTE}') THEN '{_QUOTE}' ELSE first(error_type) END AS kind
        FROM {_REJECTS} GROUP BY line
    )
)
WHERE place <= {SHOWN} OR of_kind = 1 OR kind = '{_QUOTE}' AND trim(csv_line, chr(10)) LIKE '%' || chr(10) || '%'
ORDER BY line"""
_WHY = {
    "TOO MANY COLUMNS": "more fields than names", _QUOTE: "text after a closing quote",
    "LINE SIZE OVER MAXIMUM": "more than 2,000,000 bytes",
}  # fmt: skip
_CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line of a file that is no row: its number from 1, and why not."""

    path: str
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class KeptLines:
    """The text of all lines of a file that are no rows, in the temporary table ``table``, and how it is divided."""

    table: str
    separator: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreadableLines:
    """How many lines are no rows, the first of them, and where all of them are kept for as long as the session."""

    lines: int = 0
    first: tuple[UnreadableLine, ...] = ()
    kept: tuple[KeptLines, ...] = ()

    def __add__(self, other: UnreadableLines) -> UnreadableLines:
        first = (*self.first, *other.first)[:SHOWN]
        return UnreadableLines(self.lines + other.lines, first, (*self.kept, *other.kept))


NO_LINES = UnreadableLines()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that DuckDB rejects: its number if breaks in quotes do not count, its place in bytes, why, and itself."""

    number: int
    position: int
    kind: str
    line: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to read one file: how many rows and missing values DuckDB reads, and how many lines it rejects.

    ``first`` has the first lines that it rejects, the first of each kind, and those that took others with them.
    ``table`` has the text of all that it rejects, "" if it was not kept.
    """

    part: CsvPart
    rows: int
    missing: int
    rejected: int
    first: Sequence[Rejected]
    table: str = ""

    @property
    def has_wrong_quotes(self) -> bool:
        """Whether a line was rejected for its quotes."""
        return any(each.kind == _QUOTE for each in self.first)


@dataclass(frozen=True, slots=True)
class Characters:
    """How many quotes a file has, how many of its lines have an odd number, and how many separators one has at most."""

    quotes: int
    odd: int
    separators: int


def attempt(driver: Any, part: CsvPart, table: str = "") -> Attempt:
    """Read a file without the lines that do not fit, which are kept in ``table``.

    Raises duckdb.InvalidInputException.
    """
    reading = select_of(CsvFiles("", (replace(part, options=(*part.options, _REJECTING)),)))
    try:
        # count(*) alone would look at no value
        ((rows, *known),) = driver.execute(f"SELECT count(*), count(COLUMNS(*)) FROM ({reading})").fetchall()
        ((rejected,),) = driver.execute(f"SELECT count(DISTINCT line) FROM {_REJECTS}").fetchall()
        first = driver.execute(_FIRST).fetchall()
        if table:
            kept = f"SELECT first(csv_line) AS line FROM {_REJECTS} GROUP BY line"
            driver.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {kept}")
    finally:
        for name in (_REJECTS, _SCANS):
            driver.execute(f"DROP TABLE IF EXISTS {name}")
    missing = rows * len(known) - sum(known)
    return Attempt(part, rows, missing, rejected, [Rejected(*each) for each in first], table)


def check(driver: Any, path: str, header: Header, found: Attempt) -> None:
    """Raise :class:`UnreadableFile` if lines may be lost without being counted, or if most lines are no rows."""
    for each in (each for each in found.first if each.kind == _ENCODING):
        raise not_in_utf8(f"line {_line_numbers(path, [each])[0]} of {path}")
    for each in (*found.first, *_wrong_quotes(driver, path, found)):
        if each.kind == _QUOTE and "\n" in each.line.strip():  # it took all lines up to the next quote
            where = f"line {_line_numbers(path, [each])[0]} of {path}"
            raise UnreadableFile(f"{where} has a quoted value that does not end", _CLOSED)
    if found.rejected > found.rows:
        raise misnamed(path, header, _line_numbers(path, found.first[:1])[0])


def _wrong_quotes(driver: Any, path: str, found: Attempt) -> Sequence[Rejected]:
    """Lines with quotes that do not end, or end too early.

    Where short lines are allowed, DuckDB takes the rest of the file for a value that does not end, and rejects nothing.
    To have the short lines rejected too takes 10 s for a million of their missing values.
    """
    characters = characters_of(driver, path)
    if not characters.odd:
        return ()
    if found.missing > _MOST_MISSING:
        if characters.quotes % 2:
            raise UnreadableFile(f"a quoted value of {path} does not end", _CLOSED)
        return ()
    strict = tuple(option for option in found.part.options if option not in (PADDED, ONE_THREAD))
    return attempt(driver, CsvPart(found.part.paths, strict)).first


def unreadable(path: str, header: Header, found: Attempt) -> UnreadableLines:
    """The lines of one file that are no rows."""
    shown = found.first[:SHOWN]
    numbered = zip(_line_numbers(path, shown), shown, strict=True)
    first = (UnreadableLine(path, line, _WHY.get(each.kind, each.kind)) for line, each in numbered)
    kept = (KeptLines(found.table, header.separator, header.names),) if found.rejected else ()
    return UnreadableLines(found.rejected, tuple(first), kept)


def lines_between(kept: KeptLines, column: str, form: str | None, start: datetime, end: datetime) -> str:
    """A SELECT of the number of lines with a date from ``start`` to before ``end``, where ``column`` may be.

    Values beyond the names move the column to the right by as many places at most. Any place counts where the file has
    no such column, or the line no more values than names. ``form`` is the form of dates that are no ISO dates.
    """
    names = [name.casefold() for name in kept.names]
    place = names.index(column.casefold()) + 1 if column.casefold() in names else 0
    some = f"list_slice(pieces, {place}, {place} + len(pieces) - {len(names)})"
    looked_at = f"CASE WHEN {place} > 0 AND len(pieces) > {len(names)} THEN {some} ELSE pieces END"
    since, until = (f"'{each.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00'::TIMESTAMPTZ" for each in (start, end))
    return f"""\
WITH divided AS (SELECT string_split(line, {literal(kept.separator)}) AS pieces FROM {kept.table}),
    dated AS (SELECT [{_moment(form)} FOR piece IN {looked_at}] AS moments FROM divided)
SELECT count(*) FROM dated WHERE len([each FOR each IN moments IF each >= {since} AND each < {until}]) > 0"""


def _moment(form: str | None) -> str:
    """The date that ``piece`` is, or NULL."""
    bare = "trim(piece, ' \"' || chr(13) || chr(10))"
    plain = f"regexp_replace(upper(replace({bare}, ',', '.')), {literal(BEFORE_ZONE)}, '\\1')"
    iso = f"CASE WHEN regexp_full_match({bare}, {literal(ISO)}) THEN try_cast({plain} AS TIMESTAMPTZ) END"
    return iso if form is None else f"coalesce({iso}, try_strptime({bare}, {literal(form)})::TIMESTAMPTZ)"


def _line_numbers(path: str, rejected: Sequence[Rejected]) -> list[int]:
    """The numbers of lines in their file, from 1. DuckDB counts a row with line breaks in quotes as one line."""
    if path.lower().endswith(".zst"):
        return [each.number for each in rejected]
    found, breaks, passed = [], 0, 0
    with opened(path) as file:
        for each in rejected:
            position = each.position + each.line.startswith("\n")  # the second half of a Windows line end
            while passed < position and (chunk := file.read(min(_CHUNK, position - passed))):
                breaks, passed = breaks + chunk.count(b"\n"), passed + len(chunk)
            found.append(breaks + 1 if breaks else each.number)
    return found


def has_two_line_ends(path: str) -> bool:
    """Whether some lines of a file end as those of Windows, and others as those of Unix."""
    if path.lower().endswith(".zst"):
        return False
    unix, windows, last = 0, 0, b""
    with opened(path) as file:
        while chunk := file.read(_CHUNK):
            unix, windows = unix + chunk.count(b"\n"), windows + (last + chunk).count(b"\r\n")
            last = chunk[-1:]
    return 0 < windows < unix


def characters_of(driver: Any, path: str, separator: str = ",") -> Characters:
    """What a file has of the characters that divide it, without lines that no text can be made of."""
    quotes, separators = (f"length(line) - length(replace(line, {literal(each)}, ''))" for each in ('"', separator))
    counts = f"sum({quotes}), count_if(({quotes}) % 2 = 1), max({separators})"
    found = driver.execute(f"SELECT {counts} FROM {lines_of_file(path, 'ignore_errors = true')}").fetchone()
    return Characters(*(int(each or 0) for each in found))


def lines_of_file(path: str, *more: str) -> str:
    """The lines of a file as a relation with one column, by a separator that no text has."""
    options = (
        EXPLICIT, "header = false", "delim = chr(1)", "quote = ''", "escape = ''", "strict_mode = false",
        "columns = {'line': 'VARCHAR'}", *more,
    )  # fmt: skip
    return f"read_csv({literal(escape(path))}, {', '.join(options)})"
