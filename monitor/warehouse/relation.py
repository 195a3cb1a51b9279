"""A relation in the warehouse: as a FROM clause, and the errors of what cannot be read as one.

What ``relation:`` may be is parsed by ``monitor.config.relation``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, quoted_name

from monitor.config.relation import CsvFiles, ParquetFiles, Query, Relation, literal
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


_OPTIONS = "union_by_name = true, binary_as_string = true"
"""Text is bytes in files of older programs, which do not say that it is UTF-8."""


def from_clause(relation: Relation, name: str = "relation") -> FromClause:
    """The relation as a FROM clause with the alias ``name``."""
    if isinstance(relation, Query):
        # the line break keeps the text apart from ")"
        return _subquery(relation.text + "\n", name)
    if isinstance(relation, ParquetFiles) and relation.parts:
        parts = (
            f"SELECT *{_made_double(part.singles)} FROM "
            f"read_parquet([{', '.join(map(literal, part.paths))}], {_OPTIONS})"
            for part in relation.parts
        )
        return _subquery(" UNION ALL BY NAME ".join(parts), name)
    if isinstance(relation, ParquetFiles):
        path = sa.bindparam("path", relation.path, sa.Text, unique=True)
        # without it the first file decides: where its scores are whole numbers, .97 of the next one would be read as 1
        options: sa.ColumnElement[Any] = sa.literal_column(_OPTIONS)
        return sa.func.read_parquet(path, options).table_valued(name=name)
    if isinstance(relation, CsvFiles):
        return _subquery(select_of(relation), name)
    schema = ".".join(relation.parts[:-1]) or None
    table = sa.table(quoted_name(relation.parts[-1], None), schema=quoted_name(schema, None) if schema else None)
    return table.alias(name)


def _subquery(text: str, name: str) -> FromClause:
    """A SELECT of ours or of the owner. text() reads ":name" as a placeholder, so colons are escaped."""
    return sa.text(text.replace(":", r"\:")).columns().subquery(name)


def select_of(files: CsvFiles) -> str:
    """A SELECT of all rows of CSV files, with the columns of all of them by name."""
    reads = (f"read_csv([{', '.join(map(literal, part.paths))}], {', '.join(part.options)})" for part in files.parts)
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {each}" for each in reads)


def _made_double(names: Sequence[str]) -> str:
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    made = ", ".join(f"CAST(CAST({name} AS VARCHAR) AS DOUBLE) AS {name}" for name in quoted)
    return f" REPLACE ({made})" if made else ""
