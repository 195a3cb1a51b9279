"""Pins baselines: reads their weeks, refuses labels with too few rows, freezes the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from monitor.config.counting import settings_of
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.baseline import Baseline, PinRefusal, edges_of, population_edges, refusal
from monitor.core.counts import Counts, SegmentCounts, bin_counts, pool
from monitor.core.promises import Segment
from monitor.core.records import SCHEDULES, Interval, Subject, Window
from monitor.evaluation.baseline_checks import AROUND, Between, Concern, SpanSeen, WeekSeen, concerns
from monitor.evaluation.data import WindowCounts
from monitor.evaluation.estimates import ece_of, generator
from monitor.evaluation.week_spread import compared_by, spreads_of
from monitor.operations.collect import SourceWindows
from monitor.warehouse.reader import RelationError, WarehouseFailed, WarehouseTimeout


@dataclass(frozen=True, slots=True)
class PinSummary:
    """A label as it would be pinned: its rows in the span, and its ECE."""

    subject: Subject
    rows: int
    ece: Interval


@dataclass(frozen=True, slots=True)
class Pinned:
    """The result of pinning: new versions, refused labels with their counts, and sources that could not be read.

    ``unread`` maps such a source to the reason in words. ``concerns`` are changes: if any is within the weeks, nothing
    was pinned, except with ``anyway``. ``versions`` maps source -> model version -> rows.
    """

    baselines: tuple[Baseline, ...]
    refusals: tuple[PinRefusal, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    summaries: tuple[PinSummary, ...] = ()
    versions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    concerns: tuple[Concern, ...] = ()


@dataclass(frozen=True, slots=True)
class PinPlan:
    """Weeks that :func:`pin` accepts: ``anyway`` if something changed in them, ``min_pairs`` if rows are fewer."""

    first: Window
    last: Window
    anyway: bool = False
    min_pairs: int | None = None


def plan(monitor: Monitor, weeks: Sequence[Window]) -> PinPlan:
    """Those of ``weeks``, oldest first, that are one thing; all of them, ``anyway``, where no two are. Pins nothing."""

    def seen(span: Sequence[Window]) -> tuple[list[Concern], int | None]:
        found = pin(monitor, span[0], span[-1], by="", reason="", only_look=True)
        fewest = min((refused.rows for refused in found.refusals), default=None)
        return [concern for concern in found.concerns if concern.is_inside], fewest

    span, changed, fewest = list(weeks), *seen(weeks)
    while changed and len(span) > 1:
        span = _one_thing(span, changed)
        changed, fewest = seen(span) if len(span) > 1 else (changed, fewest)
    return PinPlan(weeks[0], weeks[-1], True, seen(weeks)[1]) if changed else PinPlan(span[0], span[-1], False, fewest)


def _one_thing(span: Sequence[Window], changed: Sequence[Concern]) -> list[Window]:
    """The weeks after the last change, or those before the first, whichever are more; none if no week is named."""
    places = {window.name: place for place, window in enumerate(span)}
    at = [
        (places[each.week], each.between is Between.HALVES and each.rejection is None) for each in changed if each.week
    ]
    if not at:
        return []
    after = max(place if is_start else place + 1 for place, is_start in at)
    before = min(place for place, _ in at)
    return list(span[after:] if len(span) - after >= before else span[:before])


def default_span(config: Config, now: datetime) -> tuple[Window, Window]:
    """The last ``baseline.weeks`` ready weeks."""
    last = windows.last_ready("weekly", now, config.zone)
    return windows.up_to(last, config.baseline.weeks, config.zone)[0], last


def pin(
    monitor: Monitor,
    first: Window,
    last: Window,
    *,
    by: str,
    reason: str,
    label: str | None = None,
    sources: Sequence[str] | None = None,
    min_pairs: int | None = None,
    try_again: bool = False,
    anyway: bool = False,
    only_look: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Pinned:
    """Freeze the weeks from ``first`` to ``last`` as a new version of each label's baseline.

    ``label`` limits this to one label of each source; the others keep their versions. ``min_pairs`` takes the place of
    that of alerts.yaml. If something changed within the
    weeks, nothing is pinned without ``anyway``; with ``only_look`` nothing is in any case. A source that cannot be read
    stops no other. With ``try_again``, for a caller that will try again, a warehouse that does not answer raises
    WarehouseFailed, and nothing is pinned.
    """
    spans: list[SpanSeen] = []
    rejected: list[Concern] = []
    versions: dict[str, Mapping[str, int]] = {}
    unread: dict[str, str] = {}
    weeks: dict[str, Sequence[WindowCounts]] = {}
    for name in sources or monitor.config.sources:
        progress(f"reading {name}")
        try:
            with monitor.warehouse.kept_open():
                weeks[name], of_source = _read(monitor, name, first, last, label)
        except (RelationError, WarehouseFailed) as error:
            if try_again and isinstance(error, WarehouseFailed) and not isinstance(error, WarehouseTimeout):
                raise
            unread[name] = _reason_of(error)
            continue
        spans += of_source
        rejected += _rejected(name, weeks[name], label) if of_source else ()
        versions[name] = dict(sorted(sum((Counter(week.versions) for week in weeks[name]), Counter()).items()))
    progress("comparing the weeks")
    least = min_pairs or monitor.config.baseline.min_pairs
    checked = [(span, refusal(span.subject.source, span.subject.label, _pooled(span), least)) for span in spans]
    usable = [span for span, refused in checked if refused is None]
    against = [*rejected, *concerns(usable, monitor.config)]
    refuses = only_look or (not anyway and any(concern.is_inside for concern in against))
    kept = [] if refuses else usable
    at, troubled = monitor.clock(), {concern.subject for concern in against if concern.is_inside}
    baselines = [
        _freeze(
            monitor, each, weeks[each.subject.source], first, last, by, reason, at, is_one=each.subject not in troubled
        )
        for each in kept
    ]
    monitor.store.save_baselines(baselines)
    summaries = _summaries(monitor.config, usable, first, last)
    refusals = tuple(refused for _, refused in checked if refused is not None)
    return Pinned(tuple(baselines), refusals, unread, summaries, versions, tuple(against))


def _reason_of(error: RelationError | WarehouseFailed) -> str:
    """The text of the error without the source's name, which is the key."""
    if isinstance(error, RelationError):
        return "; ".join(f"{problem.message}: {problem.remedy}" for problem in error.problems)
    return str(error)


