"""The typed form of alerts.yaml, which all other rooms read. ``load.py`` parses it and reports errors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, model_validator

from monitor.config.field_types import (
    ColumnOfLabel,
    Columns,
    ColumnType,
    Cost,
    Filled,
    Initial,
    Joined,
    Lease,
    Mention,
    Metric,
    Name,
    Operator,
    Probability,
    Relation,
    Repeat,
    Segments,
    SourceName,
    TimeZone,
    Version,
    Words,
)
from monitor.core.records import APPRISE, LIMITING, ActionKind, Schedule, ScoreIs, Severity, Where
from monitor.metrics.names import NEEDS, WHOLE

Condition = Literal["increase", "decrease", "above", "below", "accumulated"]
"""The metrics that the JSON document of a run always holds; a rule may name any of the registry."""
SourceKind = Literal["multilabel", "multiclass", "top_k", "regression", "single_label"]
TurnsOff = Literal["label", "segments"]
Certainty = Literal["none", "significant"]
RuleEvidence = Literal["window", "accumulated"]
JudgedValue = Literal["debiased", "plug_in"]
Mutable = Literal["traffic_mix"]
"""The reason for a breach that a rule may mute: more traffic where scores were wrong."""
Reference = Literal["baseline", "previous_weeks"]
OF_BANDS = ("overconfidence", "ece")
"""Metrics that are judged in bands of scores as well as in segment columns."""
TestName = Literal[
    "ks", "psi", "chi_square", "wasserstein", "jensen_shannon", "missing", "new_categories", "constant", "empty"
]
OF_FEATURES = ("missing", "new_categories", "constant", "empty")
"""Tests of feature columns only."""


class Strict(BaseModel):
    """Unknown keys are errors; instances cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class CostConfig(Strict):
    """What wrong decisions cost, in any unit; only the ratio of the costs matters for a threshold."""

    false_negative: Cost = 5.0
    false_positive: Cost = 1.0


ScoreMethod = Literal[
    "sequence_probability", "geometric_mean_probability", "mean_probability", "min_probability", "top_two_margin",
    "entropy_confidence", "top_two_log_margin", "vote_share", "vote_consistency", "vote_consistency_sample",
]  # fmt: skip
"""How a score is made; :data:`monitor.warehouse.score_construction.CONSTRUCTIONS` has the functions."""


class ScoreFrom(Strict):
    """How a score is made from a column of JSON arrays.

    The arrays are log-probabilities of an answer's tokens or of the possible labels, or votes of several runs.
    """

    source: Annotated[Literal["token_logprobs", "label_logprobs", "votes"], Field(alias="from")]
    method: ScoreMethod


class TruthConfig(Strict):
    """A second relation with the truths; ``on`` maps columns of the predictions to its columns, for the join."""

    relation: Relation
    on: Joined


class WideConfig(Strict):
    """A table with one column a label: the names of the columns, with ``{label}`` for the label's name.

    Without ``actual`` the relation has the column true_label. Without ``labels`` every column that fits ``score`` is a
    label's.
    """

    score: ColumnOfLabel
    actual: ColumnOfLabel | None = None
    predicted: ColumnOfLabel | None = None
    labels: tuple[Name, ...] = ()


class LabelConfig(Strict):
    """The settings of one label of a source."""

    critical: bool = False
    automate_at: Probability | None = None
    costs: CostConfig | None = None


_SCORE_IS = {"regression": "probability_of_label", "single_label": "confidence_in_prediction"}


