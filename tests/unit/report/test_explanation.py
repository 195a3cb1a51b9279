"""What ``calmon explain`` says: word by word for every reason, and never against the decision itself."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.maturity import Maturity
from monitor.core.records import Comparison, DecisionCheck, Reason, Subject, Verdict, Window
from monitor.core.rejection_records import Rejection, RejectionCause, Why
from monitor.evaluation.comparisons import compare, gates
from monitor.evaluation.data import RuleInput
from monitor.evaluation.verdicts import decide
from monitor.history.values import plain
from monitor.report.explanation import Check, Explanation, document, explain, lines, unconfirmed_words

CASES = Path(__file__).parents[2] / "cases" / "explain"
REVISION = "3c0ffee00aa1"
WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
DAY = Window(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC), "2026-11-16", "daily")
BILLING = Subject("tickets", "billing")

OVERCONFIDENCE = Rule(
    id="automated-overconfidence", metric="overconfidence", where="automated", condition="above", threshold=0.05,
    min_samples=30, severity="critical", actions=("slack", "disable_automation"),
)  # fmt: skip
OF_ALL = OVERCONFIDENCE.model_copy(update={"where": "all"})
RISE = Rule(id="ece-increase", metric="ece", condition="increase", threshold=0.02)
MCE_RISE = Rule(id="mce-increase", metric="mce", condition="increase", threshold=0.05)
MIX = {"now": 0.37, "then": 0.29, "p_value": 3e-9, "fit": 0.41, "expected_rise": 0.038, "explains": True}
BLOCKS = Rule(
    id="mce-blocks-scores", metric="mce", threshold=0.2, severity="critical", actions=("slack", "block_scores")
)
TWO_DAYS = Rule.model_validate(
    {"id": "ece-two-days", "metric": "ece", "condition": "above", "threshold": 0.08, "schedule": "daily", "for": 2,
     "severity": "critical", "actions": ("slack", "disable_automation")}
)  # fmt: skip
TEXTBOOK = TWO_DAYS.model_copy(update={"id": "ece-two-plain-days", "certainty": "none", "value": "plug_in"})
TEXTBOOK_DAYS = [{"windows": 1, "n": 702, "value": 0.104, "beyond": True},
                 {"windows": 1, "n": 688, "value": 0.097, "beyond": True}]  # fmt: skip
AUC = Rule(id="auc-floor", metric="roc_auc", condition="below", threshold=0.8)
FALL = Rule(id="auc-decrease", metric="roc_auc", condition="decrease", threshold=0.03)
LASTING = Rule(
    id="lasting-overconfidence",
    metric="overconfidence",
    where="automated",
    condition="accumulated",
    threshold=0.02,
    min_samples=30,
)
KS = Rule(id="score-shift", test="ks", column="score", threshold=0.1, severity="info")
PSI = Rule(id="score-psi", test="psi", column="score", threshold=0.25, severity="info")

BASELINE = Baseline(
    source="tickets", label="billing", version=3, start=datetime(2026, 8, 3, tzinfo=UTC),
    end=datetime(2026, 9, 28, tzinfo=UTC), first_window="2026-W32", last_window="2026-W39",
    counts=counts_from_rows([0.5] * 16_000, [0, 1] * 8_000), edges={"all": (10_000,)},
    pinned_at=datetime(2026, 10, 1, tzinfo=UTC), pinned_by="ada", reason="first",
)  # fmt: skip


def behind(n: float, promised: float, kept: float, **more: Any) -> dict[str, Any]:
    """The part of a verdict's detail that every measured one has."""
    told = {"confidence": 0.95, "promised": promised, "kept": kept, "effective_rows": n}
    return told | {"design_effect": 1.0, "asks": 1, "groups": [], "rows_needed": 500} | more


def risen(**changes: Any) -> Comparison:
    """A week in which the ECE of billing is a good deal larger than in its baseline."""
    known = {
        "value": 0.061, "low": 0.049, "high": 0.075, "plug_in": 0.068, "baseline": 0.019, "change": 0.042,
        "change_low": 0.028, "change_high": 0.057, "p_value": 2.5e-5, "p_rate": 4e-5, "detectable": 0.018, "n": 2104,
        "windows": 1, "beyond": True, "adequate": True, "baseline_version": 3, "data_digest": "d",
        "detail": behind(2104, 0.412, 0.371, seen_at_most=0.04),
    }  # fmt: skip
    return Comparison(BILLING, WEEK, **(known | changes))


