"""The reading stage: counts of the sources from the warehouse, or from the history where they are stored already."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from monitor.automation.segments import RUNS
from monitor.config.counting import settings_of
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.baseline import Baseline, References, references_under
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
from monitor.core.source_settings import Settings, changes, other_rows
from monitor.evaluation.data import ByLabel, SourceData, WholeSource, WindowCounts, windows_needed
from monitor.evaluation.evaluate import EVERYTHING_UP_TO, estimates_of
from monitor.evaluation.other_thresholds import at_present_threshold, segments_at_present_threshold
from monitor.evaluation.rejected_rows import rejected_in
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
Baselines = Mapping[str | None, Baseline]


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """One source as it was read. ``timed_out``: reading took too long, so trying again at once is useless.

    ``restated`` are earlier windows whose truths came late, oldest first. ``stays``: the window was judged before, and
    the warehouse has fewer of its rows now: ``data`` is what was read then, and what was measured is not judged again.
    """

    data: SourceData
    reading: Reading | None
    timed_out: bool = False
    stays: bool = False
    restated: tuple[Collected, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WindowRead:
    """One source in one window, read from the warehouse; ``truths``: how complete the truths of its windows are.

    If these could not be read, the reading's ``quality`` says why.
    """

    reading: Reading
    truths: ByWindow


def _truths(
    config: Config, warehouse: Warehouse, window: Window, name: str, now: datetime
) -> tuple[ByWindow, RelationError | WarehouseFailed | None]:
    """How complete truths are, or why it could not be read: the counts may be readable all the same."""
    try:
        return known_truths(config, warehouse, window, name, now), None
    except (RelationError, WarehouseFailed) as error:
        return {}, error


def read_ahead(monitor: Monitor, window: Window, name: str) -> WindowRead:
    """Read one source in one window and store its counts, so that later windows can be judged at the same time.

    Raises what ``Warehouse.read`` raises.
    """
    truths, failed = _truths(monitor.config, monitor.warehouse, window, name, monitor.clock())
    reading = _from_warehouse(monitor, window, name, whole=True)
    ahead = WindowRead(reading if failed is None else with_part_not_read(reading, DELAYS_FAILED, failed), truths)
    before = monitor.store.load_reading(window.schedule, window.start, name)
    if _measured_before(monitor, window, ahead.reading, before) is None:
        read(monitor, window, name, baselines_of(monitor, name), store=True, reading=ahead.reading, before=before)
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
    will try again, a warehouse that does not answer raises WarehouseFailed at the end. A time-out does not: there is
    time for only two or three of these.
    """
    found = []
    for name in names:
        progress(f"reading {name}")
        with monitor.warehouse.kept_open():
            done = (ahead or {}).get(name)
            one = collect_one(monitor, window, name, done, store=store, reread=reread, fewer_rows=fewer_rows)
            found.append(one)
    failed = [f"{c.data.name}: {why}" for c in found if not c.timed_out for why in _unanswered(c.data)]
    if failed and try_again:
        raise WarehouseFailed(failed[0])
    return found


def _unanswered(data: SourceData) -> Iterator[str]:
    """Why the warehouse did not answer, for the source or for a part of it."""
    if data.problem is Reason.WAREHOUSE_FAILED:
        yield data.error
    for part in parts_not_read(data.quality).values():
        if part.examples[0]["problem"] == Reason.WAREHOUSE_FAILED:
            yield str(part.examples[0]["why"])


