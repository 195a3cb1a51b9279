"""One reading of a source: the counts of one window, the rows that are set aside, and what depends on what."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.core.counts import INDEPENDENT, Counts, counts_from_groups, pool, rounded_effect
from monitor.core.counts_by_segment import CountsBySegment
from monitor.core.records import (
    TOO_MANY_VALUES,
    WHERES,
    Expected,
    RejectedCell,
    RejectedRows,
    RejectReason,
    ScoreIs,
    Window,
)
from monitor.core.rows import ProbabilityRows, RegressionRows
from monitor.core.unresolved import ScoreCounts, UnresolvedRows, score_counts
from monitor.inference.dependence import ClusterSums, design_effect, two_way_effect
from monitor.warehouse.asked_at_once import Answers, Question
from monitor.warehouse.counted_at_once import CountedAtOnce, Shown
from monitor.warehouse.dialects import COUNTED_BY_BITS, Arrays, Hashing
from monitor.warehouse.items import RANKS, NumberStatements, RankedStatements, WholeStatements
from monitor.warehouse.near_sums import completed
from monitor.warehouse.shown_rows import EXAMPLES, SHOWN, as_shown, order, unpacked
from monitor.warehouse.statements import Statements
from monitor.warehouse.unresolved import UnresolvedStatements
from monitor.warehouse.whole import ITEMS_AT_MOST, probability_rows, regression_rows, sampling

SEGMENT_VALUES = 200
"""A segment column with more values than this in one window is left out."""
COMBINED_VALUES = 40
"""The same limit if the values of several columns are combined."""
SHOWN_LENGTH = 200
"""An example shows at most this many characters of a value: enough to find the row."""

_WAYS: tuple[tuple[str, ...], ...] = (("item",), ("cluster",), ("item", "cluster"))
"""The columns that dependent rows share: the first alone, or all three ways where there are clusters."""
_SHOWN_TEXTS = ("reason", "example")
_ROUNDING = 1e-9
"""More than rounding can change per row: scores and outcomes are summed together or apart."""
Effects = tuple[float, ...]  # of all rows, of the predicted, of the automated ones
SegmentCounts = Mapping[tuple[str, str], Mapping[str, Counts]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The counts and samples of one source in one window.

    ``segments`` maps (column, value) to counts by label; they have the design effect of their label.
    ``whole_design_effect`` is that of the source as a whole, in which rows of one item are dependent.
    ``versions`` counts rows by model version ({} without that column). ``rows`` counts all rows behind the counts.
    ``quality`` has the rejected rows by reason, and the segments that were left out.

    ``items`` has the counts of items by metric, with an item's value as its outcome. Some kinds of source have more:
    ``ranked``, the counts of the k highest-scored labels of each item by k, all labels together; ``whole``, rows of
    probabilities; ``numbers``, rows of predicted numbers (``labels`` is then empty).
    ``rejected`` has the rejected rows of the window by label, score and outcome, without duplicates.
    ``unresolved`` has the rows that were predicted in the window, if the source has rows without a truth.
    ``fingerprint`` is that of :meth:`Warehouse.fingerprint`, if it was requested and the source has one.
    ``apart`` says whether the rows of some item are of several clusters, or only some of them of one.
    """

    source: str
    window: Window
    labels: Mapping[str, Counts]
    segments: SegmentCounts
    whole_design_effect: float
    versions: Mapping[str, int]
    quality: tuple[RejectedRows, ...]
    rows: int
    ranked: Mapping[int, Counts] = field(default_factory=dict)
    items: Mapping[str, Counts] = field(default_factory=dict)
    whole: ProbabilityRows | None = None
    numbers: RegressionRows | None = None
    rejected: tuple[RejectedCell, ...] = ()
    unresolved: UnresolvedRows | None = None
    fingerprint: str | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts by (segment, value) and label, where ("", "") is all rows; and the number of rows by model version."""

    of: Mapping[tuple[str, str], Mapping[str, Counts]]
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Items:
    """The sums of items over the rows that count, and how many rows repeat an (item, label).

    ``rows`` counts all rows of the window, ``kept`` those that are not rejected; both are None if they were not
    counted. ``fingerprint`` is None unless it was requested. ``latest``: the other statements are those of the latest
    rows, as they must be if rows repeat.
    """

    sums: Arrays
    repeated: int
    fingerprint: str | None = None
    rows: int | None = None
    kept: int | None = None
    latest: bool = False


@dataclass(frozen=True, slots=True)
class _Grouped:
    """The groups of the counts, by all rows and by ``segments``; the ``crowded`` segments are left out.

    ``clusters`` has the sums of each label within clusters, ``rejected`` the rejected rows, ``shown`` some of these;
    None: not read yet.
    """

    groups: Arrays
    segments: tuple[str, ...]
    crowded: tuple[str, ...]
    clusters: Arrays | None = None
    rejected: tuple[RejectedCell, ...] | None = None
    shown: Shown | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """The steps of one reading on one connection.

    What is ``expected`` decides by how many scans the rows are read; all find the same. ``answers`` are those that
    were asked before they are needed.
    """

    connection: sa.Connection
    name: str
    statements: Statements
    whole: bool = True
    hashed: bool = False
    expected: Expected = field(default_factory=Expected)
    answers: Answers = field(default_factory=Answers)

    def reading(self) -> Reading:
        """The whole reading: the sums, and the rejected rows by reason, if there are any."""
        grouped, found = self._grouped_and_items()
        latest = found.latest
        counted = self._counts(grouped.groups, grouped.segments, self._label_effects(grouped.clusters, latest=latest))
        labels = counted.of.get(("", ""), {})
        rows = sum(counts.rows for counts in labels.values())
        rejected, shown = self._rejected_beside(grouped, found)
        return Reading(
            source=self.name,
            window=self.statements.window,
            labels=labels,
            segments={key: of for key, of in counted.of.items() if key != ("", "")},
            whole_design_effect=self._effect_of_rows(found.sums, latest=latest),
            versions=counted.versions,
            quality=(*self._quality(found.repeated, rejected, shown), *self._left_out(grouped.crowded)),
            rows=rows,
            ranked=self._ranked(latest=latest),
            items=self._of_items(found.sums, latest=latest),
            whole=self._whole(latest=latest),
            rejected=rejected,
            fingerprint=found.fingerprint,
            apart=self._are_apart(found.sums),
        )

    def numbers(self) -> Reading:
        """The reading of a source of numbers, whose rows leave the warehouse; a sample if there are too many.

        Raises AssertionError for a source of another kind.
        """
        statements = self.statements
        if not isinstance(statements, NumberStatements):
            raise AssertionError("only a source of kind regression has numbers")
        latest = self.expected.repeats and self._asks_at_once
        self._ask(partial(_of_numbers, first=True), latest=latest)
        shown = self._shown_with(rejected=True, repeated=latest)
        repeated = self._number(statements.repeated())
        if repeated and not latest:
            latest = True
            self._ask(partial(_of_numbers, first=False), latest=True)
            shown = _together(shown, self._shown_with(rejected=False, repeated=True))
        total, rejected = self._number(statements.total(latest=latest)), self._rejected(latest=latest)
        rows = self._fetch(statements.numbers(ITEMS_AT_MOST, latest=latest))
        quality = self._quality(repeated, rejected, shown)
        return Reading(
            source=self.name, window=statements.window, labels={}, segments={}, whole_design_effect=1.0,
            versions=self._versions(latest=latest), quality=quality, rows=total,
            numbers=regression_rows(rows, total) if total else None, rejected=rejected,
        )  # fmt: skip

    def _number(self, statement: sa.Select[Any]) -> int:
        return int(self._fetch(statement)["n"][0])

    def _ranked(self, *, latest: bool) -> dict[int, Counts]:
        """The counts of the k highest-scored labels of each item, by k."""
        statements = self.statements
        if not self.whole or not isinstance(statements, RankedStatements):
            return {}
        columns = self._fetch(statements.ranked_groups(latest=latest))
        upto = np.asarray(columns.pop("rank"), dtype=np.int64)
        effects = self._rank_effects(statements, latest=latest) if len(upto) else {}
        found: dict[int, Counts] = {}
        for rank, effect in effects.items():
            parts = (_weighed(_chosen(columns, upto == k)) for k in RANKS if k <= rank)
            within = pool(counts_from_groups({**part}, score_is=statements.source.score_is) for part in parts)
            found[rank] = within.with_design_effect(effect)
        return found

    def _rank_effects(self, statements: RankedStatements, *, latest: bool) -> dict[int, float]:
        """The design effect of the rows within each rank, within items and clusters."""
        found = [self._fetch(statements.ranked_dependence(*within, latest=latest)) for within in self._ways()]
        sums = {rank: [ClusterSums.of(_row(_part(each, f"top_{rank}"), 0)) for each in found] for rank in RANKS}
        return {rank: _effect_within(*each) for rank, each in sums.items()}

    def _grouped_and_items(self) -> tuple[_Grouped, _Items]:
        """The groups of the counts, and the sums of items.

        Usually there are two scans, or one where repeated rows are expected: with the labels the sums of items show
        whether an (item, label) repeats. To group the rows by item and label would take more time and memory than both.
        """
        if self._asks_at_once and (self.expected.repeats or not self.statements.items_of_all_rows):
            return self._all_at_once(latest=self.expected.repeats, apart=self.expected.apart)
        if not self.statements.items_of_all_rows:
            return self._one_by_one()
        return self._items_first() if self._asks_at_once and self.expected.labels else self._counts_first()

    def _items_first(self) -> tuple[_Grouped, _Items]:
        """Two scans, of which the second asks for whatever turned up in the first, where labels are known before."""
        found = self._items(self.expected.labels)
        apart = self._are_apart(found.sums)
        if found.repeated:
            return self._all_at_once(latest=True, apart=apart or self.expected.apart)
        grouped = self._grouped_after(rejects=found.rows != found.kept, apart=apart and not self.expected.apart)
        if self.statements.dialect.one_state or _of_the_same_rows(grouped.groups, found):
            return grouped, found
        newer = self._items(self.expected.labels)
        if newer.repeated:
            return self._all_at_once(latest=True, apart=apart or self.expected.apart)
        # the first fingerprint: so that the rows which arrived meanwhile are seen as a change later
        return grouped, replace(newer, fingerprint=found.fingerprint)

    def _grouped_after(self, *, rejects: bool, apart: bool) -> _Grouped:
        """The groups, with the rejected rows if there are any; with the sums of clusters if items are ``apart``."""
        if apart:
            self._ask(self._of_counts_and_clusters, latest=False)
        counted = self.answers.of(self._counted_at_once(self.statements, beside=True))
        if counted is not None:
            return self._grouped_of(counted, latest=False, beside=True)
        if self._few_scans(rejects=rejects):
            return self._grouped_of(self._fetch(self._counted_at_once(self.statements)), latest=False)
        return self._grouped(latest=False)

    def _counts_first(self) -> tuple[_Grouped, _Items]:
        """The groups give the labels, and what turns up in the sums of items takes more scans."""
        grouped = self._grouped_after(rejects=self.expected.rejects, apart=False)
        found = self._items(_labels_of(grouped.groups))
        if found.repeated and self._asks_at_once:
            return self._all_at_once(latest=True, apart=self.expected.apart or self._are_apart(found.sums))
        found = replace(found, sums=self._with_clusters(found.sums, latest=found.latest, asked=self.expected.apart))
        same = self.statements.dialect.one_state or _of_the_same_rows(grouped.groups, found)
        if found.repeated or not same:
            groups = self._groups(grouped.segments, latest=found.repeated > 0)
            grouped = replace(grouped, groups=groups, clusters=None)
            grouped = grouped if same else replace(grouped, rejected=None, shown=None)
        return grouped, found

    def _all_at_once(self, *, latest: bool, apart: bool) -> tuple[_Grouped, _Items]:
        """As :meth:`_one_by_one`, by one scan; and by a second one of the ``latest`` rows if rows repeat after all.

        The sums of clusters are asked too if items are expected to be ``apart``; else by one more scan, if some are.
        """
        self._ask(partial(self._of_window, apart=apart), latest=latest)
        counted = self.answers.of(self._counted_at_once(self.statements, beside=True))
        if counted is None:
            raise AssertionError("the counts were not asked, and asked now they would be those of repeated rows too")
        fingerprint, repeated = self._fingerprint(), self._number(self.statements.repeated())
        sums = self._fetch(self.statements.of_items(latest=latest))
        if repeated and not latest:
            return self._all_at_once(latest=True, apart=apart or self._are_apart(sums))
        grouped = self._grouped_of(counted, latest=latest, beside=True)
        if latest:
            shown = _together(grouped.shown, self._shown_with(rejected=False, repeated=True))
            grouped = replace(grouped, shown=shown)
        sums = self._with_clusters(sums, latest=latest, asked=apart)
        return grouped, _Items(sums, repeated, fingerprint, latest=latest)

    def _one_by_one(self) -> tuple[_Grouped, _Items]:
        """One scan for each thing, for a source in which a row is counted by the other rows of its item."""
        fingerprint = self._fingerprint()  # first, so that rows which arrive meanwhile are seen as a change later
        repeated = self._number(self.statements.repeated())
        latest = repeated > 0
        grouped = self._grouped(latest=latest)
        sums = self._fetch(self.statements.of_items(latest=latest))
        return grouped, _Items(sums, repeated, fingerprint, latest=latest)

    def _with_clusters(self, sums: Arrays, *, latest: bool, asked: bool) -> Arrays:
        """The sums of items; after them those of clusters are asked if items are apart, unless they were ``asked``."""
        if not asked and self._are_apart(sums):
            self._ask(_of_clusters, latest=latest)
        return sums

    def _are_apart(self, sums: Arrays) -> bool:
        """Whether rows of one item are of different clusters: the sums of items say nothing about clusters then."""
        return self.statements.layout.has("cluster") and _whole_number(sums["apart"]) > 0

    # --- several questions at once

    @property
    def _asks_at_once(self) -> bool:
        dialect = self.statements.dialect
        return dialect.asks_at_once and dialect.few_scans != "never"

    def _ask(self, questions: Callable[[Statements, bool], Iterable[Question]], *, latest: bool) -> None:
        """Ask what will be needed by one statement, where that is one scan; of the ``latest`` rows, or of all."""
        if self._asks_at_once:
            kept = self.statements.over_kept_rows(placed=latest)
            known_as = tuple(questions(self.statements, latest))
            self.answers.ask(self.connection, kept, tuple(questions(kept, latest)), known_as)

    def _of_window(self, statements: Statements, latest: bool, *, apart: bool) -> Iterator[Question]:
        """What depends on no other answer, and what is right of all rows only if none repeats."""
        yield Question(self._counted_at_once(statements, beside=True), ("value", "label"))
        yield Question(statements.repeated())
        if self.hashed:
            yield Question(statements.fingerprint(), ("hash",))
        if latest:
            yield Question(statements.shown(rejected=False, repeated=True), _SHOWN_TEXTS)
        yield from self._of_rows(statements, latest)
        yield from _of_clusters(statements, latest) if apart else ()

    def _of_every_row(
        self, statements: Statements, latest: bool, *, labels: Sequence[str], hashing: Hashing | None
    ) -> Iterator[Question]:
        """The sums of items; how many rows repeat, where ``labels`` are none; those of clusters, if items are apart."""
        items = statements.items_of_every_row(labels, hashed=self.hashed, hashing=hashing)
        yield Question(items, ("hash",) if self.hashed else ())
        if not labels:
            yield Question(statements.repeated())
        yield from _of_clusters(statements, latest) if self.expected.apart else ()

    def _of_rows(self, statements: Statements, latest: bool) -> Iterator[Question]:
        """The sums of items and ranks."""
        yield Question(statements.of_items(latest=latest))
        if self.whole and isinstance(statements, WholeStatements):
            yield Question(statements.truths(latest=latest))
        if self.whole and isinstance(statements, RankedStatements):
            yield Question(statements.ranked_groups(latest=latest))
            yield from (Question(statements.ranked_dependence(*keys, latest=latest)) for keys in self._ways())

    def _ways(self) -> tuple[tuple[str, ...], ...]:
        return _WAYS if self.statements.layout.has("cluster") else _WAYS[:1]

    def _of_counts_and_clusters(self, statements: Statements, latest: bool) -> Iterator[Question]:
        yield Question(self._counted_at_once(statements, beside=True), ("value", "label"))
        yield from _of_clusters(statements, latest)

    def _few_scans(self, *, rejects: bool) -> bool:
        """Whether one scan takes the counts, the sums of clusters and the rejected rows, if it is for ``rejects``."""
        clusters, segments = self.statements.layout.has("cluster"), bool(self.statements.source.segments)
        return {
            "always": True, "never": False, "beyond counts": clusters or segments or rejects
        }[self.statements.dialect.few_scans]  # fmt: skip

    def _grouped(self, *, latest: bool) -> _Grouped:
        source = self.statements.source
        crowded = self._crowded(source.segments, SEGMENT_VALUES)
        segments = tuple(segment for segment in source.segments if segment not in crowded)
        return _Grouped(self._groups(segments, latest=latest), segments, tuple(crowded))

    def _grouped_of(self, counted: Arrays, *, latest: bool, beside: bool = False) -> _Grouped:
        """The same with the sums of clusters and the rejected rows, from the result of :meth:`_counted_at_once`."""
        statements, every = self.statements, self._counted_with(beside=beside)
        found = CountedAtOnce.of(counted)
        crowded = found.crowded(every, SEGMENT_VALUES)
        kept = tuple(name for name in every if name not in crowded)
        groups = completed(found.groups([every.index(name) + 1 for name in kept]))
        clusters = found.clusters(statements.sums_of_clusters) if statements.layout.has("cluster") else None
        grouped = _Grouped(groups, kept, tuple(crowded), clusters, _sorted_cells(found.rejected()), found.shown())
        if len(every) == len(statements.source.segments):
            return grouped
        by_segment = self._grouped(latest=latest)
        return replace(by_segment, clusters=clusters, rejected=grouped.rejected, shown=grouped.shown)

    def _counted_at_once(
        self, statements: Statements, *, beside: bool = False
    ) -> sa.Select[Any] | sa.CompoundSelect[Any]:
        """The statement for the counts, the sums of clusters and the rejected rows; ``beside`` other questions."""
        every, shared = self._counted_with(beside=beside), beside or statements.dialect.shares_rows
        asked = statements.in_shared_scan if shared else statements.in_one_scan
        versions = statements.layout.has("model_version")  # also as a segment, which may have too many values
        return asked(limit=SEGMENT_VALUES, segments=every, versions=versions)

    def _counted_with(self, *, beside: bool) -> tuple[str, ...]:
        """The segments that are counted by the same statement as all the rest; none if they are too many for one."""
        segments, dialect = tuple(self.statements.source.segments), self.statements.dialect
        shared = beside or dialect.shares_rows
        return () if shared and len(segments) > dialect.segments_at_once else segments

    def _counts_versions(self, segments: Sequence[str]) -> bool:
        """Whether rows are counted by model version apart from the segments."""
        return self.statements.layout.has("model_version") and "model_version" not in segments

    def _rejected_beside(self, grouped: _Grouped, found: _Items) -> tuple[tuple[RejectedCell, ...], Shown | None]:
        """The rejected rows, and some to show (None: not read yet). They are read only if there are any."""
        if found.rows is not None and found.rows == found.kept:
            return (), {}
        if grouped.rejected is not None:
            return grouped.rejected, grouped.shown
        statements = self.statements
        if not statements.items_of_all_rows:
            return self._rejected(latest=found.latest), None
        shared = statements.dialect.shares_rows
        asked = statements.rejected_in_shared_scan() if shared else statements.rejected_in_one_scan()
        counted = CountedAtOnce.of(self._fetch(asked))
        return _sorted_cells(counted.rejected()), counted.shown()

    def _items(self, named: Sequence[str]) -> _Items:
        """The sums of items and the fingerprint: one scan if labels are few, or have no bits, and none repeats."""
        statements, by_bits = self.statements, self.statements.dialect.counts_bits
        labels = named if not by_bits or len(named) <= COUNTED_BY_BITS else []
        hashing = statements.dialect.hashing(self.connection, labels) if labels and by_bits else None
        if len(named) > len(labels) or self.expected.apart:
            self._ask(partial(self._of_every_row, labels=labels, hashing=hashing), latest=False)
        sums = self._fetch(statements.items_of_every_row(labels, hashed=self.hashed, hashing=hashing))
        rows, kept, coming, again = (
            _whole_number(sums.pop(name, None)) for name in ("seen", "kept", "coming", "again")
        )
        total = (rows, _whole_number(sums.pop("hash", None)), coming)
        fingerprint = _as_text(statements.source, total) if self.hashed else None
        exactly = bool(labels) and not by_bits
        if again and self._asks_at_once:
            return _Items(sums, again)  # or fewer: all will be counted with the latest rows
        repeated = self._number(statements.repeated()) if not exactly and (again or (kept and not labels)) else again
        if repeated and self._asks_at_once:
            return _Items(sums, repeated)
        if repeated or again:
            sums = self._fetch(statements.of_items(latest=repeated > 0))
        return _Items(sums, repeated, fingerprint, rows, kept, repeated > 0)

    def _fingerprint(self) -> str | None:
        if not self.hashed:
            return None
        found = self.answers.of(self.statements.fingerprint())
        if found is None:
            return fingerprint_of(self.connection, self.statements)
        total = (_whole_number(found["n"]), _whole_number(found["hash"]), _whole_number(found["coming"]))
        return _as_text(self.statements.source, total)

    def _of_items(self, sums: Arrays, *, latest: bool) -> dict[str, Counts]:
        """The counts of items by metric, with an item's value as its outcome. Items of one cluster are dependent."""
        statements = self.statements
        if not self.whole or not _whole_number(sums["n"]):
            return {}
        nothing = dict.fromkeys(("predicted", "automated", "cell", "ws", "wsy", "ws2"), np.zeros(1))
        effects = self._item_effects(sums, latest=latest)
        found = {}
        for name in statements.item_metrics:
            columns = {**nothing, **{key: sums[key] for key in ("n", "w", "w2")}, "wy": sums[name]}
            counts = counts_from_groups({**columns}, score_is="probability_of_label")
            found[name] = counts.with_design_effect(effects[name]) if name in effects else counts
        return found

    def _item_effects(self, sums: Arrays, *, latest: bool) -> dict[str, float]:
        """The design effect of items within clusters by metric; none for a source without clusters."""
        metrics = self.statements.item_metrics
        if not self.statements.layout.has("cluster"):
            return {}
        if self._are_apart(sums):
            sums = self._fetch(self.statements.item_dependence(latest=latest))
            return {name: _effect_of(sums, name, 0) for name in metrics}
        row = _row(sums, 0)
        return {name: rounded_effect(design_effect(_of_item_values(row, name))) for name in metrics}

    def _effect_of_rows(self, sums: Arrays, *, latest: bool) -> float:
        """The design effect of all rows within items and clusters, from the sums of items if these suffice."""
        row = _row(sums, 0)
        rows = {name.removeprefix("rows_"): value for name, value in row.items() if name.startswith("rows_")}
        within_items = ClusterSums.of(rows)
        if not self.statements.layout.has("cluster"):
            return _effect_within(within_items)
        if self._are_apart(sums):
            asked = (self.statements.dependence(*keys, latest=latest) for keys in _WAYS[1:])
            return _effect_within(within_items, *(ClusterSums.of(_row(self._fetch(each), 0)) for each in asked))
        squares = ({name: row[f"{part}_{name}"] for name in ("aa", "aw", "cc")} for part in ("clusters", "both"))
        return _effect_within(within_items, *(ClusterSums.of(rows | each) for each in squares))

    def _whole(self, *, latest: bool) -> ProbabilityRows | None:
        """Whole rows of probabilities, of a sample of the items if there are too many."""
        statements = self.statements
        if not self.whole or not isinstance(statements, WholeStatements):
            return None
        found = self._fetch(statements.truths(latest=latest))
        items, true, scored = (int(found[name][0]) for name in ("items", "true_labels", "scored_labels"))
        if not items:
            return None
        share, least = sampling(items, true, scored)
        over = statements.over_kept_rows(placed=latest) if self._asks_at_once else statements  # they are read twice
        rows = self._fetch(over.whole_rows(latest=latest, share=share, least=least))
        return probability_rows(rows, items)

    def _fetch(self, statement: sa.Executable) -> Arrays:
        known = self.answers.of(statement)
        return self.statements.arrays(self.connection, statement) if known is None else known

    def _rejected(self, *, latest: bool) -> tuple[RejectedCell, ...]:
        """The rejected rows of the window by label, reason, place of the score and truth, sorted."""
        statements = self.statements
        of_items = [statements.untrue(latest=latest)] if isinstance(statements, WholeStatements) else []
        cells = [
            _rejected_cell(*row)
            for statement in (statements.rejected(), *of_items)
            for row in zip(*map(_optional, self._fetch(statement).values()), strict=True)
        ]
        return _sorted_cells(cells)

    def _quality(
        self, repeated: int, rejected: Sequence[RejectedCell], shown: Shown | None = None
    ) -> tuple[RejectedRows, ...]:
        """The rejected rows by reason, with examples; ``shown`` are those of rows of the window, None: not read yet."""
        beside = {RejectReason.DUPLICATE.value: repeated}
        for reason, n in self.statements.result(self.connection, self.statements.undated()):
            beside[reason] = beside.get(reason, 0) + int(n)
        found = Counter(beside)
        for cell in rejected:
            found[cell.reason] += cell.rows
        some = [reason for reason in RejectReason if found.get(reason.value, 0) > 0]
        asked = some if shown is None else [reason for reason in some if beside.get(reason.value, 0) > 0]
        if shown is not None and RejectReason.DUPLICATE.value in shown:  # all of them: none lies outside the window
            asked = [reason for reason in asked if reason is not RejectReason.DUPLICATE]
        examples = self._examples(asked, shown)
        return tuple(
            RejectedRows(self.name, reason.value, found[reason.value], examples.get(reason.value, ()))
            for reason in some
        )

    def _examples(
        self, reasons: Sequence[RejectReason], shown: Shown | None
    ) -> Mapping[str, tuple[Mapping[str, str | None], ...]]:
        """Examples of rejected rows by reason, sorted: those that are ``shown`` already, and others for ``reasons``."""
        found: dict[str, list[Mapping[str, str | None]]] = {
            reason: list(rows) for reason, rows in (shown or {}).items()
        }
        if reasons:
            examples = self.statements.examples(tuple(reasons), in_window=shown is None)
            for row in self.statements.result(self.connection, examples).mappings():
                found.setdefault(str(row["reason"]), []).append({name: as_shown(row[name]) for name in SHOWN})
        return {
            reason: tuple({name: _shown(row[name]) for name in SHOWN} for row in sorted(rows, key=order)[:EXAMPLES])
            for reason, rows in found.items()
        }

    def _shown_with(self, *, rejected: bool, repeated: bool) -> Shown | None:
        """Rows to show that were asked before, by reason; None if they were not."""
        columns = self.answers.of(self.statements.shown(rejected=rejected, repeated=repeated))
        if columns is None:
            return None
        found: dict[str, list[Mapping[str, str | None]]] = {}
        for reason, text in zip(*columns.values(), strict=True):
            found.setdefault(str(reason), []).append(unpacked(str(text)))
        return found

    def _crowded(self, segments: Sequence[str], limit: int) -> list[str]:
        """The segments with more than ``limit`` values: grouping by an id, say, would fetch nearly every row."""
        if not segments:
            return []
        crowded = self._beyond(segments, limit, sound=False)
        return self._beyond(crowded, limit, sound=True) if crowded else []  # values of rejected rows do not count

    def _beyond(self, segments: Sequence[str], limit: int, *, sound: bool) -> list[str]:
        found = self._fetch(self.statements.many_values(segments, limit, sound=sound))
        many = dict(zip(found["place"].tolist(), found["n"].tolist(), strict=True))
        return [segment for place, segment in enumerate(segments) if many.get(place, 0) > limit]

    def _left_out(self, segments: Sequence[str]) -> tuple[RejectedRows, ...]:
        """A record of the segments that were left out. Their rows still count."""
        columns = tuple({"segment": segment, "values": f"more than {SEGMENT_VALUES}"} for segment in segments)
        return (RejectedRows(self.name, TOO_MANY_VALUES, 0, columns),) if columns else ()

    def _groups(self, segments: Sequence[str], *, latest: bool) -> Arrays:
        """The groups of the counts, for :meth:`_counts`."""
        versions = self._counts_versions(segments)
        found = completed(self._fetch(self.statements.groups(latest=latest, segments=segments, versions=versions)))
        return found if "division" in found else _plain_arrays(found)

    def _counts(self, groups: Arrays, segments: Sequence[str], effects: Mapping[str, Effects]) -> _Counted:
        """Counts by segment, value and label, and rows by model version, from the groups of one statement."""
        has_version, of_segment = self.statements.layout.has("model_version"), "model_version" in segments
        if "division" not in groups:
            return _Counted({("", value): labels for value, labels in self._by_value(groups, effects).items()}, {})
        columns = dict(groups)
        division = np.asarray(columns.pop("division"), dtype=np.int64)
        found: dict[tuple[str, str], dict[str, Counts]] = {}
        for place, segment in enumerate(("", *segments)):
            part = _chosen(columns, division == place)
            found |= {(segment, value): labels for value, labels in self._by_value(part, effects).items()}
        alone = _chosen(columns, division == -1)
        pairs = zip(map(str, alone["value"]), map(int, alone["n"]), strict=True)
        versions = dict(sorted(pairs))
        if has_version and of_segment:
            parts = ((value, labels) for (segment, value), labels in found.items() if segment == "model_version")
            versions = {value: sum(counts.rows for counts in labels.values()) for value, labels in parts}
        return _Counted(found, versions)

    def _by_value(self, columns: Arrays, effects: Mapping[str, Effects]) -> dict[str, dict[str, Counts]]:
        """Counts by value of a segment ("" for all rows) and label."""
        labels, values = columns["label"], columns.get("value")
        score_is: ScoreIs = self.statements.source.score_is
        plain = _weighed(_with_keys({name: columns[name] for name in columns if name not in ("label", "value")}))
        parts: dict[str, dict[str, Counts]] = {}
        for value, label, rows in _split(values, labels):
            chosen = {name: column[rows] for name, column in plain.items()}
            effect, *acting = effects.get(label, (1.0, *INDEPENDENT))
            counts = counts_from_groups(
                chosen, design_effect=effect, score_is=score_is, acting_effects=(acting[0], acting[1])
            )
            parts.setdefault(value, {})[label] = counts
        return {value: dict(sorted(parts[value].items())) for value in sorted(parts)}

    def by_segment(self, edges: Mapping[str, Sequence[int]]) -> dict[str, CountsBySegment]:
        """The counts of the labels of ``edges``, by the values of every segment column that has few."""
        statements = self.statements
        crowded = self._crowded(statements.source.segments, COMBINED_VALUES)
        columns = tuple(segment for segment in statements.source.segments if segment not in crowded)
        latest = self._number(statements.repeated()) > 0
        found = self._fetch(statements.combined(edges, columns, latest=latest))
        labels = found.pop("label")
        values = [found.pop(f"value_{at}") for at in range(len(columns))]
        keys: dict[tuple[str, ...], list[int]] = {}
        for row, key in enumerate(zip(labels, *values, strict=True)):
            keys.setdefault(tuple(map(str, key)), []).append(row)
        parts: dict[str, dict[tuple[str, ...], Counts]] = {}
        for (label, *of), rows in sorted(keys.items()):
            chosen: dict[str, npt.ArrayLike] = {name: column[rows] for name, column in _weighed(found).items()}
            parts.setdefault(label, {})[tuple(of)] = counts_from_groups(chosen, score_is=statements.source.score_is)
        return {label: CountsBySegment(columns, of) for label, of in parts.items()}

    def _versions(self, *, latest: bool) -> dict[str, int]:
        if not self.statements.layout.has("model_version"):
            return {}
        columns = self._fetch(self.statements.versions(latest=latest))
        pairs = zip(columns["version"], columns["n"], strict=True)
        return dict(sorted((str(version), int(n)) for version, n in pairs))

    def _label_effects(self, sums: Arrays | None, *, latest: bool) -> Mapping[str, Effects]:
        """The design effects of each label: for all its rows, the predicted and the automated ones.

        ``sums`` are those within clusters, None if they were not read yet.
        """
        if not self.statements.layout.has("cluster"):
            return {}
        if sums is None:
            sums = self._fetch(self.statements.label_dependence(latest=latest))
        return {
            str(label): tuple(_effect_of(sums, where, index) for where in WHERES)
            for index, label in enumerate(sums["label"])
        }


