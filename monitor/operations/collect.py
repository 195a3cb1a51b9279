"""The reading stage: counts of the sources from the warehouse, or from the history where they are stored already."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from monitor.automation.segments import RUNS
from monitor.config.counting import settings_of
from monitor.config.model import Config, SourceConfig
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.baseline import References, references_under
from monitor.core.counts import Counts, SegmentCounts, pool
from monitor.core.maturity import Maturity
from monitor.core.page_paths import drift_file
from monitor.core.promises import PastWindow, Segment, of_the_same_evidence, segment_promises
from monitor.core.records import (
    DELAYS_FAILED,
    IN_NO_WINDOW,
    ROWS_GONE,
    Reason,
    RejectedRows,
    ShiftResult,
    Window,
    part_left_out,
    parts_not_read,
    rows_before,
    rows_deleted,
    rows_gone,
    rows_replaced,
)
from monitor.core.rejection_records import Rejections
from monitor.core.source_settings import Settings, changes, other_rows
from monitor.evaluation.data import ByLabel, SourceData, WholeSource, WindowCounts, rejected_in, windows_needed
from monitor.evaluation.evaluate import EVERYTHING_UP_TO, estimates_of
from monitor.evaluation.other_thresholds import at_present_threshold, segments_at_present_threshold
from monitor.evaluation.shift.drift_report import feature_drift
from monitor.history.readings import LastRead, StoredReading
from monitor.history.store import Store
from monitor.inference.sequential import LONGEST
from monitor.operations.audited import audited
from monitor.operations.measure_maturity import ByWindow, known_truths, to_restate
from monitor.warehouse.reader import (
    Reading,
    RelationError,
    Warehouse,
    WarehouseFailed,
    WarehouseTimeout,
    problem_of,
    with_part_not_read,
)

REFERENCE_SAMPLES = 4
"""The baseline's feature sample is so many times larger than the window's, so that it adds less noise."""
ALLOWED_TO_GO = 0.02
"""Of a window that is read again so many rows may be gone: a few were corrected away. More, and nothing is restated."""


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """One source as it was read.

    ``restated`` are earlier windows whose truths came late, oldest first. ``stays``: the window was judged before, and
    the warehouse has fewer of its rows now, or could not be read: ``data`` is what was read then, and what was measured
    is not judged again.
    """

    data: SourceData
    reading: Reading | None
    stays: bool = False
    restated: tuple[Collected, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WindowRead:
    """One source in one window, read from the warehouse; ``truths``: how complete the truths of its windows are.

    If these could not be read, the reading's ``quality`` says why.
    """

    reading: Reading
    truths: ByWindow


def read_ahead(monitor: Monitor, window: Window, name: str) -> WindowRead:
    """Read one source in one window and store its counts, so that later windows can be judged at the same time.

    Raises what ``Warehouse.read`` raises.
    """
    source = SourceWindows(monitor, name, store=True)
    ahead, before = source.now(window), source.kept(window)
    if source.measured_before(window, ahead.reading, before) is None:
        source.read(window, ahead.reading, before=before)
    return ahead


def collect(
    monitor: Monitor,
    window: Window,
    names: Sequence[str],
    *,
    store: bool,
    reread: bool = True,
    fewer_rows: bool = False,
    try_again: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    ahead: Mapping[str, WindowRead] | None = None,
) -> list[Collected]:
    """Read every source for one window, with the earlier windows that may be pooled with it.

    A source that is in ``ahead`` was read already, by :func:`read_ahead`. With ``fewer_rows`` a window that has lost
    rows is read anew all the same.
    A source that cannot be read is returned with its problem and stops no other. With ``try_again``, for a caller that
    will try again, a warehouse that does not answer raises WarehouseFailed. A time-out does not: there is time for only
    two or three of these.
    """
    found = []
    for name in names:
        progress(f"reading {name}")
        source, done = SourceWindows(monitor, name, store), (ahead or {}).get(name)
        try:
            with monitor.warehouse.kept_open():
                found.append(source.collected(window, done, reread=reread, fewer_rows=fewer_rows))
        except (RelationError, WarehouseFailed) as error:
            if try_again and isinstance(error, WarehouseFailed) and not isinstance(error, WarehouseTimeout):
                raise
            found.append(source.not_read(window, error))
        for part in parts_not_read(found[-1].data.quality).values() if try_again else ():
            if part.examples[0]["problem"] == Reason.WAREHOUSE_FAILED:
                raise WarehouseFailed(f"{name}: {part.examples[0]['why']}")
    return found


@dataclass(frozen=True)
class SourceWindows:
    """One source: its windows as they are read from the warehouse, kept in the history, and read again.

    With ``store`` what is read is also stored. Each method that reads the warehouse raises what ``Warehouse.read``
    raises.
    """

    monitor: Monitor
    name: str
    store: bool = False

    @cached_property
    def source(self) -> SourceConfig:
        """The configuration of the source."""
        return self.monitor.config.sources[self.name]

    @cached_property
    def settings(self) -> Settings:
        """The settings by which its rows are counted."""
        return settings_of(self.source)

    @cached_property
    def references(self) -> References:
        """The newest baselines as its settings are now: of the same numbers, cut at today's `automate_at`."""
        found = references_under(self.monitor.store.latest_baselines(self.name), self.settings)
        return at_present_threshold(found, self.source, self.monitor.config.evaluation)

    # --- from the warehouse and from the history

    def from_warehouse(self, window: Window, *, whole: bool = True, segments: bool = True) -> Reading:
        """The rows as they are now; ranks and ``whole`` rows, which are never stored, only if metrics need them."""
        monitor = self.monitor
        source = self.source if segments else self.source.model_copy(update={"segments": ()})
        return audited(monitor, monitor.warehouse.read(self.name, source, window, now=monitor.clock(), whole=whole))

    def now(self, window: Window) -> WindowRead:
        """A window with how complete truths are, or why that could not be read: its counts count all the same."""
        monitor, reading = self.monitor, self.from_warehouse(window)
        try:
            truths = known_truths(monitor, window, self.name)
        except (RelationError, WarehouseFailed) as error:
            return WindowRead(with_part_not_read(reading, DELAYS_FAILED, error), {})
        return WindowRead(reading, truths)

    def kept(self, window: Window, *, segment_counts: bool = False) -> StoredReading | None:
        """The stored reading of a window."""
        store = self.monitor.store
        return store.load_reading(window.schedule, window.start, self.name, segment_counts=segment_counts)

    def stored_or_read(self, window: Window) -> WindowCounts:
        """The counts of one window from the history, else from the warehouse as it is now; nothing is stored."""
        kept = self.kept(window)
        if kept is not None and self._still_holds(kept):
            return self._counts_of(window, kept)
        reading = self.from_warehouse(window, whole=False, segments=False)  # not needed here, and slow
        counts = with_whole(reading)
        return replace(counts, rejected=self._rejected_in(self._stored(reading, counts)))

    def read(
        self, window: Window, reading: Reading, *, before: StoredReading | None = None, judges: bool = True,
        deleted: Sequence[RejectedRows] = (),
    ) -> tuple[Reading, WindowCounts]:  # fmt: skip
        """A reading with what is to be said of it, and its counts for judging; with ``store`` it is stored.

        If most rows of ``before``, the reading so far, are gone, the new one says so. Where the window is not judged
        again (``judges``), the parts that could not be read when it was judged stay noted.
        """
        known = None
        if before is not None:
            known = _alike(before, self.settings)
            reading = _with_notes_of(reading, before, self.settings, judges=judges)
            gone = self._deleted(window, reading, before)
            gone = self._replaced(window, reading, before) if gone is None else gone
            deleted = deleted if gone is None else (*deleted, gone)
        reading = replace(reading, quality=_noted(reading.quality, deleted))
        counts = with_whole(reading)
        kept = self._stored(reading, counts)
        # else its own rows say it, if a later reading has fewer
        last_read = known if known is not None and 2 * reading.rows < known.rows else None
        kept = replace(kept, rejected=self._rejected_in(kept), last_read=last_read)
        self._save(window, kept)
        return reading, replace(counts, rejected=kept.rejected)

    # --- one window, with those that are judged with it

    def collected(self, window: Window, done: WindowRead | None, *, reread: bool, fewer_rows: bool) -> Collected:
        """The window as it is judged; ``done`` is a reading that exists already and is not repeated."""
        ahead = self.now(window) if done is None else done
        known, reading = ahead.truths, ahead.reading
        deleted: list[RejectedRows] = []
        restated = self._restated(window, known, deleted) if self.store and reread else []
        read_again = any(each.data.current.window.end == window.start for each in restated) or any(deleted)
        before = self._earlier(window, deleted, reread=reread and not read_again)
        kept = self.kept(window)
        gone = None if fewer_rows else self.measured_before(window, reading, kept)
        if kept is not None and gone is not None:  # what was measured of it stays
            counts, kept = self._counts_of(window, kept), replace(kept, quality=_noted(kept.quality, [gone]))
            self._save(window, kept)
            self._note_gone(window, kept, reading)
            reading = replace(reading, quality=_noted(kept.quality, deleted), rows=kept.rows, segments={})
        else:
            reading, counts = self.read(window, reading, before=kept, deleted=deleted)
        data = self._data(window, reading, counts, known, before)
        return Collected(data, reading, restated=tuple(restated), stays=gone is not None)

    def not_read(self, window: Window, error: RelationError | WarehouseFailed) -> Collected:
        """The window that could not be read, and why. A failure is no news of one that was judged: it stays."""
        problem, kept = problem_of(error), self.kept(window)
        stays = kept is not None and self._was_judged(window, kept)
        if kept is not None and stays:
            counts, quality = self._counts_of(window, kept), kept.quality
        else:
            counts, quality = WindowCounts(window), ()
            self._save(window, StoredReading(self.name, problem.value, str(error), last_read=self._last_read(window)))
        data = SourceData(
            self.name, counts, baselines=self.references.baselines, quality=quality, problem=problem, error=str(error),
            switched=self._followed(), references=self.references,
        )  # fmt: skip
        return Collected(data, None, stays=stays)

    def _was_judged(self, window: Window, kept: StoredReading) -> bool:
        """Whether a window was judged on its stored reading, which holds under the present configuration."""
        return self._still_holds(kept) and bool(self.monitor.store.judged(window.schedule, window.start, self.name))

    def measured_before(self, window: Window, reading: Reading, kept: StoredReading | None) -> RejectedRows | None:
        """The note that a window was judged by these settings and has fewer rows now: what was measured of it stays."""
        return None if kept is None or not self._was_judged(window, kept) else self._deleted(window, reading, kept)

    def _data(
        self, window: Window, reading: Reading, counts: WindowCounts, known: ByWindow, before: Sequence[WindowCounts]
    ) -> SourceData:
        """The data of a window, as a run of that window finds them now."""
        references = self.references
        return SourceData(
            self.name, replace(counts, maturity=known.get(window, {})), tuple(before), reading.segments,
            references.baselines, reading.quality, reading.rows, switched=self._followed(), past=self._past(window),
            baseline_segments=self._segments_of_baselines(window), references=references,
            enabled=enabled_by_operators(self.monitor.store, self.monitor.config, self.name, window),
        )  # fmt: skip

    def _restated(self, window: Window, known: ByWindow, deleted: list[RejectedRows]) -> list[Collected]:
        """The earlier windows whose truths came late, oldest first. All are read before the first is assembled.

        Of a window that has fewer rows now, or fewer items with and without a truth, nothing is restated: its rows are
        gone, which is no news of them. Such windows are added to ``deleted``.
        """
        readings = []
        for past in to_restate(self.monitor, window, self.name, known):
            kept = self.kept(past)
            reading = self._read_again(past, known.get(past, {}).get(None), kept, deleted)
            if reading is not None:
                readings.append((past, *self.read(past, reading, before=kept)))
        return [
            Collected(self._data(past, reading, counts, known, self._earlier(past, [], reread=False)), reading)
            for past, reading, counts in readings
        ]

    def _read_again(
        self, past: Window, maturity: Maturity | None, kept: StoredReading | None, deleted: list[RejectedRows]
    ) -> Reading | None:
        """The rows of an earlier window as they are now; None if some of those that it had are gone."""
        found = self.monitor.store.maturities(past.schedule, self.name, since=past.start, until=past.start)
        judged = found.get((past.start, None))
        if maturity is not None and judged is not None and maturity.items < (1 - ALLOWED_TO_GO) * judged.items:
            deleted.append(rows_deleted(self.name, past, judged.items, maturity.items))
            return None
        reading = self.from_warehouse(past)
        return None if self._lost(past, reading, kept, deleted) else reading

    def _lost(self, past: Window, reading: Reading, kept: StoredReading | None, deleted: list[RejectedRows]) -> bool:
        """Whether an earlier window has fewer rows now: it stays as it was, and is added to ``deleted``."""
        gone = None if kept is None else self._deleted(past, reading, kept)
        if kept is None or gone is None:
            return False
        self._note_gone(past, kept, reading)
        deleted.append(gone)
        return True

    def _earlier(self, window: Window, deleted: list[RejectedRows], *, reread: bool) -> list[WindowCounts]:
        """The earlier windows, newest first: from the history, else from the warehouse.

        With ``reread`` the last one is read again if its rows have changed, since truths come late.
        """
        found = []
        config = self.monitor.config
        before = list(windows.before(window, windows_needed(config, window) - 1, config.zone))
        if self.source.kind == "regression":
            before = before[:1] if reread else []  # its rows are not stored, so nothing can be pooled
        needs_segments = config.counts_segments(window.schedule) and bool(self.source.segments)
        for position, past in enumerate(before):
            kept = self.kept(past, segment_counts=needs_segments)
            is_whole = kept is not None and (kept.segment_counts is not None or not needs_segments)
            usable = kept if kept is not None and is_whole and self._still_holds(kept) else None
            if usable is not None and (position > 0 or not reread or self._is_as_it_was(past, usable)):
                found.append(self._counts_of(past, usable))
                continue
            # whole rows are never stored, but estimates of them are, and those of a window are replaced together
            again = self.from_warehouse(past, whole=self.store and kept is not None)
            if usable is not None and self._lost(past, again, usable, deleted):
                found.append(self._counts_of(past, usable))
            else:
                found.append(self._late(past, again, kept))
        return found

    def _late(self, past: Window, again: Reading, kept: StoredReading | None) -> WindowCounts:
        """The counts of an earlier window that was read again.

        Late truths change its estimates; its verdicts are not changed.
        """
        reading, counts = self.read(past, again, before=kept, judges=False)
        was_run = self.store and kept is not None and self.monitor.store.run_of(past, self.name) is not None
        if was_run and kept is not None and kept.digest != self._stored(reading, counts).digest:
            baselines = self.references.baselines
            data = SourceData(self.name, with_whole(reading), segments=reading.segments, baselines=baselines)
            self.monitor.store.replace_estimates(past, self.name, estimates_of(data, self.monitor.config))
        return counts

    # --- what is judged beside the rows

    def _segments_of_baselines(self, window: Window) -> Mapping[str | None, SegmentCounts]:
        """By label, the counts of its segments in its baseline; {} if no rule of the schedule compares segments."""
        baselines = self.references.baselines
        if not baselines or not self.monitor.config.counts_segments(window.schedule, compared=True):
            return {}
        kept = self.monitor.store.baseline_segments(self.name)
        found = {label: kept.get((label, baseline.version), {}) for label, baseline in baselines.items()}
        return segments_at_present_threshold(found, self.source)

    def _past(self, window: Window) -> tuple[PastWindow, ...]:
        """The stored windows of a year, if a rule accumulates evidence. Windows that were never read stay unread."""
        config = self.monitor.config
        accumulating = [rule for rule in config.rules_for(window.schedule) if rule.accumulates]
        if not accumulating:
            return ()
        parts = any(rule.scope == "segments" or rule.measure == "ece" for rule in accumulating)
        past = self.monitor.store.past_promises(self.name, window, LONGEST - 1, config.zone, segments=parts)
        return of_the_same_evidence(past, self.settings)

    def _followed(self) -> frozenset[str]:
        """Labels that are judged even without rows, because they have a switch or an open incident."""
        store = self.monitor.store
        switched = {s.label for s in store.switches() if s.source == self.name}
        broken = {i.label for i in store.unresolved_incidents(self.name)}
        return frozenset(label for label in switched | broken if label is not None)

    # --- rows that are gone

    def _deleted(self, window: Window, reading: Reading, kept: StoredReading) -> RejectedRows | None:
        """The note that rows of a window are gone since it was read before; None if (nearly) all are there."""
        known = _alike(kept, self.settings)
        there = reading.rows + _set_aside(reading)
        if known is None or there >= (1 - ALLOWED_TO_GO) * known.rows:
            return None
        return rows_deleted(self.name, window, known.rows, there)

    def _replaced(self, window: Window, reading: Reading, kept: StoredReading) -> RejectedRows | None:
        """The note that rows of a window are gone or have another score, though as many are there; None if hardly any.

        Of a label, each score and decision can only have more rows than before, as truths come late, if none is gone.
        """
        if not self._still_holds(kept) or reading.rest is not None or reading.is_audited:
            return None
        of_labels = ((label, counts) for label, counts in kept.labels.items() if label is not None)
        gone = sum(_fewer(counts, reading.labels.get(label)) for label, counts in of_labels) - _set_aside(reading)
        if gone <= ALLOWED_TO_GO * kept.rows:
            return None
        return rows_replaced(self.name, window, kept.rows, kept.rows - gone)

    def _note_gone(self, past: Window, kept: StoredReading, reading: Reading) -> None:
        """Note with a window that stays as it was measured that most of its rows are gone, if they are."""
        gone = tuple(_gone(reading, kept, self.settings))
        if gone:
            before = tuple(each for each in kept.quality if each.reason != ROWS_GONE)
            self._save(past, replace(kept, quality=(*before, *gone)))

    def _last_read(self, window: Window) -> LastRead | None:
        """What was read of a window before a reading that failed; None if nothing was."""
        kept = self.kept(window) if self.store else None
        known = None if kept is None else _most_rows_of(kept)
        return known if known is not None and known.rows else None

    # --- in the history

    def _save(self, window: Window, kept: StoredReading) -> None:
        if self.store:
            self.monitor.store.save_reading(window, kept, self.monitor.clock())

    def _stored(self, reading: Reading, counts: WindowCounts) -> StoredReading:
        """The form in which the history keeps a reading; ``counts`` are those of :func:`with_whole`."""
        with_parts = self.monitor.config.counts_segments(reading.window.schedule)
        rows = counts.whole.digest() if reading.numbers is not None else ""
        return StoredReading(
            source=self.name, state="ok", error=None, labels=counts.labels, versions=reading.versions,
            quality=reading.quality, rows=reading.rows, digest=self._digest(counts.labels, rows),
            cells=reading.rejected, segments=counts.segments,
            segment_counts=counts.segment_counts if with_parts else None,
            fingerprint=reading.fingerprint, settings=self.settings,
        )  # fmt: skip

    def _digest(self, labels: ByLabel, rows: str = "") -> str:
        """A hash of the counts and of the settings by which they were read: `automate_at`, for one, changes them."""
        config = self.source
        acts_at = sorted((name, own.automate_at) for name, own in config.labels.items() if own.automate_at is not None)
        settings = json.dumps(config.model_dump(mode="json", include=_READ_BY | config.SHAPE), sort_keys=True)
        text = " ".join(f"{label!r}:{labels[label].digest()}" for label in sorted(labels, key=str))
        return hashlib.sha256(f"{settings} {acts_at} {rows} {text}".encode()).hexdigest()[:16]

    def _still_holds(self, kept: StoredReading) -> bool:
        """Whether the present configuration would have read the same counts as a stored reading."""
        return kept.state == "ok" and kept.digest == self._digest(kept.labels)

    def _is_as_it_was(self, window: Window, kept: StoredReading) -> bool:
        """Whether the warehouse still has the rows of a stored reading; the scan is much cheaper than reading them."""
        if kept.fingerprint is None:
            return False
        monitor = self.monitor
        return kept.fingerprint == monitor.warehouse.fingerprint(self.name, self.source, window, now=monitor.clock())

    def _rejected_in(self, kept: StoredReading) -> Rejections:
        return rejected_in(kept, self.monitor.config, self.references.baselines)

    def _counts_of(self, window: Window, kept: StoredReading) -> WindowCounts:
        """The counts of a stored reading for judging by this configuration."""
        return WindowCounts(
            window, kept.labels, kept.versions, rejected=self._rejected_in(kept), segments=kept.segments,
            segment_counts=kept.segment_counts or {}, not_read=frozenset(parts_not_read(kept.quality)),
        )  # fmt: skip


