"""One reading of a source: the counts of one window, the rows that are set aside, and what depends on what.

There is one plan for all engines. Each step is a statement of its own::

    rows        how many rows the window has, and their fingerprint
    counts      by label and score, by the values of each segment, by model version
    items       sums over items, and whether an item has a label twice
    and only where these show any:
    latest      the counts and the items again, of the latest row of each (item, label)
    rejected    the rejected rows by reason, with examples
    clusters    the sums within clusters, of a source that has them

The rows come first: in engines that show rows that arrive during a reading, these change the next fingerprint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.config.model import SourceConfig
from monitor.core.counts import (
    INDEPENDENT,
    Counts,
    Floats,
    ProbabilityRows,
    RegressionRows,
    counts_from_groups,
    pool,
    rounded_effect,
)
from monitor.core.records import (
    RARE_LABELS,
    TOO_MANY_VALUES,
    WHERES,
    RejectedCell,
    RejectedRows,
    RejectReason,
    ScoreIs,
    Window,
)
from monitor.core.unresolved import UnresolvedRows, score_counts
from monitor.inference.dependence import ClusterSums, design_effect, share_in_bands, two_way_effect
from monitor.metrics.names import RANKS
from monitor.warehouse.dialects import LABELS_BY_BITS, Arrays, Statement
from monitor.warehouse.items import NumberStatements, RankedStatements, WholeStatements
from monitor.warehouse.relation import RelationError, RelationProblem
from monitor.warehouse.statements import EXAMPLES, Rows, Statements, whole_number_of
from monitor.warehouse.unresolved import UnresolvedStatements

SEGMENT_VALUES = 200
"""A segment column with more values than this in one window is left out."""
LABELS_A_ROW, FEW_ROWS = 1_000, 10
"""Of n labels in one window, those with fewer rows than n / 1,000 (at most 10) count in the source as a whole only.