def _of_numbers(statements: Statements, latest: bool, *, first: bool) -> Iterator[Question]:
    """The rows of numbers, and what is counted beside them; at ``first`` also what does not depend on ``latest``."""
    if not isinstance(statements, NumberStatements):
        raise AssertionError("only a source of kind regression has numbers")
    if first:
        yield Question(statements.repeated())
        yield Question(statements.rejected(), ("label", "reason"))
    yield Question(statements.shown(rejected=first, repeated=latest), _SHOWN_TEXTS)
    yield Question(statements.total(latest=latest))
    yield Question(statements.numbers(ITEMS_AT_MOST, latest=latest))
    if statements.layout.has("model_version"):
        yield Question(statements.versions(latest=latest), ("version",))


def _of_clusters(statements: Statements, latest: bool) -> Iterator[Question]:
    """The sums within clusters, which those of items do not give if items are apart."""
    if not statements.layout.has("cluster"):
        return
    yield Question(statements.item_dependence(latest=latest))
    yield from (Question(statements.dependence(*keys, latest=latest)) for keys in _WAYS[1:])


def has_fingerprint(source: SourceConfig) -> bool:
    """Whether a source has a fingerprint: one whose rows stay in the warehouse, with their own scores."""
    return source.score is None and source.kind != "regression"


