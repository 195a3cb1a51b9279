"""Replay: which incidents a rules file would have opened, beside the present one, over what is in the history.

The same functions judge as in a run, on the counts that runs and backfills have kept. Nothing is written, switched
or sent: a history is asked only for what :class:`History` names. How it is done, and what cannot be
replayed, is in ``docs/replay.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby, takewhile
from typing import Literal, Protocol

from monitor.alerting.incidents import steps_of
from monitor.config.model import Config, Rule, SourceConfig
from monitor.core import windows
from monitor.core.baseline import Baseline
from monitor.core.counts import CELLS, Counts, pool
from monitor.core.records import Incident, Reason, Schedule, Severity, ShiftResult, Subject, Verdict, Window
from monitor.evaluation.evaluate import ByLabel, SourceData, WindowCounts, verdicts_of, windows_needed
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.history.readings import StoredReading, rejected_in
from monitor.inference.memory import kept_with
from monitor.metrics.registry import METRICS, WHOLE

SideName = Literal["present", "proposed"]
Switched = Literal["off", "blocked", ""]
Seen = Literal["ok", "unconfirmed", "info", "warning", "critical"]

SCHEDULES: tuple[Schedule, ...] = ("weekly", "daily")
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
NEVER_READ = "never_read"
_NEEDED = ("blocked", "newest_alone")  # of a verdict's detail, for switches and incidents
_FROM_COUNTS = frozenset({("ks", "score"), ("psi", "score"), ("chi_square", "label")})
_READ_BY = ("relation", "columns", "score_is", "window_on", "kind", "score")  # other counts would come of another one


class ReplayRefused(ValueError):
    """The two files cannot be held against one history; the message says why and what to do."""


class LeftOut(StrEnum):
    """Why a rule is not replayed. Both are in ``docs/replay.md``."""

    NEEDS_WHOLE_ROWS = "needs_whole_rows"
    COLUMN_NOT_WATCHED = "column_not_watched"


class DifferenceCause(StrEnum):
    """Why a verdict comes out otherwise than it was given. All are in ``docs/replay.md``."""

    OTHER_BASELINE = "other_baseline"
    OTHER_COUNTS = "other_counts"
    NOT_JUDGED = "not_judged"
    UNKNOWN = "unknown"


class History(Protocol):
    """All that a replay asks of a history: nothing that writes, and nothing about switches."""

    def load_reading(self, schedule: Schedule, window_start: datetime, source: str) -> StoredReading | None:
        """What was read of one source in one window, or None."""

    def baselines(self, source: str | None = None) -> list[Baseline]:
        """Every version, by source, label and version."""

    def shifts(self, schedule: Schedule | None, window_start: datetime | None, source: str | None) -> list[ShiftResult]:
        """The stored shift tests of one window."""

    def verdicts(
        self, *, schedule: Schedule | None = None, source: str | None = None, window_start: datetime | None = None
    ) -> list[Verdict]:
        """The stored verdicts of one window."""


@dataclass(frozen=True, slots=True)
class Part:
    """One source on one schedule, and the windows to judge, oldest first."""

    schedule: Schedule
    source: str
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReplayPlan:
    """What is replayed: both files, the weeks, and the work in parts."""

    present: Config
    proposed: Config
    weeks: tuple[Window, ...]
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """How many steps of progress there are: the windows of every part."""
        return sum(len(part.windows) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Missing:
    """Windows in a row of which no counts are stored.

    ``reason`` is "never_read", or the relation_error or warehouse_failed that reading them ended with.
    """

    schedule: Schedule
    source: str
    first: str
    last: str
    windows: int
    reason: str


@dataclass(frozen=True, slots=True)
class Omitted:
    """A rule of one file that is not replayed on a source, in so many windows, and why."""

    side: SideName
    rule: str
    source: str
    reason: LeftOut
    windows: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict of the present file that comes out otherwise than it was given."""

    rule: str
    subject: Subject
    window: str
    given: str
    replayed: str
    cause: DifferenceCause


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many verdicts that the present file gave in runs were replayed, and those that came out otherwise."""

    compared: int = 0
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """One incident of one file: from the start of the window that opened it to that of the one that resolved it.

    ``end`` is None where it was still open at the end. ``switch`` says what its breaches would have done to automation.
    """

    incident: Incident
    start: datetime
    end: datetime | None
    switch: Switched

    def overlaps(self, other: Opened) -> bool:
        """Whether both are about the same rule and subject, and at the same time."""
        before = other.end is None or self.start < other.end
        after = self.end is None or other.start < self.end
        return self.incident.fingerprint == other.incident.fingerprint and before and after


@dataclass(frozen=True, slots=True)
class Pair:
    """An incident of either file, or what is the same trouble in both."""

    present: Opened | None
    proposed: Opened | None

    @property
    def either(self) -> Opened:
        """That of the proposed file, else that of the present one."""
        found = self.present if self.proposed is None else self.proposed
        if found is None:
            raise ValueError("a pair needs an incident of at least one file")
        return found


Timeline = tuple[Seen | None, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """What one file would have said; ``timelines`` holds the worst of each week by subject, None: not evaluated."""

    revision: str
    incidents: tuple[Opened, ...]
    timelines: Mapping[Subject, Timeline]

    @property
    def weeks(self) -> int:
        """How many weeks there are of all subjects together."""
        return sum(len(row) for row in self.timelines.values())

    @property
    def weeks_not_evaluated(self) -> int:
        """How many of them have no verdict but "not evaluated", and so say nothing."""
        return sum(row.count(None) for row in self.timelines.values())

    def switched(self, how: Switched) -> list[Subject]:
        """The subjects of which automation would have been turned off, or blocked, at least once."""
        found = {Subject(o.incident.source, o.incident.label) for o in self.incidents if o.switch == how}
        return sorted(found, key=_by_name)


@dataclass(frozen=True, slots=True)
class Replay:
    """Both files side by side; what is only in one of them comes first."""

    weeks: tuple[Window, ...]
    present: Side
    proposed: Side
    pairs: tuple[Pair, ...]
    missing: tuple[Missing, ...]
    omitted: tuple[Omitted, ...]
    agreement: Agreement

    @property
    def subjects(self) -> list[Subject]:
        """Every subject that either file has judged, by name, each source as a whole last."""
        return sorted({*self.present.timelines, *self.proposed.timelines}, key=_by_name)


def _by_name(subject: Subject) -> tuple[str, bool, str]:
    return subject.source, subject.label is None, subject.label or ""


# --- what is to be done


def plan_of(
    present: Config, proposed: Config, last: Window, weeks: int, *, sources: Sequence[str] | None = None
) -> ReplayPlan:
    """The work: ``weeks`` weeks that end with ``last``, and their days, as far as a file has rules for them.

    Raises :class:`ReplayRefused` where the stored counts are not what the proposed file would read.
    """
    if present.timezone != proposed.timezone:
        raise ReplayRefused(
            f"the files have different time zones ({present.timezone} and {proposed.timezone}), so their weeks are not "
            "the same: give both the same timezone"
        )
    names = [name for name in {**present.sources, **proposed.sources} if sources is None or name in sources]
    for name in names:
        _refuse_other_reading(name, present.sources.get(name), proposed.sources.get(name))
    span = (*reversed(windows.before(last, weeks - 1, present.zone)), last)
    days = _days(span, present)
    parts = tuple(
        Part(schedule, name, span if schedule == "weekly" else days)
        for schedule in SCHEDULES
        for name in names
        if any(name in config.sources and config.rules_for(schedule) for config in (present, proposed))
    )
    return ReplayPlan(present, proposed, span, parts)


def _days(weeks: Sequence[Window], config: Config) -> tuple[Window, ...]:
    first = windows.containing("daily", weeks[0].start, config.zone)
    last = windows.previous(windows.containing("daily", weeks[-1].end, config.zone), config.zone)
    return tuple(windows.span(first, last, config.zone))


def _refuse_other_reading(name: str, present: SourceConfig | None, proposed: SourceConfig | None) -> None:
    if present is None or proposed is None:
        return
    other = [key for key in _READ_BY if getattr(present, key) != getattr(proposed, key)]
    if other:
        raise ReplayRefused(
            f"source {name}: {', '.join(other)} differs, and what the history holds was read by the present file: "
            "replay with the present one, or backfill with the new file into a history of its own"
        )


# --- what is known of one window


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What the history holds of one window: the reading, and the windows before it up to the first gap."""

    window: Window
    reading: StoredReading | None
    earlier: tuple[WindowCounts, ...]