class SourceConfig(Strict):
    """One relation of the warehouse and how to read it.

    ``unresolved``: a row without a truth waits for it; else it is rejected. ``truth_error`` is the share of truths that
    are wrong themselves.
    """

    SHAPE: ClassVar[frozenset[str]] = frozenset(
        {"score_scale", "positive", "negative", "latest_by", "agreement_by", "truth", "wide", "types", "unresolved"}
    )

    relation: Relation
    score_is: ScoreIs
    kind: SourceKind = "multilabel"
    score: ScoreFrom | None = None
    costs: CostConfig | None = None
    score_scale: Annotated[float, Field(gt=0.0, le=1e9)] = 1.0
    positive: Words = ()
    negative: Words = ()
    max_labels: Annotated[int, Field(ge=1)] = 10_000
    latest_by: Columns = ()
    agreement_by: Columns = ()
    truth: TruthConfig | None = None
    wide: WideConfig | None = None
    types: Mapping[Filled, ColumnType] = Field(default={})
    unresolved: bool = False
    columns: Mapping[str, Filled] = Field(default_factory=dict)
    window_on: Literal["resolved_at", "predicted_at"] = "resolved_at"
    segments: tuple[Name, ...] = ()
    features: tuple[Name, ...] = ()
    sample_size: Annotated[int, Field(ge=500, le=200_000)] = 5_000
    automate_at: Probability = 0.8
    truth_error: Annotated[float, Field(ge=0.0, lt=0.5)] = 0.0
    labels: Mapping[Filled, LabelConfig] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_kind_defaults(cls, source: Any) -> Any:
        """``score_is`` of sources of numbers, which have no scores, and of single labels, which have confidences."""
        score_is = _SCORE_IS.get(str(source.get("kind"))) if isinstance(source, dict) else None
        return source if score_is is None else {"score_is": score_is, **source}

    def automate_from(self, label: str | None) -> float:
        """The score from which the classifier acts alone on ``label``."""
        special = self.labels.get(label) if label is not None else None
        return self.automate_at if special is None or special.automate_at is None else special.automate_at

    def least_automate_at(self, label: str | None) -> float:
        """The lowest score that acts alone on ``label``; for the source as a whole (None), on any of its labels."""
        if label is not None:
            return self.automate_from(label)
        return min([self.automate_at, *(self.automate_from(name) for name in self.labels)])

    def is_critical(self, label: str | None) -> bool:
        """Whether ``label`` is critical: a miss on it is worse than a false alarm."""
        return label is not None and label in self.labels and self.labels[label].critical

    def costs_of(self, label: str | None) -> CostConfig | None:
        """The costs of wrong decisions on ``label``: its own, else the source's, else None."""
        special = self.labels.get(label) if label is not None else None
        return self.costs if special is None or special.costs is None else special.costs

    @property
    def matures(self) -> bool:
        """Whether windows hold the rows predicted in them, truths come later, and the source has ``unresolved``."""
        return self.window_on == "predicted_at" and self.unresolved

    @property
    def relations(self) -> tuple[str, ...]:
        """All relations of the warehouse that are read for this source."""
        return (self.relation,) if self.truth is None else (self.relation, self.truth.relation)

    @property
    def any_critical(self) -> bool:
        """Whether any label is critical: then the source's own switch, which stops all labels, is critical too."""
        return any(label.critical for label in self.labels.values())


class TopKConfig(Strict):
    """The number of bins for the ECE of the k highest scores, and the values of k."""

    bins: Annotated[int, Field(ge=2, le=100)] = 10
    ks: Annotated[tuple[Literal[1, 3, 5], ...], Field(min_length=1)] = (1, 3, 5)


class EvaluationConfig(Strict):
    """How numbers are computed, and above which share of rejected rows nothing is judged."""

    bins: Annotated[int, Field(ge=2, le=100)] = 15
    binning: Literal["equal_frequency", "equal_width"] = "equal_frequency"
    interval: Literal["bootstrap", "analytic", "percentile"] = "bootstrap"
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95
    false_discovery_rate: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    min_samples: Annotated[int, Field(ge=1)] = 500
    pool_weeks: Annotated[int, Field(ge=1, le=52)] = 4
    seed: Annotated[int, Field(ge=0)] = 20260101
    max_rejected: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    top_k: TopKConfig = TopKConfig()


class BaselineConfig(Strict):
    """The weeks and pairs that a baseline needs."""

    weeks: Annotated[int, Field(ge=1, le=104)] = 8
    min_pairs: Annotated[int, Field(ge=1)] = 10_000


class HistoryConfig(Strict):
    """For how many weeks the history keeps the details of windows (`calmon db prune`), and the counts of days.

    At least twelve weeks of day counts: daily rules need 52 days of evidence before windows that are restated up to 28
    days later.
    """

    keep_details: Annotated[int, Field(ge=16, le=520)] = 26
    keep_day_counts: Annotated[int, Field(ge=12, le=520)] = 12


def default_column(test: object) -> str | None:
    """The default column of a shift test; None if the rule must name one."""
    return None if test in OF_FEATURES else "label" if test == "chi_square" else "score"


