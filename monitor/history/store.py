"""The store: all access to the history database. Every method is one transaction and can be repeated.

Reading sees one snapshot. Writing replaces rows, inserts missing ones, or changes a row only if it is still as the
caller read it. Most methods call a function of the module that has the tables; see its docstring there.
Reading raises HistoryDamaged if rows cannot be turned into records.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, Self, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, DBAPIError, StatementError

from monitor.core.records import Delivery, Identity, RuleEvidence, SwitchEvent, SwitchState, Window
from monitor.core.redaction import shown_address
from monitor.history import (
    delivery_rows,
    diagnosis_rows,
    evaluations,
    identity,
    incident_rows,
    prune,
    readings,
    renames,
    schema,
    tables,
    truth_rows,
)
from monitor.history import past_promises as past_promise_rows
from monitor.history import switches as switch_rows
from monitor.history import thresholds as threshold_rows
from monitor.history import timeline as timeline_rows
from monitor.history.connect import (
    BUSY_TIMEOUT_MS,
    beside_others,
    database_file,
    for_reading,
    for_writing,
    open_engine,
    store_url,
)
from monitor.history.errors import HistoryDamaged, HistoryLost, LostRace, StoreMissing, StoreUnreachable
from monitor.history.marker import marker_file, read_marker, remove_marker, write_marker
from monitor.history.reader import StoredSwitches, revision_of, stored_switches
from monitor.history.readings import StoredReading
from monitor.history.switches import Applied
from monitor.history.thresholds import Publication, Publisher, Thresholds

if TYPE_CHECKING:
    from monitor.core.baseline import Baseline

_P = ParamSpec("_P")
_R = TypeVar("_R")
_REMEDY = "`calmon db check` looks for damage; where it finds some, restore a backup"
Claimed: TypeAlias = Literal["applied", "conflict"]


def _reading(query: Callable[Concatenate[Connection, _P], _R]) -> Callable[Concatenate[Store, _P], _R]:
    """A method of the store that runs this query in one snapshot."""

    @wraps(query)
    def method(store: Store, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with store._read() as connection:
            return query(connection, *args, **kwargs)

    return method


def _writing(change: Callable[Concatenate[Connection, _P], _R]) -> Callable[Concatenate[Store, _P], _R]:
    """A method of the store that makes this change, in one transaction."""

    @wraps(change)
    def method(store: Store, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with store._write() as connection:
            return change(connection, *args, **kwargs)

    return method


def _claiming(change: Callable[Concatenate[Connection, _P], None]) -> Callable[Concatenate[Store, _P], Claimed]:
    """A method of the store that makes this change: "applied" as a whole, or "conflict" if somebody else was first."""

    @wraps(change)
    def method(store: Store, /, *args: _P.args, **kwargs: _P.kwargs) -> Claimed:
        try:
            with store._write() as connection:
                change(connection, *args, **kwargs)
        except LostRace:
            return "conflict"
        return "applied"

    return method


class Store:
    """The history database. Open it with :meth:`from_url`, close it with ``with`` or :meth:`close`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store.from_url(f"sqlite:///{folder.name}/history.sqlite") as store:
    ...     store.switch("tickets", "billing").state
    'never_set'
    >>> folder.cleanup()
    """

    def __init__(self, engine: Engine, marker: Path | None = None) -> None:
        self._engine = engine
        self._marker = marker
        self._reader = for_reading(engine)
        self._writer = for_writing(engine)
        self._is_checked = False
        self._here = threading.local()

    @classmethod
    def from_url(cls, url: str, *, create: bool = True, check: bool = True, anew: bool = False) -> Self:
        """Open a history. ``create`` makes folders, database file and tables if there never was a history.

        ``check=False`` skips the check of the revision, for the one command that changes it; else each transaction
        checks it again, since another program may upgrade the tables while this one runs for months. ``anew``: an
        operator asks for a new history in the place of a lost one. Raises :class:`StoreMissing`,
        :class:`HistoryLost`, :class:`SchemaOutdated` or :class:`StoreUnreachable`.
        """
        address = store_url(url)
        shown = shown_address(address.render_as_string(hide_password=True))
        marker = marker_file(address)
        if anew:
            remove_marker(marker)
        lost = _lost(shown, marker)  # before anything else: a history that another process creates now is not lost
        _make_folder(address, shown, lost, create=create)
        store = cls(open_engine(address), marker)
        try:
            store._open(shown, lost, create=create, check=check, anew=anew)
        except BaseException:
            store.close()
            raise
        return store

    def _open(self, shown: str, lost: HistoryLost | None, *, create: bool, check: bool, anew: bool) -> None:
        found = self.revision()
        if found is None and (lost or not create):
            raise lost or _missing(shown)
        if found is None:
            self.upgrade(by_operator=anew)
        elif check:
            schema.refuse_other_revision(found)
        self._is_checked = check
        if found is not None and check and create:
            self.close_if_older_copy()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Within it, this thread reads one snapshot of the history, and cannot write."""
        if self._moment() is not None:
            yield
            return
        with self._begun(self._reader) as connection:
            self._here.moment = connection
            try:
                yield
            finally:
                self._here.moment = None

    def _moment(self) -> Connection | None:
        found: Connection | None = getattr(self._here, "moment", None)
        return found

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self.one_moment():
            connection = self._moment()
            assert connection is not None  # noqa: S101 - one_moment has just made it
            try:
                yield connection
            except (ValueError, TypeError, KeyError) as error:  # a row of a damaged file
                cause = f"{type(error).__name__}: {error}"
                raise HistoryDamaged(f"something in the history cannot be read ({cause}); {_REMEDY}") from error

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        if self._moment() is not None:
            raise RuntimeError("nothing is written while the history is read at one moment")
        with self._begun(self._writer, writes=True) as connection:
            yield connection

    @contextmanager
    def _begun(self, engine: Engine, *, writes: bool = False) -> Iterator[Connection]:
        """A transaction on tables of this program's revision. Raises SchemaOutdated for any other.

        ``writes``: they keep that revision until its end. Raises NoRight, and StoreUnreachable for a change of a read
        replica.
        """
        try:
            with schema.explained(engine, schema.missing_grant), engine.begin() as connection:
                if self._is_checked:
                    if writes:  # first: else an upgrade could come between the check and the rows that are written
                        beside_others(connection, schema.LOCK)
                    schema.refuse_changed(connection)
                yield connection
        except StatementError as error:
            if isinstance(error, DBAPIError) or error.orig is None:
                raise
            raise error.orig from None  # a value that no column takes, without the statement and its other values

    # The database itself

    def upgrade(self, *, by_operator: bool = False) -> None:
        """Bring the tables to this program's revision; see :func:`monitor.history.schema.upgrade`."""
        schema.upgrade(self._engine, by_operator=by_operator)
        write_marker(self._marker, self.identity())

    def revision(self) -> str | None:
        """The revision of the tables; None if there are none. Raises StoreUnreachable and HistoryDamaged."""
        with self._answering(), self._reader.begin() as connection:
            return revision_of(connection)

    def ping(self) -> None:
        """Check that the database answers. Raises StoreUnreachable and HistoryDamaged."""
        with self._answering(), self._read() as connection:
            connection.execute(select(1))

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            raise _unreachable(self._engine.url, error) from error
        except UnicodeDecodeError as error:  # SQLite's message quotes what it found in place of the schema
            raise HistoryDamaged(f"the schema of the history cannot be read; {_REMEDY}") from error

    def only_reads(self) -> str | None:
        """Which rights this role lacks to write; None if it has them."""
        with self._read() as connection:
            return schema.only_reads(connection)

    def now(self) -> datetime | None:
        """The time by the clock of the database server; None for SQLite, which has only this machine's clock."""
        if self._engine.dialect.name == "sqlite":
            return None
        with self._read() as connection:
            found: datetime = connection.execute(select(func.now())).scalar_one()
        return found.astimezone(UTC)

    # The identity of the history

    refuse_replica = _reading(identity.refuse_replica)
    replica = _reading(identity.replica)

    def identity(self) -> Identity:
        """The identity of the history, how far it has come, and what this machine has recorded about it."""
        recorded = read_marker(self._marker)  # first: it must not be newer than what is read
        with self._read() as connection:
            return replace(identity.read(connection), seen=recorded)

    def stored_switches(self) -> StoredSwitches:
        """Switches, thresholds and identity at one moment, for a gate's snapshot. Raises StoreUnreachable."""
        recorded = read_marker(self._marker)
        with self._read() as connection:
            return stored_switches(connection, recorded)

    def close_if_older_copy(self) -> bool:
        """Close every gate if an older copy of the history was put back without `calmon db restore`.

        This includes gates on other machines, which cannot read this machine's record. Returns whether it closed them.
        """
        found = self.identity()
        if not found.went_back or not found.confirmed or self.replica() is not None:
            return False  # a replica that is behind is no older copy; no gate is open on one
        with self._write() as connection:
            done = identity.close_if_older_copy(connection, found.seen, datetime.now(UTC))
            found = identity.read(connection)
        write_marker(self._marker, found)
        return done

    def confirm(self, *, why: str, by: str, now: datetime) -> Identity:
        """Store that an operator confirms this history. Gates that have seen a newer one accept it from now on."""
        recorded = read_marker(self._marker)
        with self._write() as connection:
            found = identity.confirm(connection, beyond=recorded.mark.epoch if recorded else 0, why=why, by=by, now=now)
        write_marker(self._marker, found)
        return found

    # Evaluations

    begin_run = _writing(evaluations.begin_run)
    finish_run = _writing(evaluations.finish_run)
    run_of = _reading(evaluations.run_of)
    runs_of = _reading(evaluations.runs_of)
    evaluated_windows = _reading(evaluations.evaluated_windows)
    judged_windows = _reading(evaluations.judged_windows)
    runs = _reading(evaluations.runs)
    save_evaluation = _writing(evaluations.save)
    replace_estimates = _writing(evaluations.replace_estimates)
    newest_evaluated = _reading(evaluations.newest_evaluated)
    newest_window = _reading(evaluations.newest_window)
    judged_after = _reading(evaluations.judged_after)
    judged = _reading(evaluations.judged)
    not_judged = _reading(evaluations.not_judged)
    verdicts = _reading(evaluations.verdicts)
    verdict = _reading(evaluations.verdict)
    verdicts_by_id = _reading(evaluations.verdicts_by_id)
    estimates = _reading(evaluations.estimates)
    shifts = _reading(evaluations.shifts)
    rule_outcomes = _reading(evaluations.rule_outcomes)
    rule_breaches = _reading(evaluations.breaches_of_labels)

    # Late truths

    save_maturities = _writing(truth_rows.save_maturities)
    maturities = _reading(truth_rows.maturities)

    # Readings and baselines

    def save_reading(self, window: Window, reading: StoredReading, now: datetime) -> None:
        """Replace what was read of one source in one window."""
        rows = readings.prepare(window, reading, now)  # takes a while: before the lock
        with self._write() as connection:
            readings.save(connection, *rows)

    load_reading = _reading(readings.load)
    past_promises = _reading(past_promise_rows.load)
    readings_seen = _reading(readings.seen)
    rejections = _reading(readings.rejected)
    quality = _reading(readings.quality)
    rejected_by_reason = _reading(readings.rejected_by_reason)

    def save_baselines(self, baselines: Sequence[Baseline]) -> None:
        """Add baselines, all or none. Raises VersionClash if a version exists already."""
        rows = [readings.baseline_row(baseline) for baseline in baselines]
        with self._write() as connection:
            readings.save_baselines(connection, rows)

    baselines = _reading(readings.baselines)
    latest_baselines = _reading(readings.latest_baselines)
    pinned_sources = _reading(readings.pinned_sources)
    baseline_segments = _reading(readings.baseline_segments)
    known_labels = _reading(evaluations.known_labels)

    # Pruning

    judged_measures = _reading(prune.judged_measures)
    windows_due = _reading(prune.windows_due)
    due_of = _reading(prune.due_of)
    remove_details = _writing(prune.remove)
    removed_until = _reading(prune.removed_until)
    is_removed = _reading(prune.is_removed)

    def size(self) -> int:
        """The bytes of the history on disk: the file and its journal, or the tables with their indexes."""
        file = database_file(self._engine.url)
        if file is not None:
            return sum(part.stat().st_size for part in (file, file.with_name(f"{file.name}-wal")) if part.exists())
        with self._read() as connection:
            sizes = (func.pg_total_relation_size(name) for name in tables.metadata.tables)
            return sum(int(connection.execute(select(each)).scalar_one()) for each in sizes)

    def shrink(self) -> bool:
        """Give free space of a SQLite file back to the disk, if there is much. Returns whether it was done.

        PostgreSQL reuses free space for new rows. Raises :class:`StoreUnreachable` if another process uses the file.
        """
        file = database_file(self._engine.url)
        if file is None:
            return False
        with self._read() as connection:
            loose = prune.loose_bytes(connection)
        try:
            done = prune.shrink(file, loose, BUSY_TIMEOUT_MS / 1000)
        except sqlite3.Error as error:
            raise StoreUnreachable(f"{file} was not made smaller: {error}") from error
        if done:
            with self._write() as connection:
                prune.note_shrunk(connection)
        return done

    # Switches

    switches = _reading(switch_rows.switches)
    switch = _reading(switch_rows.switch)
    switch_events = _reading(switch_rows.events)
    switch_events_of = _reading(switch_rows.events_of)
    switch_changes = _reading(switch_rows.changes)
    gate_events = _reading(switch_rows.gate_events)

    def apply_switch(
        self,
        before: SwitchState,
        after: SwitchState,
        event: SwitchEvent | None,
        *,
        once: str | None = None,
        evidence: Sequence[RuleEvidence] | None = None,
    ) -> Applied:
        """Store a change with its event: "already" if the event is stored, "conflict" if ``before`` no longer is.

        ``event`` is None if only the streak of good windows changes. With ``once``, the result is "already" also if
        any event's key begins with it. With ``evidence``, on which the decision was based, the result is "conflict"
        also if that evidence is no longer stored.
        """
        at = event.at if event else None
        return self._switched(at, lambda found: switch_rows.apply(found, before, after, event, once, evidence))

    def rename_label(self, renaming: renames.Renaming) -> Applied:
        """Store that a label has another name; "conflict" if anything of it is no longer as it was read."""

        def change(connection: Connection) -> Applied:
            renames.apply(connection, renaming)
            return "applied"

        return self._switched(renaming.at, change)

    def _switched(self, at: datetime | None, change: Callable[[Connection], Applied]) -> Applied:
        """Make a change of switches at a time, by which the history has come further."""
        recorded = read_marker(self._marker)
        try:
            with self._write() as connection:
                identity.close_if_older_copy(connection, recorded, datetime.now(UTC))
                done = change(connection)
                found = None if done == "already" else identity.advance(connection, at)
        except LostRace:
            return "conflict"
        if found is not None:
            write_marker(self._marker, found)
        return done

    evidence = _reading(switch_rows.evidence)
    save_evidence = _claiming(switch_rows.save_evidence)

    # Diagnoses

    save_diagnoses = _writing(diagnosis_rows.save)
    diagnoses = _reading(diagnosis_rows.of_window)
    troubled_diagnoses = _reading(diagnosis_rows.of_troubled)
    diagnoses_of = _reading(diagnosis_rows.of_label)
    newest_diagnoses = _reading(diagnosis_rows.newest)
    states_of_weeks = _reading(diagnosis_rows.states_of_weeks)

    # Thresholds and notes

    def publish_thresholds(
        self,
        wanted: Thresholds,
        now: datetime,
        by: Publisher | None = None,
        *,
        anyway: bool = False,
        reason: str = "",
        notices: Callable[[Publication], Sequence[Delivery]] = lambda _: (),
    ) -> Publication | None:
        """Make these the scores from which labels may act alone, if none is lowered and ``by`` is no older revision.

        Otherwise only higher ones are stored; ``anyway`` stores all and makes it the newest revision. Returns the entry
        that was made; None if there was nothing to do. ``notices`` are stored with it, so that a lowered score is
        never published unnoticed. Without ``by`` the set is a revision of its own.
        """
        publisher = by or Publisher(_digest_of(wanted), "", "")
        with self._read() as connection:
            if not anyway and threshold_rows.is_settled(connection, wanted, publisher.revision):
                return None
        recorded = read_marker(self._marker)
        with self._write() as connection:
            identity.close_if_older_copy(connection, recorded, now)
            done = threshold_rows.publish(connection, wanted, publisher, now, anyway=anyway, reason=reason)
            if done is None or done.kind == "refused":
                return done
            delivery_rows.add_deliveries(connection, list(notices(done)))
            found = identity.advance(connection)
        write_marker(self._marker, found)
        return done

    publications = _reading(threshold_rows.publications)
    thresholds = _reading(threshold_rows.read)
    put_note = _writing(evaluations.put_note)
    drop_note = _writing(evaluations.drop_note)
    notes = _reading(evaluations.notes)

    # Annotations and the timeline

    add_annotation = _writing(timeline_rows.annotate)
    remove_annotation = _writing(timeline_rows.remove_annotation)
    annotations = _reading(timeline_rows.notes_of_people)
    annotation = _reading(timeline_rows.annotation)
    timeline = _reading(timeline_rows.events)

    # Audits

    keep_drawn = _writing(truth_rows.keep_drawn)
    save_found = _writing(truth_rows.save_found)
    audited = _reading(truth_rows.audited)
    newly_decided = _reading(truth_rows.newly_decided)

    # Many windows at once, for the pages of the dashboard

    grid_numbers = _reading(evaluations.numbers)
    first_on = _reading(switch_rows.first_on)
    versions_seen = _reading(readings.versions_seen)
    counts_of = _reading(readings.counts_of)
    settings_of = _reading(readings.settings_of)

    # Incidents and messages

    incidents = _reading(incident_rows.incidents)
    unresolved_incidents = _reading(incident_rows.unresolved)
    incidents_of = _reading(incident_rows.of_messages)
    incident = _reading(incident_rows.incident)
    incident_events = _reading(incident_rows.events)
    apply_incidents = _claiming(incident_rows.apply_incidents)
    thread = _reading(incident_rows.thread)
    message = _reading(incident_rows.message)
    compositions = _reading(incident_rows.compositions)

    def last_edit(self, root: str) -> int:
        """The sequence of the newest edit of a message. Raises RuntimeError outside :meth:`one_moment`.

        Read it in the same snapshot as what the next edit shows. A change in between then makes that edit a conflict.
        """
        if self._moment() is None:
            raise RuntimeError("the last edit of a message must be read at one moment with its incidents")
        with self._read() as connection:
            return incident_rows.last_edit(connection, root)

    add_delivery = _writing(delivery_rows.add)
    deliveries = _reading(delivery_rows.deliveries)
    undelivered = _reading(delivery_rows.undelivered)
    delivery_counts = _reading(delivery_rows.counts)
    sent_between = _reading(delivery_rows.sent_between)
    delivery_roots = _reading(delivery_rows.roots)
    known_channels = _reading(delivery_rows.known_channels)
    supersede_edits = _writing(delivery_rows.supersede)
    conclude_delivery = _writing(delivery_rows.conclude)
    note_edit_shown = _writing(delivery_rows.note_shown)
    recompose_delivery = _writing(delivery_rows.recompose)
    leave_channels = _writing(delivery_rows.leave_channels)
    claim_delivery = _writing(delivery_rows.claim)
    settle_delivery = _writing(delivery_rows.settle)


