"""The history: the one door to its database. Every method is one transaction and can be repeated.

Reading sees one moment; writing replaces, inserts what is missing, or changes a row only if it is
still what the caller saw. The module that each calls says what it does in detail.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError

from monitor.core.records import (
    Delivery,
    DeliveryState,
    Estimate,
    Identity,
    Incident,
    IncidentEvent,
    IncidentState,
    Note,
    Operation,
    Outcome,
    Reason,
    Recorded,
    RejectedRows,
    RuleEvidence,
    Schedule,
    ShiftResult,
    SwitchEvent,
    SwitchState,
    Verdict,
    Where,
    Window,
)
from monitor.core.redaction import shown_address
from monitor.core.rejection_records import Rejections
from monitor.history import (
    delivery_rows,
    evaluations,
    evidence_rows,
    identity,
    incident_rows,
    labels,
    notes,
    readings,
    schema,
    switches,
    thresholds,
)
from monitor.history.connect import Row, database_file, for_reading, for_writing, open_engine, store_url
from monitor.history.errors import (
    Ambiguous,
    HistoryError,
    HistoryLost,
    LostRace,
    NotFound,
    SchemaOutdated,
    StoreMissing,
    StoreUnreachable,
    VersionClash,
)
from monitor.history.marker import marker_file, read_marker, remove_marker, write_marker
from monitor.history.readings import StoredReading
from monitor.history.switches import Applied
from monitor.history.thresholds import Publication, Publisher, Thresholds
from monitor.history.values import ANY, LabelFilter

if TYPE_CHECKING:
    from monitor.core.baseline import Baseline

__all__ = [
    "ANY",
    "Ambiguous",
    "HistoryError",
    "HistoryLost",
    "NotFound",
    "SchemaOutdated",
    "Store",
    "StoreMissing",
    "StoreUnreachable",
    "StoredReading",
    "VersionClash",
]


@dataclass(frozen=True, slots=True)
class Standing:
    """Every switch and threshold at one moment, and of which history."""

    identity: Identity
    switches: list[SwitchState]
    automate_at: dict[tuple[str, str | None], float]


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
        self._here = threading.local()

    @classmethod
    def from_url(cls, url: str, *, create: bool = True, check: bool = True, anew: bool = False) -> Self:
        """Open a history; with ``create``, make folders, database file and tables where there never were any.

        ``check=False`` leaves the revision unlooked at, for the one command that changes it. ``anew``: an operator
        wants a new history where one was lost. Raises :class:`StoreMissing`, :class:`HistoryLost`,
        :class:`SchemaOutdated` or :class:`StoreUnreachable`.
        """
        address = store_url(url)
        shown = shown_address(address.render_as_string(hide_password=True))
        marker = marker_file(address)
        if anew:
            remove_marker(marker)
        _make_folder(address, shown, marker, create=create)
        store = cls(open_engine(address), marker)
        try:
            store._open(shown, create=create, check=check, anew=anew)
        except BaseException:
            store.close()
            raise
        return store

    def _open(self, shown: str, *, create: bool, check: bool, anew: bool) -> None:
        found = self.revision()
        if found is None:
            _refuse_lost(shown, self._marker)
        if found is None and not create:
            raise _missing(shown)
        if found is None:
            self._create(by_operator=anew)
        elif check:
            schema.refuse_other_revision(found)
            if create:
                self.notice_past()

    def _create(self, *, by_operator: bool) -> None:
        schema.upgrade(self._engine, by_operator=by_operator)
        with self._read() as connection:
            found = identity.read(connection)
        write_marker(self._marker, found)

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
        """What this thread reads within is of one moment of the history; writing is for afterwards."""
        if self._moment() is not None:
            yield
            return
        with self._reader.begin() as connection:
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
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        if self._moment() is not None:
            raise RuntimeError("nothing is written while the history is read at one moment")
        with self._writer.begin() as connection:
            yield connection

    # The database itself

    def upgrade(self) -> None:
        """Bring the tables to this program's revision."""
        schema.upgrade(self._engine)
        write_marker(self._marker, self.identity())

    def revision(self) -> str | None:
        """The revision of the tables; None where there are none. Raises :class:`StoreUnreachable`."""
        try:
            with self._read() as connection:
                return schema.revision_of(connection)
        except DatabaseError as error:
            raise _unreachable(self._engine.url, error) from error

    def ping(self) -> None:
        """Ask for an answer. Raises :class:`StoreUnreachable`."""
        try:
            with self._read() as connection:
                connection.execute(select(1))
        except DatabaseError as error:
            raise _unreachable(self._engine.url, error) from error

    def now(self) -> datetime | None:
        """The time by the clock of the database's server; None of SQLite, which has only this machine's."""
        if self._engine.dialect.name == "sqlite":
            return None
        with self._read() as connection:
            found: datetime = connection.execute(select(func.now())).scalar_one()
        return found.astimezone(UTC)

    # Which history it is

    def identity(self) -> Identity:
        """Which history it is, how far it has come, and what this machine has recorded of it."""
        recorded = read_marker(self._marker)  # first: it must not be newer than what is read
        with self._read() as connection:
            return replace(identity.read(connection), seen=recorded)

    def standing(self) -> Standing:
        """Switches, thresholds and identity at one moment: what a board is made of."""
        recorded = read_marker(self._marker)
        with self._read() as connection:
            return Standing(
                replace(identity.read(connection), seen=recorded),
                switches.switches(connection),
                thresholds.read(connection),
            )

    def notice_past(self) -> bool:
        """Close every gate where an older copy of the history was put back without a word; whether that is so.

        Every gate, also one on another machine that knows nothing of the record beside this one.
        """
        found = self.identity()
        if not found.went_back or not found.confirmed:
            return False
        with self._write() as connection:
            done = identity.heed(connection, found.seen, datetime.now(UTC))
            found = identity.read(connection)
        write_marker(self._marker, found)
        return done

    def doubt(self, *, why: str, by: str, now: datetime) -> Identity:
        """Close every gate until an operator confirms this history."""
        recorded = read_marker(self._marker)
        with self._write() as connection:
            found = identity.doubt(connection, why=why, by=by, now=now, beyond=_epoch_of(recorded))
        write_marker(self._marker, found)
        return found

    def confirm(self, *, why: str, by: str, now: datetime) -> Identity:
        """An operator vouches for this history: gates that have seen a newer one accept it from now on."""
        recorded = read_marker(self._marker)
        with self._write() as connection:
            found = identity.confirm(connection, beyond=_epoch_of(recorded), why=why, by=by, now=now)
        write_marker(self._marker, found)
        return found

    # Evaluations

    def begin_run(self, window: Window, *, run: str, acts: bool, rules_revision: str, now: datetime) -> None:
        """Note that ``run`` evaluates ``window``."""
        with self._write() as connection:
            evaluations.begin_run(connection, window, run=run, acts=acts, rules_revision=rules_revision, now=now)

    def finish_run(self, window: Window, *, state: str, now: datetime, error: str | None = None) -> None:
        """Note how the evaluation of ``window`` ended."""
        with self._write() as connection:
            evaluations.finish_run(connection, window, state=state, now=now, error=error)

    def run_of(self, window: Window) -> Row | None:
        """The row of the evaluation of ``window``, or None."""
        with self._read() as connection:
            return evaluations.run_of(connection, window)

    def runs(self, schedule: Schedule | None = None, limit: int = 100, *, until: datetime | None = None) -> list[Row]:
        """The evaluations of the newest windows, newest first; of those that began by ``until`` (None: of all)."""
        with self._read() as connection:
            return evaluations.runs(connection, schedule, limit, until)

    def save_reading(self, window: Window, reading: StoredReading, now: datetime) -> None:
        """Replace what was read of one source in one window."""
        rows = readings.prepare(window, reading, now)
        with self._write() as connection:
            readings.save(connection, *rows)

    def load_reading(self, schedule: Schedule, window_start: datetime, source: str) -> StoredReading | None:
        """What was read of one source in one window, or None."""
        with self._read() as connection:
            return readings.load(connection, schedule, window_start, source)

    def readings_seen(self, since: datetime, until: datetime) -> list[Row]:
        """What every reading of a window from ``since`` to ``until`` gave (state, rows, error), newest first."""
        with self._read() as connection:
            return readings.seen(connection, since, until)

    def rejections(self, schedule: Schedule, window_start: datetime, source: str) -> Rejections:
        """What kept subjects of a source from being judged in one window, since rows were rejected."""
        with self._read() as connection:
            return readings.rejected(connection, schedule, window_start, source)

    def quality(self, schedule: Schedule, window_start: datetime) -> list[RejectedRows]:
        """The rows set aside in one window."""
        with self._read() as connection:
            return readings.quality(connection, schedule, window_start)

    def save_evaluation(
        self,
        window: Window,
        sources: Sequence[str],
        estimates: Sequence[Estimate],
        verdicts: Sequence[Verdict],
        shifts: Sequence[ShiftResult],
        now: datetime,
    ) -> None:
        """Replace what is known of ``sources`` in ``window``; verdicts are added and never removed."""
        with self._write() as connection:
            evaluations.save(
                connection, window, sources, estimates=estimates, verdicts=verdicts, shifts=shifts, now=now
            )

    def replace_estimates(self, window: Window, source: str, estimates: Sequence[Estimate], now: datetime) -> None:
        """Renew the trend of a window that was read once more; its verdicts stay."""
        with self._write() as connection:
            evaluations.replace_estimates(connection, window, source, estimates)

    def newest_evaluated(self, schedule: Schedule, source: str) -> datetime | None:
        """The start of the newest window in which any rule of the source was evaluated (not only asked)."""
        with self._read() as connection:
            return evaluations.newest_evaluated(connection, schedule, source)

    def judged(self, schedule: Schedule, window_start: datetime) -> list[Row]:
        """How many current verdicts of one window each source has, by outcome and reason."""
        with self._read() as connection:
            return evaluations.judged(connection, schedule, window_start)

    def not_judged(self, schedule: Schedule, window_start: datetime, reason: Reason) -> list[Row]:
        """Source, rule, severity and label of the current verdicts of one window that have this reason."""
        with self._read() as connection:
            return evaluations.not_judged(connection, schedule, window_start, reason)

    def verdicts(
        self,
        *,
        schedule: Schedule | None = None,
        source: str | None = None,
        label: LabelFilter = ANY,
        rule: str | None = None,
        window_start: datetime | None = None,
        outcome: Outcome | None = None,
        between: evaluations.Between = None,
        current_only: bool = True,
    ) -> list[Verdict]:
        """Verdicts by window, source, label and rule; ``current_only``: not those judged again since."""
        equals = {
            "schedule": schedule, "source": source, "rule": rule, "window_start": window_start, "outcome": outcome,
        }  # fmt: skip
        with self._read() as connection:
            return evaluations.verdicts(connection, equals, label, between, current_only=current_only)

    def outcomes_before(self, verdict: Verdict, before: datetime, limit: int) -> list[tuple[datetime, Outcome]]:
        """(window start, outcome) of the newest verdicts of the same rule and subject ``before`` then, newest first."""
        with self._read() as connection:
            return evaluations.outcomes_before(connection, verdict, before, limit)

    def verdict(self, prefix: str) -> Verdict:
        """The verdict whose id is, or begins with, ``prefix``; raises NotFound or Ambiguous."""
        with self._read() as connection:
            return evaluations.verdict(connection, prefix)

    def estimates(
        self,
        *,
        metric: str | None = None,
        source: str | None = None,
        label: LabelFilter = ANY,
        where: Where | None = None,
        schedule: Schedule | None = None,
        segments: bool = False,
        window_start: datetime | None = None,
        between: evaluations.Between = None,
    ) -> list[Estimate]:
        """Estimates by window, source, label and metric; those of segments only where asked for."""
        equals = {
            "metric": metric, "source": source, "population": where, "schedule": schedule,
            "window_start": window_start,
        }  # fmt: skip
        with self._read() as connection:
            return evaluations.estimates(connection, equals, label, between, segments=segments)

    def shifts(
        self, schedule: Schedule | None = None, window_start: datetime | None = None, source: str | None = None
    ) -> list[ShiftResult]:
        """Shift tests by window, source, label and test."""
        equals = {"schedule": schedule, "window_start": window_start, "source": source}
        with self._read() as connection:
            return evaluations.shifts(connection, equals)

    # Baselines

    def save_baselines(self, baselines: Sequence[Baseline]) -> None:
        """Add baselines, all or none; raises :class:`VersionClash` where a version exists."""
        rows = [readings.baseline_row(baseline) for baseline in baselines]
        with self._write() as connection:
            readings.save_baselines(connection, rows)

    def baselines(
        self, source: str | None = None, label: LabelFilter = ANY, *, version: int | None = None
    ) -> list[Baseline]:
        """Every version (or one), by source, label and version."""
        with self._read() as connection:
            return readings.baselines(connection, source, label, version)

    def latest_baselines(self, source: str) -> dict[str | None, Baseline]:
        """The newest version of each label (None: the source as a whole)."""
        with self._read() as connection:
            return readings.latest_baselines(connection, source)

    def known_labels(self, source: str) -> set[str | None]:
        """Every label of a source that was judged, pinned or switched, the source as a whole (None) too."""
        with self._read() as connection:
            return labels.known(connection, source)

    # Switches

    def switches(self) -> list[SwitchState]:
        """Every switch that was ever set."""
        with self._read() as connection:
            return switches.switches(connection)

    def switch(self, source: str, label: str | None) -> SwitchState:
        """One switch; never set, version 0, where there is none."""
        with self._read() as connection:
            return switches.switch(connection, source, label)

    def switch_events(
        self, source: str | None = None, label: LabelFilter = ANY, *, since: datetime | None = None
    ) -> list[SwitchEvent]:
        """Every change, in order; with ``since``, of those before only what says how a switch was at any later time."""
        with self._read() as connection:
            return switches.events(connection, source, label, since)

    def switch_events_of(self, beginning: str) -> list[SwitchEvent]:
        """The changes whose key begins so, in order."""
        with self._read() as connection:
            return switches.events_of(connection, beginning)

    def apply_switch(
        self,
        before: SwitchState,
        after: SwitchState,
        event: SwitchEvent | None,
        *,
        once: str | None = None,
        evidence: Sequence[RuleEvidence] | None = None,
    ) -> Applied:
        """Store a change with its event: "already" if it was, "conflict" if ``before`` is no longer stored.

        ``event`` is None where only the bookkeeping moves (the streak of good windows). With ``once``,
        "already" too where any event's key begins so. With ``evidence``, on which it was decided, "conflict" too where
        that is no longer stored.
        """
        recorded = read_marker(self._marker)
        try:
            with self._write() as connection:
                identity.heed(connection, recorded, datetime.now(UTC))
                done = switches.apply(connection, before, after, event, once, evidence)
                found = None if done == "already" else identity.advance(connection, event.at if event else None)
        except LostRace:
            return "conflict"
        if found is not None:
            write_marker(self._marker, found)
        return done

    def evidence(self, source: str | None = None, label: LabelFilter = ANY) -> list[RuleEvidence]:
        """What each acting rule found last about each label, by source, label and rule."""
        with self._read() as connection:
            return evidence_rows.read(connection, source, label)

    def save_evidence(self, source: str, changed: Sequence[RuleEvidence]) -> Literal["applied", "conflict"]:
        """Store what was made of evidence that was read: all of it, or "conflict" where any of it is another now."""
        try:
            with self._write() as connection:
                evidence_rows.save(connection, source, changed)
        except LostRace:
            return "conflict"
        return "applied"

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
        """Make these the scores from which labels may act alone, if they lower none and ``by`` is of no older revision.

        Else only higher ones are stored; ``anyway`` stores all and makes it the newest revision. Gives the entry that
        was made, None where nothing was to be done. ``notices`` are stored with it, so that a lowered score is never
        published unnoticed. Without ``by`` the set is a revision of its own.
        """
        publisher = by or Publisher(_digest_of(wanted), "", "")
        with self._read() as connection:
            if not anyway and thresholds.is_settled(connection, wanted, publisher.revision):
                return None
        recorded = read_marker(self._marker)
        with self._write() as connection:
            identity.heed(connection, recorded, now)
            done = thresholds.publish(connection, wanted, publisher, now, anyway=anyway, reason=reason)
            if done is None or done.kind == "refused":
                return done
            delivery_rows.add_deliveries(connection, list(notices(done)))
            found = identity.advance(connection)
        write_marker(self._marker, found)
        return done

    def publications(self, limit: int | None = None) -> list[Publication]:
        """Who published which scores, raised some, or was refused; the newest first."""
        with self._read() as connection:
            return thresholds.publications(connection, limit)

    def thresholds(self) -> dict[tuple[str, str | None], float]:
        """(source, label) -> the score from which it may act alone; label None is the source's."""
        with self._read() as connection:
            return thresholds.read(connection)

    # Notes of the flows

    def put_note(self, note: Note) -> None:
        """Write a note in place of the one before with its key."""
        with self._write() as connection:
            notes.put(connection, note)

    def drop_note(self, key: str) -> None:
        """Forget a note."""
        with self._write() as connection:
            notes.drop(connection, key)

    def notes(self) -> dict[str, Note]:
        """Key -> note."""
        with self._read() as connection:
            return notes.read(connection)

    # Incidents and messages

    def incidents(self, state: IncidentState | None = None) -> list[Incident]:
        """All incidents of labels that there ever were (in one state), by the time they were opened."""
        with self._read() as connection:
            return incident_rows.incidents(connection, state)

    def monitor_incidents(self, state: IncidentState | None = None) -> list[Incident]:
        """All incidents of the monitor itself, by the time they were opened."""
        with self._read() as connection:
            return incident_rows.incidents(connection, state, of_monitor=True)

    def unresolved_incidents(
        self, source: str | None = None, *, since: datetime | None = None, of_monitor: bool = False
    ) -> list[Incident]:
        """The incidents that are not resolved, or with ``since`` were not yet resolved then; of a source, or of all."""
        with self._read() as connection:
            return incident_rows.unresolved(connection, source, since=since, of_monitor=of_monitor)

    def incidents_of(self, roots: Collection[str]) -> list[Incident]:
        """The incidents that these messages are about."""
        with self._read() as connection:
            return incident_rows.of_messages(connection, roots)

    def newest_incidents(self, source: str) -> list[Incident]:
        """Of each label of a source the newest incident that has a message."""
        with self._read() as connection:
            return incident_rows.newest_of_labels(connection, source)

    def messages_beside(self, incident: Incident) -> set[str]:
        """The messages of incidents of the same label that were resolved after this one had been opened."""
        with self._read() as connection:
            return incident_rows.messages_beside(connection, incident)

    def incident(self, prefix: str) -> Incident:
        """The incident whose id is, or begins with, ``prefix``; raises NotFound or Ambiguous."""
        with self._read() as connection:
            return incident_rows.incident(connection, prefix)

    def thread(self, root: str, *, operations: Collection[Operation] | None = None) -> list[Delivery]:
        """A living message with all its edits, replies and files (or those of ``operations``), by time."""
        with self._read() as connection:
            return incident_rows.thread(connection, root, operations=operations)

    def message(self, root: str) -> tuple[Delivery | None, bool]:
        """A living message as it was composed first, and whether a person has deleted it since."""
        with self._read() as connection:
            return incident_rows.message(connection, root)

    def compositions(self, roots: Collection[str]) -> dict[str, Delivery]:
        """Root -> how that living message was composed last: its newest edit, else the message itself."""
        with self._read() as connection:
            return incident_rows.compositions(connection, roots)

    def last_edit(self, root: str) -> int:
        """The sequence of the newest edit of a message, to be read in :meth:`one_moment` with what the next one shows.

        So whatever changes in between makes that edit a conflict. Raises RuntimeError elsewhere.
        """
        if self._moment() is None:
            raise RuntimeError("the last edit of a message must be read at one moment with its incidents")
        with self._read() as connection:
            return incident_rows.last_edit(connection, root)

    def incident_events(self, incident: str | None = None) -> list[IncidentEvent]:
        """What happened to one incident, or to all, in order."""
        with self._read() as connection:
            return incident_rows.events(connection, incident)

    def apply_incidents(
        self,
        opened: Sequence[Incident],
        updated: Sequence[Incident],
        deliveries: Sequence[Delivery],
        events: Sequence[IncidentEvent] = (),
    ) -> Literal["applied", "conflict"]:
        """Store decisions about incidents, their events and the messages they call for: all, or nothing.

        "conflict" where somebody else changed one of the incidents, or edited the same message, first: then
        decide again on what is stored now.
        """
        try:
            with self._write() as connection:
                incident_rows.apply_incidents(connection, opened, updated, deliveries, events)
        except LostRace:
            return "conflict"
        return "applied"

    def add_delivery(self, delivery: Delivery) -> None:
        """Add a message unless it is there."""
        with self._write() as connection:
            delivery_rows.add_deliveries(connection, [delivery])

    def deliveries(self, states: Collection[DeliveryState] | None = None, *, files: bool = True) -> list[Delivery]:
        """The messages, by the time they were composed; without ``files``, not the pictures, which are large."""
        with self._read() as connection:
            return delivery_rows.deliveries(connection, states, files=files)

    def undelivered(self, since: datetime) -> list[Delivery]:
        """The messages that wait or are being sent, and those given up that were composed since then."""
        with self._read() as connection:
            return delivery_rows.undelivered(connection, since)

    def delivery_counts(self) -> dict[DeliveryState, int]:
        """How many messages and changes of messages are in each state."""
        with self._read() as connection:
            return delivery_rows.counts(connection)

    def due_deliveries(self, now: datetime, *, worker: str | None = None) -> list[Delivery]:
        """The messages to be sent now; with ``worker``, also those its earlier life left in sending."""
        with self._read() as connection:
            return delivery_rows.due_deliveries(connection, now, worker)

    def delivery_roots(self, ids: Collection[str]) -> dict[str, delivery_rows.Root]:
        """The delivery state and the place of these messages, by delivery id."""
        with self._read() as connection:
            return delivery_rows.roots(connection, ids)

    def known_channels(self, channels: Collection[str]) -> dict[str, str]:
        """Channel as routes name it -> Slack's id of it, as far as messages went there."""
        with self._read() as connection:
            return delivery_rows.known_channels(connection, channels)

    def supersede_edits(self) -> int:
        """Take back unsent edits of which a later one is stored; gives how many."""
        with self._write() as connection:
            return delivery_rows.supersede(connection)

    def conclude_delivery(self, delivery: str, *, from_state: DeliveryState, state: DeliveryState, error: str) -> bool:
        """End a message without sending it; False where it is no longer in ``from_state``."""
        with self._write() as connection:
            return delivery_rows.conclude(connection, delivery, from_state=from_state, state=state, error=error)

    def claim_delivery(
        self,
        delivery: str,
        *,
        from_state: DeliveryState,
        worker: str,
        now: datetime,
        claimed_at: datetime | None = None,
    ) -> bool:
        """Take a message for sending: attempts + 1, True for exactly one caller."""
        with self._write() as connection:
            return delivery_rows.claim(
                connection, delivery, from_state=from_state, worker=worker, now=now, claimed_at=claimed_at
            )

    def settle_delivery(
        self,
        delivery: str,
        *,
        worker: str,
        state: DeliveryState,
        now: datetime,
        next_attempt_at: datetime | None = None,
        external_channel: str | None = None,
        external_id: str | None = None,
        error: str | None = None,
        error_code: str | None = None,
        uncertain: bool = False,
    ) -> bool:
        """Store the result of a delivery that ``worker`` holds; False where it holds it no longer."""
        with self._write() as connection:
            return delivery_rows.settle(
                connection, delivery, worker=worker, state=state, now=now, next_attempt_at=next_attempt_at,
                external_channel=external_channel, external_id=external_id, error=error, error_code=error_code,
                uncertain=uncertain,
            )  # fmt: skip


