"""Tables in other shapes are turned into one row per (item, label) within the database.

Each step is a subquery around the one before, so the statements always see the columns of the long form::

    joined       predictions and truths, if these are two relations
    newest       the latest row of each item (and label), by the column that latest_by names
    long_form    label, score, actual and predicted as in the contract
    agreed       one row per (item, label) with the share of its annotators who said yes, by agreement_by

A relation that has the long form already is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.config.model import SourceConfig, TruthConfig, WideConfig
from monitor.config.relation import Relation, is_files
from monitor.warehouse.checks import (
    PLACE,
    Column,
    Columns,
    Layout,
    OpenSource,
    Typed,
    find,
    instant_key,
    labels_of,
    layout_of,
    relation_of,
    score_name,
    seen_kind,
    to_make_a_number,
)
from monitor.warehouse.dialects import EMPTY, NUMERIC, ONE, WHOLE, ZERO, Dialect, Expression, double, place_over
from monitor.warehouse.files import typed
from monitor.warehouse.relation import RelationError, RelationProblem

NEITHER: Expression = sa.literal_column("2")
"""The outcome of a truth in words that are neither positive nor negative: outside [0, 1], so the row is rejected."""
_BOOLEANS = (("true", {"yes", "y", "t", "1"}), ("false", {"no", "n", "f", "0"}))
_CONSUMED = ("label", "score", "confidence", "actual", "predicted", "true_label", "predicted_label")
_OF_THE_TRUTH = ("actual", "true_label", "resolved_at")

Read = tuple[FromClause, Columns]


def long_form(opened: OpenSource) -> Layout:
    """A source as one row per (item, label). Raises :class:`RelationError` with all problems with its relations."""
    layout, available = joined_layout(opened)
    source = opened.source
    shape = _Shape(opened.connection, opened.name, source, opened.dialect, layout)
    found = shape.of_rows() if source.wide is None else shape.of_columns(source.wide, available)
    return _agreed(source, found, opened.dialect) if source.agreement_by else found


def joined_layout(opened: OpenSource) -> tuple[Layout, Columns]:
    """The columns of a source as its relations have them, and all that are there. Raises as :func:`long_form`."""
    relation = relation_of(opened)
    clause, available = read(opened, relation)
    if opened.source.truth is not None:
        clause, available = _joined(opened, opened.source.truth, clause, available)
    return _with_instants(opened, layout_of(opened, relation, clause, available)), available


def _with_instants(opened: OpenSource, layout: Layout) -> Layout:
    """Of files at hand, each date in text as an instant too, found once: that costs more than all else in a statement.

    A score that is made here has rows of its own, which have no such columns.
    """
    source, dialect = opened.source, opened.dialect
    names = sorted({source.window_on, "resolved_at", "predicted_at"})
    dates = [name for name in names if name in layout and layout.columns[name].kind == "text"]
    found = {instant_key(name): dialect.instant(*layout[name]).label(instant_key(name)) for name in dates}
    rows = sa.select(sa.literal_column("*"), *found.values()).select_from(layout.relation)
    kept = dialect.at_hand_once(opened.connection, source.relations, rows) if found and source.score is None else None
    if kept is None:
        return layout
    return Layout(kept, {**layout.columns, **{key: Column(key, "timestamptz") for key in found}})


def read(opened: OpenSource, relation: Relation, name: str = "relation") -> Read:
    """The rows of a relation, and its columns in the types of the contract."""
    clause = opened.dialect.at_hand(opened.connection, relation, name)
    return typed(opened.source, relation, clause, opened.dialect.columns(opened.connection, relation, clause))


# --- two relations


def read_truths(opened: OpenSource, truth: TruthConfig) -> Read:
    """As :func:`read`, of the truths of a source. Raises as :func:`relation_of`."""
    source = opened.source.model_copy(update={"relation": truth.relation, "types": {}})
    return read(opened, relation_of(replace(opened, source=source)), "truths")


def _joined(opened: OpenSource, truth: TruthConfig, first: FromClause, its_columns: Columns) -> Read:
    """The predictions that have a truth, or all of them if those without one are counted as waiting.

    Of a column in both relations, the one of the truth is used if it belongs to the truth.
    """
    source = opened.source
    second, columns_of_truth = read_truths(opened, truth)
    available = its_columns, columns_of_truth
    problems = []
    for place, names, columns in zip(("relation", "truth"), (truth.on, truth.on.values()), available, strict=True):
        has = ", ".join(column for column, _ in columns)
        remedy = f"write on: a column of both, or on: {{theirs: the truth's}}; there are: {has}"
        for column in (column for column in names if find(column, columns) is None):
            what = f"column {column}, by which truths are joined, is not in the {place}"
            problems.append(opened.problem(what, remedy))
    if problems:
        raise RelationError(problems)
    shared = [(find(left, available[0]), find(right, available[1])) for left, right in truth.on.items()]
    pairs = [(left, right) for left, right in shared if left is not None and right is not None]
    equal = sa.and_(*(same(opened, _of(first, left), _of(second, right)) for left, right in pairs))
    of_truth = {source.columns.get(each, each).casefold() for each in _OF_THE_TRUTH}
    of_truth -= {left.name.casefold() for left, _ in pairs}
    names_of_truth = {column.casefold() for column, _ in available[1]}
    kept = [pair for pair in available[0] if pair[0].casefold() not in of_truth & names_of_truth]
    taken = {column.casefold() for column, _ in kept}
    added = [pair for pair in available[1] if pair[0].casefold() not in taken]
    taken_columns = [
        *(_of(first, Column(*pair))[0] for pair in kept),
        *(_of(second, Column(*pair))[0] for pair in added),
    ]
    rows = sa.select(*taken_columns).select_from(first.join(second, equal, isouter=source.unresolved))
    return rows.subquery("joined"), [*kept, *added]


def _of(clause: FromClause, column: Column) -> Typed:
    return sa.column(column.name, _selectable=clause), column.kind


def same(opened: OpenSource, left: Typed, right: Typed) -> Expression:
    """Whether two columns are equal; columns of different kinds, and of CSV files, as text: 1000.0 is 1000 there."""
    alike = left[1] == right[1] and not (left[1] == "text" and all(map(is_files, opened.source.relations)))
    if alike or {left[1], right[1]} <= {*NUMERIC}:
        return left[0] == right[0]
    return opened.dialect.label_text(*left) == opened.dialect.label_text(*right)


# --- the columns of the long form


@dataclass(frozen=True, slots=True)
class _Shape(OpenSource):
    """A source with the columns of its relation, and how these become the columns of the long form."""

    layout: Layout

    def of_rows(self) -> Layout:
        """The long form of a relation with one label per row."""
        source, shape = self.source, self.newest()
        if source.kind == "regression" or not (shape.is_single or shape.is_worded or source.score_scale != 1):
            return shape.layout
        named = "predicted_label" if shape.is_single else "label"
        label = self.dialect.label_text(*shape.layout[named])
        truth = "actual" if "actual" in shape.layout else "true_label"
        decision = "predicted_label" if "predicted_label" in shape.layout else "predicted"
        columns = shape.kept() | shape.of_label((label, "text"), score_name(source), truth, decision)
        # it need not be the label of any row of its item; where annotators differ, the share of each label says more
        if "true_label" in shape.layout and not source.agreement_by:
            columns["true_label"] = (self.dialect.label_text(*shape.layout["true_label"]), "text")
        return _layout([columns])

    def of_columns(self, wide: WideConfig, available: Columns) -> Layout:
        """The long form of a relation with one column per label: one row per label."""
        labels = wide.labels or labels_of(wide.score, [column for column, _ in available])
        patterns = [pattern for pattern in (wide.score, wide.actual, wide.predicted) if pattern is not None]
        found = {
            label: {pattern: find(pattern.replace(PLACE, label), available) for pattern in patterns} for label in labels
        }
        problems = list(self._of_wide(wide, found, available))
        if problems:
            raise RelationError(problems)
        columns = {_key(pattern, label): column for label, each in found.items() for pattern, column in each.items()}
        known = {name: column for name, column in columns.items() if column is not None}
        with_labels = Layout(self.layout.relation, {**self.layout.columns, **known})
        shape = replace(self, layout=with_labels).newest()
        parts = []
        for label in labels:
            named: Typed = (sa.literal(WHOLE.sub(r"\1", label), sa.Text), "text")
            truth = "true_label" if wide.actual is None else _key(wide.actual, label)
            decision = "predicted_label" if wide.predicted is None else _key(wide.predicted, label)
            parts.append(shape.kept() | shape.of_label(named, _key(wide.score, label), truth, decision))
        return _layout(parts)

    @property
    def is_single(self) -> bool:
        """Whether the source has one label per item, and so one row per item."""
        return self.source.kind == "single_label"

    @property
    def is_worded(self) -> bool:
        """Whether truths or decisions are words or labels, and not numbers."""
        return bool(self.source.positive) or "true_label" in self.layout or "predicted_label" in self.layout

    def newest(self) -> _Shape:
        """The same for the latest row of each item, or of each (item, label) if the relation has one label per row.

        Rows without an item are no versions of each other: all stay, to be rejected.
        """
        if not self.source.latest_by:
            return self
        layout, dialect = self.layout, self.dialect
        within = [layout.expression(name) for name in ("item", "label") if name in layout]
        order = _latest_first(layout, self.source.latest_by, dialect)
        place = place_over(partition_by=within, order_by=order).label("place")
        ranked = layout.numbered(place).subquery("ranked_rows")
        counts = sa.or_(ranked.c.place == ONE, layout.within(ranked).expression("item").is_(None))
        newest = sa.select(*(column for column in ranked.c if column.name != "place")).where(counts)
        return replace(self, layout=layout.within(newest.subquery("newest")))

    def kept(self) -> dict[str, Typed]:
        """The columns that the long form has unchanged: dates, weights, clusters, segments, features and so on."""
        named = {*self.source.segments, *self.source.features}
        return {
            name: self.layout[name]
            for name in self.layout.columns
            if "\0" not in name and (name not in _CONSUMED or name in named)
        }

    def of_label(self, label: Typed, score: str, truth: str, decision: str) -> dict[str, Typed]:
        """The columns of rows about one label, by the names of those that say its score, its truth and its decision."""
        found = {"label": label}
        if self.source.score is None:
            found["score"] = self.dialect.scaled(*self.layout[score], self.source.score_scale), "number"
        found["actual"] = self._agrees(label, truth) if truth == "true_label" else self._actual(truth)
        if self.is_single:
            found["predicted"] = (ONE, "number")
        elif decision in self.layout:
            by_name = decision == "predicted_label"
            found["predicted"] = self._agrees(label, decision) if by_name else self._decided(decision)
        return found

    def _actual(self, name: str) -> Typed:
        return self._in_words(name) if self.source.positive else self._as_number(name)

    def _decided(self, name: str) -> Typed:
        """The decision as a number. It is in words if truths are in words and the column is text."""
        in_words = self.source.positive and seen_kind(self, self.layout, name) == "text"
        return self._in_words(name) if in_words else self._as_number(name)

    def _as_number(self, name: str) -> Typed:
        return self.dialect.scaled(*self.layout[name], 1), "number"

    def _in_words(self, name: str) -> Typed:
        text = sa.func.trim(self.dialect.text(self.layout.expression(name)))
        lowered = sa.func.lower(text)
        cases: list[tuple[Expression, Expression]] = [
            (sa.func.nullif(text, EMPTY).is_(None), sa.cast(sa.null(), sa.Integer))
        ]
        positive, negative = self.source.positive, self.source.negative
        if self.layout.columns[name].kind == "boolean":
            positive, negative = _with_booleans(positive), _with_booleans(negative)
        cases.append((_one_of(text, lowered, positive), ONE))
        if not negative:
            return sa.case(*cases, else_=ZERO), "number"
        return sa.case(*cases, (_one_of(text, lowered, negative), ZERO), else_=NEITHER), "number"

    def _agrees(self, label: Typed, name: str) -> Typed:
        """1 if a column names the label, 0 if it names another, NULL if it names none."""
        column, kind = self.layout[name]
        text = self.dialect.ordered(self.dialect.label_text(column, kind))
        equal = text == self.dialect.ordered(label[0])
        if self.is_single:
            predicted = self.layout["predicted_label"]
            if {kind, predicted[1]} <= {*NUMERIC}:
                equal = self.dialect.number(column, kind) == self.dialect.number(*predicted)
        is_missing = sa.func.nullif(self.dialect.text(column), EMPTY).is_(None)
        return sa.case((is_missing, sa.null()), (equal, ONE), else_=ZERO), "number"

    def _of_wide(
        self, wide: WideConfig, found: Mapping[str, Mapping[str, Column | None]], available: Columns
    ) -> Iterator[RelationProblem]:
        """The problems with the columns of the labels."""
        if not found:
            has = ", ".join(column for column, _ in available)
            yield self.problem(f"no column is called like {wide.score}", f"there are: {has}")
        booleans = (wide.actual, wide.predicted)
        for label, columns in found.items():
            for pattern, column in columns.items():
                called = pattern.replace(PLACE, label)
                if column is None:
                    remedy = "add it to the relation, or name the labels under wide: {labels: [...]}"
                    yield self.problem(f"column {called} is missing, for label {label}", remedy)
                    continue
                kind = seen_kind(self, Layout(self.layout.relation, {called: column}), called)
                fits = kind in (*NUMERIC, "unknown") or (kind == "boolean" and pattern in booleans)
                if not fits and not (pattern in booleans and self.source.positive):
                    shown = "no number" if kind == "other" else kind
                    remedy = to_make_a_number(self.source, column.name)
                    yield self.problem(f"column {column.name} (of label {label}) is {shown}", remedy)


def _agreed(source: SourceConfig, layout: Layout, dialect: Dialect) -> Layout:
    """The latest row of each (item, label), with the mean of the last outcome that each annotator gave.

    A row without an outcome is left out of the mean. An outcome outside [0, 1] takes its place, so that the row is
    rejected.
    """
    pair = [layout.expression(name) for name in ("item", "label")]
    outcome = double(dialect.number(*layout["actual"]))
    order = _latest_first(layout, ["resolved_at"], dialect)
    by = [layout.expression(name) for name in source.agreement_by]
    latest = place_over(partition_by=[*pair, *by], order_by=order).label("of_annotator")
    turn = place_over(partition_by=pair, order_by=order).label("turn")
    rows = layout.numbered(outcome.label("outcome"), latest, turn).subquery("annotations")
    numbered = layout.within(rows)
    within = [numbered.expression(name) for name in ("item", "label")]
    last = sa.case((rows.c.of_annotator == ONE, rows.c.outcome))
    least, most = (of(last).over(partition_by=within) for of in (sa.func.min, sa.func.max))
    mean = sa.func.avg(last).over(partition_by=within)
    share = sa.case((least < ZERO, least), (most > ONE, most), else_=mean).label("agreement")
    names = [column.name for column in numbered.columns.values()]
    shared = sa.select(*(rows.c[name] for name in names), rows.c.turn, share).subquery("shared")
    kept = sa.select(*(shared.c[name] for name in names), shared.c.agreement).where(shared.c.turn == ONE)
    return Layout(kept.subquery("agreed"), {**numbered.columns, "actual": Column("agreement", "number")})


def _latest_first(layout: Layout, dates: Sequence[str], dialect: Dialect) -> list[Expression]:
    """The order of rows, the latest first. Values decide between ties, so it is always the same."""
    instants = [layout.instant(name, dialect) for name in dates]
    values = [dialect.ordered(dialect.text(layout.expression(name))) for name in layout.columns]
    return [value.desc().nulls_last() for value in (*instants, *values)]


def _key(pattern: str, label: str) -> str:
    """The name in a layout of the column of one label; the configuration cannot give it to another column."""
    return f"{pattern}\0{label}"


def _with_booleans(words: Sequence[str]) -> tuple[str, ...]:
    """Words for yes and no, with the booleans that DuckDB makes of them where it reads a file within a SELECT.

    >>> _with_booleans(["Yes"]), _with_booleans(["no", "n"]), _with_booleans(["ja"])
    (('Yes', 'true'), ('no', 'n', 'false'), ('ja',))
    """
    lowered = {word.lower() for word in words}
    found = [boolean for boolean, alike in _BOOLEANS if lowered & alike]
    return (*words, *found)


def _one_of(text: Expression, lowered: Expression, words: Sequence[str]) -> Expression:
    """Whether a value is one of the words. "true" also fits 1, since some engines store booleans so."""
    known = {form for word in words for form in _forms(word)}
    return sa.or_(text.in_(sorted(known)), lowered.in_(sorted({word.lower() for word in known})))


def _forms(word: str) -> tuple[str, ...]:
    number = {"true": "1", "false": "0"}.get(word.lower(), word)
    return (word, number, f"{number}.0") if number.isdigit() else (word,)


def _layout(parts: Sequence[Mapping[str, Typed]]) -> Layout:
    """The union of the rows of all parts, which have the same columns."""
    names = list(parts[0])
    selects = [sa.select(*(part[name][0].label(f"c{index}") for index, name in enumerate(names))) for part in parts]
    rows = sa.union_all(*selects)
    columns = {name: Column(f"c{index}", parts[0][name][1]) for index, name in enumerate(names)}
    return Layout(rows.subquery("long_form"), columns)
