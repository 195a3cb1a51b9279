"""The conclusion about one label: what to do, from the verdicts of the window, and the handbook's level.

The tables are data. ADVICE: rows that fit a verdict, the most severe first; each advice names the rule and outcome
it comes from, so none can contradict a verdict. LEVELS and BANDS are the handbook's view of the debiased values: they
describe, and advise nothing. Each row's reason is a heading of docs/conclusions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import Literal

from monitor.core.records import Estimate, Outcome, Reason, Verdict
from monitor.evaluation.label_state import State, outcome_text, state_of
from monitor.metrics.top_k import ON_RANKED
from monitor.recalibration.choice import Choice, choose
from monitor.recalibration.gain import Gain
from monitor.recalibration.score_map import Method

Level = Literal["red", "amber", "green", "grey"]
Quantity = Literal["ece", "mce", "roc_auc", "ece_rise", "mce_rise", "ece_today", "ece_yesterday", "pairs", "threshold"]
Sign = Literal[">", "<", ">=", "<="]
_SIGNS: Mapping[Sign, Callable[[float, float], bool]] = {">": gt, "<": lt, ">=": ge, "<=": le}
_Stop = Literal["automation_off", "block_scores"]
_Fix = Literal["retrain", "recalibrate", "find_missed", "investigate", "pin_baseline", "fix_source"]
Act = Literal[_Stop, _Fix, "collect_more", "wait", "nothing"]

LEAST_PAIRS = 10_000
"""How many (item, label) pairs the handbook requires of an evaluation, over all labels of a source in one window."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The known facts about one label in one window; None: not known.

    ``ece_rise`` and ``mce_rise`` are changes against the baseline, ``ece_today`` and ``ece_yesterday`` the last two
    days' ECE, ``pairs`` the (item, label) pairs of all labels of the source, ``worst_range`` the scores of the worst
    bin, ``threshold`` the score that meets the target accuracy, ``gains`` what recalibration is worth. ``new_version``
    says in words how the main model version changed ("" where it did not).
    """

    ece: float | None = None
    mce: float | None = None
    roc_auc: float | None = None
    ece_rise: float | None = None
    mce_rise: float | None = None
    ece_today: float | None = None
    ece_yesterday: float | None = None
    pairs: int | None = None
    worst_range: tuple[float, float] | None = None
    threshold: float | None = None
    gains: Mapping[Method, Gain] = field(default_factory=dict)
    new_version: str = ""
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
        return value is not None and _SIGNS[self.sign](value, self.limit)

    def __str__(self) -> str:
        return f"{self.quantity} {self.sign} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class BandRow:
    """A band of the handbook: where all conditions hold, ``sentence`` describes the numbers.

    ``method`` is the recalibration that the handbook's tree names for the band.
    """

    reason: str
    conditions: tuple[Condition, ...]
    sentence: str
    method: Method | None = None

    def holds(self, facts: Facts) -> bool:
        """Whether the row fits the facts."""
        return all(condition.holds(facts) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class LevelRow:
    """The level where all conditions hold."""

    reason: str
    level: Level
    conditions: tuple[Condition, ...]


_DISCRIMINATES = Condition("roc_auc", ">=", 0.80)

_WEAK = (Condition("roc_auc", "<", 0.80),)
_WELL = (_DISCRIMINATES, Condition("ece", "<=", 0.05))
_MODERATE = (_DISCRIMINATES, Condition("ece", "<=", 0.15))
_FAR = (_DISCRIMINATES, Condition("ece", ">", 0.15))
TREE: tuple[BandRow, ...] = (
    BandRow("weak_discrimination", _WEAK, "ROC AUC below 0.80: the band of retraining"),
    BandRow("well_calibrated", _WELL, "ROC AUC at least 0.80 and ECE at most 0.05: well calibrated"),
    BandRow(
        "moderately_off", _MODERATE, "ECE above 0.05, at most 0.15: the band of temperature scaling", "temperature"
    ),
    BandRow("far_off", _FAR, "ECE above 0.15: the band of isotonic regression", "isotonic"),
)
"""The handbook's tree: the first row that fits."""

