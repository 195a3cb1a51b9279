"""What a window and a source are when a rule judges them, and which windows may be taken together. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import islice, takewhile
from typing import TypeVar

import numpy as np

from monitor.config.model import Config, EvaluationConfig, Rule, SourceConfig
from monitor.core.baseline import ROLLING, Baseline, Baselines, References
from monitor.core.counts import Counts, ProbabilityRows, RegressionRows, SegmentCounts
from monitor.core.maturity import Maturity
from monitor.core.promises import (
    PastWindow,
    Population,
    Promise,
    SegmentPromises,
    Versioned,
    decided_promise,
    promise_of,
)
from monitor.core.records import (
    Reason,
    RejectedRows,
    RejectReason,
    Schedule,
    ShiftResult,
    Subject,
    Where,
    Window,
)
from monitor.core.rejection import Read, rejections
from monitor.core.rejection_records import Rejections
from monitor.core.unresolved import UnresolvedRows
from monitor.core.verdict_detail import VerdictDetail, kept_of
from monitor.history.readings import StoredReading
from monitor.inference.between_weeks import ALIKE, WeekCorrelation
from monitor.inference.levels import ranked_promise
from monitor.inference.memory import kept_with
from monitor.metrics.definition import Metric
from monitor.metrics.names import Needs

ByLabel = Mapping[str | None, Counts]  # None: the source as a whole
Rows = ProbabilityRows | RegressionRows
DAYS_POOLED = 7
NEW_VERSION = 0.1
"""The share of the rows from which on a model version that the baseline has not is no exception."""
OF_ITEMS: frozenset[Needs] = frozenset({"items", "ranked_items"})
COUNTED: frozenset[Needs] = OF_ITEMS | {"ranked"}
"""Needs of the source as a whole that are counts: their metrics are the metrics of labels, on other rows."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeSource:
    """The data of a source as a whole in one window, besides the counts of its labels.

    ``ranked`` are counts of the k highest-scored labels of each item, by k; ``rows`` whole rows of probabilities, or of
    numbers; ``items`` counts of items by metric, with the metric's value as the outcome; ``unresolved`` the rows whose
    truth is not known, where the source is configured to have them.
    """

    ranked: Mapping[int, Counts] = field(default_factory=dict)
    rows: Rows | None = None
    items: Mapping[str, Counts] = field(default_factory=dict)
    unresolved: UnresolvedRows | None = None

    def of(self, metric: Metric) -> Counts | None:
        """The counts that a metric of ranks or items reads."""
        return self.items.get(metric.name) if metric.needs in OF_ITEMS else self.ranked.get(metric.rank or 0)

    def digest(self) -> str:
        """A hash of the rows, or else of the ranked counts; "" without either."""
        if self.rows is None:
            return " ".join(f"{rank}:{counts.digest()}" for rank, counts in sorted(self.ranked.items()))
        hashed = hashlib.sha256(f"{self.rows.items} {getattr(self.rows, 'labels', ())!r}".encode())
        for value in (getattr(self.rows, each.name) for each in fields(self.rows)):
            if isinstance(value, np.ndarray):
                hashed.update(np.ascontiguousarray(value, dtype="<f8").tobytes())
        return hashed.hexdigest()[:16]

    @property
    def design_effect(self) -> float:
        """The design effect of items in clusters: that of their highest-scored labels, 1 without ranked counts."""
        return self.ranked[1].design_effect if 1 in self.ranked else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class WindowCounts(Versioned):
    """The data of one source in one window; ``versions`` maps model version -> rows.

    ``whole`` has the data of the source as a whole besides the counts of labels, for the judged window only.
    ``rejected`` says which subjects are not judged because of rejected rows. ``segments`` has the promises of each
    label's segments, and ``segment_counts`` their counts, where a rule needs them. ``maturity`` says how many items of
    each label have their truth, where the source records it. ``not_read`` has the parts that could not be read:
    DELAYS_FAILED, UNRESOLVED_FAILED.
    """

    window: Window
    labels: ByLabel = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    whole: WholeSource = field(default_factory=WholeSource)
    rejected: Rejections = field(default_factory=Rejections)
    segments: Mapping[str | None, SegmentPromises] = field(default_factory=dict)
    segment_counts: Mapping[str | None, SegmentCounts] = field(default_factory=dict)
    maturity: Mapping[str | None, Maturity] = field(default_factory=dict)
    not_read: frozenset[str] = frozenset()

    def promise(self, label: str | None, population: Population) -> Promise | None:
        """What the scores of these rows claim and what came true; None without rows."""
        counts = self.labels.get(label)
        return None if counts is None else promise_in(counts, population)


