"""What a made-up story says of labels: moods, numbers and the verdicts that follow from them, all written by hand.

Nothing of this is decided by the code under test: an outcome follows from a mood by the tables here, and the numbers
are drawn so that they fit it (beyond the threshold or not, significant or not).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from monitor.core.records import Estimate, Interval, Outcome, Reason, Subject, Verdict, Window

Mood = Literal["good", "bad", "unsure", "few", "gone", "moved", "rejected", "unread"]
RATE = 0.01
SOURCES = {"tickets": ("billing", "phishing", "refund"), "mails": ("orders", "spam")}
CRITICAL = (("tickets", "phishing"),)
AUTOMATE_AT = {("tickets", "phishing"): 0.9, ("tickets", None): 0.8, ("mails", None): 0.7}
VERSIONS = ("v3", "v4")
COLUMN, CHANNELS = "channel", ("app", "chat", "web")


@dataclass(frozen=True)
class RuleSpec:
    """A rule as alerts.yaml has it; ``asks`` is its ``for``."""

    id: str
    metric: str
    where: str
    condition: str
    threshold: float
    severity: str
    actions: tuple[str, ...]
    schedule: str = "weekly"
    asks: int = 1
    scope: str = "labels"
    needed: int = 300
    source: str | None = None
    mature: float | None = None
    mute: tuple[str, ...] = ()

    @property
    def is_test(self) -> bool:
        """Whether it compares distributions, and no metric."""
        return self.metric == "ks"

    @property
    def is_estimate(self) -> bool:
        """Whether it judges items whose truth is not known yet."""
        return self.metric.startswith("expected_")

    @property
    def needs_baseline(self) -> bool:
        return self.condition in ("increase", "decrease") or self.is_estimate or self.is_test

    @property
    def turns_off(self) -> bool:
        return "disable_automation" in self.actions

    @property
    def acts(self) -> bool:
        return self.turns_off or "block_scores" in self.actions

    @property
    def yaml(self) -> str:
        what = {
            "id": self.id, "metric": self.metric, "where": self.where, "condition": self.condition,
            "threshold": self.threshold, "schedule": self.schedule, "severity": self.severity,
            "actions": f"[{', '.join(self.actions)}]", "for": self.asks, "scope": self.scope,
            "min_samples": self.needed,
        }  # fmt: skip
        if self.is_test:
            of_test = {"id": self.id, "test": self.metric, "column": "score"}
            what = of_test | {key: what[key] for key in ("threshold", "schedule", "severity", "actions")}
        if self.mute:
            what["mute"] = f"[{', '.join(self.mute)}]"
        if self.scope == "segments":
            what |= {"segments": f"[{COLUMN}]", "turns_off": "segments"}
        if self.source is not None:
            what["match"] = f"{{source: {self.source}}}"
        what |= {"mature": self.mature}
        plain = {"where": "all", "for": 1, "scope": "labels", "mature": None}
        return "{" + ", ".join(f"{k}: {v}" for k, v in what.items() if plain.get(k) != v) + "}"


_OFF = ("slack", "disable_automation")
OVERCONFIDENCE = RuleSpec(
    "automated-overconfidence", "overconfidence", "automated", "above", 0.05, "critical", _OFF, needed=30
)
RISE = RuleSpec("ece-increase", "ece", "all", "increase", 0.02, "warning", ("slack",))
BLOCKS = RuleSpec("mce-blocks-scores", "mce", "all", "above", 0.2, "critical", ("slack", "block_scores"))
WHOLE = RuleSpec("source-ece", "ece", "all", "above", 0.1, "critical", _OFF, scope="source")
DAYS = RuleSpec("ece-two-days", "ece", "all", "above", 0.08, "critical", _OFF, schedule="daily", asks=2)
PARTS = RuleSpec(
    "weekly-segments", "overconfidence", "automated", "above", 0.08, "critical", _OFF, scope="segments", needed=30
)  # fmt: skip
EXPECTED = RuleSpec(
    "expected-accuracy", "expected_accuracy", "all", "below", 0.85, "warning", ("slack",), source="tickets"
)  # fmt: skip
MATURE = RuleSpec("mature-ece", "ece", "all", "above", 0.05, "warning", ("slack",), source="tickets", mature=0.9)
FALL = RuleSpec("auc-decrease", "roc_auc", "all", "decrease", 0.02, "warning", ("slack",))
SHIFT = RuleSpec("score-shift", "ks", "all", "above", 0.1, "info", ("slack",), needed=500)
MUTED = RuleSpec(
    "ece-not-season", "ece", "all", "increase", 0.02, "warning", ("slack",), mute=("class_mix", "traffic_mix")
)  # fmt: skip
SELDOM = (FALL, SHIFT, MUTED)
"""Rules of rare stories."""
WEEKLY = (OVERCONFIDENCE, RISE, BLOCKS, WHOLE)
WAITING = (EXPECTED, MATURE)
RULES = {rule.id: rule for rule in (*WEEKLY, DAYS, PARTS, *WAITING, *SELDOM)}


@dataclass(frozen=True)
class Numbers:
    """What was measured of one label in one window."""

    ece: float
    mce: float
    overconfidence: float
    auc: float
    n: int
    automated: int
    promised: float

    def of(self, rule: RuleSpec) -> float:
        if rule.is_estimate:
            return round(0.95 - self.overconfidence, 4)
        known = {
            "ece": self.ece,
            "mce": self.mce,
            "overconfidence": self.overconfidence,
            "roc_auc": self.auc,
            "ks": self.moved,
        }
        return known[rule.metric]

    @property
    def moved(self) -> float:
        """How far the scores are from those of the baseline: the further, the more overconfident."""
        return round(0.05 + self.overconfidence, 4)

    def held(self, rule: RuleSpec) -> float:
        """What is held against the threshold: the value itself, or how far it rose or fell since the baseline."""
        value = self.of(rule)
        changes = {"increase": value - BASELINE_ECE, "decrease": BASELINE_AUC - value}
        return changes.get(rule.condition, value)

    def rows(self, rule: RuleSpec) -> int:
        return self.automated if rule.where == "automated" else self.n


@dataclass(frozen=True)
class Said:
    """One line of the script: what a rule says of a label in a window, and why."""

    schedule: str
    window: str
    source: str
    label: str | None
    rule: str
    outcome: Outcome
    reason: Reason
    value: float | None


@dataclass
class Page:
    """What one source gives in one window: verdicts with their lines of the script, and estimates."""

    source: str
    window: Window
    problem: Reason | None = None
    error: str = ""
    version: str = "v3"
    rows: int = 0
    said: list[Said] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    estimates: list[Estimate] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()


def numbers_of(mood: Mood, rng: Random, *, daily: bool = False) -> Numbers:
    """Numbers that fit a mood; of a day, an ECE around its own threshold."""
    low_n = mood == "few"
    n = rng.randint(4, 25) if low_n else rng.randint(600, 4_000) // (4 if daily else 1)
    good = {"ece": (0.004, 0.03), "mce": (0.03, 0.12), "overconfidence": (-0.02, 0.03)}
    bad = {"ece": (0.06, 0.14), "mce": (0.12, 0.45), "overconfidence": (0.12, 0.35)}
    unsure = {"ece": (0.037, 0.045), "mce": (0.16, 0.24), "overconfidence": (0.055, 0.08)}
    if daily:
        bad["ece"], unsure["ece"] = (0.1, 0.3), (0.083, 0.099)
    ranges = {"bad": bad, "unsure": unsure, "moved": bad if rng.random() < 0.3 else good}.get(mood, good)
    drawn = {name: round(rng.uniform(*ends), 4) for name, ends in ranges.items()}
    auc = round(rng.uniform(0.7, 0.96) if mood == "bad" else rng.uniform(0.85, 0.97), 4)
    automated = max(1, n // rng.randint(4, 8))
    return Numbers(**drawn, auc=auc, n=n, automated=automated, promised=round(rng.uniform(0.9, 0.97), 3))


REJECTED = ("score_missing",)


def too_young(seen: Numbers, least: float, rng: Random) -> dict[str, Any] | None:
    """How far the truths of a window are known, where it is not far enough; else None."""
    if rng.random() < 0.75:
        return None
    items = seen.n + rng.randint(seen.n // 2, seen.n)
    return {"items": items, "known": seen.n, "of_expected": round(rng.uniform(0.5, 0.85), 3), "least": least}


_SILENT: dict[str, Reason] = {
    "gone": Reason.NO_ROWS, "rejected": Reason.REJECTED_ROWS, "few": Reason.TOO_FEW_ROWS,
}  # fmt: skip


def decided(rule: RuleSpec, mood: Mood, seen: Numbers, before: float | None, *, pinned: bool) -> tuple[Outcome, Reason]:
    """The outcome of a rule, by the contract: beyond and significant is a breach, beyond alone is unconfirmed.

    ``before`` is the value of the window before, for a rule that asks for several running.
    """
    rises = rule.condition == "increase"
    silent = Reason.NO_BASELINE if rule.needs_baseline and not pinned else _SILENT.get(mood)
    if silent is None and rises and mood == "moved":
        silent = Reason.SCORES_MOVED
    if silent is not None:
        return "not_evaluated", silent
    held = seen.held(rule)
    if rule.condition == "below":
        within = held >= rule.threshold
        return ("ok", Reason.WITHIN_THRESHOLD) if within else ("breach", Reason.BELOW_THRESHOLD)
    if held <= rule.threshold:
        return "ok", Reason.WITHIN_THRESHOLD
    if rule.asks > 1 and (before is None or before <= rule.threshold):
        return "unconfirmed", Reason.STREAK_INCOMPLETE
    if mood == "unsure":
        return "unconfirmed", Reason.NOT_SIGNIFICANT_IN_FAMILY
    changed = {"increase": Reason.INCREASED, "decrease": Reason.DECREASED}
    above = Reason.DISTRIBUTION_SHIFTED if rule.is_test else Reason.ABOVE_THRESHOLD
    return "breach", changed.get(rule.condition, above)


BASELINE_ECE, BASELINE_AUC = 0.012, 0.8158  # those of the rows of the baselines


def mixed(rule: RuleSpec, outcome: Outcome, reason: Reason, rng: Random) -> tuple[Outcome, Reason]:
    """A rise may come of other traffic, or of another share of true items; a rule may leave out either."""
    if reason != Reason.INCREASED:
        return outcome, reason
    found = rng.choice((Reason.INCREASED, Reason.TRAFFIC_MIX, Reason.CLASS_MIX))
    return "unconfirmed" if found.value in rule.mute else outcome, found


@dataclass(frozen=True)
class Channel:
    """What was measured of one channel of a label: ``judged`` where its rows could have shown what matters."""

    name: str
    overconfidence: float
    rows: int
    chance: float
    judged: bool

    @property
    def named(self) -> bool:
        """Whether it is in breach."""
        return self.overconfidence > PARTS.threshold and self.chance < 1e-3


def channels_of(mood: Mood, seen: Numbers, rng: Random) -> list[Channel]:
    """The channels of a label, the one that a verdict is about first: those in breach, by their chance, then by rows."""
    found = []
    for name in CHANNELS:
        bad = rng.random() < {"bad": 0.5, "good": 0.06}.get(mood, 0.0)
        unsure = mood == "unsure" and name == "web"
        overconfidence = (
            rng.uniform(0.12, 0.3) if bad else rng.uniform(0.09, 0.11) if unsure else rng.uniform(-0.02, 0.05)
        )
        chance = rng.uniform(1e-8, 1e-5) if bad else rng.uniform(0.01, 0.2) if unsure else 1.0
        rows = rng.randint(40, 90) if seen.automated >= PARTS.needed else rng.randint(2, 8)
        judged = bad or unsure or (rows >= PARTS.needed and rng.random() < 0.8)
        found.append(Channel(name, round(overconfidence, 4), rows, float(f"{chance:.4g}"), judged))
    return sorted(found, key=lambda each: (not each.judged, each.chance, -each.rows))


def decided_in_channels(mood: Mood, found: list[Channel]) -> tuple[Outcome, Reason]:
    """The outcome of the rule on channels, by the same contract."""
    if mood in _SILENT:
        return "not_evaluated", _SILENT[mood]
    if any(each.named for each in found):
        return "breach", Reason.ABOVE_THRESHOLD
    if found[0].overconfidence > PARTS.threshold:
        return "unconfirmed", Reason.NOT_SIGNIFICANT_IN_FAMILY
    return ("ok", Reason.WITHIN_THRESHOLD) if found[0].judged else ("not_evaluated", Reason.TOO_FEW_ROWS)


def in_channels(found: list[Channel]) -> dict[str, Any]:
    """What a verdict on channels keeps of them."""
    named = [each for each in found if each.named]
    tested = [each for each in found if each.rows >= PARTS.needed]
    lead = found[0]
    return _newest_of(lead) | {
        "segment": [COLUMN, lead.name], "segment_p": lead.chance if lead in tested else None, "segments": len(found),
        "segments_judged": sum(each.judged for each in found), "segments_tested": len(tested),
        "segments_named": [[COLUMN, each.name, each.rows, each.overconfidence, each.chance] for each in named],
        "segments_found": [[COLUMN, each.name] for each in named],
        "turns_off": [[COLUMN, each.name] for each in named],
        "segments_within": [[COLUMN, e.name] for e in found if e.judged and e.overconfidence <= PARTS.threshold],
    }  # fmt: skip


def _newest_of(lead: Channel) -> dict[str, Any]:
    """What a channel beyond the threshold says of its newest week: that it is, too, or that only this one shows it."""
    if lead.overconfidence <= PARTS.threshold:
        return {}
    if lead.rows % 2:
        together = {"windows": 4, "n": 4 * lead.rows, "value": round(lead.overconfidence / 4, 4), "p_value": 0.21}
        return {"together": together, "times_judged": 5} if lead.named else {}
    value = round(lead.overconfidence + 0.007, 4)
    return {"newest_alone": {"n": lead.rows // 2, "value": value, "beyond": True, "too_few": False}}


def verdict_of(
    rule: RuleSpec, said: Said, window: Window, seen: Numbers | None, before: float | None, rng: Random, salt: str,
    *, revision: str, pinned: bool, more: dict[str, Any] | None = None, known_of: dict[str, Any] | None = None,
    version: int = 1,
) -> Verdict:  # fmt: skip
    """The verdict of a line, with all its numbers; ``salt`` stands for the rows it was made from.

    ``more`` is kept of what was measured, ``known_of`` in any case.
    """
    measured = said.value is not None
    known: dict[str, Any] = {"n": 0 if seen is None else seen.rows(rule)}
    detail: dict[str, Any] = {"condition": rule.condition, "rate": RATE, "asks": rule.asks, "rows_needed": rule.needed}
    detail |= {"before_truth": True} if rule.is_estimate else {}
    detail |= known_of or {}
    if said.reason == Reason.NO_ROWS:
        known["n"] = 0
    if measured and seen is not None:
        known |= _numbers(rule, said, seen, rng, version=version if pinned else None)
        detail |= _detail(rule, said, seen, before, rng) | (more or {})
        known["windows"] = 2 if "newest_alone" in detail else 1
    id = hashlib.sha256(repr((said, window.start.isoformat(), salt)).encode()).hexdigest()[:16]
    return Verdict(
        id=id, rule=rule.id, subject=Subject(said.source, said.label), window=window, metric=rule.metric,
        where=rule.where, outcome=said.outcome, reason=said.reason, severity=rule.severity, threshold=rule.threshold,
        actions=rule.actions if said.outcome == "breach" else (), detail=detail, rules_revision=revision,
        data_digest=salt, **known,
    )  # type: ignore[arg-type]  # fmt: skip


def _numbers(rule: RuleSpec, said: Said, seen: Numbers, rng: Random, *, version: int | None) -> dict[str, Any]:
    value = seen.of(rule)
    half = round(rng.uniform(0.004, 0.02), 4)
    p = {"breach": rng.uniform(1e-7, 5e-3), "unconfirmed": rng.uniform(0.02, 0.6)}.get(
        said.outcome, rng.uniform(0.3, 1.0)
    )
    if said.reason == Reason.STREAK_INCOMPLETE:
        p = rng.uniform(1e-6, 1e-3)
    known: dict[str, Any] = {
        "value": value, "low": round(value - half, 4), "high": round(value + half, 4),
        "plug_in": round(value + 0.002, 4), "p_adjusted": p, "p_value": p / 4, "detectable": 0.03,
    }  # fmt: skip
    if said.reason == Reason.TOO_FEW_ROWS:
        known |= {"p_adjusted": 1.0, "p_value": 0.4, "detectable": 0.31}
    if version is not None:
        known["baseline_version"] = version
    if rule.is_test:
        known |= {"low": None, "high": None, "plug_in": value, "detectable": None}
    if rule.condition in ("increase", "decrease"):
        before = BASELINE_ECE if rule.condition == "increase" else BASELINE_AUC
        change = round(value - before, 4)
        known |= {"baseline": before, "change": change}
        known |= {"change_low": round(change - half, 4), "change_high": round(change + half, 4)}
    return known


def _detail(rule: RuleSpec, said: Said, seen: Numbers, before: float | None, rng: Random) -> dict[str, Any]:
    beyond = said.outcome in ("breach", "unconfirmed")
    kept = round(seen.promised - seen.overconfidence, 4)
    more: dict[str, Any] = {
        "confidence": 0.95, "beyond": beyond, "streak": said.reason != Reason.STREAK_INCOMPLETE,
        "adequate": said.reason != Reason.TOO_FEW_ROWS, "promised": seen.promised, "kept": kept,
        "effective_rows": float(seen.rows(rule)), "design_effect": 1.0, "seen_at_most": 0.0625, "family": 4,
        "rules": 3, "rank": 1 if said.outcome == "breach" else 4, "groups": [],
        "p_rate": 1e-4 if rule.condition == "increase" else None,
    }  # fmt: skip
    if rule.is_test:
        more = {key: more[key] for key in ("beyond", "streak", "adequate", "family", "rules", "rank")}
        more |= {"at_score": 0.35, "column": "score", "n_baseline": 1_140}
    if said.reason in (Reason.TRAFFIC_MIX, Reason.CLASS_MIX):
        more |= _mix(said, seen)
    if rule.metric == "mce":
        low = rng.choice((0.5, 0.6, 0.7))
        observed = -round(seen.mce + rng.choice((0.0, 0.002, 0.015)), 4)  # of many ranges: larger by chance
        more |= {"worst_range": [low, low + 0.1], "worst_gap": observed, "worst_n": max(20, seen.n // 15)}
        if beyond:
            more["blocked"] = [[low, round(low + 0.1, 2)]]
    if rule.asks > 1:
        values = [seen.of(rule), *([] if before is None else [before])]
        more["groups"] = [
            {"windows": 1, "n": seen.n, "value": value, "beyond": value > rule.threshold} for value in values
        ]  # fmt: skip
    return more


def _mix(said: Said, seen: Numbers) -> dict[str, Any]:
    """What a verdict keeps of other traffic, or of another share of true items."""
    if said.reason == Reason.TRAFFIC_MIX:
        return {"p_rate": 0.41}
    rise = round(0.9 * (seen.ece - BASELINE_ECE), 4)
    found = {"now": 0.42, "then": 0.3, "p_value": 1e-6, "expected_rise": rise, "fit": 0.37, "explains": True}
    return {"class_mix": found | {"is_separable": True}}


def estimates_of(window: Window, subject: Subject, seen: Numbers) -> list[Estimate]:
    """The estimates of a label in a window, those of the contract that the story has."""
    half, made = 0.011, []
    all_of = {"ece": seen.ece, "mce": seen.mce, "roc_auc": seen.auc}
    for metric, value in all_of.items():
        detail = {"worst_range": [0.6, 0.7], "worst_gap": -value} if metric == "mce" else {}
        made.append(_estimate(window, subject, metric, "all", value, half, seen.n, detail))
    made.append(
        _estimate(window, subject, "overconfidence", "automated", seen.overconfidence, half, seen.automated, {})
    )
    return made


def _estimate(
    window: Window, subject: Subject, metric: str, where: str, value: float, half: float, n: int, detail: dict[str, Any]
) -> Estimate:
    seen = Interval(value, round(value - half, 4), round(value + half, 4), value)
    return Estimate(subject, window, metric, where, seen, n, round(n * 0.3, 1), detail)  # type: ignore[arg-type]