def fingerprint_of(connection: sa.Connection, statements: Statements) -> str:
    """The fingerprint of the window's rows, by a scan of its own."""
    (row,) = statements.result(connection, statements.fingerprint())
    return _as_text(statements.source, tuple(int(value or 0) for value in row))  # NULL is the sum of nothing


def _as_text(source: SourceConfig, total: tuple[int, ...]) -> str:
    text = repr((source.model_dump_json(), [total]))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _whole_number(column: npt.NDArray[Any] | None) -> int:
    """The only value of a column as an int; 0 if it is NULL or there is no such column."""
    if column is None:
        return 0
    (value,) = np.ma.filled(column, 0) if np.ma.isMaskedArray(column) else column
    if value is None or (isinstance(value, float) and math.isnan(value)):  # some drivers give NaN for NULL
        return 0
    return int(Decimal(value)) if isinstance(value, str) else int(value)


def unresolved_rows(connection: sa.Connection, name: str, statements: Statements) -> UnresolvedRows:
    """The rows of one window by label, waiting and resolved.

    Raises AssertionError for statements that are not about such rows.
    """
    if not isinstance(statements, UnresolvedStatements):
        raise AssertionError("the statements about a copy of the rows are those of its kind alone")
    repeated = statements.result(connection, statements.repeated()).scalar_one()
    columns = statements.arrays(connection, statements.score_groups(latest=repeated > 0))
    labels, waits = columns.pop("label"), columns.pop("waiting")
    found: tuple[dict[str, ScoreCounts], dict[str, ScoreCounts]] = ({}, {})
    for value, label, rows in _split(np.asarray(waits, dtype=np.int64).astype(str), labels):
        found[int(value)][label] = score_counts({key: column[rows] for key, column in columns.items()})
    resolved, waiting = (dict(sorted(part.items())) for part in found)
    aside = {str(reason): int(n) for reason, n in statements.result(connection, statements.set_aside())}
    return UnresolvedRows(name, statements.window, statements.known_at, waiting, resolved, dict(sorted(aside.items())))


