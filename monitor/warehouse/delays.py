"""When truths became known: items by the window of their prediction and the days since their truth came.

There is one statement for all windows. It reads no scores, so it works however scores are made. Of several rows of one
(item, label) in a window the first truth counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from monitor.core.maturity import TruthDelays
from monitor.core.records import LABEL_BYTES, Window
from monitor.inference.delays import full_days
from monitor.warehouse.dialects import COUNT, ONE, ZERO, Arrays, labelled
from monitor.warehouse.row_levels import whole_number
from monitor.warehouse.unresolved import UnresolvedStatements

_NO_DATE = -1  # a truth without a date: it is known, but not since when


@dataclass(frozen=True, slots=True)
class DelayStatements(UnresolvedStatements):
    """The statement about adjacent windows, in their order; ``window`` spans them all."""

    windows: tuple[Window, ...] = ()

    def delays(self) -> sa.Select[Any]:
        """(label, place, waiting, ago, n): items of the window at ``place`` whose truth is known for ``ago`` full days.

        ``ago`` is -1 if the truth has no date, or is not known yet (``waiting`` 1).
        """
        rows = sa.union_all(*(side._dated_truths() for side in self._sides())).subquery("truths")
        keys = [rows.c.place, rows.c.label, rows.c.item]
        known = sa.case((rows.c.waiting == ZERO, rows.c.ago), else_=whole_number(_NO_DATE))
        item = sa.select(*keys, sa.func.min(rows.c.waiting).label("waiting"), sa.func.max(known).label("ago"))
        named = self.dialect.byte_length(rows.c.label).between(ONE, whole_number(LABEL_BYTES))
        items = item.where(rows.c.item.is_not(None), named).group_by(*keys).subquery("items")
        by = [items.c[name] for name in ("label", "place", "waiting", "ago")]
        return sa.select(*by, COUNT).group_by(*by)

    def _dated_truths(self) -> sa.Select[Any]:
        """(item, label, place, waiting, ago) of the rows of one relation in all windows."""
        values = {"item": self._text("item"), "label": self._text("label"), "waiting": self._waits(), "ago": ZERO}
        kind, predicted = self.layout.columns["predicted_at"].kind, self._instant("predicted_at")
        later = list(enumerate(self.windows))[:0:-1]
        cases = [(predicted >= self.dialect.moment(window.start, kind), whole_number(at)) for at, window in later]
        values["place"] = sa.case(*cases, else_=ZERO) if cases else ZERO
        if "resolved_at" in self.layout:
            since = self.dialect.days_before(self._datable("resolved_at"), self.known_at)
            values["ago"] = sa.func.coalesce(since, whole_number(_NO_DATE))
        return self._select(*labelled(values)).where(self._in_window())


def delays_of(columns: Arrays, windows: Sequence[Window], now: datetime) -> dict[str | None, tuple[TruthDelays, ...]]:
    """The delays of each label, and of all together (None), by window, from :meth:`DelayStatements.delays`."""
    ages = [full_days(window, now) for window in windows]
    items: dict[str | None, Counter[int]] = defaultdict(Counter)
    days: dict[str | None, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    names = ("label", "place", "waiting", "ago", "n")
    for label, place, waits, ago, n in zip(*(columns[name].tolist() for name in names), strict=True):
        day = max(ages[place] - ago, 0) if ago != _NO_DATE else 0
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
