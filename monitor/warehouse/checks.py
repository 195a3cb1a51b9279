"""Checks that a relation meets the contract. All problems of a source are reported at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import iglob
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.config.model import SourceConfig
from monitor.config.relation import (
    CsvFiles,
    ParquetFiles,
    Relation,
    RelationSyntaxError,
    TableName,
    is_files,
    parse_relation,
)
from monitor.core.wording import clean
from monitor.warehouse.dates import form_of, in_words, remedy_for
from monitor.warehouse.dialects import NUMERIC, Dialect, Expression, Kind, Statement
from monitor.warehouse.relation import RelationError, RelationProblem

PLACE = "{label}"
NO_LABELS = frozenset(
    {"max", "maximum", "min", "minimum", "mean", "avg", "sum", "total", "margin", "entropy", "top", "top1", "top_1"}
    | {"top2", "top_2", "argmax", "confidence", "gap", "std", "var", "best"}
)
"""What stands beside the scores of labels in columns called alike, such as ``p_max``: numbers of all labels."""
Columns = list[tuple[str, Kind]]
Typed = tuple[Expression, Kind]
"""A value of a statement, and its kind."""


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A source, and the connection by which its relations are looked at."""

    connection: sa.Connection
    name: str
    source: SourceConfig
    dialect: Dialect

    def problem(self, found: str, remedy: str) -> RelationProblem:
        """What is wrong with a relation of the source, and what to do."""
        return RelationProblem(self.name, found, remedy)


