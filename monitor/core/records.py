"""The frozen records that pass between the stages.

Each stage passes these records to the next: a :class:`Window` is a span of time, a :class:`Subject` says what a number
is about, an :class:`Estimate` is a number with its interval, a :class:`Comparison` is the evidence for one rule, a
:class:`Verdict` is the decision with its reason, and an :class:`Action` is its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, Literal

from monitor.core.verdict_detail import VerdictDetail

Where = Literal["all", "predicted", "automated"]
Schedule = Literal["weekly", "daily"]
SCHEDULES: tuple[Schedule, ...] = ("weekly", "daily")
Outcome = Literal["ok", "unconfirmed", "breach", "not_evaluated"]
Severity = Literal["info", "warning", "critical"]
SEVERITY_RANK: Mapping[Severity, int] = {"critical": 0, "warning": 1, "info": 2}
"""The rank of each severity; the most severe is 0."""
ScoreIs = Literal["probability_of_label", "confidence_in_prediction"]
ActionKind = Literal["slack", "disable_automation", "limit_scores", "block_scores"]
LIMITING: frozenset[ActionKind] = frozenset({"limit_scores", "block_scores"})
"""Actions that leave a label on, but not for all of its scores."""

WHERES: tuple[Where, ...] = ("all", "predicted", "automated")


class Refused(Exception):
    """What somebody asked for cannot be done, and nothing was changed; the message says what to do instead."""


class WrongRequest(Refused):
    """It cannot be done as it was asked for: the message says what to ask for."""


class Reason(StrEnum):
    """Why a verdict has its outcome. Each has a page ``docs/runbook/<value>.md``."""

    WITHIN_THRESHOLD = "within_threshold"
    NOT_SIGNIFICANT_IN_FAMILY = "not_significant_in_family"
    STREAK_INCOMPLETE = "streak_incomplete"
    INCREASED = "increased"
    DECREASED = "decreased"
    TRAFFIC_MIX = "traffic_mix"
    CLASS_MIX = "class_mix"
    ABOVE_THRESHOLD = "above_threshold"
    BELOW_THRESHOLD = "below_threshold"
    DISTRIBUTION_SHIFTED = "distribution_shifted"
    NO_BASELINE = "no_baseline"
    SETTINGS_CHANGED = "settings_changed"
    IN_BASELINE = "in_baseline"
    TOO_FEW_ROWS = "too_few_rows"
    SCORES_MOVED = "scores_moved"
    NO_ROWS = "no_rows"
    REJECTED_ROWS = "rejected_rows"
    NOT_MATURE = "not_mature"
    UNRESOLVED_FAILED = "unresolved_failed"
    RELATION_ERROR = "relation_error"
    WAREHOUSE_FAILED = "warehouse_failed"


class RejectReason(StrEnum):
    """Why a row of the warehouse was rejected. All are described in ``docs/bad-rows.md``."""

    LINE_UNREADABLE = "line_unreadable"
    ITEM_MISSING = "item_missing"
    LABEL_MISSING = "label_missing"
    LABEL_TOO_LONG = "label_too_long"
    SCORE_MISSING = "score_missing"
    SCORE_NOT_A_NUMBER = "score_not_a_number"
    SCORE_OUT_OF_RANGE = "score_out_of_range"
    PREDICTION_INVALID = "prediction_invalid"
    DEVIATION_INVALID = "deviation_invalid"
    OUTCOME_MISSING = "outcome_missing"
    OUTCOME_OUT_OF_RANGE = "outcome_out_of_range"
    OUTCOME_NOT_FINITE = "outcome_not_finite"
    PREDICTED_INVALID = "predicted_invalid"
    WEIGHT_INVALID = "weight_invalid"
    DATE_MISSING = "date_missing"
    DATE_MALFORMED = "date_malformed"
    DATE_IN_FUTURE = "date_in_future"
    DUPLICATE = "duplicate"
    NO_TRUE_LABEL = "no_true_label"
    SEVERAL_TRUE_LABELS = "several_true_labels"


IN_NO_WINDOW = (
    RejectReason.LINE_UNREADABLE,
    RejectReason.DATE_MISSING,
    RejectReason.DATE_MALFORMED,
    RejectReason.DATE_IN_FUTURE,
)
"""Reasons of rows that lie in no window. A reading counts those of its whole relation."""


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A half-open span of time ``start <= t < end`` (both time zone aware) with its name.

    >>> from datetime import UTC, datetime
    >>> Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly").name
    '2026-W46'
    """

    start: datetime
    end: datetime
    name: str
    schedule: Schedule

    @property
    def unit(self) -> str:
        """What it is called: a week or a day."""
        return "week" if self.schedule == "weekly" else "day"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What a number is about: a label of a source, a segment of it, or the source as a whole (``label`` is None)."""

    source: str
    label: str | None
    segment: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The name in words: ``tickets/billing`` or ``tickets (all labels)``."""
        name = f"{self.source}/{self.label}" if self.label is not None else f"{self.source} (all labels)"
        return name if self.segment is None else f"{name} [{self.segment[0]}={self.segment[1]}]"