class RuleMatch(Strict):
    """Which subjects a rule is about; all if nothing is given."""

    source: str | None = None
    label: Filled | None = None
    critical: bool | None = None
    but: Annotated[tuple[Filled, ...], Field(alias="except")] = ()

    @property
    def words(self) -> str:
        """What is written, in words: "source=tickets, except billing and fax"; "" where it is all."""
        named = self.model_dump(include={"source", "label", "critical"}, exclude_none=True)
        parts = [f"{key}={value}" for key, value in named.items()]
        return ", ".join(parts + [f"except {' and '.join(self.but)}"] * bool(self.but))


class Rule(Strict):
    """One rule. Exactly one of ``metric`` and ``test`` is set.

    ``average_run_length`` is the mean number of weeks until accumulating evidence gives a false alarm, for all labels
    of a source together. ``certainty`` "none" requires no p-value, ``value`` "plug_in" compares the textbook value with
    the threshold: both together are the textbook decision. ``evidence`` on a change is of one window (or pool), or
    accumulates. ``segments`` names the columns of a rule of ``scope:
    segments``; ``("all",)`` is every segment column of its source, and the bands of scores. ``turns_off`` says what
    disable_automation of such a rule turns off: the label, or the segments in breach. A breach with a reason in
    ``mute`` is only unconfirmed. ``mature`` is the share of expected truths that the rule waits for. ``reference``
    "previous_weeks" compares with the ``reference_weeks`` weeks before instead of the baseline.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=80)]
    metric: Metric | None = None
    test: TestName | None = None
    column: str | None = None
    where: Where = "all"
    condition: Condition = "above"
    threshold: float
    min_samples: Annotated[int, Field(ge=1)] | None = None
    schedule: Schedule = "weekly"
    for_windows: Annotated[int, Field(ge=1, le=30, alias="for")] = 1
    severity: Severity = "warning"
    actions: tuple[ActionKind, ...] = ("slack",)
    scope: Literal["labels", "source", "segments"] = "labels"
    segments: Segments = ()
    match: RuleMatch = RuleMatch()
    average_run_length: Annotated[int, Field(ge=1, le=5_200)] = 520
    certainty: Certainty = "significant"
    evidence: RuleEvidence = "window"
    value: JudgedValue = "debiased"
    mute: tuple[Mutable, ...] = ()
    mature: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    turns_off: TurnsOff = "label"
    reference: Reference = "baseline"
    reference_weeks: Annotated[int, Field(ge=1, le=13)] = 4

    @model_validator(mode="before")
    @classmethod
    def _with_kind_defaults(cls, rule: Any) -> Any:
        """Metrics of whole rows, and shift tests except of scores, are of the source as a whole.

        A rule on segments is about all segments unless it names columns.
        """
        if not isinstance(rule, dict):
            return rule
        in_segments = rule.get("scope") == "segments"
        if rule.get("segments") == "all" or (in_segments and rule.get("segments") is None):
            rule = {**rule, "segments": ("all",)}
        if NEEDS.get(str(rule.get("metric"))) in WHOLE:
            return {"scope": "source", **rule}
        if in_segments or rule.get("test") is None:
            return rule
        column = rule.get("column") or default_column(rule["test"])
        return {"scope": "labels" if column == "score" else "source", **rule, "column": column}

    @property
    def is_plain(self) -> bool:
        """Whether a value beyond the threshold is a breach, significant or not."""
        return self.certainty == "none"

    @property
    def compares(self) -> bool:
        """Whether the rule is about a change since its reference."""
        return self.condition in ("increase", "decrease")

    @property
    def is_of_mix(self) -> bool:
        """Whether it is about the mix of labels, predicted or true, which is compared label by label."""
        return self.test == "chi_square" and self.column in ("label", "actual")

    @property
    def rolls(self) -> bool:
        """Whether the rule compares with the weeks before instead of the baseline."""
        return self.reference == "previous_weeks"

    @property
    def accumulates(self) -> bool:
        """Whether the rule accumulates evidence over many windows, with a false-alarm rate of its own."""
        return "accumulated" in (self.condition, self.evidence)

    @property
    def counts_segments(self) -> bool:
        """Whether the rule needs the counts of segments; accumulating evidence needs only their promises."""
        return self.scope == "segments" and not self.accumulates

    @property
    def measure(self) -> str:
        """The name of the metric or of the test."""
        return self.metric or self.test or ""

    @property
    def acts(self) -> bool:
        """Whether the rule may touch the switch."""
        return bool({"disable_automation", *LIMITING} & set(self.actions))

    def applies_to(self, source: str, label: str | None, *, critical: bool) -> bool:
        """Whether the rule is about this subject."""
        if (label is None) != (self.scope == "source"):
            return False
        match = self.match
        if label in match.but:
            return False
        return match.source in (None, source) and match.label in (None, label) and match.critical in (None, critical)


class ReEnableAfter(Strict):
    """Automation comes back by itself after so many good windows in a row."""

    after: Annotated[int, Field(ge=1, le=52)]


class AutomationConfig(Strict):
    """How the switch behaves."""

    when_not_evaluated: Literal["keep", "disable"]
    lease: Lease = timedelta(days=9)
    initial: Initial = "off"
    re_enable: Literal["manual"] | ReEnableAfter = "manual"
    operators: tuple[Operator, ...] = ()
    dry_run: bool = False


class RouteMatch(Strict):
    """Which incidents a route takes; all if nothing is given."""

    severity: Severity | None = None
    source: str | None = None
    label: Filled | None = None
    rule: str | None = None


class Route(Strict):
    """Where messages of incidents go. The first route that matches takes an incident."""

    match: RouteMatch = RouteMatch()
    channel: Name = ""
    apprise: Name | None = None
    mention: Mention | None = None
    repeat: Repeat = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where its messages go, as deliveries name it: the Slack channel first, if there is one."""
        return tuple(filter(None, (self.channel, self.apprise and f"{APPRISE}{self.apprise}")))