@dataclass(frozen=True, slots=True)
class Contract:
    """The columns that a source must have and may have, and which of them are numbers or booleans."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    numbers: tuple[str, ...]
    booleans: tuple[str, ...] = ("actual", "predicted")


def contract(source: SourceConfig) -> Contract:
    """The contract of a source, by its kind, its shape and the input of its scores."""
    if source.kind == "regression":
        values = ("predicted", "deviation", "actual")
        optional = ("label", "predicted_at", "model_version", "weight")
        return Contract(("item", *values, "resolved_at"), optional, (*values, "weight"), ())
    score, single = score_name(source), source.kind == "single_label"
    truth = () if source.wide is not None and source.wide.actual is not None else (truth_name(source),)
    named = ("label", score) if not single else ("predicted_label", score)
    required = ("item", *(named if source.wide is None else ()), *truth, "resolved_at")
    scores = [name for name in ("score", "confidence") if name != score or not source.score]
    numbers = (*scores, *(() if source.positive else ("actual", "predicted")), "weight")
    return Contract(required, (*_decisions(source), "predicted_at", "model_version", "cluster", "weight"), numbers)


def score_name(source: SourceConfig) -> str:
    """The name of the column of scores, or of the column from which they are computed."""
    if source.score is not None:
        return source.score.source
    return "confidence" if source.kind == "single_label" else "score"


def truth_name(source: SourceConfig) -> str:
    """``actual`` if the truth of a label is 0 or 1, ``true_label`` if the column names the true label."""
    assumed = "true_label" if source.kind == "single_label" or source.wide is not None else "actual"
    return next((name for name in ("actual", "true_label") if name in source.columns), assumed)


def _decisions(source: SourceConfig) -> tuple[str, ...]:
    """The column that says what was predicted; none if the label itself says it, or each label has a column."""
    if source.kind == "single_label" or (source.wide is not None and source.wide.predicted is not None):
        return ()
    return ("predicted_label",) if "predicted_label" in source.columns or source.wide is not None else ("predicted",)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the relation: its name there, and its kind."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Layout:
    """A relation, and its columns by the names of the configuration (canonical, segments, features)."""

    relation: FromClause
    columns: Mapping[str, Column]

    def __contains__(self, name: str) -> bool:
        """Whether the relation has that column."""
        return name in self.columns

    def __getitem__(self, name: str) -> Typed:
        """The column as an expression for statements, and its kind."""
        column = self.columns[name]
        return sa.column(column.name, _selectable=self.relation), column.kind

    def expression(self, name: str) -> Expression:
        """The column as an expression for statements, alone."""
        return self[name][0]

    def instant(self, name: str, dialect: Dialect) -> Expression:
        """A date as an instant: as it was found before, or of its value."""
        known = instant_key(name)
        return self.expression(known) if known in self else dialect.instant(*self[name])

    def numbered(self, *more: sa.ColumnElement[Any]) -> Statement:
        """The rows, with the columns as c0, c1 ... and further ones."""
        columns = (self.expression(name).label(f"c{index}") for index, name in enumerate(self.columns))
        return sa.select(*columns, *more).select_from(self.relation)

    def within(self, rows: FromClause) -> Layout:
        """The same columns in rows made of :meth:`numbered`."""
        columns = enumerate(self.columns.items())
        return Layout(rows, {name: Column(f"c{index}", column.kind) for index, (name, column) in columns})


def instant_key(name: str) -> str:
    """The name of the column of a layout with the instants of a date that is text."""
    return f"{name} as an instant"


def needed(source: SourceConfig) -> tuple[str, ...]:
    """The required names: those of the contract, then segments and features."""
    names = [*contract(source).required]
    if source.score_is == "confidence_in_prediction":
        names += _decisions(source)
    names += ["predicted_at"] if source.unresolved else []
    names += [source.window_on, *source.latest_by, *source.agreement_by, *source.segments, *source.features]
    return tuple(dict.fromkeys(names))


def relation_of(opened: OpenSource) -> Relation:
    """The relation of a source. Raises :class:`RelationError` if this engine cannot read it."""
    try:
        relation = parse_relation(opened.source.relation)
    except RelationSyntaxError as error:
        raise RelationError([opened.problem(f"relation {error}", error.remedy)]) from error
    fault = _fault_of(relation, opened.source, opened.dialect)
    if fault is not None:
        raise RelationError([opened.problem(*fault)])
    return relation


def _fault_of(relation: Relation, source: SourceConfig, dialect: Dialect) -> tuple[str, str] | None:
    """Why a relation cannot be read, and what to do. Web addresses are not checked."""
    if isinstance(relation, ParquetFiles | CsvFiles) and not dialect.reads_files:
        kind = "Parquet" if isinstance(relation, ParquetFiles) else "CSV"
        return f"{dialect.name} cannot read {kind} files", "use DuckDB, or name a table"
    if isinstance(relation, ParquetFiles | CsvFiles):
        path = relation.path
        there = "://" in path or Path(path).is_file() or any(iglob(path, recursive=True))  # noqa: PTH207 - absolute
        return None if there else (f"No files found: {path}", "correct the path; it is from where calmon runs")
    if source.types and not any(map(is_files, source.relations)):
        return "types are of the columns of files, and the relation names none", "cast them in a view or a SELECT"
    if isinstance(relation, TableName) and len(relation.parts) > dialect.name_parts:
        return f"{source.relation} has too many parts for {dialect.name}", "write schema.table"
    if isinstance(relation, TableName) and any("." in part for part in relation.parts[:-1]):
        return f"{source.relation} has a dot within a schema's name", "put a view elsewhere"
    return None


def layout_of(opened: OpenSource, relation: Relation, clause: FromClause, available: Columns) -> Layout:
    """The columns of a relation that its source uses; ``available`` are all its columns.

    Raises :class:`RelationError` with all problems with them. Database errors pass through: the caller knows which of
    them mean that the relation is missing.
    """
    source = opened.source
    names = (*needed(source), *contract(source).optional)
    found = {wanted: find(source.columns.get(wanted, wanted), available) for wanted in names}
    layout = Layout(clause, {wanted: column for wanted, column in found.items() if column is not None})
    problems = [
        *_unknown(opened, available),
        *_missing(opened, found, available),
        *_of_columns(opened, layout, available),
    ]
    if isinstance(relation, CsvFiles) and not any(found[wanted] for wanted in needed(source)):
        # one problem for all: their first line may be no line of names
        wanted = ", ".join(source.columns.get(each, each) for each in needed(source))
        none = f"the line of names of {relation.path} has none of the columns {wanted}; it has: {_named(available)}"
        remedy = "begin the file with their names, or say theirs: columns: {item: <its name>}"
        problems = [opened.problem(none, remedy)]
    if problems:
        raise RelationError(problems)
    return layout


def _named(available: Columns) -> str:
    return ", ".join(column for column, _ in available)


def labels_of(pattern: str, columns: Sequence[str]) -> list[str]:
    """The labels of the columns whose names fit a pattern like ``score_{label}``, but for :data:`NO_LABELS`.

    >>> labels_of("p_{label}", ["id", "p_billing", "p_access", "p_", "p_max"])
    ['billing', 'access']
    """
    return [name for name, column in _fitting(pattern, columns) if name.casefold() not in NO_LABELS]


def no_labels_of(pattern: str, columns: Sequence[str]) -> list[str]:
    """The columns that fit a pattern of labels' columns, and hold something of all labels instead.

    >>> no_labels_of("p_{label}", ["id", "p_billing", "p_max"])
    ['p_max']
    """
    return [column for name, column in _fitting(pattern, columns) if name.casefold() in NO_LABELS]


def _fitting(pattern: str, columns: Sequence[str]) -> list[tuple[str, str]]:
    """The column names that fit a pattern, each after the part that stands for the label."""
    before, _, after = (part.casefold() for part in pattern.partition(PLACE))
    return [
        (column[len(before) : len(column) - len(after)], column)
        for column in columns
        if len(column) > len(before) + len(after)
        and column.casefold().startswith(before)
        and column.casefold().endswith(after)
    ]


def find(column_name: str, available: Iterable[tuple[str, Kind]]) -> Column | None:
    """The column of that name. Upper and lower case may differ if exactly one column fits."""
    exact = [Column(*pair) for pair in available if pair[0] == column_name]
    close = exact or [Column(*pair) for pair in available if pair[0].casefold() == column_name.casefold()]
    return close[0] if exact or len(close) == 1 else None


def _unknown(opened: OpenSource, available: Columns) -> Iterator[RelationProblem]:
    source = opened.source
    columns_of_contract = contract(source)
    canonical_names = (*columns_of_contract.required, *columns_of_contract.optional)
    known = {*canonical_names, *source.latest_by, *source.agreement_by, *source.segments, *source.features}
    for canonical in source.columns:
        if canonical not in known:
            remedy = f"use one of {', '.join(canonical_names)}, or a name under segments or features"
            yield opened.problem(f"columns maps {canonical!r}, which the monitor does not know", remedy)
    has = {column.casefold() for column, _ in available}
    for named in source.types:
        if source.columns.get(named, named).casefold() not in has:
            there_are = f"there are: {_named(available)}"
            yield opened.problem(f"types names {named}, which the files do not have", there_are)


def _missing(opened: OpenSource, found: Mapping[str, Column | None], available: Columns) -> Iterator[RelationProblem]:
    source = opened.source
    required = needed(source)
    for wanted, column in found.items():
        if column is None and (wanted in required or wanted in source.columns):
            expected = source.columns.get(wanted, wanted)
            called = expected if expected == wanted else f"{expected} (for {wanted})"
            there_are = f"there are: {_named(available)}"
            remedy = f"add it to the relation, or write columns: {{{wanted}: <its name>}}; {there_are}"
            yield opened.problem(f"column {called} is missing{_why(wanted, source)}", remedy)


def _why(wanted: str, source: SourceConfig) -> str:
    if wanted in ("predicted", "predicted_label") and source.score_is == "confidence_in_prediction":
        return ", which score_is: confidence_in_prediction needs"
    if wanted == "predicted_at" and (source.unresolved or source.window_on == "predicted_at"):
        return f", which {'unresolved' if source.unresolved else 'window_on: predicted_at'} needs"
    settings = ("agreement_by", "latest_by", "segments", "features")
    return next((f", which {each} names" for each in settings if wanted in getattr(source, each)), "")


_TEXTS = ("item", "label", "predicted_label", "true_label", "cluster", "model_version")
_DECODED = {"duckdb": "decode({})", "postgresql": "convert_from({}, 'UTF8')"}


def _of_columns(opened: OpenSource, layout: Layout, available: Columns) -> Iterator[RelationProblem]:
    """Columns that are there twice, names that are bytes (text like r\\xC3\\xBCck), and wrong types."""
    source, quoted = opened.source, opened.connection.dialect.identifier_preparer.quote
    times = Counter(column for column, _ in available)
    for name in dict.fromkeys(column.name for column in layout.columns.values()):
        if times[name] > 1:
            yield opened.problem(
                f"column {name} is there {times[name]} times", "give one of them another name in the SELECT"
            )
    for wanted in (*_TEXTS, *source.segments):
        if wanted in layout and layout.columns[wanted].kind == "bytes":
            name = layout.columns[wanted].name
            decoded = _DECODED.get(opened.dialect.name, "{} as text").format(name)
            remedy = f"decode it in a view or a SELECT: {decoded}"
            yield opened.problem(f"column {name} ({wanted}) is bytes, no text", remedy)
    wants = contract(source)
    for wanted in (number for number in wants.numbers if number in layout):
        column = layout.columns[wanted]
        kind = seen_kind(opened, layout, wanted)
        if kind not in (*NUMERIC, "unknown") and not (kind == "boolean" and wanted in wants.booleans):
            remedy = to_make_a_number(source, quoted(column.name))
            example = _example(opened, layout, wanted) if kind == "text" else None
            such = "" if example is None else f", such as {clean(str(example), 40)}"
            shown = f"{'no number' if kind == 'other' else kind}{such}"
            yield opened.problem(f"column {column.name} ({wanted}) is {shown}", remedy)
    waiting = ("predicted_at",) if source.unresolved else ()
    for wanted in dict.fromkeys(("resolved_at", source.window_on, *waiting)):
        if wanted in layout and layout.columns[wanted].kind not in opened.dialect.date_kinds:
            yield _no_date(opened, layout, wanted)


def _no_date(opened: OpenSource, layout: Layout, wanted: str) -> RelationProblem:
    """A column that is no date, with the form of one of its values, and what makes a date of it."""
    column, dialect = layout.columns[wanted], opened.dialect
    example = _example(opened, layout, wanted)
    shown = "" if form_of(example) is None else f": {clean(str(example))}, {in_words(example)}"
    known = example is not None and dialect.name in ("duckdb", "postgresql")
    remedy = (
        remedy_for(example, column.name, dialect.name, is_text=column.kind == "text") if known else dialect.date_remedy
    )
    return opened.problem(f"column {column.name} ({wanted}) is {column.kind}, no date{shown}", remedy)


def _example(opened: OpenSource, layout: Layout, wanted: str) -> Any:
    value = layout.expression(wanted)
    some = sa.select(opened.dialect.text(value)).select_from(layout.relation).where(value.is_not(None)).limit(1)
    return opened.connection.execute(some).scalar()


def to_make_a_number(source: SourceConfig, column: str) -> str:
    """What to do about a column, as SQL names it, that is no number."""
    if all(is_files(relation) for relation in source.relations):
        return f"write types: {{{column}: number}}"
    return (
        f"cast it in a view or a SELECT: CAST({column} AS DOUBLE PRECISION); of values like 62,5 %: "
        f"CAST(trim(replace(replace({column}, '%', ''), ',', '.')) AS DOUBLE PRECISION), and score_scale: 100"
    )


def seen_kind(opened: OpenSource, layout: Layout, wanted: str) -> Kind:
    """The kind of a column. If the engine declares none, but the column holds text only: text."""
    column, kind = layout[wanted]
    if kind == "unknown" and opened.dialect.only_text(opened.connection, layout.relation, column):
        return "text"
    return kind
