"""What ``relation:`` of a source may be: a table or view, Parquet files, or one SELECT.

The text comes from alerts.yaml, so it is parsed here before any of it reaches the database: names become
quoted identifiers, a path becomes a bound value or a literal, and a SELECT is accepted only as a single read-only
subquery.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, quoted_name

from monitor.core.redaction import without_secrets


@dataclass(frozen=True, slots=True)
class RelationProblem:
    """Why a source cannot be evaluated, and what to do about it."""

    source: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.source}: {self.message}; {self.remedy}" if self.source else f"{self.message}; {self.remedy}"


class UnreadableFile(Exception):
    """A file of a relation cannot be read as it is. Trying again would not help."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class RelationError(Exception):
    """The relation of a source does not meet the contract. Trying again would not help."""

    def __init__(self, problems: list[RelationProblem]) -> None:
        super().__init__(without_secrets("\n".join(str(problem) for problem in problems)))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[RelationError], tuple[list[RelationProblem]]]:
        """Pickle the problems, from which it is made again in another process, not its text."""
        return type(self), (list(self.problems),)


class WrongWarehouseAddress(Exception):
    """The address is not one of a warehouse that can be read: the settings are wrong."""


class WarehouseFailed(Exception):
    """The warehouse could not be read. Trying again may help. The message holds no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(without_secrets(message))


class WarehouseTimeout(WarehouseFailed):
    """The warehouse took longer than the time limit. Trying again at once would take as long."""


class RelationSyntaxError(ValueError):
    """The text of ``relation:`` has none of the accepted forms; ``remedy`` says what to write."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class TableName:
    """A table or view: ``(name,)``, ``(schema, name)`` or ``(database, schema, name)``."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """Parquet files that are read alike: their paths, and the columns in single precision that are made double."""

    paths: tuple[str, ...]
    singles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """A path, or a pattern like ``data/*.parquet``, that DuckDB reads as one relation.

    ``parts`` is empty unless a column is in single precision in some of the files: see ``parquet_types.py``.
    """

    path: str
    parts: tuple[ParquetPart, ...] = ()


@dataclass(frozen=True, slots=True)
class CsvPart:
    """CSV files that are read alike: their paths, and the options of DuckDB's read_csv."""

    paths: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """A path, or a pattern like ``data/*.csv``, of files with a line of names. All their columns are text.

    ``parts`` say how the files are read; they are known once these were looked at: see ``csv_lines.py``.
    """

    path: str
    parts: tuple[CsvPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT, without comments and without a final semicolon."""

    text: str


Relation = TableName | ParquetFiles | CsvFiles | Query

_FORMS = 'write a table or view (schema.name; "Quoted Name" where needed), a .parquet or .csv path, or one SELECT'
_PART = r'(?:"(?:[^"\x00]|"")+"|[^\W\d][\w$-]*)'
_TABLE = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")
_CSV = re.compile(r"\.(?:csv|tsv)(?:\.(?:gz|zst))?$", re.IGNORECASE)
_JSON = re.compile(r"^\S+\.(?:json|jsonl|ndjson)(?:\.(?:gz|zst))?$", re.IGNORECASE)
_READS = re.compile(r"\(*\s*(?:select|with)\s", re.IGNORECASE)
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*\(?\s*([A-Za-z]+)", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<string>'(?:[^'\\]|''|\\(?!'))*')     # a backslash before a quote is read differently by the engines
    | (?P<name>"(?:[^"]|"")*")
    | (?P<comment>--[^\n]*|/\*(?:(?!/\*|\*/).)*\*/)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_WRITES = frozenset({"insert", "update", "delete", "merge", "drop", "alter", "create", "truncate"})
_REFUSED = {
    "'": "a string does not end, or has a backslash before a quote",
    '"': "a quoted name does not end",
    "$": "a placeholder or a dollar-quoted string",
    "\x00": "a NUL character",
}


def parse_relation(text: str) -> Relation:
    """The relation that ``text`` names.

    Raises :class:`RelationSyntaxError` for text in none of the accepted forms.

    >>> parse_relation("support.resolved_tickets")
    TableName(parts=('support', 'resolved_tickets'))
    >>> parse_relation("exports/*.parquet")
    ParquetFiles(path='exports/*.parquet', parts=())
    >>> parse_relation("SELECT * FROM tickets;  -- all of them")
    Query(text='SELECT * FROM tickets')
    """
    bare = text.strip()
    if bare.lower().endswith((".parquet", ".pq")) and "\x00" not in bare:
        return ParquetFiles(bare)
    if _CSV.search(bare) and not _READS.match(bare) and "\x00" not in bare:
        return CsvFiles(bare)
    if _TABLE.fullmatch(bare):
        return TableName(tuple(_unquoted(part) for part in re.findall(_PART, bare)))
    first = _FIRST_WORD.match(bare)
    if first is None or first[1].lower() not in ("select", "with"):
        remedy = f"write SELECT * FROM {literal(bare)}" if _JSON.search(bare) else _FORMS
        raise RelationSyntaxError(f"relation {_shortened(bare)!r} is not a relation", remedy)
    return Query(_one_select(bare))


