"""A pattern of Parquet files in which a column has single precision in some files and double in others.

DuckDB would read the numbers of the former as the doubles nearest to them: 0.899999976 where 0.9 was written. Read by
way of their shortest text they are equal to those of the other files (:meth:`Dialect.number`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from glob import escape, glob
from pathlib import Path

import sqlalchemy as sa

from monitor.config.relation import ParquetFiles, ParquetPart

_WILD = re.compile(r"[*?\[]")
_NUMBERS = sa.text(
    "SELECT DISTINCT file_name, path_in_schema, type FROM parquet_metadata(:paths) "
    "WHERE type IN ('FLOAT', 'DOUBLE') AND NOT contains(path_in_schema, ', ')"  # not of parts of a column
)


def with_parts(connection: sa.Connection, files: ParquetFiles) -> ParquetFiles:
    """The files of a pattern, in parts that are read alike where a column is single in some and double in others.

    Only the ends of the files are read, where their columns are named. Raises sqlalchemy's errors.
    """
    if not _WILD.search(files.path) or "://" in files.path:
        return files
    visible = visible_files(files.path)
    numbers = connection.execute(_NUMBERS, {"paths": [escape(path) for path in visible]}).all()
    # columns of several files are joined by their names without regard to case
    doubles = {name.casefold() for _, name, kind in numbers if kind == "DOUBLE"}
    mixed = [(path, name) for path, name, kind in numbers if kind == "FLOAT" and name.casefold() in doubles]
    if not mixed and not hidden_files(files.path) and not Path(files.path).is_file():
        return files
    parts: dict[tuple[str, ...], list[str]] = {}
    for path in visible:
        parts.setdefault(tuple(sorted(name for of, name in mixed if of == path)), []).append(escape(path))
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