def _known(history: History, plan: ReplayPlan, part: Part) -> Iterator[_Known]:
    """The windows of a part, oldest first, each reading loaded once."""
    first, zone = part.windows[0], plan.present.zone
    deepest = max(windows_needed(config, first) for config in (plan.present, plan.proposed)) - 1
    kept: deque[WindowCounts | None] = deque(maxlen=deepest)
    for window in reversed(windows.before(first, deepest, zone)):
        kept.append(_counts(window, history.load_reading(part.schedule, window.start, part.source)))
    for window in part.windows:
        reading = history.load_reading(part.schedule, window.start, part.source)
        unbroken = takewhile(lambda counts: counts is not None, reversed(kept))
        yield _Known(window, reading, tuple(counts for counts in unbroken if counts is not None))
        kept.append(_counts(window, reading))


def _counts(window: Window, reading: StoredReading | None) -> WindowCounts | None:
    if reading is None or reading.state != "ok":
        return None
    return WindowCounts(window, reading.labels, reading.versions, rejected=reading.rejected)


def baseline_of(versions: Sequence[Baseline], window: Window, used: int | None) -> Baseline | None:
    """The version of one label's baseline that a window is held against; ``versions`` are oldest first.

    The one that its stored verdicts name (``used``), else the newest that ends before the window. A window before the
    first baseline's end has none; one that lies in it has that one, and is not judged.
    """
    named = [version for version in versions if version.version == used]
    ended = [version for version in versions if version.end <= window.start]
    first = [version for version in versions[:1] if version.overlaps(window)]
    found = (named or ended or first)[-1:]
    return found[0] if found else None


