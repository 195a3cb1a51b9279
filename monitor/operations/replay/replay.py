"""Judges the windows of a replay by both files, with the functions of a run, on the counts in the history.

Nothing is written, switched or sent. ``docs/replay.md`` says how it works and what cannot be replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from monitor.config.model import Config, Rule
from monitor.core.baseline import Baseline
from monitor.core.counts import SegmentCounts
from monitor.core.records import ShiftResult, Verdict, Window
from monitor.core.verdict_detail import kept_of
from monitor.evaluation.data import SourceData
from monitor.evaluation.evaluate import verdicts_of
from monitor.evaluation.row_comparisons import needs_whole_rows
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.history.readings import COUNTS_REMOVED, StoredReading
from monitor.history.store import Store
from monitor.operations.replay.inputs import SourceByFile, baselines_of, files_of, readings, versions_of
from monitor.operations.replay.model import NEVER_READ, LeftOut, Missing, Omitted, Replay, SideName
from monitor.operations.replay.plan import Part, ReplayPlan
from monitor.operations.replay.results import side_of

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
    """One window of one source: the verdicts of each file, the rules that were left out, and what is missing."""

    window: Window
    verdicts: Mapping[SideName, Sequence[Verdict]] = field(default_factory=dict)
    left_out: Sequence[tuple[SideName, str, LeftOut]] = ()
    missing: str | None = None


def replay(history: Store, plan: ReplayPlan, progress: Progress = lambda _: None) -> Replay:
    """Judge all windows of the plan by both files; ``progress`` gets the name of each window that is done."""
    return put_together(plan, [list(judge_part(history, plan, part, progress)) for part in plan.parts])


def put_together(plan: ReplayPlan, judged: Sequence[Sequence[JudgedWindow]]) -> Replay:
    """The replay of a plan from the windows of each of its parts, in their order."""
    windows = [window for of_part in judged for window in of_part]
    sides = {
        name: side_of(config, [(each.window, each.verdicts.get(name, ())) for each in windows], plan.weeks)
        for name, config in plan.files.items()
    }
    parts = list(zip(plan.parts, judged, strict=True))
    return Replay(
        plan.weeks, sides["present"], sides["proposed"],
        missing=tuple(gap for part, of_part in parts for gap in _gaps(part, of_part)),
        omitted=tuple(rule for part, of_part in parts for rule in _omitted(part, of_part)),
    )  # fmt: skip


def judge_part(
    history: Store, plan: ReplayPlan, part: Part, progress: Progress = lambda _: None
) -> Iterator[JudgedWindow]:
    """Judge the windows of one source, oldest first, by both files."""
    versions, files = versions_of(history, part.source), files_of(history, plan, part)
    compared = any(config.counts_segments(part.schedule, compared=True) for config in plan.files.values())
    frozen = history.baseline_segments(part.source) if compared else {}
    for window, reading in readings(history, plan, part):
        if window.start >= part.windows[0].start:
            if reading is None or reading.state == COUNTS_REMOVED:
                yield JudgedWindow(window, missing=NEVER_READ if reading is None else COUNTS_REMOVED)
            else:
                yield _judge_window(history, plan, part, files, window, reading, versions, frozen)
            progress(f"{part.source} {window.name}")
        for file in set(files.values()):
            file.add(window, reading)


def _judge_window(
    history: Store,
    plan: ReplayPlan,
    part: Part,
    files: Mapping[SideName, SourceByFile],
    window: Window,
    reading: StoredReading,
    versions: Mapping[str | None, Sequence[Baseline]],
    frozen: Mapping[tuple[str | None, int], SegmentCounts],
) -> JudgedWindow:
    given = history.verdicts(schedule=part.schedule, source=part.source, window_start=window.start)
    baselines = baselines_of(versions, window, reading, given)
    parts = {label: frozen.get((label, baseline.version), {}) for label, baseline in baselines.items()}
    waits = any(rule.mature is not None for _, rule in plan.rules(part))
    truths = history.maturities(part.schedule, part.source, since=window.start, until=window.start) if waits else {}
    maturity = {label: found for (_, label), found in truths.items()}
    data = {file: file.data(window, reading, maturity, given, baselines, parts) for file in files.values()}
    first = next(iter(data.values()))
    shifts = _shifts(history, plan, part, first)
    has_segments = reading.state != "ok" or reading.segment_counts is not None
    said: dict[SideName, list[Verdict]] = {"present": [], "proposed": []}
    left_out: list[tuple[SideName, str, LeftOut]] = []
    judged: dict[tuple[SourceByFile, Rule], list[Verdict]] = {}
    for side, rule in plan.rules(part):
        why = _left_out(rule, first, shifts, has_segments=has_segments)
        left_out += [] if why is None else [(side, rule.id, why)]
        if why in (LeftOut.NEEDS_WHOLE_ROWS, LeftOut.SEGMENTS_NOT_KEPT):
            continue
        file = files[side]
        if (file, rule) not in judged:
            judged[file, rule] = _verdicts(rule, data[file], file.config, shifts)
        said[side] += judged[file, rule]
    return JudgedWindow(window, said, left_out, first.problem.value if first.problem else None)


def _verdicts(rule: Rule, data: SourceData, config: Config, shifts: tuple[ShiftResult, ...]) -> list[Verdict]:
    """The verdicts of a rule on one window, with only the needed details."""
    return [
        replace(verdict, detail=kept_of(verdict.detail, _NEEDED))
        for verdict in verdicts_of(rule, data, config, shifts, outcomes_only=True)
    ]


def _shifts(history: Store, plan: ReplayPlan, part: Part, data: SourceData) -> tuple[ShiftResult, ...]:
    """The shift tests: of scores and labels from the counts, of feature columns as stored.

    If a rule names one test, all are returned, since they are one family.
    """
    window = data.current.window
    if all(rule.test is None for _, rule in plan.rules(part)):
        return ()
    stored = history.shifts(part.schedule, window.start, part.source)
    columns = [each for each in stored if (each.test, each.column) not in _FROM_COUNTS]
    return (*source_shifts(part.source, window, data.current.labels, data.baselines), *columns)


def _left_out(rule: Rule, data: SourceData, shifts: Sequence[ShiftResult], *, has_segments: bool) -> LeftOut | None:
    """Why a rule cannot be judged in a window as a run would have; None if it can.

    A test of a feature column is stored where there was a baseline; a rule on another column has its verdict all the
    same, which says that there is no test.
    """
    if needs_whole_rows(rule):
        return LeftOut.NEEDS_WHOLE_ROWS
    if rule.counts_segments and not has_segments:
        return LeftOut.SEGMENTS_NOT_KEPT
    whole = data.baselines.get(None)
    if rule.test is None or data.problem or whole is None or whole.overlaps(data.current.window):
        return None
    tests = {(each.test, each.column) for each in shifts} | _FROM_COUNTS
    return None if (rule.test, rule.column or "score") in tests else LeftOut.COLUMN_NOT_WATCHED


def _omitted(part: Part, judged: Sequence[JudgedWindow]) -> list[Omitted]:
    """The rules that were not replayed on a source, in the order of the files, with their windows."""
    each = Counter(key for window in judged for key in window.left_out)
    return [Omitted(side, rule, part.source, why, windows) for (side, rule, why), windows in each.items()]


def _gaps(part: Part, judged: Sequence[JudgedWindow]) -> Iterator[Missing]:
    """The windows without counts, consecutive ones together."""
    for reason, group in groupby(judged, key=lambda each: each.missing):
        names = [each.window.name for each in group]
        if reason is not None:
            yield Missing(part.schedule, part.source, names[0], names[-1], len(names), reason)
