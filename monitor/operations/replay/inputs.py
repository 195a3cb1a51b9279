"""The inputs of a replay from the history, as a run would have had them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile

from monitor.config.model import Config, SourceConfig
from monitor.core import windows
from monitor.core.baseline import Baseline, References, comparable_versions
from monitor.core.counts import Counts
from monitor.core.maturity import Maturity
from monitor.core.promises import (
    PastWindow,
    Population,
    Promises,
    Segment,
    of_the_same_evidence,
    segment_promises,
)
from monitor.core.records import Reason, Verdict, Window, parts_not_read
from monitor.core.source_settings import Settings
from monitor.evaluation.accumulated import population_of
from monitor.evaluation.data import SourceData, WindowCounts, windows_needed
from monitor.evaluation.other_thresholds import acting_from, at_present_threshold, labels_at_present_threshold
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.inference.promised import all_promises_of
from monitor.inference.sequential import LONGEST
from monitor.operations.collect import enabled_by_operators
from monitor.operations.replay.plan import Part, ReplayPlan


@dataclass(frozen=True, slots=True, eq=False)
class KnownWindow:
    """One window in the history: its reading, and the windows before it up to the first gap.

    ``past`` holds the promises of the windows before it, newest first, by the present and by the proposed file; empty
    for a file without a rule that accumulates evidence. ``maturity`` says how complete truths are now, ``enabled`` when
    operators turned labels on.
    """

    window: Window
    reading: StoredReading | None
    earlier: tuple[WindowCounts, ...]
    past: tuple[tuple[PastWindow, ...], tuple[PastWindow, ...]] = ((), ())
    maturity: Mapping[str | None, Maturity] = field(default_factory=dict)
    enabled: Mapping[str | None, Sequence[datetime]] = field(default_factory=dict)


def known_windows(history: Store, plan: ReplayPlan, part: Part) -> Iterator[KnownWindow]:
    """The windows of a part, oldest first, each reading loaded once."""
    first, zone = part.windows[0], plan.present.zone
    files = (plan.present, plan.proposed)
    deepest = max(windows_needed(config, first) for config in files) - 1
    needs_segments = any(config.counts_segments(part.schedule) for config in files)
    earlier_windows: deque[WindowCounts | None] = deque(maxlen=deepest)
    memory = _Memory(plan, part)
    source = plan.present.sources.get(part.source)
    enabled = next(filter(None, (enabled_by_operators(history, each, part.source, first) for each in files)), {})
    waits = any(rule.mature is not None for config in files for rule in config.rules_for(part.schedule))
    for window in reversed(windows.before(first, max(deepest, memory.length), zone)):
        reading = history.load_reading(part.schedule, window.start, part.source, segment_counts=needs_segments)
        known = _counts(window, reading, source)
        earlier_windows.append(known)
        memory.add(known, reading)
    for window in part.windows:
        reading = history.load_reading(part.schedule, window.start, part.source, segment_counts=needs_segments)
        until_gap = takewhile(lambda counts: counts is not None, reversed(earlier_windows))
        earlier = tuple(counts for counts in until_gap if counts is not None)
        truths = history.maturities(part.schedule, part.source, since=window.start, until=window.start) if waits else {}
        maturity = {label: found for (_, label), found in truths.items()}
        yield KnownWindow(window, reading, earlier, memory.newest_first(reading), maturity, enabled)
        known = _counts(window, reading, source)
        earlier_windows.append(known)
        memory.add(known, reading)


class _Memory:
    """The promises of the windows of the last year, by the present and by the proposed file."""

    def __init__(self, plan: ReplayPlan, part: Part) -> None:
        self._plan = plan
        self._source = part.source
        self._asked = tuple(_populations(config, part) for config in (plan.present, plan.proposed))
        self.length = LONGEST - 1 if any(self._asked) else 0
        self._kept = tuple(deque[PastWindow](maxlen=LONGEST - 1) for _ in self._asked)

    def add(self, known: WindowCounts | None, reading: StoredReading | None) -> None:
        """Add one more window, if it was read."""
        if known is None or reading is None or not self.length:
            return
        proposed = as_proposed(self._plan, self._source, known)
        promised = _promised(known, reading.settings)
        sides = (promised, promised if proposed.labels is known.labels else _promised(proposed, reading.settings))
        for populations, kept, side in zip(self._asked, self._kept, sides, strict=True):
            if populations:
                kept.append(_only(side, populations))

    def newest_first(self, reading: StoredReading | None) -> tuple[tuple[PastWindow, ...], tuple[PastWindow, ...]]:
        """The promises before ``reading``, newest first, under its settings: by the present and the proposed file."""
        now = None if reading is None else reading.settings
        present, proposed = (of_the_same_evidence(reversed(kept), now) for kept in self._kept)
        return present, proposed


def _populations(config: Config, part: Part) -> frozenset[Population]:
    """The populations for which rules of a file accumulate evidence."""
    return frozenset(population_of(rule) for rule in config.rules_for(part.schedule) if rule.accumulates)


def _promised(known: WindowCounts, settings: Settings | None) -> PastWindow:
    labels = {label: all_promises_of(counts) for label, counts in known.labels.items()}
    return PastWindow(known.window, labels, known.versions, known.rejected, known.segments, settings)


def _only(past: PastWindow, populations: frozenset[Population]) -> PastWindow:
    """The promises of the populations ``populations``: a year of all populations would need much memory.

    For labels also those of all rows, whose hit rate is the share of true items.
    """

    def chosen(promises: Promises, more: frozenset[Population] = frozenset()) -> Promises:
        return {where: promise for where, promise in promises.items() if where in populations | more}

    labels = {label: chosen(promises, frozenset({"all"})) for label, promises in past.labels.items()}
    segments = {
        label: {segment: chosen(promises) for segment, promises in parts.items()}
        for label, parts in past.segments.items()
    }
    return replace(past, labels=labels, segments=segments)


def as_proposed(plan: ReplayPlan, source: str, known: WindowCounts) -> WindowCounts:
    """The same counts, with automated rows by the ``automate_at`` of the proposed file."""
    present, proposed = plan.present.sources.get(source), plan.proposed.sources.get(source)
    if present is None or proposed is None:
        return known
    labels = acting_from(known.labels, present, proposed)
    moved = {label for label in known.segments if present.automate_from(label) != proposed.automate_from(label)}
    # the history keeps only promises of segments, of the rows that acted then; those of bands are computed anew
    bands = segment_promises({label: labels[label] for label in moved}, {})
    counts = _segments_from(known, present, proposed)
    return replace(known, labels=labels, segments={**known.segments, **bands}, segment_counts=counts)


def _segments_from(
    known: WindowCounts, present: SourceConfig, proposed: SourceConfig
) -> dict[str | None, dict[Segment, Counts]]:
    """The counts of segments, with automated rows by the ``automate_at`` of the proposed file."""
    return {
        label: {segment: acting_from({label: counts}, present, proposed)[label] for segment, counts in parts.items()}
        for label, parts in known.segment_counts.items()
    }


def _counts(window: Window, reading: StoredReading | None, source: SourceConfig | None) -> WindowCounts | None:
    """The counts of a stored window, with automated rows by the `automate_at` of the present file."""
    if reading is None or reading.state != "ok":
        return None
    return WindowCounts(
        window,
        reading.labels if source is None else labels_at_present_threshold(reading.labels, source),
        reading.versions,
        rejected=reading.rejected,
        segments=reading.segments,
        not_read=frozenset(parts_not_read(reading.quality)),
        segment_counts=reading.segment_counts or {},
    )


def baseline_of(versions: Sequence[Baseline], window: Window, used: int | None) -> Baseline | None:
    """The version of a label's baseline to compare a window with; ``versions`` are oldest first.

    It is the version in the window's stored verdicts (``used``), else the newest that ends before the window. A window
    before the end of the first baseline has none; one inside it has that baseline and is not judged.
    """
    named = [version for version in versions if version.version == used]
    ended = [version for version in versions if version.end <= window.start]
    first = [version for version in versions[:1] if version.overlaps(window)]
    found = (named or ended or first)[-1:]
    return found[0] if found else None


def of_the_same_numbers(versions: Iterable[Baseline], reading: StoredReading | None) -> list[Baseline]:
    """The versions that a reading may be compared with, by the settings under which both were read."""
    counts = None if reading is None else next(iter(reading.labels.values()), None)
    return comparable_versions(versions, counts, None if reading is None else reading.settings)


def references_by(baselines: Mapping[str | None, Baseline], config: Config, source: str) -> References:
    """The baselines of a window with automated rows by the `automate_at` of a file."""
    found = References(baselines)
    return (
        found
        if source not in config.sources
        else at_present_threshold(found, config.sources[source], config.evaluation)
    )


def versions_of(history: Store, source: str) -> dict[str | None, list[Baseline]]:
    """By label, every version of its baseline, oldest first."""
    found: dict[str | None, list[Baseline]] = {}
    for baseline in history.baselines(source):
        found.setdefault(baseline.label, []).append(baseline)
    return found


def used_versions(given: Iterable[Verdict]) -> dict[str | None, int]:
    """By label, the version of its baseline in the stored verdicts of a window."""
    found: dict[str | None, int] = {}
    for verdict in given:
        if verdict.baseline_version is not None:
            label = verdict.subject.label
            found[label] = max(verdict.baseline_version, found.get(label, 0))
    return found


def data_of(
    part: Part, known: KnownWindow, references: References, given: Sequence[Verdict], source: SourceConfig | None
) -> SourceData:
    """The data that a run would have judged; labels that were judged then are kept even without rows."""
    judged = frozenset(v.subject.label for v in given if v.subject.label is not None)
    read = _counts(known.window, known.reading, source)
    current = None if read is None else replace(read, maturity=known.maturity)
    problem = None if known.reading is None or current is not None else Reason(known.reading.state)
    return SourceData(
        part.source,
        current or WindowCounts(known.window),
        known.earlier,
        baselines=references.baselines,
        problem=problem,
        switched=judged,
        past=known.past[0],
        references=references,
        enabled=known.enabled,
    )
