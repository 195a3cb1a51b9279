"""Waiting rows, whose truth is not known yet: left out of a reading, and counted by the time of their prediction.

They are in the source's own relation (``unresolved: true``), where ``actual`` is NULL, or in a second relation. A row
is waiting at a moment if it has no truth, or its truth came at that moment or later. So a window that is read again
after its truths came gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.config.model import SourceConfig, WideConfig
from monitor.config.relation import is_files
from monitor.core.records import RejectReason
from monitor.warehouse.checks import Layout
from monitor.warehouse.dialects import COUNT, ONE, ZERO, Dialect, Expression, labelled, place_over
from monitor.warehouse.row_levels import Judge, first_reason
from monitor.warehouse.statements import Statements

_KEPT = ("item", "label", "predicted_label", "score", "confidence", "predicted", "predicted_at")


class OpenRelation(SourceConfig):
    """The second relation of a source. It has the shape of the source, without truths and the columns about them."""

    has_truth = False


def open_relation(source: SourceConfig) -> SourceConfig:
    """The configuration of the second relation of a source, which has the same names of columns as the first."""
    wide = source.wide if source.wide is None else WideConfig(**{**dict(source.wide), "actual": None})
    columns = {name: column for name, column in source.columns.items() if name in _KEPT}
    kept = {*_KEPT, *columns.values()}
    relation = source.unresolved or ""
    types = {name: kind for name, kind in source.types.items() if name in kept} if is_files(relation) else {}
    changed = {
        "relation": relation, "wide": wide, "columns": columns, "types": types, "window_on": "predicted_at",
        "unresolved": None, "truth": None, "latest_by": (), "agreement_by": (), "segments": (), "features": (),
    }  # fmt: skip
    return OpenRelation.model_construct(**{**dict(source), **changed})


def with_truth(layout: Layout, dialect: Dialect) -> Layout:
    """The same relation without waiting rows. Without a date of its prediction a row waits in no window, and stays."""
    predicted_at = dialect.instant(*layout["predicted_at"])
    kept = sa.or_(layout.expression("actual").is_not(None), predicted_at.is_(None))
    return layout.within(layout.numbered().where(kept).subquery("with_truth"))


@dataclass(frozen=True, slots=True)
class UnresolvedStatements(Statements):
    """Statements about rows by the time of their prediction, with or without a truth.

    ``source`` has ``window_on: predicted_at``. ``known_at`` is the moment at which a row is waiting or not. ``more`` is
    the second relation, of rows without a truth. Of several rows of one (item, label) one with a truth counts, or else
    the latest prediction.
    """

    known_at: datetime
    more: Layout | None = None

    def score_groups(self) -> sa.Select[Any]:
        """(label, waiting, predicted, automated, cell, n, s): the number of rows and the sum of their scores."""
        rows = self._decided()
        keys = {"label": rows.c.label, "waiting": rows.c.waiting, **self._decisions(rows, self._automated(rows))}
        # grouped one level further out, so that PostgreSQL sees each expression once
        facts = sa.select(*labelled(keys), rows.c.score).subquery("facts")
        total = self.dialect.exact_sum(facts.c.score, bounded=True).label("s")
        by = [facts.c[name] for name in keys]
        return sa.select(*by, COUNT, total).group_by(*by)

    def drawn(self, seed: str, each: int) -> sa.Select[Any]:
        """(label, item, score, n, truth): of each label ``each`` of the items that act alone, by md5 of seed and id.

        ``n`` is how many act alone; ``truth`` is NULL if it is not known. The same items come every time, in every
        engine.
        """
        rows, by_bytes = self._decided(), self.dialect.ordered
        order = (by_bytes(self.dialect.md5(sa.literal(seed, sa.Text) + rows.c.item)), by_bytes(rows.c.item))
        place = place_over(partition_by=rows.c.label, order_by=order).label("place")
        size = sa.func.count().over(partition_by=rows.c.label).label("n")
        columns = (rows.c.label, rows.c.item, rows.c.score, rows.c.truth)
        placed = sa.select(*columns, size, place).where(self._automated(rows)).subquery("placed")
        shown = (placed.c[name] for name in ("label", "item", "score", "n", "truth"))
        return sa.select(*shown).where(placed.c.place <= each).order_by(by_bytes(placed.c.label), placed.c.place)

    def set_aside(self) -> sa.Select[Any]:
        """(reason, n) over waiting rows of no use: of the window, and of the second relation without a date."""
        judged = self._judged()
        rows = sa.select(judged.c.reason).where(judged.c.waiting == ONE).subquery("waiting")
        for more in self._sides()[1:]:
            missing = sa.literal(RejectReason.DATE_MISSING.value, sa.Text).label("reason")
            undated = more._select(missing).where(more._instant("predicted_at").is_(None))
            rows = sa.union_all(sa.select(rows.c.reason), undated).subquery("unusable")
        unusable = sa.select(rows.c.reason, COUNT).where(rows.c.reason.is_not(None))
        return unusable.group_by(rows.c.reason)

    def _sides(self) -> list[Self]:
        """The same about each relation alone."""
        return [self, *([] if self.more is None else [replace(self, layout=self.more, more=None)])]

    def _judged(self, judge: Judge | None = None) -> Subquery:
        """The rows of the window of both relations, as of one."""
        return sa.union_all(*(side._of_window(judge or first_reason) for side in self._sides())).subquery("judged")

    def _values(self) -> list[sa.Label[Any]]:
        waits = self._waits()
        known = self._share("actual" if "actual" in self.layout else "score")  # NULL below where every row waits
        values = {
            "score": self._share("score"),
            "predicted": self._predicted(),
            "waiting": waits,
            "truth": sa.case((waits == ZERO, known)),
        }
        return labelled(values)

    def _extras(self) -> list[sa.Label[Any]]:
        return []

    def _row_reasons(self) -> list[tuple[Expression, RejectReason]]:
        return [*self._score_reasons(), *self._decision_reasons()]

    def _waits(self) -> Expression:
        if "actual" not in self.layout or "resolved_at" not in self.layout:
            return ONE  # the second relation may have a column of truths, which are not known yet
        known_at = self.dialect.moment(self.known_at, self.layout.columns["resolved_at"].kind)
        later = sa.func.coalesce(self._instant("resolved_at") >= known_at, sa.false())
        return sa.case((sa.or_(self._column("actual").is_(None), later), ONE), else_=ZERO)

    def _ranked(self, rows: Subquery) -> Subquery:
        first = [rows.c.waiting, rows.c.dated.desc().nulls_last()]
        return sa.select(rows, self._place(rows, [rows.c.item, rows.c.label], first)).subquery("ranked")

    def _decided(self) -> Subquery:
        """The sound rows. Of ``multiclass`` without a column ``predicted``, an item's largest score was predicted."""
        rows = self._kept()
        if self.source.kind != "multiclass" or "predicted" in self.layout:
            return rows
        return self._with_largest_predicted(rows, "decided")

    def _date_reasons(self, *, in_window: bool) -> list[tuple[Expression, RejectReason]]:
        return []
