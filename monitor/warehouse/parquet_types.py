"""A pattern of Parquet files in which a column has single precision in some files and double in others.

DuckDB would read the numbers of the former as the doubles nearest to them: 0.899999976 where 0.9 was written. Read by
way of their shortest text they are equal to those of the other files (:meth:`Dialect.number`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from glob import escape, glob
from pathlib import Path

import sqlalchemy as sa

from monitor.config.relation import ParquetFiles, ParquetPart

SINGLE, DOUBLE = "FLOAT", "DOUBLE"
Types = Mapping[str, str | None]
_WILD = re.compile(r"[*?\[]")
_SCHEMAS = sa.text("SELECT file_name, name, type, num_children FROM parquet_schema(:paths)")


def with_parts(connection: sa.Connection, files: ParquetFiles) -> ParquetFiles:
    """The files of a pattern, in parts that are read alike where a column is single in some and double in others.

    Only the ends of the files are read, where their columns are named. Raises sqlalchemy's errors.
    """
    if not _WILD.search(files.path) or "://" in files.path:
        return files
    visible = visible_files(files.path)
    rows: dict[str, list[tuple[str, str | None, int]]] = {}
    for path, name, kind, children in connection.execute(_SCHEMAS, {"paths": [escape(path) for path in visible]}):
        rows.setdefault(path, []).append((name, kind, children or 0))
    types = {path: columns_of(nodes) for path, nodes in rows.items()}
    mixed = _named(types.values(), SINGLE) & _named(types.values(), DOUBLE)
    if not mixed and not hidden_files(files.path) and not Path(files.path).is_file():
        return files
    parts: dict[tuple[str, ...], list[str]] = {}
    for path, columns in types.items():
        singles = (name for name, kind in columns.items() if kind == SINGLE and name.casefold() in mixed)
        parts.setdefault(tuple(sorted(singles)), []).append(escape(path))
    return replace(files, parts=tuple(ParquetPart(tuple(paths), singles) for singles, paths in parts.items()))


def visible_files(pattern: str) -> list[str]:
    """The files of a pattern, or the one that has it as its name, without hidden ones: ``._a.parquet``, ``~$a.csv``.

    Excel writes the second kind beside a file that somebody has open.
    """
    if Path(pattern).is_file():
        return [pattern]
    found = glob(pattern, recursive=True)  # noqa: PTH207 - absolute
    return sorted(path for path in found if not Path(path).name.startswith("~$"))


def hidden_files(pattern: str) -> list[str]:
    """The hidden files that fit a pattern, which are left out."""
    if not _WILD.search(pattern) or "://" in pattern or Path(pattern).is_file():
        return []
    every = glob(pattern, recursive=True, include_hidden=True)  # noqa: PTH207 - absolute
    return sorted({*every} - {*visible_files(pattern)})


def columns_of(nodes: Iterable[tuple[str, str | None, int]]) -> Types:
    """The type of each column, from the (name, type, number of children) of all parts of a schema, the root first.

    >>> columns_of([("root", None, 2), ("place", None, 1), ("x", "FLOAT", 0), ("score", "DOUBLE", 0)])
    {'place': None, 'score': 'DOUBLE'}
    """
    found: dict[str, str | None] = {}
    _, *columns = nodes
    within = 0  # parts of a column that are still to come
    for name, kind, children in columns:
        if within:
            within -= 1
        else:
            found[name] = kind if not children else None
        within += children
    return found


def _named(files: Iterable[Types], kind: str) -> set[str]:
    """The columns that have a type in some file, by name without regard to case, as DuckDB joins them."""
    return {name.casefold() for columns in files for name, found in columns.items() if found == kind}
