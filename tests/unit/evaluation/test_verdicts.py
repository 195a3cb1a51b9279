"""The decision table, and that a verdict never contradicts itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from monitor.config.model import Rule
from monitor.core.records import Comparison, Outcome, Reason, Subject, Window
from monitor.evaluation.verdicts import decide, decision_of

RATE = 0.01
WINDOW = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
RISE = Rule(id="rise", metric="ece", condition="increase", threshold=0.02, actions=("slack", "disable_automation"))
ABOVE = Rule(id="above", metric="mce", condition="above", threshold=0.2)
BELOW = Rule(id="below", metric="roc_auc", condition="below", threshold=0.8)
TWICE = ABOVE.model_copy(update={"for_windows": 2})
MUTED = RISE.model_copy(update={"mute": ("traffic_mix",)})
FALL = Rule(id="fall", metric="automated_accuracy", condition="decrease", threshold=0.03)
MIX = {"class_mix": {"explains": True}}
KS = Rule(id="ks", test="ks", column="score", threshold=0.1)
PSI = Rule(id="psi", test="psi", column="score", threshold=0.2)


def evidence(label: str = "billing", **changes: Any) -> Comparison:
    plain = {"p_value": 1e-9, "beyond": True, "adequate": True, "n": 1000, "data_digest": "d"}
    return Comparison(Subject("tickets", label), WINDOW, **(plain | changes))


@pytest.mark.parametrize(
    ("rule", "found", "p_adjusted", "outcome", "reason"),
    [
        (RISE, evidence(p_rate=1e-9), 1e-9, "breach", Reason.INCREASED),
        (RISE, evidence(p_rate=0.4), 1e-9, "breach", Reason.TRAFFIC_MIX),
        (RISE, evidence(p_rate=0.4, detail=MIX), 1e-9, "unconfirmed", Reason.CLASS_MIX),
        (RISE, evidence(p_rate=1e-9, detail=MIX), 1e-9, "unconfirmed", Reason.CLASS_MIX),
        (FALL, evidence(detail=MIX), 1e-9, "unconfirmed", Reason.CLASS_MIX),
        (FALL, evidence(detail={"class_mix": {"explains": False}}), 1e-9, "breach", Reason.DECREASED),
        (RISE, evidence(detail={"class_mix": {"explains": False}}), 1e-9, "breach", Reason.INCREASED),
        (MUTED, evidence(p_rate=0.4), 1e-9, "unconfirmed", Reason.TRAFFIC_MIX),
        (RISE, evidence(beyond=False, detail=MIX), 1e-9, "ok", Reason.WITHIN_THRESHOLD),
        (ABOVE, evidence(), 1e-9, "breach", Reason.ABOVE_THRESHOLD),
        (BELOW, evidence(), 1e-9, "breach", Reason.BELOW_THRESHOLD),
        (KS, evidence(), 1e-9, "breach", Reason.DISTRIBUTION_SHIFTED),
        (PSI, evidence(p_value=None), None, "breach", Reason.DISTRIBUTION_SHIFTED),
        (PSI, evidence(p_value=None, adequate=False), None, "not_evaluated", Reason.TOO_FEW_ROWS),
        (RISE, evidence(beyond=False), 1e-9, "ok", Reason.WITHIN_THRESHOLD),
        (RISE, evidence(), 0.01, "unconfirmed", Reason.NOT_SIGNIFICANT_IN_FAMILY),
        (RISE, evidence(streak=False), 1e-9, "unconfirmed", Reason.STREAK_INCOMPLETE),
        (TWICE, evidence(beyond=False, streak=False, newest_beyond=True), 0.9, "unconfirmed", Reason.STREAK_INCOMPLETE),
        (TWICE, evidence(beyond=False, streak=True, newest_beyond=True), 0.9, "unconfirmed", Reason.STREAK_INCOMPLETE),
        (TWICE, evidence(beyond=False, streak=False), 0.9, "ok", Reason.WITHIN_THRESHOLD),
        (
            TWICE,
            evidence(beyond=False, newest_beyond=True, adequate=False),
            0.9,
            "not_evaluated",
            Reason.TOO_FEW_ROWS,
        ),
        (RISE, evidence(adequate=False, streak=False), 1e-9, "not_evaluated", Reason.TOO_FEW_ROWS),
        (RISE, evidence(problem=Reason.REJECTED_ROWS), 1e-9, "not_evaluated", Reason.REJECTED_ROWS),
        (RISE, evidence(problem=Reason.NOT_MATURE), 1e-9, "not_evaluated", Reason.NOT_MATURE),
        (RISE, evidence(adequate=False), 0.2, "not_evaluated", Reason.TOO_FEW_ROWS),
        (RISE, evidence(adequate=False, beyond=False), 1e-9, "not_evaluated", Reason.TOO_FEW_ROWS),
        (RISE, evidence(problem=Reason.NO_BASELINE), None, "not_evaluated", Reason.NO_BASELINE),
    ],
)
def test_the_decision_table(rule: Rule, found: Comparison, p_adjusted: float | None, outcome: Outcome, reason: Reason):
    decision = decision_of(rule, found, p_adjusted, RATE)
    assert (decision.outcome, decision.reason) == (outcome, reason)


def test_what_is_judged_together_is_part_of_the_id_and_what_was_not_measured_is_not():
    def ids(*family: Comparison) -> list[str]:
        found = decide(RISE, family, rate=RATE, decision_rules=1, revision="r")
        return [verdict.id for verdict in found]

    login = evidence("login", p_value=1e-3)
    both = ids(evidence(), login)
    assert both == ids(evidence(), login)
    assert ids(evidence())[0] != both[0], "its p-value is adjusted by fewer labels"
    assert ids(evidence(), evidence("login", p_value=0.5, data_digest="other"))[0] != both[0]
    lost = evidence("gone", problem=Reason.REJECTED_ROWS)
    assert ids(evidence(), login, lost)[:2] == both


PLAIN = ABOVE.model_copy(update={"certainty": "none"})


@pytest.mark.parametrize(
    ("rule", "found", "outcome", "reason"),
    [
        (PLAIN, evidence(plug_in=0.3, p_value=0.9), "breach", Reason.ABOVE_THRESHOLD),
        (PLAIN, evidence(plug_in=0.1, p_value=1e-9, beyond=False), "ok", Reason.WITHIN_THRESHOLD),
        (PLAIN, evidence(plug_in=0.3, streak=False), "unconfirmed", Reason.STREAK_INCOMPLETE),
        (PLAIN, evidence(plug_in=0.3, adequate=False), "not_evaluated", Reason.TOO_FEW_ROWS),
        (PLAIN, evidence(), "not_evaluated", Reason.TOO_FEW_ROWS),
        (PLAIN, evidence(problem=Reason.NO_ROWS), "not_evaluated", Reason.NO_ROWS),
        (RISE.model_copy(update={"certainty": "none"}), evidence(plug_in=0.3), "breach", Reason.INCREASED),
        (BELOW.model_copy(update={"certainty": "none"}), evidence(plug_in=0.3), "breach", Reason.BELOW_THRESHOLD),
    ],
)
def test_a_rule_that_asks_for_no_certainty_asks_for_rows_and_the_threshold_only(
    rule: Rule, found: Comparison, outcome: Outcome, reason: Reason
):
    (verdict,) = decide(rule, [found], rate=RATE, decision_rules=6, revision="r")
    assert (verdict.outcome, verdict.reason, verdict.p_adjusted) == (outcome, reason, None)
    assert verdict.detail["certainty"] == "none"


def test_p_values_are_adjusted_over_the_family_and_by_the_number_of_decision_rules():
    family = [evidence(label, p_value=p) for label, p in (("a", 0.0004), ("b", 0.5), ("c", 0.6), ("d", 1.0))]
    verdicts = decide(RISE, family, rate=RATE, decision_rules=6, revision="r")
    # Benjamini-Hochberg by hand: .0004 * 4 / 1, then times six rules
    assert verdicts[0].p_adjusted == pytest.approx(0.0004 * 4 * 6)
    assert [v.outcome for v in verdicts] == ["breach", "unconfirmed", "unconfirmed", "unconfirmed"]
    twelve = decide(RISE, family, rate=RATE, decision_rules=12, revision="r")
    assert (twelve[0].outcome, twelve[0].reason) == ("unconfirmed", Reason.NOT_SIGNIFICANT_IN_FAMILY)


def test_shift_tests_are_families_of_their_own():
    family = [evidence("a", p_value=0.004), evidence("b", p_value=0.5)]
    assert decide(KS, family, rate=RATE, decision_rules=50, revision="r")[0].p_adjusted == pytest.approx(0.008)


def test_labels_without_evidence_are_no_members_of_the_family():
    alone = decide(RISE, [evidence("a", p_value=0.004)], rate=RATE, decision_rules=1, revision="r")
    missing = [evidence(name, problem=Reason.NO_ROWS, p_value=None) for name in "bcdefgh"]
    crowd = decide(RISE, [evidence("a", p_value=0.004), *missing], rate=RATE, decision_rules=1, revision="r")
    assert crowd[0] == alone[0]
    assert {v.reason for v in crowd[1:]} == {Reason.NO_ROWS}


def test_only_a_breach_asks_for_actions():
    breach, fine = decide(RISE, [evidence("a"), evidence("b", beyond=False)], rate=RATE, decision_rules=1, revision="r")
    assert breach.actions == ("slack", "disable_automation")
    assert fine.actions == ()


def test_the_id_depends_on_everything_the_verdict_depends_on_and_on_nothing_else():
    def id_of(**changes: Any) -> str:
        revision = changes.pop("revision", "r")
        return decide(RISE, [evidence(**changes)], rate=RATE, decision_rules=1, revision=revision)[0].id

    ids = {id_of(), id_of(label="other"), id_of(data_digest="e"), id_of(baseline_version=2), id_of(revision="s")}
    assert len(ids) == 5
    assert id_of() == id_of()
