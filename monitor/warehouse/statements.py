"""The statements: which rows count, why others are rejected, and the sums that leave the warehouse.

Each statement is built in levels of subqueries, so that an expression appears once, for people and for PostgreSQL's
GROUP BY::

    judged   the rows of the window in our types, with ``reason`` (NULL: not rejected) or ``sound`` (NULL: rejected)
    sound    the rows that are not rejected; where duplicates exist, the latest of each (item, label)
    facts    y, w, s, cell, predicted and automated of each sound row
    groups   one row per (label, predicted, automated, cell), or a similar key

Statements over all rows of the window have one level instead of judged and sound::

    every    all rows of the window with their hash; ``actual`` is NULL in rejected rows

Names come from the relation itself and are quoted by SQLAlchemy; values are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial, wraps
from typing import Any, ClassVar, ParamSpec, Self, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause, Subquery

from monitor.config.model import SourceConfig
from monitor.core.records import LABEL_BYTES, WHERES, RejectReason, ScorePlace, Window
from monitor.warehouse.checks import Layout
from monitor.warehouse.dialects import NUMERIC, Arrays, Dialect, Expression, Kind
from monitor.warehouse.examples import ExampleQuery

NO_VALUE = "(none)"
EXAMPLES = 20
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_KEYS = ("predicted", "automated", "cell")
_BY_VALUE = ("resolved", "score", "actual", "predicted", "weight", "deviation")
ONE: Expression = sa.literal_column("1")
ZERO: Expression = sa.literal_column("0")
_EMPTY: Expression = sa.literal_column("''")
_HASH_BITS = 32  # of the md5 in hexadecimal, whose first digits are compared
_NARROWER = frozenset(
    {
        RejectReason.LABEL_MISSING,
        RejectReason.SCORE_MISSING,
        RejectReason.SCORE_NOT_A_NUMBER,
        RejectReason.OUTCOME_MISSING,
    }
)
"""Reasons that are special cases of a later one: its condition holds too."""
_LONGEST_LABEL: Expression = sa.literal_column(str(LABEL_BYTES))
_LARGEST_WEIGHT: Expression = sa.literal_column("1e9")  # above: implausible, infinite, or NaN, which engines sort last
_SMALLEST_WEIGHT: Expression = sa.literal_column("1e-5")  # below: its square is lost in exact_sum


LEVELS = 200
"""How many levels and statements of one source are kept. A reading has about twenty."""

Options = ParamSpec("Options")
Level = TypeVar("Level")


def built_once(build: Callable[Options, Level]) -> Callable[Options, Level]:
    """Decorate a method of :class:`Statements` so that its result is kept.

    Statements of one reading share levels, and readings of several windows share statements.
    """

    @wraps(build)
    def built(*arguments: Options.args, **options: Options.kwargs) -> Level:
        levels = cast("Statements", arguments[0]).levels
        named = ((name, _hashable(value)) for name, value in sorted(options.items()))
        key = (build.__qualname__, *map(_hashable, arguments[1:]), *named)
        found = levels.get(key)
        if found is None:
            found = build(*arguments, **options)
            if len(levels) >= LEVELS:  # the labels of other windows
                levels.clear()
            levels[key] = found
        return cast("Level", found)

    return built


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Statements:
    """Every statement about one source in one window. Dates after ``now`` lie in the future.

    With ``named`` the window and ``now`` are not in the statements: they are executed with :attr:`parameters`, and
    :meth:`of_window` gives the same statements about another window.
    """

    item_metrics: ClassVar[tuple[str, ...]] = ("review_rate", "hamming_loss", "subset_loss")
    items_of_all_rows: ClassVar[bool] = True

    source: SourceConfig
    layout: Layout
    dialect: Dialect
    window: Window
    now: datetime
    named: bool = field(default=False, kw_only=True)
    levels: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    # --- the window

    def of_window(self, window: Window, now: datetime) -> Self:
        """The same statements about another window. They share all that was built.

        Raises ValueError unless they are ``named``, and :attr:`sees_future` is the same.
        """
        found = replace(self, window=window, now=now)
        if not self.named or found.sees_future != self.sees_future:
            raise ValueError("these statements are about one window only")
        object.__setattr__(found, "levels", self.levels)
        return found

    @property
    def sees_future(self) -> bool:
        """Whether a row of the window may lie in the future."""
        return self.window.end > self.now

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The values of the statements' parameters, by name; none unless they are ``named``."""
        if not self.named:
            return {}
        kinds = tuple(self.layout.columns[name].kind for name in self._dates())
        return _bound_values(self.dialect, kinds, self.window, self.now)

    def _moment(self, name: str, kind: Kind) -> Expression:
        """The window's start or end, or now, to compare with columns of this kind."""
        bound = self.dialect.bound(_moments(self.window, self.now)[name], kind)
        if self.named:  # it has no value, so that a missing one is an error
            bound = sa.bindparam(_parameter(name, kind), type_=bound.type)
        return self.dialect.moment_of(bound, kind)

    def _dates(self) -> dict[str, None]:
        """The columns that are compared with the moments, in order."""
        return dict.fromkeys((self.source.window_on, "resolved_at"))

    def result(self, connection: sa.Connection, statement: sa.Executable) -> sa.CursorResult[Any]:
        """The result of one of these statements."""
        return connection.execute(statement, self.parameters)

    def arrays(self, connection: sa.Connection, statement: sa.Executable) -> Arrays:
        """The columns of the result of one of these statements as arrays of one length."""
        return self.dialect.arrays(connection, statement, self.parameters)

    # --- rows set aside

    @built_once
    def rejected(self) -> sa.Select[Any]:
        """(label, reason, place, truth, n, hits) over the rejected rows of the window.

        ``label`` is NULL if it cannot be read. ``place`` is a :class:`~monitor.core.records.ScorePlace` (NULL: no
        score). ``truth`` is 1 if the outcome can be read, -1 if it is coded -1, else NULL. ``hits`` sums outcomes.
        """
        rows = self._judged()
        return self._rejected_of(rows, rows.c.reason, rows.c.reason.is_not(None))

    @built_once
    def fingerprint(self) -> sa.Select[Any]:
        """(n, hash, coming): one scan that shows whether the rows of the window, or which of them count, have changed.

        ``hash`` is the sum of a hash of each row, over every column that a reading uses. ``coming`` counts rows that
        lie in the future: they count once their date has passed.
        """
        hashed = self._hash()
        if hashed is None:
            return self._fingerprint_of_sums()
        coming = self._coming()
        sums: dict[str, Expression] = {"n": sa.func.count(), "hash": sa.func.sum(hashed)}
        sums["coming"] = coming if coming is ZERO else sa.func.sum(coming)
        return self._select(*(value.label(name) for name, value in sums.items())).where(self._in_window())

    @property
    def has_hash(self) -> bool:
        """Whether the engine has a hash of rows, which :meth:`fingerprint` sums up."""
        return self._hash() is not None

    @built_once
    def _hash(self) -> Expression | None:
        """A hash of each row over every column that a reading uses; None if the dialect has none."""
        return self.dialect.row_hash([(self._column(name), self.layout.columns[name].kind) for name in self._read()])

    def _coming(self) -> Expression:
        """1 for a row of the window that lies in the future; :data:`ZERO` itself if no row can."""
        dates = self._date_reasons(in_window=True)
        later = [condition for condition, reason in dates if reason is RejectReason.DATE_IN_FUTURE]
        return sa.case(*((condition, ONE) for condition in later), else_=ZERO) if later else ZERO

    def _read(self) -> list[str]:
        """The columns that a reading uses."""
        dates = ("resolved_at", self.source.window_on)
        names = ("item", "label", "score", "actual", "predicted", "weight", *dates, "cluster", "model_version")
        return [name for name in dict.fromkeys((*names, *self.source.segments)) if self.layout.has(name)]

    def _fingerprint_of_sums(self) -> sa.Select[Any]:
        """(label, reason, n, date, bytes, sums) by label and reason, for an engine without a hash.

        The result changes if rows came, went, moved to another label or reason, or changed their date, score, outcome,
        decision or weight, unless all sums stay the same. Of other texts only the length is compared.
        """
        rows = self._judged()
        sound = rows.c.reason.is_(None)
        texts = [text for text in rows.c if text.name.startswith(("item", "cluster", "version", "segment_"))]
        sizes = (sa.func.coalesce(self.dialect.byte_length(text), ZERO) for text in texts)
        used = {name: sa.case((sound, rows.c[name])) for name in ("score", "actual", "predicted")}
        used["both"] = sa.case((sound, rows.c.score * rows.c.actual))
        if "weight" in rows.c:
            used["weight"] = sa.case((sound, rows.c.weight))
        size = sa.cast(sum(sizes, ZERO), sa.BigInteger).label("size")
        named = [self._readable(rows.c.label).label("label"), rows.c.reason, rows.c.date_text, size]
        # grouped one level further out, so that PostgreSQL sees each expression once
        facts = sa.select(*named, *(value.label(name) for name, value in used.items())).subquery("seen")
        sums = (self.dialect.exact_sum(facts.c[name], bounded=name != "weight").label(f"{name}_sum") for name in used)
        date, total = sa.func.max(self.dialect.ordered(facts.c.date_text)), sa.func.sum(facts.c.size)
        by = (facts.c.label, facts.c.reason)
        return sa.select(*by, sa.func.count().label("n"), date.label("date"), total.label("bytes"), *sums).group_by(*by)

    @built_once
    def undated(self) -> sa.Select[Any]:
        """(reason, n) over the rows outside the window whose date is missing, malformed or in the future."""
        rows = self._undated()
        return sa.select(rows.c.reason, sa.func.count().label("n")).group_by(rows.c.reason)

    @built_once
    def repeated(self) -> sa.Select[Any]:
        """(n): how many sound rows repeat an (item, label) of the window."""
        rows = self._kept(latest=False)
        pairs = sa.select((sa.func.count() - ONE).label("n")).select_from(rows).group_by(rows.c.item, rows.c.label)
        more = pairs.having(sa.func.count() > ONE).subquery("repeated")
        return sa.select(sa.cast(sa.func.coalesce(sa.func.sum(more.c.n), ZERO), sa.BigInteger).label("n"))

    @built_once
    def examples(self, reasons: Collection[RejectReason]) -> sa.Select[Any]:
        """(reason, place, item, label, score, date) of at most 20 rejected rows for each of the reasons, as text.

        ``place`` is the position of a row among those of its reason, from 1. Rows of other reasons may be included.
        """
        rows = sa.union_all(*self._set_aside_for(reasons)).subquery("examples")
        texts = [rows.c[name] for name in ("item", "label", "score_text", "date_text")]
        order = [self.dialect.ordered(text).nulls_last() for text in texts]
        place = sa.func.row_number().over(partition_by=rows.c.reason, order_by=order).label("place")
        placed = sa.select(rows, place).subquery("placed")
        names = {"reason": "reason", "place": "place", "item": "item", "label": "label", "score": "score_text"}
        columns = (placed.c[column].label(name) for name, column in (names | {"date": "date_text"}).items())
        return sa.select(*columns).where(placed.c.place <= whole_number(EXAMPLES))

    def dated(self, start: datetime, end: datetime) -> sa.Select[Any]:
        """(n): 1 for each row, sound or not, with start <= its date < end."""
        return self._select(ONE.label("n")).where(self._between(start, end))

    def newest(self, before: datetime) -> sa.Select[Any]:
        """(instant): the newest date of all rows before a moment, as :meth:`Dialect.instant` gives it."""
        instant = self._instant(self.source.window_on)
        return self._select(sa.func.max(instant).label("instant")).where(self._between(_FIRST, before))

    # --- sums

    @built_once
    def groups(
        self, *, latest: bool, segments: Sequence[str] = (), versions: bool = False
    ) -> sa.Select[Any] | sa.CompoundSelect[Any]:
        """The counts: n, w, w2, ws, wy, wsy, ws2 per (label, key), in several divisions at once.

        ``key`` is cell * 4 + predicted * 2 + automated. Without weights there are no columns w and w2: they equal n.
        ``division`` is 0 for all rows, k for the rows with ``value`` in the k-th of ``segments``, and -1 for the rows
        of the model version ``value``; label and key are NULL then. ``latest`` keeps only the latest row of each
        (item, label): needed only if some repeat.
        """
        rows = self.dialect.computed_once(self._facts_of(self._sound(latest=latest)))
        facts = rows.subquery("facts") if self.dialect.grouping_sets else rows.cte("facts")
        keys: list[Expression] = [facts.c.label, facts.c.key]
        columns = [facts.c[self._segment_key(segment)] for segment in segments]
        divisions: dict[int, Expression] = dict(enumerate(columns, start=1))
        sets: dict[int, list[Expression]] = {0: keys, **{k: [value, *keys] for k, value in divisions.items()}}
        if versions:
            divisions[-1] = facts.c.version
            sets[-1] = [facts.c.version]
        if self.dialect.grouping_sets:
            return self._in_sets(facts, keys, divisions, sets)
        # the facts are a CTE, so that they are computed once for all divisions
        nothing: list[Expression] = [sa.null().label(key.name) for key in keys]
        parts = [
            sa.select(
                whole_number(k).label("division"),
                divisions.get(k, _EMPTY).label("value"),
                *(keys if k >= 0 else nothing),
                *self._sums(facts),
            ).group_by(*by)
            for k, by in sets.items()
        ]
        return sa.union_all(*parts) if len(parts) > 1 else parts[0]

    def _in_sets(
        self,
        facts: FromClause,
        keys: Sequence[Expression],
        divisions: Mapping[int, Expression],
        sets: Mapping[int, Sequence[Expression]],
    ) -> sa.Select[Any]:
        """The counts by every set of columns, in one pass over the rows."""
        division: Expression = ZERO
        value: Expression = _EMPTY
        if divisions:
            here = {k: sa.func.grouping(column) == ZERO for k, column in divisions.items()}
            division = sa.case(*((here[k], whole_number(k)) for k in divisions), else_=ZERO)
            value = sa.case(*((here[k], column) for k, column in divisions.items()), else_=_EMPTY)
        by = [sa.func.grouping_sets(*(sa.tuple_(*each) for each in sets.values()))] if divisions else keys
        return sa.select(division.label("division"), value.label("value"), *keys, *self._sums(facts)).group_by(*by)

    def combined(self, edges: Mapping[str, Sequence[int]], columns: Sequence[str], *, latest: bool) -> sa.Select[Any]:
        """The counts of the labels of ``edges`` per (label, predicted, automated, cell, value_0, value_1 ...).

        ``value_i`` is the value of segment ``columns[i]``. ``cell`` is the upper edge, among the label's ``edges``, of
        the bin of the score, so that few groups leave the warehouse however many cells have rows.
        """
        facts = self._facts(latest=latest)
        labels = [sa.literal(label, sa.Text) for label in edges]
        cases = zip(labels, (_upper_edge(facts.c.cell, uppers) for uppers in edges.values()), strict=True)
        cell = sa.case(*((facts.c.label == label, upper) for label, upper in cases)).label("cell")
        values = [facts.c[self._segment_key(column)].label(f"value_{at}") for at, column in enumerate(columns)]
        names = ("label", "predicted", "automated", "s", "y", "w")
        chosen = sa.select(*(facts.c[name] for name in names), cell, *values).where(facts.c.label.in_(labels))
        rows = chosen.subquery("combined")  # grouped one level further out, so that PostgreSQL sees the expression once
        keys = [rows.c[name] for name in ("label", *_KEYS, *(value.name for value in values))]
        return sa.select(*keys, *self._sums(rows)).group_by(*keys)

    @built_once
    def many_values(self, segments: Sequence[str], limit: int) -> sa.Select[Any] | sa.CompoundSelect[Any]:
        """(place, n): how many values each segment has in the window; where they are more than ``limit``, n is too.

        ``place`` is the segment's index in ``segments``; one without any row may be missing. Rejected rows are
        included: to leave them out costs more.
        """
        values = [sa.func.coalesce(self._text(segment), NO_VALUE).label("value") for segment in segments]
        if self.dialect.grouping_sets and len(segments) > 1:
            return self._many_values_in_one_scan(values)
        parts = []
        for place, value in enumerate(values):
            found = self._select(value).where(self._in_window()).distinct().limit(limit + 1).subquery("segment_values")
            parts.append(sa.select(whole_number(place).label("place"), sa.func.count().label("n")).select_from(found))
        return sa.union_all(*parts) if len(parts) > 1 else parts[0]

    def _many_values_in_one_scan(self, values: Sequence[sa.Label[Any]]) -> sa.Select[Any]:
        named = [value.element.label(f"value_{place}") for place, value in enumerate(values)]
        rows = self._select(*named).where(self._in_window()).subquery("segment_rows")
        here = ((sa.func.grouping(rows.c[value.name]) == ZERO, whole_number(at)) for at, value in enumerate(named))
        sets = sa.func.grouping_sets(*(sa.tuple_(rows.c[value.name]) for value in named))
        found = sa.select(sa.case(*here).label("place")).select_from(rows).group_by(sets).subquery("segment_values")
        return sa.select(found.c.place, sa.func.count().label("n")).group_by(found.c.place)

    @built_once
    def versions(self, *, latest: bool) -> sa.Select[Any]:
        """(version, n): the rows of each model version."""
        rows = self._sound(latest=latest)
        return sa.select(rows.c.version, sa.func.count().label("n")).group_by(rows.c.version)

    @built_once
    def dependence(self, *within: str, latest: bool) -> sa.Select[Any]:
        """The :class:`~monitor.inference.dependence.ClusterSums` over all rows.

        ``within`` names the columns that rows of one cluster share: "item", "cluster", or both. A row without a
        cluster (NULL or the empty text) is a cluster by itself.
        """
        return self._dependence_of(self._facts(latest=latest), within)

    @built_once
    def label_dependence(self, *, latest: bool) -> sa.Select[Any]:
        """:meth:`dependence` within clusters by label, for all, the predicted and the automated rows, in one scan.

        Sums are named ``all_r``, ``predicted_r`` and so on. They are NULL or 0 if the label has no such row.
        """
        facts = self._facts(latest=latest)
        r, w = self._residual(facts)
        parts: dict[str, tuple[Expression, Expression]] = {"all_": (r, w)}
        for where in WHERES[1:]:
            chosen = facts.c[where] == ONE
            parts[f"{where}_"] = (sa.case((chosen, r)), sa.case((chosen, w)))
        return self._cluster_sums(facts, ("cluster",), parts, by_label=True)

    def _dependence_of(self, facts: Subquery, within: Sequence[str]) -> sa.Select[Any]:
        return self._cluster_sums(facts, within, {"": self._residual(facts)})

    def _residual(self, facts: FromClause) -> tuple[Expression, Expression]:
        """The weighted residual of a row and its weight."""
        return self._weighted(facts, facts.c.y - facts.c.s)

    def _weighted(self, rows: FromClause, value: Expression) -> tuple[Expression, Expression]:
        """A value times the weight, and the weight, which is 1 if the source has none."""
        return (rows.c.w * value, rows.c.w) if self.layout.has("weight") else (value, ONE)

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
    def items_of_every_row(self, labels: Sequence[str], *, hashed: bool) -> sa.Select[Any]:
        """:meth:`of_items` over the rows that count, and (seen, kept, again, hash, coming) over all rows, in one scan.

        ``seen`` counts the rows of the window, ``kept`` those that count. With ``labels`` (at most
        :data:`~monitor.warehouse.dialects.BITS`) ``again`` is 0 only if no (item, label) repeats. The other sums are
        right only then: they assume that an item has no more rows than labels. ``hash`` (as text) and ``coming`` are
        those of :meth:`fingerprint`.
        """
        facts, few = self._facts_of_every(hashed=hashed), bool(labels) and not self.layout.has("weight")
        more = [*self._of_item(facts), sa.func.count().label("seen"), sa.func.count(facts.c.y).label("kept")]
        more += [sa.func.sum(facts.c[name]).label(name) for name in ("hash", "coming") if name in facts.c]
        more += [self.dialect.repeats(facts.c.label, labels, facts.c.y).label("again")] if labels else []
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
        keys = [facts.c.label] if by_label else []
        shared = [facts.c[name] for name in within]
        named = [key.label(f"key_{index}") for index, key in enumerate(shared)]
        return sa.select(*keys, *named, *sums, *more).group_by(*keys, *shared).subquery("clusters")

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

    @built_once
    def item_dependence(self, *, latest: bool) -> sa.Select[Any]:
        """:meth:`dependence` within clusters of the items' values of each metric, in one scan.

        Sums are named by metric and sum, like ``review_rate_r``.
        """
        items = self._items(latest=latest)
        parts = {f"{name}_": self._weighted(items, items.c[name]) for name in self.item_metrics}
        return self._cluster_sums(items, ("cluster",), parts)

    def pairs(self, most: int, *, latest: bool) -> sa.Select[Any]:
        """(a, b, n, true, both_true, predicted, both_predicted) by pair of the ``most`` labels with the most true rows.

        The sums are over the items on which both labels were scored, with the weights of b's rows. ``true`` sums those
        where b is true, ``predicted`` those where b was predicted, ``both_...`` those where the same holds for a.
        """
        rows, by_bytes = self._sound(latest=latest), self.dialect.ordered
        bounded = not self.layout.has("weight")
        hits = self.dialect.exact_sum(rows.c.actual, bounded=True)
        frequent = sa.select(rows.c.label).group_by(rows.c.label).order_by(hits.desc(), by_bytes(rows.c.label))
        chosen = frequent.limit(most).subquery("chosen")
        weight = rows.c.weight if "weight" in rows.c else sa.cast(ONE, sa.Double)
        columns = (rows.c.item, rows.c.label, rows.c.actual, rows.c.predicted, weight.label("w"))
        sides = sa.select(*columns).where(rows.c.label.in_(sa.select(chosen.c.label)))
        a, b = sides.subquery("a"), sides.subquery("b")
        values = {
            "true": b.c.w * b.c.actual,
            "both_true": b.c.w * a.c.actual * b.c.actual,
            "predicted": b.c.w * b.c.predicted,
            "both_predicted": b.c.w * a.c.predicted * b.c.predicted,
        }
        sums = (self.dialect.exact_sum(value, bounded=bounded).label(name) for name, value in values.items())
        named = (a.c.label.label("a"), b.c.label.label("b"))
        joined = a.join(b, a.c.item == b.c.item)
        return sa.select(*named, sa.func.count().label("n"), *sums).select_from(joined).group_by(a.c.label, b.c.label)

    def feature_sample(self, limit: int, halvings: int = 0) -> sa.Select[Any]:
        """The features of ``limit`` items, or of all if there are fewer, one row each, in the order of their md5.

        Items are drawn by :meth:`_stratified` from the share 2 ** -``halvings`` with the smallest md5, so that few are
        sorted if there are many. An item's features are those of its first label's latest row.
        """
        rows, by_bytes = self._sound(latest=False, features=True), self.dialect.ordered
        if halvings:
            least = sa.literal(f"{2 ** (_HASH_BITS - halvings):0{_HASH_BITS // 4}x}", sa.Text)
            rows = sa.select(rows).where(by_bytes(self.dialect.md5(rows.c.item)) < least).subquery("candidates")
        chosen = self._stratified(rows, limit).subquery("chosen")
        features = [rows.c[_feature_key(index)] for index in range(len(self.source.features))]
        place = self._place(rows, [rows.c.item], [by_bytes(rows.c.label)])
        # IN, not a join: SQLite would scan the rows once per chosen item
        of_chosen = rows.c.item.in_(sa.select(chosen.c.item))
        ranked = sa.select(rows.c.item, *features, place).where(of_chosen).subquery("ranked")
        shown = [ranked.c[_feature_key(index)] for index in range(len(self.source.features))]
        order = (by_bytes(self.dialect.md5(ranked.c.item)), by_bytes(ranked.c.item))
        return sa.select(*shown).where(ranked.c.place == ONE).order_by(*order)

    def _stratified(self, rows: Subquery, limit: int) -> sa.Select[Any]:
        """At most ``limit`` of the items of ``rows``, by their md5.

        The strata are the labels that were predicted (an item's first one, or none). Each has the same share of the
        sample as of the items.
        """
        by_bytes = self.dialect.ordered
        label = sa.case((rows.c.predicted == ONE, by_bytes(rows.c.label)))
        stratum = sa.func.coalesce(sa.func.min(label), _EMPTY).label("stratum")
        items = sa.select(rows.c.item, stratum).group_by(rows.c.item).subquery("items")
        order = (by_bytes(items.c.stratum), by_bytes(self.dialect.md5(items.c.item)), by_bytes(items.c.item))
        place, size = sa.func.row_number().over(order_by=order).label("place"), sa.func.count().over().label("n")
        placed = sa.select(items.c.item, place, size).subquery("placed")
        # every (n / limit)-th item: those at which place * limit / n reaches the next whole number
        few, reached = placed.c.n <= limit, (placed.c.place * limit) % placed.c.n < limit
        return sa.select(placed.c.item).where(sa.or_(few, reached))

    def behind(self, query: ExampleQuery, *, latest: bool) -> sa.Select[Any]:
        """(item, label, score, actual, predicted, resolved, segment_0 ...) of the rows behind a finding.

        The rows with the most confident decisions come first. A decision is right if it agrees with at least half of
        the truth, since annotators may differ. Confidence is the score, or 1 - score if the label was not predicted.
        """
        rows, by_bytes = self._sound(latest=latest), self.dialect.ordered
        decided = rows.c.predicted == ONE
        half: Expression = sa.literal_column("0.5")
        agreed = sa.case((decided, rows.c.actual), else_=ONE - rows.c.actual)
        confidence: Expression = rows.c.score
        if self.source.score_is == "probability_of_label":
            confidence = sa.case((decided, rows.c.score), else_=ONE - rows.c.score)
        least, most = (sa.literal(float(limit), sa.Double) for limit in (query.least, query.most))
        conditions = [agreed >= half if query.right else agreed < half, rows.c.score.between(least, most)]
        if query.label is not None:
            conditions.append(rows.c.label == sa.literal(query.label, sa.Text))
        columns = [rows.c[name] for name in ("item", "label", "score", "actual", "predicted", "resolved")]
        segments = [rows.c[self._segment_key(segment)] for segment in self.source.segments]
        order = (confidence.desc(), by_bytes(rows.c.item), by_bytes(rows.c.label))
        return sa.select(*columns, *segments).where(*conditions).order_by(*order).limit(query.limit)

    def raw(self, names: Sequence[str]) -> sa.Select[Any]:
        """The columns ``names`` as c0, c1 ... of every row that a reading of the window may use."""
        instant = self._instant(self.source.window_on)
        troubled = [condition for condition, _ in self._date_reasons(in_window=False)]
        usable = sa.or_(self._in_window(), instant.is_(None), *troubled)
        return self._select(*(self._plainly(name).label(f"c{i}") for i, name in enumerate(names))).where(usable)

    # --- the levels

    def _set_aside_for(self, reasons: Collection[RejectReason]) -> Iterator[sa.Select[Any]]:
        """The rejected rows, one SELECT for each level at which one of the reasons can occur."""
        levels = ((self._judged, self._window_reasons()), (self._undated, self._date_reasons(in_window=False)))
        for level, known in levels:
            if any(reason in reasons for _, reason in known):
                rows = level()
                yield identified(rows, rows.c.reason).where(rows.c.reason.is_not(None))
        if RejectReason.DUPLICATE in reasons:
            rows = self._ranked_of(self._of_repeated())
            yield identified(rows, sa.literal(RejectReason.DUPLICATE.value, sa.Text)).where(rows.c.place > ONE)

    def _of_repeated(self) -> Subquery:
        """The sound rows of the first items with a repeated (item, label): enough to show, and few to sort."""
        rows, same, by_bytes = self._kept(latest=False), self._kept(latest=False), self.dialect.ordered
        pairs = sa.select(same.c.item).group_by(same.c.item, same.c.label).having(sa.func.count() > ONE)
        items = sa.select(pairs.subquery("pairs").c.item).distinct().subquery("items")
        first = sa.select(items.c.item).order_by(by_bytes(items.c.item)).limit(EXAMPLES).subquery("first_items")
        return sa.select(rows).select_from(rows.join(first, rows.c.item == first.c.item)).subquery("of_items")

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
        return sa.case((self.dialect.byte_length(label) <= _LONGEST_LABEL, sa.func.nullif(label, _EMPTY)))

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

    @built_once
    def _judged(self, *, features: bool = False, sound: bool = False) -> Subquery:
        """The rows of the window with the first reason to reject each, in the order of :class:`RejectReason`.

        With ``sound`` the column ``sound`` takes the place of the reason; it is NULL in rejected rows.
        """
        columns = [*self._identity(), *self._values(), *self._extras()]
        if features:
            columns += [self._feature(name).label(_feature_key(i)) for i, name in enumerate(self.source.features)]
        judgment = (sound_unless if sound else first_reason)(self._window_reasons())
        return self._select(*columns, judgment).where(self._in_window()).subquery("judged")

    @built_once
    def _undated(self) -> Subquery:
        """The rows outside the window that belong to no window, or not yet, because of their date."""
        dates = self._date_reasons(in_window=False)
        instant = self._instant(self.source.window_on)
        outside = sa.or_(instant.is_(None), sa.not_(self._in_window()))
        troubled = sa.or_(*(condition for condition, _ in dates))
        return self._select(*self._identity(), first_reason(dates)).where(troubled, outside).subquery("undated")

    def _sound(self, *, latest: bool, features: bool = False) -> Subquery:
        """The rows that count."""
        return self._kept(latest=latest, features=features)

    @built_once
    def _kept(self, *, latest: bool, features: bool = False) -> Subquery:
        """The rows that are not rejected; with ``latest`` only the latest of each (item, label)."""
        if latest:
            ranked = self._ranked()
            return sa.select(ranked).where(ranked.c.place == ONE).subquery("sound")
        judged = self._judged(features=features, sound=True)
        kept = [column for column in judged.c if column.name != "sound"]
        return sa.select(*kept).where(judged.c.sound.is_not(None)).subquery("sound")

    def _ranked(self) -> Subquery:
        """The sound rows with their ``place`` among those of one (item, label): 1 is the latest."""
        return self._ranked_of(self._kept(latest=False))

    def _ranked_of(self, rows: Subquery) -> Subquery:
        return sa.select(rows, self._place(rows, [rows.c.item, rows.c.label], [])).subquery("ranked")

    def _place(self, rows: Subquery, within: Sequence[Expression], first: Sequence[Expression]) -> sa.Label[int]:
        """row_number() by ``first``, then latest first. Values decide between ties, so the order is always the same."""
        values = [rows.c[name] for name in _BY_VALUE if name in rows.c]
        texts = [
            column for column in rows.c if column.name == "version" or column.name.startswith(("cluster", "segment_"))
        ]
        order = [value.desc().nulls_last() for value in (*values, *map(self.dialect.ordered, texts))]
        return sa.func.row_number().over(partition_by=within, order_by=[*first, *order]).label("place")

    @built_once
    def _every(self, *, hashed: bool) -> Subquery:
        """All rows of the window; ``actual`` is NULL in rejected rows only. ``hashed``: with hash and coming.

        The other columns of a rejected row have its values, whatever these are: whoever uses them checks ``actual``
        first. PostgreSQL would repeat a condition for each column wherever that is used.
        """
        more = [(self._hash() if hashed else None, "hash"), (self._coming() if hashed else None, "coming")]
        of_row = [value.label(name) for value, name in more if value is not None and value is not ZERO]
        item, label, *_ = self._identity()
        values = {value.name: value for value in self._values() if value.name != "resolved"}
        values["actual"] = sound_unless(self._window_reasons(), values["actual"].element).element.label("actual")
        clusters = [extra for extra in self._extras() if extra.name == "cluster"]
        columns = [item, label, *values.values(), *clusters, *of_row]
        return self.dialect.computed_once(self._select(*columns).where(self._in_window())).subquery("every_row")

    @built_once
    def _facts(self, *, latest: bool) -> Subquery:
        """The values that are summed (y, w, s), and the columns by which they are grouped."""
        return self._facts_of(self._sound(latest=latest)).subquery("facts")

    @built_once
    def _facts_of_every(self, *, hashed: bool) -> Subquery:
        """The same for all rows of the window, ``hashed`` with ``hash`` and ``coming``.

        In rejected rows y and w are NULL and ``automated`` is 0. The other columns may be anything.
        """
        rows = self._every(hashed=hashed)
        more = [rows.c[name] for name in ("hash", "coming") if name in rows.c]
        return self._facts_of(rows, more, [rows.c.actual.is_not(None)]).subquery("facts")

    def _facts_of(
        self, rows: Subquery, more: Sequence[Expression] = (), counts: Sequence[Expression] = ()
    ) -> sa.Select[Any]:
        """The facts about the rows that fulfil all conditions of ``counts``."""
        decided = rows.c.predicted == ONE
        automated = sa.and_(*counts, decided, rows.c.score >= self._automate_at(rows.c.label))
        decision = sa.case((automated, whole_number(3)), (decided, whole_number(2)), else_=ZERO)
        cell = self.dialect.cell(rows.c.score)
        weight = rows.c.weight if self.layout.has("weight") else sa.cast(ONE, sa.Double)
        columns = {
            "s": rows.c.score,
            "y": self._outcome(rows),
            "w": sa.case((sa.and_(*counts), weight)) if counts else weight,
            "predicted": sa.case((decided, ONE), else_=ZERO),
            "automated": sa.case((automated, ONE), else_=ZERO),
            "cell": cell,
            "key": cell * whole_number(4) + decision,
        }
        kept: list[Expression] = [rows.c.item, rows.c.label]
        if "cluster" in rows.c:  # some exports write "none" as an empty text: such rows are no cluster
            kept.append(sa.func.nullif(rows.c.cluster, _EMPTY).label("cluster"))
        kept += [rows.c[name] for name in map(self._segment_key, self.source.segments) if name in rows.c]
        kept += [rows.c.version] if "version" in rows.c else []
        computed = [column.label(name) for name, column in columns.items()]
        return sa.select(*kept, *computed, *more)

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

    # --- expressions

    def _select(self, *columns: Expression) -> sa.Select[Any]:
        return sa.select(*columns).select_from(self.layout.relation)

    def _column(self, name: str) -> Expression:
        return self.layout.expression(name)

    def _number(self, name: str) -> Expression:
        return self.dialect.number(self._column(name), self.layout.columns[name].kind)

    def _instant(self, name: str) -> Expression:
        return self.dialect.instant(self._column(name), self.layout.columns[name].kind)

    def _text(self, name: str) -> Expression:
        return self.dialect.text(self._column(name))

    def _in_window(self) -> Expression:
        kind = self.layout.columns[self.source.window_on].kind
        return self._dated_within(self._moment("window_start", kind), self._moment("window_end", kind))

    def _between(self, start: datetime, end: datetime) -> Expression:
        kind = self.layout.columns[self.source.window_on].kind
        return self._dated_within(self.dialect.moment(start, kind), self.dialect.moment(end, kind))

    def _dated_within(self, start: Expression, end: Expression) -> Expression:
        name = self.source.window_on
        return self.dialect.within(self._column(name), self.layout.columns[name].kind, start, end)

    def _identity(self) -> list[sa.Label[Any]]:
        names = {"item": "item", "label": "label", "score_text": "score", "date_text": self.source.window_on}
        return [self._text(column).label(name) for name, column in names.items()]

    def _values(self) -> list[sa.Label[Any]]:
        score = self._number("score")
        assumed = sa.case((score >= sa.literal_column("0.5"), ONE), else_=ZERO)
        predicted = self._number("predicted") if self.layout.has("predicted") else assumed
        values = {"score": score, "actual": self._number("actual"), "predicted": predicted}
        if self.layout.has("weight"):
            values["weight"] = self._number("weight")
        values["resolved"] = self._instant("resolved_at")
        return [value.label(name) for name, value in values.items()]

    def _extras(self) -> list[sa.Label[Any]]:
        extras = [self._text("cluster").label("cluster")] if self.layout.has("cluster") else []
        named = {self._segment_key(segment): segment for segment in self.source.segments}
        if self.layout.has("model_version"):
            named["version"] = "model_version"
        return extras + [sa.func.coalesce(self._text(name), NO_VALUE).label(key) for key, name in named.items()]

    def _plainly(self, name: str) -> Expression:
        number = name in ("actual", "predicted", "weight")
        return self._number(name) if number else self._column(name)

    def _feature(self, name: str) -> Expression:
        kind = self.layout.columns[name].kind
        return self._number(name) if kind in NUMERIC else self._column(name)

    def _segment_key(self, segment: str | None) -> str:
        return "segment_" + str(self.source.segments.index(segment or ""))

    def _window_reasons(self) -> list[tuple[Expression, RejectReason]]:
        return [*self._row_reasons(), *self._date_reasons(in_window=True)]

    def _row_reasons(self) -> list[tuple[Expression, RejectReason]]:
        outcome: list[tuple[Expression, RejectReason]] = [
            (self._column("actual").is_(None), RejectReason.OUTCOME_MISSING),
            (false_or_null(self._number("actual").between(ZERO, ONE)), RejectReason.OUTCOME_OUT_OF_RANGE),
        ]
        return [*self._score_reasons(), *outcome, *self._decision_reasons(), *self._weight_reasons()]

    def _score_reasons(self) -> list[tuple[Expression, RejectReason]]:
        score, label = self._number("score"), self._text("label")
        return [
            (self._column("item").is_(None), RejectReason.ITEM_MISSING),
            # "" is no label: the history keeps the source as a whole under it
            (sa.or_(self._column("label").is_(None), label == ""), RejectReason.LABEL_MISSING),
            (false_or_null(self.dialect.byte_length(label).between(ONE, _LONGEST_LABEL)), RejectReason.LABEL_TOO_LONG),
            (self._column("score").is_(None), RejectReason.SCORE_MISSING),
            (
                self.dialect.not_a_number(self._column("score"), self.layout.columns["score"].kind),
                RejectReason.SCORE_NOT_A_NUMBER,
            ),
            (false_or_null(score.between(ZERO, ONE)), RejectReason.SCORE_OUT_OF_RANGE),
        ]

    def _decision_reasons(self) -> list[tuple[Expression, RejectReason]]:
        if not self.layout.has("predicted"):
            return []
        predicted = self._number("predicted")
        return [(false_or_null(sa.or_(predicted == ZERO, predicted == ONE)), RejectReason.PREDICTED_INVALID)]

    def _weight_reasons(self) -> list[tuple[Expression, RejectReason]]:
        if not self.layout.has("weight"):
            return []
        weight = self._number("weight")
        usable = sa.and_(weight >= _SMALLEST_WEIGHT, weight < _LARGEST_WEIGHT)
        return [(false_or_null(usable), RejectReason.WEIGHT_INVALID)]

    def _date_reasons(self, *, in_window: bool) -> list[tuple[Expression, RejectReason]]:
        """Missing, malformed, in the future. The date by which a row is in the window can only be in the future."""
        names = self._dates()
        doubtful = [name for name in names if not (in_window and name == self.source.window_on)]
        coming = names if self.sees_future else doubtful
        columns = [(self._column(name), self._instant(name)) for name in doubtful]
        missing = [column.is_(None) for column, _ in columns]
        malformed = [instant.is_(None) for _, instant in columns]
        future = [
            self._instant(name) > self._moment("now", self.layout.columns[name].kind)
            for name in (coming if in_window else names)
        ]
        found = (
            (missing, RejectReason.DATE_MISSING),
            (malformed, RejectReason.DATE_MALFORMED),
            (future, RejectReason.DATE_IN_FUTURE),
        )
        return [(sa.or_(*conditions), reason) for conditions, reason in found if conditions]

    def _automate_at(self, label: Expression) -> Expression:
        special = {name: each.automate_at for name, each in self.source.labels.items() if each.automate_at is not None}
        default = sa.literal(float(self.source.automate_at), sa.Double)
        if not special:
            return default
        cases = ((label == sa.literal(name, sa.Text), sa.literal(float(at), sa.Double)) for name, at in special.items())
        return sa.case(*cases, else_=default)

    def _outcome(self, rows: Subquery) -> Expression:
        actual, predicted = rows.c.actual, rows.c.predicted
        if self.source.score_is == "probability_of_label":
            return actual
        return predicted * actual + (ONE - predicted) * (ONE - actual)

    @property
    def _whole_outcomes(self) -> bool:
        """Whether every outcome of a sound row is 0 or 1 by the type of its column. Decisions always are."""
        return self.layout.columns["actual"].kind in ("integer", "boolean")

    def _sums(self, facts: FromClause) -> list[sa.Label[Any]]:
        w, s, y = facts.c.w, facts.c.s, facts.c.y
        sums: dict[str, Expression]
        if self.layout.has("weight"):
            products = {"w": w, "w2": w * w, "ws": w * s, "wy": w * y, "wsy": w * s * y, "ws2": w * s * s}
            sums = {name: self.dialect.exact_sum(value, bounded=False) for name, value in products.items()}
        else:  # every weight is 1: the sums of weights are the number of rows
            exact, hit = self.dialect.exact_sum_of_group, y == ONE
            sums = {"ws": exact(s), "ws2": exact(s * s)}
            if self._whole_outcomes:
                sums |= {"wy": sa.func.count(sa.case((hit, ONE))), "wsy": sa.func.coalesce(exact(s, hit), ZERO)}
            else:
                sums |= {"wy": exact(y), "wsy": exact(s * y)}
        return [sa.func.count().label("n"), *(value.label(name) for name, value in sums.items())]