def _rejected_cell(
    label: str | None, reason: str, place: int | None, truth: int | None, n: int, hits: float | None
) -> RejectedCell:
    place, truth = (None if code is None else int(code) for code in (place, truth))
    return RejectedCell(label, str(reason), place, truth, int(n), float(hits or 0.0))


def _together(one: Shown | None, other: Shown | None) -> Shown | None:
    """The rows to show of both; None if one of them was not read yet."""
    return None if one is None or other is None else {**one, **other}


def _optional(column: npt.NDArray[Any]) -> list[Any]:
    """The values of a column; None for NULL, which is NaN from some drivers."""
    values = column.tolist()
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]


def _sorted_cells(cells: Iterable[RejectedCell]) -> tuple[RejectedCell, ...]:
    return tuple(sorted(cells, key=lambda cell: repr((cell.label, cell.reason, cell.place, cell.truth))))


def _shown(value: str | None) -> str | None:
    return value if value is None or len(value) <= SHOWN_LENGTH else f"{value[:SHOWN_LENGTH]}…"


def _row(sums: Arrays, index: int) -> dict[str, float]:
    """One row of sums. NULL, the sum of no rows, becomes 0."""
    values = {name: np.ma.filled(column, np.nan)[index] for name, column in sums.items()}
    return {name: 0.0 if value is None or np.isnan(float(value)) else float(value) for name, value in values.items()}