def collect_one(
    monitor: Monitor, window: Window, name: str, done: WindowRead | None = None, *, store: bool, reread: bool,
    fewer_rows: bool = False,
) -> Collected:  # fmt: skip
    """Read one source for one window; ``done`` is a reading that exists already and is not repeated."""
    references = references_of(monitor, name)
    baselines = references.baselines
    switched = _followed(monitor, name)
    restated: list[Collected] = []
    try:
        known, failed = (
            _truths(monitor.config, monitor.warehouse, window, name, monitor.clock())
            if done is None
            else (done.truths, None)
        )
        deleted: list[RejectedRows] = []
        if store and reread:
            restated = _restated(monitor, window, name, references, known, deleted)
        read_again = any(each.data.current.window.end == window.start for each in restated) or any(deleted)
        before = earlier(
            monitor, window, name, baselines, store=store, reread=reread and not read_again, deleted=deleted
        )
        kept = monitor.store.load_reading(window.schedule, window.start, name)
        reading = _from_warehouse(monitor, window, name, whole=True) if done is None else done.reading
        gone = None if fewer_rows else _measured_before(monitor, window, reading, kept)
        stays = kept if gone is not None else None
        if stays is not None and gone is not None:
            current = counts_of(window, stays, monitor.config, baselines)
            stays = replace(stays, quality=_noted(stays.quality, [gone]))
            if store:
                monitor.store.save_reading(window, stays, monitor.clock())
                _keep(monitor, window, stays, reading)
            reading = replace(reading, quality=_noted(stays.quality, deleted), rows=stays.rows, segments={})
        else:
            reading, current = read(
                monitor, window, name, baselines, store=store, reading=reading, failed=failed, before=kept,
                deleted=deleted,
            )  # fmt: skip
    except (RelationError, WarehouseFailed) as error:
        problem = problem_of(error)
        if store:
            unread = StoredReading(name, problem.value, str(error), last_read=_last_read_of(monitor, window, name))
            monitor.store.save_reading(window, unread, monitor.clock())
        data = SourceData(
            name, WindowCounts(window), baselines=baselines, problem=problem, error=str(error), switched=switched,
            references=references,
        )  # fmt: skip
        return Collected(data, None, timed_out=isinstance(error, WarehouseTimeout))
    data = SourceData(
        name, replace(current, maturity=known.get(window, {})), tuple(before), reading.segments, baselines,
        reading.quality, reading.rows, switched=switched, past=_past(monitor, window, name),
        baseline_segments=segments_of_baselines(monitor, window, baselines), references=references,
        enabled=enabled_by_operators(monitor.store, monitor.config, name, window),
    )  # fmt: skip
    return Collected(data, reading, restated=tuple(restated), stays=stays is not None)


def _noted(quality: Iterable[RejectedRows], notes: Iterable[RejectedRows]) -> tuple[RejectedRows, ...]:
    """The rejected rows with notes about windows: one of each reason, in it the newest example of each window."""
    found: dict[str, RejectedRows] = {}
    for each in (*quality, *notes):
        before, named = found.get(each.reason), {example.get("window") for example in each.examples}
        kept = () if before is None else (e for e in before.examples if e.get("window") not in named)
        found[each.reason] = replace(each, examples=(*kept, *each.examples))
    return tuple(found.values())


def _measured_before(
    monitor: Monitor, window: Window, reading: Reading, kept: StoredReading | None
) -> RejectedRows | None:
    """The note that a window was judged by these settings and has fewer rows now: what was measured of it stays."""
    if kept is None or not _still_holds(monitor, kept):
        return None
    gone = _deleted(monitor, window, reading, kept)
    return gone if monitor.store.judged(window.schedule, window.start, reading.source) else None


def _restated(
    monitor: Monitor, window: Window, name: str, references: References, known: ByWindow, deleted: list[RejectedRows]
) -> list[Collected]:
    """The earlier windows whose truths came late, oldest first. All are read before the first is assembled.

    Of a window that has fewer rows now, or fewer items with and without a truth, nothing is restated: its rows are
    gone, which is no news of them. Such windows are added to ``deleted``.
    """
    readings = []
    for past in to_restate(monitor, window, name, known):
        kept = monitor.store.load_reading(past.schedule, past.start, name)
        reading = _read_again(monitor, past, name, known.get(past, {}).get(None), kept, deleted)
        if reading is not None:
            found = read(monitor, past, name, references.baselines, store=True, reading=reading, before=kept)
            readings.append((past, *found))
    return [
        Collected(_data_of_restated(monitor, each, name, references, known, counts, reading), reading)
        for each, reading, counts in readings
    ]


