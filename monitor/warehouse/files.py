"""Files as a relation: which of their columns are numbers and dates.

All columns of a CSV file are read as text. The contract says which are numbers, and ``types`` in alerts.yaml says the
rest. So a value that cannot be read is a rejected row, as in a table, and never stops the reading of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.config.model import SourceConfig
from monitor.config.relation import CsvFiles, ParquetFiles, Relation
from monitor.warehouse.checks import PLACE, Columns, contract, labels_of, score_name
from monitor.warehouse.dialects import EMPTY, ONE, ZERO, Expression, Kind, double

NUMBER, TEXT = "number", "text"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+$"  # 1,500 and the like
_NAN: Expression = double(sa.literal_column("'NaN'"))


def typed(
    source: SourceConfig, relation: Relation, clause: FromClause, available: Columns
) -> tuple[FromClause, Columns]:
    """The relation with columns in the types of the contract and of ``types``; a table stays as it is."""
    if not isinstance(relation, ParquetFiles | CsvFiles):
        return clause, available
    numbers = {name.casefold(): is_score for name, is_score in sorted(_numbers(source, available), key=itemgetter(1))}
    given = {source.columns.get(name, name).casefold(): kind for name, kind in source.types.items()}
    if isinstance(relation, CsvFiles):
        given = {**dict.fromkeys(numbers, NUMBER), **given}
    if not given:
        return clause, available
    columns: list[sa.Label[Any]] = []
    kinds: Columns = []
    for name, kind in available:
        column: Expression = sa.column(name, _selectable=clause)
        given_type = given.get(name.casefold())
        if given_type is None or kind != "text":
            converted = column, kind
        else:
            converted = _as(column, given_type, is_score=numbers.get(name.casefold(), False))
        columns.append(converted[0].label(name))
        kinds.append((name, converted[1]))
    return sa.select(*columns).subquery(), kinds  # without a name, since two files may be joined


def _numbers(source: SourceConfig, available: Columns) -> Iterator[tuple[str, bool]]:
    """The names of the columns of a file that are numbers by the contract, each with whether it is of scores."""
    for name in contract(source).numbers:
        yield source.columns.get(name, name), name == score_name(source)
    wide = source.wide
    if wide is not None:
        in_words = (wide.actual, wide.predicted) if source.positive else ()
        for pattern in (wide.score, wide.actual, wide.predicted):
            if pattern is not None and pattern not in in_words:
                for label in wide.labels or labels_of(pattern, [name for name, _ in available]):
                    yield pattern.replace(PLACE, label), pattern == wide.score


def _as(column: Expression, given_type: str, *, is_score: bool) -> tuple[Expression, Kind]:
    """A column of text as a number or as a date in a format. Text that is neither becomes NaN, or stays text.

    A comma is a decimal point in a score, and elsewhere where it can be nothing else: 1,500 may be 1500 or 1.5.
    """
    if given_type == TEXT:
        return column, "text"
    text = sa.func.trim(column)
    if given_type == NUMBER:
        decimal = sa.not_(sa.func.contains(text, "."))
        decimal = decimal if is_score else sa.and_(decimal, sa.not_(sa.func.regexp_matches(text, _THOUSANDS)))
        plain = sa.case((decimal, sa.func.replace(text, ",", ".")), else_=text)
        share = sa.func.rtrim(plain, sa.literal_column("'% '"))  # 97% is .97
        percent = sa.case((sa.func.ends_with(text, sa.literal_column("'%'")), sa.try_cast(share, sa.Double) / 100))
        # as PostgreSQL exports booleans. DuckDB takes yes, no, y and n for these too, but a yes in place of a score is
        # the answer of a model, and no number
        words = ((ONE, ("'true'", "'t'")), (ZERO, ("'false'", "'f'")))
        cases = ((sa.func.lower(text).in_([sa.literal_column(word) for word in pair]), truth) for truth, pair in words)
        number = sa.func.coalesce(sa.try_cast(plain, sa.Double), percent, double(sa.case(*cases)), _NAN)
        return sa.case((sa.func.nullif(text, EMPTY).is_not(None), number)), "number"
    moment = sa.func.try_strptime(text, sa.literal(given_type, sa.Text))
    zone = "+00" if "%z" in given_type.casefold() else ""  # with a zone, the moment is one in UTC
    iso = sa.func.strftime(moment, sa.literal_column(f"'%Y-%m-%d %H:%M:%S.%f{zone}'"))
    return sa.func.coalesce(iso, text), "text"