_READ_BY = {"relation", "kind", "score", "score_is", "columns", "window_on", "automate_at"}


def _noted(quality: Iterable[RejectedRows], notes: Iterable[RejectedRows]) -> tuple[RejectedRows, ...]:
    """The rejected rows with notes about windows: one of each reason, in it the newest example of each window."""
    found: dict[str, RejectedRows] = {}
    for each in (*quality, *notes):
        before, named = found.get(each.reason), {example.get("window") for example in each.examples}
        kept = () if before is None else (e for e in before.examples if e.get("window") not in named)
        found[each.reason] = replace(each, examples=(*kept, *each.examples))
    return tuple(found.values())


def _set_aside(reading: Reading) -> int:
    """The rows of the window that do not count."""
    return sum(each.rows for each in reading.quality if each.reason not in IN_NO_WINDOW)


def _fewer(before: Counts, now: Counts | None) -> int:
    """How many rows the cells of a label have lost, without those that other cells have won."""
    there = {} if now is None else dict(zip(_keys(now), now.n.tolist(), strict=True))
    return sum(max(0, n - there.get(key, 0)) for key, n in zip(_keys(before), before.n.tolist(), strict=True))


def _keys(counts: Counts) -> list[int]:
    found: list[int] = (counts.cell * 2 + counts.predicted).tolist()
    return found