def _read_again(
    monitor: Monitor, past: Window, name: str, maturity: Maturity | None, kept: StoredReading | None,
    deleted: list[RejectedRows],
) -> Reading | None:  # fmt: skip
    """The rows of an earlier window as they are now; None if some of those that it had are gone."""
    judged = monitor.store.maturities(past.schedule, name, since=past.start, until=past.start).get((past.start, None))
    if maturity is not None and judged is not None and maturity.items < (1 - ALLOWED_TO_GO) * judged.items:
        deleted.append(rows_deleted(name, past, judged.items, maturity.items))
        return None
    reading = _from_warehouse(monitor, past, name, whole=True)
    gone = None if kept is None else _deleted(monitor, past, reading, kept)
    if kept is None or gone is None:
        return reading
    _keep(monitor, past, kept, reading)
    deleted.append(gone)
    return None


def _keep(monitor: Monitor, past: Window, kept: StoredReading, reading: Reading) -> None:
    """Note with a window that stays as it was measured that most of its rows are gone, if they are."""
    gone = tuple(_gone(reading, kept, settings_of(monitor.config.sources[kept.source])))
    if gone:
        before = tuple(each for each in kept.quality if each.reason != ROWS_GONE)
        monitor.store.save_reading(past, replace(kept, quality=(*before, *gone)), monitor.clock())


def _from_warehouse(monitor: Monitor, window: Window, name: str, *, whole: bool) -> Reading:
    source = monitor.config.sources[name]
    return audited(monitor, monitor.warehouse.read(name, source, window, now=monitor.clock(), whole=whole))


def _deleted(monitor: Monitor, window: Window, reading: Reading, kept: StoredReading) -> RejectedRows | None:
    """The note that rows of a window are gone since it was read before; None if they are all there, or nearly all."""
    known = _alike(kept, settings_of(monitor.config.sources[reading.source]))
    there = reading.rows + sum(each.rows for each in reading.quality if each.reason not in IN_NO_WINDOW)
    if known is None or there >= (1 - ALLOWED_TO_GO) * known.rows:
        return None
    return rows_deleted(reading.source, window, known.rows, there)


def _replaced(monitor: Monitor, window: Window, reading: Reading, kept: StoredReading) -> RejectedRows | None:
    """The note that rows of a window are gone or have another score, though as many are there; None if nearly none is.

    Of a label, each score and decision can only have more rows than before, as truths come late, if none is gone.
    """
    if not _still_holds(monitor, kept) or reading.rest is not None or reading.is_audited:
        return None
    set_aside = sum(each.rows for each in reading.quality if each.reason not in IN_NO_WINDOW)
    fewer = (_fewer(counts, reading.labels.get(label)) for label, counts in kept.labels.items() if label is not None)
    gone = sum(fewer) - set_aside
    if gone <= ALLOWED_TO_GO * kept.rows:
        return None
    return rows_replaced(reading.source, window, kept.rows, kept.rows - gone)


def _fewer(before: Counts, now: Counts | None) -> int:
    """How many rows the cells of a label have lost, without those that other cells have won."""
    there = {} if now is None else dict(zip(_keys(now), now.n.tolist(), strict=True))
    return sum(max(0, n - there.get(key, 0)) for key, n in zip(_keys(before), before.n.tolist(), strict=True))


def _keys(counts: Counts) -> list[int]:
    found: list[int] = (counts.cell * 2 + counts.predicted).tolist()
    return found


def _data_of_restated(
    monitor: Monitor, past: Window, name: str, references: References, known: ByWindow, counts: WindowCounts,
    reading: Reading,
) -> SourceData:  # fmt: skip
    """The data of a window that was read again, as a run of that window would find them now."""
    baselines = references.baselines
    before = earlier(monitor, past, name, baselines, store=True, reread=False)
    return SourceData(
        name, replace(counts, maturity=known.get(past, {})), tuple(before), reading.segments, baselines,
        reading.quality, reading.rows, switched=_followed(monitor, name), past=_past(monitor, past, name),
        baseline_segments=segments_of_baselines(monitor, past, baselines), references=references,
        enabled=enabled_by_operators(monitor.store, monitor.config, name, past),
    )  # fmt: skip


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


def baselines_of(monitor: Monitor, name: str) -> Baselines:
    """The newest baselines of a source that may be compared with, by label: see :func:`references_of`."""
    return references_of(monitor, name).baselines


