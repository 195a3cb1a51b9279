"""Judges the windows of a replay by both files, with the functions of a run, on the counts in the history.

Nothing is written, switched or sent. ``docs/replay.md`` says how it works and what cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from monitor.config.model import Config, Rule
from monitor.core.baseline import Baseline
from monitor.core.counts import SegmentCounts
from monitor.core.records import ShiftResult, Verdict, Window
from monitor.evaluation.data import SourceData, windows_needed
from monitor.evaluation.evaluate import verdicts_of
from monitor.evaluation.other_thresholds import segments_at_present_threshold
from monitor.evaluation.rejected_rows import rejected_in
from monitor.evaluation.row_comparisons import needs_whole_rows
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.history.readings import COUNTS_REMOVED
from monitor.history.store import Store
from monitor.operations.replay.inputs import (
    KnownWindow,
    as_proposed,
    baseline_of,
    data_of,
    known_windows,
    of_the_same_numbers,
    references_by,
    used_versions,
    versions_of,
)
from monitor.operations.replay.model import NEVER_READ, LeftOut, Missing, Omitted, Replay, SideName
from monitor.operations.replay.plan import Part, ReplayPlan
from monitor.operations.replay.results import side_by_side, side_of

Progress = Callable[[str], None]
_NEEDED = (
    "blocked",
    "limit",
    "newest_alone",
    "turns_off",
)  # keys of a verdict's detail that switches and incidents need
_FROM_COUNTS = frozenset(
    {
        *((test, "score") for test in ("ks", "psi", "wasserstein", "jensen_shannon")),
        *(("chi_square", mix) for mix in ("label", "actual")),
    }
)


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """One window of one source: the verdicts of both files, and what is missing."""

    window: Window
    present: tuple[Verdict, ...] = ()
    proposed: tuple[Verdict, ...] = ()
    missing: str | None = None
    unwatched: tuple[tuple[SideName, str, LeftOut], ...] = ()


def replay(history: Store, plan: ReplayPlan, progress: Progress = lambda _: None) -> Replay:
    """Judge all windows of the plan by both files; ``progress`` gets the name of each window that is done."""
    return put_together(plan, [list(judge_part(history, plan, part, progress)) for part in plan.parts])


def put_together(plan: ReplayPlan, judged: Sequence[Sequence[JudgedWindow]]) -> Replay:
    """The replay of a plan from the windows of each of its parts, in their order."""
    windows = [window for of_part in judged for window in of_part]
    present = side_of(plan.present, [(each.window, each.present) for each in windows], plan.weeks)
    proposed = side_of(plan.proposed, [(each.window, each.proposed) for each in windows], plan.weeks)
    pairs = side_by_side(present.incidents, proposed.incidents)
    parts = list(zip(plan.parts, judged, strict=True))
    return Replay(
        plan.weeks, present, proposed, tuple(pairs),
        missing=tuple(gap for part, of_part in parts for gap in _gaps(part, of_part)),
        omitted=tuple(rule for part, of_part in parts for rule in _omitted(plan, part, of_part)),
    )  # fmt: skip


def judge_part(
    history: Store, plan: ReplayPlan, part: Part, progress: Progress = lambda _: None
) -> Iterator[JudgedWindow]:
    """Judge the windows of one source, oldest first, by both files."""
    versions, alike = versions_of(history, part.source), _alike(plan, part)
    compared = any(config.counts_segments(part.schedule, compared=True) for config in (plan.present, plan.proposed))
    frozen = history.baseline_segments(part.source) if compared else {}
    for known in known_windows(history, plan, part):
        if known.reading is None:
            yield JudgedWindow(known.window, missing=NEVER_READ)
        elif known.reading.state == COUNTS_REMOVED:
            yield JudgedWindow(known.window, missing=COUNTS_REMOVED)
        else:
            yield _judge_window(history, plan, part, known, versions, frozen, alike)
        progress(f"{part.source} {known.window.name}")


def _judge_window(
    history: Store,
    plan: ReplayPlan,
    part: Part,
    known: KnownWindow,
    versions: Mapping[str | None, Sequence[Baseline]],
    frozen: Mapping[tuple[str | None, int], SegmentCounts],
    alike: frozenset[str],
) -> JudgedWindow:
    window, source = known.window, part.source
    given = history.verdicts(schedule=part.schedule, source=source, window_start=window.start)
    used = used_versions(given)
    alike_counted = {label: of_the_same_numbers(each, known.reading) for label, each in versions.items()}
    found = {label: baseline_of(each, window, used.get(label)) for label, each in alike_counted.items()}
    baselines = {label: baseline for label, baseline in found.items() if baseline is not None}
    parts = {label: frozen.get((label, baseline.version), {}) for label, baseline in baselines.items()}
    present_source = plan.present.sources.get(source)
    if present_source is not None:
        parts = segments_at_present_threshold(parts, present_source)
    references = references_by(baselines, plan.present, source)
    data = replace(data_of(part, known, references, given, present_source), baseline_segments=parts)
    shifts = _shifts(history, plan, part, data)
    present = _verdicts(plan.present, part, data, shifts, {}, has_segments=_has_segments(known))
    already = {id: tuple(v for v in present if v.rule == id) for id in alike}
    other = _as_proposed(plan, data, known)
    proposed = _verdicts(plan.proposed, part, other, shifts, already, has_segments=_has_segments(known))
    return JudgedWindow(
        window,
        present,
        proposed,
        missing=data.problem.value if data.problem else None,
        unwatched=(*_unwatched(plan, part, data, shifts), *_without_segments(plan, part, known)),
    )


def _alike(plan: ReplayPlan, part: Part) -> frozenset[str]:
    """The ids of rules that are judged alike by both files, so that they are judged once."""
    one, other, first = plan.present, plan.proposed, part.windows[0]

    def around(config: Config) -> tuple[object, ...]:
        rules = config.decision_rules(part.schedule)
        return config.evaluation, config.sources.get(part.source), windows_needed(config, first), rules

    if part.source not in one.sources or around(one) != around(other):
        return frozenset()
    return frozenset(rule.id for rule in one.rules_for(part.schedule) if rule in other.rules_for(part.schedule))


def _as_proposed(plan: ReplayPlan, data: SourceData, known: KnownWindow) -> SourceData:
    """The same counts, with automated rows and conclusions from rejected rows by the proposed file.

    Conclusions of earlier windows stay as their runs stored them.
    """
    data = replace(data, past=known.past[1])
    if data.name not in plan.present.sources or data.name not in plan.proposed.sources:
        return data
    references = references_by(data.baselines, plan.proposed, data.name)
    parts = segments_at_present_threshold(data.baseline_segments, plan.proposed.sources[data.name])
    data = replace(data, baselines=references.baselines, references=references, baseline_segments=parts)
    current, *earlier = (as_proposed(plan, data.name, each) for each in (data.current, *data.earlier))
    if known.reading is not None:
        current = replace(current, rejected=rejected_in(known.reading, plan.proposed, data.baselines))
    return replace(data, current=current, earlier=tuple(earlier))


def _verdicts(
    config: Config,
    part: Part,
    data: SourceData,
    shifts: tuple[ShiftResult, ...],
    already: Mapping[str, tuple[Verdict, ...]],
    *,
    has_segments: bool,
) -> tuple[Verdict, ...]:
    """The verdicts of one file on one window, with only the needed details."""
    found: list[Verdict] = []
    for rule in config.rules_for(part.schedule) if part.source in config.sources else ():
        if rule.id in already:
            found += already[rule.id]
        elif not needs_whole_rows(rule) and (has_segments or not rule.counts_segments):
            for verdict in verdicts_of(rule, data, config, shifts, outcomes_only=True):
                kept = {name: verdict.detail[name] for name in _NEEDED if name in verdict.detail}
                found.append(replace(verdict, detail=kept))
    return tuple(found)


def _shifts(history: Store, plan: ReplayPlan, part: Part, data: SourceData) -> tuple[ShiftResult, ...]:
    """The shift tests: of scores and labels from the counts, of feature columns as stored.

    If a rule names one test, all are returned, since they are one family.
    """
    named_tests = {test for _, rule in plan.rules(part) if (test := _tested(rule)) is not None}
    window = data.current.window
    if not named_tests:
        return ()
    stored = history.shifts(part.schedule, window.start, part.source)
    columns = [each for each in stored if (each.test, each.column) not in _FROM_COUNTS]
    return (*source_shifts(part.source, window, data.current.labels, data.baselines), *columns)


def _tested(rule: Rule) -> tuple[str, str] | None:
    return None if rule.test is None else (rule.test, rule.column or "score")


def _unwatched(
    plan: ReplayPlan, part: Part, data: SourceData, shifts: Sequence[ShiftResult]
) -> tuple[tuple[SideName, str, LeftOut], ...]:
    """Rules on a feature column without a stored test in this window, although there is a baseline."""
    whole = data.baselines.get(None)
    if data.problem or whole is None or whole.overlaps(data.current.window):
        return ()
    tests = {(each.test, each.column) for each in shifts} | _FROM_COUNTS | {None}
    reason = LeftOut.COLUMN_NOT_WATCHED
    return tuple((side, rule.id, reason) for side, rule in plan.rules(part) if _tested(rule) not in tests)


def _has_segments(known: KnownWindow) -> bool:
    """Whether rules on segments can be judged in a window: counts of segments are stored, or it was not read."""
    reading = known.reading
    return reading is None or reading.state != "ok" or reading.segment_counts is not None


def _without_segments(plan: ReplayPlan, part: Part, known: KnownWindow) -> Iterator[tuple[SideName, str, LeftOut]]:
    """Rules on segments, if the counts of segments of this window are not stored."""
    if not _has_segments(known):
        for side, rule in plan.rules(part):
            if rule.counts_segments:
                yield side, rule.id, LeftOut.SEGMENTS_NOT_KEPT


def _omitted(plan: ReplayPlan, part: Part, judged: Sequence[JudgedWindow]) -> list[Omitted]:
    """The rules that were not replayed on a source, in the order of the files, with their windows."""
    whole = [
        Omitted(side, rule.id, part.source, LeftOut.NEEDS_WHOLE_ROWS, len(part.windows))
        for side, rule in plan.rules(part)
        if needs_whole_rows(rule)
    ]
    each = [key for window in judged for key in window.unwatched]
    return whole + [
        Omitted(side, rule, part.source, why, each.count((side, rule, why))) for side, rule, why in dict.fromkeys(each)
    ]


def _gaps(part: Part, judged: Sequence[JudgedWindow]) -> Iterator[Missing]:
    """The windows without counts, consecutive ones together."""
    for reason, group in groupby(judged, key=lambda each: each.missing):
        names = [each.window.name for each in group]
        if reason is not None:
            yield Missing(part.schedule, part.source, names[0], names[-1], len(names), reason)