def enabled_by_operators(
    store: Store, config: Config, source: str, window: Window
) -> Mapping[str | None, Sequence[datetime]]:
    """By label, when an operator turned it on in the year before a window's end; {} if no evidence accumulates."""
    if not any(rule.accumulates for rule in config.rules_for(window.schedule)):
        return {}
    found: dict[str | None, list[datetime]] = {}
    for event in store.switch_changes(source, since=window.end - LONGEST * (window.end - window.start)):
        if event.kind == "enabled" and event.actor not in RUNS.values():
            found.setdefault(event.label, []).append(event.at)
    return found


def _with_notes_of(reading: Reading, before: StoredReading, now: Settings, *, judges: bool) -> Reading:
    """The reading, with what must be said beside it of the one before.

    Where the window is not judged again, its verdicts are still those of then, when a part could not be read.
    """
    failed, failed_now = parts_not_read(() if judges else before.quality), parts_not_read(reading.quality)
    noted = [each for part, each in failed.items() if part not in failed_now]
    return replace(reading, quality=(*reading.quality, *noted, *_gone(reading, before, now)))


def _gone(reading: Reading, before: StoredReading, now: Settings) -> Iterator[RejectedRows]:
    """That most rows are gone; not those that are rejected now, or that other settings leave out or count elsewhere."""
    known = _alike(before, now)
    there = reading.rows + _set_aside(reading)
    if known is not None and 2 * there < known.rows:
        yield rows_gone(reading.source, known.rows, reading.rows)


