"""Waiting rows, whose truth is not known yet: left out of a reading, and counted by the time of their prediction.

They are in the relation of the source (``unresolved: true``), where ``actual`` is NULL. A row is waiting at a moment
if it has no truth, or its truth came at that moment or later. So a window that is read again after its truths came
gives the same rows.

When truths became known is one statement for all windows. It reads no scores, so it works however scores are made. Of
several rows of one (item, label) in a window the first truth counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.core.maturity import TruthDelays
from monitor.core.records import Window
from monitor.inference.delays import full_days
from monitor.warehouse.checks import Layout
from monitor.warehouse.dialects import COUNT, ONE, ZERO, Arrays, Dialect, Expression, Statement, labelled, place_over
from monitor.warehouse.row_levels import LONGEST_LABEL, Reasons, whole_number
from monitor.warehouse.statements import Statements

NO_DATE = -1  # a truth without a date: it is known, but not since when


def with_truth(layout: Layout, dialect: Dialect) -> Layout:
    """The same relation without waiting rows. Without a date of its prediction a row waits in no window, and stays."""
    predicted_at = layout.instant("predicted_at", dialect)
    kept = sa.or_(layout.expression("actual").is_not(None), predicted_at.is_(None))
    return layout.within(layout.numbered().where(kept).subquery("with_truth"))


@dataclass(frozen=True, slots=True)
class UnresolvedStatements(Statements):
    """Statements about rows by the time of their prediction, with or without a truth.

    ``source`` has ``window_on: predicted_at``. ``now`` is the moment at which a row is waiting or not. Of several rows
    of one (item, label) one with a truth counts, or else the latest prediction.
    """

    def score_groups(self) -> Statement:
        """(label, waiting, predicted, automated, cell, n, s): the number of rows and the sum of their scores."""
        rows = self._decided()
        keys = {"label": rows.c.label, "waiting": rows.c.waiting, **self._decisions(rows, self._automated(rows))}
        # grouped one level further out, so that PostgreSQL sees each expression once
        facts = sa.select(*labelled(keys), rows.c.score).subquery("facts")
        total = self.dialect.exact_sum(facts.c.score, bounded=True).label("s")
        by = [facts.c[name] for name in keys]
        return sa.select(*by, COUNT, total).group_by(*by)

    def drawn(self, seed: str, each: int) -> Statement:
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

    def delays(self, windows: Sequence[Window]) -> Statement:
        """(label, place, waiting, ago, n): items of the window at ``place`` whose truth is known for ``ago`` full days.

        The windows are adjacent, and ``window`` spans them all. ``ago`` is -1 if the truth has no date, or is not known
        yet (``waiting`` 1).
        """
        values = {"item": self._text("item"), "label": self._text("label"), "waiting": self._waits()}
        kind, predicted = self.layout.columns["predicted_at"].kind, self._instant("predicted_at")
        later = list(enumerate(windows))[:0:-1]
        cases = [(predicted >= self.dialect.moment(window.start, kind), whole_number(at)) for at, window in later]
        values["place"] = sa.case(*cases, else_=ZERO) if cases else ZERO
        since = self.dialect.days_before(self._datable("resolved_at"), self.now)
        values["ago"] = sa.func.coalesce(since, whole_number(NO_DATE))
        rows = self._select(*labelled(values)).where(self._in_window()).subquery("truths")
        keys = [rows.c.place, rows.c.label, rows.c.item]
        known = sa.case((rows.c.waiting == ZERO, rows.c.ago), else_=whole_number(NO_DATE))
        item = sa.select(*keys, sa.func.min(rows.c.waiting).label("waiting"), sa.func.max(known).label("ago"))
        named = self.dialect.byte_length(rows.c.label).between(ONE, LONGEST_LABEL)
        items = item.where(rows.c.item.is_not(None), named).group_by(*keys).subquery("items")
        by = [items.c[name] for name in ("label", "place", "waiting", "ago")]
        return sa.select(*by, COUNT).group_by(*by)

    def set_aside(self) -> Statement:
        """(reason, n) over the waiting rows of the window that are of no use."""
        rows = self._judged()
        waiting = sa.select(rows.c.reason, COUNT).where(rows.c.waiting == ONE, rows.c.reason.is_not(None))
        return waiting.group_by(rows.c.reason)

    def _values(self) -> list[sa.Label[Any]]:
        waits = self._waits()
        values = {
            "score": self._share("score"),
            "predicted": self._predicted(),
            "waiting": waits,
            "truth": sa.case((waits == ZERO, self._share("actual"))),
        }
        return labelled(values)

    def _extras(self) -> list[sa.Label[Any]]:
        return []

    def _row_reasons(self) -> Reasons:
        return [*self._score_reasons(), *self._decision_reasons()]

    def _waits(self) -> Expression:
        now = self.dialect.moment(self.now, self.layout.columns["resolved_at"].kind)
        later = sa.func.coalesce(self._instant("resolved_at") >= now, sa.false())
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

    def _date_reasons(self, *, in_window: bool) -> Reasons:
        return []


def delays_of(columns: Arrays, windows: Sequence[Window], now: datetime) -> dict[str | None, tuple[TruthDelays, ...]]:
    """The delays of each label, and of all together (None), by window, from :meth:`UnresolvedStatements.delays`."""
    ages = [full_days(window, now) for window in windows]
    items: dict[str | None, Counter[int]] = defaultdict(Counter)
    days: dict[str | None, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    names = ("label", "place", "waiting", "ago", "n")
    for label, place, waits, ago, n in zip(*(columns[name].tolist() for name in names), strict=True):
        day = max(ages[place] - ago, 0) if ago != NO_DATE else 0
        for key in (str(label), None):
            items[key][place] += n
            if not waits:
                days[key][place][day] += n
    return {
        label: tuple(
            TruthDelays(window, items[label][place], dict(sorted(days[label][place].items())))
            for place, window in enumerate(windows)
        )
        for label in items
    }