def references_of(monitor: Monitor, name: str) -> References:
    """The newest baselines of a source as its settings are now: of the same numbers, cut at today's `automate_at`."""
    source = monitor.config.sources[name]
    found = references_under(monitor.store.latest_baselines(name), settings_of(source))
    return at_present_threshold(found, source, monitor.config.evaluation)


def segments_of_baselines(monitor: Monitor, window: Window, baselines: Baselines) -> Mapping[str | None, SegmentCounts]:
    """By label, the counts of its segments in its baseline; {} if no rule of the schedule compares segments."""
    source = next((baseline.source for baseline in baselines.values()), None)
    if source is None or not monitor.config.counts_segments(window.schedule, compared=True):
        return {}
    kept = monitor.store.baseline_segments(source)
    found = {label: kept.get((label, baseline.version), {}) for label, baseline in baselines.items()}
    return segments_at_present_threshold(found, monitor.config.sources[source])


def _past(monitor: Monitor, window: Window, name: str) -> tuple[PastWindow, ...]:
    """The stored windows of a year, if a rule accumulates evidence. Windows that were never read stay unread."""
    config = monitor.config
    accumulating = [rule for rule in config.rules_for(window.schedule) if rule.accumulates]
    if not accumulating:
        return ()
    parts = any(rule.scope == "segments" or rule.measure == "ece" for rule in accumulating)
    past = monitor.store.past_promises(name, window, LONGEST - 1, config.zone, segments=parts)
    return of_the_same_evidence(past, settings_of(config.sources[name]))


def _followed(monitor: Monitor, name: str) -> frozenset[str]:
    """Labels that are judged even without rows, because they have a switch or an open incident."""
    switched = {s.label for s in monitor.store.switches() if s.source == name}
    broken = {i.label for i in monitor.store.unresolved_incidents(name)}
    return frozenset(label for label in switched | broken if label is not None)


def read(
    monitor: Monitor, window: Window, name: str, baselines: Baselines, *, store: bool, whole: bool = False,
    reading: Reading | None = None, failed: RelationError | WarehouseFailed | None = None,
    before: StoredReading | None = None, judges: bool = True, deleted: Sequence[RejectedRows] = (),
) -> tuple[Reading, WindowCounts]:  # fmt: skip
    """Read one window of one source; with ``store`` also store it. Returns the reading and its counts for judging.

    Ranks and ``whole`` rows, which are never stored, are read only if metrics need them. With ``reading`` the warehouse
    is not read. ``failed`` says why the delays of truths could not be read. If most rows of ``before``, the reading
    so far, are gone, the new one says so. Where the window is not judged again (``judges``), the parts that could not
    be read when it was judged stay noted.
    """
    if reading is None:
        reading = _from_warehouse(monitor, window, name, whole=whole)
    if failed is not None:
        reading = with_part_not_read(reading, DELAYS_FAILED, failed)
    known = None
    if before is not None:
        settings = settings_of(monitor.config.sources[name])
        known = _alike(before, settings)
        reading = _with_notes_of(reading, before, settings, judges=judges)
        gone = _deleted(monitor, window, reading, before)
        gone = _replaced(monitor, window, reading, before) if gone is None else gone
        deleted = deleted if gone is None else (*deleted, gone)
    reading = replace(reading, quality=_noted(reading.quality, deleted))
    counts = with_whole(reading)
    kept = replace(kept_of(monitor, reading, baselines, counts), last_read=_to_remember(reading, known))
    if store:
        monitor.store.save_reading(window, kept, monitor.clock())
    return reading, replace(counts, rejected=kept.rejected)


def _with_notes_of(reading: Reading, before: StoredReading, now: Settings, *, judges: bool) -> Reading:
    """The reading, with what must be said beside it of the one before."""
    noted = () if judges else _parts_noted(reading, before)
    return replace(reading, quality=(*reading.quality, *noted, *_gone(reading, before, now)))


def _parts_noted(reading: Reading, before: StoredReading) -> Iterator[RejectedRows]:
    """The parts that could not be read when the window was judged: its verdicts are still those of then."""
    failed_now = parts_not_read(reading.quality)
    return (each for part, each in parts_not_read(before.quality).items() if part not in failed_now)


