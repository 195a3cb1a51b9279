"""Waiting rows, whose truth is not known yet: left out of a reading, and counted by the time of their prediction.

They are in the source's own relation (``unresolved: true``), where ``actual`` is NULL, or in a second relation. A row
is waiting at a moment if it has no truth, or its truth came at that moment or later. So a window that is read again
after its truths came gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.config.model import SourceConfig, WideConfig
from monitor.config.relation import is_files
from monitor.core.records import RejectReason
from monitor.warehouse.checks import Layout
from monitor.warehouse.dialects import ONE, ZERO, Dialect, Expression
from monitor.warehouse.row_levels import first_reason, sound_unless
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
    predicted_at = dialect.instant(layout.expression("predicted_at"), layout.columns["predicted_at"].kind)
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
        decided = rows.c.predicted == ONE
        automated = self._automated(rows)
        keys = {
            "label": rows.c.label,
            "waiting": rows.c.waiting,
            "predicted": sa.case((decided, ONE), else_=ZERO),
            "automated": sa.case((automated, ONE), else_=ZERO),
            "cell": self.dialect.cell(rows.c.score),
        }
        # grouped one level further out, so that PostgreSQL sees each expression once
        facts = sa.select(*(value.label(name) for name, value in keys.items()), rows.c.score).subquery("facts")
        total = self.dialect.exact_sum(facts.c.score, bounded=True).label("s")
        by = [facts.c[name] for name in keys]
        return sa.select(*by, sa.func.count().label("n"), total).group_by(*by)

    def drawn(self, seed: str, each: int) -> sa.Select[Any]:
        """(label, item, score, n, truth): of each label ``each`` of the items that act alone, by md5 of seed and id.

        ``n`` is how many act alone; ``truth`` is NULL if it is not known. The same items come every time, in every
        engine.
        """
        rows, by_bytes = self._decided(), self.dialect.ordered
        order = (by_bytes(self.dialect.md5(sa.literal(seed, sa.Text) + rows.c.item)), by_bytes(rows.c.item))
        place = sa.func.row_number().over(partition_by=rows.c.label, order_by=order).label("place")
        size = sa.func.count().over(partition_by=rows.c.label).label("n")
        columns = (rows.c.label, rows.c.item, rows.c.score, rows.c.truth)
        placed = sa.select(*columns, size, place).where(self._automated(rows)).subquery("placed")
        shown = (placed.c[name] for name in ("label", "item", "score", "n", "truth"))
        return sa.select(*shown).where(placed.c.place <= each).order_by(by_bytes(placed.c.label), placed.c.place)

    def set_aside(self) -> sa.Select[Any]:
        """(reason, n) over waiting rows of no use: of the window, and of the second relation without a date."""
        judged = self._judged()
        rows = sa.select(judged.c.reason).where(judged.c.waiting == ONE).subquery("waiting")
        if self.more is not None:
            more = replace(self, layout=self.more, more=None)
            missing = sa.literal(RejectReason.DATE_MISSING.value, sa.Text).label("reason")
            undated = more._select(missing).where(more._instant("predicted_at").is_(None))
            rows = sa.union_all(sa.select(rows.c.reason), undated).subquery("unusable")
        unusable = sa.select(rows.c.reason, sa.func.count().label("n")).where(rows.c.reason.is_not(None))
        return unusable.group_by(rows.c.reason)

    def _judged(self, *, features: bool = False, sound: bool = False) -> Subquery:
        """The rows of the window of both relations, with the reason to reject each, or with ``sound``."""
        if self.more is None:
            return self._side(sound=sound).subquery("judged")
        more = replace(self, layout=self.more, more=None)._side(sound=sound)
        return sa.union_all(self._side(sound=sound), more).subquery("judged")

    def _side(self, *, sound: bool) -> sa.Select[Any]:
        """The rows of one relation in the window: the values below, and reason or sound."""
        waits = self._waits()
        known = self._share("actual" if self.layout.has("actual") else "score")  # NULL below where every row waits
        values = {
            "item": self._text("item"),
            "label": self._text("label"),
            "score": self._share("score"),
            "predicted": self._predicted(),
            "dated": self._instant("predicted_at"),
            "waiting": waits,
            "truth": sa.case((waits == ZERO, known)),
        }
        reasons = (*self._score_reasons(), *self._decision_reasons())
        judgment = (sound_unless if sound else first_reason)(reasons)
        return self._select(*(value.label(name) for name, value in values.items()), judgment).where(self._in_window())

    def _waits(self) -> Expression:
        if not self.layout.has("actual") or not self.layout.has("resolved_at"):
            return ONE  # the second relation may have a column of truths, which are not known yet
        known_at = self.dialect.moment(self.known_at, self.layout.columns["resolved_at"].kind)
        later = sa.func.coalesce(self._instant("resolved_at") >= known_at, sa.false())
        return sa.case((sa.or_(self._column("actual").is_(None), later), ONE), else_=ZERO)

    def _ranked(self) -> Subquery:
        rows = self._every()
        values = (rows.c.dated, rows.c.score, rows.c.predicted)
        order = [rows.c.waiting, *(value.desc().nulls_last() for value in values)]
        place = sa.func.row_number().over(partition_by=[rows.c.item, rows.c.label], order_by=order).label("place")
        return sa.select(rows, place).subquery("ranked")

    def _decided(self) -> Subquery:
        """The sound rows. Of ``multiclass`` without a column ``predicted``, an item's largest score was predicted."""
        rows = self._kept()
        if self.source.kind != "multiclass" or self.layout.has("predicted"):
            return rows
        return self._with_largest_predicted(rows, "decided")

    def _date_reasons(self, *, in_window: bool) -> list[tuple[Expression, RejectReason]]:
        return []