def _read(
    monitor: Monitor, source: str, first: Window, last: Window, label: str | None
) -> tuple[list[WindowCounts], list[SpanSeen]]:
    """The weeks of the span, oldest first, and each label in them, the source as a whole last; of one label only if
    ``label`` is given. The weeks around them may come from the history.
    """
    zone, of_source = monitor.config.zone, SourceWindows(monitor, source, store=True)
    inside: list[WindowCounts] = []
    by_version: dict[str | None, dict[str, list[Counts]]] = {}
    for window in windows.span(first, last, zone):
        reading, counts = of_source.read(window, of_source.from_warehouse(window, whole=False))
        inside.append(counts)
        for (column, version), labels in reading.segments.items():
            for each, part in labels.items() if column == "model_version" else ():
                by_version.setdefault(each, {}).setdefault(version, []).append(part)
    around = [reversed(windows.before(first, AROUND, zone)), _following(monitor, last)]
    if of_source.source.kind == "regression":
        around = [(), ()]
    every = [inside, *([of_source.stored_or_read(window) for window in span] for span in around)]
    found = []
    for name in sorted({name for week in inside for name in week.labels}, key=lambda each: (each is None, each or "")):
        if label in (None, name):
            parts = [
                [WeekSeen(week.window, week.labels[name], week.versions) for week in weeks if name in week.labels]
                for weeks in every
            ]
            of_rows = by_version.get(name) or _by_main_version(inside, name)
            versions = {version: pool(counts) for version, counts in of_rows.items()}
            found.append(SpanSeen(Subject(source, name), parts[0], parts[1], parts[2], versions))
    return inside, found


