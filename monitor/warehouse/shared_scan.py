"""The counts, the sums of clusters and the rejected rows from one scan of the window, where statements share rows.

The rows of a window are made once for several SELECTs (``Dialect.shared``), whose results are put below each other.
That takes little more of a processor than a scan for each, or even less, and far less than to group each row several
times over, as :meth:`~monitor.warehouse.count_statements.CountStatements.in_one_scan` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import CTE, Subquery

from monitor.warehouse.count_statements import (
    OF_CLUSTERS,
    OF_EXAMPLES,
    OF_REJECTED,
    OF_SEGMENTS,
    OF_VERSIONS,
    CountStatements,
)
from monitor.warehouse.dialects import Expression
from monitor.warehouse.row_levels import EMPTY, ONE, ZERO, built_once, first_reason, whole_number
from monitor.warehouse.shown_rows import EXAMPLES, packed

_KEYS = ("division", "value", "label", "key")
_COLUMN = {"w": "weight", "cluster": "cluster", "version": "model_version"}


@dataclass(frozen=True, slots=True)
class SharedScanStatements(CountStatements):
    """The statements that read the rows of the window once for all that is to be counted."""

    @built_once
    def in_shared_scan(
        self, *, limit: int, segments: Sequence[str] = (), versions: bool = False
    ) -> sa.CompoundSelect[Any]:
        """What :meth:`in_one_scan` finds, with other rows for two divisions. There is no NULL, but "" and 0.

        Repeated rows are counted too, unless the statements are ``placed``.

        Rows of :data:`OF_CLUSTERS` have one sum each, as ``hits``; ``key`` is its place in :attr:`sums_of_clusters`.
        Rows of :data:`OF_SEGMENTS` have the number ``n`` of a segment's values, or any above ``limit`` if there are
        more; ``key`` is the segment's place from 1. A segment with more values than ``limit`` has no groups of them.
        """
        rows = self._shared_rows(segments=segments)
        facts = self._sound_of(rows)
        names = (*_KEYS, *(each.name for each in self._sums(facts, facts.c.cell)), "hits")
        divisions = {place: self._segment_key(segment) for place, segment in enumerate(segments, start=1)}
        values = self._numbers_of_values(rows, divisions, limit)
        divisions |= {OF_VERSIONS: "version"} if versions else {}
        parts = [*self._counted(rows, divisions, values, limit, names)]
        for each in dict.fromkeys(values.values()):
            counted = {"division": whole_number(OF_SEGMENTS), "key": each.c.place, "n": each.c.n}
            parts.append(self._row(names, counted))
        parts += self._rejected_and_shown(rows, names)
        parts += [self._of_clusters(rows, names)] if self.layout.has("cluster") else []
        return sa.union_all(*parts)

    @built_once
    def rejected_in_shared_scan(self) -> sa.CompoundSelect[Any]:
        """The rows of :data:`OF_REJECTED` and :data:`OF_EXAMPLES` of :meth:`in_shared_scan` alone."""
        return sa.union_all(*self._rejected_and_shown(self._shared_rows(rejected=True), (*_KEYS, "n", "hits")))

    @property
    def sums_of_clusters(self) -> tuple[str, ...]:
        """The names of the sums of :meth:`label_dependence`, in order; none without clusters."""
        if not self.layout.has("cluster"):
            return ()
        return tuple(self.label_dependence(latest=False).selected_columns.keys()[1:])

    # --- the rows

    @built_once
    def _shared_rows(self, *, segments: Sequence[str] = (), rejected: bool = False) -> CTE:
        """The facts of all rows of the window with these ``segments``, or of the ``rejected`` ones.

        Of a rejected row: ``reason``, ``example``, its label, the key of :data:`OF_REJECTED` as ``cell``, and its
        outcome ``y`` if that can be read. Nothing else is to be read of it.
        """
        facts = self._facts_of_shared()
        sound = facts.c.reason.is_(None)
        others = [name for name, column in _COLUMN.items() if name in facts.c and self.layout.has(column)]
        keys = {self._segment_key(segment) for segment in segments}
        others += [column.name for column in facts.c if column.name in keys]
        cell = sa.cast(sa.case((sound, facts.c.cell), else_=facts.c.fault), sa.Integer)
        decision = facts.c.predicted * whole_number(2) + facts.c.automated
        y = sa.case((sound, sa.cast(facts.c.y, sa.Double)), else_=sa.cast(facts.c.hit, sa.Double))
        kept = [facts.c[name] for name in ("label", "s", *others, "example")]
        kept.append(self.dialect.text(facts.c.reason).label("reason"))
        rows = sa.select(*kept, cell.label("cell"), decision.label("decision"), y.label("y"))
        chosen = rows.where(facts.c.reason.is_not(None)) if rejected else rows
        return self.dialect.shared(chosen, "calmon_shared_rows")

    def _facts_of_shared(self) -> Subquery:
        """The facts of all rows; of the rejected ones also ``fault``, ``hit`` and ``example``, and no score."""
        rows = self._judged_once()
        sound = rows.c.reason.is_(None)
        fault, hit = self._coded_fault(rows)
        texts = [self.dialect.text(rows.c[name]) for name in ("raw_item", "label", "raw_score", "raw_date")]
        # cells are made of scores in [0, 1] only: another may be too large for one
        made: dict[str, Expression] = {
            name: sa.case((sound, rows.c[name])) for name in ("score", "weight") if name in rows.c
        }
        made |= {"fault": fault, "hit": hit, "example": sa.case((sa.not_(sound), packed(texts, self.dialect)))}
        kept = [column for column in rows.c if column.name not in made and not column.name.startswith("raw_")]
        named = [value.label(name) for name, value in made.items()]
        judged = sa.select(*kept, rows.c.raw_item.label("item"), *named).subquery("sound_or_not")
        return self._facts_of(judged, [judged.c[name] for name in ("reason", "fault", "hit", "example")]).subquery(
            "facts"
        )

    def _judged_once(self) -> Subquery:
        """The rows of the window with the first reason to reject each; texts are made later, of rejected rows only."""
        raw = {"raw_item": "item", "raw_score": "score", "raw_date": self.source.window_on}
        columns = [self._column(name).label(label) for label, name in raw.items()]
        values = [value for value in self._values() if value.name != "resolved"]
        columns += [self._text("label").label("label"), *values, *self._extras()]
        judged = self._select(*columns, first_reason(self._window_reasons())).where(self._in_window())
        judged = judged.where(*(self.dialect.usually(place == ONE) for place in self._known_place()))
        return self.dialect.computed_once(judged).subquery("judged")

    def _sound_of(self, rows: CTE, *others: str) -> Subquery:
        """The sound ones of the rows, with their facts; of segments and versions only the columns ``others``.

        What is not needed makes a statement long: of n segments, n SELECTs of n columns.
        """
        decision = rows.c.decision
        facts: dict[str, Expression] = {
            "key": rows.c.cell * whole_number(4) + decision,
            "predicted": sa.case((decision >= whole_number(2), ONE), else_=ZERO),
            "automated": sa.case((decision == whole_number(3), ONE), else_=ZERO),
        }
        if "w" not in rows.c:
            facts["w"] = sa.cast(ONE, sa.Double)
        names = {"label", "s", "w", "cluster", "cell", "y", *others}
        kept = [column for column in rows.c if column.name in names]
        computed = [value.label(name) for name, value in facts.items()]
        return sa.select(*kept, *computed).where(rows.c.reason.is_(None)).subquery("facts")

    # --- the counts

    def _counted(
        self, rows: CTE, divisions: Mapping[int, str], values: Mapping[int, CTE], limit: int, names: Sequence[str]
    ) -> Iterator[sa.Select[Any]]:
        """The counts of all rows, and in ``divisions`` by the values of a column; of a segment if these are few."""
        few = {k: _has_few(counted, k, limit) for k, counted in values.items()}
        if divisions and self.dialect.grouping_sets:
            yield self._counted_in_sets(rows, divisions, few, names)
            return
        yield self._counted_by(rows, 0, None, names)
        for division, column in divisions.items():
            counted = self._counted_by(rows, division, column, names)
            yield counted.where(few[division]) if division in few else counted

    def _counted_in_sets(
        self, rows: CTE, divisions: Mapping[int, str], few: Mapping[int, Expression], names: Sequence[str]
    ) -> sa.Select[Any]:
        """All counts by one SELECT. The values of a segment with many are as one."""
        facts = self._sound_of(rows, *divisions.values())
        of_few = {
            divisions[k]: sa.case((condition, facts.c[divisions[k]]), else_=EMPTY) for k, condition in few.items()
        }
        chosen = sa.select(*(of_few.get(column.name, column).label(column.name) for column in facts.c)).subquery("few")
        keys: list[Expression] = [chosen.c.label, chosen.c.key]
        columns = {k: chosen.c[name] for k, name in divisions.items()}
        sets = {0: keys, **{k: [column] if k == OF_VERSIONS else [column, *keys] for k, column in columns.items()}}
        found = self._in_sets(chosen, keys, columns, sets).subquery("in_sets")
        nothing = {"label": EMPTY, "key": ZERO}  # of a version
        named = {c.name: sa.func.coalesce(c, nothing[c.name]) if c.name in nothing else c for c in found.c}
        return self._row(names, named)

    def _counted_by(self, rows: CTE, division: int, column: str | None, names: Sequence[str]) -> sa.Select[Any]:
        """The counts by label and ``key``, and by the values of a ``column``; those by version by nothing else."""
        facts = self._sound_of(rows, *([] if column is None else [column]))
        keys = {} if division == OF_VERSIONS else {"label": facts.c.label, "key": facts.c.key}
        keys |= {} if column is None else {"value": facts.c[column]}
        sums = {each.name: each.element for each in self._sums(facts, facts.c.cell if "key" in keys else None)}
        return self._row(names, {"division": whole_number(division), **keys, **sums}).group_by(*keys.values())

    def _numbers_of_values(self, rows: CTE, segments: Mapping[int, str], limit: int) -> dict[int, CTE]:
        """By the place of each segment, what has a row (place, n) with the number of its values among sound rows.

        Above ``limit`` the number may be too small, but is above it. All are counted by one pass over the rows, where
        the engine has grouping sets. Else each has a CTE of its own: SQLite copies one for all wherever it is named,
        and would take gigabytes for a hundred segments.
        """
        if self.dialect.grouping_sets and len(segments) > 1:
            sound = sa.select(*(rows.c[key] for key in segments.values())).where(rows.c.reason.is_(None))
            counted = self._many_values_in_one_scan(sound.subquery("segment_rows"), first=1)
            return dict.fromkeys(segments, counted.cte("calmon_values_of_segments"))
        found = {}
        for place, key in segments.items():
            sound = sa.select(rows.c[key]).where(rows.c.reason.is_(None)).distinct()
            values = sound.limit(limit + 1).subquery("segment_values")
            counted = sa.select(whole_number(place).label("place"), sa.func.count().label("n")).select_from(values)
            found[place] = counted.cte(f"calmon_values_of_segment_{place}")
        return found

    # --- what is counted besides

    def _rejected_and_shown(self, rows: CTE, names: Sequence[str]) -> Iterator[sa.Select[Any]]:
        """The rejected rows by reason, label and ``key``; and the first of each reason, one a row."""
        named: dict[str, Expression] = {"value": rows.c.reason, "key": rows.c.cell, "y": rows.c.y}
        named["label"] = sa.func.coalesce(self._readable(rows.c.label), EMPTY)
        chosen = sa.select(*(value.label(name) for name, value in named.items())).where(rows.c.reason.is_not(None))
        rejected = chosen.subquery("rejected")
        hits = sa.func.coalesce(self.dialect.exact_sum(rejected.c.y, bounded=True), sa.cast(ZERO, sa.Double))
        keys = {name: rejected.c[name] for name in ("value", "label", "key")}
        counted = {"division": whole_number(OF_REJECTED), **keys, "n": sa.func.count(), "hits": hits}
        yield self._row(names, counted).group_by(*keys.values())

        order = self.dialect.ordered(rows.c.example)
        place = sa.func.row_number().over(partition_by=rows.c.reason, order_by=order).label("place")
        placed = sa.select(rows.c.reason, rows.c.example, place).where(rows.c.reason.is_not(None)).subquery("placed")
        shown = {"division": whole_number(OF_EXAMPLES), "value": placed.c.reason, "label": placed.c.example, "n": ONE}
        yield self._row(names, shown).where(placed.c.place <= whole_number(EXAMPLES))

    def _of_clusters(self, rows: CTE, names: Sequence[str]) -> sa.Select[Any]:
        """The sums of :meth:`label_dependence`, one a row: as columns they would be 0 in every other division."""
        facts, of = self._sound_of(rows), self.sums_of_clusters
        by_label = self._cluster_sums(facts, ("cluster",), self._parts_of_labels(facts), by_label=True)
        one = ONE.label("one")  # every label with every place, by a condition that all engines know
        sums = by_label.add_columns(one).subquery("of_labels")
        each = (sa.select(whole_number(place).label("place"), one) for place in range(len(of)))
        at = sa.union_all(*each).subquery("places")
        found = sa.case(*((at.c.place == whole_number(place), sums.c[name]) for place, name in enumerate(of)))
        keys = {"division": whole_number(OF_CLUSTERS), "label": sums.c.label, "key": at.c.place}
        hits = sa.func.coalesce(found, sa.cast(ZERO, sa.Double))
        return self._row(names, {**keys, "hits": hits}).select_from(sums.join(at, sums.c.one == at.c.one))

    def _row(self, names: Sequence[str], columns: Mapping[str, Expression]) -> sa.Select[Any]:
        """These columns in the order of ``names``; "" and 0 for others. (DuckDB is slow to give NULLs.)

        The empty text has a type: Redshift could not put one that is unknown below others.
        """
        nothing = {name: self.dialect.text(EMPTY) for name in ("value", "label")}
        nothing["hits"] = sa.cast(ZERO, sa.Double)
        return sa.select(*(columns.get(name, nothing.get(name, ZERO)).label(name) for name in names))


def _has_few(values: CTE, place: int, limit: int) -> Expression:
    """Whether the segment at a place has no more values than ``limit``."""
    number = sa.select(values.c.n).where(values.c.place == whole_number(place)).scalar_subquery()
    return number <= whole_number(limit)
