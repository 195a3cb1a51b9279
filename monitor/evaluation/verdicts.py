"""(evidence, rule) -> verdict with its named reason. Pure: no clock, no store, no random number.

A breach needs two things: the debiased value (or change) past the threshold, *and* an adjusted
p-value below the false discovery rate. With the first alone, the outcome is "unconfirmed", and so is a
change that another share of true items explains. "ok" means
that the value is within the threshold and that the rows could have shown otherwise. "Not enough
evidence" is an outcome of its own. A rule with ``certainty: none`` needs only the first, in enough
rows, as textbooks decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from monitor.config.model import Rule
from monitor.core.records import Checks, Comparison, DecisionCheck, Outcome, Reason, RuleNumbers, Verdict
from monitor.core.score_ranges import outwards
from monitor.core.verdict_detail import VerdictDetail
from monitor.inference.multiplicity import adjust
from monitor.metrics.names import ACCUMULATES, ECES, LEAST_ROWS_OF_ECE


def decide(
    rule: Rule,
    family: Sequence[Comparison],
    *,
    rate: float,
    decision_rules: int,
    revision: str,
    acts_from: Callable[[str | None], float] | None = None,
    tests: Sequence[float] = (),
) -> list[Verdict]:
    """The verdicts of one rule on all subjects of one source in one window.

    ``family`` must have every subject that the rule applies to, even those that the command line filters out:
    p-values are adjusted over it (Benjamini & Hochberg 1995) and by ``decision_rules``, the number
    of `metric:` rules of the schedule. All shift tests of the source in the window, whose p-values are ``tests``, are
    one family of their own. ``acts_from`` gives the score from which a label acts alone: to block scores below it stops
    nothing and is not critical. An ECE has no p-value in few rows: it would be too small.
    """
    family = [replace(c, p_value=None) if rule.measure in ECES and c.n < LEAST_ROWS_OF_ECE else c for c in family]
    tested = [i for i, c in enumerate(family) if c.problem is None and c.p_value is not None and not rule.is_plain]
    rules = 1 if rule.test is not None else decision_rules
    p_values = [p for c in (family[i] for i in tested) if (p := c.p_value) is not None]
    values = [*tests, *(p for p in p_values if p not in tests)] if rule.test is not None else p_values
    by_p = dict(zip(values, adjust(values, rules), strict=True)) if values else {}
    adjusted = {place: by_p[p] for place, p in zip(tested, p_values, strict=True)}
    shared: VerdictDetail = {"rate": rate, "family": len(values), "rules": rules}
    beside = _digest_of(family)
    found = []
    for place, c in enumerate(family):
        verdict = _with_blocked_ranges(rule, _verdict(rule, c, adjusted.get(place), rate, revision, beside), acts_from)
        # the facts that decide the outcome, so that a verdict can be explained after the rules have changed
        rank = None if (p := c.p_value) is None or not values else sum(each <= p for each in values)
        decisive: VerdictDetail = {
            "beyond": c.beyond, "streak": c.streak, "adequate": c.adequate, "p_rate": c.p_rate, "rank": rank,
        }  # fmt: skip
        decisive = decisive if c.problem is None else {}
        found.append(replace(verdict, detail={**verdict.detail, **shared, **decisive}))
    return found


@dataclass(frozen=True, slots=True)
class VerdictDecision:
    """The outcome and its reason, with every check made, in order."""

    outcome: Outcome
    reason: Reason
    checks: Checks


def decision_of(rule: Rule, evidence: Comparison, p_adjusted: float | None, rate: float) -> VerdictDecision:
    """The whole decision table, first match first."""
    if evidence.problem is not None:
        return VerdictDecision("not_evaluated", evidence.problem, evidence.checks)
    beyond = DecisionCheck("beyond", evidence.beyond)
    streak = DecisionCheck("every_window", evidence.streak)
    running = () if rule.for_windows == 1 and evidence.streak else (streak,)
    if rule.is_plain:
        return _plain(rule, evidence, (beyond, *running))
    # PSI has no p-value: its rule of thumb is enough
    is_sure = evidence.adequate if rule.test == "psi" else p_adjusted is not None and p_adjusted < rate
    enough = DecisionCheck("enough_evidence", bool(evidence.detail["sure"])) if rule.accumulates else None
    significant = enough or DecisionCheck("sure", is_sure)
    checks = (*evidence.checks, beyond, *running, significant)
    if beyond.passed and streak.passed and significant.passed:
        reason, causes = _breach(rule, evidence, rate)
        is_lawful = reason in ("class_mix", *rule.mute)
        return VerdictDecision("unconfirmed" if is_lawful else "breach", reason, (*checks, *causes))
    checks += (DecisionCheck("could_be_seen", evidence.adequate),)
    if not evidence.adequate:
        return VerdictDecision("not_evaluated", Reason.TOO_FEW_ROWS, checks)
    if evidence.is_within and not beyond.passed:
        return VerdictDecision("ok", Reason.WITHIN_THRESHOLD, checks)
    # all windows together are within, the newest is not: a window that was wrong the other way makes no bad one good
    newest = () if beyond.passed else (DecisionCheck("newest_within", False),)
    reason = Reason.NOT_SIGNIFICANT_IN_FAMILY if beyond.passed and streak.passed else Reason.STREAK_INCOMPLETE
    return VerdictDecision("unconfirmed", reason, (*checks, *newest))


def _plain(rule: Rule, evidence: Comparison, threshold_checks: Checks) -> VerdictDecision:
    """The decision without a p-value: enough rows, and beyond the threshold in every window."""
    rows = DecisionCheck("enough_rows", evidence.adequate)
    checks = (*evidence.checks, rows, *threshold_checks)
    if not rows.passed or evidence.plug_in is None:
        return VerdictDecision("not_evaluated", Reason.TOO_FEW_ROWS, checks)
    if not evidence.beyond:
        return VerdictDecision("ok", Reason.WITHIN_THRESHOLD, checks)
    if not evidence.streak:
        return VerdictDecision("unconfirmed", Reason.STREAK_INCOMPLETE, checks)
    level = {"increase": Reason.INCREASED, "decrease": Reason.DECREASED, "below": Reason.BELOW_THRESHOLD}
    return VerdictDecision("breach", level.get(rule.condition, Reason.ABOVE_THRESHOLD), checks)


def _breach(rule: Rule, evidence: Comparison, rate: float) -> tuple[Reason, Checks]:
    """The reason of a breach, with the checks for changed behaviour and class mix that it depends on."""
    if rule.test is not None:
        return Reason.DISTRIBUTION_SHIFTED, ()
    if not rule.compares:
        falls = rule.condition == "below" or (rule.accumulates and ACCUMULATES.get(rule.measure) == "below")
        return Reason.BELOW_THRESHOLD if falls else Reason.ABOVE_THRESHOLD, ()
    plain = Reason.DECREASED if rule.condition == "decrease" else Reason.INCREASED
    causes: Checks = ()
    if class_mix := evidence.detail.get("class_mix"):
        causes = (DecisionCheck("class_mix", class_mix["explains"]),)
        if causes[0].passed:
            return Reason.CLASS_MIX, causes
    if evidence.p_rate is None:
        return plain, causes
    # p_rate detects changed behaviour only: if it is not small, the rise comes from other traffic
    behaviour = DecisionCheck("behaviour", evidence.p_rate < rate)
    return plain if behaviour.passed else Reason.TRAFFIC_MIX, (*causes, behaviour)


def _with_blocked_ranges(rule: Rule, verdict: Verdict, acts_from: Callable[[str | None], float] | None) -> Verdict:
    """The verdict with its score ranges as they will be blocked: rounded outwards to hundredths.

    If the rule blocks scores and turns nothing off, a critical breach becomes a warning unless a range reaches
    the scores that act alone. Without any range it stays critical: the switch then turns the label off.
    """
    if "blocked" not in verdict.detail:
        return verdict
    blocked = outwards((low, high) for low, high in verdict.detail["blocked"])
    verdict = replace(verdict, detail={**verdict.detail, "blocked": [list(each) for each in blocked]})
    if verdict.outcome != "breach" or verdict.severity != "critical" or acts_from is None:
        return verdict
    reaches = any(high >= acts_from(verdict.subject.label) for _, high in blocked)
    if reaches or not blocked or "disable_automation" in rule.actions:
        return verdict
    return replace(verdict, severity="warning")


def _digest_of(family: Sequence[Comparison]) -> str:
    """A hash of the rows of all subjects that are judged together; what was not measured changes nothing."""
    rows = sorted(repr((each.subject.label, each.data_digest)) for each in family if each.problem is None)
    return hashlib.sha256(" ".join(rows).encode()).hexdigest()[:16]


def _verdict(
    rule: Rule, evidence: Comparison, p_adjusted: float | None, rate: float, revision: str, beside: str
) -> Verdict:
    found = decision_of(rule, evidence, p_adjusted, rate)
    checks = [[check.name, check.passed] for check in found.checks]
    how: VerdictDetail = {"certainty": rule.certainty} if rule.is_plain else {}
    how |= {"accumulates": True} if rule.evidence == "accumulated" else {}
    # a distance of 0 is no change that would show: it says that no truth can be beyond the threshold
    out_of_reach: VerdictDetail = {"out_of_reach": True} if evidence.detectable == 0 and not evidence.beyond else {}
    shown = None if out_of_reach and found.outcome != "ok" else evidence.detectable  # an ok always has a number
    segment: VerdictDetail = {"segment": None} if rule.scope == "segments" else {}  # until evidence names one
    detail: VerdictDetail = {
        **segment, **evidence.detail, **how, **out_of_reach, "condition": rule.condition, "checks": checks,
    }  # fmt: skip
    numbers: dict[str, Any] = {each.name: getattr(evidence, each.name) for each in fields(RuleNumbers)}
    # a hash of everything that the verdict depends on: equal input gives an equal id; p-values are of the family beside
    subject, window = evidence.subject, evidence.window
    parts = (
        subject.source, rule.id, subject.label, window.schedule, window.name,
        evidence.baseline_version, revision, evidence.data_digest, evidence.problem, beside,
    )  # fmt: skip
    return Verdict(
        id=hashlib.sha256(repr(parts).encode()).hexdigest()[:16], rule=rule.id, subject=subject, window=window,
        metric=rule.measure, where=rule.where, outcome=found.outcome, reason=found.reason, severity=rule.severity,
        threshold=rule.threshold, p_adjusted=p_adjusted, rules_revision=revision,
        actions=rule.actions if found.outcome == "breach" else (),
        **{**numbers, "detectable": shown, "detail": detail},
    )  # fmt: skip