def _moments(window: Window, now: datetime) -> dict[str, datetime]:
    return {"window_start": window.start, "window_end": window.end, "now": now}


def _parameter(name: str, kind: Kind) -> str:
    return f"{name}_{kind}"


@lru_cache(16)
def _bound_values(dialect: Dialect, kinds: tuple[Kind, ...], window: Window, now: datetime) -> Mapping[str, Any]:
    """The values of the moments by parameter, for columns of these kinds."""
    moments = _moments(window, now).items()
    return {_parameter(name, kind): dialect.bound(when, kind).value for kind in kinds for name, when in moments}


def _upper_edge(cell: Expression, uppers: Sequence[int]) -> Expression:
    """The smallest of the upper edges that is not below the cell."""
    *first, last = uppers
    cases = [(cell <= whole_number(upper), whole_number(upper)) for upper in first]
    return sa.case(*cases, else_=whole_number(last)) if cases else whole_number(last)


def whole_number(number: int) -> Expression:
    """A whole number as a literal of the statement."""
    return sa.literal_column(str(int(number)))


def _sum_of_whole(value: Expression) -> Expression:
    """The sum of whole numbers in double precision."""
    return sa.cast(sa.func.sum(sa.cast(value, sa.BigInteger)), sa.Double)


def _feature_key(index: int) -> str:
    return f"feature_{index}"