_TWO_DAYS = (Condition("ece_today", ">", 0.08), Condition("ece_yesterday", ">", 0.08))
_FEW = (Condition("pairs", "<", LEAST_PAIRS),)
_KNOWN = (Condition("threshold", ">=", 0.0),)
BANDS: tuple[BandRow, ...] = (
    BandRow("ece_high_two_days", _TWO_DAYS, "ECE above 0.08 on the last two days"),
    BandRow("mce_critical", (Condition("mce", ">", 0.20),), "MCE above 0.20"),
    BandRow("ece_rose", (Condition("ece_rise", ">", 0.02),), "ECE more than 0.02 above the baseline"),
    BandRow("mce_rose", (Condition("mce_rise", ">", 0.05),), "MCE more than 0.05 above the baseline"),
    BandRow("few_pairs", _FEW, "fewer than 10,000 pairs over all labels of this evaluation"),
    BandRow("threshold_known", _KNOWN, "the target accuracy is shown from a score on"),
)
"""The handbook's other limits: every row that fits."""

_GREEN = (Condition("ece", "<=", 0.05), Condition("roc_auc", ">=", 0.80), Condition("mce", "<=", 0.15))
LEVELS: tuple[LevelRow, ...] = (
    LevelRow("red_ece", "red", (Condition("ece", ">", 0.15),)),
    LevelRow("red_auc", "red", (Condition("roc_auc", "<", 0.75),)),
    LevelRow("red_mce", "red", (Condition("mce", ">", 0.20),)),
    LevelRow("green", "green", _GREEN),
)
"""The level: the first row that fits, else amber; grey where nothing was evaluated, or no number is known."""

Fits = Callable[[Verdict, Facts], bool]


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """What one kind of verdict asks people to do: verdicts with ``outcome`` for which ``fits`` holds."""

    reason: str
    outcome: Outcome
    act: Act
    sentence: str
    fits: Fits

    @property
    def docs(self) -> str:
        """The section of the documents that explains it."""
        return f"docs/conclusions.md#{self.reason}"


_RANKING = frozenset({"roc_auc", "pr_auc", "auc_ovo", "auc_ovr_macro", "auc_ovr_weighted", "imcp_area"})
_CALIBRATION = frozenset({
    "ece", "mce", "ace", "brier", "nll", "equal_width_ece", "overconfidence", "class_weighted_nll", "brier_reliability",
    "brier_resolution", "brier_uncertainty", *(name for name, same in ON_RANKED.items() if same != "prevalence"),
})  # fmt: skip
_MISSES = frozenset({"false_negative_rate", "recall"})


def _by_action(action: str) -> Fits:
    return lambda verdict, _: action in verdict.actions


def _by_metric(metrics: Collection[str]) -> Fits:
    return lambda verdict, _: verdict.metric in metrics and verdict.reason not in (Reason.TRAFFIC_MIX, Reason.CLASS_MIX)


def _by_reason(*reasons: Reason) -> Fits:
    return lambda verdict, _: verdict.reason in reasons


def _mix(*, new_version: bool) -> Fits:
    return lambda verdict, facts: verdict.reason == Reason.TRAFFIC_MIX and bool(facts.new_version) == new_version