def level(rule: Rule, **changes: Any) -> Comparison:
    """A measured value, held against a number."""
    known = {"n": 2104, "beyond": True, "adequate": True, "data_digest": "d", "baseline_version": 3}
    return Comparison(BILLING, DAY if rule.schedule == "daily" else WEEK, **(known | changes))


def nothing(problem: Reason, **changes: Any) -> Comparison:
    details = {Reason.REJECTED_ROWS: {"rejected": MINUS_ONE.detail}, Reason.NOT_MATURE: {"maturity": YOUNG.detail(0.9)}}
    return Comparison(
        BILLING, WEEK, problem=problem, n=changes.pop("n", 0), **{"detail": details.get(problem, {}), **changes}
    )


def judged(rule: Rule, evidence: Comparison, *, others: tuple[float, ...] = (0.3, 0.5, 0.9)) -> Verdict:
    """The verdict on ``evidence`` in a family with three other labels."""
    family = [
        replace(evidence, checks=asked(rule, evidence)),
        *(replace(evidence, subject=Subject("tickets", f"l{i}"), p_value=p) for i, p in enumerate(others)),
    ]
    return decide(rule, family, rate=0.01, decision_rules=6, revision=REVISION)[0]


UNREAD = (
    Reason.RELATION_ERROR, Reason.WAREHOUSE_FAILED, Reason.UNRESOLVED_FAILED, Reason.REJECTED_ROWS, Reason.NOT_MATURE,
)  # fmt: skip
YOUNG = Maturity(BILLING, WEEK, items=1_000, known=620, expected=0.93, low=0.913, high=0.951, windows=22)


def asked(rule: Rule, evidence: Comparison) -> tuple[DecisionCheck, ...]:
    """What comparisons ask before anything is measured, where it leads to the problem of this evidence."""
    problem = evidence.problem
    unread = problem if problem in UNREAD else None
    baseline = None if problem is Reason.NO_BASELINE else BASELINE
    window = replace(WEEK, start=BASELINE.start) if problem is Reason.IN_BASELINE else WEEK
    if problem is Reason.SETTINGS_CHANGED:
        baseline = None
    material = RuleInput(BILLING, window, baseline=baseline, problem=unread, detail=evidence.detail)
    checks, found = gates(rule, material, has_rows=problem is not Reason.NO_ROWS)
    if found is None and rule.test is not None:
        return (*checks, DecisionCheck("test_result", problem is not Reason.TOO_FEW_ROWS))
    if found is None and problem is Reason.TOO_FEW_ROWS:
        return (*checks, DecisionCheck("enough_rows", False))
    if found is None and rule.condition == "increase":
        return (*checks, DecisionCheck("comparable", problem is not Reason.SCORES_MOVED))
    return checks


def told(verdict: Verdict, revision: str = REVISION) -> Explanation:
    """The explanation of a verdict, with its baseline."""
    return explain(verdict, revision, BASELINE if verdict.baseline_version else None)


ACTING = behind(118, 0.91, 0.59, rows_needed=30, seen_at_most=0.2375)
TWO = behind(
    1428, 0.55, 0.44, seen_at_most=0.23, asks=2,
    groups=[{"windows": 1, "n": 714, "value": value, "beyond": value > 0.08} for value in (0.118, 0.061)],
)  # fmt: skip
NEWEST = {**TWO, "groups": [
    {"windows": 1, "n": 714, "value": value, "beyond": value > 0.08} for value in (0.117, 0.004)
]}  # fmt: skip
ECE_DAYS = {"value": 0.09, "low": 0.07, "high": 0.112, "plug_in": 0.094, "detectable": 0.03}

MINUS_ONE = Rejection(Why.SHARE, RejectionCause.TRUTH_MINUS_ONE, 149, 361, "outcome_out_of_range")


def accumulated(evidence: float, *, sure: bool) -> dict[str, Any]:
    """What a verdict on accumulated evidence has beside what others have."""
    before = [["2026-W44", 20, 0.9, 0.8, 24.6], ["2026-W45", 21, 0.91, 0.762, 73.2]]
    return {
        "needed": 10_400.0, "average_run_length": 520, "labels": 20, "since": "2026-W38", "suspected": True,
        "seen_at_most": 0.245, "rows_needed": 30, "evidence": evidence, "sure": sure,
        "path": [*before, ["2026-W46", 20, 0.9, 0.7, evidence]],
    }  # fmt: skip


