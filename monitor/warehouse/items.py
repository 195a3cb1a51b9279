"""Statements about items as a whole: the rank of each label, whole rows of probabilities, and items of numbers.

They use the sound rows of :class:`~monitor.warehouse.statements.Statements`, so that one place defines which rows
are rejected. ``multiclass`` sources have one more level: an item counts only if exactly one of its labels is true.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.core.records import RejectReason
from monitor.metrics.names import RANKS
from monitor.warehouse.dialects import COUNT, ONE, ZERO, Expression, Statement, double, place_over
from monitor.warehouse.row_levels import Reasons, false_or_null, identified, whole_number
from monitor.warehouse.statements import Statements

_FINITE: Expression = sa.literal_column("1e300")  # beyond: infinite, or NaN, which engines sort last
ITEM_BAD_ROWS = (RejectReason.NO_TRUE_LABEL, RejectReason.SEVERAL_TRUE_LABELS)


@dataclass(frozen=True, slots=True)
class RankedStatements(Statements):
    """Statements for ``top_k`` sources: an item's labels are ranked by score, highest first, then by name."""

    item_metrics: ClassVar[tuple[str, ...]] = (*Statements.item_metrics, *(f"ndcg_at_{rank}" for rank in RANKS))

    def ranked_groups(self) -> Statement:
        """The counts per (value, key) as of :meth:`groups`, all labels together.

        ``value`` is the smallest of :data:`RANKS` that is not below the row's rank. Rows beyond the last are left out.
        """
        placed = self._placed()
        upto = sa.case(*((placed.c.rank <= whole_number(k), whole_number(k)) for k in RANKS)).label("upto")
        # grouped one level further out, so that PostgreSQL sees the expression once
        facts = sa.select(placed, upto).where(self._within(placed, RANKS[-1])).subquery("facts")
        return self._groups_of(facts, facts.c.upto)

    def ranked_dependence(self, *within: str) -> Statement:
        """As :meth:`dependence` over all labels, for the rows within each of :data:`RANKS`, in one scan.

        Sums are named by rank and sum, like ``top_3_r``. They are NULL or 0 without rows.
        """
        placed = self._placed()
        facts = sa.select(placed).where(self._within(placed, RANKS[-1])).subquery("facts")
        r, w = self._residual(facts)
        chosen = {f"top_{rank}_": self._within(facts, rank) for rank in RANKS}
        parts = {part: (sa.case((within_rank, r)), sa.case((within_rank, w))) for part, within_rank in chosen.items()}
        return self._cluster_sums(facts, within, parts)

    def _item_facts(self) -> Subquery:
        """The rows with their rank, and with ``best``, their rank if the true labels came first."""
        placed = self._placed()
        best = place_over(partition_by=placed.c.item, order_by=[placed.c.y.desc(), placed.c.rank])
        return sa.select(placed, best.label("best")).subquery("twice_placed")

    def _item_values(self, facts: Subquery) -> dict[str, Expression]:
        """Also the nDCG of the k highest-scored labels: sum of y / log2(1 + rank) over its largest possible value."""

        def gain(place: Expression, rank: int) -> Expression:
            discounts: dict[int, Expression] = {
                k: sa.literal_column(repr(1 / math.log2(1 + k))) for k in range(1, rank + 1)
            }
            cases = ((place == whole_number(k), facts.c.y * discount) for k, discount in discounts.items())
            return sa.func.sum(double(sa.case(*cases, else_=ZERO)))

        found = Statements._item_values(self, facts)
        for rank in RANKS:
            ideal = gain(facts.c.best, rank)
            none = double(ZERO)
            found[f"ndcg_at_{rank}"] = sa.case((ideal > ZERO, gain(facts.c.rank, rank) / ideal), else_=none)
        return found

    def _placed(self) -> Subquery:
        facts = self._facts()
        order = [facts.c.s.desc(), self.dialect.ordered(facts.c.label)]
        return sa.select(facts, place_over(partition_by=facts.c.item, order_by=order).label("rank")).subquery("placed")

    @staticmethod
    def _within(placed: Subquery, rank: int) -> Expression:
        return placed.c.rank <= whole_number(rank)