_row = AdviceRow
ADVICE: tuple[AdviceRow, ...] = (
    _row("people_decide", "breach", "automation_off", "let people decide these items",
         _by_action("disable_automation")),
    _row("people_decide_scores", "breach", "block_scores", "let people decide these scores",
         _by_action("block_scores")),
    _row("misses_too_many", "breach", "find_missed",
         "search recent items for missed ones; then lower the decision threshold or retrain", _by_metric(_MISSES)),
    _row("ranking_poor", "breach", "retrain", "retrain: the scores do not separate hits from misses well enough",
         _by_metric(_RANKING)),
    _row("scores_off", "breach", "recalibrate", "recalibrate", _by_metric(_CALIBRATION)),
    _row("something_changed", "breach", "investigate",
         "find out what changed since the baseline: a model version, a prompt, a channel",
         _by_reason(Reason.INCREASED, Reason.DECREASED)),
    _row("version_changed", "breach", "investigate", "compare the model versions", _mix(new_version=True)),
    _row("traffic_moved", "breach", "investigate",
         "find the segment that grew, and recalibrate where its scores were wrong before", _mix(new_version=False)),
    _row("class_mix_moved", "breach", "investigate",
         "check whether the share of true items is the season's; recalibrate if it stays",
         _by_reason(Reason.CLASS_MIX)),
    _row("data_shifted", "breach", "investigate",
         "check whether ECE or overconfidence moved too; pin a new baseline if the new traffic stays",
         _by_reason(Reason.DISTRIBUTION_SHIFTED)),
    _row("level_missed", "breach", "investigate", "read some of the wrong items, then recalibrate or retrain",
         lambda verdict, _: verdict.reason in (Reason.ABOVE_THRESHOLD, Reason.BELOW_THRESHOLD)
         and verdict.metric not in _CALIBRATION | _RANKING | _MISSES),
    _row("scores_moved", "not_evaluated", "investigate",
         "treat it as a breach until you know why the scores moved; if they are meant, pin a new baseline",
         _by_reason(Reason.SCORES_MOVED)),
    _row("rows_rejected", "not_evaluated", "fix_source",
         "fix the rejected rows at their source, then run the window again",
         _by_reason(Reason.REJECTED_ROWS)),
    _row("source_not_read", "not_evaluated", "fix_source", "run `calmon check`, then the window again",
         _by_reason(Reason.RELATION_ERROR, Reason.WAREHOUSE_FAILED)),
    _row("unresolved_not_read", "not_evaluated", "fix_source",
         "look at the notes, which say what could not be read and why; fix it, then run the window again",
         _by_reason(Reason.UNRESOLVED_FAILED)),
    _row("no_outcomes", "not_evaluated", "fix_source", "check that outcomes of this label reach the warehouse",
         lambda verdict, _: verdict.reason == Reason.NO_ROWS and (verdict.where == "all" or not verdict.n)),
    _row("nothing_acted", "not_evaluated", "nothing",
         "no item is of this rule's rows: check `automate_at` if some should be",
         lambda verdict, _: verdict.reason == Reason.NO_ROWS and verdict.where != "all" and bool(verdict.n)),
    _row("no_baseline", "not_evaluated", "pin_baseline", "pin a baseline: `calmon baseline pin`",
         _by_reason(Reason.NO_BASELINE)),
    _row("settings_changed", "not_evaluated", "pin_baseline",
         "pin a baseline under the present settings: `calmon baseline pin`", _by_reason(Reason.SETTINGS_CHANGED)),
    _row("not_confirmed", "unconfirmed", "wait", "wait for the next window", lambda _, __: True),
    _row("few_rows", "not_evaluated", "collect_more", "wait for more rows, or pool more windows (`pool_weeks`)",
         _by_reason(Reason.TOO_FEW_ROWS)),
    _row("not_mature", "not_evaluated", "wait", "wait: too few truths are known yet", _by_reason(Reason.NOT_MATURE)),
    _row("in_baseline", "not_evaluated", "nothing", "nothing to do: this window is part of the baseline",
         _by_reason(Reason.IN_BASELINE)),
)  # fmt: skip
"""What verdicts ask for, the most severe first: every row that fits a verdict.

``few_rows`` and ``not_confirmed`` are left out beside a breach.
"""

_NO_MAP = "retrain, or look at the segments: no recalibration helps on rows not seen"
NO_MAP_HELPS = AdviceRow("no_map_helps", "breach", "retrain", _NO_MAP, _by_metric(_CALIBRATION))
"""Replaces "recalibrate" where the cross-validated gains are known and no method helps."""