KNOWN = {
    "within_threshold": judged(
        RISE,
        risen(value=0.024, low=0.009, high=0.041, plug_in=0.033, change=0.005, change_low=-0.012, change_high=0.023,
              p_value=0.31, beyond=False),
    ),
    "within_threshold--out_of_reach": judged(
        OF_ALL,
        level(OF_ALL, value=0.018, low=0.018, high=0.018, plug_in=0.018, p_value=1.0, detectable=0.0, n=720,
              beyond=False, detail=behind(720, 0.018, 0.0, rows_needed=30, seen_at_most=0.2375)),
    ),
    "too_few_rows--out_of_reach": judged(
        OF_ALL,
        level(OF_ALL, value=0.044, low=-0.931, high=0.044, plug_in=0.044, p_value=1.0, detectable=0.0, n=1,
              beyond=False, adequate=False, detail=behind(1, 0.044, 0.0, rows_needed=30, seen_at_most=0.2375)),
    ),
    "not_significant_in_family": judged(RISE, risen(p_value=0.0031, change_low=0.021)),
    "streak_incomplete": judged(
        TWO_DAYS, level(TWO_DAYS, **ECE_DAYS, p_value=2e-6, n=1428, windows=2, streak=False, detail=TWO)
    ),
    "streak_incomplete--newest": judged(
        TWO_DAYS,
        level(TWO_DAYS, value=0.061, low=0.05, high=0.072, plug_in=0.063, detectable=0.03, p_value=0.98, n=1428,
              windows=2, beyond=False, streak=False, newest_beyond=True, detail=NEWEST),
    ),
    "increased": judged(RISE, risen(windows=2)),
    "increased--of_the_mce": judged(
        MCE_RISE,
        risen(p_rate=None, value=0.17, low=0.11, high=0.24, plug_in=0.19, baseline=0.06, change=0.11, change_low=0.04,
              change_high=0.18, detectable=0.08,
              detail=behind(2104, 0.412, 0.371, seen_at_most=0.1, worst_range=[0.82, 0.91], worst_n=143,
                            worst_gap=-0.17)),
    ),
    "increased--of_older_weeks": judged(
        RISE,
        risen(windows=4, n=2104, detail=behind(2104, 0.412, 0.371, seen_at_most=0.04, newest_alone={
            "n": 613, "value": 0.004, "beyond": False, "too_few": False}, times_judged=4)),
    ),
    "increased--of_the_newest_week": judged(
        RISE,
        risen(n=214, detail=behind(214, 0.412, 0.371, seen_at_most=0.04, together={
            "windows": 4, "n": 1912, "value": 0.031, "change": 0.012, "p_value": 0.31}, times_judged=5)),
    ),
    "decreased": judged(
        FALL,
        risen(value=0.851, low=0.83, high=0.871, plug_in=0.851, baseline=0.947, change=-0.096, change_low=-0.118,
              change_high=-0.075, p_rate=None, p_value=3e-9, detectable=0.026,
              detail=behind(2104, 0.412, 0.404, seen_at_most=0.06)),
    ),
    "not_significant_in_family--of_a_fall": judged(
        FALL,
        risen(value=0.901, low=0.87, high=0.93, plug_in=0.901, baseline=0.947, change=-0.046, change_low=-0.081,
              change_high=-0.016, p_rate=None, p_value=0.004, detectable=0.041,
              detail=behind(612, 0.412, 0.404, seen_at_most=0.06), n=612),
    ),
    "traffic_mix": judged(RISE, risen(p_rate=0.4)),
    "class_mix": judged(RISE, risen(detail=behind(2104, 0.412, 0.371, seen_at_most=0.04, class_mix=MIX))),
    "class_mix--of_a_fall": judged(
        FALL,
        risen(value=0.851, low=0.83, high=0.871, plug_in=0.851, baseline=0.947, change=-0.096, change_low=-0.118,
              change_high=-0.075, p_rate=None, p_value=3e-9, detectable=0.026,
              detail=behind(2104, 0.412, 0.404, seen_at_most=0.06, class_mix={**MIX, "expected_rise": -0.081})),
    ),
    "above_threshold--accumulated": judged(
        LASTING,
        level(LASTING, value=0.148, low=0.093, high=0.21, plug_in=0.148, detectable=0.16, n=181, windows=9,
              detail=behind(181.0, 0.903, 0.755, **accumulated(23150.0, sure=True))),
    ),
    "not_significant_in_family--accumulated": judged(
        LASTING,
        level(LASTING, value=0.133, low=0.054, high=0.231, plug_in=0.133, detectable=0.21, n=93, windows=5,
              detail=behind(93.0, 0.903, 0.77, **accumulated(312.4, sure=False))),
    ),
    "above_threshold": judged(
        OVERCONFIDENCE,
        level(OVERCONFIDENCE, value=0.32, low=0.22, high=0.42, plug_in=0.32, p_value=1e-7, detectable=0.11, n=118,
              windows=2, detail=ACTING),
    ),
    "above_threshold--few_rows": judged(
        OVERCONFIDENCE,
        level(OVERCONFIDENCE, value=0.62, low=0.3, high=0.85, plug_in=0.62, p_value=1e-6, detectable=0.31, n=21,
              windows=4, adequate=False,
              detail=behind(4.2, 0.91, 0.29, rows_needed=30, seen_at_most=0.2375, design_effect=5.0)),
    ),
    "above_threshold--textbook": judged(
        TEXTBOOK,
        level(TEXTBOOK, value=0.078, low=0.041, high=0.112, plug_in=0.104, p_value=0.21, n=702,
              detail=behind(702, 0.44, 0.38, asks=2, groups=TEXTBOOK_DAYS, judged="plug_in")),
    ),
    "too_few_rows--textbook": judged(
        TEXTBOOK,
        level(TEXTBOOK, value=0.078, low=0.0, high=0.212, plug_in=0.144, p_value=0.21, n=302, adequate=False,
              detail=behind(302, 0.44, 0.38, asks=2, groups=TEXTBOOK_DAYS, judged="plug_in")),
    ),
    "above_threshold--blocked": judged(
        BLOCKS,
        level(BLOCKS, value=0.31, low=0.24, high=0.41, plug_in=0.33, p_value=1e-9, detectable=0.09,
              detail=behind(2104, 0.41, 0.37, seen_at_most=0.2, blocked=[[0.74, 0.83]], worst_range=[0.74, 0.83],
                            worst_n=212, worst_gap=-0.33)),
    ),
    "below_threshold": judged(
        AUC,
        level(AUC, value=0.741, low=0.702, high=0.778, plug_in=0.741, p_value=8e-5, detectable=0.04,
              detail=behind(1800.0, 0.41, 0.4, seen_at_most=0.2)),
    ),
    "distribution_shifted": judged(
        KS, level(KS, value=0.18, plug_in=0.18, p_value=1e-12, detail={"rows_needed": 500, "n_baseline": 16000})
    ),
    "distribution_shifted--psi": judged(
        PSI, level(PSI, value=0.31, plug_in=0.31, detail={"bins": 10, "rows_needed": 500, "n_baseline": 16000})
    ),
    "no_baseline": judged(RISE, nothing(Reason.NO_BASELINE, n=2104)),
    "settings_changed": judged(
        RISE, nothing(Reason.SETTINGS_CHANGED, n=2104, detail={"settings": [["score_scale", "", "100.0"]]})
    ),
    "increased--renamed": judged(
        RISE,
        risen(detail=behind(2104, 0.412, 0.371, seen_at_most=0.04, renamed=[["relation", "tickets", "tickets_v2"]])),
    ),
    "in_baseline": judged(RISE, nothing(Reason.IN_BASELINE, n=2104, baseline_version=3)),
    "too_few_rows": judged(
        RISE,
        risen(value=0.03, low=0.0, high=0.071, plug_in=0.058, change=0.011, change_low=-0.02, change_high=0.052,
              p_value=0.2, detectable=0.055, n=311, windows=4, beyond=False, adequate=False,
              detail=behind(202.4, 0.412, 0.371, seen_at_most=0.04, design_effect=1.3)),
    ),
    "too_few_rows--undefined": judged(
        AUC,
        level(AUC, value=None, n=640, beyond=False, adequate=False, detail=behind(640, 0.02, 0.0, seen_at_most=0.2)),
    ),
    "too_few_rows--of_a_test": judged(KS, nothing(Reason.TOO_FEW_ROWS, n=41, baseline_version=3)),
    "too_few_rows--not_compared": judged(
        RISE, nothing(Reason.TOO_FEW_ROWS, n=1, windows=2, baseline_version=3, detail={"rows_needed": 500})
    ),
    "scores_moved": judged(
        RISE, nothing(Reason.SCORES_MOVED, n=2104, baseline_version=3, detail={"moved_share": 0.63, "comparable": 0.42})
    ),
    "rejected_rows": judged(
        OVERCONFIDENCE, nothing(Reason.REJECTED_ROWS, n=212, baseline_version=3)
    ),
    "not_mature": judged(
        OVERCONFIDENCE, nothing(Reason.NOT_MATURE, n=620, baseline_version=3)
    ),
    "no_rows": judged(OVERCONFIDENCE, nothing(Reason.NO_ROWS, n=212, baseline_version=3)),
    "unresolved_failed": judged(OVERCONFIDENCE, nothing(Reason.UNRESOLVED_FAILED, n=620)),
    "relation_error": judged(RISE, nothing(Reason.RELATION_ERROR)),
    "warehouse_failed": judged(RISE, nothing(Reason.WAREHOUSE_FAILED)),
    "increased--of_a_hostile_label": replace(
        judged(RISE, risen()), subject=Subject("tickets", "[/red] \u202ebilling\n*bold*\x07")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_an_explanation_reads_as_its_golden_case(name: str):
    read, case = "\n".join(lines(told(KNOWN[name]))) + "\n", CASES / f"{name}.txt"
    if os.environ.get("CALMON_TEST_WRITE_CASES"):  # then read the difference before you keep it
        case.write_text(read, encoding="utf-8")
    assert read == case.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", KNOWN)
def test_a_case_is_of_the_reason_it_is_named_by(name: str):
    assert KNOWN[name].reason.value == name.partition("--")[0]


@pytest.mark.parametrize("name", ["within_threshold--out_of_reach", "too_few_rows--out_of_reach"])
def test_where_no_truth_can_be_beyond_the_threshold_no_distance_is_stored_but_for_what_is_ok(name: str):
    verdict = KNOWN[name]
    assert verdict.detectable == (0.0 if verdict.outcome == "ok" else None)


def test_every_reason_has_a_case_and_every_case_a_verdict():
    assert {reason.value for reason in Reason} == {name.partition("--")[0] for name in KNOWN}
    assert {case.stem for case in CASES.iterdir()} == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_the_document_says_the_same_as_data(name: str):
    explanation = told(KNOWN[name])
    data = json.loads(json.dumps(plain(document(explanation)), allow_nan=False))
    text = list(lines(explanation))
    assert data["id"] == KNOWN[name].id
    assert text[0] == f"{data['sentence']}."
    facts = [check for check in data["checks"] if check["passed"] is None]
    assert [f"{check['question']} {check['answer']}." for check in facts] == text[1 : 1 + len(facts)]
    said = [f"{check['question']} {'Yes' if check['passed'] else 'No'}: {check['answer']}." for check in data["checks"]
            if check["passed"] is not None]  # fmt: skip
    assert said == [line[5:].lstrip() for line in text if line.startswith("  ")]


# --- nothing is claimed that the numbers do not say


def decided(explanation: Explanation) -> list[Check]:
    return [check for check in explanation.checks if check.passed is not None]


def text_of(verdict: Verdict, revision: str = REVISION) -> str:
    return "\n".join(lines(told(verdict, revision)))


def test_a_metric_of_automated_rows_says_how_many_these_are():
    rule = Rule(id="floor", metric="automated_accuracy", condition="below", threshold=0.95)
    detail = behind(1_200, 0.93, 0.71, of="automated", of_rows=111)
    text = text_of(judged(rule, level(rule, value=0.71, low=0.62, high=0.79, n=1_500, p_value=1e-9, detail=detail)))
    assert "Yes: 111 automated rows of 1,500 rows, with a mean score of 93.0% and a hit rate of 71.0%." in text
    assert "independent" not in text  # that is known of all rows


def test_a_change_says_by_how_much_weeks_differ_in_one_line():
    detail = behind(2_104, 0.412, 0.404, week_effect=1.4321, baseline_weeks=8)
    (line,) = (each for each in text_of(judged(RISE, risen(detail=detail))).splitlines() if "do weeks differ" in each)
    assert "in the 8 of the baseline" in line
    assert line.endswith("take the variance of these rows times 1.43.")
    assert "do weeks differ" not in text_of(judged(RISE, risen()))


def test_without_limits_no_interval_is_reported():
    evidence = risen(low=None, high=None, change_low=None, change_high=None)
    assert "interval" not in text_of(judged(RISE, evidence))


def test_an_interval_that_reaches_beyond_the_threshold_is_not_passed_over():
    assert "so that it is beyond is not ruled out" in text_of(KNOWN["within_threshold"])
    evidence = risen(change=0.005, change_low=0.0, change_high=0.012, beyond=False)
    assert "not ruled out" not in text_of(judged(RISE, evidence))


def test_changed_rules_are_reported_and_the_stored_threshold_is_used():
    text = text_of(KNOWN["increased"], "0ther")
    assert f"alerts.yaml has changed since this verdict (revision {REVISION} then, 0ther now)" in text
    assert "alerts.yaml has changed" not in text_of(KNOWN["increased"])


def test_the_explanation_gives_the_answers_that_were_stored_whatever_the_numbers_are():
    verdict = KNOWN["increased"]
    checks = [[name, name != "sure" and passed] for name, passed in verdict.detail["checks"]]
    text = text_of(replace(verdict, detail={**verdict.detail, "checks": checks}))
    assert "Is it confirmed? No: if nothing had changed, as much or more would be seen with p = 2.5e-05; " in text


EXCESS = Rule(id="excess", metric="excess_errors", condition="above", threshold=20)
AT_THREE = Rule(id="three", metric="ece_at_3", condition="above", threshold=0.05)


def test_a_metric_says_which_rows_it_looks_at_whatever_rows_it_was_given():
    acted = behind(900, 0.91, 0.8, seen_at_most=20) | {"of": "automated", "of_rows": 120}
    text = text_of(judged(EXCESS, level(EXCESS, value=52.0, p_value=1e-9, detail=acted)))
    assert "the rows of tickets/billing in 2026-W46 (weekly) that automation takes while it is on" in text
    assert "120 automated rows of 2,104 rows, with a mean score of 91.0% and a hit rate of 80.0%" in text
    ranked = text_of(judged(AT_THREE, level(AT_THREE, value=0.08, p_value=1e-9, detail=behind(900, 0.5, 0.4))))
    assert "What is asked? three (warning) asks whether ECE@3 is above 0.05." in ranked
    assert "the 3 highest scores of each item of tickets/billing in 2026-W46 (weekly)." in ranked


def test_of_a_metric_that_no_baseline_keeps_nobody_says_that_there_is_none():
    text = text_of(judged(AT_THREE, level(AT_THREE, value=0.08, p_value=1e-9, baseline_version=None)))
    assert "Is the window outside the baseline's own time? Yes: no pinned baseline is used." in text


def test_what_is_not_confirmed_is_on_the_side_of_the_limit_where_it_is():
    verdict = judged(AUC, level(AUC, value=0.75, p_value=0.2, detail=behind(900, 0.5, 0.4)))
    assert unconfirmed_words(verdict) == "below the limit, not confirmed"
    lasting = replace(verdict, metric="accuracy", detail=verdict.detail | {"condition": "accumulated"})
    assert unconfirmed_words(lasting) == "below the limit, not confirmed"
    assert unconfirmed_words(replace(lasting, metric="overconfidence")) == "above the limit, not confirmed"


# --- the chain is the decision

RULES = (OVERCONFIDENCE, RISE, FALL, MCE_RISE, BLOCKS, TWO_DAYS, AUC, KS, PSI)
SMALL = st.floats(1e-9, 1.0)


@st.composite
def evidences(draw: st.DrawFn) -> tuple[Rule, Comparison]:
    rule = draw(st.sampled_from(RULES))
    problems = [
        Reason.NO_ROWS, Reason.IN_BASELINE, *UNREAD
    ]  # fmt: skip
    if rule.compares:
        moved = [Reason.SCORES_MOVED, Reason.TOO_FEW_ROWS] if rule.condition == "increase" else []
        problems += [Reason.NO_BASELINE, *moved]
    if rule.test is not None:
        problems += [Reason.NO_BASELINE, Reason.TOO_FEW_ROWS]
    problem = draw(st.sampled_from([None] * 12 + problems))
    if problem is not None:
        return rule, nothing(problem, n=draw(st.integers(0, 500)))
    value = draw(st.floats(0, 1)) if rule.test else draw(st.none() | st.floats(0, 1))
    past = value is not None and (value < rule.threshold if rule.condition == "below" else value > rule.threshold)
    change = value if value is None or rule.condition == "increase" else -value
    measured = {"change": change, "value": 0.1} if rule.compares else {"value": value}
    streak = draw(st.booleans()) if rule.for_windows > 1 else True
    p_value = None if rule.test == "psi" or value is None else draw(SMALL)
    newest = rule.for_windows > 1 and (streak or draw(st.booleans()))
    groups = [{"windows": 1, "n": 450, "value": 0.1, "beyond": each} for each in (newest, streak)]
    detail = behind(900, 0.5, 0.4, seen_at_most=0.1, asks=rule.for_windows, groups=groups)
    found = level(
        rule, p_value=p_value, p_rate=draw(st.none() | SMALL) if rule is RISE else None, beyond=past, streak=streak,
        newest_beyond=newest, adequate=draw(st.booleans()) and value is not None, detail=detail, **measured,
    )  # fmt: skip
    return rule, found


STOPS = {
    "accepted": Reason.REJECTED_ROWS,
    "mature": Reason.NOT_MATURE,
    "rows": Reason.NO_ROWS,
    "outside_baseline": Reason.IN_BASELINE,
    "baseline": Reason.NO_BASELINE,
    "same_settings": Reason.SETTINGS_CHANGED,
    "comparable": Reason.SCORES_MOVED,
    "enough_rows": Reason.TOO_FEW_ROWS,
    "test_result": Reason.TOO_FEW_ROWS,
    "could_be_seen": Reason.TOO_FEW_ROWS,
    "newest_within": Reason.STREAK_INCOMPLETE,
    "beyond": Reason.WITHIN_THRESHOLD,
    "every_window": Reason.STREAK_INCOMPLETE,
    "sure": Reason.NOT_SIGNIFICANT_IN_FAMILY,
    "behaviour": Reason.TRAFFIC_MIX,
}


def leads_to(rule: Rule, checks: Sequence[Check]) -> Reason | None:
    """The reason to which the checks lead by docs/explain.md; None where that is not known."""
    failed = {check.name for check in checks if not check.passed}
    if "readable" in failed:
        return None
    if failed:
        return next(reason for name, reason in STOPS.items() if name in failed)
    if rule.test is not None:
        return Reason.DISTRIBUTION_SHIFTED
    breach = {
        "increase": Reason.INCREASED,
        "decrease": Reason.DECREASED,
        "above": Reason.ABOVE_THRESHOLD,
        "below": Reason.BELOW_THRESHOLD,
    }
    return breach[rule.condition]


@given(evidences(), st.lists(SMALL, max_size=4))
def test_the_checks_lead_where_the_decision_led(case: tuple[Rule, Comparison], others: list[float]):
    rule, evidence = case
    verdict = judged(rule, evidence, others=tuple(others))
    unread = (Reason.RELATION_ERROR, Reason.WAREHOUSE_FAILED, Reason.UNRESOLVED_FAILED)
    assert leads_to(rule, decided(told(verdict))) == (None if verdict.reason in unread else verdict.reason)
    assert told(verdict).notes == ()


@given(evidences())
def test_only_the_last_check_of_what_was_not_measured_fails(case: tuple[Rule, Comparison]):
    rule, evidence = case
    if evidence.problem is None:
        return
    checks = decided(told(judged(rule, evidence)))
    assert [check.passed for check in checks] == [True] * (len(checks) - 1) + [False]


# --- with what comparisons really store


def counts(seed: int, n: int, gap: float) -> Counts:
    rng = np.random.default_rng(seed)
    score = np.round(rng.random(n), 2)
    return counts_from_rows(score, rng.random(n) < np.clip(score - gap, 0, 1), automate_at=0.8)


def real(rule: Rule, weeks: tuple[Counts, ...], **frozen: Any) -> Explanation:
    evaluation = EvaluationConfig(resamples=100, interval="analytic")
    base = counts(1, 16_000, 0.0)
    baseline = replace(BASELINE, counts=base, edges=edges_of(base, evaluation), **frozen)
    evidence = compare(rule, RuleInput(BILLING, WEEK, weeks, baseline), evaluation)
    (verdict,) = decide(rule, [evidence], rate=0.01, decision_rules=1, revision=REVISION)
    return explain(verdict, REVISION, baseline)


def test_real_evidence_brings_every_number_an_explanation_says():
    week = counts(2, 5_000, 0.1)
    found = real(RISE, (week,))
    assert found.verdict.reason is Reason.INCREASED
    told = document(found)
    assert told["numbers"]["promised"] == pytest.approx(week.ws.sum() / week.rows)
    assert told["numbers"]["kept"] == pytest.approx(week.positives / week.rows)
    assert None not in [told[name] for name in ("change", "threshold", "value", "baseline", "p_value", "p_adjusted")]
    assert {"low", "plug_in", "rate", "family", "rank"} <= {k for k, v in told["numbers"].items() if v is not None}
    assert [check.name for check in found.checks][-2:] == ["sure", "behaviour"]


def test_each_window_of_a_for_rule_is_reported_by_itself():
    rule = TWO_DAYS.model_copy(update={"schedule": "weekly"})
    found = real(rule, (counts(3, 3_000, 0.3), counts(4, 3_000, 0.0)))
    assert found.verdict.reason is Reason.STREAK_INCOMPLETE
    (check,) = [check for check in found.checks if check.name == "every_window"]
    newest, before = document(found)["numbers"]["groups"]
    assert (newest["n"], before["n"]) == (3_000, 3_000)
    assert newest["value"] > 0.08 > before["value"]
    assert not check.passed


def test_quiet_days_are_said_to_be_put_together_for_the_part_of_each_of_those_running():
    rows = ((20, 0.0), (20, 0.0), (800, 0.0), (800, 0.4), (800, 0.0), (800, 0.0))
    found = real(TWO_DAYS, tuple(counts(seed, *each) for seed, each in enumerate(rows, start=5)))
    (pooled,) = [check.text for check in found.checks if check.name == "windows"]
    assert "could not have shown a change that matters, or gave too few to one of the 2 running, in 2 groups" in pooled
    few = replace(
        judged(TWO_DAYS, level(TWO_DAYS, **ECE_DAYS, p_value=2e-6, n=1428, windows=4, streak=False)),
        detail={
            "checks": [["every_window", False]],
            "asks": 2,
            "groups": [
                {"windows": 2, "n": 20, "value": 0.3, "beyond": True, "too_few": True},
                {"windows": 2, "n": 1408, "value": 0.12, "beyond": True},
            ],
        },
    )
    told = text_of(few)
    assert "newest first: 0.3 (n = 20 in 2 windows, too few to say), 0.12 (n = 1,408 in 2 windows)" in told


@pytest.mark.parametrize(("value", "said"), [("mail", "mail"), ("شكوى", "\u2068شكوى\u2069")])
def test_what_the_newest_of_several_windows_shows_by_itself_is_said_and_only_sentences_isolate_its_segment(
    value: str, said: str
):
    alone = {"n": 31, "value": 0.2513, "beyond": True, "too_few": False}
    detail = ACTING | {"segment": ["channel", value], "newest_alone": alone}
    one = told(judged(OVERCONFIDENCE, level(OVERCONFIDENCE, value=0.3, windows=2, detail=detail)))
    (text,) = [check.text for check in one.checks if check.name == "windows"]
    assert text.endswith(f"alone has 0.2513 from 31 rows in channel = {said}, beyond the threshold as well.")
    found = document(one)
    assert (found["numbers"]["newest_alone"], found["segment"]) == (alone, {"channel": value})


@pytest.mark.parametrize(
    ("turns_off", "said"),
    [
        ([["channel", "mail"], ["score_band", "from 0.9"]], "automation off for channel = mail; scores from 0.9."),
        ([], "automation off."),
    ],
    ids=["segments", "the label"],
)
def test_a_breach_that_turns_segments_off_asks_for_these_alone(turns_off: list[list[str]], said: str):
    detail = ACTING | {"segment": ["channel", "mail"], "turns_off": turns_off}
    found = list(lines(told(judged(OVERCONFIDENCE, level(OVERCONFIDENCE, value=0.3, p_value=1e-9, detail=detail)))))
    (asked,) = [line for line in found if line.startswith("It asks for: ")]
    assert asked.endswith(said)


def test_dependent_rows_are_reported_with_what_they_are_worth():
    week = counts(5, 5_000, 0.1).with_design_effect(2.5)
    assert document(real(RISE, (week,)))["numbers"]["effective_rows"] == pytest.approx(2_000)


def test_a_probability_too_small_to_be_summed_is_never_called_zero():
    sure = replace(judged(RISE, risen()), p_value=0.0, p_adjusted=0.0)
    told = text_of(sure)
    assert "would be seen with p < 1e-15; " in told
    assert "adjusted p < 1e-15, below 0.01" in told
    assert "p = 0." not in told


def test_a_verdict_that_is_no_breach_calls_no_range_significantly_beyond():
    blocks = KNOWN["above_threshold--blocked"]
    assert "no automation of scores 0.74 to 0.83, significantly beyond the threshold" in text_of(blocks)
    doubtful = replace(
        blocks, outcome="unconfirmed", reason=Reason.NOT_SIGNIFICANT_IN_FAMILY, p_value=0.02, p_adjusted=0.6, actions=()
    )
    assert "significantly beyond" not in text_of(doubtful)


def test_a_false_negative_rate_says_what_it_is_a_share_of():
    rule = Rule(id="missed", metric="false_negative_rate", condition="above", threshold=0.02)
    missed = judged(rule, level(rule, value=0.3, p_value=1e-9, detail=behind(1_583, 0.093, 0.091)))
    assert "a hit rate of 9.1%: it is a share of those that came true" in text_of(missed)


def test_less_than_one_effective_row_is_not_none():
    one_cluster = replace(KNOWN["too_few_rows"], n=203)
    one_cluster = replace(one_cluster, detail={**one_cluster.detail, "effective_rows": 0.34, "design_effect": 600.0})
    assert "203 rows (worth less than one independent row: " in text_of(one_cluster)
