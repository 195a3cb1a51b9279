"""Finds which of several tables can be read as a source: one alone, or one of predictions with one of truths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from monitor.operations.propose_source import NAMES, Proposal, Unclear, holds_dates, plain_name, propose, with_truth
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed
from monitor.warehouse.survey import ColumnSample

MOST_TABLES = 40
"""The most tables that are examined; if there are more, a person names the table."""
_SHARED = 0.5
_OF_ANY_ROW = ("id", "uuid", "key")

Columns = Sequence[ColumnSample]


@dataclass(frozen=True, slots=True)
class Found:
    """A table that can be read. ``truth`` is the table with its truths, if that is another one, joined by ``on``.

    Without ``on`` a person has to say it: both number their own rows, and no other column is of both.
    """

    relation: str
    truth: str | None = None
    on: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.truth is None:
            return self.relation
        joined = ", ".join(f"{mine} = {its}" for mine, its in self.on.items()) or "joined by what?"
        return f"{self.relation}, with what came true in {self.truth} ({joined})"


def recognised(warehouse: Warehouse, tables: Sequence[str], given: Mapping[str, str]) -> list[Found]:
    """The tables that can be read alone; if there is none, the pairs of predictions and truths."""
    columns = columns_of(warehouse, tables)
    alone = [
        Found(name) for name, samples in columns.items() if isinstance(propose(samples, given, files=False), Proposal)
    ]
    if alone:
        return alone
    return [found for name in columns for found in truths_of(name, columns, given, files=False)]


def lacks_truth(found: Proposal | Unclear) -> bool:
    """Whether a table lacks only its truths, or the time when they became known."""
    return isinstance(found, Unclear) and found.missing in ("true_label", "resolved_at")


def truths_of(relation: str, columns: Mapping[str, Columns], given: Mapping[str, str], *, files: bool) -> list[Found]:
    """The tables of ``columns`` that hold the truths of the predictions in ``relation``."""
    found: list[Found] = []
    if relation not in columns or not lacks_truth(propose(columns[relation], given, files=files)):
        return found
    for other, truths in columns.items():
        on = None if other == relation else joined_by(columns[relation], truths)
        if on is None and other != relation and _both_number(columns[relation], truths):
            on = {}
        if on is not None and isinstance(propose(with_truth(columns[relation], truths), given, files=files), Proposal):
            found.append(Found(relation, other, on))
    return found


def joined_by(predictions: Columns, truths: Columns) -> dict[str, str] | None:
    """The columns that join two tables, {column of predictions: column of truths}; None if that is not clear.

    They are the only shared column, or the only shared one with the name of an item, or else the only two columns with
    the same values. A counter called ``id`` in both numbers each table's own rows, and joins nothing.
    """
    truth_names = {column.name for column in truths} - _both_number(predictions, truths)
    shared = [column.name for column in predictions if column.name in truth_names]
    if len(shared) > 1:
        shared = [name for name in shared if plain_name(name) in NAMES["item"]]
        shared = [name for name in shared if plain_name(name) not in _OF_ANY_ROW] or shared
    if len(shared) == 1:
        return {shared[0]: shared[0]}
    pairs = [
        (prediction.name, truth.name)
        for prediction in predictions
        for truth in truths
        if _same_values(prediction, truth) and (prediction.name != truth.name or truth.name in truth_names)
    ]
    return dict(pairs) if len(pairs) == 1 else None


def _both_number(predictions: Columns, truths: Columns) -> set[str]:
    """The columns of both with a name that any row has, such as ``id``, in which each table counts."""
    counted = [{column.name for column in columns if _is_counter(column)} for columns in (predictions, truths)]
    return {name for name in counted[0] & counted[1] if plain_name(name) in _OF_ANY_ROW}


def _is_counter(column: ColumnSample) -> bool:
    """Whether the values are whole numbers one after the other."""
    values = sorted({int(text) for value in column.values if (text := str(value)).isdigit()})
    return len(values) == len(column.values) > 1 and values[-1] - values[0] + 1 == len(values)


def _same_values(one: ColumnSample, other: ColumnSample) -> bool:
    """Whether two columns hold the same items: no dates, hardly any repeated value, half of the values shared."""
    if holds_dates(one) or holds_dates(other):
        return False
    first, second = ({str(value) for value in column.values} for column in (one, other))
    distinct = all(len(values) > 0.9 * len(column.values) for values, column in ((first, one), (second, other)))
    return distinct and bool(first) and len(first & second) >= _SHARED * min(len(first), len(second))


def columns_of(warehouse: Warehouse, tables: Sequence[str]) -> dict[str, Columns]:
    """The columns of the first tables, without those that cannot be read, such as a broken view."""
    found: dict[str, Columns] = {}
    for table in tables[:MOST_TABLES]:
        with suppress(RelationError, WarehouseFailed):
            found[table] = warehouse.samples(table)
    return {table: columns for table, columns in found.items() if columns}