def _gone(reading: Reading, before: StoredReading, now: Settings) -> Iterator[RejectedRows]:
    """That most rows are gone; not those that are rejected now, or that other settings leave out or count elsewhere."""
    known = _alike(before, now)
    there = reading.rows + sum(each.rows for each in reading.quality if each.reason not in IN_NO_WINDOW)
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


def _to_remember(reading: Reading, known: LastRead | None) -> LastRead | None:
    """What must be stored with a reading so that a later one can say that rows are gone; None: its own rows say it."""
    return known if known is not None and 2 * reading.rows < known.rows else None


def _last_read_of(monitor: Monitor, window: Window, name: str) -> LastRead | None:
    """What was read of a window before a reading that failed; None if nothing was."""
    kept = monitor.store.load_reading(window.schedule, window.start, name)
    known = None if kept is None else _most_rows_of(kept)
    return known if known is not None and known.rows else None


def kept_of(
    monitor: Monitor, reading: Reading, baselines: Baselines, counts: WindowCounts | None = None
) -> StoredReading:
    """The part of a reading that the history keeps, with the conclusions from its rejected rows.

    ``counts`` are those of :func:`with_whole`, where they were made already.
    """
    kept = stored(monitor, reading, counts)
    return replace(kept, rejected=rejected_in(kept, monitor.config, baselines))


def stored_or_read(monitor: Monitor, window: Window, name: str, baselines: Baselines) -> WindowCounts:
    """The counts of one window from the history, else from the warehouse as it is now; nothing is stored."""
    kept = monitor.store.load_reading(window.schedule, window.start, name)
    if kept is not None and _still_holds(monitor, kept):
        return counts_of(window, kept, monitor.config, baselines)
    source = monitor.config.sources[name].model_copy(update={"segments": ()})  # not needed here, and slow
    reading = audited(monitor, monitor.warehouse.read(name, source, window, now=monitor.clock(), whole=False))
    counts = with_whole(reading)
    return replace(counts, rejected=rejected_in(stored(monitor, reading, counts), monitor.config, baselines))


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


def stored(monitor: Monitor, reading: Reading, counts: WindowCounts | None = None) -> StoredReading:
    """The form in which the history keeps a reading; ``counts`` as in :func:`kept_of`."""
    counts = with_whole(reading) if counts is None else counts
    with_parts = monitor.config.counts_segments(reading.window.schedule)
    rows = counts.whole.digest() if reading.numbers is not None else ""
    return StoredReading(
        source=reading.source, state="ok", error=None, labels=counts.labels, versions=reading.versions,
        quality=reading.quality, rows=reading.rows, digest=_digest(monitor, reading.source, counts.labels, rows),
        cells=reading.rejected, segments=counts.segments, segment_counts=counts.segment_counts if with_parts else None,
        fingerprint=reading.fingerprint, settings=settings_of(monitor.config.sources[reading.source]),
    )  # fmt: skip


_READ_BY = {"relation", "kind", "score", "score_is", "columns", "window_on", "automate_at"}


def _digest(monitor: Monitor, source: str, labels: ByLabel, rows: str = "") -> str:
    """A hash of the counts and of the settings by which they were read: `automate_at`, for one, changes the counts."""
    config = monitor.config.sources[source]
    acts_at = sorted((name, own.automate_at) for name, own in config.labels.items() if own.automate_at is not None)
    settings = json.dumps(config.model_dump(mode="json", include=_READ_BY | config.SHAPE), sort_keys=True)
    text = " ".join(f"{label!r}:{labels[label].digest()}" for label in sorted(labels, key=str))
    return hashlib.sha256(f"{settings} {acts_at} {rows} {text}".encode()).hexdigest()[:16]


def _still_holds(monitor: Monitor, kept: StoredReading) -> bool:
    """Whether the present configuration would have read the same counts as a stored reading."""
    return kept.state == "ok" and kept.digest == _digest(monitor, kept.source, kept.labels)