ROUNDING = 1e-6
"""A score or an outcome this little outside [0, 1] is a rounding error (of sums, or of single precision): 0 or 1."""

LABEL_BYTES = 1_000
"""The longest label, in UTF-8: it is part of keys, and PostgreSQL's index entries hold about 2,700 bytes."""


SCORE_BAND = "score_band"
"""The segment column of the bands of scores: every label has these, whatever its relation holds."""

TOO_MANY_VALUES = "too_many_values"
"""The reason for a segment column that was left out, since it has more values than a report can show."""

DELAYS_FAILED, UNRESOLVED_FAILED = "delays_failed", "unresolved_failed"
"""The reasons for parts that could not be read, though the counts were: when truths came, and the waiting items."""

ROWS_GONE = "rows_gone"
"""The reason for a window of which the relation has less than half of the rows that were read before."""

ROWS_DELETED = "rows_deleted"
"""The reason for an earlier window of which the relation has fewer rows than were measured: that stays as it was."""

ROWS_REPLACED = "rows_replaced"
"""The reason for a window of which rows are gone or have another score, hidden by new ones: as many are there."""

LABELS_DIFFER = "labels_differ"
"""The reason for labels that are mostly wrong, where the names of truths are odd: 0 rows, and why as examples."""

JOIN_ODD = "join_odd"
"""The reason for predictions that meet no truth at all, or several: 0 rows, and how many as examples."""

WAITING_UNUSABLE = "waiting_unusable"
"""The reason for items without a truth that cannot be used either: 0 rows, and how many by reason as an example."""

RARE_LABELS = "rare_labels"
"""The reason for labels of few rows of a source with very many, which are judged together: 0 rows, and how many."""


AUDIT_DIFFERS, TRUTHS_BIASED, TRUTHS_SCARCE = "audit_differs", "truths_biased", "truths_scarce"
"""The reasons for checked items of which the relation has another truth, for truths of what acts that are no random
part, as an audit shows, and for truths of what acts that are scarce: 0 rows, and why as examples."""


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """How many rows of a source were rejected for one reason, with some examples.

    ``reason`` is a :class:`RejectReason`, or :data:`TOO_MANY_VALUES` with 0 rows and the columns as examples, or a part
    that could not be read, with 0 rows and one example that says why (:func:`part_not_read`), or :data:`ROWS_GONE` with
    0 rows and one example that says how many there were (:func:`rows_gone`), or :data:`ROWS_DELETED` or
    :data:`ROWS_REPLACED` with 0 rows and one example for each window (:func:`rows_deleted`), or :data:`LABELS_DIFFER`
    or :data:`RARE_LABELS` or :data:`JOIN_ODD` or :data:`AUDIT_DIFFERS` or :data:`TRUTHS_BIASED` or
    :data:`TRUTHS_SCARCE` or :data:`WAITING_UNUSABLE`.
    """

    source: str
    reason: str
    rows: int
    examples: tuple[Mapping[str, str | None], ...] = ()


def part_not_read(source: str, part: str, problem: Reason, why: str) -> RejectedRows:
    """A part of a reading (:data:`DELAYS_FAILED`, :data:`UNRESOLVED_FAILED`) that failed alone, and why."""
    return RejectedRows(source, part, 0, ({"problem": problem.value, "why": why},))


def rows_gone(source: str, before: int, left: int) -> RejectedRows:
    """The note that a window had ``before`` rows when it was read before, of which less than half are ``left``."""
    return RejectedRows(source, ROWS_GONE, 0, ({"before": str(before), "left": str(left)},))


def rows_deleted(source: str, window: Window, before: int, now: int) -> RejectedRows:
    """The note that a window has ``now`` rows in the warehouse, of ``before`` that were measured."""
    return RejectedRows(source, ROWS_DELETED, 0, ({"window": window.name, "before": str(before), "now": str(now)},))


