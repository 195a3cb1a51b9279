"""Proposes how to evaluate a source of this volume: weeks to pin and to judge, and rows to require.

The proposal is made from some weeks of the warehouse, for ``calmon check`` and ``calmon init``; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from monitor.config.model import BaselineConfig, Config, EvaluationConfig
from monitor.core import windows
from monitor.core.records import Window
from monitor.evaluation.data import ByLabel
from monitor.evaluation.visible_changes import Typical, Visible, visible_changes
from monitor.operations.collect import with_whole
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.survey import Survey

TYPICAL_WEEKS = 8
EVALUATED_WEEKS = 4
BASELINE_WEEKS = (8, 26)
"""Weeks of a baseline: the usual number (fewer if there are no more), and the most, where rows are few."""
FEW_PAIRS = 10_000
POOLS = (4, 8, 13)
MOST_LABELS = 0.9
"""Enough weeks are pooled to evaluate this share of the visible (rule, label) pairs; one rare label adds none."""
SAMPLES = (500, 200)
"""Values of ``min_samples``; with fewer rows than the last one intervals were never studied (docs/statistics.md)."""
FEW_SCORES, USUAL_SCORES = 12, (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
AUTOMATE_AT, HARDLY_ANY, HALF_A_CELL = 0.8, 0.05, 0.00005
PAIRS = (10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50)


DAILY_ROWS, FRESH = 200, timedelta(days=2)


def arrives_daily(survey: Survey | None, now: datetime, *, files: bool) -> bool:
    """Whether the newest rows are of the last two days and a day has enough of them, in no files: these seldom come."""
    if survey is None or survey.first is None or survey.last is None or files:
        return False
    days = max((survey.last - survey.first) / timedelta(days=1), 1.0)
    return now - survey.last <= FRESH and survey.rows / days >= DAILY_ROWS


@dataclass(frozen=True, slots=True)
class Tuning:
    """The values of ``evaluation`` and ``baseline`` that fit a source."""

    min_samples: int
    pool_weeks: int
    weeks: int
    min_pairs: int

    @property
    def _values(self) -> dict[str, dict[str, int]]:
        return {
            "evaluation": {"min_samples": self.min_samples, "pool_weeks": self.pool_weeks},
            "baseline": {"weeks": self.weeks, "min_pairs": self.min_pairs},
        }

    def beside(self, evaluation: EvaluationConfig, baseline: BaselineConfig) -> dict[str, dict[str, int]]:
        """The sections of alerts.yaml that differ from these; those from the defaults are needed in a new file."""
        there = {"evaluation": evaluation.model_dump(), "baseline": baseline.model_dump()}
        return {name: values for name, values in self._values.items() if not values.items() <= there[name].items()}

    def applied(self, config: Config) -> Config:
        """The configuration with these values."""
        parts = {name: getattr(config, name).model_copy(update=values) for name, values in self._values.items()}
        return config.model_copy(update=parts)


@dataclass(frozen=True, slots=True)
class Weeks:
    """The weeks of a source, oldest first: those for a baseline, and the last ones, which are judged."""

    baseline: Sequence[Window]
    judged: Sequence[Window]

    @property
    def every(self) -> Sequence[Window]:
        """The weeks of both parts."""
        return [*self.baseline, *self.judged]


def weeks_of(survey: Survey, now: datetime, zone: ZoneInfo) -> Weeks:
    """The ready weeks between the first and the last date: a baseline, then up to four to judge.

    With fewer than three weeks there is no baseline. The first week may be incomplete, so it is used only if there are
    few.

    >>> from datetime import UTC
    >>> first, last = datetime(2026, 9, 2, tzinfo=UTC), datetime(2026, 11, 13, tzinfo=UTC)
    >>> survey = Survey(9, 9, 1, first, last, 0, None, False, 0.1, 1.0, 9, 9, True)
    >>> found = weeks_of(survey, datetime(2027, 1, 1, tzinfo=UTC), ZoneInfo("UTC"))
    >>> [part[0].name + ".." + part[-1].name for part in (found.baseline, found.judged)]
    ['2026-W37..2026-W43', '2026-W44..2026-W46']
    >>> from dataclasses import replace
    >>> odd = replace(survey, first=datetime(1, 1, 1, tzinfo=UTC), last=datetime(9999, 12, 31, tzinfo=UTC))
    >>> weeks_of(odd, datetime(2026, 11, 17, tzinfo=UTC), ZoneInfo("UTC")).judged[-1].name
    '2026-W46'
    """
    if survey.first is None or survey.last is None:
        return Weeks((), ())
    last = windows.last_ready("weekly", now, zone)
    if survey.last < last.start and survey.last.year > windows.FIRST_YEAR:
        last = windows.containing("weekly", survey.last, zone)
    if survey.first >= last.end:
        return Weeks((), ())
    most = BASELINE_WEEKS[1]
    found = [each for each in windows.up_to(last, most + EVALUATED_WEEKS + 1, zone) if each.end > survey.first]
    found = found[1:] if len(found) > EVALUATED_WEEKS else found
    judged = max(1, min(EVALUATED_WEEKS, len(found) // 3))
    return Weeks(found[:-judged][-most:] if len(found) > 2 else (), found[-judged:])


def typical_of(
    warehouse: Warehouse, name: str, config: Config, weeks: Sequence[Window], *, now: datetime
) -> Typical | None:
    """The last of ``weeks``, read as one window; None without rows. Raises the errors of a reading."""
    source = config.sources[name].model_copy(update={"segments": ()})
    if not weeks or source.kind == "regression":
        return None
    few = weeks[-TYPICAL_WEEKS:]
    span = Window(few[0].start, few[-1].end, f"{few[0].name}..{few[-1].name}", "weekly")
    labels: ByLabel = with_whole(warehouse.read(name, source, span, now=now, whole=False)).labels
    return Typical(span, len(few), labels) if labels else None


@dataclass(frozen=True, slots=True)
class Acting:
    """What acts alone from the score ``at`` on: rows a week, their share of the rows with a label, and right ones."""

    at: float
    weekly: float
    share: float
    right: float


def acting_of(typical: Typical | None, label: str | None = None, at: Sequence[float] = ()) -> list[Acting]:
    """What would act alone of a label (None: of all) from each score on: from those ``at``, or from usual ones.

    Of few distinct scores each is a usual one. Of no rows (None) nothing acts.
    """
    if typical is None:
        return []
    counts = typical.labels[label].where("predicted").by_cell()
    scores, every = counts.score, float(counts.w.sum())
    found = []
    for score in at or (scores.tolist() if len(scores) <= FEW_SCORES else USUAL_SCORES):
        acts = scores >= score - HALF_A_CELL
        weight = float(counts.w[acts].sum())
        if weight > 0:
            rows = float(counts.n[acts].sum()) / typical.weeks
            found.append(Acting(round(score, 4), rows, weight / every, float(counts.wy[acts].sum()) / weight))
    return found


def usual_threshold(acting: Sequence[Acting]) -> float:
    """The score to act from where nobody says one: the usual one, unless hardly any row has it."""
    few = [each.at for each in acting if each.share >= HARDLY_ANY]
    return AUTOMATE_AT if any(at >= AUTOMATE_AT for at in few) else max(few, default=AUTOMATE_AT)


def tuning_of(name: str, config: Config, typical: Typical, available: int) -> Tuning:
    """The values by which nearly all labels that can be evaluated are evaluated, with the least pooling.

    ``available`` is the number of weeks for a baseline.
    """
    fewest_weekly = min(counts.rows for counts in typical.labels.values()) / typical.weeks
    shortest, longest = BASELINE_WEEKS
    weeks = max(1, min(available or shortest, shortest if fewest_weekly * shortest >= FEW_PAIRS else longest))
    pairs = [counts.rows * weeks / typical.weeks for counts in typical.labels.values()]
    enough = [each for each in pairs if each >= PAIRS[-1]]
    min_pairs = next((step for step in PAIRS if step <= min(enough, default=0)), PAIRS[-1])
    widest = Tuning(SAMPLES[-1], POOLS[-1], weeks, min_pairs).applied(config)
    seen = [each for each in visible_changes(name, widest, typical) if each.within(widest.evaluation)]
    weekly = [each for each in seen if each.rule.schedule == "weekly"]
    needed = [each.windows or 1 for each in weekly]
    pool = next(step for step in POOLS if sum(each <= step for each in needed) >= MOST_LABELS * len(needed))
    pooled = [each for each in weekly if (each.windows or 1) <= pool]
    rows_judged = [each.rows * (each.windows or 1) for each in pooled if each.rule.min_samples is None]
    min_samples = next((step for step in SAMPLES if step <= min(rows_judged, default=SAMPLES[0])), SAMPLES[-1])
    return Tuning(min_samples, pool, weeks, min_pairs)


def aside_of(config: Config, found: Sequence[Visible], typical: Typical) -> dict[str, str]:
    """The reason for each rule on labels for which no label has enough rows; acting rules are never left out."""
    reasons = {}
    for rule in config.rules:
        visible = [each for each in found if each.rule is rule]
        if rule.acts or rule.scope == "source" or any(each.within(config.evaluation) for each in visible):
            continue
        most_rows = max((counts.rows / typical.weeks for label, counts in typical.labels.items() if label is not None))
        if visible:
            pool = config.evaluation.pool_weeks
            rows = max(each.rows for each in visible)
            reasons[rule.id] = f"no label has rows enough (at most {rows:,.0f} a week), even in {pool} weeks"
        elif rule.test is not None and most_rows < config.evaluation.min_samples:
            reasons[rule.id] = (
                f"no label has the {config.evaluation.min_samples} rows a week that it takes (at most {most_rows:,.0f})"
            )
    return reasons


def round_pairs(pairs: int) -> int:
    """The ``min_pairs`` to propose if ``pairs`` exist: a round number that is not larger, or ``pairs`` itself.

    >>> round_pairs(4928), round_pairs(64), round_pairs(7)
    (2000, 50, 7)
    """
    return next((step for step in PAIRS if step <= pairs), max(1, pairs))
