"""Looks at a whole relation for what a reading cannot see: labels that differ by a blank, joins, and ties.

It serves `calmon check` and `calmon init`; a run looks at a join again where rows repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from monitor.config.model import TruthConfig
from monitor.warehouse.checks import Layout, OpenSource, find, labels_of, no_labels_of, relation_of
from monitor.warehouse.dialects import COUNT, ONE, ZERO, Expression
from monitor.warehouse.relation import RelationProblem
from monitor.warehouse.shapes import joined_layout, read, read_truths, same

MOST_NAMES = 2_000
"""So many of the most frequent names are compared."""
SEVERAL_ALLOWED = 0.02
"""The share of predictions that may meet several truths where nothing says which of them counts."""
LOOKED_AT = 100
"""So many ids of predictions that meet no truth are looked for in another writing."""
LONGEST_ID = 12
"""Numbers of up to so many digits are looked for with zeros in front."""


@dataclass(frozen=True, slots=True)
class Join:
    """How many predictions met no truth, one, or several; ``on`` names the columns.

    ``inexact``: some ids are equal to several other ids, as numbers of 19 digits are in double precision.
    ``examples`` are an id of the predictions and one of the truths. ``otherwise``: of ``looked_at`` ids that met no
    truth, those that would meet one that no prediction meets, if both were written alike; as that truth is written.
    """

    none: int
    one: int
    several: int
    inexact: bool
    on: str
    examples: tuple[str, str] = ("", "")
    looked_at: int = 0
    otherwise: Mapping[str, str] = field(default_factory=dict)

    @property
    def predictions(self) -> int:
        """All predictions."""
        return self.none + self.one + self.several


@dataclass(frozen=True, slots=True)
class Examination:
    """The names that are predicted (or scored) and those that are true, with their rows; the join, if there is one.

    ``no_labels`` are columns that are named like those of labels, and belong to none
    (:data:`~monitor.warehouse.checks.NO_LABELS`).
    """

    predicted: Mapping[str, int] = field(default_factory=dict)
    true: Mapping[str, int] = field(default_factory=dict)
    join: Join | None = None
    no_labels: tuple[str, ...] = ()


def examine(opened: OpenSource) -> Examination:
    """Examine a source. Raises :class:`RelationError` if its relation does not meet the contract."""
    layout, available = joined_layout(opened)
    columns, wide = [column for column, _ in available], opened.source.wide
    predicted: dict[str, int] = {}
    true: dict[str, int] = {}
    if "true_label" in layout:
        true = _names(opened, layout, "true_label")
        column = next((each for each in ("predicted_label", "label") if each in layout), None)
        if column is not None:
            predicted = _names(opened, layout, column)
        if wide is not None:
            predicted = dict.fromkeys(wide.labels or labels_of(wide.score, columns), 0) | predicted
    aside = () if wide is None or wide.labels else no_labels_of(wide.score, columns)
    return Examination(predicted, true, join_of(opened, closely=True), tuple(aside))


def _names(opened: OpenSource, layout: Layout, column: str) -> dict[str, int]:
    """The most frequent values of a column of labels, with their rows."""
    text = opened.dialect.label_text(*layout[column]).label("name")
    values = (
        sa.select(text).select_from(layout.relation).where(layout.expression(column).is_not(None)).subquery("names")
    )
    rows = COUNT
    query = sa.select(values.c.name, rows).group_by(values.c.name).order_by(rows.desc()).limit(MOST_NAMES)
    return {str(label): int(n) for label, n in opened.connection.execute(query) if label != ""}


def newest_rows(opened: OpenSource) -> tuple[int, int]:
    """(replaced, ties): what becomes of rows of which ``latest_by`` takes the newest of each item.

    How many are not read since another one is newer, and how many items have several newest ones that differ in what
    was predicted.
    """
    latest_by, dialect = opened.source.latest_by, opened.dialect
    if not latest_by:
        return 0, 0
    layout, _ = joined_layout(opened)
    within = [layout.expression(each).label(each) for each in ("item", "label") if each in layout]
    said = next((each for each in ("predicted_label", "score", "confidence") if each in layout), "item")
    dates = [dialect.instant(*layout[each]) for each in latest_by]
    place = sa.func.rank().over(partition_by=within, order_by=[date.desc().nulls_last() for date in dates])
    value = dialect.ordered(dialect.text(layout.expression(said))).label("said")
    rows = sa.select(*within, value, place.label("place")).select_from(layout.relation)
    ranked = rows.where(layout.expression("item").is_not(None)).subquery("ranked_rows")
    newest = sa.case((ranked.c.place == ONE, ranked.c.said))
    beyond, tied = sa.func.count() - ONE, sa.case((sa.func.min(newest) != sa.func.max(newest), ONE))
    by_item = sa.select(beyond.label("beyond"), tied.label("tied")).group_by(*(ranked.c[each.name] for each in within))
    items = by_item.subquery("items")
    sums = sa.select(sa.func.coalesce(sa.func.sum(items.c.beyond), ZERO), sa.func.count(items.c.tied))
    replaced, ties = opened.connection.execute(sums).one()
    return int(replaced), int(ties)


Sides = tuple[sa.Subquery, sa.Subquery, Expression]
"""The ids of predictions and of truths, each with its rows as ``n``, and when two of them are equal."""


def join_of(opened: OpenSource, *, closely: bool = False) -> Join | None:
    """How predictions and truths of a source meet, by the ids of both; None if they are one table.

    ``closely``: ids that meet nothing are also looked for in another writing. Raises as :func:`joined_layout`.
    """
    truth, execute = opened.source.truth, opened.connection.execute
    if truth is None:
        return None
    sides = _sides(opened, truth)
    one, other, equal = sides
    keys_of_one = [one.c[f"k{place}"] for place in range(len(truth.on))]
    met = sa.select(
        one.c.n, sa.func.count(other.c.n).label("ids"), sa.func.sum(other.c.n).label("truths")
    ).select_from(one.join(other, equal, isouter=True)).group_by(*keys_of_one, one.c.n).subquery("met")  # fmt: skip
    truths: Expression = sa.case((met.c.truths > ONE, sa.literal_column("2")), (met.c.truths == ONE, ONE), else_=ZERO)
    sums = (sa.func.sum(met.c.n), sa.func.sum(met.c.ids), sa.func.count())
    counted = {int(each): map(int, numbers) for each, *numbers in execute(sa.select(truths, *sums).group_by(truths))}
    none, (one_truth, ids, keys), (several, more_ids, more_keys) = (tuple(counted.get(n, (0, 0, 0))) for n in range(3))
    shared = sa.select(ONE).select_from(one).where(equal).correlate(other).exists()
    others = execute(sa.select(sa.func.count()).select_from(other).where(shared)).scalar_one()
    inexact = ids + more_ids > min(keys + more_keys, int(others))
    text = opened.dialect.text  # PostgreSQL has no least UUID
    mine, its = (str(execute(sa.select(sa.func.min(text(side.c.k0)))).scalar() or "") for side in (one, other))
    on = ", ".join(mine if mine == its else f"{mine} = {its}" for mine, its in truth.on.items())
    found = Join(none[0], one_truth, several, inexact, on, (mine, its))
    return _looked_at(opened, sides, found) if closely and found.none and len(truth.on) == 1 else found


def _sides(opened: OpenSource, truth: TruthConfig) -> Sides:
    sides = []
    kinds = []
    relations = (
        ("predictions", truth.on, read(opened, relation_of(opened), "predictions")),
        ("truths", truth.on.values(), read_truths(opened, truth)),
    )
    for alias, names, (clause, available) in relations:
        columns = [column for each in names if (column := find(each, available)) is not None]
        keys: list[Expression] = [sa.column(column.name, _selectable=clause) for column in columns]
        named = [key.label(f"k{place}") for place, key in enumerate(keys)]
        sides.append(sa.select(*named, COUNT).select_from(clause).group_by(*keys).subquery(alias))
        kinds.append([column.kind for column in columns])
    one, other = sides
    equal = (
        same(opened, (one.c[f"k{place}"], left), (other.c[f"k{place}"], right))
        for place, (left, right) in enumerate(zip(*kinds, strict=True))
    )
    return one, other, sa.and_(*equal)


def _looked_at(opened: OpenSource, sides: Sides, join: Join) -> Join:
    """The join, with what some ids that meet no truth would meet if blanks, zeros in front and capitals were no matter.

    They are always the same ids. The truths are looked for by the forms that such an id may have.
    """
    (one, other, equal), dialect, execute = sides, opened.dialect, opened.connection.execute
    mine, its = dialect.text(one.c.k0), dialect.text(other.c.k0)
    apart = one.join(other, equal, isouter=True)
    some = sa.select(mine).select_from(apart).where(other.c.n.is_(None), one.c.k0.is_not(None))
    ids = [str(each) for (each,) in execute(some.order_by(dialect.md5(mine)).limit(LOOKED_AT))]
    forms = sorted({form for each in ids for form in _forms_of(each)})
    back = other.join(one, equal, isouter=True)
    unmet = sa.select(its).select_from(back).where(one.c.n.is_(None), sa.func.trim(its).in_(forms))
    found = {_plain_id(str(each)): str(each) for (each,) in execute(unmet)} if forms else {}
    otherwise = {each: found[_plain_id(each)] for each in ids if _plain_id(each) in found}
    return replace(join, looked_at=len(ids), otherwise=otherwise)


def _plain_id(text: str) -> str:
    """An id as people read it.

    >>> {_plain_id(each) for each in ("007", " 7", "7.0", "7\\r")}, _plain_id("T-1 ")
    ({'7'}, 't-1')
    """
    return text.strip().casefold().removesuffix(".0").lstrip("0") or "0"


def _forms_of(text: str) -> Iterator[str]:
    """How an id may be written elsewhere, but for blanks in front and behind."""
    plain, as_is = _plain_id(text), text.strip()
    padded = range(len(plain), LONGEST_ID + 1) if plain.isdecimal() else range(1)
    for form in (as_is, as_is.lower(), as_is.upper(), f"{plain}.0", *(plain.zfill(width) for width in padded)):
        yield from (form, f"{form}\r")


def refused_join(opened: OpenSource, join: Join) -> RelationProblem | None:
    """Why truths cannot be joined so; None if they can."""
    source = opened.source
    if join.inexact:
        found = f"ids that differ are equal by {join.on}, so that predictions meet the truths of other items"
        remedy = (
            "whole numbers beyond 2^53 are not exact in double precision: store the ids as whole numbers or as text"
        )
        return opened.problem(found, remedy)
    if source.latest_by or source.agreement_by or join.several <= SEVERAL_ALLOWED * join.predictions:
        return None
    found = f"{join.several:,} of {join.predictions:,} predictions meet several truths by {join.on}"
    remedy = "join by a column with one truth each, or write latest_by: resolved_at if the latest truth counts"
    return opened.problem(found, remedy)