def is_files(text: str) -> bool:
    """Whether a relation names files of data, by a path or a pattern.

    >>> is_files("data/*.csv"), is_files("tickets"), is_files("SELECT 1")
    (True, False, False)
    """
    try:
        return isinstance(parse_relation(text), ParquetFiles | CsvFiles)
    except RelationSyntaxError:
        return False


def from_clause(relation: Relation, name: str = "relation") -> FromClause:
    """The relation as a FROM clause with the alias ``name``."""
    if isinstance(relation, Query):
        # text() reads ":name" as a placeholder, so colons are escaped; the line break keeps the text apart from ")"
        return sa.text(relation.text.replace(":", r"\:") + "\n").columns().subquery(name)
    if isinstance(relation, ParquetFiles) and relation.parts:
        return sa.text(_select_of_parts(relation).replace(":", r"\:")).columns().subquery(name)
    if isinstance(relation, ParquetFiles):
        path = sa.bindparam("path", relation.path, sa.Text, unique=True)
        # without it the first file decides: where its scores are whole numbers, .97 of the next one would be read as 1
        by_name: sa.ColumnElement[Any] = sa.literal_column("union_by_name = true")
        return sa.func.read_parquet(path, by_name).table_valued(name=name)
    if isinstance(relation, CsvFiles):
        return sa.text(select_of(relation).replace(":", r"\:")).columns().subquery(name)
    schema = ".".join(relation.parts[:-1]) or None
    table = sa.table(quoted_name(relation.parts[-1], None), schema=quoted_name(schema, None) if schema else None)
    return table.alias(name)


def select_of(files: CsvFiles) -> str:
    """A SELECT of all rows of CSV files, with the columns of all of them by name."""
    reads = (f"read_csv([{', '.join(map(literal, part.paths))}], {', '.join(part.options)})" for part in files.parts)
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {each}" for each in reads)


def _select_of_parts(files: ParquetFiles) -> str:
    """A SELECT of all rows of Parquet files of several types."""
    return " UNION ALL BY NAME ".join(
        f"SELECT *{_made_double(part.singles)} "
        f"FROM read_parquet([{', '.join(map(literal, part.paths))}], union_by_name = true)"
        for part in files.parts
    )


def _made_double(names: Sequence[str]) -> str:
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    made = ", ".join(f"CAST(CAST({name} AS VARCHAR) AS DOUBLE) AS {name}" for name in quoted)
    return f" REPLACE ({made})" if made else ""


def literal(text: str) -> str:
    """A text as a literal of SQL.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _shortened(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _one_select(text: str) -> str:
    """The SELECT without comments and final semicolon. Raises :class:`RelationSyntaxError` if it is refused."""
    kept: list[str] = []
    depth = 0
    ended = False
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token.group()
        if kind == "comment" or value.isspace():
            kept.append(" " if kind == "comment" else value)
            continue
        if ended:
            raise RelationSyntaxError(
                "relation holds more than one statement", "write one SELECT; put the rest in a view"
            )
        ended = value == ";"
        depth += {"(": 1, ")": -1}.get(value, 0)
        _refuse(kind or "", value, depth, text[token.start() :])
        kept.append("" if ended else value)
    if depth:
        raise RelationSyntaxError("relation has a parenthesis that is not closed", "close it")
    return "".join(kept).strip()


def _refuse(kind: str, value: str, depth: int, rest: str) -> None:
    if kind == "other" and (value in _REFUSED or rest.startswith("/*")):
        what = _REFUSED.get(value, "a comment within a comment, or one that does not end")
        raise RelationSyntaxError(f"relation holds {what}", "put this SELECT in a view and name the view")
    if depth < 0:
        raise RelationSyntaxError("relation closes a parenthesis that it does not open", "remove it")
    if kind == "word" and value.lower() in _WRITES:
        remedy = f'the monitor only reads: write one SELECT (a column of that name: "{value}")'
        raise RelationSyntaxError(f"relation holds {value.upper()}", remedy)