def _following(monitor: Monitor, last: Window) -> list[Window]:
    """The ready weeks after ``last``, at most as many as are compared."""
    zone = monitor.config.zone
    after, newest = windows.following(last, zone), windows.last_ready("weekly", monitor.clock(), zone)
    return windows.span(after, newest, zone)[:AROUND] if after.start <= newest.start else []


def _by_main_version(weeks: Sequence[WindowCounts], label: str | None) -> dict[str, list[Counts]]:
    """The counts of weeks by their most frequent model version, for sources whose version is not a segment."""
    parts: dict[str, list[Counts]] = {}
    for part in weeks:
        if part.main_version is not None and label in part.labels:
            parts.setdefault(part.main_version, []).append(part.labels[label])
    return parts


def _rejected(source: str, weeks: Sequence[WindowCounts], label: str | None) -> Iterator[Concern]:
    """A concern for each week of the span in which too many rows were rejected."""
    for part in weeks:
        rejection = part.rejected.gravest if label is None else part.rejected.of(label)
        if rejection is not None:
            about = Subject(source, label)
            yield Concern(about, "rejected", Between.HALVES, part.window.name, rejection=rejection)


def _pooled(span: SpanSeen) -> Counts:
    return pool(week.counts for week in span.inside)


def _summaries(config: Config, spans: Sequence[SpanSeen], first: Window, last: Window) -> tuple[PinSummary, ...]:
    """Rows and ECE of each label over all weeks, in the bins that would be frozen."""
    evaluation, weeks = config.evaluation, f"{first.name}..{last.name}"
    counts = [_pooled(span) for span in spans]
    tables = [bin_counts(each, population_edges(each, evaluation)) for each in counts]
    rngs = [generator(evaluation.seed, span.subject, "ece all", weeks) for span in spans]
    eces = ece_of(tables, rngs, evaluation) if tables else []
    return tuple(PinSummary(span.subject, n.rows, ece) for span, n, ece in zip(spans, counts, eces, strict=True))


def _freeze(
    monitor: Monitor,
    span: SpanSeen,
    weeks: Sequence[WindowCounts],
    first: Window,
    last: Window,
    by: str,
    reason: str,
    at: datetime,
    *,
    is_one: bool,
) -> Baseline:
    """The baseline; how its weeks differ is only known where nothing changed within them (``is_one``)."""
    config, source, label, counts = monitor.config, span.subject.source, span.subject.label, _pooled(span)
    edges, parts = edges_of(counts, config.evaluation), [week.counts for week in span.inside]
    latest = monitor.store.latest_baselines(source).get(label)
    return Baseline(
        source=source, label=label, version=1 if latest is None else latest.version + 1,
        start=first.start, end=last.end, first_window=first.name, last_window=last.name,
        counts=counts, edges=edges, pinned_at=at, pinned_by=by, reason=reason,
        segments=_segments(config, weeks, label), settings=settings_of(config.sources[source]),
        weeks=spreads_of(parts, edges, compared_by(config)) if is_one else {},
    )  # fmt: skip


def _segments(config: Config, weeks: Sequence[WindowCounts], label: str | None) -> SegmentCounts | None:
    """The counts of each segment of a label over all weeks; None if no rule compares segments."""
    if not any(config.counts_segments(schedule, compared=True) for schedule in SCHEDULES):
        return None
    parts: dict[Segment, list[Counts]] = {}
    for week in weeks:
        for segment, counts in week.segment_counts.get(label, {}).items():
            parts.setdefault(segment, []).append(counts)
    return {segment: pool(counts) for segment, counts in parts.items()}
