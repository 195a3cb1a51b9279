"""The counts of a window: by label and score, by segment and model version, and of the rejected rows.

Where scans cost most (:attr:`~monitor.warehouse.dialects.Dialect.few_scans`) one statement has all of them, and the
sums of each label within clusters besides (:meth:`CountStatements.in_one_scan`). It groups each row several times over,
which takes more of a processor than some scans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, Subquery

from monitor.core.records import WHERES, ScorePlace
from monitor.warehouse.cluster_sums import ClusterStatements
from monitor.warehouse.dialects import Expression
from monitor.warehouse.near_sums import with_rests
from monitor.warehouse.row_levels import EMPTY, LONGEST_LABEL, NO_VALUE, ONE, ZERO, built_once, whole_number
from monitor.warehouse.shown_rows import EXAMPLES, packed

OF_VERSIONS, OF_CLUSTERS, OF_REJECTED, OF_EXAMPLES, OF_SEGMENTS = -1, -2, -3, -4, -5
"""Divisions of the counts that are neither of all rows (0) nor of a segment (1, 2 ...)."""
_NO_PLACE, _TRUTHS = 15, 4  # a score has places up to 12; a truth is -1, 0 (none) or 1


@dataclass(frozen=True, slots=True)
class CountStatements(ClusterStatements):
    """The statements that count rows."""

    # --- rejected rows

    @built_once
    def rejected(self) -> sa.Select[Any]:
        """(label, reason, place, truth, n, hits) over the rejected rows of the window.

        ``label`` is NULL if it cannot be read. ``place`` is a :class:`~monitor.core.records.ScorePlace` (NULL: no
        score). ``truth`` is 1 if the outcome can be read, -1 if it is coded -1, else NULL. ``hits`` sums outcomes.
        """
        rows = self._judged()
        return self._rejected_of(rows, rows.c.reason, rows.c.reason.is_not(None))

    def _rejected_of(self, rows: Subquery, reason: Expression, chosen: Expression) -> sa.Select[Any]:
        """n and hits of the rows for which ``chosen`` holds, by (label, reason, place of the score, truth)."""
        place, truth, hit = self._rejected_values(rows)
        named = {"label": self._readable(rows.c.label), "reason": reason, "place": place, "truth": truth, "hit": hit}
        # grouped one level further out, so that PostgreSQL sees each expression once
        facts = sa.select(*(value.label(name) for name, value in named.items())).where(chosen).subquery("rejected")
        keys = [facts.c[name] for name in ("label", "reason", "place", "truth")]
        hits = self.dialect.exact_sum(facts.c.hit, bounded=True).label("hits")
        return sa.select(*keys, sa.func.count().label("n"), hits).group_by(*keys)

    def _readable(self, label: Expression) -> Expression:
        """The label; NULL if it is empty or too long."""
        return sa.case((self.dialect.byte_length(label) <= LONGEST_LABEL, sa.func.nullif(label, EMPTY)))

    def _rejected_values(self, rows: Subquery) -> tuple[Expression, Expression, Expression]:
        """(place of the score, truth, outcome) of a rejected row, as in :meth:`rejected`; NULL if not readable."""
        score, actual = rows.c.score, rows.c.actual
        tenths = ((score >= sa.literal_column(f"{k / 10 - 0.00005:.5f}"), whole_number(k)) for k in range(9, 0, -1))
        outside = (
            (score.is_(None), sa.null()),
            (score < ZERO, whole_number(ScorePlace.BELOW_0)),
            (self.dialect.above(score, sa.literal_column("100")), whole_number(ScorePlace.ABOVE_100)),
            (score > ONE, whole_number(ScorePlace.ABOVE_1)),
        )
        usable: Expression = actual.between(ZERO, ONE)
        if self.source.score_is == "confidence_in_prediction":
            usable = sa.and_(usable, sa.or_(rows.c.predicted == ZERO, rows.c.predicted == ONE))
        truth = sa.case((usable, ONE), (actual == sa.literal_column("-1"), sa.literal_column("-1")))
        return sa.case(*outside, *tenths, else_=ZERO), truth, sa.case((usable, self._outcome(rows)))

    def _coded_fault(self, rows: Subquery) -> tuple[Expression, Expression]:
        """(place of the score and truth as one number, outcome) of a rejected row; see :func:`place_and_truth`."""
        place, truth, hit = self._rejected_values(rows)
        coded = sa.func.coalesce(place, whole_number(_NO_PLACE)) * whole_number(_TRUTHS)
        return coded + sa.func.coalesce(truth, ZERO) + ONE, hit

    # --- sound rows

    @built_once
    def groups(
        self, *, latest: bool, segments: Sequence[str] = (), versions: bool = False
    ) -> sa.Select[Any] | sa.CompoundSelect[Any]:
        """The counts: n, w, w2, ws, wy, wsy, ws2 per (label, key), in several divisions at once.

        ``key`` is cell * 4 + predicted * 2 + automated. Without weights there are no columns w and w2: they equal n.
        ``division`` is 0 for all rows, k for the rows with ``value`` in the k-th of ``segments``, and -1 for the rows
        of the model version ``value``; label and key are NULL then. Without segments and versions these two columns
        would be the same in all of very many rows, and are left out. ``latest`` keeps only the latest row of each
        (item, label): needed only if some repeat.
        """
        rows = self.dialect.computed_once(self._facts_of(self._sound(latest=latest)))
        facts = rows.subquery("facts") if self.dialect.grouping_sets else rows.cte("calmon_facts")
        keys: list[Expression] = [facts.c.label, facts.c.key]
        columns = [facts.c[self._segment_key(segment)] for segment in segments]
        divisions: dict[int, Expression] = dict(enumerate(columns, start=1))
        sets: dict[int, list[Expression]] = {0: keys, **{k: [value, *keys] for k, value in divisions.items()}}
        if versions:
            divisions[-1] = facts.c.version
            sets[-1] = [facts.c.version]
        if not divisions:
            return sa.select(*keys, *self._sums(facts, facts.c.cell)).group_by(*keys)
        if self.dialect.grouping_sets:
            return self._in_sets(facts, keys, divisions, sets)
        # the facts are a CTE, so that they are computed once for all divisions
        nothing: list[Expression] = [sa.null().label(key.name) for key in keys]
        parts = [
            sa.select(
                whole_number(k).label("division"),
                divisions.get(k, EMPTY).label("value"),
                *(keys if k >= 0 else nothing),
                *self._sums(facts, facts.c.cell),
            ).group_by(*by)
            for k, by in sets.items()
        ]
        return sa.union_all(*parts)

    def _in_sets(
        self,
        facts: FromClause,
        keys: Sequence[Expression],
        divisions: Mapping[int, Expression],
        sets: Mapping[int, Sequence[Expression]],
    ) -> sa.Select[Any]:
        """The counts by every set of columns, in one pass over the rows."""
        here = {k: sa.func.grouping(column) == ZERO for k, column in divisions.items()}
        division = sa.case(*((here[k], whole_number(k)) for k in divisions), else_=ZERO)
        value = sa.case(*((here[k], column) for k, column in divisions.items()), else_=EMPTY)
        by = sa.func.grouping_sets(*(sa.tuple_(*each) for each in sets.values()))
        sums = self._sums(facts, facts.c.cell)
        return sa.select(division.label("division"), value.label("value"), *keys, *sums).group_by(by)

    @built_once
    def many_values(
        self, segments: Sequence[str], limit: int, *, sound: bool = False
    ) -> sa.Select[Any] | sa.CompoundSelect[Any]:
        """(place, n): how many values each segment has in the window; where they are more than ``limit``, n is too.

        ``place`` is the segment's index in ``segments``; one without any row may be missing. Rejected rows are
        included unless ``sound`` is set: to leave them out costs more.
        """
        rows = self._sound(latest=False) if sound else None
        values = [self._segment_value(segment, rows).label(f"value_{at}") for at, segment in enumerate(segments)]
        chosen = self._select(*values).where(self._in_window()) if rows is None else sa.select(*values)
        if self.dialect.grouping_sets and len(segments) > 1:
            return self._many_values_in_one_scan(chosen.subquery("segment_rows"))
        parts = []
        for place, value in enumerate(values):
            found = chosen.with_only_columns(value).distinct().limit(limit + 1).subquery("segment_values")
            parts.append(sa.select(whole_number(place).label("place"), sa.func.count().label("n")).select_from(found))
        return sa.union_all(*parts) if len(parts) > 1 else parts[0]

    def _segment_value(self, segment: str, rows: Subquery | None) -> Expression:
        return sa.func.coalesce(self._text(segment), NO_VALUE) if rows is None else rows.c[self._segment_key(segment)]

    def _many_values_in_one_scan(self, rows: Subquery, *, first: int = 0) -> sa.Select[Any]:
        here = ((sa.func.grouping(column) == ZERO, whole_number(place)) for place, column in enumerate(rows.c, first))
        sets = sa.func.grouping_sets(*(sa.tuple_(column) for column in rows.c))
        found = sa.select(sa.case(*here).label("place")).select_from(rows).group_by(sets).subquery("segment_values")
        return sa.select(found.c.place, sa.func.count().label("n")).group_by(found.c.place)

    def _sums(self, facts: FromClause, cell: Expression | None = None) -> list[sa.Label[Any]]:
        """The sums of each group; ``cell`` is given if all rows of a group are of one: see ``near_sums.py``."""
        w, s, y = facts.c.w, facts.c.s, facts.c.y
        sums: dict[str, Expression]
        if self.layout.has("weight"):
            products = {"w": w, "w2": w * w, "ws": w * s, "wy": w * y, "wsy": w * s * y, "ws2": w * s * s}
            sums = {name: self.dialect.exact_sum(value, bounded=False) for name, value in products.items()}
        else:  # every weight is 1: the sums of weights are the number of rows
            exact, hit, whole = self.dialect.exact_sum_of_group, y == ONE, self._whole_outcomes
            sums = {"ws": exact(s), "ws2": exact(s * s), "wsy": exact(s * y)}
            if whole:
                sums["wsy"] = sa.func.coalesce(exact(s, hit), ZERO)
            if cell is not None and self.dialect.sums_within_cells:
                doubles = self.dialect.sums_within_cells == "doubles"
                sums = with_rests(sums, s, cell, hit if whole else None, doubles=doubles)
            sums["wy"] = sa.func.count(sa.case((hit, ONE))) if whole else exact(y)
        return [sa.func.count().label("n"), *(value.label(name) for name, value in sums.items())]

    # --- all of them in one scan

    @built_once
    def in_one_scan(self, *, limit: int, segments: Sequence[str] = (), versions: bool = False) -> sa.Select[Any]:
        """:meth:`groups`, :meth:`rejected` and :meth:`label_dependence` in one scan of the window's rows.

        ``division`` is that of :meth:`groups`, or one of three more. Rows of :data:`OF_REJECTED` count rejected rows:
        the reason is ``value``, and :func:`place_and_truth` reads ``key``. Those of :data:`OF_EXAMPLES` show some of
        them: ``label`` is what :func:`~monitor.warehouse.shown_rows.unpacked` reads, ``n`` how many rows it shows. With
        clusters, rows of :data:`OF_CLUSTERS` have the sums of :meth:`label_dependence`. Of a segment with more than
        ``limit`` values there are ``limit`` + 1.
        """
        facts = self._facts_of_judged()
        sets: dict[int, list[Expression]] = {0: [facts.c.label, facts.c.key]}
        keys = {place: facts.c[self._segment_key(segment)] for place, segment in enumerate(segments, start=1)}
        sets |= {place: [key, *sets[0]] for place, key in keys.items()}
        keys |= {OF_VERSIONS: facts.c.version} if versions else {}
        keys |= {OF_EXAMPLES: facts.c.fault_shown, OF_REJECTED: facts.c.reason}  # both sets have the reason
        sets |= {OF_VERSIONS: [facts.c.version]} if versions else {}
        sets[OF_EXAMPLES] = [facts.c.reason, facts.c.fault_shown]
        sets[OF_REJECTED] = [facts.c.reason, facts.c.fault_label, facts.c.fault]
        if self.layout.has("cluster"):
            sets[OF_CLUSTERS] = [facts.c.label, facts.c.cluster]
        found = self._grouped_at_once(facts, keys, sets)
        found = self._by_label_of_clusters(found, _of_its_rows(found))
        return self._first_of_each(found, limit)

    @built_once
    def rejected_in_one_scan(self) -> sa.Select[Any]:
        """The rows of :data:`OF_REJECTED` and :data:`OF_EXAMPLES` of :meth:`in_one_scan` alone."""
        facts = self._facts_of_judged()
        rows = sa.select(facts).where(facts.c.reason.is_not(None)).subquery("rejected")
        shown = sa.func.grouping(rows.c.fault_shown) == ZERO
        sets = ([rows.c.reason, rows.c.fault_shown], [rows.c.reason, rows.c.fault_label, rows.c.fault])
        columns = {
            "division": sa.case((shown, whole_number(OF_EXAMPLES)), else_=whole_number(OF_REJECTED)),
            "value": rows.c.reason,
            "label": sa.case((shown, rows.c.fault_shown), else_=rows.c.fault_label),
            "key": rows.c.fault,
            "n": sa.func.count(),
            "hits": self.dialect.exact_sum(rows.c.hit, bounded=True),
        }
        by = sa.func.grouping_sets(*(sa.tuple_(*each) for each in sets))
        named = [column.label(name) for name, column in columns.items()]
        return self._first_of_each(sa.select(*named).group_by(by).subquery("grouped"), limit=0)

    def _facts_of_judged(self) -> Subquery:
        """The facts of the sound rows; of the rejected ones ``reason``, ``hit`` and what begins with ``fault``.

        The other columns are NULL: a rejected score may be too large for its cell.
        """
        rows = self._judged()
        sound = rows.c.reason.is_(None)
        fault, hit = self._coded_fault(rows)
        texts = [rows.c[name] for name in ("item", "label", "score_text", "date_text")]
        faults = {
            "fault_label": self._readable(rows.c.label), "fault": fault, "hit": sa.cast(hit, sa.Double),
            "fault_shown": packed(texts, self.dialect),
        }  # fmt: skip
        kept = (column for column in rows.c if column.name not in ("reason", "resolved", "score_text", "date_text"))
        columns = [sa.case((sound, column)).label(column.name) for column in kept]
        faulty = [sa.case((sa.not_(sound), value)).label(name) for name, value in faults.items()]
        judged = sa.select(*columns, rows.c.reason, *faulty).subquery("sound_or_not")
        more = [judged.c[name] for name in ("reason", *faults)]
        return self._facts_of(judged, more).subquery("facts")

    def _grouped_at_once(
        self, facts: Subquery, keys: Mapping[int, Expression], sets: Mapping[int, Sequence[Expression]]
    ) -> Subquery:
        """One row per group of each of ``sets``; ``keys`` has the first column of those that have one of their own."""
        own: dict[int, Expression] = {**keys}
        if "cluster" in facts.c:
            own[OF_CLUSTERS] = facts.c.cluster
        here = {division: sa.func.grouping(key) == ZERO for division, key in own.items()}
        of_examples, of_rejected = here[OF_EXAMPLES], here[OF_REJECTED]
        values = {**keys, OF_EXAMPLES: facts.c.reason}
        columns = {
            "division": sa.case(*((here[division], whole_number(division)) for division in own), else_=ZERO),
            "value": sa.case(*((here[division], value) for division, value in values.items()), else_=EMPTY),
            "label": sa.case(
                (of_examples, facts.c.fault_shown), (of_rejected, facts.c.fault_label), else_=facts.c.label
            ),
            "key": sa.case((of_rejected, facts.c.fault), else_=facts.c.key),
            "hits": self.dialect.exact_sum(facts.c.hit, bounded=True),
        }
        if "cluster" in facts.c:
            columns["key_0"] = facts.c.cluster
        named = [column.label(name) for name, column in columns.items()]
        parts = self._sums_of_parts(self._parts_of_labels(facts)) if "cluster" in facts.c else []
        by = sa.func.grouping_sets(*(sa.tuple_(*each) for each in sets.values()))
        return sa.select(*named, *self._sums(facts, facts.c.cell), *parts).group_by(by).subquery("of_every_set")

    def _by_label_of_clusters(self, found: Subquery, named: Expression) -> Subquery:
        """The same with clusters summed up by label; any other group is one row and stays as it is."""
        if "key_0" not in found.c:
            return sa.select(found).where(named).subquery("grouped")
        parts = [f"{where}_" for where in WHERES]
        keys = [found.c[name] for name in ("division", "value", "label", "key")]
        of_parts = {column.name for column in found.c if column.name.startswith(tuple(parts))}
        others = [column for column in found.c if column.name not in {"key_0", *of_parts, *(key.name for key in keys)}]
        sums = [sa.func.max(column).label(column.name) for column in others]
        totals = self._cluster_totals(found, ("cluster",), parts)
        sums += [value.label(name) for name, value in totals.items()]
        return sa.select(*keys, *sums).where(named).group_by(*keys).subquery("grouped")

    def _first_of_each(self, found: Subquery, limit: int) -> sa.Select[Any]:
        """The groups of at most ``limit`` + 1 values of each segment, and the first examples of each reason."""
        shown = found.c.division == whole_number(OF_EXAMPLES)
        within = [found.c.division, sa.case((shown, found.c.value))]
        by = self.dialect.ordered(sa.case((shown, found.c.label), else_=found.c.value))
        place = sa.func.dense_rank().over(partition_by=within, order_by=by)
        placed = sa.select(found, place.label("place")).subquery("placed")
        most = sa.case((placed.c.division == whole_number(OF_EXAMPLES), whole_number(EXAMPLES)),
                       (placed.c.division > ZERO, whole_number(limit + 1)), else_=placed.c.place)  # fmt: skip
        return sa.select(*(column for column in placed.c if column.name != "place")).where(placed.c.place <= most)


def _of_its_rows(found: Subquery) -> Expression:
    """Whether a group has rows of the sort that its division counts, sound or rejected ones."""
    by_value = found.c.division.in_([whole_number(OF_VERSIONS), whole_number(OF_REJECTED)])
    return sa.or_(found.c.label.is_not(None), sa.and_(by_value, found.c.value.is_not(None)))


def place_and_truth(key: int) -> tuple[int | None, int | None]:
    """The place of the score and the truth of rejected rows, as :meth:`CountStatements.rejected` has them.

    >>> place_and_truth(_NO_PLACE * _TRUTHS + 1), place_and_truth(ScorePlace.BELOW_0 * _TRUTHS + 0)
    ((None, None), (12, -1))
    """
    place, truth = key // _TRUTHS, key % _TRUTHS - 1
    return (None if place == _NO_PLACE else place), (truth or None)