def _versions(history: History, source: str) -> dict[str | None, list[Baseline]]:
    found: dict[str | None, list[Baseline]] = {}
    for baseline in history.baselines(source):
        found.setdefault(baseline.label, []).append(baseline)
    return found


def _used(given: Iterable[Verdict]) -> dict[str | None, int]:
    """Label -> the version of its baseline that the stored verdicts of a window name."""
    found: dict[str | None, int] = {}
    for verdict in given:
        if verdict.baseline_version is not None:
            label = verdict.subject.label
            found[label] = max(verdict.baseline_version, found.get(label, 0))
    return found


def _data(part: Part, known: _Known, baselines: Mapping[str | None, Baseline], given: Sequence[Verdict]) -> SourceData:
    """What a run would have judged; labels that were judged then stay, also where no row of them is left."""
    judged = frozenset(v.subject.label for v in given if v.subject.label is not None)
    current = _counts(known.window, known.reading)
    problem = None if known.reading is None or current is not None else Reason(known.reading.state)
    return SourceData(
        part.source, current or WindowCounts(known.window), known.earlier, baselines=baselines, problem=problem,
        switched=judged,
    )  # fmt: skip


def acting_from(labels: ByLabel, before: SourceConfig, after: SourceConfig) -> ByLabel:
    """The counts with the `automate_at` of ``after``; labels of which it is the same as ``before`` stay untouched.

    By cells of a ten-thousandth: a row that is not as far as that from a threshold may fall on the other side. What
    was measured of clusters among automated rows stays.
    """
    wanted = {label: after.automate_from(label) for label in labels if label is not None}
    moved = {label: score for label, score in wanted.items() if score != before.automate_from(label)}
    if not moved:
        return labels
    found = {label: _acting(counts, moved[label]) if label in moved else counts for label, counts in labels.items()}
    if None in labels:
        parts = [counts for label, counts in found.items() if label is not None]
        key = ("automate_at", *sorted(moved.items(), key=str))
        found[None] = kept_with(labels[None], key, lambda: _whole(parts, labels[None].design_effect))
    return found


def _acting(counts: Counts, automate_at: float) -> Counts:
    acts = counts.predicted & (counts.cell >= round(automate_at * CELLS))

    def made() -> Counts:
        parts = [replace(counts.take(mask), automated=acts[mask]) for mask in (acts, ~acts)]
        return replace(pool(parts), design_effect=counts.design_effect, acting_effects=counts.acting_effects)

    return kept_with(counts, ("automate_at", automate_at), made)


def _whole(parts: Sequence[Counts], design_effect: float) -> Counts:
    return replace(pool(parts), design_effect=design_effect)


# --- judging


@dataclass(frozen=True, slots=True)
class _Judged:
    """One window of one source: the verdicts of both files, and what stands beside them."""

    window: Window
    present: tuple[Verdict, ...] = ()
    proposed: tuple[Verdict, ...] = ()
    missing: str | None = None
    unwatched: tuple[tuple[SideName, str], ...] = ()
    agreement: Agreement = field(default_factory=Agreement)