def poolable(config: Config, window: Window) -> list[Window]:
    """The earlier windows that may be pooled or compared with a window, newest first."""
    return list(windows.before(window, windows_needed(config, window) - 1, config.zone))


def earlier(
    monitor: Monitor, window: Window, name: str, baselines: Baselines, *, store: bool, reread: bool,
    deleted: list[RejectedRows] | None = None,
) -> list[WindowCounts]:  # fmt: skip
    """The earlier windows, newest first: from the history, else from the warehouse.

    With ``reread`` the last one is read again if its rows have changed, since truths come late. Raises what
    ``Warehouse.read`` raises.
    """
    found = []
    before = poolable(monitor.config, window)
    if monitor.config.sources[name].kind == "regression":
        before = before[:1] if reread else []  # its rows are not stored, so nothing can be pooled
    needs_segments = monitor.config.counts_segments(window.schedule) and bool(monitor.config.sources[name].segments)
    for position, past in enumerate(before):
        kept = monitor.store.load_reading(past.schedule, past.start, name, segment_counts=needs_segments)
        usable = (
            kept is not None and _still_holds(monitor, kept) and (kept.segment_counts is not None or not needs_segments)
        )
        if kept is not None and usable and (position > 0 or not reread or _is_as_it_was(monitor, past, kept)):
            found.append(counts_of(past, kept, monitor.config, baselines))
            continue
        # whole rows are never stored, but estimates of them are, and those of a window are replaced together
        again = _from_warehouse(monitor, past, name, whole=store and kept is not None)
        gone = _deleted(monitor, past, again, kept) if kept is not None and usable else None
        if kept is not None and gone is not None:
            found.append(counts_of(past, kept, monitor.config, baselines))
            if store:
                _keep(monitor, past, kept, again)
            if deleted is not None:
                deleted.append(gone)
            continue
        reading, counts = read(monitor, past, name, baselines, store=store, reading=again, before=kept, judges=False)
        found.append(counts)
        was_run = store and kept is not None and monitor.store.run_of(past, name) is not None
        if was_run and kept is not None and kept.digest != stored(monitor, reading).digest:
            # late truths change the estimates of the window before; its verdicts are not changed
            data = SourceData(name, with_whole(reading), segments=reading.segments, baselines=baselines)
            monitor.store.replace_estimates(past, name, estimates_of(data, monitor.config))
    return found


def _is_as_it_was(monitor: Monitor, window: Window, kept: StoredReading) -> bool:
    """Whether the warehouse still has the rows of a stored reading; the scan is much cheaper than reading them."""
    if kept.fingerprint is None:
        return False
    source = monitor.config.sources[kept.source]
    return kept.fingerprint == monitor.warehouse.fingerprint(kept.source, source, window, now=monitor.clock())


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
    try:
        with warehouse.kept_open():
            now, then = (
                warehouse.feature_sample(
                    source.data.name, config, span, limit=size * config.sample_size, at_least=_most_rows(labels)
                )
                for span, labels, size in (
                    (window, source.data.current.labels, 1),
                    (reference, pinned, REFERENCE_SAMPLES),
                )
            )
    except (RelationError, WarehouseFailed) as error:
        # the counts have been read, so labels are judged; the report says what is missing
        return (part_left_out(source.data.name, window, "features", str(error)),)
    return tuple(feature_drift(source.data.name, window, now, then, html=page))


def _most_rows(labels: ByLabel) -> int:
    """The rows of the largest label: about the number of its items."""
    return max((counts.rows for label, counts in labels.items() if label is not None), default=0)


def report_path(monitor: Monitor, window: Window, source: str) -> Path:
    """The path of the drift report of one source and window."""
    return monitor.settings.report_dir / window.schedule / window.name / drift_file(source)


def counts_of(
    window: Window, kept: StoredReading, config: Config, baselines: Mapping[str | None, Baseline]
) -> WindowCounts:
    """The counts of a stored reading for judging by this configuration."""
    rejected = rejected_in(kept, config, baselines)
    return WindowCounts(
        window, kept.labels, kept.versions, rejected=rejected, segments=kept.segments,
        segment_counts=kept.segment_counts or {}, not_read=frozenset(parts_not_read(kept.quality)),
    )  # fmt: skip
