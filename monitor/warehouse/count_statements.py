"""The counts of a window: by label and score, by segment and model version, and of the rejected rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.core.records import ScorePlace
from monitor.warehouse.cluster_sums import ClusterStatements
from monitor.warehouse.dialects import COUNT, EMPTY, ONE, ZERO, Expression, Statement, double, labelled
from monitor.warehouse.row_levels import LONGEST_LABEL, whole_number

_CELL: Expression = sa.literal_column("109951163.0e0")  # a cell of scores and its square, in steps of 2^-40
_CELLS: Expression = sa.literal_column("10995.0e0")


@dataclass(frozen=True, slots=True)
class CountStatements(ClusterStatements):
    """The statements that count rows."""

    # --- rejected rows

    def rejected(self) -> Statement:
        """(label, reason, place, truth, n, hits) over the rejected rows of the window.

        ``label`` is NULL if it cannot be read. ``place`` is a :class:`~monitor.core.records.ScorePlace` (NULL: no
        score). ``truth`` is 1 if the outcome can be read, -1 if it is coded -1, else NULL. ``hits`` sums outcomes.
        """
        rows = self._judged()
        return self._rejected_of(rows, rows.c.reason, rows.c.reason.is_not(None))

    def _rejected_of(self, rows: Subquery, reason: Expression, chosen: Expression) -> Statement:
        """n and hits of the rows for which ``chosen`` holds, by (label, reason, place of the score, truth)."""
        place, truth, hit = self._rejected_values(rows)
        named = {"label": self._readable(rows.c.label), "reason": reason, "place": place, "truth": truth, "hit": hit}
        # grouped one level further out, so that PostgreSQL sees each expression once
        facts = sa.select(*labelled(named)).where(chosen).subquery("rejected")
        keys = [facts.c[name] for name in ("label", "reason", "place", "truth")]
        hits = self.dialect.exact_sum(facts.c.hit, bounded=True).label("hits")
        return sa.select(*keys, COUNT, hits).group_by(*keys)

    def _readable(self, label: Expression) -> Expression:
        """The label; NULL if it is empty or too long."""
        return sa.case((self.dialect.byte_length(label) <= LONGEST_LABEL, sa.func.nullif(label, EMPTY)))

    def _rejected_values(self, rows: Subquery) -> tuple[Expression, Expression, Expression]:
        """(place of the score, truth, outcome) of a rejected row, as in :meth:`rejected`; NULL if not readable."""
        score, actual = rows.c.score, rows.c.actual
        not_a_number = self.dialect.not_a_number(score, "number")  # where scores are compared, it is above none
        tenths = ((score >= sa.literal_column(f"{k / 10 - 0.00005:.5f}"), whole_number(k)) for k in range(9, 0, -1))
        outside = (
            (score.is_(None), sa.null()),
            (score < ZERO, whole_number(ScorePlace.BELOW_0)),
            (sa.or_(score > sa.literal_column("100"), not_a_number), whole_number(ScorePlace.ABOVE_100)),
            (score > ONE, whole_number(ScorePlace.ABOVE_1)),
        )
        usable: Expression = actual.between(ZERO, ONE)
        if self.source.score_is == "confidence_in_prediction":
            usable = sa.and_(usable, sa.or_(rows.c.predicted == ZERO, rows.c.predicted == ONE))
        truth = sa.case((usable, ONE), (actual == sa.literal_column("-1"), sa.literal_column("-1")))
        return sa.case(*outside, *tenths, else_=ZERO), truth, sa.case((usable, self._outcome(rows)))

    # --- sound rows

    def groups(self, segment: str | None = None) -> Statement:
        """The counts: n, w, w2, ws, wy, wsy, ws2 per (label, key), or per (value, label, key) of a ``segment``.

        ``key`` is cell * 4 + predicted * 2 + automated. Without weights there are no columns w and w2: they equal n. If
        outcomes may be soft there is wy2, too; else it equals wy.
        """
        facts = self._facts()
        return self._groups_of(facts, None if segment is None else facts.c[self._segment_key(segment)], facts.c.label)

    def _groups_of(self, facts: Subquery, value: Expression | None, *keys: Expression) -> Statement:
        """The counts of some facts by a value, if there is one, further keys and ``key``."""
        by = [*([] if value is None else [value]), *keys, facts.c.key]
        named = [] if value is None else [value.label("value")]
        return sa.select(*named, *by[len(named) :], *self._sums(facts)).group_by(*by)

    def number_of_values(self, segment: str, limit: int) -> Statement:
        """(n): how many values a segment has among the sound rows; where they are more than ``limit``, n is too."""
        value = self._sound().c[self._segment_key(segment)]
        values = sa.select(value).distinct().limit(limit + 1).subquery("segment_values")
        return sa.select(COUNT).select_from(values)

    def _sums(self, facts: Subquery) -> list[sa.Label[Any]]:
        """The sums of each group, all rows of which are in one cell."""
        of_group = sa.func.floor(double(facts.c.key) * sa.literal_column("0.25e0"))  # NUMERIC would be slow
        w, s, y = facts.c.w, facts.c.s, facts.c.y
        sums: dict[str, Expression]
        if "weight" in self.layout:
            products = {"w": w, "w2": w * w, "ws": w * s, "wy": w * y, "wsy": w * s * y, "ws2": w * s * s}
            products |= {} if self._whole_outcomes else {"wy2": w * y * y}
            sums = {name: self.dialect.exact_sum(value, bounded=False) for name, value in products.items()}
        else:  # every weight is 1: the sums of weights are the number of rows
            exact, near, n = self.dialect.exact_sum, self.dialect.sum_near, sa.func.count()
            cell = double(facts.c.cell)
            sums = {
                "ws": near(s, cell * _CELL, n * of_group * _CELL),
                "ws2": near(s * s, cell * cell * _CELLS, n * of_group * of_group * _CELLS),
            }
            if self._whole_outcomes:
                sums["wy"] = sa.func.count(sa.case((y == ONE, ONE)))
                sums["wsy"] = near(s * y, cell * y * _CELL, sums["wy"] * of_group * _CELL)
            else:
                products = {"wy": y, "wsy": s * y, "wy2": y * y}
                sums |= {name: exact(value, bounded=True) for name, value in products.items()}
        return [COUNT, *labelled(sums)]