def rows_replaced(source: str, window: Window, before: int, left: int) -> RejectedRows:
    """The note that at most ``left`` of the ``before`` rows that were measured of a window can be there still."""
    return RejectedRows(source, ROWS_REPLACED, 0, ({"window": window.name, "before": str(before), "now": str(left)},))


def rows_before(quality: Iterable[RejectedRows]) -> int:
    """How many rows a window had of which most are gone; 0 if none are, or if it is not known any more."""
    return max((int(str(q.examples[0]["before"])) for q in quality if q.reason == ROWS_GONE and q.examples), default=0)


def rows_left(quality: Iterable[RejectedRows]) -> int:
    """How many rows are left of a window of which most are gone; 0 if none are gone."""
    return min((int(str(q.examples[0]["left"])) for q in quality if q.reason == ROWS_GONE and q.examples), default=0)


def parts_not_read(quality: Iterable[RejectedRows]) -> dict[str, RejectedRows]:
    """The parts of a reading that could not be read."""
    return {each.reason: each for each in quality if each.reason in (DELAYS_FAILED, UNRESOLVED_FAILED)}


def part_left_out(source: str, window: Window, part: str, why: str) -> ShiftResult:
    """The note that a part of a run failed alone, and why: ``features``, their ``page``, or the ``diagnosis``."""
    return ShiftResult(Subject(source, None), window, part, "*", None, None, 0, 0, {"reason": why})


class ScorePlace(IntEnum):
    """Scores of rejected rows outside [0, 1]; inside, a place is 0 to 9, the tenth of [0, 1]."""

    ABOVE_1 = 10
    ABOVE_100 = 11
    BELOW_0 = 12