The shipped rules ask for 30 rows and more, and each label costs as much time as a large one.
"""
SHOWN_LENGTH = 200
"""An example shows at most this many characters of a value: enough to find the row."""

SHOWN = ("item", "label", "score", "date")
"""What is shown of a rejected row, each as text; None if it has none."""
_WAYS: tuple[tuple[str, ...], ...] = (("item",), ("cluster",), ("item", "cluster"))
"""The columns that dependent rows share: the first alone, or all three ways where there are clusters."""
Sums = Mapping[str, Any]
Effects = tuple[float, ...]  # of all rows, the predicted, the automated ones; and how much is together
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
    ``rest`` has the rows of labels that are not in ``labels``, since very many have few rows (:data:`LABELS_A_ROW`).
    ``fingerprint`` is that of :meth:`Warehouse.fingerprint`, if the source has one.
    ``is_audited``: checked items stand in the counts for rows that act, or these are left out.
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
    rest: Counts | None = None
    is_audited: bool = False

    def noted(self, reason: str, whys: Iterable[str]) -> Reading:
        """The same with a note on what is odd, if anything is."""
        why = tuple({"why": each} for each in whys)
        return replace(self, quality=(*self.quality, RejectedRows(self.source, reason, 0, why))) if why else self


@dataclass(frozen=True, slots=True)
class Reader(Rows[Statements]):
    """The steps of one reading of the rows of a window; where scores are computed here, of a copy.

    ``outside`` are the rows of the warehouse, of which those without a usable date are counted. Without ``whole``,
    ranks and whole rows are not read.
    """

    name: str
    outside: Rows[Statements]
    whole: bool = True

    def _refuse_ids(self, labels: int) -> None:
        """Raise :class:`RelationError` if these are more labels than ``max_labels``."""
        source, window = self.statements.source, self.statements.window
        most = source.max_labels
        if labels <= most:
            return
        named = "predicted_label" if source.kind == "single_label" else "label"
        found = (
            f"column {source.columns.get(named, named)} has more than {most:,} labels in {window.name}: is it an id?"
        )
        remedy = "name the column of labels, or write max_labels: 100000 if these are labels"
        raise RelationError([RelationProblem(self.name, found, remedy)])

    def reading(self) -> Reading:
        """The whole reading."""
        statements = self.statements
        if isinstance(statements, NumberStatements):
            return self._numbers(statements)
        total, fingerprint = self.fingerprint()
        if total > statements.source.max_labels:
            self._refuse_ids(self.number(statements.labels_beyond(statements.source.max_labels)))
        groups = self._groups()
        labels, counted = _labels_of(groups), int(np.sum(groups["n"]))
        self._refuse_ids(len(labels))
        (sums,) = self.ask(statements.of_items(labels[:LABELS_BY_BITS]))
        repeated = self._repeats(sums, labels, complete=counted == total)
        latest = self.counted(repeated)
        if repeated:
            groups, (sums,) = latest._groups(), self.ask(latest.statements.of_items())
        rejected = latest._rejected() if counted != total else ()
        number, most = statements.number_of_values, SEGMENT_VALUES  # of an id, say, groups would be nearly every row
        crowded = [each for each in statements.source.segments if self.number(number(each, most)) > most]
        effects, rare = latest._label_effects(), _rare(groups, statements.source.labels)
        counts = self._by_value(groups, effects, rare).get("", {})
        more = (row for keys in self._ways()[1:] for row in self.ask(latest.statements.dependence(*keys)))
        effect = _effect(_sums_of(sums, "rows_"), *map(_sums_of, more))
        rest = self._rest(groups, rare).with_design_effect(effect) if rare else None
        return Reading(
            source=self.name,
            window=statements.window,
            labels=counts,
            segments=latest._segments(crowded, effects, rare),
            whole_design_effect=effect,
            versions=latest._versions(),
            quality=latest._quality(repeated, rejected, crowded),
            rows=sum(of.rows for of in counts.values()) + (0 if rest is None else rest.rows),
            rest=rest,
            ranked=latest._ranked(),
            items=latest._of_items(sums),
            whole=latest._whole(groups, sums),
            rejected=rejected,
            fingerprint=fingerprint if self.connection is self.outside.connection else None,
        ).noted(RARE_LABELS, _together(len(rare), len(counts)))

    def _numbers(self, every: NumberStatements) -> Reading:
        """The reading of a source of numbers, whose rows leave the warehouse; a sample if there are too many."""
        repeated = self.repeated()
        statements = replace(every, latest=repeated > 0)
        latest = replace(self, statements=statements)
        total, rejected = self.number(statements.total()), latest._rejected()
        rows = self.fetch(statements.numbers(ITEMS_AT_MOST))
        return Reading(
            source=self.name, window=statements.window, labels={}, segments={}, whole_design_effect=1.0,
            versions=latest._versions(), quality=latest._quality(repeated, rejected), rows=total,
            numbers=regression_rows(rows, total) if total else None, rejected=rejected,
        )  # fmt: skip

    def _repeats(self, sums: Sums, labels: Sequence[str], *, complete: bool) -> int:
        """How many rows repeat an (item, label). They are counted only if the sums of items do not show that none does.

        Of ``multiclass`` sources the sums are of items with one true label: a row that repeats may have made it two.
        """
        doubtful = isinstance(self.statements, WholeStatements) and not complete
        if doubtful or len(labels) > LABELS_BY_BITS or whole_number_of(sums.get("again")):
            return self.repeated()
        return 0

    # --- the rows that are set aside

    def _rejected(self) -> tuple[RejectedCell, ...]:
        """The rejected rows of the window by label, reason, place of the score and truth, sorted."""
        statements = self.statements
        of_items = [statements.untrue()] if isinstance(statements, WholeStatements) else []
        asked = (statements.rejected(), *of_items)
        cells = []
        for label, reason, *codes, n, hits in (row for each in asked for row in self.connection.execute(each)):
            place, truth = (None if code is None else int(code) for code in codes)
            cells.append(RejectedCell(label, str(reason), place, truth, int(n), float(hits or 0.0)))
        return tuple(sorted(cells, key=lambda cell: repr((cell.label, cell.reason, cell.place, cell.truth))))

    def _quality(
        self, repeated: int, rejected: Sequence[RejectedCell], crowded: Sequence[str] = ()
    ) -> tuple[RejectedRows, ...]:
        """The rejected rows by reason, with examples, and the segments that are left out, whose rows still count."""
        within = Counter({RejectReason.DUPLICATE.value: repeated})
        for cell in rejected:
            within[cell.reason] += cell.rows
        beyond = Counter(
            {str(row["reason"]): int(row["n"]) for row in self.outside.ask(self.outside.statements.undated())}
        )
        examples = self._examples([reason for reason in RejectReason if within[reason.value]], beyond=bool(beyond))
        columns = tuple({"segment": segment, "values": f"more than {SEGMENT_VALUES}"} for segment in crowded)
        left_out = [RejectedRows(self.name, TOO_MANY_VALUES, 0, columns)] if crowded else []
        by_reason = (
            RejectedRows(self.name, reason, n, examples.get(reason, ()))
            for reason in (reason.value for reason in RejectReason)
            if (n := within[reason] + beyond[reason])
        )
        return (*by_reason, *left_out)

    def _examples(
        self, within: Sequence[RejectReason], *, beyond: bool
    ) -> dict[str, tuple[Mapping[str, str | None], ...]]:
        """Examples by reason, sorted: of the rows of the window, and of the undated ones ``beyond`` it."""
        asked: list[tuple[Rows[Statements], Statement]] = [(self, self.statements.examples(within))] if within else []
        asked += [(self.outside, self.outside.statements.undated_examples())] if beyond else []
        by_reason: dict[str, list[Mapping[str, str | None]]] = {}
        for rows, statement in asked:
            for row in rows.ask(statement):
                by_reason.setdefault(str(row["reason"]), []).append({name: _shown(row[name]) for name in SHOWN})
        return {reason: tuple(sorted(rows, key=_order)[:EXAMPLES]) for reason, rows in by_reason.items()}

    # --- the counts

    def _groups(self, segment: str | None = None) -> Arrays:
        return self.fetch(self.statements.groups(segment))

    def _segments(self, crowded: Sequence[str], effects: Mapping[str, Effects], rare: Set[str]) -> SegmentCounts:
        """The counts by segment and value, and label, but for the segments that are ``crowded``."""
        return {
            (segment, value): labels
            for segment in self.statements.source.segments
            if segment not in crowded
            for value, labels in self._by_value(self._groups(segment), effects, rare).items()
        }

    def _rest(self, groups: Arrays, rare: Set[str]) -> Counts:
        """The rows of rare labels, all together."""
        chosen = np.fromiter((label in rare for label in groups["label"].tolist()), bool, len(groups["label"]))
        rows = _chosen({name: groups[name] for name in groups if name != "label"}, chosen)
        keys, index = np.unique(np.asarray(rows["key"], dtype=np.int64), return_inverse=True)
        columns = {name: np.asarray(column, np.float64) for name, column in _weighed(rows).items() if name != "key"}
        sums = {name: np.bincount(index, column) for name, column in columns.items()}
        return counts_from_groups({**_with_keys({**sums, "key": keys})}, score_is=self.statements.source.score_is)

    def _by_value(
        self, columns: Arrays, effects: Mapping[str, Effects], rare: Set[str]
    ) -> dict[str, dict[str, Counts]]:
        """Counts by value of a segment ("" for all rows) and label, but for the ``rare`` ones."""
        labels, values = columns["label"], columns.get("value")
        score_is: ScoreIs = self.statements.source.score_is
        plain = _weighed(_with_keys({name: columns[name] for name in columns if name not in ("label", "value")}))
        parts: dict[str, dict[str, Counts]] = {}
        for value, label, rows in _split(values, labels):
            if label in rare:
                continue
            chosen = _chosen(plain, rows)
            effect, *acting, together = effects.get(label, (1.0, *INDEPENDENT, 1.0))
            counts = counts_from_groups(
                {**chosen}, design_effect=effect, score_is=score_is, acting_effects=(acting[0], acting[1])
            )
            parts.setdefault(value, {})[label] = replace(counts, together=together)
        return {value: dict(sorted(parts[value].items())) for value in sorted(parts)}

    def _versions(self) -> dict[str, int]:
        if "model_version" not in self.statements.layout:
            return {}
        rows = self.ask(self.statements.versions())
        return dict(sorted((str(row["version"]), int(row["n"])) for row in rows))

    # --- items, ranks and whole rows

    def _ranked(self) -> dict[int, Counts]:
        """The counts of the k highest-scored labels of each item, by k."""
        statements = self.statements
        if not self.whole or not isinstance(statements, RankedStatements):
            return {}
        columns = self.fetch(statements.ranked_groups())
        every = self._by_value({**columns, "label": np.full(len(columns["n"]), "", object)}, {}, frozenset())
        parts = {int(rank): counts for rank, labels in every.items() for counts in labels.values()}
        if not parts:
            return {}
        sums = [row for within in self._ways() for row in self.ask(statements.ranked_dependence(*within))]
        return {
            rank: pool(parts[k] for k in RANKS if k <= rank and k in parts).with_design_effect(
                _effect(*(_sums_of(row, f"top_{rank}_") for row in sums))
            )
            for rank in RANKS
        }

    def _of_items(self, sums: Sums) -> dict[str, Counts]:
        """The counts of items by metric, with an item's value as its outcome. Items of one cluster are dependent."""
        statements = self.statements
        if not self.whole or not whole_number_of(sums["n"]):
            return {}
        nothing = {name: [0] for name in ("predicted", "automated", "cell", "ws", "wsy", "ws2")}
        effects, found = {}, {}
        if "cluster" in statements.layout:  # items of one cluster are dependent
            (of_clusters,) = self.ask(statements.item_dependence())
            effects = {name: _effect(_sums_of(of_clusters, f"{name}_")) for name in statements.item_metrics}
        for name in statements.item_metrics:
            columns = {key: [float(sums[of])] for key, of in (("n", "n"), ("w", "w"), ("w2", "w2"), ("wy", name))}
            counts = counts_from_groups({**nothing, **columns}, score_is="probability_of_label")
            found[name] = counts.with_design_effect(effects[name]) if name in effects else counts
        return found

    def _whole(self, groups: Arrays, sums: Sums) -> ProbabilityRows | None:
        """Whole rows of probabilities, of a sample of the items if there are too many."""
        statements = self.statements
        if not self.whole or not isinstance(statements, WholeStatements):
            return None
        items, labels = whole_number_of(sums["n"]), groups["label"]
        if not items:
            return None
        true = labels[np.asarray(groups["wy"], dtype=np.float64) > 0]
        share, least = sampling(items, len({*true.tolist()}), len({*labels.tolist()}))
        rows = self.fetch(statements.whole_rows(share=share, least=least))
        return probability_rows(rows, items)

    # --- what depends on what

    def _ways(self) -> tuple[tuple[str, ...], ...]:
        return _WAYS if "cluster" in self.statements.layout else _WAYS[:1]

    def _label_effects(self) -> Mapping[str, Effects]:
        """The design effects of each label within clusters: for all its rows, the predicted and the automated ones.

        Last is how much of the first is between rows of one band of scores.
        """
        if "cluster" not in self.statements.layout:
            return {}
        labels = self.ask(self.statements.label_dependence())
        bands = {row["label"]: _sums_of(row, "all_") for row in self.ask(self.statements.band_dependence())}
        found: dict[str, Effects] = {}
        for row in labels:
            every, *acting = (_sums_of(row, f"{where}_") for where in WHERES)
            together = rounded_effect(share_in_bands(every, bands[row["label"]]))
            found[str(row["label"])] = (*map(_effect, (every, *acting)), together)
        return found