def _part(sums: Arrays, part: str) -> Arrays:
    return {name.removeprefix(f"{part}_"): sums[name] for name in sums if name.startswith(f"{part}_")}


def _of_item_values(row: Mapping[str, float], metric: str) -> ClusterSums:
    """The sums of a metric's values of items within clusters, from those of ``Statements.of_items``."""
    known = {name: row[f"{metric}_{name}"] for name in ("aa", "aw", "cc", "rr")}
    r, w, ww = row[metric], row["w"], row["w2"]
    return ClusterSums(**known, r=r, w=w, rw=row.get(f"{metric}_rw", r), ww=ww)


def _effect_within(items: ClusterSums, *clusters_and_both: ClusterSums) -> float:
    """The design effect of rows within items, and where there are clusters also within these and within both."""
    return rounded_effect(two_way_effect(items, *clusters_and_both) if clusters_and_both else design_effect(items))


def _effect_of(sums: Arrays, part: str, index: int) -> float:
    """The design effect of one part of a row of sums; 1 if the part has no rows."""
    return rounded_effect(design_effect(ClusterSums.of(_row(_part(sums, part), index))))


def _chosen(columns: Arrays, rows: npt.NDArray[np.bool_]) -> Arrays:
    """Some rows of every column, as plain arrays: none of their values may be NULL."""
    return _plain_arrays({name: column[rows] for name, column in columns.items()})