def _alike(before: StoredReading, now: Settings) -> LastRead | None:
    """The most rows that were read of the window by settings that find the same rows as those of ``now``."""
    known = _most_rows_of(before)
    is_alike = known.settings is None or not other_rows(changes(known.settings, now))
    return known if is_alike else None


def _most_rows_of(before: StoredReading) -> LastRead:
    """What was read of a window so far: by this reading, or before it, where it failed or rejected most rows."""
    own = LastRead(max(before.rows, rows_before(before.quality)), before.settings)
    return max(before.last_read or own, own, key=lambda each: each.rows)


def with_whole(reading: Reading) -> WindowCounts:
    """The counts of every label and, under None, of the source as a whole."""
    labels: dict[str | None, Counts] = {label: counts for label, counts in reading.labels.items()}  # noqa: C416 - widens the key
    every = [*labels.values(), *([] if reading.rest is None else [reading.rest])]
    if every:
        labels[None] = pool(every).with_design_effect(reading.whole_design_effect)
    rows = reading.whole if reading.whole is not None else reading.numbers
    whole = WholeSource(reading.ranked, rows, reading.items, reading.unresolved)
    few = len(labels) <= EVERYTHING_UP_TO + 1
    parts = segment_promises(labels, reading.segments) if few else {}
    counts = by_label(reading.segments) if few else {}
    return WindowCounts(
        reading.window, labels, reading.versions, whole, segments=parts, segment_counts=counts,
        not_read=frozenset(parts_not_read(reading.quality)),
    )  # fmt: skip


