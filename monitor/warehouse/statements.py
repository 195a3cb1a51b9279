"""The statements of a reading: the rows that are set aside, and the sums that leave the warehouse.

They are built on the levels of ``row_levels.py``; counts are in ``count_statements.py``, sums within items and clusters
in ``cluster_sums.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Generic, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.expression import Subquery

from monitor.core.records import RejectReason
from monitor.warehouse.count_statements import CountStatements
from monitor.warehouse.dialects import (
    COUNT,
    DATED,
    EMPTY,
    HALF,
    ONE,
    ZERO,
    Arrays,
    Expression,
    Statement,
    double,
    labelled,
    place_over,
)
from monitor.warehouse.row_levels import feature_key, identified, whole_number


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """Which rows: those whose decision was ``right`` (or wrong), with scores from ``least`` to ``most``, inclusive.

    ``label`` None means any label, ``segment`` (column, value) only rows of that part. At most ``limit`` rows are
    given, those with the most confident decisions first.
    """

    label: str | None = None
    right: bool = False
    least: float = 0.0
    most: float = 1.0
    limit: int = 20
    segment: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One row of the warehouse with its score, decision and truth. ``resolved_at`` is in UTC.

    ``true_labels`` are the labels that are true for the item, where rows of the source say so.
    """

    item: str
    label: str
    score: float
    actual: float
    predicted: bool
    resolved_at: datetime
    segments: Mapping[str, str]
    true_labels: tuple[str, ...] = ()


_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLES = 20
"""So many rows are shown of each reason."""
_HASH_BITS = 32  # of the md5 in hexadecimal, whose first digits are compared