ALL_OK = "all_ok"
NO_RULE = "no_rule"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do: its named reason (a heading of docs/conclusions.md), the sentence for people, and its basis:
    each rule with its outcome, "ece-increase: breach"."""

    act: Act
    reason: str
    sentence: str
    docs: str
    basis: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The sentence with its basis in brackets."""
        return f"{self.sentence} ({', '.join(self.basis)})" if self.basis else self.sentence


@dataclass(frozen=True, slots=True)
class FoundBand:
    """One band of the handbook that the numbers lie in: its named reason, and the numbers described."""

    reason: str
    sentence: str
    docs: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The advice, the most severe first, and separately the handbook's level with its reasons and bands.

    ``recalibration`` is the choice among the methods by their cross-validated gains, None where there are no gains.
    """

    level: Level
    reasons: tuple[str, ...]
    advice: tuple[Advice, ...]
    bands: tuple[FoundBand, ...] = ()
    recalibration: Choice | None = None


def conclude(facts: Facts, verdicts: Iterable[Verdict] = ()) -> Conclusion:
    """What the verdicts of one label in one window ask for, and the level of its numbers.

    Where cross-validated gains are known, they decide on the method of a recalibration, not the tree.

    >>> found = conclude(Facts(ece=0.12, mce=0.14, roc_auc=0.9, pairs=20_000))
    >>> found.level, [one.reason for one in found.bands], [one.reason for one in found.advice]
    ('amber', ['moderately_off'], ['no_rule'])
    """
    judged = tuple(verdicts)
    name, reasons = level_of(facts)
    choice = choose(facts.gains) if facts.gains else None
    branch = next((row for row in TREE if row.holds(facts)), None)
    breached = any(verdict.outcome == "breach" for verdict in judged)
    bands = () if name == "grey" else tuple(_bands(facts, branch, choice, breached=breached))
    return Conclusion(name, reasons, advice_of(judged, facts, branch, choice), bands, choice)


def advice_of(
    verdicts: Sequence[Verdict], facts: Facts, branch: BandRow | None = None, choice: Choice | None = None
) -> tuple[Advice, ...]:
    """Every advice that the verdicts ask for, each once, with all the rules it comes from."""
    breached = any(verdict.outcome == "breach" for verdict in verdicts)
    found = []
    for row in ADVICE:
        fitting = [v for v in verdicts if v.outcome == row.outcome and row.fits(v, facts)]
        if fitting and not (breached and row.act in ("collect_more", "wait")):
            no_map_helps = row.act == "recalibrate" and choice is not None and choice.reason == "none_helps"
            shown = NO_MAP_HELPS if no_map_helps else row
            found.append(_advice(shown, fitting, _method(branch, choice), facts.new_version))
    if found:
        return tuple(found)
    state = state_of(verdicts)
    if state.state is State.NO_RULE:
        return (Advice("nothing", NO_RULE, "no rule: nothing is advised", f"docs/conclusions.md#{NO_RULE}"),)
    return (Advice("nothing", ALL_OK, "nothing to do", f"docs/conclusions.md#{ALL_OK}", (state.words,)),)


def _advice(row: AdviceRow, verdicts: Sequence[Verdict], method: str, new_version: str) -> Advice:
    """The advice of a row, with the facts added to its sentence."""
    more = ""
    if row.act == "recalibrate":
        more = method
    elif row.act == "block_scores":
        ranges = [f"{low:.2f} to {high:.2f}" for v in verdicts for low, high in v.detail.get("blocked", ())]
        more = f", {', '.join(ranges)}" if ranges else ""
    elif row.reason == "version_changed":
        more = f": {new_version}"
    basis = tuple(dict.fromkeys(f"{v.rule}: {outcome_text(v)}" for v in verdicts))
    return Advice(row.act, row.reason, row.sentence + more, row.docs, basis)


def _method(branch: BandRow | None, choice: Choice | None) -> str:
    """The end of a sentence that says how to recalibrate; "" where no method is known."""
    if choice is not None and choice.method is not None:
        return f": {choice.sentence}"
    if branch is None or branch.method is None:
        return ""
    named = {"temperature": "by temperature scaling", "isotonic": "by isotonic regression, and validate on new rows"}
    return f": {named[branch.method]}"


def _bands(facts: Facts, branch: BandRow | None, choice: Choice | None, *, breached: bool) -> Iterable[FoundBand]:
    rows = [row for row in BANDS if row.holds(facts) and not (breached and row.reason == "few_pairs")]
    for row in [*([] if branch is None else [branch]), *rows]:
        yield FoundBand(row.reason, row.sentence + _described(row, facts, choice), f"docs/conclusions.md#{row.reason}")


def _described(row: BandRow, facts: Facts, choice: Choice | None) -> str:
    """The facts to add to a band's sentence."""
    if row.method is not None and choice is not None:
        return f"; {choice.sentence}"
    if row.reason == "mce_critical" and facts.worst_range is not None:
        return f", in scores {facts.worst_range[0]:.2f} to {facts.worst_range[1]:.2f}"
    if row.reason == "threshold_known":
        return f": {facts.threshold:.2f}"
    return f": {facts.pairs:,}" if row.reason == "few_pairs" else ""


