"""What ``relation:`` of a source may be, from its text alone: a table or view, files of data, or one SELECT.

The only parser of that text: ``alerts.yaml`` is checked by it, and the warehouse reads what it returns. So names become
quoted identifiers, a path becomes a bound value or a literal, and a SELECT is accepted only as a single read-only
subquery.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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

_FORMS = 'a table or view (schema.name; "Quoted Name" where needed), a .parquet or .csv path, or one SELECT'
_PART = r'(?:"(?:[^"\x00]|"")+"|[^\W\d][\w$-]*)'
_TABLE = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")
_PARQUET = re.compile(r"\.(?:parquet|pq)$", re.IGNORECASE)
_CSV = re.compile(r"\.(?:csv|tsv)(?:\.(?:gz|zst))?$", re.IGNORECASE)
_NEARLY_FILES = re.compile(r"\S+\.(csv|tsv|parquet|pq)[*?\]\[.\w]*$", re.IGNORECASE)
_JSON = re.compile(r"\S+\.(?:json|jsonl|ndjson)(?:\.(?:gz|zst))?$", re.IGNORECASE)
_BEFORE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*"
_SELECT = re.compile(rf"{_BEFORE}(?:select|with)(?=[\s(\"']|\*(?!\.)|/\*|--)", re.IGNORECASE | re.DOTALL)
_STATEMENT = re.compile(
    rf"{_BEFORE}(insert|update|delete|merge|truncate|drop|create|alter|grant|revoke|copy|attach|detach|pragma|set|call"
    r"|exec|execute|vacuum|install|load|export|import|replace|show|describe|explain|from|values|table)\s",
    re.IGNORECASE | re.DOTALL,
)
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
    "'": "a string that does not end, or a backslash before a quote",
    '"': "a quoted name that does not end",
    "$": "a placeholder or a dollar-quoted string",
    "\x00": "a NUL character",
}


def is_select(text: str) -> bool:
    """Whether a relation is a SELECT, not the name of a table, a view or files.

    >>> is_select("select * from a"), is_select("marts.resolved_tickets"), is_select("select.csv")
    (True, False, False)
    """
    return bool(_SELECT.match(text))


def parse_relation(text: str) -> Relation:
    """The relation that ``text`` names.

    Raises :class:`RelationSyntaxError` for text in none of the accepted forms; its message goes on after "relation".

    >>> parse_relation("support.resolved_tickets")
    TableName(parts=('support', 'resolved_tickets'))
    >>> parse_relation("exports/*.parquet")
    ParquetFiles(path='exports/*.parquet', parts=())
    >>> parse_relation("SELECT * FROM tickets;  -- all of them")
    Query(text='SELECT * FROM tickets')
    """
    bare = text.strip()
    if is_select(bare):
        return Query(_one_select(bare))
    if "\x00" not in bare and _PARQUET.search(bare):
        return ParquetFiles(bare)
    if "\x00" not in bare and _CSV.search(bare):
        return CsvFiles(bare)
    if _TABLE.fullmatch(bare):
        return TableName(tuple(_unquoted(part) for part in re.findall(_PART, bare)))
    raise RelationSyntaxError(*_no_relation(bare))


def _no_relation(text: str) -> tuple[str, str]:
    """What a text is that is no relation, and its fix."""
    statement = _STATEMENT.match(text)
    if statement is not None:
        return f"is a {statement[1].upper()} statement", f"write {_FORMS}"
    if ";" in text:
        return "holds several statements", f"write {_FORMS}"
    if _JSON.match(text):
        return f"{_shortened(text)!r} is JSON", f"write SELECT * FROM {literal(text)}"
    nearly = _NEARLY_FILES.match(text)
    if nearly is not None:
        name = text[: nearly.end(1)]
        return f"{_shortened(text)!r} does not end as a file of data does", f"write {name}, or {name}.gz"
    return f"{_shortened(text)!r} is not a relation", f"write {_FORMS}"


def is_files(text: str, *, csv: bool = True) -> bool:
    """Whether a relation names files of data, by a path or a pattern; not of CSV without ``csv``.

    >>> is_files("data/*.csv"), is_files("tickets"), is_files("SELECT * FROM lake.parquet")
    (True, False, False)
    """
    try:
        return isinstance(parse_relation(text), ParquetFiles | CsvFiles if csv else ParquetFiles)
    except RelationSyntaxError:
        return False


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
            raise RelationSyntaxError("holds several statements", "write one SELECT; put the rest in a view")
        ended = value == ";"
        depth += {"(": 1, ")": -1}.get(value, 0)
        _refuse(kind or "", value, depth, text[token.start() :])
        kept.append("" if ended else value)
    if depth:
        raise RelationSyntaxError("has a bracket that is never closed", "close it")
    return "".join(kept).strip()


def _refuse(kind: str, value: str, depth: int, rest: str) -> None:
    if kind == "other" and (value in _REFUSED or rest.startswith("/*")):
        what = _REFUSED.get(value, "a comment within a comment, or one that does not end")
        raise RelationSyntaxError(f"holds {what}", "put this SELECT in a view and name the view")
    if depth < 0:
        raise RelationSyntaxError("closes a bracket it never opened", "remove it")
    if kind == "word" and value.lower() in _WRITES:
        remedy = f'the monitor only reads: write one SELECT (a column of that name: "{value}")'
        raise RelationSyntaxError(f"holds {value.upper()}", remedy)
