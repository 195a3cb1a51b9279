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
from monitor.warehouse.dialects import NUMERIC, Dialect, Kind
from monitor.warehouse.relation import RelationProblem

REQUIRED = ("item", "label", "score", "actual", "resolved_at")
OPTIONAL = ("predicted", "predicted_at", "model_version", "cluster", "weight")
NUMBERS = ("score", "actual", "predicted", "weight")
BOOLEANS = ("actual", "predicted")
PLACE = "{label}"
NO_LABELS = frozenset(
    {"max", "maximum", "min", "minimum", "mean", "avg", "sum", "total", "margin", "entropy", "top", "top1", "top_1"}
    | {"top2", "top_2", "argmax", "confidence", "gap", "std", "var", "best"}
)
"""What stands beside the scores of labels in columns called alike, such as ``p_max``: numbers of all labels."""
NUMBERS_REQUIRED = ("item", "predicted", "deviation", "actual", "resolved_at")
NUMBERS_OPTIONAL = ("label", "predicted_at", "model_version", "weight")


Columns = list[tuple[str, Kind]]


@dataclass(frozen=True, slots=True)
class Contract:
    """The columns that a source must have and may have, and which of them are numbers or booleans."""

    required: tuple[str, ...] = REQUIRED
    optional: tuple[str, ...] = OPTIONAL
    numbers: tuple[str, ...] = NUMBERS
    booleans: tuple[str, ...] = BOOLEANS


def contract(source: SourceConfig) -> Contract:
    """The contract of a source, by its kind, its shape and the input of its scores."""
    if source.kind == "regression":
        return Contract(NUMBERS_REQUIRED, NUMBERS_OPTIONAL, ("predicted", "deviation", "actual", "weight"), ())
    score, single = score_name(source), source.kind == "single_label"
    truth = () if _truth_is_wide(source) or not source.has_truth else (truth_name(source),)
    dated = ("resolved_at",) if source.has_truth else ()
    named = ("label", score) if not single else ("predicted_label", score)
    required = ("item", *(named if source.wide is None else ()), *truth, *dated)
    wordy = {"actual", "predicted"} if source.positive else set()
    numbers = [name for name in ("score", "confidence", *NUMBERS[1:]) if name not in wordy]
    return Contract(
        required,
        (*_decisions(source), *OPTIONAL[1:]),
        tuple(name for name in numbers if name != score or not source.score),
    )


def score_name(source: SourceConfig) -> str:
    """The name of the column of scores, or of the column from which they are computed."""
    if source.score is not None:
        return source.score.source
    return "confidence" if source.kind == "single_label" else "score"


def truth_name(source: SourceConfig) -> str:
    """``actual`` if the truth of a label is 0 or 1, ``true_label`` if the column names the true label."""
    assumed = "true_label" if source.kind == "single_label" or source.wide is not None else "actual"
    return next((name for name in ("actual", "true_label") if name in source.columns), assumed)


def _truth_is_wide(source: SourceConfig) -> bool:
    return source.wide is not None and source.wide.actual is not None


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

    def has(self, name: str) -> bool:
        """Whether the relation has that column."""
        return name in self.columns

    def expression(self, name: str) -> sa.ColumnClause[object]:
        """The column as an expression for statements."""
        found: sa.ColumnClause[object] = sa.column(self.columns[name].name, _selectable=self.relation)
        return found

    def numbered(self, *more: sa.ColumnElement[Any]) -> sa.Select[Any]:
        """The rows, with the columns as c0, c1 ... and further ones."""
        columns = (self.expression(name).label(f"c{index}") for index, name in enumerate(self.columns))
        return sa.select(*columns, *more).select_from(self.relation)

    def within(self, rows: FromClause) -> Layout:
        """The same columns in rows made of :meth:`numbered`."""
        columns = enumerate(self.columns.items())
        return Layout(rows, {name: Column(f"c{index}", column.kind) for index, (name, column) in columns})


def needed(source: SourceConfig) -> tuple[str, ...]:
    """The required names: those of the contract, then segments and features."""
    names = [*contract(source).required]
    if source.score_is == "confidence_in_prediction":
        names += _decisions(source)
    names += ["predicted_at"] if source.unresolved is not None else []
    names += [source.window_on, *source.latest_by, *source.agreement_by, *source.segments, *source.features]
    return tuple(dict.fromkeys(names))