@dataclass(frozen=True, slots=True, eq=False)
class SourceData:
    """Everything known about one source when a window is judged.

    ``earlier`` has the windows before, newest first; ``switched`` the labels with a switch or an open incident.
    ``past`` has the windows of a year, newest first, with promises only, where a rule accumulates evidence.
    ``baseline_segments`` has the counts of each segment of a label's baseline, where a rule compares segments with it.
    ``problem`` is set where the source could not be read; ``error`` then says why in words. ``references`` says which
    baselines are not among ``baselines`` since the source's settings have changed. ``enabled`` has the times at which
    an operator turned on each label, oldest first: evidence adds up anew from then on.
    """

    name: str
    current: WindowCounts
    earlier: tuple[WindowCounts, ...] = ()
    segments: Mapping[tuple[str, str], Mapping[str, Counts]] = field(default_factory=dict)
    baselines: Baselines = field(default_factory=dict)
    quality: tuple[RejectedRows, ...] = ()
    rows: int = 0
    problem: Reason | None = None
    error: str = ""
    switched: frozenset[str] = frozenset()
    past: tuple[PastWindow, ...] = ()
    baseline_segments: Mapping[str | None, SegmentCounts] = field(default_factory=dict)
    references: References = field(default_factory=References)
    enabled: Mapping[str | None, Sequence[datetime]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class RuleInput:
    """Everything that a rule may use for one subject.

    ``counts`` are newest first: the window itself, then the windows before it that may be pooled
    with it (not past the baseline's end, not across model versions). ``problem`` says why nothing can be
    measured; ``detail`` has further facts to store. ``parameters`` are the metric's for this subject
    (``MetricSpec.parameters``). ``before`` are the windows of the older counts: random numbers are those of a window.
    ``new_version``: the window's rows have a model version that the baseline's have not. ``week`` is how
    much weeks differ in what the rule compares.
    """

    subject: Subject
    window: Window
    counts: tuple[Counts, ...] = ()
    baseline: Baseline | None = None
    shifts: tuple[ShiftResult, ...] = ()
    problem: Reason | None = None
    detail: VerdictDetail = field(default_factory=VerdictDetail)
    parameters: tuple[float, ...] = ()
    before: tuple[Window, ...] = ()
    new_version: bool = False
    week: WeekCorrelation = ALIKE

    @property
    def baseline_version(self) -> int | None:
        """The version of the pinned baseline; None without one, and where the weeks before are the reference."""
        return None if self.baseline is None or self.baseline.version == ROLLING else self.baseline.version

    @property
    def reference(self) -> VerdictDetail:
        """The stored facts about the reference: its weeks if they are those before, and what was renamed since."""
        return kept_of(self.detail, ("reference", "renamed"))

    def digest(self, used: Sequence[Counts]) -> str:
        """A hash of the judged cells, and of those of the weeks before where these are the reference."""
        before = [self.baseline.counts] if self.baseline is not None and self.baseline.version == ROLLING else []
        return digest_of([*used, *before])

    @property
    def in_baseline(self) -> bool:
        """Whether the window overlaps the weeks of its own baseline."""
        return self.baseline is not None and self.baseline.overlaps(self.window)


def digest_of(counts: Sequence[Counts]) -> str:
    """A hash of the cells of several windows."""
    return hashlib.sha256(" ".join(c.digest() for c in counts).encode()).hexdigest()[:16]


def rows_of(rule: Rule, counts: Counts) -> Counts:
    """The rows that the rule is about."""
    return rows_in(rule.where, counts)


def promise_in(counts: Counts, population: Population) -> Promise | None:
    """What the scores of the rows of a population claim and what came true; None without such rows."""
    if population == "ranked":
        return ranked_promise(counts)
    if population == "right" or population == "found" or population == "cleared":  # noqa: PLR1714 - narrows the type
        return decided_promise(counts, population)
    return promise_of(rows_in(population, counts))


def rows_in(where: Where, counts: Counts) -> Counts:
    """The rows of one population."""
    if where == "all":
        return counts  # kept with themselves they would never be freed
    return kept_with(counts, ("where", where), lambda: counts.where(where))


# --- which windows may be taken together

AnyWindow = TypeVar("AnyWindow", "WindowCounts", "WindowCounts | PastWindow")


def comparable(data: SourceData, label: str | None) -> Iterator[WindowCounts | PastWindow]:
    """The windows comparable with the judged one, newest first: those with counts, then those with promises only.

    They end at the baseline's end, and where a model version came that all rows have (:func:`of_one_version`).
    """
    baseline = data.baselines.get(label)
    return takewhile(
        lambda part: part is data.current or baseline is None or part.window.start >= baseline.end,
        of_one_version(known_windows(data)),
    )


def poolable(data: SourceData, label: str | None, most: int) -> list[WindowCounts]:
    """The comparable windows with rows of a label that make one sample, ``most`` of them with the judged one.

    They end where the label's rows were rejected. None if it has no row in the judged window.
    """
    if label not in data.current.labels:
        return []
    parts = takewhile(
        lambda part: part is data.current or part.rejected.of(label) is None, islice(comparable(data, label), most)
    )
    return [part for part in parts if isinstance(part, WindowCounts) and label in part.labels]


def evidence_windows(data: SourceData, label: str | None) -> Iterator[WindowCounts | PastWindow]:
    """The comparable windows whose evidence adds up, newest first, up to where an operator turned the label on.

    Windows in which the label's rows were rejected are left out, as those are that were never read.
    """
    end = data.current.window.end
    enabled = max((at for at in data.enabled.get(label, ()) if at < end), default=None)
    parts = takewhile(
        lambda part: part is data.current or enabled is None or part.window.end > enabled, comparable(data, label)
    )
    return (part for part in parts if part.rejected.of(label) is None)


def of_one_version(parts: Iterable[AnyWindow]) -> Iterator[AnyWindow]:
    """The windows, newest first, up to where a model version came that all rows have.

    While versions are mixed, as in a roll-out or beside a trial, nothing ends.
    """
    version: str | None = None
    for part in parts:
        if version is not None and part.whole_version not in (None, version):
            return
        if version is not None and part.main_version not in (None, version):
            return
        version = version or part.whole_version
        yield part


def known_windows(data: SourceData) -> Iterator[WindowCounts | PastWindow]:
    """The judged window and those before it, newest first: with counts, then with promises only."""
    oldest = min(part.window.start for part in (data.current, *data.earlier))
    yield from (data.current, *data.earlier)
    yield from (past for past in data.past if past.window.start < oldest)


def is_new_version(data: SourceData, baseline: Baseline | None) -> bool:
    """Whether a tenth of the window's rows have a model version that no known week of the baseline has.

    Where no week of the baseline is known: whether most rows had another version in any window before.
    """
    current = data.current
    if baseline is None or not current.versions:
        return False
    then = {v for part in known_windows(data) if baseline.overlaps(part.window) for v in part.versions}
    if not then:
        mains = {part.main_version for part in known_windows(data)} - {None}
        return bool(mains - {current.main_version})
    least = NEW_VERSION * sum(current.versions.values())
    return any(rows >= least and version not in then for version, rows in current.versions.items())


def subjects(data: SourceData, source: SourceConfig) -> list[str | None]:
    """Every label with rows, rejected rows, a baseline, a configuration or a switch; last None, the source as a whole.

    A label with a switch is included even if it vanished: otherwise its automation would go on without a verdict.
    """
    read = {*data.current.labels, *data.current.rejected.labels, *data.current.maturity}
    known = {*read, *data.baselines, *data.references.refused, *source.labels, *data.switched, None}
    return sorted(known, key=lambda label: (label is None, label or ""))


def windows_needed(config: Config, window: Window) -> int:
    """The number of windows that a run of this schedule reads, the judged one included."""
    rules = config.rules_for(window.schedule)
    weeks = [1 + rule.reference_weeks for rule in rules if rule.rolls]
    pooled = [windows_pooled(rule, config, window) for rule in rules]
    return max([pooled_at_most(window.schedule, config.evaluation), *pooled, *weeks])


def windows_pooled(rule: Rule, config: Config, window: Window) -> int:
    """The number of windows that a rule may pool, the judged one included: at least those that it asks for."""
    return max(pooled_at_most(window.schedule, config.evaluation), rule.for_windows)


def pooled_at_most(schedule: Schedule, evaluation: EvaluationConfig) -> int:
    """The most windows that a rule may pool, unless it asks for more."""
    return evaluation.pool_weeks if schedule == "weekly" else DAYS_POOLED


def rejected_in(kept: StoredReading, config: Config, baselines: Baselines) -> Rejections:
    """The subjects of a stored reading that this configuration does not judge because of rejected rows."""
    repeated = sum(each.rows for each in kept.quality if each.reason == RejectReason.DUPLICATE)
    labelled = config.sources[kept.source].kind != "regression"
    read = Read(kept.cells, kept.labels, kept.rows, repeated, labelled)
    return rejections(read, baselines, config.evaluation.max_rejected)
