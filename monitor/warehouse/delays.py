"""When truths became known: items by the window of their prediction and the days since their truth came.

There is one statement for all windows. It reads no scores, so it works however scores are made. Of several rows of one
(item, label) in a window the first truth counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from monitor.core.maturity import TruthDelays
from monitor.core.records import LABEL_BYTES, Window
from monitor.inference.delays import full_days
from monitor.warehouse.dialects import ONE, ZERO, Arrays
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
        parts = [self._dated_truths(), *(() if self.more is None else [self._of_more()._dated_truths()])]
        rows = (parts[0] if len(parts) == 1 else sa.union_all(*parts)).subquery("truths")
        keys = [rows.c.place, rows.c.label, rows.c.item]
        known = sa.case((rows.c.waiting == ZERO, rows.c.ago), else_=whole_number(_NO_DATE))
        item = sa.select(*keys, sa.func.min(rows.c.waiting).label("waiting"), sa.func.max(known).label("ago"))
        named = self.dialect.byte_length(rows.c.label).between(ONE, whole_number(LABEL_BYTES))
        items = item.where(rows.c.item.is_not(None), named).group_by(*keys).subquery("items")
        by = [items.c[name] for name in ("label", "place", "waiting", "ago")]
        return sa.select(*by, sa.func.count().label("n")).group_by(*by)

    def _of_more(self) -> DelayStatements:
        assert self.more is not None  # noqa: S101 - the caller has checked it
        return DelayStatements(
            self.source, self.more, self.dialect, self.window, self.now, self.known_at, None, self.windows
        )

    def _dated_truths(self) -> sa.Select[Any]:
        """(item, label, place, waiting, ago) of the rows of one relation in all windows."""
        values = {"item": self._text("item"), "label": self._text("label"), "waiting": self._waits(), "ago": ZERO}
        kind, predicted = self.layout.columns["predicted_at"].kind, self._instant("predicted_at")
        later = list(enumerate(self.windows))[:0:-1]
        cases = [(predicted >= self.dialect.moment(window.start, kind), whole_number(at)) for at, window in later]
        values["place"] = sa.case(*cases, else_=ZERO) if cases else ZERO
        if self.layout.has("resolved_at"):
            since = self.dialect.days_before(self._datable("resolved_at"), self.known_at)
            values["ago"] = sa.func.coalesce(since, whole_number(_NO_DATE))
        return self._select(*(value.label(name) for name, value in values.items())).where(self._in_window())


def delays_of(columns: Arrays, windows: Sequence[Window], now: datetime) -> dict[str | None, tuple[TruthDelays, ...]]:
    """The delays of each label, and of all together (None), by window, from :meth:`DelayStatements.delays`."""
    ages = [full_days(window, now) for window in windows]
    items: dict[str | None, Counter[int]] = {}
    days: dict[str | None, Counter[tuple[int, int]]] = {}
    names = ("label", "place", "waiting", "ago", "n")
    for label, place, waits, ago, n in zip(*(columns[name].tolist() for name in names), strict=True):
        day = max(ages[place] - ago, 0) if ago != _NO_DATE else 0
        for key in (str(label), None):
            items.setdefault(key, Counter())[place] += n
            if not waits:
                days.setdefault(key, Counter())[place, day] += n
    return {label: tuple(_delays(windows, items[label], days.get(label, Counter()))) for label in items}


def _delays(
    windows: Sequence[Window], items: Mapping[int, int], days: Mapping[tuple[int, int], int]
) -> Iterator[TruthDelays]:
    by_day: dict[int, dict[int, int]] = {}
    for (place, day), n in sorted(days.items()):
        by_day.setdefault(place, {})[day] = n
    for place, window in enumerate(windows):
        yield TruthDelays(window, items.get(place, 0), by_day.get(place, {}))