@dataclass(frozen=True, slots=True)
class Statements(CountStatements):
    """Every statement about one source in one window."""

    # --- rows set aside

    def undated(self) -> Statement:
        """(reason, n) over the rows outside the window whose date is missing, malformed or in the future."""
        rows = self._undated()
        return sa.select(rows.c.reason, COUNT).group_by(rows.c.reason)

    def repeated(self) -> Statement:
        """(n): how many sound rows repeat an (item, label) of the window."""
        rows = self._every()
        pairs = sa.select((sa.func.count() - ONE).label("n")).select_from(rows).group_by(rows.c.item, rows.c.label)
        more = pairs.having(sa.func.count() > ONE).subquery("repeated")
        return sa.select(sa.cast(sa.func.coalesce(sa.func.sum(more.c.n), ZERO), sa.BigInteger).label("n"))

    def examples(self, reasons: Collection[RejectReason]) -> Statement:
        """(reason, item, label, score, date) of at most 20 rejected rows of the window for each reason, as text.

        Rows of other reasons may be included.
        """
        return self._first_of(sa.union_all(*self._set_aside_for(reasons)).subquery("examples"))

    def undated_examples(self) -> Statement:
        """The same for the rows outside the window that :meth:`undated` counts."""
        rows = self._undated()
        return self._first_of(identified(rows, rows.c.reason).subquery("examples"))

    def _first_of(self, rows: Subquery) -> Statement:
        texts = [rows.c[name] for name in ("item", "label", "score_text", "date_text")]
        order = [self.dialect.ordered(text).nulls_last() for text in texts]
        place = place_over(partition_by=rows.c.reason, order_by=order).label("place")
        placed = sa.select(rows, place).subquery("placed")
        names = {"reason": "reason", "item": "item", "label": "label", "score": "score_text", "date": "date_text"}
        columns = (placed.c[column].label(name) for name, column in names.items())
        return sa.select(*columns).where(placed.c.place <= whole_number(EXAMPLES))

    def _set_aside_for(self, reasons: Collection[RejectReason]) -> Iterator[Statement]:
        """The rejected rows of the window, one SELECT for each level at which one of the reasons can occur."""
        rows = self._judged()
        yield identified(rows, rows.c.reason).where(rows.c.reason.is_not(None))
        if RejectReason.DUPLICATE in reasons:
            rows = self._ranked(self._of_repeated())
            yield identified(rows, sa.literal(RejectReason.DUPLICATE.value, sa.Text)).where(rows.c.place > ONE)

    def _of_repeated(self) -> Subquery:
        """The sound rows of the first items with a repeated (item, label): enough to show, and few to sort."""
        rows, same, by_bytes = self._every(), self._every(), self.dialect.ordered
        pairs = sa.select(same.c.item).group_by(same.c.item, same.c.label).having(sa.func.count() > ONE)
        items = sa.select(pairs.subquery("pairs").c.item).distinct().subquery("items")
        first = sa.select(items.c.item).order_by(by_bytes(items.c.item)).limit(EXAMPLES).subquery("first_items")
        return sa.select(rows).select_from(rows.join(first, rows.c.item == first.c.item)).subquery("of_items")

    # --- whether rows have changed, and dates

    def labels_beyond(self, most: int) -> Statement:
        """(n): how many labels four times ``most`` rows of the window have. Ids would all differ."""
        rows = self._select(self._text("label").label("label")).where(self._in_window()).limit(4 * most)
        return sa.select(sa.func.count(rows.subquery("first_rows").c.label.distinct()).label("n"))

    def fingerprint(self) -> Statement:
        """(n, hash, coming): one scan that shows whether the rows of the window, or which of them count, have changed.

        ``hash`` is the sum of a hash of each row, over every column that a reading uses. ``coming`` counts rows that
        lie in the future: they count once their date has passed.
        """
        coming = self._coming()
        sums: dict[str, Expression] = {"n": sa.func.count(), "hash": sa.func.sum(self._hash())}
        sums["coming"] = coming if coming is ZERO else sa.func.sum(coming)
        return self._select(*labelled(sums)).where(self._in_window())

    def dated(self, start: datetime, end: datetime) -> Statement:
        """(n): 1 for each row, sound or not, with start <= its date < end."""
        return self._select(ONE.label("n")).where(self._between(start, end))

    def newest(self, before: datetime) -> Statement:
        """(instant): the newest date of all rows before a moment, as :meth:`Dialect.instant` gives it."""
        instant = self._instant(self.source.window_on)
        return self._select(sa.func.max(instant).label("instant")).where(self._between(_FIRST, before))

    # --- sums

    def versions(self) -> Statement:
        """(version, n): the rows of each model version."""
        rows = self._sound()
        return sa.select(rows.c.version, COUNT).group_by(rows.c.version)

    def pairs(self, most: int) -> Statement:
        """(a, b, n, true, both_true, predicted, both_predicted) by pair of the ``most`` labels with the most true rows.

        The sums are over the items on which both labels were scored, with the weights of b's rows. ``true`` sums those
        where b is true, ``predicted`` those where b was predicted, ``both_...`` those where the same holds for a.
        """
        rows, by_bytes = self._sound(), self.dialect.ordered
        bounded = "weight" not in self.layout
        hits = self.dialect.exact_sum(rows.c.actual, bounded=True)
        frequent = sa.select(rows.c.label).group_by(rows.c.label).order_by(hits.desc(), by_bytes(rows.c.label))
        chosen = frequent.limit(most).subquery("chosen")
        weight = rows.c.weight if "weight" in rows.c else double(ONE)
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
        return sa.select(*named, COUNT, *sums).select_from(joined).group_by(a.c.label, b.c.label)

    # --- rows that leave the warehouse

    def feature_sample(self, limit: int, halvings: int = 0) -> Statement:
        """The features of ``limit`` items, or of all if there are fewer, one row each, in the order of their md5.

        Items are drawn by :meth:`_stratified` from the share 2 ** -``halvings`` with the smallest md5, so that few are
        sorted if there are many. An item's features are those of its first label's latest row.
        """
        rows, by_bytes = replace(self, features=True)._sound(), self.dialect.ordered
        if halvings:
            least = sa.literal(f"{2 ** (_HASH_BITS - halvings):0{_HASH_BITS // 4}x}", sa.Text)
            rows = sa.select(rows).where(by_bytes(self.dialect.md5(rows.c.item)) < least).subquery("candidates")
        chosen = self._stratified(rows, limit).subquery("chosen")
        features = [rows.c[feature_key(index)] for index in range(len(self.source.features))]
        place = self._place(rows, [rows.c.item], [by_bytes(rows.c.label)])
        # IN, not a join: SQLite would scan the rows once per chosen item
        of_chosen = rows.c.item.in_(sa.select(chosen.c.item))
        ranked = sa.select(rows.c.item, *features, place).where(of_chosen).subquery("ranked")
        shown = [ranked.c[feature_key(index)] for index in range(len(self.source.features))]
        return sa.select(*shown).where(ranked.c.place == ONE).order_by(*self._by_hash(ranked.c.item))

    def _stratified(self, rows: Subquery, limit: int) -> Statement:
        """At most ``limit`` of the items of ``rows``, by their md5.

        The strata are the labels that were predicted (an item's first one, or none). Each has the same share of the
        sample as of the items.
        """
        by_bytes = self.dialect.ordered
        label = sa.case((rows.c.predicted == ONE, by_bytes(rows.c.label)))
        stratum = sa.func.coalesce(sa.func.min(label), EMPTY).label("stratum")
        items = sa.select(rows.c.item, stratum).group_by(rows.c.item).subquery("items")
        order = (by_bytes(items.c.stratum), *self._by_hash(items.c.item))
        place, size = place_over(order_by=order).label("place"), sa.func.count().over().label("n")
        placed = sa.select(items.c.item, place, size).subquery("placed")
        # every (n / limit)-th item: those at which place * limit / n reaches the next whole number
        few, reached = placed.c.n <= limit, (placed.c.place * limit) % placed.c.n < limit
        return sa.select(placed.c.item).where(sa.or_(few, reached))

    def behind(self, query: ExampleQuery) -> Statement:
        """(item, label, score, actual, predicted, resolved, segment_0 ...) of the rows behind a finding.

        The rows with the most confident decisions come first. A decision is right if it agrees with at least half of
        the truth, since annotators may differ. Confidence is the score, or 1 - score if the label was not predicted.
        """
        rows, by_bytes = self._sound(), self.dialect.ordered
        decided = rows.c.predicted == ONE
        agreed = sa.case((decided, rows.c.actual), else_=ONE - rows.c.actual)
        confidence: Expression = rows.c.score
        if self.source.score_is == "probability_of_label":
            confidence = sa.case((decided, rows.c.score), else_=ONE - rows.c.score)
        least, most = (sa.literal(float(limit), sa.Double) for limit in (query.least, query.most))
        conditions = [agreed >= HALF if query.right else agreed < HALF, rows.c.score.between(least, most)]
        if query.label is not None:
            conditions.append(rows.c.label == sa.literal(query.label, sa.Text))
        if query.segment is not None:
            column, value = query.segment
            conditions.append(rows.c[self._segment_key(column)] == sa.literal(value, sa.Text))
        columns = [rows.c[name] for name in ("item", "label", "score", "actual", "predicted", "resolved")]
        segments = [rows.c[self._segment_key(segment)] for segment in self.source.segments]
        order = (confidence.desc(), by_bytes(rows.c.item), by_bytes(rows.c.label))
        return sa.select(*columns, *segments).where(*conditions).order_by(*order).limit(query.limit)

    def true_of(self, items: Collection[str]) -> Statement:
        """(item, label): the labels that the truth of these items names, or at least half of it, by bytes."""
        names_it, by_bytes = "true_label" in self.layout, self.dialect.ordered
        rows = replace(self, features=names_it)._sound()
        mine = rows.c.item.in_([sa.literal(item, sa.Text) for item in items])
        label, true = (rows.c.true_label, sa.true()) if names_it else (rows.c.label, rows.c.actual >= HALF)
        named = sa.select(rows.c.item, label.label("label")).where(mine, true)
        return named.order_by(by_bytes(rows.c.item), by_bytes(label))

    def raw(self, names: Sequence[str]) -> Statement:
        """The columns ``names`` as c0, c1 ... of every row of the window."""
        columns = (self._plainly(name).label(f"c{place}") for place, name in enumerate(names))
        return self._select(*columns).where(self._in_window())

    def _plainly(self, name: str) -> Expression:
        """A column as a driver can fetch it: of dates that Python does not have, the first or the last that it has."""
        column, kind = self.layout[name]
        if name in ("actual", "predicted", "weight"):
            return self._number(name)
        return self.dialect.nearest_of_python(self._instant(name), kind) if kind in DATED else column


