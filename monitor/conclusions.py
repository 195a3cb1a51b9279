"""What to conclude from the numbers of one label: the light, and what to do, each with a named reason.

The tables are data: TREE (the first row that fits), ACTIONS (every row that fits, and they win over the tree and
over the bands of single metrics), LIGHTS. Each row's reason is a heading of docs/conclusions.md. Values are debiased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from monitor.recalibration.choice import Choice, choose
from monitor.recalibration.gain import Gain
from monitor.recalibration.score_map import Method
from monitor.records import Estimate

Light = Literal["red", "amber", "green", "grey"]
Quantity = Literal[
    "ece", "mce", "roc_auc", "ece_rise", "mce_rise", "ece_today", "ece_yesterday", "rows", "threshold"
]  # fmt: skip
Sign = Literal[">", "<", ">=", "<="]
Act = Literal[
    "retrain", "recalibrate", "deploy", "set_threshold", "block_scores", "alert", "automation_off", "collect_more"
]  # fmt: skip

LEAST_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one label in one window; None where it is not.

    ``ece_rise`` and ``mce_rise`` are changes against the baseline, ``ece_today`` and ``ece_yesterday`` the last two
    days' ECE, ``rows`` the (item, label) pairs, ``worst_range`` the scores of the worst bin, ``threshold`` the score
    that meets the target accuracy, ``gains`` what recalibration is worth.
    """

    ece: float | None = None
    mce: float | None = None
    roc_auc: float | None = None
    ece_rise: float | None = None
    mce_rise: float | None = None
    ece_today: float | None = None
    ece_yesterday: float | None = None
    rows: int | None = None
    worst_range: tuple[float, float] | None = None
    threshold: float | None = None
    gains: Mapping[Method, Gain] = field(default_factory=dict)
    evaluated: bool = True


@dataclass(frozen=True, slots=True)
class Condition:
    """``quantity sign limit``; it does not hold where the quantity is not known."""

    quantity: Quantity
    sign: Sign
    limit: float

    def holds(self, facts: Facts) -> bool:
        """Whether the facts meet it."""
        value: float | None = getattr(facts, self.quantity)
        if value is None:
            return False
        return {
            ">": value > self.limit, "<": value < self.limit, ">=": value >= self.limit, "<=": value <= self.limit,
        }[self.sign]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.quantity} {self.sign} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """Where all conditions hold, ``act``; ``sentence`` says what to do. ``method`` is the tree's recalibration."""

    reason: str
    conditions: tuple[Condition, ...]
    act: Act
    sentence: str
    method: Method | None = None

    def holds(self, facts: Facts) -> bool:
        """Whether the row fits the facts."""
        return all(condition.holds(facts) for condition in self.conditions)

    @property
    def docs(self) -> str:
        """Where it is explained."""
        return f"docs/conclusions.md#{self.reason}"


@dataclass(frozen=True, slots=True)
class LightRow:
    """The light where all conditions hold."""

    reason: str
    light: Light
    conditions: tuple[Condition, ...]


def _row(reason: str, act: Act, sentence: str, *conditions: Condition, method: Method | None = None) -> Row:
    return Row(reason, conditions, act, sentence, method)


_TELLS_APART = Condition("roc_auc", ">=", 0.80)

TREE: tuple[Row, ...] = (
    _row("weak_discrimination", "retrain", "retrain: the scores do not tell hits from misses well enough",
         Condition("roc_auc", "<", 0.80)),
    _row("well_calibrated", "deploy", "deploy with the chosen threshold",
         _TELLS_APART, Condition("ece", "<=", 0.05)),
    _row("moderately_off", "recalibrate", "recalibrate by temperature scaling",
         _TELLS_APART, Condition("ece", "<=", 0.15), method="temperature"),
    _row("far_off", "recalibrate", "recalibrate by isotonic regression, and validate on new rows",
         _TELLS_APART, Condition("ece", ">", 0.15), method="isotonic"),
)  # fmt: skip
"""The tree: the first row that fits."""

ACTIONS: tuple[Row, ...] = (
    _row("ece_high_two_days", "automation_off", "turn the automation off: the ECE was high on two days running",
         Condition("ece_today", ">", 0.08), Condition("ece_yesterday", ">", 0.08)),
    _row("mce_critical", "block_scores", "block the scores of the worst bin",
         Condition("mce", ">", 0.20)),
    _row("auc_low", "retrain", "retrain: the scores do not tell hits from misses well enough",
         Condition("roc_auc", "<", 0.80)),
    _row("ece_high", "recalibrate", "recalibrate",
         Condition("ece", ">", 0.05)),
    _row("ece_rose", "alert", "find out what changed: the ECE rose against the baseline",
         Condition("ece_rise", ">", 0.02)),
    _row("mce_rose", "alert", "find out what changed: the MCE rose against the baseline",
         Condition("mce_rise", ">", 0.05)),
    _row("few_pairs", "collect_more", "collect more pairs before concluding",
         Condition("rows", "<", LEAST_PAIRS)),
    _row("threshold_known", "set_threshold", "automate from the chosen threshold",
         Condition("threshold", ">=", 0.0)),
)  # fmt: skip
"""The action table: every row that fits, the gravest first."""

NO_MAP_HELPS = _row("no_map_helps", "retrain",
                    "retrain, or look at the segments: no recalibration helps on rows it has not seen")  # fmt: skip
"""Takes the place of "recalibrate" where the cross-validated gains are known and none is worth it."""