def replay(history: History, plan: ReplayPlan, progress: Callable[[str], None] = lambda _: None) -> Replay:
    """Both files over all windows of the plan; ``progress`` is told the name of each window that is done."""
    judged: list[_Judged] = []
    missing: list[Missing] = []
    omitted: list[Omitted] = []
    for part in plan.parts:
        own = list(_judge(history, plan, part, progress))
        judged += own
        missing += _gaps(part, own)
        omitted += _omitted(plan, part, own)
    present, proposed = (_side(plan, name, judged) for name in ("present", "proposed"))
    return Replay(
        plan.weeks, present, proposed, tuple(side_by_side(present.incidents, proposed.incidents)), tuple(missing),
        tuple(omitted), _together(each.agreement for each in judged),
    )  # fmt: skip


def _judge(history: History, plan: ReplayPlan, part: Part, progress: Callable[[str], None]) -> Iterator[_Judged]:
    versions, alike = _versions(history, part.source), _alike(plan, part)
    for known in _known(history, plan, part):
        if known.reading is None:
            yield _Judged(known.window, missing=NEVER_READ)
        else:
            yield _judge_window(history, plan, part, known, versions, alike)
        progress(f"{part.source} {known.window.name}")


def _judge_window(
    history: History, plan: ReplayPlan, part: Part, known: _Known, versions: Mapping[str | None, Sequence[Baseline]],
    alike: frozenset[str],
) -> _Judged:  # fmt: skip
    window, source = known.window, part.source
    given = history.verdicts(schedule=part.schedule, source=source, window_start=window.start)
    used = _used(given)
    found = {label: baseline_of(each, window, used.get(label)) for label, each in versions.items()}
    baselines = {label: baseline for label, baseline in found.items() if baseline is not None}
    data = _data(part, known, baselines, given)
    shifts = _shifts(history, plan, part, data)
    present = _verdicts(plan.present, part, data, shifts, {})
    known_already = {id: tuple(v for v in present if v.rule == id) for id in alike}
    proposed = _verdicts(plan.proposed, part, _as_proposed(plan, data, known), shifts, known_already)
    return _Judged(
        window, present, proposed, missing=data.problem.value if data.problem else None,
        unwatched=_unwatched(plan, part, data, shifts), agreement=agreement_of(plan.present, given, present),
    )  # fmt: skip


def _alike(plan: ReplayPlan, part: Part) -> frozenset[str]:
    """The rules that say the same in both files, whatever else these say: they are judged once."""
    one, other, first = plan.present, plan.proposed, part.windows[0]

    def around(config: Config) -> tuple[object, ...]:
        rules = sum(rule.metric is not None for rule in config.rules_for(part.schedule))
        return config.evaluation, config.sources.get(part.source), windows_needed(config, first), rules

    same = part.source in one.sources and around(one) == around(other)
    return frozenset(
        rule.id for rule in one.rules_for(part.schedule) if same and rule in other.rules_for(part.schedule)
    )


def _as_proposed(plan: ReplayPlan, data: SourceData, known: _Known) -> SourceData:
    """The same counts, with the rows that would act alone, and those rejected too often, by the proposed file.

    What was rejected in the windows before stays as it was found then.
    """
    present, proposed = plan.present.sources.get(data.name), plan.proposed.sources.get(data.name)
    if present is None or proposed is None:
        return data
    every = (data.current, *data.earlier)
    current, *earlier = (replace(each, labels=acting_from(each.labels, present, proposed)) for each in every)
    if known.reading is not None:
        current = replace(current, rejected=rejected_in(known.reading, plan.proposed, data.baselines))
    return replace(data, current=current, earlier=tuple(earlier))


def _verdicts(
    config: Config, part: Part, data: SourceData, shifts: tuple[ShiftResult, ...],
    already: Mapping[str, tuple[Verdict, ...]],
) -> tuple[Verdict, ...]:  # fmt: skip
    """The verdicts of one file on one window, without the details that nothing here looks at."""
    if part.source not in config.sources:
        return ()
    return tuple(
        verdict
        for rule in config.rules_for(part.schedule)
        if is_replayable(rule)
        for verdict in (
            already[rule.id] if rule.id in already
            else map(_light, verdicts_of(rule, data, config, shifts, outcomes_only=True))
        )
    )  # fmt: skip


