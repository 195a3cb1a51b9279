"""Files of data as a relation: which of their columns are numbers and dates.

All columns of a CSV file are read as text. The contract says which are numbers, and ``types`` of alerts.yaml what it
cannot know; so a value that cannot be read is a rejected row, as in a table, and never stops the reading of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.config.model import SourceConfig
from monitor.warehouse.checks import PLACE, Columns, contract, labels_of
from monitor.warehouse.dialects import Expression, Kind
from monitor.warehouse.relation import CsvFiles, ParquetFiles, Relation

NUMBER, TEXT = "number", "text"
_NAN: Expression = sa.cast(sa.literal_column("'NaN'"), sa.Double)


def typed(source: SourceConfig, relation: Relation, clause: FromClause, there: Columns) -> tuple[FromClause, Columns]:
    """The relation with its columns in the types that they are meant to have; of a table as it is."""
    if not isinstance(relation, ParquetFiles | CsvFiles):
        return clause, there
    given = {source.columns.get(name, name).casefold(): kind for name, kind in source.types.items()}
    if isinstance(relation, CsvFiles):
        given = {**{name.casefold(): NUMBER for name in _numbers(source, there)}, **given}
    if not given:
        return clause, there
    columns: list[sa.Label[Any]] = []
    kinds: Columns = []
    for name, kind in there:
        column: Expression = sa.column(name, _selectable=clause)
        wanted = given.get(name.casefold())
        meant = (column, kind) if wanted is None or kind != "text" else _as(column, wanted)
        columns.append(meant[0].label(name))
        kinds.append((name, meant[1]))
    return sa.select(*columns).subquery(), kinds  # of two files both may be typed: no name of its own


def _numbers(source: SourceConfig, there: Columns) -> Iterator[str]:
    """The columns of a file that the contract has as numbers, by their own names."""
    for name in contract(source).numbers:
        yield source.columns.get(name, name)
    if source.wide is None:
        return
    names = [name for name, _ in there]
    in_words = (source.wide.actual, source.wide.predicted) if source.positive else ()
    for pattern in (source.wide.score, source.wide.actual, source.wide.predicted):
        if pattern is not None and pattern not in in_words:
            yield from (pattern.replace(PLACE, label) for label in source.wide.labels or labels_of(pattern, names))


def _as(column: Expression, wanted: str) -> tuple[Expression, Kind]:
    """A column of text as a number, or as a date written by a pattern; what cannot be read stays no number, no date."""
    if wanted == TEXT:
        return column, "text"
    text = sa.func.trim(column)
    if wanted == NUMBER:
        plain = sa.case((sa.not_(sa.func.contains(text, ".")), sa.func.replace(text, ",", ".")), else_=text)
        truth = sa.cast(sa.try_cast(text, sa.Boolean), sa.Double)
        number = sa.func.coalesce(sa.try_cast(plain, sa.Double), truth, _NAN)
        return sa.case((sa.func.nullif(text, sa.literal_column("''")).is_not(None), number)), "number"
    moment = sa.func.try_strptime(text, sa.literal(wanted, sa.Text))
    iso = sa.func.strftime(moment, sa.literal_column("'%Y-%m-%d %H:%M:%S.%f'"))
    return sa.func.coalesce(iso, text), "text"