def _make_folder(address: URL, shown: str, lost: HistoryLost | None, *, create: bool) -> None:
    file = database_file(address)
    if file is None:
        return
    if not file.exists() and (lost or not create):
        raise lost or _missing(shown)
    if create:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnreachable(f"cannot make the folder {file.parent} of the history: {error.strerror}") from error


def _missing(shown: str) -> StoreMissing:
    return StoreMissing(f"there is no history at {shown} yet; `calmon run weekly` makes one")


def _lost(shown: str, marker: Path | None) -> HistoryLost | None:
    """The error for a history that is recorded but not found: an empty one must not be created in its place."""
    if read_marker(marker) is None:
        return None
    return HistoryLost(
        f"the history at {shown} is gone: {marker} says that there was one. Put it back (`calmon db restore "
        "FILE`); if it is lost, `calmon db upgrade --new` makes a new one, with every label off and no baseline"
    )


def _digest_of(wanted: Thresholds) -> str:
    return hashlib.sha256(repr(sorted(wanted.items(), key=repr)).encode()).hexdigest()[:16]


def _unreachable(url: URL, error: DatabaseError) -> StoreUnreachable:
    shown = shown_address(url.render_as_string(hide_password=True))
    return StoreUnreachable(f"the history at {shown} does not answer: {_unwritable(url) or error.orig}")


def _unwritable(url: URL) -> str | None:
    """Why the folder of SQLite's file takes no files; None if it does, or is not there."""
    file = database_file(url)
    folder = None if file is None else Path(os.path.realpath(file)).parent
    if folder is None or not folder.is_dir():
        return None
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"the file system of {folder} is read-only, and SQLite writes beside the file even to read it"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user may not write to {folder}, and SQLite writes beside the file even to read it"
    return None
