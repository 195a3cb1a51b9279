"""The levels of every statement: which rows of the window count, why others are rejected, and the facts of each row.

A statement is built in levels of subqueries, so that an expression appears once, for people and for PostgreSQL's
GROUP BY::

    judged   the rows of the window in our types, with ``reason`` (NULL: not rejected)
    sound    the rows that are not rejected; where duplicates exist, the latest of each (item, label)
    facts    y, w, s, cell, predicted and automated of each sound row
    groups   one row per (label, predicted, automated, cell), or a similar key

Names come from the relation itself and are quoted by SQLAlchemy; values are bound. What is built on these levels is in
``cluster_sums.py``, ``count_statements.py`` and ``statements.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.config.model import SourceConfig
from monitor.core.records import LABEL_BYTES, ROUNDING, RejectReason, Window
from monitor.warehouse.checks import Layout, instant_key
from monitor.warehouse.dialects import (
    EMPTY,
    HALF,
    NUMERIC,
    ONE,
    ZERO,
    Dialect,
    Expression,
    Statement,
    double,
    labelled,
    place_over,
)

NO_VALUE = "(none)"
_BY_VALUE = ("resolved", "score", "actual", "predicted", "weight", "deviation", "dated")
_ROUNDED_0: Expression = sa.literal_column(f"{-ROUNDING!r}")
_ROUNDED_1: Expression = sa.literal_column(f"{1 + ROUNDING!r}e0")
LONGEST_LABEL: Expression = sa.literal_column(str(LABEL_BYTES))
_LARGEST_WEIGHT: Expression = sa.literal_column("1e9")  # above: implausible, infinite, or NaN, which engines sort last
_SMALLEST_WEIGHT: Expression = sa.literal_column("1e-5")  # below: its square is lost in exact_sum


Reasons = Sequence[tuple[Expression, RejectReason]]


@dataclass(frozen=True, slots=True)
class RowLevels:
    """What every statement about one source in one window is built on. Dates after ``now`` lie in the future.

    ``latest`` keeps only the latest row of each (item, label): needed only if some repeat. ``features``: the levels
    have these, too.
    """

    source: SourceConfig
    layout: Layout
    dialect: Dialect
    window: Window
    now: datetime
    latest: bool = field(default=False, kw_only=True)
    features: bool = field(default=False, kw_only=True)
    score_column: ClassVar[str] = "score"

    @property
    def sees_future(self) -> bool:
        """Whether a row of the window may lie in the future."""
        return self.window.end > self.now

    # --- the levels

    def _judged(self) -> Subquery:
        """The rows of the window with the first reason to reject each, in the order of :class:`RejectReason`."""
        date = self.source.window_on  # as `dated`, unless it is `resolved`
        dated = [] if date == "resolved_at" else [self._instant(date).label("dated")]
        columns = [*self._identity(), *self._values(), *dated, *self._extras()]
        if self.features:
            columns += [self._feature(name).label(feature_key(i)) for i, name in enumerate(self.source.features)]
            columns += [self._text("true_label").label("true_label")] if "true_label" in self.layout else []
        reasons = [*self._row_reasons(), *self._date_reasons(in_window=True)]
        return self._select(*columns, first_reason(reasons)).where(self._in_window()).subquery("judged")

    def _undated(self) -> Subquery:
        """The rows outside the window that belong to no window, or not yet, because of their date."""
        dates = self._date_reasons(in_window=False)
        instant = self._instant(self.source.window_on)
        outside = sa.or_(instant.is_(None), sa.not_(self._in_window()))
        troubled = sa.or_(*(condition for condition, _ in dates))
        return self._select(*self._identity(), first_reason(dates)).where(troubled, outside).subquery("undated")

    def _sound(self) -> Subquery:
        """The rows that count."""
        return self._kept()

    def _kept(self) -> Subquery:
        """The rows that are not rejected; with ``latest`` only the latest of each (item, label)."""
        if not self.latest:
            return self._every()
        ranked = self._ranked(self._every())
        return sa.select(ranked).where(self.dialect.usually(ranked.c.place == ONE)).subquery("sound")

    def _every(self) -> Subquery:
        """The rows that are not rejected, also where some repeat an (item, label)."""
        judged = self._judged()
        kept = [column for column in judged.c if column.name != "reason"]
        return sa.select(*kept).where(self.dialect.usually(judged.c.reason.is_(None))).subquery("sound")

    def _ranked(self, rows: Subquery) -> Subquery:
        """Sound rows with their ``place`` among those of one (item, label): 1 is the latest."""
        return sa.select(rows, self._place(rows, [rows.c.item, rows.c.label], [])).subquery("ranked")

    def _place(self, rows: Subquery, within: Sequence[Expression], first: Sequence[Expression]) -> sa.Label[int]:
        """row_number() by ``first``, then latest first. Values decide between ties, so the order is always the same."""
        values = [rows.c[name] for name in _BY_VALUE if name in rows.c]
        texts = [
            column for column in rows.c if column.name == "version" or column.name.startswith(("cluster", "segment_"))
        ]
        order = [value.desc().nulls_last() for value in (*values, *map(self.dialect.ordered, texts))]
        return place_over(partition_by=within, order_by=[*first, *order]).label("place")

    def _facts(self) -> Subquery:
        """The values that are summed (y, w, s), and the columns by which they are grouped."""
        rows = self._sound()
        decided = rows.c.predicted == ONE
        automated = self._automated(rows)
        decision = sa.case((automated, whole_number(3)), (decided, whole_number(2)), else_=ZERO)
        decisions = self._decisions(rows, automated)
        columns = {
            "s": rows.c.score,
            "y": self._outcome(rows),
            "w": rows.c.weight if "weight" in self.layout else double(ONE),
            **decisions,
            "key": decisions["cell"] * whole_number(4) + decision,
        }
        kept: list[Expression] = [rows.c.item, rows.c.label]
        if "cluster" in rows.c:  # some exports write "none" as an empty text: such rows are no cluster
            kept.append(sa.func.nullif(rows.c.cluster, EMPTY).label("cluster"))
        kept += [rows.c[name] for name in map(self._segment_key, self.source.segments) if name in rows.c]
        facts = sa.select(*kept, *labelled(columns))
        return self.dialect.once(facts).subquery("facts")

    def _decisions(self, rows: Subquery, automated: Expression) -> dict[str, Expression]:
        """What was decided about each row, and the cell of its score."""
        chosen = {"predicted": rows.c.predicted == ONE, "automated": automated}
        columns = {name: sa.case((condition, ONE), else_=ZERO) for name, condition in chosen.items()}
        return {**columns, "cell": self.dialect.cell(rows.c.score)}

    def _by_hash(self, item: Expression) -> tuple[Expression, Expression]:
        """The order in which items are drawn, the same every time and in every engine: by the md5 of their names."""
        return self.dialect.ordered(self.dialect.md5(item)), self.dialect.ordered(item)

    # --- whether rows have changed

    def _hash(self) -> Expression:
        """A hash of each row over every column that a reading uses, which ``Statements.fingerprint`` sums up."""
        return self.dialect.row_hash([self.layout[name] for name in self._read()])

    def _coming(self) -> Expression:
        """1 for a row of the window that lies in the future; :data:`ZERO` itself if no row can."""
        dates = self._date_reasons(in_window=True)
        later = [condition for condition, reason in dates if reason is RejectReason.DATE_IN_FUTURE]
        return sa.case(*((condition, ONE) for condition in later), else_=ZERO) if later else ZERO

    def _read(self) -> list[str]:
        """The columns that a reading uses."""
        dates = ("resolved_at", self.source.window_on)
        names = ("item", "label", "score", "actual", "predicted", "weight", *dates, "cluster", "model_version")
        return [name for name in dict.fromkeys((*names, *self.source.segments)) if name in self.layout]

    # --- expressions

    def _select(self, *columns: Expression) -> Statement:
        return sa.select(*columns).select_from(self.layout.relation)

    def _column(self, name: str) -> Expression:
        return self.layout.expression(name)

    def _number(self, name: str) -> Expression:
        return self.dialect.number(*self.layout[name])

    def _share(self, name: str) -> Expression:
        """A score or an outcome; what rounding has moved out of [0, 1] is 0 or 1, all else stays as it is."""
        number = self._number(name)
        if self.layout.columns[name].kind in ("integer", "boolean"):
            return number
        above, below = sa.and_(number > ONE, number <= _ROUNDED_1), sa.and_(number < ZERO, number >= _ROUNDED_0)
        return sa.case((above, ONE), (below, ZERO), else_=number)

    def _is_no_share(self, name: str) -> Expression:
        """Whether :meth:`_share` is outside of [0, 1], by the number itself: engines would compute a share again."""
        return false_or_null(self._number(name).between(_ROUNDED_0, _ROUNDED_1))

    def _instant(self, name: str) -> Expression:
        return self.layout.instant(name, self.dialect)

    def _datable(self, name: str) -> Expression:
        return self.dialect.datable(self._instant(name), self.layout.columns[name].kind)

    def _text(self, name: str) -> Expression:
        return self.dialect.text(self._column(name))

    def _in_window(self) -> Expression:
        return self._between(self.window.start, self.window.end)

    def _between(self, start: datetime, end: datetime) -> Expression:
        name, known = self.source.window_on, instant_key(self.source.window_on)
        column, kind = self.layout[known if known in self.layout else name]
        return self.dialect.within(column, kind, self.dialect.moment(start, kind), self.dialect.moment(end, kind))

    def _identity(self) -> list[sa.Label[Any]]:
        names = {"item": "item", "label": "label", "score_text": self.score_column, "date_text": self.source.window_on}
        nothing = sa.cast(sa.null(), sa.Text)  # of a score that is computed elsewhere
        return labelled({name: self._text(each) if each in self.layout else nothing for name, each in names.items()})

    def _values(self) -> list[sa.Label[Any]]:
        values = {"score": self._share("score"), "actual": self._share("actual"), "predicted": self._predicted()}
        if "weight" in self.layout:
            values["weight"] = self._number("weight")
        values["resolved"] = self._instant("resolved_at")
        return labelled(values)

    def _predicted(self) -> Expression:
        """What the classifier decided; without that column, whether the score is at least .5."""
        if "predicted" in self.layout:
            return self._number("predicted")
        return sa.case((self._number("score") >= HALF, ONE), else_=ZERO)

    def _automated(self, rows: Subquery) -> Expression:
        """Whether a row acts alone."""
        return sa.and_(rows.c.predicted == ONE, rows.c.score >= self._automate_at(rows.c.label))

    def _with_largest_predicted(self, rows: Subquery, name: str, *conditions: Expression) -> Subquery:
        """The rows for which the conditions hold; an item's largest score was predicted."""
        order = [rows.c.score.desc(), self.dialect.ordered(rows.c.label)]
        place = place_over(partition_by=rows.c.item, order_by=order).label("score_place")
        kept = [column for column in rows.c if column.name != "predicted"]
        placed = sa.select(*kept, place).where(*conditions).subquery("placed_scores")
        largest = sa.case((placed.c.score_place == ONE, ONE), else_=ZERO).label("predicted")
        return sa.select(*(placed.c[column.name] for column in kept), largest).subquery(name)

    def _extras(self) -> list[sa.Label[Any]]:
        extras = [self._text("cluster").label("cluster")] if "cluster" in self.layout else []
        named = {self._segment_key(segment): segment for segment in self.source.segments}
        if "model_version" in self.layout:
            named["version"] = "model_version"
        return extras + [sa.func.coalesce(self._text(name), NO_VALUE).label(key) for key, name in named.items()]

    def _feature(self, name: str) -> Expression:
        column, kind = self.layout[name]
        return self.dialect.number(column, kind) if kind in NUMERIC else column

    def _segment_key(self, segment: str | None) -> str:
        return "segment_" + str(self.source.segments.index(segment or ""))

    def _row_reasons(self) -> Reasons:
        outcome: Reasons = [
            (self._column("actual").is_(None), RejectReason.OUTCOME_MISSING),
            (self._is_no_share("actual"), RejectReason.OUTCOME_OUT_OF_RANGE),
        ]
        return [*self._score_reasons(), *outcome, *self._decision_reasons(), *self._weight_reasons()]

    def _score_reasons(self) -> Reasons:
        label = self._text("label")
        return [
            (self._column("item").is_(None), RejectReason.ITEM_MISSING),
            # "" is no label: the history keeps the source as a whole under it
            (sa.or_(self._column("label").is_(None), label == ""), RejectReason.LABEL_MISSING),
            (false_or_null(self.dialect.byte_length(label).between(ONE, LONGEST_LABEL)), RejectReason.LABEL_TOO_LONG),
            (self._column("score").is_(None), RejectReason.SCORE_MISSING),
            (self.dialect.not_a_number(*self.layout["score"]), RejectReason.SCORE_NOT_A_NUMBER),
            (self._is_no_share("score"), RejectReason.SCORE_OUT_OF_RANGE),
        ]

    def _decision_reasons(self) -> Reasons:
        if "predicted" not in self.layout:
            return []
        predicted = self._number("predicted")
        return [(false_or_null(sa.or_(predicted == ZERO, predicted == ONE)), RejectReason.PREDICTED_INVALID)]

    def _weight_reasons(self) -> Reasons:
        if "weight" not in self.layout:
            return []
        weight = self._number("weight")
        usable = sa.and_(weight >= _SMALLEST_WEIGHT, weight < _LARGEST_WEIGHT)
        return [(false_or_null(usable), RejectReason.WEIGHT_INVALID)]

    def _date_reasons(self, *, in_window: bool) -> Reasons:
        """Missing, malformed, in the future. The date by which a row is in the window can only be in the future."""
        names = tuple(dict.fromkeys((self.source.window_on, "resolved_at")))
        doubtful = [name for name in names if not (in_window and name == self.source.window_on)]
        coming = names if self.sees_future else doubtful
        missing = [self._column(name).is_(None) for name in doubtful]
        malformed = [self.dialect.undatable(self._instant(name), self.layout.columns[name].kind) for name in doubtful]
        future = [
            self._instant(name) > self.dialect.moment(self.now, self.layout.columns[name].kind)
            for name in (coming if in_window else names)
        ]
        found = (
            (missing, RejectReason.DATE_MISSING),
            (malformed, RejectReason.DATE_MALFORMED),
            (future, RejectReason.DATE_IN_FUTURE),
        )
        return [(sa.or_(*conditions), reason) for conditions, reason in found if conditions]

    def _automate_at(self, label: Expression) -> Expression:
        special = {name: each.automate_at for name, each in self.source.labels.items() if each.automate_at is not None}
        default = sa.literal(float(self.source.automate_at), sa.Double)
        if not special:
            return default
        cases = ((label == sa.literal(name, sa.Text), sa.literal(float(at), sa.Double)) for name, at in special.items())
        return sa.case(*cases, else_=default)

    def _outcome(self, rows: Subquery) -> Expression:
        actual, predicted = rows.c.actual, rows.c.predicted
        if self.source.score_is == "probability_of_label":
            return actual
        return predicted * actual + (ONE - predicted) * (ONE - actual)

    @property
    def _whole_outcomes(self) -> bool:
        """Whether every outcome of a sound row is 0 or 1 by the type of its column. Decisions always are."""
        return self.layout.columns["actual"].kind in ("integer", "boolean")


def whole_number(number: int) -> Expression:
    """A whole number as a literal of the statement."""
    return sa.literal_column(str(int(number)))


def feature_key(index: int) -> str:
    """The column of the levels that has the feature of this number."""
    return f"feature_{index}"


def false_or_null(condition: Expression) -> Expression:
    """Whether a condition is false or NULL."""
    return sa.not_(sa.func.coalesce(condition, sa.false()))


def first_reason(reasons: Reasons) -> sa.Label[Any]:
    """The first reason that holds, as text; NULL if none does."""
    cases = ((condition, sa.literal(reason.value, sa.Text)) for condition, reason in reasons)
    return sa.case(*cases, else_=sa.null()).label("reason")


def identified(rows: Subquery, reason: Expression) -> Statement:
    """The columns that are shown of rejected rows."""
    return sa.select(reason.label("reason"), rows.c.item, rows.c.label, rows.c.score_text, rows.c.date_text)