def by_label(segments: Mapping[Segment, Mapping[str, Counts]]) -> dict[str | None, dict[Segment, Counts]]:
    """The counts of segments by label instead of by segment."""
    found: dict[str | None, dict[Segment, Counts]] = {}
    for segment, labels in segments.items():
        for label, counts in labels.items():
            found.setdefault(label, {})[segment] = counts
    return found


def feature_shifts(
    configured: Config, warehouse: Warehouse, source: Collected, page: Path | None = None
) -> tuple[ShiftResult, ...]:
    """Drift of the feature columns between the baseline's weeks and a weekly window; the report goes to ``page``."""
    config = configured.sources[source.data.name]
    whole = source.data.baselines.get(None)
    window = source.data.current.window
    if not config.features or whole is None or source.reading is None or window.schedule != "weekly":
        return ()
    if whole.overlaps(window) or not source.reading.rows:
        return ()
    pinned = {label: baseline.counts for label, baseline in source.data.baselines.items()}
    reference = Window(whole.start, whole.end, f"{whole.first_window}..{whole.last_window}", "weekly")
    spans = ((window, source.data.current.labels, 1), (reference, pinned, REFERENCE_SAMPLES))
    samples = []
    try:
        with warehouse.kept_open():
            for span, labels, size in spans:
                items = max((counts.rows for label, counts in labels.items() if label is not None), default=0)
                limit = size * config.sample_size
                samples.append(warehouse.feature_sample(source.data.name, config, span, limit=limit, at_least=items))
    except (RelationError, WarehouseFailed) as error:
        # the counts have been read, so labels are judged; the report says what is missing
        return (part_left_out(source.data.name, window, "features", str(error)),)
    return tuple(feature_drift(source.data.name, window, *samples, html=page))


def report_path(monitor: Monitor, window: Window, source: str) -> Path:
    """The path of the drift report of one source and window."""
    return monitor.settings.report_dir / window.schedule / window.name / drift_file(source)