def parsed(name: str, source: SourceConfig, dialect: Dialect) -> Relation | RelationProblem:
    """The relation, or the problem why this engine cannot read it."""
    try:
        relation = parse_relation(source.relation)
    except RelationSyntaxError as error:
        return RelationProblem(name, f"relation {error}", error.remedy)
    if isinstance(relation, ParquetFiles | CsvFiles):
        fault = _fault_of_files(relation, dialect)
        return RelationProblem(name, *fault) if fault is not None else relation
    if source.types and not any(is_files(each) for each in source.relations):
        remedy = "cast them in a view or a SELECT"
        return RelationProblem(name, "types are of the columns of files, and the relation names none", remedy)
    if isinstance(relation, TableName) and len(relation.parts) > dialect.name_parts:
        return RelationProblem(name, f"{source.relation} has too many parts for {dialect.name}", "write schema.table")
    if isinstance(relation, TableName) and any("." in part for part in relation.parts[:-1]):
        return RelationProblem(name, f"{source.relation} has a dot within a schema's name", "put a view elsewhere")
    return relation


def _fault_of_files(files: ParquetFiles | CsvFiles, dialect: Dialect) -> tuple[str, str] | None:
    """Why files cannot be read, and what to do. Web addresses are not checked."""
    if not dialect.reads_files:
        kind = "Parquet" if isinstance(files, ParquetFiles) else "CSV"
        return f"{dialect.name} cannot read {kind} files", "use DuckDB, or name a table"
    if "://" in files.path or Path(files.path).is_file():
        return None
    found = next(iglob(files.path, recursive=True), None)  # noqa: PTH207 - absolute patterns
    return None if found else (f"No files found: {files.path}", "correct the path; it is from where calmon runs")


def layout_of(
    connection: sa.Connection, name: str, source: SourceConfig, clause: FromClause, available: Columns, dialect: Dialect
) -> Layout | list[RelationProblem]:
    """The columns of a relation that its source uses, or all problems with them; ``available`` are all its columns.

    Database errors pass through: the caller knows which of them mean that the relation is missing.
    """
    names = (*needed(source), *contract(source).optional)
    found = {wanted: find(source.columns.get(wanted, wanted), available) for wanted in names}
    layout = Layout(clause, {wanted: column for wanted, column in found.items() if column is not None})
    problems = [
        *_unknown(name, source, available),
        *_missing(name, source, found, available),
        *_ambiguous(name, layout, available),
        *_bytes(name, source, layout, dialect),
        *_types(connection, name, source, layout, dialect),
    ]
    return problems or layout


def none_named(name: str, source: SourceConfig, relation: Relation, available: Columns) -> list[RelationProblem]:
    """The one problem of CSV files that have no needed column: their first line may be no line of names."""
    wanted = [source.columns.get(each, each) for each in needed(source)]
    if not isinstance(relation, CsvFiles) or any(find(each, available) for each in wanted):
        return []
    has = ", ".join(column for column, _ in available)
    found = f"the line of names of {relation.path} has none of the columns {', '.join(wanted)}; it has: {has}"
    return [RelationProblem(name, found, "begin the file with their names, or say theirs: columns: {item: <its name>}")]


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


def _unknown(name: str, source: SourceConfig, available: Columns) -> Iterator[RelationProblem]:
    columns_of_contract = contract(source)
    canonical_names = (*columns_of_contract.required, *columns_of_contract.optional)
    known = {*canonical_names, *source.latest_by, *source.agreement_by, *source.segments, *source.features}
    for canonical in source.columns:
        if canonical not in known:
            remedy = f"use one of {', '.join(canonical_names)}, or a name under segments or features"
            yield RelationProblem(name, f"columns maps {canonical!r}, which the monitor does not know", remedy)
    has = [column for column, _ in available]
    for named in source.types:
        if source.columns.get(named, named).casefold() not in map(str.casefold, has):
            yield RelationProblem(
                name, f"types names {named}, which the files do not have", f"there are: {', '.join(has)}"
            )


def _missing(
    name: str, source: SourceConfig, found: Mapping[str, Column | None], available: Columns
) -> Iterator[RelationProblem]:
    required = needed(source)
    for wanted, column in found.items():
        if column is None and (wanted in required or wanted in source.columns):
            expected = source.columns.get(wanted, wanted)
            called = expected if expected == wanted else f"{expected} (for {wanted})"
            has = ", ".join(column_name for column_name, _ in available)
            remedy = f"add it to the relation, or write columns: {{{wanted}: <its name>}}; there are: {has}"
            yield RelationProblem(name, f"column {called} is missing{_why(wanted, source)}", remedy)


