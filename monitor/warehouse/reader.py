"""Reading a source: the counts of one window, the rejected rows, and samples of its features.

Nothing is ever written: DuckDB and SQLite files are opened read-only, PostgreSQL is read in a read-only
transaction. DuckDB reads only the files that relations name (``confined.py``). In DuckDB, SQLite and PostgreSQL
all statements of one reading see the same rows; in other engines rows may arrive between two statements. CSV files
are read once into the memory of the session, unless they are large.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import exc

from monitor.config.model import SourceConfig
from monitor.core.counts import INDEPENDENT, Counts, counts_from_groups, pool, rounded_effect
from monitor.core.counts_by_segment import CountsBySegment
from monitor.core.maturity import TruthDelays
from monitor.core.records import (
    TOO_MANY_VALUES,
    WHERES,
    RejectedCell,
    RejectedRows,
    RejectReason,
    ScoreIs,
    Window,
)
from monitor.core.redaction import shown_address
from monitor.core.rows import ProbabilityRows, RegressionRows
from monitor.core.time_limit import TimeLimit, in_words
from monitor.core.unresolved import ScoreCounts, UnresolvedRows, score_counts
from monitor.inference.dependence import ClusterSums, design_effect, two_way_effect
from monitor.warehouse.checks import Layout, parsed
from monitor.warehouse.delays import DelayStatements, delays_of
from monitor.warehouse.dialects import BITS, NUMERIC, Arrays, Dialect
from monitor.warehouse.engines import ENGINES, KEEPS_FOR, OTHER_NAMES
from monitor.warehouse.examples import ExampleQuery, ExampleRow, example_row
from monitor.warehouse.items import RANKS, STATEMENTS, NumberStatements, RankedStatements, WholeStatements
from monitor.warehouse.kept_statements import statements_of
from monitor.warehouse.privileges import beyond_select
from monitor.warehouse.relation import (
    RelationError,
    RelationProblem,
    WarehouseFailed,
    WarehouseTimeout,
    WrongWarehouseAddress,
)
from monitor.warehouse.scored import localised
from monitor.warehouse.shapes import long_form
from monitor.warehouse.statements import Statements
from monitor.warehouse.survey import Survey, survey
from monitor.warehouse.tables import ColumnSample, samples, table_names
from monitor.warehouse.unresolved import UnresolvedStatements, open_relation, with_truth
from monitor.warehouse.whole import ITEMS_AT_MOST, probability_rows, regression_rows, sampling

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = [
    "Reading",
    "RelationError",
    "RelationProblem",
    "Warehouse",
    "WarehouseFailed",
    "WarehouseTimeout",
]

TIMEOUT_S = 900.0
SEGMENT_VALUES = 200
"""A segment column with more values than this in one window is left out."""
COMBINED_VALUES = 40
"""The same limit if the values of several columns are combined."""
CANDIDATES = 8
"""A sample is drawn from at least this many times its number of items."""
SHOWN_LENGTH = 200
"""An example shows at most this many characters of a value: enough to find the row."""

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


class Warehouse:
    """A connection to the warehouse. Use it as a context manager, or call :meth:`close`."""

    def __init__(
        self,
        url: sa.URL,
        engine: sa.Engine | None,
        dialect: Dialect,
        timeout_s: float = TIMEOUT_S,
        relations: set[str] | None = None,
    ) -> None:
        self._url = url
        if engine is not None:
            self._engine = engine
        self._relations = set() if relations is None else relations
        self._dialect = dialect
        self._timeout_s = timeout_s
        self._kept: list[sa.Connection] | None = None
        self._bytes_read: int | None = None

    @classmethod
    def from_url(cls, url: str, *, timeout_s: float = TIMEOUT_S, relations: Iterable[str] = ()) -> Warehouse:
        """The warehouse at an SQLAlchemy address: ``duckdb:///``, ``sqlite:///`` or ``postgresql://``.

        ``timeout_s`` is how long one reading (of one source in one window) may take; then its statement is
        cancelled. ``relations`` are those of all sources: DuckDB may read the files that they name, and no others. The
        relation of a source is added when it is read. Nothing is opened yet, so a database that is down is noticed at
        the first reading.
        Raises :class:`WrongWarehouseAddress` if the text is no such address.
        """
        try:
            address = sa.make_url(url)
        except (exc.ArgumentError, ValueError):  # the text of a ValueError shows what was given as the port
            remedy = "write it like duckdb:///var/warehouse.duckdb or postgresql://user@host/database"
            raise WrongWarehouseAddress(f"CALMON_WAREHOUSE_URL is not an address; {remedy}") from None
        kind = _kind_of(address)
        if kind not in ENGINES:
            kinds = ", ".join(ENGINES)
            raise WrongWarehouseAddress(f"CALMON_WAREHOUSE_URL cannot be of kind {kind!r}; use one of {kinds}")
        named = set(relations)
        return cls(address, None, ENGINES[kind].dialect, timeout_s, named)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        if "_engine" in vars(self):
            self._engine.dispose()

    @property
    def bytes_read(self) -> int | None:
        """The bytes of tables that this object has read so far; None for an engine that does not count them.

        Statements that failed are left out.
        """
        return self._bytes_read

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep one connection open within the block, for engines that are slow to open, such as DuckDB.

        For several readings in a row only: while a DuckDB file is open, its one writer is locked out.
        """
        if not self._dialect.slow_to_open or self._kept is not None:
            yield
            return
        kept: list[sa.Connection] = []
        self._kept = kept
        try:
            yield
        finally:
            self._kept = None
            for connection in kept:
                connection.close()

    @cached_property
    def _engine(self) -> sa.Engine:
        """The engine, made at the first reading: most commands never read, and its driver takes long to import."""
        name = _kind_of(self._url)
        kind = ENGINES[name]
        try:
            return kind.opened(self._url, self._relations)
        except (ImportError, exc.NoSuchModuleError) as error:
            if kind.extra is None:
                raise
            remedy = f"pip install 'calibration-monitor[{kind.extra}]'"
            what = f"CALMON_WAREHOUSE_URL is of kind {name}, whose driver is not installed"
            raise WrongWarehouseAddress(f"{what}; {remedy}") from error
        except Exception as error:  # a driver without credentials may raise any exception, as BigQuery's does
            if kind.extra is None:
                raise
            raise WarehouseFailed(f"the driver of {name} could not be opened: {error}") from error

    def ping(self) -> None:
        """Check that the warehouse answers. Raises :class:`WarehouseFailed` if it does not."""
        with self._session("") as connection:
            connection.execute(sa.select(sa.literal_column("1")))

    def check(self, name: str, source: SourceConfig) -> list[RelationProblem]:
        """All problems that keep the source ``name`` from being evaluated; none: an empty list.

        Raises :class:`WarehouseFailed` if the warehouse does not answer.
        """
        self._relations.update(source.relations)
        try:
            with self._session(name) as connection:
                self._layout(connection, name, source)
        except RelationError as error:
            return list(error.problems)
        return []

    def survey(self, name: str, source: SourceConfig) -> Survey:
        """A summary of the whole relation of ``source``, which is read once. Raises as :meth:`read`."""
        self._relations.update(source.relations)
        with self._session(name) as connection:
            return survey(connection, source, self._layout(connection, name, source), self._dialect)

    def tables(self) -> list[str]:
        """The tables and views of the warehouse, as ``relation`` would name them. Raises :class:`WarehouseFailed`."""
        with self._session("") as connection:
            return table_names(connection, self._dialect)

    def samples(self, relation: str) -> Sequence[ColumnSample]:
        """The columns of a relation with some of their values.

        Raises :class:`RelationError` and :class:`WarehouseFailed` as :meth:`read` does.
        """
        self._relations.add(relation)
        source = SourceConfig(relation=relation, score_is="probability_of_label")
        known = parsed("", source, self._dialect)
        if isinstance(known, RelationProblem):
            raise RelationError([known])
        with self._session("") as connection:
            return samples(connection, known, self._dialect)

    def beyond_select(self) -> list[str] | None:
        """What the monitor's role may do beyond reading, in words; None if the engine has no roles.

        Raises :class:`WarehouseFailed` if the warehouse does not answer.
        """
        if self._dialect.name != "postgresql":
            return None
        with self._session("") as connection:
            return beyond_select(connection)

    def read(
        self,
        name: str,
        source: SourceConfig,
        window: Window,
        *,
        now: datetime,
        whole: bool = True,
        fingerprint: bool = False,
    ) -> Reading:
        """The counts of ``source`` in ``window``. Dates after ``now`` (time zone aware) lie in the future.

        Without ``whole``, ranks, rows of probabilities and rows without a truth are not read. With ``fingerprint`` the
        reading has the fingerprint of the rows that it read.
        Raises :class:`RelationError` if the relation does not meet the contract, and :class:`WarehouseFailed` if the
        warehouse does not answer.
        """
        with self._statements(name, source, window, now) as (connection, statements):
            reader = _Reader(connection, name, statements, whole, fingerprint and _has_fingerprint(source))
            found = reader.numbers() if isinstance(statements, NumberStatements) else reader.reading()
        if not whole or source.unresolved is None:
            return found
        return replace(found, unresolved=self.unresolved(name, source, window))

    def fingerprint(self, name: str, source: SourceConfig, window: Window, *, now: datetime) -> str | None:
        """A text that changes when the rows of the window change, or the configuration by which they are read.

        It takes one scan, which keeps some sums for each label. None for sources without one: those whose scores are
        computed here, and those of numbers, whose rows leave the warehouse anyway. Raises as :meth:`read` does.
        """
        if not _has_fingerprint(source):
            return None
        with self._statements(name, source, window, now) as (connection, statements):
            return _fingerprint(connection, statements)

    def unresolved(
        self, name: str, source: SourceConfig, window: Window, *, known_at: datetime | None = None
    ) -> UnresolvedRows:
        """The rows that were predicted in the window, by score, with and without a truth at ``known_at``.

        ``known_at`` is the end of the window by default. Raises as :meth:`read` does, and ValueError for a source
        without ``unresolved``.
        """
        if source.unresolved is None:
            raise ValueError(f"{name} has no unresolved: nothing is known of rows without a truth")
        moment = window.end if known_at is None else known_at
        dated = source.model_copy(update={"window_on": "predicted_at"})
        self._relations.update(source.relations)
        with self._session(name) as connection:
            layout = self._layout(connection, name, dated, every=True)
            more = self._layout(connection, name, open_relation(source)) if source.unresolved else None
            statements = UnresolvedStatements(dated, layout, self._dialect, window, moment, moment, more)
            if source.score is None:
                return _unresolved(connection, name, statements)
            with localised(connection, statements) as (local, copied):
                return _unresolved(local, name, copied)

    def delays(
        self, name: str, source: SourceConfig, windows: Sequence[Window], *, now: datetime
    ) -> Mapping[str | None, tuple[TruthDelays, ...]]:
        """When the truths of the items that were predicted in adjacent windows became known, as of ``now``.

        By label, and for all labels together under None, in the order of ``windows``. Raises as :meth:`read` does, and
        ValueError for a source without ``unresolved``.
        """
        if source.unresolved is None:
            raise ValueError(f"{name} has no unresolved: nothing is known of rows without a truth")
        span = Window(windows[0].start, windows[-1].end, "", windows[0].schedule)
        dated = source.model_copy(update={"window_on": "predicted_at"})
        self._relations.update(source.relations)
        with self._session(name) as connection:
            layout = self._layout(connection, name, dated, every=True)
            more = self._layout(connection, name, open_relation(source)) if source.unresolved else None
            statements = DelayStatements(dated, layout, self._dialect, span, now, now, more, tuple(windows))
            return delays_of(statements.arrays(connection, statements.delays()), windows, now)

    def label_pairs(self, name: str, source: SourceConfig, window: Window, most: int, *, now: datetime) -> Arrays:
        """The sums of ``Statements.pairs`` for the ``most`` most frequent labels. Raises as :meth:`read` does."""
        with self._statements(name, source, window, now) as (connection, statements):
            repeated = statements.result(connection, statements.repeated()).scalar_one()
            return statements.arrays(connection, statements.pairs(most, latest=repeated > 0))

    def by_segment(
        self, name: str, source: SourceConfig, window: Window, edges: Mapping[str, Sequence[int]], *, now: datetime
    ) -> Mapping[str, CountsBySegment]:
        """The counts of some labels by combination of the values of all segment columns and the model version.

        ``edges`` has the upper edges of bins, in cells, by label; the cells of a bin are added up. A column with more
        than :data:`COMBINED_VALUES` values in the window is left out. Design effects are not measured: they are 1.
        Raises as :meth:`read` does.
        """
        with self._statements(name, source, window, now) as (connection, statements):
            segments = statements.source.segments
            if statements.layout.has("model_version") and "model_version" not in segments:
                segments = (*segments, "model_version")
            combined = statements.source.model_copy(update={"segments": segments})
            reader = _Reader(connection, name, replace(statements, source=combined), whole=False)
            return reader.by_segment(edges)

    def feature_sample(
        self, name: str, source: SourceConfig, window: Window, *, limit: int, at_least: int = 0
    ) -> pd.DataFrame:
        """The ``features`` of at most ``limit`` items of the window, one row per item, the same sample every time.

        The sample is stratified by the predicted label and drawn in the database by the md5 of the items. An item's
        features are those of its first label's row. ``at_least`` is the least possible number of items, if it is
        known: of very many items only about :data:`CANDIDATES` times the sample are then sorted. Columns have the
        names of the configuration; numbers are floats. Raises as :meth:`read` does.
        """
        import pandas as pd  # noqa: PLC0415 - takes long to import, and most commands read no warehouse

        with self._statements(name, source, window, window.end) as (connection, statements):
            if not source.features:
                return pd.DataFrame()
            halvings = max(0, (at_least // (CANDIDATES * limit)).bit_length() - 1)
            rows = statements.result(connection, statements.feature_sample(limit, halvings)).all()
            if halvings and len(rows) < limit:  # ``at_least`` counted repeated rows as items
                rows = statements.result(connection, statements.feature_sample(limit)).all()
            frame = pd.DataFrame([tuple(row) for row in rows], columns=list(source.features))
        columns = statements.layout.columns
        numbers = [feature for feature in source.features if columns[feature].kind in NUMERIC]
        return frame.astype(dict.fromkeys(numbers, "float64"))

    def examples(
        self, name: str, source: SourceConfig, window: Window, query: ExampleQuery, *, now: datetime
    ) -> list[ExampleRow]:
        """The rows behind a finding, most confident decisions first, the same rows every time.

        Only rows that count are given: the latest sound row of each (item, label). Raises as :meth:`read` does, and
        ValueError for a source of kind ``regression``, which has no decisions.
        """
        if source.kind == "regression":
            raise ValueError(f"{name} is of kind regression: it has numbers, no decisions that are right or wrong")
        with self._statements(name, source, window, now) as (connection, statements):
            repeated = statements.result(connection, statements.repeated()).scalar_one()
            rows = statements.result(connection, statements.behind(query, latest=repeated > 0)).mappings()
            return [example_row({**row}, tuple(source.segments)) for row in rows]

    def newest(self, name: str, source: SourceConfig, *, near: datetime, now: datetime) -> datetime | None:
        """The date of the newest row that is not in the future; None if the source has no row.

        If there is a row with near <= date < now, which is usual and quickly found, the result is ``near`` itself.
        Raises as :meth:`read` does.
        """
        window = Window(near, now, "", "weekly")
        with self._session(name) as connection:
            layout = self._layout(connection, name, source)
            statements = STATEMENTS[source.kind](source, layout, self._dialect, window, now)
            if connection.execute(statements.dated(near, now).limit(1)).first() is not None:
                return near
            return self._dialect.aware(connection.execute(statements.newest(near)).scalar())

    @contextmanager
    def _statements(
        self, name: str, source: SourceConfig, window: Window, now: datetime
    ) -> Iterator[tuple[sa.Connection, Statements]]:
        """The statements about a source, and their connection: the warehouse, or a copy of the rows with new scores."""
        self._relations.update(source.relations)
        with self._session(name) as connection:
            layout = self._layout(connection, name, source)
            plain = statements_of(source, layout, self._dialect, window, now)
            if source.score is None:
                yield connection, plain
            else:
                with localised(connection, plain) as (local, statements):
                    yield local, statements

    @contextmanager
    def _session(self, name: str) -> Iterator[sa.Connection]:
        """A connection whose errors are raised as :class:`RelationError` and :class:`WarehouseFailed`."""
        import duckdb  # noqa: PLC0415 - as pandas

        limit = TimeLimit(self._timeout_s)
        try:
            with self._connected() as connection, connection.begin():
                driver = connection.connection.driver_connection
                with limit.watching(lambda: self._dialect.cancel(driver)):
                    self._dialect.limit(connection, limit.seconds)
                    before = self._dialect.bytes_read(connection)
                    yield connection
                    after = self._dialect.bytes_read(connection)
                    if before is not None and after is not None:
                        self._bytes_read = (self._bytes_read or 0) + after - before
        except (exc.DBAPIError, duckdb.Error) as error:
            raise (_too_long(limit, self._url) if limit.expired else self._explained(name, error)) from error

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        """A new connection, or the one that is kept open. After an error it is closed."""
        kept = self._kept
        connection = kept.pop() if kept else None
        if connection is not None and connection.info[KEEPS_FOR] != sorted(self._relations):
            connection.close()
            connection = None
        connection = self._engine.connect() if connection is None else connection
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if kept is None or kept is not self._kept or not connection.info.get(KEEPS_FOR):
            connection.close()
        else:
            kept.append(connection)

    def _explained(self, name: str, error: exc.DBAPIError | duckdb.Error) -> RelationError | WarehouseFailed:
        of_the_relation = (
            isinstance(error, exc.DBAPIError)
            and not error.connection_invalidated
            and self._dialect.of_the_relation(error)
        )
        return _explained(name, error, self._url, of_the_relation=of_the_relation)

    def _layout(self, connection: sa.Connection, name: str, source: SourceConfig, *, every: bool = False) -> Layout:
        """The relation as one row per (item, label); ``every``: with the rows whose truth is not known yet."""
        relation = parsed(name, source, self._dialect)
        if isinstance(relation, RelationProblem):
            raise RelationError([relation])
        layout = long_form(connection, name, source, relation, self._dialect)
        if not isinstance(layout, Layout):
            raise RelationError(layout)
        return layout if every or source.unresolved is None else with_truth(layout)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts by (segment, value) and label, where ("", "") is all rows; and the number of rows by model version."""

    of: Mapping[tuple[str, str], Mapping[str, Counts]]
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Items:
    """The sums of items over the rows that count, and how many rows repeat an (item, label).

    ``rows`` counts all rows of the window, ``kept`` those that are not rejected; both are None if they were not
    counted. ``fingerprint`` is None unless it was requested.
    """

    sums: Arrays
    repeated: int
    fingerprint: str | None = None
    rows: int | None = None
    kept: int | None = None


@dataclass(frozen=True, slots=True)
class _Reader:
    """The steps of one reading on one connection."""

    connection: sa.Connection
    name: str
    statements: Statements
    whole: bool = True
    hashed: bool = False

    def reading(self) -> Reading:
        """The whole reading: the sums, and the rejected rows by reason, if there are any."""
        source, window = self.statements.source, self.statements.window
        crowded = self._crowded(source.segments, SEGMENT_VALUES)
        segments = [segment for segment in source.segments if segment not in crowded]
        groups, found = self._groups_and_items(segments)
        latest = found.repeated > 0
        counted = self._counts(groups, segments, self._label_effects(latest=latest))
        labels = counted.of.get(("", ""), {})
        rows = sum(counts.rows for counts in labels.values())
        rejected = () if found.rows is not None and found.rows == found.kept else self._rejected(latest=latest)
        return Reading(
            source=self.name,
            window=window,
            labels=labels,
            segments={key: of for key, of in counted.of.items() if key != ("", "")},
            whole_design_effect=self._effect_of_rows(found.sums, latest=latest),
            versions=counted.versions,
            quality=(*self._quality(found.repeated, rejected), *self._left_out(crowded)),
            rows=rows,
            ranked=self._ranked(latest=latest),
            items=self._of_items(found.sums, latest=latest),
            whole=self._whole(latest=latest),
            rejected=rejected,
            fingerprint=found.fingerprint,
        )

    def numbers(self) -> Reading:
        """The reading of a source of numbers, whose rows leave the warehouse; a sample if there are too many."""
        statements = self.statements
        if not isinstance(statements, NumberStatements):
            raise AssertionError("only a source of kind regression has numbers")
        repeated = self._number(statements.repeated())
        latest = repeated > 0
        total, rejected = self._number(statements.total(latest=latest)), self._rejected(latest=latest)
        rows = self._fetch(statements.numbers(ITEMS_AT_MOST, latest=latest))
        return Reading(
            source=self.name, window=statements.window, labels={}, segments={}, whole_design_effect=1.0,
            versions=self._versions(latest=latest), quality=self._quality(repeated, rejected), rows=total,
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
        found: dict[int, Counts] = {}
        for rank in RANKS:
            parts = (_weighed(_chosen(columns, upto == k)) for k in RANKS if k <= rank)
            within = pool(counts_from_groups({**part}, score_is=statements.source.score_is) for part in parts)
            if within.rows:
                effect = self._effect(partial(statements.ranked_dependence, latest=latest, rank=rank))
                found[rank] = within.with_design_effect(effect)
        return found

    def _groups_and_items(self, segments: Sequence[str]) -> tuple[Arrays, _Items]:
        """The groups of the counts, and the sums of items.

        Usually there are two scans: the groups give the labels, and with these the sums of items show whether an (item,
        label) repeats. To group the rows by item and label would take more time and memory than both.
        """
        if not self.statements.items_of_all_rows:
            found = self._items_in_scans()
            return self._groups(segments, latest=found.repeated > 0), found
        before = None if self.statements.has_hash else self._fingerprint()
        groups = self._groups(segments, latest=False)
        found = self._items(groups, before)
        if found.repeated or not (self.statements.dialect.one_state or _of_the_same_rows(groups, found)):
            groups = self._groups(segments, latest=found.repeated > 0)
        return groups, found

    def _items(self, groups: Arrays, fingerprint: str | None) -> _Items:
        """The sums of items and the fingerprint: one scan if there are few labels and no (item, label) repeats."""
        statements, source = self.statements, self.statements.source
        labels = [str(label) for label in dict.fromkeys(_of_all_rows(groups)["label"].tolist())]
        bits = labels if statements.dialect.counts_bits and len(labels) <= BITS else []
        hashed = self.hashed and statements.has_hash
        sums = self._fetch(statements.items_of_every_row(bits, hashed=hashed))
        rows, kept, coming, again = (
            _whole_number(sums.pop(name, None)) for name in ("seen", "kept", "coming", "again")
        )
        total = (rows, _whole_number(sums.pop("hash", None)), coming)
        fingerprint = _fingerprint_of(source, [total]) if hashed else fingerprint
        repeated = self._number(statements.repeated()) if again or (kept and not bits) else 0
        if repeated or again:
            sums = self._fetch(statements.of_items(latest=repeated > 0))
        return _Items(sums, repeated, fingerprint, rows, kept)

    def _items_in_scans(self) -> _Items:
        """The same by one scan each, for sources in which a row depends on the other rows of its item."""
        fingerprint = self._fingerprint()  # first, so that rows which arrive meanwhile are seen as a change later
        repeated = self._number(self.statements.repeated())
        return _Items(self._fetch(self.statements.of_items(latest=repeated > 0)), repeated, fingerprint)

    def _fingerprint(self) -> str | None:
        return _fingerprint(self.connection, self.statements) if self.hashed else None

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
        if _are_apart(sums):
            sums = self._fetch(self.statements.item_dependence(latest=latest))
            return {name: _effect_of(sums, name, 0) for name in metrics}
        row = _row(sums, 0)
        return {name: rounded_effect(design_effect(_of_item_values(row, name))) for name in metrics}

    def _effect_of_rows(self, sums: Arrays, *, latest: bool) -> float:
        """The design effect of all rows within items and clusters, from the sums of items if these suffice."""
        row, has_cluster = _row(sums, 0), self.statements.layout.has("cluster")
        rows = {name.removeprefix("rows_"): value for name, value in row.items() if name.startswith("rows_")}
        within_items = ClusterSums.of(rows)
        if not has_cluster or _are_apart(sums):
            return self._effect(partial(self.statements.dependence, latest=latest), within_items)
        clusters, both = (
            ClusterSums.of({**rows, **{name: row[f"{part}_{name}"] for name in ("aa", "aw", "cc")}})
            for part in ("clusters", "both")
        )
        return rounded_effect(two_way_effect(within_items, clusters, both))

    def _effect(self, dependence: Callable[..., sa.Select[Any]], within_items: ClusterSums | None = None) -> float:
        """The design effect of rows within items and clusters; ``dependence`` takes the columns that rows share."""
        items = self._cluster_sums(dependence("item")) if within_items is None else within_items
        if not self.statements.layout.has("cluster"):
            return rounded_effect(design_effect(items))
        clusters, both = (self._cluster_sums(dependence(*keys)) for keys in (("cluster",), ("item", "cluster")))
        return rounded_effect(two_way_effect(items, clusters, both))

    def _cluster_sums(self, statement: sa.Select[Any]) -> ClusterSums:
        return ClusterSums.of(_row(self._fetch(statement), 0))

    def _whole(self, *, latest: bool) -> ProbabilityRows | None:
        """Whole rows of probabilities, of a sample of the items if there are too many."""
        statements = self.statements
        if not self.whole or not isinstance(statements, WholeStatements):
            return None
        found = self._fetch(statements.truths(latest=latest))
        items, true, scored = (int(found[name][0]) for name in ("items", "true", "scored"))
        if not items:
            return None
        share, least = sampling(items, true, scored)
        rows = self._fetch(statements.whole_rows(latest=latest, share=share, least=least))
        return probability_rows(rows, items)

    def _fetch(self, statement: sa.Executable) -> Arrays:
        return self.statements.arrays(self.connection, statement)

    def _rejected(self, *, latest: bool) -> tuple[RejectedCell, ...]:
        """The rejected rows of the window by label, reason, place of the score and truth, sorted."""
        statements = self.statements
        of_items = [statements.untrue(latest=latest)] if isinstance(statements, WholeStatements) else []
        cells = [
            _rejected_cell(*row)
            for statement in (statements.rejected(), *of_items)
            for row in statements.result(self.connection, statement)
        ]
        return tuple(sorted(cells, key=lambda cell: repr((cell.label, cell.reason, cell.place, cell.truth))))

    def _quality(self, repeated: int, rejected: Sequence[RejectedCell]) -> tuple[RejectedRows, ...]:
        found: dict[str, int] = {RejectReason.DUPLICATE.value: repeated}
        undated = self.statements.result(self.connection, self.statements.undated())
        for reason, n in (*((cell.reason, cell.rows) for cell in rejected), *undated):
            found[reason] = found.get(reason, 0) + int(n)
        some = [reason for reason in RejectReason if found.get(reason.value, 0) > 0]
        examples = self._examples(some)
        return tuple(
            RejectedRows(self.name, reason.value, found[reason.value], examples.get(reason.value, ()))
            for reason in some
        )

    def _examples(self, reasons: Sequence[RejectReason]) -> Mapping[str, tuple[Mapping[str, str | None], ...]]:
        """Examples of rejected rows by reason, sorted."""
        if not reasons:
            return {}
        examples = self.statements.result(self.connection, self.statements.examples(tuple(reasons)))
        rows = [dict(row) for row in examples.mappings()]
        found: dict[str, list[Mapping[str, str | None]]] = {}
        for row in sorted(rows, key=lambda row: int(row["place"])):
            shown = {name: _shown(row[name]) for name in ("item", "label", "score", "date")}
            found.setdefault(str(row["reason"]), []).append(shown)
        return {reason: tuple(shown) for reason, shown in found.items()}

    def _crowded(self, segments: Sequence[str], limit: int) -> list[str]:
        """The segments with more than ``limit`` values: grouping by an id, say, would fetch nearly every row."""
        if not segments:
            return []
        found = self._fetch(self.statements.many_values(segments, limit))
        many = dict(zip(found["place"].tolist(), found["n"].tolist(), strict=True))
        return [segment for place, segment in enumerate(segments) if many.get(place, 0) > limit]

    def _left_out(self, segments: Sequence[str]) -> tuple[RejectedRows, ...]:
        """A record of the segments that were left out. Their rows still count."""
        columns = tuple({"segment": segment, "values": f"more than {SEGMENT_VALUES}"} for segment in segments)
        return (RejectedRows(self.name, TOO_MANY_VALUES, 0, columns),) if columns else ()

    def _groups(self, segments: Sequence[str], *, latest: bool) -> Arrays:
        """The groups of the counts, for :meth:`_counts`."""
        versions = self.statements.layout.has("model_version") and "model_version" not in segments
        return self._fetch(self.statements.groups(latest=latest, segments=segments, versions=versions))

    def _counts(self, groups: Arrays, segments: Sequence[str], effects: Mapping[str, Effects]) -> _Counted:
        """Counts by segment, value and label, and rows by model version, from the groups of one statement."""
        has_version, of_segment = self.statements.layout.has("model_version"), "model_version" in segments
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
        labels, values = columns["label"], columns["value"]
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

    def _label_effects(self, *, latest: bool) -> Mapping[str, Effects]:
        """The design effects of each label: for all its rows, the predicted and the automated ones."""
        if not self.statements.layout.has("cluster"):
            return {}
        sums = self._fetch(self.statements.label_dependence(latest=latest))
        return {
            str(label): tuple(_effect_of(sums, where, index) for where in WHERES)
            for index, label in enumerate(sums["label"])
        }


def _has_fingerprint(source: SourceConfig) -> bool:
    return source.score is None and source.kind != "regression"


def _fingerprint(connection: sa.Connection, statements: Statements) -> str:
    rows = [tuple(map(_plain, row)) for row in statements.result(connection, statements.fingerprint())]
    if statements.has_hash:  # NULL is the sum of nothing
        rows = [tuple(int(value or 0) for value in row) for row in rows]
    return _fingerprint_of(statements.source, rows)


def _fingerprint_of(source: SourceConfig, rows: Sequence[tuple[Any, ...]]) -> str:
    text = repr((source.model_dump_json(), sorted(rows, key=repr)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _whole_number(column: npt.NDArray[Any] | None) -> int:
    """The only value of a column as an int; 0 if it is NULL or there is no such column."""
    if column is None:
        return 0
    (value,) = np.ma.filled(column, 0) if np.ma.isMaskedArray(column) else column
    if value is None or (isinstance(value, float) and math.isnan(value)):  # some drivers give NaN for NULL
        return 0
    return int(Decimal(value)) if isinstance(value, str) else int(value)


def _plain(value: Any) -> Any:
    """A fetched value, with whole decimals as int, so that its repr does not depend on the driver."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _unresolved(connection: sa.Connection, name: str, statements: Statements) -> UnresolvedRows:
    """The rows of one window by label, waiting and resolved."""
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


def _shown(value: str | None) -> str | None:
    return value if value is None or len(value) <= SHOWN_LENGTH else f"{value[:SHOWN_LENGTH]}…"


def _row(sums: Arrays, index: int) -> dict[str, float]:
    """One row of sums. NULL, the sum of no rows, becomes 0."""
    values = {name: np.ma.filled(column, np.nan)[index] for name, column in sums.items()}
    return {name: 0.0 if value is None or np.isnan(float(value)) else float(value) for name, value in values.items()}


def _part(sums: Arrays, part: str) -> Arrays:
    return {name.removeprefix(f"{part}_"): sums[name] for name in sums if name.startswith(f"{part}_")}


def _are_apart(sums: Arrays) -> bool:
    """Whether rows of one item are of different clusters, so that the sums of items say nothing about clusters."""
    return _whole_number(sums["apart"]) > 0


def _of_item_values(row: Mapping[str, float], metric: str) -> ClusterSums:
    """The sums of a metric's values of items within clusters, from those of ``Statements.of_items``."""
    known = {name: row[f"{metric}_{name}"] for name in ("aa", "aw", "cc", "rr")}
    r, w, ww = row[metric], row["w"], row["w2"]
    return ClusterSums(**known, r=r, w=w, rw=row.get(f"{metric}_rw", r), ww=ww)


def _effect_of(sums: Arrays, part: str, index: int) -> float:
    """The design effect of one part of a row of sums; 1 if the part has no rows."""
    return rounded_effect(design_effect(ClusterSums.of(_row(_part(sums, part), index))))


def _chosen(columns: Arrays, rows: npt.NDArray[np.bool_]) -> Arrays:
    """Some rows of every column, as plain arrays: none of their values may be NULL."""
    return {name: np.asarray(column[rows]) for name, column in columns.items()}


def _of_all_rows(groups: Arrays) -> Arrays:
    """The groups over all rows, without those of a segment or version."""
    return _chosen(groups, np.asarray(groups["division"], dtype=np.int64) == 0)


def _of_the_same_rows(groups: Arrays, items: _Items) -> bool:
    """Whether two statements saw the same rows: as many, with the same sum of residuals but for rounding."""
    counts = _weighed(_of_all_rows(groups))
    n, ws, wy = (float(np.sum(np.asarray(counts[name], dtype=np.float64))) for name in ("n", "ws", "wy"))
    return n == items.kept and abs(wy - ws - _row(items.sums, 0)["rows_r"]) <= _ROUNDING * n


def _with_keys(groups: Arrays) -> Arrays:
    """Groups with the columns cell, predicted and automated in place of ``key``, which holds all three."""
    key = np.asarray(groups["key"], dtype=np.int64)
    sums = {name: column for name, column in groups.items() if name != "key"}
    return {**sums, "cell": key // 4, "predicted": key % 4 >= 2, "automated": key % 2 == 1}


def _weighed(groups: Arrays) -> Arrays:
    """Groups with the columns w and w2; without weights they are the number of rows."""
    return groups if "w" in groups else {**groups, "w": groups["n"], "w2": groups["n"]}


def _split(values: Any, labels: Any) -> Iterator[tuple[str, str, Any]]:
    """(value, label, row numbers) of each pair that occurs. No strings are sorted: there may be 400,000."""
    value_codes, value_names = _numbered(values)
    label_codes, label_names = _numbered(labels)
    codes = value_codes * max(len(label_names), 1) + label_codes
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


# --- errors in plain words


def _kind_of(url: sa.URL) -> str:
    return OTHER_NAMES.get(url.get_backend_name(), url.get_backend_name())


def _too_long(limit: TimeLimit, url: sa.URL) -> WarehouseTimeout:
    found = f"no answer within {in_words(limit.seconds)}: {_address(url)} was still busy and its query was cancelled"
    remedy = "make the relation quicker (an index on its date, a table for a slow view)"
    return WarehouseTimeout(f"{found}; {remedy}, or raise CALMON_WAREHOUSE_TIMEOUT_S")


def _explained(
    name: str, error: exc.DBAPIError | duckdb.Error, url: sa.URL, *, of_the_relation: bool
) -> RelationError | WarehouseFailed:
    """The error for users: of the relation, if trying again would not help, else of the warehouse."""
    import duckdb  # noqa: PLC0415 - as pandas

    if "disabled by configuration" in str(error):
        return RelationError([RelationProblem(name, f"DuckDB may not open that: {_opened(error)}", _CONFINED)])
    if isinstance(error, duckdb.Error):  # while fetching, past SQLAlchemy
        return WarehouseFailed(f"{_address(url)}: {error}")
    message = _first_line(error)
    if of_the_relation:
        remedy = "correct `relation` in alerts.yaml, or what it names; the monitor needs SELECT on it"
        return RelationError([RelationProblem(name, f"the warehouse refuses the relation: {message}", remedy)])
    return WarehouseFailed(f"{_address(url)} {_what_to_do(message)}: {message}")


_CONFINED = (
    "only the database is read, and files of data (.parquet, .csv, .tsv, .json and the like, also .gz and .zst) that "
    "the relation, or a view of the database, names as a literal; load other data into the database"
)


def _opened(error: exc.DBAPIError | duckdb.Error) -> str:
    """What DuckDB refused to open, from its message."""
    message = _first_line(error) if isinstance(error, exc.DBAPIError) else str(error).splitlines()[0]
    quoted = re.search(r'"([^"]*)"', message)
    return quoted[1] if quoted else message


def _what_to_do(message: str) -> str:
    """What to do about a database that does not open, by its message."""
    text = message.lower()
    if "does not exist" in text or "unable to open" in text:
        return "is not there (create or mount it, or correct CALMON_WAREHOUSE_URL; the monitor never creates it)"
    if "lock" in text:
        return "is held by another process (a DuckDB file has one writer: try again when it is done)"
    return "does not answer (check that it runs and that CALMON_WAREHOUSE_URL is right)"


def _first_line(error: exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else type(error.orig).__name__


def _address(url: sa.URL) -> str:
    return f"the warehouse {shown_address(url.render_as_string(hide_password=True))}"