@dataclass(frozen=True, slots=True)
class WholeStatements(RankedStatements):
    """Statements for ``multiclass`` sources: unless exactly one label of an item is true, its rows are rejected."""

    def untrue(self) -> Statement:
        """As :meth:`rejected`, for the rows of items with no true label or with several."""
        rows = self._with_truth()
        return self._rejected_of(rows, _how_untrue(rows), sa.not_(_one_truth(rows)))

    def _set_aside_for(self, reasons: Collection[RejectReason]) -> Iterator[Statement]:
        """Also the rows of items with no true label or with several."""
        yield from Statements._set_aside_for(self, reasons)
        if any(reason in reasons for reason in ITEM_BAD_ROWS):
            rows = self._with_truth()
            yield identified(rows, _how_untrue(rows)).where(sa.not_(_one_truth(rows)))

    def whole_rows(self, *, share: float, least: float) -> Statement:
        """(number, label, s, y, w, truth, frequency) of the rows of a sample of items; ``number`` counts items from 1.

        The sample is stratified by the true label, ``truth``, of which ``frequency`` is the number of items. At most
        ``share * frequency + least`` of these are taken, in the order of their md5.
        """
        facts = self._facts()
        by_hash = self._by_hash(facts.c.item)
        truth = facts.c.label.label("truth")
        items = (
            sa.select(
                facts.c.item,
                truth,
                facts.c.w.label("item_weight"),
                sa.func.count().over(partition_by=facts.c.label).label("frequency"),
                place_over(partition_by=facts.c.label, order_by=by_hash).label("turn"),
                place_over(order_by=by_hash).label("number"),
            )
            .where(self.dialect.usually(facts.c.y == ONE))
            .subquery("items")
        )
        quota = items.c.frequency * sa.literal(share, sa.Double) + sa.literal(least, sa.Double)
        chosen = sa.select(items).where(items.c.turn <= quota).subquery("chosen")
        rows = self._facts()
        columns = (chosen.c.number, rows.c.label, rows.c.s, rows.c.y, chosen.c.item_weight.label("w"))
        joined = rows.join(chosen, rows.c.item == chosen.c.item)
        return sa.select(*columns, chosen.c.truth, chosen.c.frequency).select_from(joined)

    def _sound(self) -> Subquery:
        """The rows of the items of which exactly one label is true.

        Without a column ``predicted``, the label with the item's largest score was predicted, the first of equal ones.
        """
        rows = self._with_truth()
        counts = self.dialect.usually(_one_truth(rows))
        if "predicted" in self.layout:
            return sa.select(rows).where(counts).subquery("whole")
        return self._with_largest_predicted(rows, "whole", counts)

    def _with_truth(self) -> Subquery:
        """The rows with ``top``, the largest outcome of their item, and ``total``, the sum of its outcomes."""
        rows = self._kept()
        top = sa.func.max(rows.c.actual).over(partition_by=rows.c.item).label("top")
        total = sa.func.sum(rows.c.actual).over(partition_by=rows.c.item).label("total")
        return sa.select(rows, top, total).subquery("truths")


@dataclass(frozen=True, slots=True)
class NumberStatements(Statements):
    """Statements for ``regression`` sources: an item has a predicted number, its deviation and the true number."""

    score_column: ClassVar[str] = "predicted"

    def total(self) -> Statement:
        """(n): the number of rows that count."""
        return sa.select(COUNT).select_from(self._sound())

    def numbers(self, limit: int) -> Statement:
        """(predicted, deviation, actual, weight) of at most ``limit`` rows, by the items' md5."""
        rows = self._sound()
        weight = rows.c.weight if "weight" in rows.c else double(ONE).label("weight")
        columns = [rows.c[name] for name in ("predicted", "deviation", "actual")]
        order = (*self._by_hash(rows.c.item), self.dialect.ordered(rows.c.label).nulls_first())
        return sa.select(*columns, weight).order_by(*order).limit(limit)

    def _rejected_values(self, rows: Subquery) -> tuple[Expression, Expression, Expression]:
        """Three NULLs: a source of numbers has no score in [0, 1] and no outcome of 0 or 1."""
        nothing: Expression = sa.cast(sa.null(), sa.Integer)
        return nothing, nothing, double(sa.null())

    def _values(self) -> list[sa.Label[Any]]:
        names = ("predicted", "deviation", "actual", *(("weight",) if "weight" in self.layout else ()))
        values = [self._number(name).label(name) for name in names]
        return [*values, self._instant("resolved_at").label("resolved")]

    def _row_reasons(self) -> Reasons:
        finite = {name: self._number(name).between(-_FINITE, _FINITE) for name in ("predicted", "deviation", "actual")}
        positive = sa.and_(finite["deviation"], self._number("deviation") > ZERO)
        return [
            (self._column("item").is_(None), RejectReason.ITEM_MISSING),
            (false_or_null(finite["predicted"]), RejectReason.PREDICTION_INVALID),
            (false_or_null(positive), RejectReason.DEVIATION_INVALID),
            (self._column("actual").is_(None), RejectReason.OUTCOME_MISSING),
            (false_or_null(finite["actual"]), RejectReason.OUTCOME_NOT_FINITE),
            *self._weight_reasons(),
        ]


def _how_untrue(rows: Subquery) -> Expression:
    """The reason to reject the rows of an item that has no true label, or several."""
    none, several = RejectReason.NO_TRUE_LABEL, RejectReason.SEVERAL_TRUE_LABELS
    return sa.case((rows.c.top < ONE, sa.literal(none.value, sa.Text)), else_=sa.literal(several.value, sa.Text))


def _one_truth(rows: Subquery) -> Expression:
    return sa.and_(rows.c.top == ONE, rows.c.total == ONE)


STATEMENTS: dict[str, type[Statements]] = {
    "multilabel": Statements,
    "single_label": Statements,
    "top_k": RankedStatements,
    "multiclass": WholeStatements,
    "regression": NumberStatements,
}
"""The statements of each kind of source."""
