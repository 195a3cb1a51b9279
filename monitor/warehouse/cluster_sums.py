"""Sums within items and clusters: how dependent rows are, and the metrics of items.

Rows of one item, and of one cluster, are right or wrong together. The sums behind their design effects
(:class:`~monitor.inference.dependence.ClusterSums`) are made in two levels::

    clusters   one row per item, per cluster, or per both, with the sums over its rows
    totals     the sums of their squares and products

Where every item lies in one cluster, the sums of items are added up by cluster, and no other scan is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, Subquery

from monitor.core.records import WHERES
from monitor.warehouse.dialects import BITS, Expression, Hashing
from monitor.warehouse.row_levels import ONE, ZERO, RowLevels, built_once


@dataclass(frozen=True, slots=True)
class ClusterStatements(RowLevels):
    """The statements about items and clusters."""

    item_metrics: ClassVar[tuple[str, ...]] = ("review_rate", "hamming_loss", "subset_loss")

    # --- items

    @built_once
    def of_items(self, *, latest: bool) -> sa.Select[Any]:
        """One row: n, w, w2, the sum of w y for each metric of items, by its name, and :meth:`dependence` of rows.

        y is the value of the metric for one item. The sums of :meth:`dependence` within items are named ``rows_r`` etc.

        With clusters there is also ``apart``, the number of items whose rows are neither all of one cluster nor all of
        none. Where it is 0, ``clusters_aa`` (and ``_aw``, ``_cc``) are those of :meth:`dependence` within clusters,
        ``both_aa`` etc. within items and clusters, and ``review_rate_aa``, ``review_rate_rr`` etc. those of
        :meth:`item_dependence`, so that no further scan is needed.
        """
        facts = self._item_facts(latest=latest)
        items = self._clusters(facts, ("item",), {"rows_": self._residual(facts)}, self._of_item(facts))
        return self._totals_of(items, self._item_totals(items), {})

    @built_once
    def items_of_every_row(
        self, labels: Sequence[str], *, hashed: bool, hashing: Hashing | None = None
    ) -> sa.Select[Any]:
        """:meth:`of_items` over the rows that count, and (seen, kept, again, hash, coming) over all rows, in one scan.

        ``seen`` counts the rows of the window, ``kept`` those that count. With ``labels``, which are those that
        ``Dialect.repeats`` takes, ``again`` is 0 only if no (item, label) repeats. The other sums are right only then:
        they assume that an item has no more rows than labels. ``hash`` (as text) and ``coming`` are those of
        ``Statements.fingerprint``. ``hashing`` is that of the dialect for these labels.
        """
        facts = self._facts_of_every(hashed=hashed)
        few = 0 < len(labels) <= BITS and self.dialect.counts_bits and not self.layout.has("weight")
        more = [*self._of_item(facts), sa.func.count().label("seen"), sa.func.count(facts.c.y).label("kept")]
        more += [sa.func.sum(facts.c[name]).label(name) for name in ("hash", "coming") if name in facts.c]
        more += [self.dialect.repeats(facts.c.label, labels, facts.c.y, hashing).label("again")] if labels else []
        value, weight = self._residual(facts)
        part = {"rows_": (value, facts.c.y if weight is ONE else weight)}
        items = self._clusters(facts, ("item",), part, more, few=few)
        names = [name for name in ("seen", "kept", "again", "coming", "hash") if name in items.c]
        totals = {name: sa.func.sum(items.c[name]) for name in names}
        return self._totals_of(items, self._item_totals(items, items.c.kept > ZERO, few=few), totals)

    def _of_item(self, facts: Subquery) -> list[Expression]:
        """The value of each metric of an item, its weight if there are weights, and its cluster if there are clusters.

        ``apart`` is 1 if the rows of the item that count are of several clusters, or only some of them of one.
        """
        values = ({"w": sa.func.max(facts.c.w)} if self.layout.has("weight") else {}) | self._item_values(facts)
        if "cluster" in facts.c:
            cluster = self.dialect.ordered(sa.case((facts.c.y.is_not(None), facts.c.cluster)))
            first, last, named = sa.func.min(cluster), sa.func.max(cluster), sa.func.count(cluster)
            some = sa.and_(named > ZERO, named < sa.func.count(facts.c.y))
            values |= {"cluster": first, "apart": sa.case((sa.or_(first != last, some), ONE), else_=ZERO)}
        return [value.label(name) for name, value in values.items()]

    def _item_totals(
        self, items: Subquery, counts: Expression | None = None, *, few: bool = False
    ) -> dict[str, Expression]:
        """The sums over items: over those for which the condition ``counts`` holds, if it is given."""
        weighted, exact = self.layout.has("weight"), self.dialect.exact_sum
        count: Expression = sa.func.count() if counts is None else sa.func.count(sa.case((counts, ONE)))
        sums = {"n": count, "w": count, "w2": count}
        if weighted:
            sums |= {"w": exact(items.c.w, bounded=False), "w2": exact(items.c.w * items.c.w, bounded=False)}
        for name in self.item_metrics:
            value, weight = self._weighted(items, items.c[name])
            value = value if counts is None else sa.case((counts, value))
            sums[name] = exact(value, bounded=not weighted)
            if "cluster" in items.c:
                sums[f"{name}_rr"] = exact(value * value, bounded=not weighted)
                sums |= {f"{name}_rw": exact(value * weight, bounded=False)} if weighted else {}
        return sums | self._cluster_totals(items, ("item",), ["rows_"], few=few)

    def _totals_of(
        self, items: Subquery, sums: Mapping[str, Expression], numbers: Mapping[str, Expression]
    ) -> sa.Select[Any]:
        """One row: ``sums`` and the sums of whole ``numbers`` over items; with clusters, what :meth:`of_items` adds."""
        named = {**sums, **numbers}
        if "cluster" in items.c:
            named = self._by_cluster(items, sums, {**numbers, "apart": sa.func.sum(items.c.apart)})
        if "hash" in named:
            named["hash"] = self.dialect.text(named["hash"])
        return sa.select(*(value.label(name) for name, value in named.items()))

    def _by_cluster(
        self, items: Subquery, sums: Mapping[str, Expression], numbers: Mapping[str, Expression]
    ) -> dict[str, Expression]:
        """:meth:`_totals_of` by way of one row per cluster, and one for all items without a cluster."""
        counts = ["n"] if self.layout.has("weight") else ["n", "w", "w2"]
        named = {**sums, **numbers, **self._in_parts(sums)}
        columns = [items.c.cluster, *(value.label(name) for name, value in named.items())]
        inner = sa.select(*columns).group_by(items.c.cluster).subquery("of_clusters")
        exact = {name: inner.c[name] for name in sums if name not in counts} | self._squares_of_clusters(inner)
        totals = {name: self.dialect.exact_sum(value, bounded=False) for name, value in exact.items()}
        counted = {name: sa.cast(sa.func.coalesce(sa.func.sum(inner.c[name]), ZERO), sa.BigInteger) for name in counts}
        return {**counted, **totals, **{name: sa.func.sum(inner.c[name]) for name in numbers}}

    def _in_parts(self, sums: Mapping[str, Expression]) -> dict[str, Expression]:
        """The sums over the items of a cluster, named as :meth:`_squares` reads them: of rows, and of each metric."""
        parts = {"clusters": {name: f"rows_{name}" for name in ("r", "w", "rr", "rw", "ww")}}
        parts |= {metric: {"r": metric, "w": "w", "ww": "w2"} for metric in self.item_metrics}
        named = ((f"{part}_{name}", sums.get(of)) for part, names in parts.items() for name, of in names.items())
        return {name: value for name, value in named if value is not None}

    def _squares_of_clusters(self, inner: Subquery) -> dict[str, Expression]:
        """:meth:`_squares` of rows within clusters, within items and clusters (``both``), and of each metric."""
        alone = inner.c.cluster.is_(None)
        clusters = self._squares(inner, "clusters_", alone)
        found = {f"clusters_{name}": value for name, value in clusters.items()}
        found |= {
            f"both_{name}": sa.case((alone, row), else_=inner.c[f"rows_{name}"]) for name, row in clusters.items()
        }
        for metric in self.item_metrics:
            squares = self._squares(inner, f"{metric}_", alone)
            found |= {f"{metric}_{name}": value for name, value in squares.items()}
        return found

    @built_once
    def item_dependence(self, *, latest: bool) -> sa.Select[Any]:
        """:meth:`dependence` within clusters of the items' values of each metric, in one scan.

        Sums are named by metric and sum, like ``review_rate_r``.
        """
        items = self._items(latest=latest)
        parts = {f"{name}_": self._weighted(items, items.c[name]) for name in self.item_metrics}
        return self._cluster_sums(items, ("cluster",), parts)

    @built_once
    def _items(self, *, latest: bool) -> Subquery:
        """One row per item with its value of each metric of items, and the largest weight and cluster of its rows."""
        facts = self._item_facts(latest=latest)
        columns = {"w": sa.func.max(facts.c.w), **self._item_values(facts)}
        if "cluster" in facts.c:
            columns["cluster"] = sa.func.max(self.dialect.ordered(facts.c.cluster))
        named = [column.label(name) for name, column in columns.items()]
        return sa.select(facts.c.item, *named).group_by(facts.c.item).subquery("items")

    def _item_facts(self, *, latest: bool) -> Subquery:
        """The rows from which the values of items are computed."""
        return self._facts(latest=latest)

    def _item_values(self, facts: Subquery) -> dict[str, Expression]:
        """The value of each metric of items, as aggregates over the rows of one item."""
        predicted = facts.c.predicted
        wrong: Expression = ONE - facts.c.y
        if self.source.score_is == "probability_of_label":
            wrong = sa.case((predicted == ONE, ONE - facts.c.y), else_=facts.c.y)
        wrong = sa.cast(wrong, sa.Double)
        found = sa.func.sum(wrong)
        largest = sa.case((found > ZERO, ONE), else_=ZERO) if self._whole_outcomes else sa.func.max(wrong)
        return {
            "review_rate": sa.cast(ONE - sa.func.max(facts.c.automated), sa.Double),
            "hamming_loss": found / sa.func.nullif(sa.func.count(facts.c.y), ZERO),
            "subset_loss": sa.cast(largest, sa.Double),
        }

    # --- how dependent rows are

    @built_once
    def dependence(self, *within: str, latest: bool) -> sa.Select[Any]:
        """The :class:`~monitor.inference.dependence.ClusterSums` over all rows.

        ``within`` names the columns that rows of one cluster share: "item", "cluster", or both. A row without a
        cluster (NULL or the empty text) is a cluster by itself.
        """
        facts = self._facts(latest=latest)
        return self._cluster_sums(facts, within, {"": self._residual(facts)})

    @built_once
    def label_dependence(self, *, latest: bool) -> sa.Select[Any]:
        """:meth:`dependence` within clusters by label, for all, the predicted and the automated rows, in one scan.

        Sums are named ``all_r``, ``predicted_r`` and so on. They are NULL or 0 if the label has no such row.
        """
        facts = self._facts(latest=latest)
        return self._cluster_sums(facts, ("cluster",), self._parts_of_labels(facts), by_label=True)

    def _parts_of_labels(self, facts: FromClause) -> dict[str, tuple[Expression, Expression]]:
        """The parts of :meth:`label_dependence`: prefix of the names -> (weighted residual, weight) of a row."""
        r, w = self._residual(facts)
        parts: dict[str, tuple[Expression, Expression]] = {"all_": (r, w)}
        for where in WHERES[1:]:
            chosen = facts.c[where] == ONE
            parts[f"{where}_"] = (sa.case((chosen, r)), sa.case((chosen, w)))
        return parts

    def _residual(self, facts: FromClause) -> tuple[Expression, Expression]:
        """The weighted residual of a row and its weight."""
        return self._weighted(facts, facts.c.y - facts.c.s)

    def _weighted(self, rows: FromClause, value: Expression) -> tuple[Expression, Expression]:
        """A value times the weight, and the weight, which is 1 if the source has none."""
        return (rows.c.w * value, rows.c.w) if self.layout.has("weight") else (value, ONE)

    # --- clusters of any kind

    def _cluster_sums(
        self,
        facts: Subquery,
        within: Sequence[str],
        parts: Mapping[str, tuple[Expression, Expression]],
        *,
        by_label: bool = False,
    ) -> sa.Select[Any]:
        """The sums of each of ``parts``: prefix of the names -> (weighted residual, weight) of a row."""
        inner = self._clusters(facts, within, parts, by_label=by_label)
        keys = [inner.c.label] if by_label else []
        totals = self._cluster_totals(inner, within, parts)
        return sa.select(*keys, *(value.label(name) for name, value in totals.items())).group_by(*keys)

    def _clusters(
        self,
        facts: Subquery,
        within: Sequence[str],
        parts: Mapping[str, tuple[Expression, Expression]],
        more: Sequence[Expression] = (),
        *,
        by_label: bool = False,
        few: bool = False,
    ) -> Subquery:
        """One row per cluster, with the sums of each part over its rows, and the aggregates ``more``.

        Without weights the sums of w and w^2 are the number of rows, and that of r w is that of r. ``few`` says that no
        cluster has more than a few thousand rows.
        """
        sums = self._sums_of_parts(parts, few=few)
        keys = [facts.c.label] if by_label else []
        shared = [facts.c[name] for name in within]
        named = [key.label(f"key_{index}") for index, key in enumerate(shared)]
        return sa.select(*keys, *named, *sums, *more).group_by(*keys, *shared).subquery("clusters")

    def _sums_of_parts(
        self, parts: Mapping[str, tuple[Expression, Expression]], *, few: bool = False
    ) -> list[sa.Label[Any]]:
        """The sums of each part over the rows of one cluster."""
        weighted = self.layout.has("weight")
        exact = self.dialect.exact_sum_of_few if few else self.dialect.exact_sum_of_group
        exact = partial(self.dialect.exact_sum, bounded=False) if weighted else exact
        sums: list[sa.Label[Any]] = []
        for part, (r, w) in parts.items():
            products = {"r": r, "rr": r * r} | ({"w": w, "rw": r * w, "ww": w * w} if weighted else {})
            of_part = {name: exact(value) for name, value in products.items()}
            if not weighted:
                of_part["w"] = sa.cast(sa.func.count() if w is ONE else sa.func.count(w), sa.Double)
            sums += [value.label(f"{part}{name}") for name, value in of_part.items()]
        return sums

    def _cluster_totals(
        self, inner: Subquery, within: Sequence[str], parts: Collection[str], *, few: bool = False
    ) -> dict[str, Expression]:
        """The sums over clusters, by name. A row without a cluster is a cluster by itself; each row has an item.

        With ``few`` only clusters whose ``again`` is 0 are summed: they have few rows, and weights of 1.
        """
        missing = [inner.c[f"key_{index}"].is_(None) for index, name in enumerate(within) if name != "item"]
        alone = sa.or_(*missing) if missing else None
        outer: dict[str, Expression] = {}
        for part in parts:
            outer |= {f"{part}{name}": value for name, value in self._squares(inner, part, alone).items()}
            of_rows = (f"{part}{name}" for name in ("r", "w", "rr", "rw", "ww"))
            outer |= {name: inner.c[name] for name in of_rows if name in inner.c}
        if few:  # the square of a sum over 62 rows fits into 64 bits; that of more would be an error
            outer = {name: sa.case((inner.c.again == ZERO, value)) for name, value in outer.items()}
        names = () if self.layout.has("weight") else ("w", "cc")  # numbers of rows, and their squares
        whole = {f"{part}{name}" for part in parts for name in names}
        return {
            name: _sum_of_whole(value) if name in whole else self.dialect.exact_sum(value, bounded=few)
            for name, value in outer.items()
        }

    def _squares(self, inner: Subquery, part: str, alone: Expression | None = None) -> dict[str, Expression]:
        """The squares and products of a cluster's sums; where its rows are each ``alone``, the sums of those of rows.

        Without weights there are no sums rw and ww: they equal r and w.
        """
        names = {"rw": "rw", "ww": "ww"} if self.layout.has("weight") else {"rw": "r", "ww": "w"}
        r, w, rr, rw, ww = (inner.c[f"{part}{names.get(name, name)}"] for name in ("r", "w", "rr", "rw", "ww"))
        pairs = {"aa": (rr, r * r), "aw": (rw, r * w), "cc": (ww, w * w)}
        if alone is None:
            return {name: cluster for name, (_, cluster) in pairs.items()}
        return {name: sa.case((alone, row), else_=cluster) for name, (row, cluster) in pairs.items()}


def _sum_of_whole(value: Expression) -> Expression:
    """The sum of whole numbers in double precision."""
    return sa.cast(sa.func.sum(sa.cast(value, sa.BigInteger)), sa.Double)