def _plain_arrays(columns: Arrays) -> Arrays:
    """The same columns without the masks that some drivers add. None of their values may be NULL."""
    return {name: np.asarray(column) for name, column in columns.items()}


def _labels_of(groups: Arrays) -> list[str]:
    return sorted({str(label) for label in _of_all_rows(groups)["label"].tolist()})


def _of_all_rows(groups: Arrays) -> Arrays:
    """The groups over all rows, without those of a segment or version."""
    if "division" not in groups:
        return groups
    return _chosen(groups, np.asarray(groups["division"], dtype=np.int64) == 0)


def _of_the_same_rows(groups: Arrays, items: _Items) -> bool:
    """Whether two statements saw the same rows: as many, with the same sum of residuals but for rounding.

    Where rows repeat, the sums of items are of the latest ones only, so that their number has to do.
    """
    counts = _weighed(_of_all_rows(groups))
    n, ws, wy = (float(np.sum(np.asarray(counts[name], dtype=np.float64))) for name in ("n", "ws", "wy"))
    return n == items.kept and (items.repeated > 0 or abs(wy - ws - _row(items.sums, 0)["rows_r"]) <= _ROUNDING * n)


def _with_keys(groups: Arrays) -> Arrays:
    """Groups with the columns cell, predicted and automated in place of ``key``, which holds all three."""
    key = np.asarray(groups["key"], dtype=np.int64)
    sums = {name: column for name, column in groups.items() if name != "key"}
    return {**sums, "cell": key // 4, "predicted": key % 4 >= 2, "automated": key % 2 == 1}


def _weighed(groups: Arrays) -> Arrays:
    """Groups with the columns w and w2; without weights they are the number of rows."""
    return groups if "w" in groups else {**groups, "w": groups["n"], "w2": groups["n"]}


def _split(values: Any, labels: Any) -> Iterator[tuple[str, str, Any]]:
    """(value, label, row numbers) of each pair that occurs. No strings are sorted: there may be 400,000.

    Without ``values`` (None) the value is the empty text.
    """
    codes, label_names = _numbered(labels)
    value_names = [""]
    if values is not None:
        value_codes, value_names = _numbered(values)
        codes = value_codes * max(len(label_names), 1) + codes
    order = np.argsort(codes, kind="stable")
    keys, starts = np.unique(codes[order], return_index=True)
    for key, rows in zip(keys, np.split(order, starts[1:]), strict=True) if len(keys) else ():
        value, label = divmod(int(key), len(label_names))
        yield str(value_names[value]), str(label_names[label]), rows


def _numbered(texts: Any) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """The code of each text, and the distinct texts by code, in order of appearance. (pandas is slow to import.)"""
    listed = texts.tolist()
    names = list(dict.fromkeys(listed))
    numbers = {name: number for number, name in enumerate(names)}
    return np.fromiter(map(numbers.__getitem__, listed), np.int64, len(listed)), names