def _make_folder(address: URL, shown: str, marker: Path | None, *, create: bool) -> None:
    file = database_file(address)
    if file is None:
        return
    if not file.exists():
        _refuse_lost(shown, marker)
        if not create:
            raise _missing(shown)
    if create:
        _create_folder(file.parent)


def _missing(shown: str) -> StoreMissing:
    return StoreMissing(f"there is no history at {shown} yet; `calmon run weekly` makes one")


def _refuse_lost(shown: str, marker: Path | None) -> None:
    """Raise HistoryLost where a history is recorded to have been: nobody makes an empty one in its place."""
    if read_marker(marker) is not None:
        raise HistoryLost(
            f"the history at {shown} is gone: {marker} says that there was one. Put it back (`calmon db restore "
            "FILE`); if it is lost for good, `calmon db init` makes a new one, with every label off and no baseline"
        )


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnreachable(f"cannot make the folder {folder} of the history: {error.strerror}") from error


def _epoch_of(recorded: Recorded | None) -> int:
    return recorded.mark.epoch if recorded else 0


def _digest_of(wanted: Thresholds) -> str:
    return hashlib.sha256(repr(sorted(wanted.items(), key=repr)).encode()).hexdigest()[:16]


def _unreachable(url: URL, error: DatabaseError) -> StoreUnreachable:
    shown = shown_address(url.render_as_string(hide_password=True))
    return StoreUnreachable(f"the history at {shown} does not answer: {error.orig}")