def level_of(facts: Facts) -> tuple[Level, tuple[str, ...]]:
    """The level and the reasons of its rows of LEVELS; ``amber`` and ``grey`` are reasons themselves."""
    if not facts.evaluated or (facts.ece is None and facts.roc_auc is None and facts.mce is None):
        return "grey", ("grey",)
    fitting = [row for row in LEVELS if all(condition.holds(facts) for condition in row.conditions)]
    if not fitting:
        return "amber", ("amber",)
    return fitting[0].level, tuple(row.reason for row in fitting)


def level(ece: float | None, roc_auc: float | None, mce: float | None, *, evaluated: bool = True) -> Level:
    """The handbook's level of one label in one window, on debiased values.

    Red: any of ECE > .15, AUC < .75, MCE > .20. Green: ECE <= .05 and AUC >= .80 and MCE <= .15.
    Grey: not evaluated, or no number at all. Else amber; so green needs all three numbers.

    >>> level(0.02, 0.91, 0.08), level(0.08, 0.91, 0.08), level(0.02, 0.70, 0.08)
    ('green', 'amber', 'red')
    >>> level(0.02, None, 0.08), level(0.02, 0.91, 0.08, evaluated=False)
    ('amber', 'grey')
    """
    return level_of(Facts(ece=ece, roc_auc=roc_auc, mce=mce, evaluated=evaluated))[0]


def level_after(gain: Gain, roc_auc: float | None) -> Level:
    """The level that a label would have with the new scores of a map, on rows that the map was not fitted on.

    No map changes the order of scores, so the AUC stays the same. Grey where the map is not offered, or where the
    history has no MCE of the new scores.
    """
    if gain.after is None or gain.after.mce is None:
        return "grey"
    return level(gain.after.ece.value, roc_auc, gain.after.mce)


def facts_of(
    estimates: Sequence[Estimate],
    gains: Mapping[Method, Gain],
    *,
    ece_rise: float | None = None,
    mce_rise: float | None = None,
    days: tuple[float | None, float | None] = (None, None),
    threshold: float | None = None,
    pairs: int | None = None,
    new_version: str = "",
    evaluated: bool = True,
) -> Facts:
    """The facts of one label from its estimates over all rows in one window, and the arguments.

    ``days`` are the debiased ECE of the day before the last day, and of the last day.
    """
    of_all = {one.metric: one for one in estimates if one.where == "all"}

    def value(metric: str) -> float | None:
        return of_all[metric].interval.value if metric in of_all else None

    worst = of_all["mce"].detail.get("worst_range") if "mce" in of_all else None
    return Facts(
        ece=value("ece"), mce=value("mce"), roc_auc=value("roc_auc"), ece_rise=ece_rise, mce_rise=mce_rise,
        ece_yesterday=days[0], ece_today=days[1], pairs=pairs,
        worst_range=None if worst is None else (float(worst[0]), float(worst[1])), threshold=threshold,
        gains=gains, new_version=new_version, evaluated=evaluated,
    )  # fmt: skip