def false_or_null(condition: Expression) -> Expression:
    """Whether a condition is false or NULL."""
    return sa.not_(sa.func.coalesce(condition, sa.false()))


def first_reason(reasons: Sequence[tuple[Expression, RejectReason]]) -> sa.Label[Any]:
    """The first reason that holds, as text; NULL if none does."""
    if not reasons:
        return sa.cast(sa.null(), sa.Text).label("reason")
    cases = ((condition, sa.literal(reason.value, sa.Text)) for condition, reason in reasons)
    return sa.case(*cases, else_=sa.null()).label("reason")


def sound_unless(reasons: Sequence[tuple[Expression, RejectReason]], value: Expression = ONE) -> sa.Label[Any]:
    """``value`` if no reason holds, else NULL. Reasons that imply a later one are left out.

    The rows are chosen by IS NOT NULL, which PostgreSQL expects to hold for nearly all rows. Of ``reason IS NULL`` it
    expects one row in 200, and then sorts rows that it could hash.
    """
    cases = [(condition, sa.null()) for condition, reason in reasons if reason not in _NARROWER]
    return (sa.case(*cases, else_=value) if cases else value).label("sound")


def identified(rows: Subquery, reason: Expression) -> sa.Select[Any]:
    """The columns that are shown of rejected rows."""
    return sa.select(reason.label("reason"), rows.c.item, rows.c.label, rows.c.score_text, rows.c.date_text)