@dataclass(frozen=True, slots=True)
class RejectedCell:
    """The number of rejected rows of a window with the same properties. ``label`` is None if it cannot be read.

    ``place`` is a tenth of [0, 1] or a :class:`ScorePlace`, None without a score. ``truth`` is 1 if the outcome can be
    read (``hits`` sums these), -1 if it is coded as -1, else None.
    """

    label: str | None
    reason: str
    place: int | None
    truth: int | None
    rows: int
    hits: float = 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its confidence interval; None if the data do not define it.

    ``value`` is the debiased value, ``plug_in`` the textbook one.
    """

    value: float | None
    low: float | None
    high: float | None
    plug_in: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """One metric of one subject in one window, over one population of rows."""

    subject: Subject
    window: Window
    metric: str
    where: Where
    interval: Interval
    n: int
    positives: float
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecisionCheck:
    """One question in the decision of a verdict, and its answer. docs/explain.md lists the questions."""

    name: str
    passed: bool


Checks = tuple[DecisionCheck, ...]
"""The checks of a decision, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleNumbers:
    """What was measured for one rule on one subject, against what. ``p_value`` is unadjusted."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    plug_in: float | None = None
    baseline: float | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    p_value: float | None = None
    detectable: float | None = None
    n: int = 0
    windows: int = 1
    baseline_version: int | None = None
    data_digest: str = ""
    detail: VerdictDetail = field(default_factory=VerdictDetail)


@dataclass(frozen=True, slots=True)
class Comparison(RuleNumbers):
    """The evidence on one rule for one subject.

    ``beyond`` says whether the debiased value (or change) of all windows together is beyond the threshold, ``streak``
    whether that of each window that the rule needs is, ``newest_beyond`` whether that of the newest of several is;
    ``adequate`` whether the rows could have shown a relevant change; ``problem`` is why there is no evidence.
    ``checks`` are the questions that decided whether the rule can be judged; if there is a
    ``problem``, the last one failed.
    """

    subject: Subject
    window: Window
    p_rate: float | None = None
    beyond: bool = False
    streak: bool = True
    newest_beyond: bool = False
    adequate: bool = False
    problem: Reason | None = None
    checks: Checks = ()

    @property
    def is_within(self) -> bool:
        """Whether the windows together are within the threshold, and the newest of several by itself as well."""
        return not self.beyond and not self.newest_beyond


@dataclass(frozen=True, slots=True)
class Verdict(RuleNumbers):
    """One rule on one subject in one window: the outcome, its named reason and its numbers.

    ``detail["checks"]`` holds the :class:`DecisionCheck` records that led to it, each as a list of its fields.
    """

    id: str
    rule: str
    subject: Subject
    window: Window
    metric: str
    where: Where
    outcome: Outcome
    reason: Reason
    severity: Severity
    threshold: float
    p_adjusted: float | None = None
    rules_revision: str = ""
    actions: tuple[ActionKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """An action that a verdict asked for, and its result."""

    kind: ActionKind
    source: str
    label: str | None
    state: str


@dataclass(frozen=True, slots=True)
class ShiftResult:
    """One distribution test of one subject in one window against its baseline.

    ``statistic`` is the effect size that is compared with a rule's threshold (KS distance, PSI, Cramer's V);
    ``p_value`` is None for a test without one.
    """

    subject: Subject
    window: Window
    test: str
    column: str
    statistic: float | None
    p_value: float | None
    n: int
    n_baseline: int
    detail: Mapping[str, Any] = field(default_factory=dict)


SwitchValue = Literal["never_set", "off", "on"]


@dataclass(frozen=True, slots=True)
class SegmentSwitch:
    """Whether automation may act on a label's items that have ``value`` in ``column``: not from ``off_from`` on.

    ``off_from`` is None if it may, and in the future if an operator's enable against the evidence will end. Until
    ``hold_until`` no run undoes an operator's enable. The other fields say who changed it last, why, and on which
    verdict.
    """

    column: str
    value: str
    off_from: datetime | None = None
    hold_until: datetime | None = None
    by_operator: bool = False
    actor: str = ""
    reason: str = ""
    verdict: str | None = None

    @property
    def segment(self) -> tuple[str, str]:
        """The column and the value."""
        return self.column, self.value

    def is_off(self, now: datetime) -> bool:
        """Whether the segment is off now.

        >>> from datetime import UTC, datetime
        >>> SegmentSwitch("channel", "web", datetime(2026, 11, 9, tzinfo=UTC)).is_off(datetime(2026, 11, 9, tzinfo=UTC))
        True
        """
        return self.off_from is not None and self.off_from <= now


@dataclass(frozen=True, slots=True)
class KeptScores:
    """The ``score`` from which a label goes on acting alone, since its promise is shown to hold there.

    ``share`` of the rows that acted have such a score, and ``correct`` of these are right, with limits.
    """

    score: float
    share: float
    correct: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SwitchState:
    """Whether automation may act for one label of a source (``label`` None: the source's own).

    ``blocked`` are score ranges (low, high) in which it may not act although it is on. "On" ends at ``lease_until``
    unless an evaluation renews it; an operator's change holds against runs until ``hold_until``. ``by_operator``: only
    a person may turn it on again, because a person turned it off or it was never on. ``verdict`` is the one that turned
    it off or blocked scores; if an operator turned it on, the one against that. ``ok_streak`` counts good windows since
    it was turned off. ``version`` makes updates conditional; 0 is a row that does not exist yet. ``actor`` changed it
    last; ``counts`` is the run whose good windows are counted ("": the actor). ``not_evaluated`` is the reason if a run
    turned it off because no rule could be judged (``when_not_evaluated: disable``). ``segments`` are parts of the
    label's items with a state of their own; if the label is off, all are off. ``kept`` says what is proved of the
    scores above those that a run has blocked (``limit_scores``).
    """

    source: str
    label: str | None
    state: SwitchValue = "never_set"
    blocked: tuple[tuple[float, float], ...] = ()
    lease_until: datetime | None = None
    hold_until: datetime | None = None
    by_operator: bool = False
    actor: str = ""
    reason: str = ""
    verdict: str | None = None
    ok_streak: int = 0
    last_window_end: datetime | None = None
    changed_at: datetime | None = None
    version: int = 0
    counts: str = ""
    not_evaluated: str | None = None
    segments: tuple[SegmentSwitch, ...] = ()
    kept: KeptScores | None = None

    @property
    def counted_run(self) -> str:
        """The run whose good windows may turn it on again, if it may come back by itself."""
        return self.counts or self.actor


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """What an acting rule found in one evaluated window. ``blocked``: the score ranges that a breach names.

    ``segments`` are the (column, value) that a breach turns off. A breach with neither turns the label off.
    """

    window_end: datetime
    outcome: Outcome
    verdict: str
    blocked: tuple[tuple[float, float], ...] = ()
    segments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RuleEvidence:
    """The outcomes of one acting rule on one label (None: the source as a whole).

    ``windows`` are the last evaluated ones, newest first, also those of runs that might not act. ``judged_until`` is
    the end of the newest window that a run which might act has judged (a failure to read does not count), ``since``
    when the first run used the rule. ``version`` makes updates conditional; 0 is a row that does not exist yet.
    """

    source: str
    label: str | None
    rule: str
    schedule: Schedule
    windows: tuple[WindowOutcome, ...] = ()
    judged_until: datetime | None = None
    since: datetime | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class SwitchEvent:
    """One change of a switch. Events with the same ``key`` are stored once.

    ``kind`` is one of: disabled, blocked, enabled, renewed, not_renewed (evaluated, but the lease stays), held,
    unblocked, counted (a good window on the way back, or a breach that starts the count again), segment_disabled,
    segment_enabled and segment_held (of segments; the lease may be renewed as well); in a dry run also
    would_disable, would_block, would_enable, would_unblock, would_hold and would_disable_segment, which change nothing
    but the lease. :data:`GATES_CLOSED` and :data:`GATES_CONFIRMED` are about no single switch, but about every gate:
    their source is :data:`EVERY_SOURCE`. ``segments`` are those of the switch after it.
    ``waits_for`` is the acting rule from whose last judged window the lease counts, which made it shorter.
    """

    key: str
    source: str
    label: str | None
    at: datetime
    kind: str
    from_state: str
    to_state: str
    actor: str
    reason: str
    blocked: tuple[tuple[float, float], ...] = ()
    lease_until: datetime | None = None
    until: datetime | None = None
    verdict: str | None = None
    waits_for: str | None = None
    segments: tuple[SegmentSwitch, ...] = ()

    @classmethod
    def of(cls, before: SwitchState, after: SwitchState, **about: Any) -> SwitchEvent:
        """The event of a change of a switch: what the switch is after it, and what is given ``about`` the change."""
        return cls(
            source=after.source, label=after.label, from_state=before.state, to_state=after.state,
            blocked=after.blocked, lease_until=after.lease_until, until=after.hold_until, segments=after.segments,
            **about,
        )  # fmt: skip


EVERY_SOURCE = ""
"""The source of an event about every gate of the history."""
GATES_CLOSED, GATES_CONFIRMED = "gates_closed", "gates_confirmed"
"""The kinds of such events: an older copy of the history was put back, and an operator has confirmed it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The version of a history: its id, the epoch that operators raise, and the version that each change raises."""

    history: str
    epoch: int
    version: int

    def is_older_than(self, seen: Mark) -> bool:
        """Whether this mark must not follow ``seen``: the history went back, or is another one that is not confirmed.

        >>> Mark("a", 1, 7).is_older_than(Mark("a", 1, 8)), Mark("b", 2, 0).is_older_than(Mark("a", 1, 8))
        (True, False)
        """
        if self.epoch != seen.epoch:
            return self.epoch < seen.epoch
        return self.history != seen.history or self.version < seen.version


@dataclass(frozen=True, slots=True)
class Recorded:
    """This machine's record of a history: its mark, and its content at that time ("": not recorded)."""

    mark: Mark
    content: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which history it is. Not ``confirmed``: an older copy was put back, and every gate is closed.

    ``newest_at`` is the latest date of a switch change since the last confirmation; ``why`` and the next two fields say
    who doubted or confirmed last. ``seen`` is what this machine has recorded beside the history, None if nothing.
    ``content`` is a digest of the switches and thresholds of a SQLite file, different for each change and one for each
    version; "" if not known.
    """

    mark: Mark
    confirmed: bool = True
    newest_at: datetime | None = None
    why: str = ""
    changed_by: str = ""
    changed_at: datetime | None = None
    seen: Recorded | None = None
    content: str = ""

    @property
    def restored_at(self) -> datetime | None:
        """When it was last put back, confirmed, or created in place of a lost one: its epoch. None if never."""
        return datetime.fromtimestamp(self.mark.epoch, UTC) if self.mark.epoch else None

    @property
    def went_back(self) -> bool:
        """Whether an older copy, or a part of one, was put back without a confirmation."""
        return self.seen is not None and (self.mark.is_older_than(self.seen.mark) or self.is_mixed)

    @property
    def is_mixed(self) -> bool:
        """Whether it is a mix of two copies: with SQLite, an old file under the journal (-wal) of a newer one."""
        seen = self.seen
        return seen is not None and seen.mark == self.mark and "" != seen.content != self.content != ""


IncidentState = Literal["open", "acknowledged", "silenced", "resolved"]

MONITOR_KIND = "monitor"
"""The kind of incidents of the monitor itself."""
VANISHED, BURST, UNCHECKED, OF_LABEL = "vanished", "burst", "unchecked", "label"
"""The kinds of incidents of labels: rows that stopped, many labels of a source at once, labels of which no item that
acts alone has a truth, any other trouble."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A run of diagnoses of one subject that need somebody, from the first until it is resolved.

    ``kind`` is "label" (of a source as a whole too, ``label`` is None then), "vanished", "burst" or "unchecked" (of the
    ``labels`` of a source), or "monitor". ``reason`` is the problem, ``rules`` are those in breach. ``window`` is the
    newest window that counted, and ``window_end`` its end; ``seen_until`` is the end of the newest one in which the
    trouble was seen. ``last`` is the reason of the last change by a run. ``root`` is the delivery id of its living
    message (None: no route matched), ``reopened`` how often it came back. ``version`` makes updates conditional; 1 is a
    new incident. ``further_reasons`` follow ``reason`` if several things are wrong with the monitor at once, and
    ``quiet_since`` is since when it has been away.
    """

    id: str
    kind: str
    source: str
    label: str | None
    severity: Severity
    state: IncidentState
    opened_at: datetime
    opened_window: str
    window: str
    window_end: datetime
    seen_until: datetime
    reason: str
    last: str = ""
    rules: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    resolved_at: datetime | None = None
    resolved_window: str | None = None
    resolved_by: str | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    silenced_until: datetime | None = None
    silenced_by: str | None = None
    quiet_since: datetime | None = None
    reopened: int = 0
    root: str | None = None
    version: int = 1
    further_reasons: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """All named reasons."""
        return self.reason, *self.further_reasons

    @property
    def reasons_words(self) -> str:
        """The same in one line."""
        return ", ".join(self.reasons).replace("_", " ")

    @property
    def name(self) -> str:
        """What it is about: a label with its source, a source, or the monitor."""
        if self.is_of_monitor:
            return self.source or "the monitor"
        return Subject(self.source, self.label).name

    @property
    def fingerprint(self) -> str:
        """The key by which two troubles belong to the same incident."""
        return f"{self.kind}\x1f{self.source}\x1f{self.label or ''}"

    @property
    def is_of_monitor(self) -> bool:
        """Whether it is about the monitor itself, and so has no diagnosis."""
        return self.kind == MONITOR_KIND

    @property
    def is_open(self) -> bool:
        """Whether it is not resolved."""
        return self.state != "resolved"

    @property
    def acknowledged_after(self) -> timedelta | None:
        """The time until somebody acknowledged it; None: nobody has."""
        return None if self.acknowledged_at is None else self.acknowledged_at - self.opened_at

    @property
    def resolved_after(self) -> timedelta | None:
        """The time until it was resolved for good; None: it is not."""
        return None if self.is_open or self.resolved_at is None else self.resolved_at - self.opened_at


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One change of an incident. Events with the same ``key`` are stored once.

    ``kind`` is one of: opened, continued, resolved, reopened, acknowledged, silenced, unsilenced, noted, refused
    (somebody requested what they may not do); ``reason`` is the named reason of the decision.
    """

    key: str
    incident: str
    at: datetime
    kind: str
    reason: str
    actor: str
    window: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


DeliveryState = Literal["pending", "sending", "sent", "failed", "dead", "not_sent", "superseded"]
DeliveryKind = Literal["incidents", "monitor", "test"]
Operation = Literal["post", "edit", "reply", "file"]
APPRISE = "apprise:"
"""Before the name of a receiver beside Slack, in place of a channel."""
#: Slack's answers to a change of a message that a person has deleted.
MESSAGE_DELETED = frozenset({"message_not_found", "thread_not_found"})


@dataclass(frozen=True, slots=True)
class Replica:
    """That a history is a read replica; ``changed_at``: when its newest change was made (None: not known)."""

    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message, or one change of a message, and its delivery state. Composing it again gives the same ``id``.

    ``operation``: *post* a message; *edit* the message ``root`` in place, *reply* in its thread, or add a *file* to it.
    A delivery with a root waits until the root is sent. ``sequence`` orders the edits of one root: a later one makes
    earlier ones *superseded*. ``error`` is the text of an error, ``error_code`` Slack's name for it; ``uncertain``:
    Slack may have accepted it although no answer came.
    """

    id: str
    kind: DeliveryKind
    channel: str
    payload: Mapping[str, Any]
    created_at: datetime
    state: DeliveryState = "pending"
    attempts: int = 0
    next_attempt_at: datetime | None = None
    claimed_at: datetime | None = None
    claimed_by: str | None = None
    sent_at: datetime | None = None
    external_channel: str | None = None
    external_id: str | None = None
    error: str | None = None
    operation: Operation = "post"
    root: str | None = None
    sequence: int = 0
    error_code: str | None = None
    uncertain: bool = False

    @property
    def is_beside_slack(self) -> bool:
        """Whether Apprise sends it."""
        return self.channel.startswith(APPRISE)

    @property
    def is_of_deleted(self) -> bool:
        """Whether it should change a message that a person has deleted."""
        return self.state == "dead" and self.error_code in MESSAGE_DELETED

    @property
    def ended_with_its_message(self) -> bool:
        """Whether it was never tried, since the message that it changes was never sent."""
        return self.state in ("dead", "not_sent") and self.root is not None and not self.attempts


def receiver_name(address: str) -> str:
    """The channel or receiver of a delivery for people.

    >>> receiver_name("#ml"), receiver_name("apprise:oncall")
    ('#ml', 'oncall (Apprise)')
    """
    return f"{address.removeprefix(APPRISE)} (Apprise)" if address.startswith(APPRISE) else address


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a flow for ``calmon health`` and the watchdog; a newer one with the same ``key`` replaces it."""

    key: str
    at: datetime
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A person's note at a time of a source (label None: of all its labels), shown on every axis of time.

    A removed annotation stays stored, with who removed it and why. ``key`` is that of the request that added it.
    """

    id: str
    source: str
    label: str | None
    at: datetime
    text: str
    added_at: datetime
    added_by: str
    removed_at: datetime | None = None
    removed_by: str | None = None
    removed_reason: str | None = None
    key: str | None = None


TimelineKind = Literal["annotation", "model_version", "baseline", "rules", "thresholds"]


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event around the labels at a time, shown above every axis of time.

    ``source`` None is all sources, ``label`` None all labels of the source. ``id`` is that of an annotation, else "".
    """

    at: datetime
    kind: TimelineKind
    text: str
    source: str | None = None
    label: str | None = None
    by: str = ""
    id: str = ""


class IncidentReason(StrEnum):
    """Why an incident changed, or why it did not. docs/alerts.md has all of them."""

    OPENED = "opened"
    CONTINUES = "continues"
    OTHER_PROBLEM = "other_problem"
    WORSE = "worse"
    CAME_BACK = "came_back"
    CANNOT_TELL = "cannot_tell"
    FINE_AGAIN = "fine_again"
    NOT_SEEN = "not_seen"
    ROWS_ARE_BACK = "rows_are_back"
    CHECKED_AGAIN = "checked_again"
    NOT_WATCHED = "not_watched"
    NO_TROUBLE = "no_trouble"
    ALREADY_COUNTED = "already_counted"
    OLDER_WINDOW = "older_window"
    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    SILENCE_ENDED = "silence_ended"
    RESOLVED_BY_HAND = "resolved_by_hand"
    NOTED = "noted"
    ALREADY_ACKNOWLEDGED = "already_acknowledged"
    ALREADY_SILENCED = "already_silenced"
    ALREADY_RESOLVED = "already_resolved"
    NOT_OVER = "not_over"
    NAME_MISSING = "name_missing"
    REASON_MISSING = "reason_missing"
    END_NOT_AHEAD = "end_not_ahead"
    ENDS_BY_ITSELF = "ends_by_itself"


@dataclass(frozen=True, slots=True)
class WeekSpread:
    """How much one metric of a label differed between ``weeks`` weeks.

    ``statistic`` is Cochran's Q, the squares of the differences divided by the variance that the weeks' own rows give
    them, and ``freedom`` its mean if weeks were draws from one urn. Each unit of correlation between two rows of one
    week would add ``rows`` to it.
    """

    statistic: float
    freedom: float
    rows: float
    weeks: int


WeekSpreads = Mapping[str, WeekSpread]
"""By metric and population (:func:`spread_key`)."""


def spread_key(metric: str, where: Where) -> str:
    """The name under which the spread of a metric is stored."""
    return f"{metric} {where}"