def is_replayable(rule: Rule) -> bool:
    """Whether counts suffice: ranks and whole rows are not kept."""
    return rule.metric is None or METRICS[rule.metric].needs not in WHOLE


def _light(verdict: Verdict) -> Verdict:
    return replace(verdict, detail={name: verdict.detail[name] for name in _NEEDED if name in verdict.detail})


def _shifts(history: History, plan: ReplayPlan, part: Part, data: SourceData) -> tuple[ShiftResult, ...]:
    """Shift tests: of scores and labels from the counts, of feature columns as they are stored."""
    asked = {_tested(rule) for config in (plan.present, plan.proposed) for rule in config.rules_for(part.schedule)}
    window = data.current.window
    found: list[ShiftResult] = []
    if asked & _FROM_COUNTS:
        found += source_shifts(part.source, window, data.current.labels, data.baselines)
    if asked - _FROM_COUNTS - {("", "")}:
        stored = history.shifts(part.schedule, window.start, part.source)
        found += [each for each in stored if (each.test, each.column) not in _FROM_COUNTS]
    return tuple(found)


def _tested(rule: Rule) -> tuple[str, str]:
    return ("", "") if rule.test is None else (rule.test, rule.column or "score")


def _unwatched(
    plan: ReplayPlan, part: Part, data: SourceData, shifts: Sequence[ShiftResult]
) -> tuple[tuple[SideName, str], ...]:
    """Rules on a feature column of which no test is stored for this window, although there is a baseline for one."""
    whole = data.baselines.get(None)
    if data.problem or whole is None or whole.overlaps(data.current.window):
        return ()
    there = {(each.test, each.column) for each in shifts} | _FROM_COUNTS
    return tuple(
        (side, rule.id)
        for side, config in _sides(plan)
        for rule in config.rules_for(part.schedule)
        if part.source in config.sources
        and rule.match.source in (None, part.source)
        and rule.test is not None
        and _tested(rule) not in there
    )


def _sides(plan: ReplayPlan) -> tuple[tuple[SideName, Config], tuple[SideName, Config]]:
    return ("present", plan.present), ("proposed", plan.proposed)


def _omitted(plan: ReplayPlan, part: Part, judged: Sequence[_Judged]) -> list[Omitted]:
    """The rules that were not replayed on a source, in the order of the files."""
    found = [
        Omitted(side, rule.id, part.source, LeftOut.NEEDS_WHOLE_ROWS, len(part.windows))
        for side, config in _sides(plan)
        for rule in config.rules_for(part.schedule)
        if part.source in config.sources and rule.match.source in (None, part.source) and not is_replayable(rule)
    ]
    each = [key for window in judged for key in window.unwatched]
    return found + [
        Omitted(side, rule, part.source, LeftOut.COLUMN_NOT_WATCHED, each.count((side, rule)))
        for side, rule in dict.fromkeys(each)
    ]


def _gaps(part: Part, judged: Sequence[_Judged]) -> Iterator[Missing]:
    """The windows without counts, those in a row together."""
    for reason, group in groupby(judged, key=lambda each: each.missing):
        names = [each.window.name for each in group]
        if reason is not None:
            yield Missing(part.schedule, part.source, names[0], names[-1], len(names), reason)


# --- what was said then


def agreement_of(config: Config, given: Iterable[Verdict], replayed: Iterable[Verdict]) -> Agreement:
    """Whether the verdicts that this very file gave come out again; those of other revisions are not compared."""
    rules = {rule.id for rule in config.rules if is_replayable(rule)}
    mine = [verdict for verdict in given if verdict.rules_revision == config.revision and verdict.rule in rules]
    again = {(verdict.rule, verdict.subject): verdict for verdict in replayed}
    pairs = [(then, again.get((then.rule, then.subject))) for then in mine]
    other = tuple(_difference(then, now) for then, now in pairs if now is None or now.outcome != then.outcome)
    return Agreement(len(mine), other)


def _difference(then: Verdict, now: Verdict | None) -> Difference:
    if now is None:
        return Difference(then.rule, then.subject, then.window.name, then.outcome, "", DifferenceCause.NOT_JUDGED)
    cause = DifferenceCause.UNKNOWN
    if now.baseline_version != then.baseline_version:
        cause = DifferenceCause.OTHER_BASELINE
    elif now.data_digest != then.data_digest or now.reason in (Reason.RELATION_ERROR, Reason.WAREHOUSE_FAILED):
        cause = DifferenceCause.OTHER_COUNTS
    return Difference(then.rule, then.subject, then.window.name, then.outcome, now.outcome, cause)


