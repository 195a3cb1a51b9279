"""Sums within items and clusters: how dependent rows are, and the metrics of items.

Rows of one item, and of one cluster, are right or wrong together. The sums behind their design effects
(:class:`~monitor.inference.dependence.ClusterSums`) are made in two levels::

    clusters   one row per item, per cluster, or per both, with the sums over its rows
    totals     the sums of their squares and products
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, Subquery

from monitor.core.records import WHERES
from monitor.warehouse.dialects import ONE, ZERO, Expression, Statement, double, labelled
from monitor.warehouse.row_levels import RowLevels


@dataclass(frozen=True, slots=True)
class ClusterStatements(RowLevels):
    """The statements about items and clusters."""

    item_metrics: ClassVar[tuple[str, ...]] = ("review_rate", "hamming_loss", "subset_loss")

    # --- items

    def of_items(self, labels: Sequence[str] = ()) -> Statement:
        """One row: n, w, w2, the sum of w y for each metric of items, by its name, and :meth:`dependence` of rows.

        y is the value of the metric for one item. The sums of :meth:`dependence` within items are named ``rows_r`` etc.
        With ``labels``, which are those of the rows, ``again`` is 0 only if no (item, label) repeats.
        """
        facts = self._item_facts()
        values = self._item_values(facts)
        if labels:
            values["again"] = self.dialect.repeats(facts.c.label, labels)
        items = self._clusters(facts, ("item",), {"rows_": self._residual(facts)}, labelled(values))
        weighted, exact = "weight" in self.layout, self.dialect.exact_sum
        sums: dict[str, Expression] = dict.fromkeys(("n", "w", "w2"), sa.func.count())
        if weighted:
            sums |= {"w": exact(items.c.w, bounded=False), "w2": exact(items.c.w * items.c.w, bounded=False)}
        for name in self.item_metrics:
            value, _ = self._weighted(items, items.c[name])
            sums[name] = exact(value, bounded=not weighted)
        sums |= self._cluster_totals(items, ("item",), ["rows_"])
        if labels:
            sums["again"] = sa.func.sum(items.c.again)
        return sa.select(*labelled(sums))

    def item_dependence(self) -> Statement:
        """:meth:`dependence` within clusters of the items' values of each metric, in one scan.

        Sums are named by metric and sum, like ``review_rate_r``.
        """
        facts = self._item_facts()
        values = {**self._item_values(facts), "cluster": sa.func.max(self.dialect.ordered(facts.c.cluster))}
        items = self._clusters(facts, ("item",), {}, labelled(values))
        parts = {f"{name}_": self._weighted(items, items.c[name]) for name in self.item_metrics}
        return self._cluster_sums(items, ("cluster",), parts)

    def _item_facts(self) -> Subquery:
        """The rows from which the values of items are computed."""
        return self._facts()

    def _item_values(self, facts: Subquery) -> dict[str, Expression]:
        """The value of each metric of items, as aggregates over the rows of one item; with weights the largest, w."""
        predicted = facts.c.predicted
        wrong: Expression = ONE - facts.c.y
        if self.source.score_is == "probability_of_label":
            wrong = sa.case((predicted == ONE, ONE - facts.c.y), else_=facts.c.y)
        wrong = double(wrong)
        found = sa.func.sum(wrong)
        largest = sa.case((found > ZERO, ONE), else_=ZERO) if self._whole_outcomes else sa.func.max(wrong)
        return {
            **({"w": sa.func.max(facts.c.w)} if "weight" in self.layout else {}),
            "review_rate": double(ONE - sa.func.max(facts.c.automated)),
            "hamming_loss": found / sa.func.nullif(sa.func.count(facts.c.y), ZERO),
            "subset_loss": double(largest),
        }

    # --- how dependent rows are

    def dependence(self, *within: str) -> Statement:
        """The :class:`~monitor.inference.dependence.ClusterSums` over all rows.

        ``within`` names the columns that rows of one cluster share: "item", "cluster", or both. A row without a
        cluster (NULL or the empty text) is a cluster by itself.
        """
        facts = self._facts()
        return self._cluster_sums(facts, within, {"": self._residual(facts)})

    def label_dependence(self) -> Statement:
        """:meth:`dependence` within clusters by label, for all, the predicted and the automated rows, in one scan.

        Sums are named ``all_r``, ``predicted_r`` and so on. They are NULL or 0 if the label has no such row.
        """
        facts = self._facts()
        r, w = self._residual(facts)
        acting = {where: facts.c[where] == ONE for where in WHERES[1:]}
        parts = {f"{where}_": (sa.case((acts, r)), sa.case((acts, w))) for where, acts in acting.items()}
        return self._cluster_sums(facts, ("cluster",), {"all_": (r, w), **parts}, by_label=True)

    def band_dependence(self) -> Statement:
        """:meth:`dependence` by label of the rows of a cluster with scores in one of twenty bands."""
        facts = self._facts()
        band = sa.cast(sa.func.floor(double(facts.c.cell) * sa.literal_column("0.002e0")), sa.BigInteger)
        banded = sa.select(facts, band.label("band")).subquery("banded")
        return self._cluster_sums(banded, ("cluster", "band"), {"all_": self._residual(banded)}, by_label=True)

    def _residual(self, facts: FromClause) -> tuple[Expression, Expression]:
        """The weighted residual of a row and its weight."""
        return self._weighted(facts, facts.c.y - facts.c.s)

    def _weighted(self, rows: FromClause, value: Expression) -> tuple[Expression, Expression]:
        """A value times the weight, and the weight, which is 1 if the source has none."""
        return (rows.c.w * value, rows.c.w) if "weight" in self.layout else (value, ONE)

    # --- clusters of any kind

    def _cluster_sums(
        self,
        facts: Subquery,
        within: Sequence[str],
        parts: Mapping[str, tuple[Expression, Expression]],
        *,
        by_label: bool = False,
    ) -> Statement:
        """The sums of each of ``parts``: prefix of the names -> (weighted residual, weight) of a row."""
        inner = self._clusters(facts, within, parts, by_label=by_label)
        keys = [inner.c.label] if by_label else []
        totals = self._cluster_totals(inner, within, parts)
        return sa.select(*keys, *labelled(totals)).group_by(*keys)

    def _clusters(
        self,
        facts: Subquery,
        within: Sequence[str],
        parts: Mapping[str, tuple[Expression, Expression]],
        more: Sequence[Expression] = (),
        *,
        by_label: bool = False,
    ) -> Subquery:
        """One row per cluster, with the sums of each part over its rows, and the aggregates ``more``.

        Without weights the sums of w and w^2 are the number of rows, and that of r w is that of r.
        """
        sums: list[Expression] = []
        for part, (r, w) in parts.items():
            sums += [value.label(f"{part}{name}") for name, value in self._sums_of_part(r, w, within).items()]
        keys = [facts.c.label] if by_label else []
        shared = [facts.c[name] for name in within]
        named = [key.label(f"key_{index}") for index, key in enumerate(shared)]
        return sa.select(*keys, *named, *sums, *more).group_by(*keys, *shared).subquery("clusters")

    def _sums_of_part(self, r: Expression, w: Expression, within: Sequence[str]) -> dict[str, Expression]:
        """The sums over the rows of one cluster."""
        if "weight" in self.layout:
            products = {"r": r, "rr": r * r, "w": w, "rw": r * w, "ww": w * w}
            return {name: self.dialect.exact_sum(value, bounded=False) for name, value in products.items()}
        exact = self.dialect.exact_sum_of_few if "item" in within else partial(self.dialect.exact_sum, bounded=True)
        rows = double(sa.func.count() if w is ONE else sa.func.count(w))
        return {"r": exact(r), "rr": exact(r * r), "w": rows}

    def _cluster_totals(self, inner: Subquery, within: Sequence[str], parts: Collection[str]) -> dict[str, Expression]:
        """The sums over clusters, by name. A row without a cluster is a cluster by itself; each row has an item."""
        missing = [inner.c[f"key_{index}"].is_(None) for index, name in enumerate(within) if name != "item"]
        alone = sa.or_(*missing) if missing else None
        outer: dict[str, Expression] = {}
        for part in parts:
            outer |= {f"{part}{name}": value for name, value in self._squares(inner, part, alone).items()}
            of_rows = (f"{part}{name}" for name in ("r", "w", "rr", "rw", "ww"))
            outer |= {name: inner.c[name] for name in of_rows if name in inner.c}
        names = () if "weight" in self.layout else ("w", "cc")  # numbers of rows, and their squares
        whole = {f"{part}{name}" for part in parts for name in names}
        return {
            name: double(sa.func.sum(sa.cast(value, sa.BigInteger)))
            if name in whole
            else self.dialect.exact_sum(value, bounded=False)
            for name, value in outer.items()
        }

    def _squares(self, inner: Subquery, part: str, alone: Expression | None) -> dict[str, Expression]:
        """The squares and products of a cluster's sums; where its rows are each ``alone``, the sums of those of rows.

        Without weights there are no sums rw and ww: they equal r and w.
        """
        names = {"rw": "rw", "ww": "ww"} if "weight" in self.layout else {"rw": "r", "ww": "w"}
        r, w, rr, rw, ww = (inner.c[f"{part}{names.get(name, name)}"] for name in ("r", "w", "rr", "rw", "ww"))
        pairs = {"aa": (rr, r * r), "aw": (rw, r * w), "cc": (ww, w * w)}
        if alone is None:
            return {name: cluster for name, (_, cluster) in pairs.items()}
        return {name: sa.case((alone, row), else_=cluster) for name, (row, cluster) in pairs.items()}