Asked = TypeVar("Asked", bound=Statements)


@dataclass(frozen=True, slots=True)
class Rows(Generic[Asked]):
    """The rows of a window: statements about them, and the connection that answers these."""

    connection: sa.Connection
    statements: Asked

    def fetch(self, statement: sa.Executable) -> Arrays:
        """The columns of a result of many rows, as arrays of one length."""
        return self.statements.dialect.arrays(self.connection, statement)

    def ask(self, statement: sa.Executable) -> list[dict[str, Any]]:
        """The rows of a result of few rows, by the names of its columns."""
        return [row._asdict() for row in self.connection.execute(statement)]

    def number(self, statement: sa.Executable) -> int:
        """The whole number that is the result."""
        return int(self.connection.execute(statement).scalar_one())

    def repeated(self) -> int:
        """How many sound rows repeat an (item, label)."""
        return self.number(self.statements.repeated())

    def counted(self, repeated: int | None = None) -> Self:
        """The rows that count: where sound rows repeat an (item, label), the latest. ``repeated`` says whether."""
        repeated = self.repeated() if repeated is None else repeated
        return replace(self, statements=replace(self.statements, latest=True)) if repeated else self

    def fingerprint(self) -> tuple[int, str]:
        """How many rows there are, and a text that changes with them or with the configuration of the source."""
        (row,) = self.connection.execute(self.statements.fingerprint())
        total = tuple(whole_number_of(value) for value in row)
        text = repr((self.statements.source.model_dump_json(), [total]))
        return total[0], hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def whole_number_of(value: Any) -> int:
    """A value of a result as an int; 0 if it is NULL. Some drivers give the text of decimals."""
    return int(Decimal(value)) if isinstance(value, str) else int(value or 0)