def _together(agreements: Iterable[Agreement]) -> Agreement:
    every = list(agreements)
    return Agreement(sum(each.compared for each in every), tuple(d for each in every for d in each.differences))


# --- what would have come of it


def _side(plan: ReplayPlan, name: str, judged: Sequence[_Judged]) -> Side:
    config = plan.present if name == "present" else plan.proposed
    said = [(each.window, each.present if name == "present" else each.proposed) for each in judged]
    return Side(config.revision, tuple(incidents_of(said)), timelines_of(said, plan.weeks))


def incidents_of(judged: Iterable[tuple[Window, Sequence[Verdict]]]) -> list[Opened]:
    """The incidents that these verdicts open; each rule's windows oldest first, nobody touching any of them.

    None was open before the first window. Every window is taken as run when it was ready.
    """
    newest: dict[str, Incident] = {}
    found: dict[str, Opened] = {}
    for window, verdicts in judged:
        for step in steps_of(verdicts, newest, window.end + windows.SETTLE):
            incident = step.decision.incident
            if incident is None or not step.decision.changes or step.verdict is None:
                continue
            newest[incident.fingerprint] = incident
            before = found.get(incident.id, Opened(incident, window.start, None, ""))
            found[incident.id] = Opened(
                incident, before.start, window.start if incident.state == "resolved" else None,
                _stronger(before.switch, switched_by(step.verdict)),
            )  # fmt: skip
    return sorted(found.values(), key=lambda each: (each.start, each.incident.fingerprint))


def switched_by(verdict: Verdict) -> Switched:
    """What a verdict does to automation that is on: blocking turns off where no score range could be named."""
    if verdict.outcome != "breach":
        return ""
    if "disable_automation" in verdict.actions:
        return "off"
    if "block_scores" not in verdict.actions:
        return ""
    return "blocked" if verdict.detail.get("blocked") else "off"


def _stronger(one: Switched, other: Switched) -> Switched:
    order: tuple[Switched, ...] = ("", "blocked", "off")
    return max(one, other, key=order.index)


def timelines_of(
    judged: Iterable[tuple[Window, Sequence[Verdict]]], weeks: Sequence[Window]
) -> dict[Subject, Timeline]:
    """The worst that was said of every subject in each week, its days included; None where nothing was evaluated."""
    found: dict[Subject, list[Seen | None]] = {}
    order: tuple[Seen | None, ...] = (None, "ok", "unconfirmed", *SEVERITIES)
    starts = [week.start for week in weeks]
    for window, verdicts in judged:
        place = bisect_right(starts, window.start) - 1
        for verdict in verdicts:
            row = found.setdefault(verdict.subject, [None] * len(weeks))
            row[place] = max(row[place], _seen(verdict), key=order.index)
    return {subject: tuple(found[subject]) for subject in sorted(found, key=_by_name)}


def _seen(verdict: Verdict) -> Seen | None:
    if verdict.outcome == "breach":
        return verdict.severity
    return None if verdict.outcome == "not_evaluated" else verdict.outcome


def side_by_side(present: Sequence[Opened], proposed: Sequence[Opened]) -> list[Pair]:
    """Incidents of the same rule and subject that overlap are one pair; first what only one file opens."""
    left = list(proposed)
    pairs = []
    for mine in present:
        same = next((other for other in left if mine.overlaps(other)), None)
        if same is not None:
            left.remove(same)
        pairs.append(Pair(mine, same))
    pairs += [Pair(None, other) for other in left]
    return sorted(pairs, key=_only_one_first)


def _only_one_first(pair: Pair) -> tuple[bool, bool, datetime, str]:
    both = pair.present is not None and pair.proposed is not None
    return both, pair.proposed is None, pair.either.start, pair.either.incident.fingerprint


def only_of(found: Replay, label: str) -> Replay:
    """What is about one label; it was judged within its whole family all the same."""

    def mine(side: Side) -> Side:
        return replace(
            side, incidents=tuple(each for each in side.incidents if each.incident.label == label),
            timelines={subject: row for subject, row in side.timelines.items() if subject.label == label},
        )  # fmt: skip

    pairs = tuple(pair for pair in found.pairs if pair.either.incident.label == label)
    return replace(found, present=mine(found.present), proposed=mine(found.proposed), pairs=pairs)