LIGHTS: tuple[LightRow, ...] = (
    LightRow("red_ece", "red", (Condition("ece", ">", 0.15),)),
    LightRow("red_auc", "red", (Condition("roc_auc", "<", 0.75),)),
    LightRow("red_mce", "red", (Condition("mce", ">", 0.20),)),
    LightRow(
        "green", "green",
        (Condition("ece", "<=", 0.05), Condition("roc_auc", ">=", 0.80), Condition("mce", "<=", 0.15)),
    ),
)  # fmt: skip
"""The light: the first row that fits, else amber; grey where nothing was evaluated, or no number is known."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do: its named reason (a heading of docs/conclusions.md), and the sentence for people."""

    act: Act
    reason: str
    sentence: str
    docs: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The light with its reasons, and what to do, the gravest first.

    ``recalibration`` is the choice among the methods by their cross-validated gains, None where there are no gains.
    """

    light: Light
    reasons: tuple[str, ...]
    advice: tuple[Advice, ...]
    recalibration: Choice | None = None


def conclude(facts: Facts) -> Conclusion:
    """The light and the advice of one label.

    Advice comes from the action table; the tree adds what the table leaves open: "deploy", where no action speaks
    against it, and the method of a recalibration. Where cross-validated gains are known, they decide on the method.

    >>> found = conclude(Facts(ece=0.12, mce=0.14, roc_auc=0.9, rows=20_000))
    >>> found.light, [(one.act, one.reason) for one in found.advice]
    ('amber', [('recalibrate', 'ece_high')])
    >>> found.advice[0].sentence
    'recalibrate: by temperature scaling'
    """
    name, reasons = lit(facts)
    if name == "grey":
        return Conclusion(name, reasons, ())
    rows = [row for row in ACTIONS if row.holds(facts)]
    acts = {row.act for row in rows}
    if "automation_off" in acts:
        rows = [row for row in rows if row.act != "set_threshold"]
    branch = next((row for row in TREE if row.holds(facts)), None)
    if branch is not None and branch.act == "deploy" and acts <= {"set_threshold"}:
        rows.append(branch)
    choice = choose(facts.gains) if facts.gains else None
    if choice is not None and choice.reason == "none_helps":
        rows = [NO_MAP_HELPS if row.act == "recalibrate" else row for row in rows]
    return Conclusion(name, reasons, tuple(_advice(row, facts, branch, choice) for row in rows), choice)


def lit(facts: Facts) -> tuple[Light, tuple[str, ...]]:
    """The light and the rows of LIGHTS it comes from; ``amber`` and ``grey`` name themselves."""
    if not facts.evaluated or (facts.ece is None and facts.roc_auc is None and facts.mce is None):
        return "grey", ("grey",)
    fitting = [row for row in LIGHTS if all(condition.holds(facts) for condition in row.conditions)]
    if not fitting:
        return "amber", ("amber",)
    return fitting[0].light, tuple(row.reason for row in fitting)


def light(ece: float | None, roc_auc: float | None, mce: float | None, *, evaluated: bool = True) -> Light:
    """The light of one label in one window, on debiased values.

    Red: any of ECE > .15, AUC < .75, MCE > .20. Green: ECE <= .05 and AUC >= .80 and MCE <= .15.
    Grey: not evaluated, or no number at all. Else amber; so green needs all three numbers.

    >>> light(0.02, 0.91, 0.08), light(0.08, 0.91, 0.08), light(0.02, 0.70, 0.08)
    ('green', 'amber', 'red')
    >>> light(0.02, None, 0.08), light(0.02, 0.91, 0.08, evaluated=False)
    ('amber', 'grey')
    """
    return lit(Facts(ece=ece, roc_auc=roc_auc, mce=mce, evaluated=evaluated))[0]


def facts_of(
    estimates: Sequence[Estimate],
    gains: Mapping[Method, Gain],
    *,
    ece_rise: float | None = None,
    mce_rise: float | None = None,
    days: tuple[float | None, float | None] = (None, None),
    threshold: float | None = None,
    evaluated: bool = True,
) -> Facts:
    """The facts of one label from its estimates over all rows in one window, and what else is known.

    ``days`` are the debiased ECE of the day before the last and of the last.
    """
    of_all = {one.metric: one for one in estimates if one.where == "all"}

    def value(metric: str) -> float | None:
        return of_all[metric].interval.value if metric in of_all else None

    worst = of_all["mce"].detail.get("worst_range") if "mce" in of_all else None
    return Facts(
        ece=value("ece"), mce=value("mce"), roc_auc=value("roc_auc"), ece_rise=ece_rise, mce_rise=mce_rise,
        ece_yesterday=days[0], ece_today=days[1], rows=max((one.n for one in of_all.values()), default=None),
        worst_range=None if worst is None else (float(worst[0]), float(worst[1])), threshold=threshold,
        gains=gains, evaluated=evaluated,
    )  # fmt: skip


def _advice(row: Row, facts: Facts, branch: Row | None, choice: Choice | None) -> Advice:
    return Advice(row.act, row.reason, row.sentence + _more(row, facts, branch, choice), row.docs)


def _more(row: Row, facts: Facts, branch: Row | None, choice: Choice | None) -> str:
    """What the facts add to a row's sentence."""
    if row.act == "recalibrate":
        return _method(branch, choice)
    if row.act == "block_scores" and facts.worst_range is not None:
        low, high = facts.worst_range
        return f", {low:.2f} to {high:.2f}"
    if row.act == "set_threshold" and facts.threshold is not None:
        return f", {facts.threshold:.2f}"
    return ""


def _method(branch: Row | None, choice: Choice | None) -> str:
    if choice is not None and choice.method is not None:
        return f": {choice.sentence}"
    if branch is None or branch.method is None:
        return ""
    return f": {branch.sentence.removeprefix('recalibrate ')}"