def has_fingerprint(source: SourceConfig) -> bool:
    """Whether a source has a fingerprint: one whose rows stay in the warehouse, with their own scores."""
    return source.score is None and source.kind != "regression"


def unresolved_rows(name: str, rows: Rows[UnresolvedStatements]) -> UnresolvedRows:
    """The rows of one window by label, waiting and resolved."""
    statements = rows.statements
    columns = rows.fetch(rows.counted().statements.score_groups())
    labels, waits = columns.pop("label"), columns.pop("waiting")
    found: tuple[dict[str, Counts], dict[str, Counts]] = ({}, {})
    for value, label, group in _split(np.asarray(waits, dtype=np.int64).astype(str), labels):
        found[int(value)][label] = score_counts(_chosen(columns, group))
    resolved, waiting = (dict(sorted(part.items())) for part in found)
    aside = {str(row["reason"]): int(row["n"]) for row in rows.ask(statements.set_aside())}
    return UnresolvedRows(name, statements.window, statements.now, waiting, resolved, dict(sorted(aside.items())))


def _shown(value: str | None) -> str | None:
    return value if value is None or len(value) <= SHOWN_LENGTH else f"{value[:SHOWN_LENGTH]}…"


def _order(row: Mapping[str, str | None]) -> tuple[tuple[bool, bytes], ...]:
    """By what rejected rows of one reason are sorted: item, label, score and date by their bytes, None last."""
    return tuple((row[name] is None, (row[name] or "").encode("utf-8", "surrogatepass")) for name in SHOWN)