class Config(Strict):
    """The whole of alerts.yaml."""

    version: Version
    timezone: TimeZone = "UTC"
    sources: Mapping[SourceName, SourceConfig]
    evaluation: EvaluationConfig = EvaluationConfig()
    baseline: BaselineConfig = BaselineConfig()
    history: HistoryConfig = HistoryConfig()
    rules: tuple[Rule, ...]
    automation: AutomationConfig
    routes: tuple[Route, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in which weeks and days begin."""
        return ZoneInfo(self.timezone)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, and so with another revision."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("revision", None)
        return copied

    @cached_property
    def revision(self) -> str:
        """A hash of all that can change a verdict; cached, since each verdict needs it."""
        parts = (self.evaluation, self.baseline, *self.rules, *self.sources.values())
        text = "\n".join(part.model_dump_json() for part in parts) + self.timezone
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def thresholds(self) -> dict[tuple[str, str | None], float]:
        """By (source, label), the score from which the label may act alone; label None: all other labels."""
        found: dict[tuple[str, str | None], float] = {}
        for name, source in self.sources.items():
            found[name, None] = source.automate_at
            found |= {(name, label): source.automate_from(label) for label in source.labels}
        return found

    def rules_for(self, schedule: Schedule) -> tuple[Rule, ...]:
        """The rules that run on ``schedule``, in the order of the file."""
        return tuple(rule for rule in self.rules if rule.schedule == schedule)

    def counts_segments(self, schedule: Schedule, *, compared: bool = False) -> bool:
        """Whether a rule of a schedule needs the counts of segments; ``compared``: and those of the baseline."""
        rules = (rule for rule in self.rules_for(schedule) if rule.counts_segments)
        return any(rule.compares or not compared for rule in rules)

    def decision_rules(self, schedule: Schedule) -> int:
        """How many rules of a schedule share the false discovery rate: not plain ones, nor those that accumulate."""
        sharing = (rule for rule in self.rules_for(schedule) if not (rule.accumulates or rule.is_plain))
        return sum(rule.metric is not None for rule in sharing)

    @property
    def addresses(self) -> frozenset[str]:
        """All places where messages go."""
        return frozenset(address for route in self.routes for address in route.addresses)

    @property
    def critical_route(self) -> Route | None:
        """The route of critical incidents of any source, else the first route; None without routes."""
        route = self.route_for(severity="critical", source="", label=None, rule="")
        return route or next(iter(self.routes), None)

    def route_for(self, *, severity: Severity, source: str, label: str | None, rule: str) -> Route | None:
        """The first route whose match fits, or None."""
        for route in self.routes:
            m = route.match
            if (
                m.severity in (None, severity)
                and m.source in (None, source)
                and m.label in (None, label)
                and m.rule in (None, rule)
            ):
                return route
        return None
