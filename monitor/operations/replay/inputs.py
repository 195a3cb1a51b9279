"""What each rules file knows of a source's windows in the history, as a run by it would have known them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from monitor.config.model import Config, SourceConfig
from monitor.core import windows
from monitor.core.baseline import Baseline, Baselines, References, comparable_versions
from monitor.core.counts import SegmentCounts
from monitor.core.maturity import Maturity
from monitor.core.promises import PastWindow, Population, Promises, of_the_same_evidence, segment_promises
from monitor.core.records import Reason, Verdict, Window, parts_not_read
from monitor.evaluation.accumulated import population_of
from monitor.evaluation.data import SourceData, WindowCounts, rejected_in, windows_needed
from monitor.evaluation.other_thresholds import (
    acting_from,
    at_present_threshold,
    labels_at_present_threshold,
    segments_at_present_threshold,
)
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.inference.levels import all_promises_of
from monitor.inference.sequential import LONGEST
from monitor.operations.collect import enabled_by_operators
from monitor.operations.replay.model import SideName
from monitor.operations.replay.plan import Part, ReplayPlan


def readings(history: Store, plan: ReplayPlan, part: Part) -> Iterator[tuple[Window, StoredReading | None]]:
    """The windows of a part with those before it that they are judged with, oldest first, each reading loaded once."""
    files, first = (plan.present, plan.proposed), part.windows[0]
    accumulates = any(rule.accumulates for config in files for rule in config.rules_for(part.schedule))
    before = max(_before(config, first) for config in files)
    span = windows.before(first, max(before, LONGEST - 1) if accumulates else before, plan.present.zone)
    segments = any(config.counts_segments(part.schedule) for config in files)
    for window in (*reversed(span), *part.windows):
        yield window, history.load_reading(part.schedule, window.start, part.source, segment_counts=segments)


def _before(config: Config, window: Window) -> int:
    """How many windows before a window are judged with it."""
    return windows_needed(config, window) - 1


def files_of(history: Store, plan: ReplayPlan, part: Part) -> dict[SideName, SourceByFile]:
    """The source of a part by each file that has it; the same object where both say the same of it."""
    first, name = part.windows[0], part.source
    found: dict[SideName, SourceByFile] = {}
    for side, config in plan.files.items():
        if name in config.sources:
            read_by = plan.present.sources.get(name, config.sources[name])
            enabled = enabled_by_operators(history, config, name, first)
            found[side] = SourceByFile(config, part, read_by, _before(config, first), enabled)
    if len(found) == 2 and found["present"].basis == found["proposed"].basis:
        found["proposed"] = found["present"]
    return found


class SourceByFile:
    """One source as one rules file counts it: the window that is judged, and those before it.

    Rows act alone from the `automate_at` of the file. ``read_by`` is the source in the present file.
    """

    def __init__(
        self, config: Config, part: Part, read_by: SourceConfig, before: int,
        enabled: Mapping[str | None, Sequence[datetime]],
    ) -> None:  # fmt: skip
        self.config = config
        self._source, self._name = config.sources[part.source], part.source
        self._read_by, self._enabled = read_by, enabled
        self._asked = frozenset(population_of(rule) for rule in config.rules_for(part.schedule) if rule.accumulates)
        self._earlier = deque[WindowCounts | None](maxlen=before)
        self._past = deque[PastWindow](maxlen=LONGEST - 1)
        self.basis = (config.evaluation, self._source, before, config.decision_rules(part.schedule), self._asked)

    def add(self, window: Window, reading: StoredReading | None) -> None:
        """Remember a window that was judged, or that is before those."""
        counts = self._counts(window, reading)
        self._earlier.append(counts)
        if counts is not None and reading is not None and self._asked:
            labels = {label: all_promises_of(each) for label, each in counts.labels.items()}
            past = PastWindow(window, labels, counts.versions, counts.rejected, counts.segments, reading.settings)
            self._past.append(_only(past, self._asked))

    def past(self, reading: StoredReading) -> tuple[PastWindow, ...]:
        """The windows of the last year whose evidence adds up with that of a reading, newest first."""
        return of_the_same_evidence(reversed(self._past), reading.settings)

    def data(
        self,
        window: Window,
        reading: StoredReading,
        maturity: Mapping[str | None, Maturity],
        given: Sequence[Verdict],
        baselines: Baselines,
        segments: Mapping[str | None, SegmentCounts],
    ) -> SourceData:
        """The data that a run by this file would have judged.

        Labels with a verdict in ``given`` are judged also without rows. ``segments`` are those of the baselines.
        """
        references = at_present_threshold(References(baselines), self._source, self.config.evaluation)
        current = self._counts(window, reading)
        if current is not None:
            current = replace(
                current, rejected=rejected_in(reading, self.config, references.baselines), maturity=maturity
            )
        until_gap = takewhile(lambda counts: counts is not None, reversed(self._earlier))
        return SourceData(
            self._name,
            current or WindowCounts(window),
            tuple(counts for counts in until_gap if counts is not None),
            baselines=references.baselines,
            problem=Reason(reading.state) if current is None else None,
            switched=frozenset(v.subject.label for v in given if v.subject.label is not None),
            past=self.past(reading),
            baseline_segments=segments_at_present_threshold(segments, self._source),
            references=references,
            enabled=self._enabled,
        )

    def _counts(self, window: Window, reading: StoredReading | None) -> WindowCounts | None:
        if reading is None or reading.state != "ok":
            return None
        before, after = self._read_by, self._source
        labels = acting_from(labels_at_present_threshold(reading.labels, before), before, after)
        moved = {label for label in reading.segments if before.automate_from(label) != after.automate_from(label)}
        # the history keeps only promises of segments, of the rows that acted then; those of bands are computed anew
        bands = segment_promises({label: labels[label] for label in moved}, {})
        return WindowCounts(
            window,
            labels,
            reading.versions,
            rejected=reading.rejected,
            segments={**reading.segments, **bands},
            not_read=frozenset(parts_not_read(reading.quality)),
            segment_counts={
                label: {segment: acting_from({label: each}, before, after)[label] for segment, each in parts.items()}
                for label, parts in (reading.segment_counts or {}).items()
            },
        )


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


# --- baselines of the time


def versions_of(history: Store, source: str) -> dict[str | None, list[Baseline]]:
    """By label, every version of its baseline, oldest first."""
    found: dict[str | None, list[Baseline]] = {}
    for baseline in history.baselines(source):
        found.setdefault(baseline.label, []).append(baseline)
    return found


def baselines_of(
    versions: Mapping[str | None, Iterable[Baseline]], window: Window, reading: StoredReading, given: Sequence[Verdict]
) -> dict[str | None, Baseline]:
    """By label, the baseline to compare a window with: of those that were pinned of the same numbers as it was read.

    ``given`` are the verdicts of the window's run, which say which versions it used.
    """
    counts, used = next(iter(reading.labels.values()), None), dict[str | None, int]()
    for verdict in given:
        if verdict.baseline_version is not None:
            used[verdict.subject.label] = max(verdict.baseline_version, used.get(verdict.subject.label, 0))
    found = {
        label: baseline_of(comparable_versions(every, counts, reading.settings), window, used.get(label))
        for label, every in versions.items()
    }
    return {label: baseline for label, baseline in found.items() if baseline is not None}


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