def _effect(within: ClusterSums, *clusters_and_both: ClusterSums) -> float:
    """The design effect of rows within items, and where there are clusters also within these and within both.

    It is 1 without rows.
    """
    return rounded_effect(two_way_effect(within, *clusters_and_both) if clusters_and_both else design_effect(within))


def _sums_of(row: Sums, part: str = "") -> ClusterSums:
    """The sums of one part of a row, whose names begin so. NULL, the sum of no rows, is 0."""
    return ClusterSums.of({name.removeprefix(part): float(row[name] or 0) for name in row if name.startswith(part)})


def _chosen(columns: Arrays, rows: npt.NDArray[Any]) -> Arrays:
    """Some rows of every column."""
    return {name: column[rows] for name, column in columns.items()}


def _labels_of(groups: Arrays) -> list[str]:
    return sorted({str(label) for label in groups["label"].tolist()})


def _together(rare: int, others: int) -> Iterator[str]:
    if rare:
        which = f"{rare:,} of {rare + others:,} labels have fewer than {_few_rows(rare + others)} rows in this window"
        yield f"{which}: they count in all labels together, and are not judged one by one"


def _few_rows(labels: int) -> int:
    return int(min(FEW_ROWS, labels // LABELS_A_ROW))


def _rare(groups: Arrays, named: Collection[str]) -> frozenset[str]:
    """The labels of few rows where very many are read, but for those that the configuration names."""
    codes, names = _numbered(groups["label"])
    few = np.bincount(codes, np.asarray(groups["n"], dtype=np.float64)) < _few_rows(len(names))
    return frozenset(str(name) for name, is_rare in zip(names, few, strict=True) if is_rare) - frozenset(named)


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


ITEMS_AT_MOST = 200_000
NUMBERS_AT_MOST = 20_000_000
"""The most probabilities in one matrix: 160 MB, and as much again for the truths."""


def sampling(items: int, true: int, scored: int) -> tuple[float, float]:
    """(share, least): of a label that is true of n items, ``share * n + least`` items are taken.

    Half of the sample is divided equally among the ``true`` labels, half by their frequency, so that rare labels have
    enough items. ``true`` and ``scored`` are numbers of labels; a row has ``scored`` probabilities.

    >>> sampling(1_000, 5, 5), sampling(1_000_000, 5, 20)
    ((1.0, 0.0), (0.1, 20000.0))
    """
    limit = min(ITEMS_AT_MOST, max(1, NUMBERS_AT_MOST // max(scored, 1)))
    if items <= limit:
        return 1.0, 0.0
    return limit / 2 / items, max(1.0, limit / 2 / true)


def probability_rows(columns: Arrays, items: int) -> ProbabilityRows:
    """The matrices of N items over K labels, both sorted.

    ``columns`` are number, label, s, y, w, truth and frequency, of shape (rows,), from
    :meth:`~monitor.warehouse.items.WholeStatements.whole_rows`. An item's weight is multiplied by the number of items
    of its true label that it represents.
    """
    import pandas as pd  # noqa: PLC0415 - takes long to import, and most commands read no warehouse

    row, numbers = pd.factorize(np.asarray(columns["number"], dtype=np.int64), sort=True)
    column, labels = pd.factorize(np.asarray(columns["label"], dtype=object).astype(str), sort=True)
    shape = (len(numbers), len(labels))
    probability, truth = np.full(shape, np.nan), np.zeros(shape)
    probability[row, column] = _floats(columns["s"])
    truth[row, column] = _floats(columns["y"])
    _, first = np.unique(row, return_index=True)
    weight, frequency = _floats(columns["w"])[first], _floats(columns["frequency"])[first]
    true = truth.argmax(axis=1)
    taken = np.bincount(true, minlength=len(labels))[true]
    return ProbabilityRows(tuple(str(label) for label in labels), probability, truth, weight * frequency / taken, items)


def regression_rows(columns: Arrays, items: int) -> RegressionRows:
    """Rows of numbers. If they are a sample of ``items``, each represents as many of them."""
    predicted, deviation, actual, weight = (
        _floats(columns[name]) for name in ("predicted", "deviation", "actual", "weight")
    )
    return RegressionRows(predicted, deviation, actual, weight * (items / max(len(predicted), 1)), items)


def _floats(column: npt.ArrayLike) -> Floats:
    return np.asarray(column, dtype=np.float64)