def _why(wanted: str, source: SourceConfig) -> str:
    if wanted in ("predicted", "predicted_label") and source.score_is == "confidence_in_prediction":
        return ", which score_is: confidence_in_prediction needs"
    if wanted == "predicted_at" and (source.unresolved is not None or source.window_on == "predicted_at"):
        return f", which {'window_on: predicted_at' if source.unresolved is None else 'unresolved'} needs"
    if wanted in source.agreement_by:
        return ", which agreement_by names"
    if wanted in source.latest_by:
        return ", which latest_by names"
    if wanted in source.segments:
        return ", which segments names"
    return ", which features names" if wanted in source.features else ""


def _ambiguous(name: str, layout: Layout, available: Columns) -> Iterator[RelationProblem]:
    times = Counter(column for column, _ in available)
    for column in dict.fromkeys(column.name for column in layout.columns.values()):
        if times[column] > 1:
            remedy = "give one of them another name in the SELECT"
            yield RelationProblem(name, f"column {column} is there {times[column]} times", remedy)


_TEXTS = ("item", "label", "predicted_label", "true_label", "cluster", "model_version")
_DECODED = {"duckdb": "decode({})", "postgresql": "convert_from({}, 'UTF8')"}


def _bytes(name: str, source: SourceConfig, layout: Layout, dialect: Dialect) -> Iterator[RelationProblem]:
    """The columns of names that are bytes: as text they would be names such as r\\xC3\\xBCck."""
    for wanted in (*_TEXTS, *source.segments):
        if layout.has(wanted) and layout.columns[wanted].kind == "bytes":
            column = layout.columns[wanted].name
            decoded = _DECODED.get(dialect.name, "{} as text").format(column)
            remedy = f"decode it in a view or a SELECT: {decoded}"
            yield RelationProblem(name, f"column {column} ({wanted}) is bytes, no text", remedy)


def _types(
    connection: sa.Connection, name: str, source: SourceConfig, layout: Layout, dialect: Dialect
) -> Iterator[RelationProblem]:
    wants = contract(source)
    for wanted in (number for number in wants.numbers if layout.has(number)):
        column = layout.columns[wanted]
        kind = seen_kind(connection, layout, wanted, dialect)
        if kind not in (*NUMERIC, "unknown") and not (kind == "boolean" and wanted in wants.booleans):
            remedy = to_make_a_number(source, connection.dialect.identifier_preparer.quote(column.name))
            example = _example(connection, layout, wanted, dialect) if kind == "text" else None
            such = "" if example is None else f", such as {clean(str(example), 40)}"
            shown = f"{'no number' if kind == 'other' else kind}{such}"
            yield RelationProblem(name, f"column {column.name} ({wanted}) is {shown}", remedy)
    waiting = () if source.unresolved is None else ("predicted_at",)
    for wanted in dict.fromkeys(("resolved_at", source.window_on, *waiting)):
        if layout.has(wanted) and layout.columns[wanted].kind not in dialect.date_kinds:
            yield _no_date(connection, name, layout, wanted, dialect)


def _no_date(connection: sa.Connection, name: str, layout: Layout, wanted: str, dialect: Dialect) -> RelationProblem:
    """A column that is no date, with the form of one of its values, and what makes a date of it."""
    column = layout.columns[wanted]
    example = _example(connection, layout, wanted, dialect)
    shown = "" if form_of(example) is None else f": {clean(str(example))}, {in_words(example)}"
    known = example is not None and dialect.name in ("duckdb", "postgresql")
    remedy = (
        remedy_for(example, column.name, dialect.name, is_text=column.kind == "text") if known else dialect.date_remedy
    )
    return RelationProblem(name, f"column {column.name} ({wanted}) is {column.kind}, no date{shown}", remedy)


def _example(connection: sa.Connection, layout: Layout, wanted: str, dialect: Dialect) -> Any:
    value = layout.expression(wanted)
    some = sa.select(dialect.text(value)).select_from(layout.relation).where(value.is_not(None)).limit(1)
    return connection.execute(some).scalar()


def to_make_a_number(source: SourceConfig, column: str) -> str:
    """What to do about a column, as SQL names it, that is no number."""
    if all(is_files(relation) for relation in source.relations):
        return f"write types: {{{column}: number}}"
    return (
        f"cast it in a view or a SELECT: CAST({column} AS DOUBLE PRECISION); of values like 62,5 %: "
        f"CAST(trim(replace(replace({column}, '%', ''), ',', '.')) AS DOUBLE PRECISION), and score_scale: 100"
    )


def seen_kind(connection: sa.Connection, layout: Layout, wanted: str, dialect: Dialect) -> Kind:
    """The kind of a column. If the engine declares none, but the column holds text only: text."""
    kind = layout.columns[wanted].kind
    if kind == "unknown" and dialect.only_text(connection, layout.relation, layout.expression(wanted)):
        return "text"
    return kind
