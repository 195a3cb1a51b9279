"""Reading a source: the counts of one window, the rejected rows, and samples of its features.

Nothing is ever written: DuckDB and SQLite files are opened read-only, PostgreSQL is read in a read-only
transaction. DuckDB reads only the files that relations name (``confined.py``). In DuckDB, SQLite and PostgreSQL
all statements of one reading see the same rows; in other engines rows may arrive between two statements. CSV files
are read once into the memory of the session, unless they are large.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

import sqlalchemy as sa
from sqlalchemy import exc

from monitor.config.model import SourceConfig
from monitor.config.relation import is_files
from monitor.core.audits import AuditedItem
from monitor.core.maturity import TruthDelays
from monitor.core.records import (
    JOIN_ODD,
    LABELS_DIFFER,
    UNRESOLVED_FAILED,
    WAITING_UNUSABLE,
    Reason,
    RejectedCell,
    RejectedRows,
    RejectReason,
    Window,
    part_not_read,
)
from monitor.core.redaction import shown_address, without_secrets
from monitor.core.sessions import TimeLimit, in_words
from monitor.core.unresolved import UnresolvedRows
from monitor.warehouse.checks import Layout, OpenSource, truth_name
from monitor.warehouse.csv_rejects import UnreadableLine, lines_between
from monitor.warehouse.dialects import NUMERIC, ONE, Arrays, Dialect
from monitor.warehouse.engines import ENGINES, KEEPS_FOR, OTHER_NAMES
from monitor.warehouse.examination import (
    SEVERAL_ALLOWED,
    Examination,
    Join,
    examine,
    join_of,
    newest_rows,
    refused_join,
)
from monitor.warehouse.files import NUMBER, TEXT
from monitor.warehouse.items import STATEMENTS
from monitor.warehouse.label_names import doubts_about_join, doubts_about_labels
from monitor.warehouse.privileges import beyond_select
from monitor.warehouse.reading import Reader, Reading, has_fingerprint, unresolved_rows
from monitor.warehouse.relation import (
    RelationError,
    RelationProblem,
    UnreadableFile,
    WarehouseFailed,
    WarehouseTimeout,
    WrongWarehouseAddress,
)
from monitor.warehouse.scored import localised
from monitor.warehouse.shapes import long_form
from monitor.warehouse.statements import EXAMPLES, ExampleQuery, ExampleRow, Rows, Statements
from monitor.warehouse.survey import ColumnSample, Survey, samples, survey, table_names
from monitor.warehouse.unresolved import UnresolvedStatements, delays_of, with_truth

if TYPE_CHECKING:
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
CANDIDATES = 8
"""A sample is drawn from at least this many times its number of items."""

ENOUGH_TO_DOUBT = 20
"""Of a label with so many rows that were given it, most of them wrong, the names of truths are looked at."""


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
        self._unreadable: dict[str, Sequence[UnreadableLine]] = {}
        self._joins: dict[str, Join | None] = {}

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
        return cls(address, None, ENGINES[kind].dialect, timeout_s, set(relations))

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
            connection.execute(sa.select(ONE))

    def check(self, name: str, source: SourceConfig) -> list[RelationProblem]:
        """All problems that keep the source ``name`` from being evaluated; none: an empty list.

        Raises :class:`WarehouseFailed` if the warehouse does not answer.
        """
        try:
            with self._opened(name, source) as opened:
                self._layout(opened)
                _sound_join(opened)
        except RelationError as error:
            return list(error.problems)
        return []

    def examine(self, name: str, source: SourceConfig) -> Examination:
        """What the whole relation says of labels, ties and its join. Raises RelationError and WarehouseFailed."""
        with self._opened(name, source) as opened:
            return examine(opened)

    def _with_join(self, found: Reading, source: SourceConfig) -> Reading:
        """The reading, with what is odd about the join of truths; raises as :func:`_sound_join`.

        It is of the whole relation, so it is asked for once, and again where rows of the window are repeated.
        """
        if source.truth is None:
            return found
        repeated = sum(each.rows for each in found.quality if each.reason == RejectReason.DUPLICATE)
        if found.source not in self._joins or repeated > SEVERAL_ALLOWED * (found.rows + repeated):
            with self._opened(found.source, source) as opened:
                self._joins[found.source] = _sound_join(opened)
        join = self._joins[found.source]
        is_meant = join is None or (join.several > 0 and source.latest_by != ())
        return found if join is None or is_meant else found.noted(JOIN_ODD, doubts_about_join(join))

    def survey(self, name: str, source: SourceConfig) -> Survey:
        """A summary of the whole relation of ``source``, which is read once. Raises as :meth:`read`."""
        with self._opened(name, source) as opened:
            found = survey(opened, self._layout(opened))
            replaced, ties = newest_rows(opened)
            return replace(found, replaced=replaced, ties=ties)

    def tables(self) -> list[str]:
        """The tables and views of the warehouse, as ``relation`` would name them. Raises :class:`WarehouseFailed`."""
        with self._session("") as connection:
            return table_names(connection, self._dialect)

    @property
    def engine(self) -> str:
        """The name of the engine, such as postgresql."""
        return self._dialect.name

    def samples(self, relation: str) -> Sequence[ColumnSample]:
        """The columns of a relation with some of their values.

        Raises :class:`RelationError` and :class:`WarehouseFailed` as :meth:`read` does.
        """
        with self._opened("", SourceConfig(relation=relation, score_is="probability_of_label")) as opened:
            return samples(opened)

    def beyond_select(self) -> list[str] | None:
        """What the monitor's role may do beyond reading, in words; None if the engine has no roles.

        Raises :class:`WarehouseFailed` if the warehouse does not answer.
        """
        if self._dialect.name != "postgresql":
            return None
        with self._session("") as connection:
            return beyond_select(connection)

    def read(self, name: str, source: SourceConfig, window: Window, *, now: datetime, whole: bool = True) -> Reading:
        """The counts of ``source`` in ``window``. Dates after ``now`` (time zone aware) lie in the future.

        Without ``whole``, ranks, rows of probabilities and rows without a truth are not read. If only the rows without
        a truth cannot be read, the rest is returned, and ``quality`` says why.
        Raises :class:`RelationError` if the relation does not meet the contract, and :class:`WarehouseFailed` if the
        warehouse does not answer.
        """
        with self._rows(name, source, window, now) as (rows, outside):
            found = Reader(rows.connection, rows.statements, name, outside, whole).reading()
        found = self._with_odd_names(self._with_lines(found, source), source)
        found = self._with_join(found, source)
        return self._with_unresolved(found, source) if whole and source.unresolved else found

    def _with_odd_names(self, found: Reading, source: SourceConfig) -> Reading:
        """The reading, with what is odd about the names of truths if a label is wrong most of the time."""
        given = [counts.where("predicted") for counts in found.labels.values()]
        is_wrong = (each.rows >= ENOUGH_TO_DOUBT and float(each.rate @ each.n) < each.rows / 2 for each in given)
        if truth_name(source) != "true_label" or not any(is_wrong):
            return found
        seen, files = self.examine(found.source, source), all(map(is_files, source.relations))
        return found.noted(LABELS_DIFFER, doubts_about_labels(seen, files=files, only_alike=True))

    def _with_unresolved(self, found: Reading, source: SourceConfig) -> Reading:
        try:
            rows = self.unresolved(found.source, source, found.window)
        except (RelationError, WarehouseFailed) as error:
            return with_part_not_read(found, UNRESOLVED_FAILED, error)
        aside = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in rows.set_aside.items())
        why = f"of rows without a truth {sum(rows.set_aside.values()):,} cannot be used: {aside}"
        return replace(found, unresolved=rows).noted(WAITING_UNUSABLE, [why] if aside else [])

    def _with_lines(self, found: Reading, source: SourceConfig) -> Reading:
        """The reading with the lines that are no rows of the files that a source names, as they were read last.

        Of these, each that is of the window has lost a row, or one for each label.
        """
        paths = dict.fromkeys(relation.strip() for relation in source.relations)
        aside = [line for path in paths for line in self._unreadable.get(path, ())]
        if not aside:
            return found
        reason, date, given_type = (
            RejectReason.LINE_UNREADABLE.value,
            source.window_on,
            source.types.get(source.window_on),
        )
        form = None if given_type in (None, NUMBER, TEXT) else given_type  # None is an ISO date
        lines = lines_between(aside, source.columns.get(date, date), form, found.window)
        lost = lines * (max(len(found.labels), 1) if source.wide is not None else 1)
        cells = [RejectedCell(None, reason, None, None, lost)] if lines else []
        examples = tuple({"line": f"line {each.line} of {each.path}", "why": each.why} for each in aside[:EXAMPLES])
        quality = (RejectedRows(found.source, reason, len(aside), examples), *found.quality)
        return replace(found, quality=quality, rejected=(*found.rejected, *cells))

    def fingerprint(self, name: str, source: SourceConfig, window: Window, *, now: datetime) -> str | None:
        """A text that changes when the rows of the window change, or the configuration by which they are read.

        It takes one scan, which counts rows and adds up a hash of each. None for sources without one: those whose
        scores are computed here, and those of numbers, whose rows leave the warehouse anyway. Raises as :meth:`read`
        does.
        """
        if not has_fingerprint(source):
            return None
        with self._rows(name, source, window, now) as (rows, _):
            return rows.fingerprint()[1]

    def unresolved(
        self, name: str, source: SourceConfig, window: Window, *, known_at: datetime | None = None
    ) -> UnresolvedRows:
        """The rows that were predicted in the window, by score, with and without a truth at ``known_at``.

        ``known_at`` is the end of the window by default. Raises as :meth:`read` does, and ValueError for a source
        without ``unresolved``.
        """
        moment = window.end if known_at is None else known_at
        with self._predicted(name, source, window, moment) as rows:
            return unresolved_rows(name, rows)

    def drawn(
        self, name: str, source: SourceConfig, window: Window, *, seed: str, each: int, now: datetime
    ) -> list[AuditedItem]:
        """Of each label ``each`` random items that were predicted in the window and act alone; always the same ones.

        Raises as :meth:`unresolved` does.
        """
        with self._predicted(name, source, window, now) as rows:
            found = rows.connection.execute(rows.counted(1).statements.drawn(seed, each))
            return [
                AuditedItem(
                    name, window.start, str(label), str(item), float(score), int(of),
                    stated=None if truth is None else float(truth),
                )
                for label, item, score, of, truth in found
            ]  # fmt: skip

    @contextmanager
    def _predicted(
        self, name: str, source: SourceConfig, window: Window, moment: datetime
    ) -> Iterator[Rows[UnresolvedStatements]]:
        """The rows that were predicted in the window, with and without a truth at ``moment``."""
        with (
            self._opened(name, source) as opened,
            localised(self._of_predicted(opened, window, moment)) as rows,
        ):
            yield rows

    def _of_predicted(self, opened: OpenSource, window: Window, moment: datetime) -> Rows[UnresolvedStatements]:
        """The rows by the time of their prediction."""
        source = opened.source
        if not source.unresolved:
            raise ValueError(f"{opened.name} has no unresolved: nothing is known of rows without a truth")
        dated = source.model_copy(update={"window_on": "predicted_at"})
        layout = self._layout(replace(opened, source=dated), every=True)
        return Rows(opened.connection, UnresolvedStatements(dated, layout, self._dialect, window, moment))

    def delays(
        self, name: str, source: SourceConfig, windows: Sequence[Window], *, now: datetime
    ) -> Mapping[str | None, tuple[TruthDelays, ...]]:
        """When the truths of the items that were predicted in adjacent windows became known, as of ``now``.

        By label, and for all labels together under None, in the order of ``windows``. Raises as :meth:`read` does, and
        ValueError for a source without ``unresolved``.
        """
        span = Window(windows[0].start, windows[-1].end, "", windows[0].schedule)
        with self._opened(name, source) as opened:
            rows = self._of_predicted(opened, span, now)
            return delays_of(rows.fetch(rows.statements.delays(windows)), windows, now)

    def label_pairs(self, name: str, source: SourceConfig, window: Window, most: int, *, now: datetime) -> Arrays:
        """The sums of ``Statements.pairs`` for the ``most`` most frequent labels. Raises as :meth:`read` does."""
        with self._rows(name, source, window, now) as (rows, _):
            return rows.fetch(rows.counted().statements.pairs(most))

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

        with self._rows(name, source, window, window.end) as (rows, _):
            if not source.features:
                return pd.DataFrame()
            execute, sample = rows.connection.execute, rows.statements.feature_sample
            halvings = max(0, (at_least // (CANDIDATES * limit)).bit_length() - 1)
            items = execute(sample(limit, halvings)).all()
            if halvings and len(items) < limit:  # ``at_least`` counted repeated rows as items
                items = execute(sample(limit)).all()
            frame = pd.DataFrame([tuple(item) for item in items], columns=list(source.features))
        columns = rows.statements.layout.columns
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
        with self._rows(name, source, window, now) as (rows, _):
            statements = rows.counted().statements
            behind = rows.ask(statements.behind(query))
            dated = ({**row, "resolved": self._dialect.aware(row["resolved"])} for row in behind)
            found = [
                ExampleRow(
                    str(row["item"]), str(row["label"]), float(row["score"]), float(row["actual"]),
                    predicted=float(row["predicted"]) == 1,
                    resolved_at=row["resolved"].astimezone(UTC),
                    segments={name: str(row[f"segment_{index}"]) for index, name in enumerate(source.segments)},
                )
                for row in dated
            ]  # fmt: skip
            true: dict[str, dict[str, None]] = {}
            if found:
                named = statements.true_of({row.item for row in found})
                for item, label in rows.connection.execute(named):
                    true.setdefault(str(item), {})[str(label)] = None
            return [replace(row, true_labels=tuple(true.get(row.item, ()))) for row in found]

    def newest(self, name: str, source: SourceConfig, *, near: datetime, now: datetime) -> datetime | None:
        """The date of the newest row that is not in the future; None if the source has no row.

        If there is a row with near <= date < now, which is usual and quickly found, the result is ``near`` itself.
        Raises as :meth:`read` does.
        """
        window = Window(near, now, "", "weekly")
        with self._opened(name, source) as opened:
            statements = STATEMENTS[source.kind](source, self._layout(opened), self._dialect, window, now)
            if opened.connection.execute(statements.dated(near, now).limit(1)).first() is not None:
                return near
            return self._dialect.aware(opened.connection.execute(statements.newest(near)).scalar())

    @contextmanager
    def _rows(
        self, name: str, source: SourceConfig, window: Window, now: datetime
    ) -> Iterator[tuple[Rows[Statements], Rows[Statements]]]:
        """The rows of a window, and those of the warehouse: the same, unless the first are a copy with new scores."""
        with self._opened(name, source) as opened:
            layout = self._layout(opened)
            outside = Rows(opened.connection, STATEMENTS[source.kind](source, layout, self._dialect, window, now))
            with localised(outside) as rows:
                yield rows, outside

    @contextmanager
    def _opened(self, name: str, source: SourceConfig) -> Iterator[OpenSource]:
        """A source with a connection, as :meth:`_session`."""
        self._relations.update(source.relations)
        with self._session(name) as connection:
            yield OpenSource(connection, name, source, self._dialect)

    @contextmanager
    def _session(self, name: str) -> Iterator[sa.Connection]:
        """A connection whose errors are raised as :class:`RelationError` and :class:`WarehouseFailed`."""
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
        except _driver_errors() as error:
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

    def _explained(self, name: str, error: Exception) -> RelationError | WarehouseFailed:
        """The error for users: of the relation, if trying again would not help, else of the warehouse."""
        if isinstance(error, UnreadableFile):
            return RelationError([RelationProblem(name, str(error), error.remedy)])
        if "disabled by configuration" in str(error):
            return RelationError([RelationProblem(name, f"DuckDB may not open that: {_refused(error)}", _CONFINED)])
        if not isinstance(error, exc.DBAPIError):  # while fetching, past SQLAlchemy
            return WarehouseFailed(f"{_address(self._url)}: {error}")
        message = _first_line(error)
        if error.connection_invalidated or not self._dialect.of_the_relation(error):
            return WarehouseFailed(f"{_address(self._url)} {_what_to_do(message)}: {message}")
        is_cut = any(sign in message for sign in ("magic bytes", "too small to be a Parquet file"))
        cut = "it is cut, or no Parquet file: write it again, or take it out of the folder"
        wrong = "correct `relation` in alerts.yaml, or what it names; the monitor needs SELECT on it"
        refused = f"the warehouse refuses the relation: {message}"
        return RelationError([RelationProblem(name, refused, cut if is_cut else wrong)])

    def _layout(self, opened: OpenSource, *, every: bool = False) -> Layout:
        """The relation as one row per (item, label); ``every``: with the rows whose truth is not known yet."""
        layout = long_form(opened)
        self._unreadable.update(self._dialect.unreadable_lines(opened.connection))
        return layout if every or not opened.source.unresolved else with_truth(layout, self._dialect)


def _sound_join(opened: OpenSource) -> Join | None:
    """How predictions meet truths. Raise :class:`RelationError` if they meet several, or those of other items."""
    join = join_of(opened)
    problem = None if join is None else refused_join(opened, join)
    if problem is not None:
        raise RelationError([problem])
    return join


def problem_of(error: RelationError | WarehouseFailed) -> Reason:
    """The named reason of an error while reading."""
    return Reason.RELATION_ERROR if isinstance(error, RelationError) else Reason.WAREHOUSE_FAILED


def with_part_not_read(reading: Reading, part: str, error: RelationError | WarehouseFailed) -> Reading:
    """The reading, whose ``quality`` says that a part of it could not be read, and why."""
    said = part_not_read(reading.source, part, problem_of(error), without_secrets(str(error)))
    return replace(reading, quality=(*reading.quality, said))


# --- errors in plain words


def _driver_errors() -> tuple[type[Exception], ...]:
    """The errors of statements. Those of DuckDB, if it was imported, get past SQLAlchemy while rows are fetched."""
    duckdb = sys.modules.get("duckdb")
    known = (exc.DBAPIError, UnreadableFile)
    return known if duckdb is None else (*known, duckdb.Error)


def _kind_of(url: sa.URL) -> str:
    return OTHER_NAMES.get(url.get_backend_name(), url.get_backend_name())


def _too_long(limit: TimeLimit, url: sa.URL) -> WarehouseTimeout:
    found = f"no answer within {in_words(limit.seconds)}: {_address(url)} was still busy and its query was cancelled"
    remedy = "make the relation quicker (an index on its date, a table for a slow view)"
    return WarehouseTimeout(f"{found}; {remedy}, or raise CALMON_WAREHOUSE_TIMEOUT_S")


_CONFINED = (
    "only the database is read, and files of data (.parquet, .csv, .tsv, .json and the like, also .gz and .zst) that "
    "the relation, or a view of the database, names as a literal; load other data into the database"
)


def _refused(error: Exception) -> str:
    """What DuckDB refused to open, from its message."""
    message = _first_line(error) if isinstance(error, exc.DBAPIError) else str(error).splitlines()[0]
    quoted = re.search(r'"([^"]*)"', message)
    return quoted[1] if quoted else message


_NO_ROOM = ("temporary file size exceeds", "no space left on device", "memory limit", "out of memory", "outofmemory")
"""What engines say, in lower case, that have no room for a statement on disk or in memory."""


def _what_to_do(message: str) -> str:
    """What to do about a database that does not open, by its message."""
    text = message.lower()
    if "does not exist" in text or "unable to open" in text:
        return "is not there (create or mount it, or correct CALMON_WAREHOUSE_URL; the monitor never creates it)"
    if any(each in text for each in _NO_ROOM):
        return "has no room for a statement (give it more memory, or more disk for temporary files)"
    if "lock" in text:
        return "is held by another process (a DuckDB file has one writer: try again when it is done)"
    return "does not answer (check that it runs and that CALMON_WAREHOUSE_URL is right)"


def _first_line(error: exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else type(error.orig).__name__


def _address(url: sa.URL) -> str:
    return f"the warehouse {shown_address(url.render_as_string(hide_password=True))}"
