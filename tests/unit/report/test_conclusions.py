"""What is concluded from the numbers: the light, the tree, the action table, and which of them wins."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from monitor.core.records import ActionKind, Estimate, Interval, Outcome, Reason, Subject, Verdict, Window
from monitor.recalibration.gain import Gain, ScoreQuality
from monitor.recalibration.score_map import Method
from monitor.report.conclusions import (
    ADVICE,
    ALL_OK,
    BANDS,
    LEVELS,
    NO_MAP_HELPS,
    NO_RULE,
    TREE,
    Condition,
    Facts,
    conclude,
    facts_of,
    level,
    level_of,
)

DOCS = Path(__file__).parents[3] / "docs" / "conclusions.md"
GOOD = {"ece": 0.02, "mce": 0.08, "roc_auc": 0.91, "pairs": 20_000}
WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")


def bands(**facts: object) -> list[str]:
    return [one.reason for one in conclude(Facts(**(GOOD | facts))).bands]  # type: ignore[arg-type]


def verdict(
    outcome: Outcome, metric: str = "ece", reason: Reason = Reason.INCREASED, rule: str | None = None,
    actions: tuple[ActionKind, ...] = ("slack",), **detail: object,
) -> Verdict:  # fmt: skip
    return Verdict(
        f"{metric}{outcome}", rule or f"{metric}-rule", Subject("tickets", "a"), WEEK, metric, "all", outcome, reason,
        "warning", 0.02, n=900, actions=actions if outcome == "breach" else (), detail=detail,
    )  # fmt: skip


def advised(*verdicts: Verdict, **facts: object) -> list[tuple[str, str]]:
    found = conclude(Facts(**(GOOD | facts)), verdicts)  # type: ignore[arg-type]
    return [(one.act, one.reason) for one in found.advice]


OK = verdict("ok", reason=Reason.WITHIN_THRESHOLD)
TOO_FEW = verdict("not_evaluated", reason=Reason.TOO_FEW_ROWS, rule="few", condition="increase")
BREACHES = (
    Reason.INCREASED, Reason.DECREASED, Reason.TRAFFIC_MIX, Reason.ABOVE_THRESHOLD, Reason.BELOW_THRESHOLD,
    Reason.DISTRIBUTION_SHIFTED, Reason.CLASS_MIX,
)  # fmt: skip
UNCONFIRMED = (Reason.NOT_SIGNIFICANT_IN_FAMILY, Reason.STREAK_INCOMPLETE)


def gain(method: Method, after: float, brier: float, low: float = 0.05) -> Gain:
    before = ScoreQuality(Interval(0.1, low, 0.2, 0.1), 0.2, 0.5)
    return Gain(method, before, ScoreQuality(Interval(after, 0, 1, after), brier, 0.4), 1)


# as REFERENCE gives them: quantity, on the border, past it, and what then holds
@pytest.mark.parametrize(
    ("quantity", "border", "past", "colour", "reason"),
    [
        ("ece", 0.15, 0.1501, "red", "red_ece"),
        ("roc_auc", 0.75, 0.7499, "red", "red_auc"),
        ("mce", 0.20, 0.2001, "red", "red_mce"),
        ("ece", 0.05, 0.0501, "amber", "amber"),
        ("roc_auc", 0.80, 0.7999, "amber", "amber"),
        ("mce", 0.15, 0.1501, "amber", "amber"),
    ],
)
def test_a_level_changes_just_past_its_limit(
    quantity: str, border: float, past: float, colour: str, reason: str
) -> None:
    at, beyond = (level_of(Facts(**(GOOD | {quantity: value}))) for value in (border, past))  # type: ignore[arg-type]
    assert beyond == (colour, (reason,))
    assert at[0] == ("amber" if colour == "red" else "green")


def test_every_reason_for_red_is_named() -> None:
    assert level_of(Facts(ece=0.3, mce=0.4, roc_auc=0.6)) == ("red", ("red_ece", "red_auc", "red_mce"))


@pytest.mark.parametrize(
    ("known", "colour"),
    [
        ({}, "grey"), ({"ece": 0.01}, "amber"), ({"ece": 0.01, "mce": 0.01}, "amber"), ({"mce": 0.3}, "red"),
        ({"roc_auc": 0.5}, "red"), ({"ece": 0.01, "mce": 0.01, "roc_auc": 0.9}, "green"),
    ],
)  # fmt: skip
def test_green_needs_all_three_numbers_red_only_one_and_grey_is_none(known: dict[str, float], colour: str) -> None:
    assert level(known.get("ece"), known.get("roc_auc"), known.get("mce")) == colour
    assert level(known.get("ece"), known.get("roc_auc"), known.get("mce"), evaluated=False) == "grey"


def test_the_level_is_what_the_rule_in_words_says_for_every_combination() -> None:
    values = (None, 0.0, 0.05, 0.06, 0.15, 0.16, 0.2, 0.21, 0.74, 0.75, 0.79, 0.8, 0.9)
    for ece, auc, mce in itertools.product(values, repeat=3):
        if ece is auc is mce is None:
            expected = "grey"
        elif (ece or 0) > 0.15 or (1 if auc is None else auc) < 0.75 or (mce or 0) > 0.2:
            expected = "red"
        elif None in (ece, auc, mce) or ece > 0.05 or auc < 0.8 or mce > 0.15:  # type: ignore[operator]
            expected = "amber"
        else:
            expected = "green"
        assert level(ece, auc, mce) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"ece": 0.05}, ["well_calibrated"]),
        ({"ece": 0.0501}, ["moderately_off"]),
        ({"ece": 0.1501}, ["far_off"]),
        ({"roc_auc": 0.7999}, ["weak_discrimination"]),
        ({"mce": 0.20}, ["well_calibrated"]),
        ({"mce": 0.2001}, ["well_calibrated", "mce_critical"]),
        ({"ece_rise": 0.02}, ["well_calibrated"]),
        ({"ece_rise": 0.0201}, ["well_calibrated", "ece_rose"]),
        ({"mce_rise": 0.05}, ["well_calibrated"]),
        ({"mce_rise": 0.0501}, ["well_calibrated", "mce_rose"]),
        ({"ece_today": 0.09, "ece_yesterday": 0.08}, ["well_calibrated"]),
        ({"ece_today": 0.09}, ["well_calibrated"]),
        ({"ece_today": 0.0801, "ece_yesterday": 0.0801}, ["well_calibrated", "ece_high_two_days"]),
        ({"pairs": 10_000}, ["well_calibrated"]),
        ({"pairs": 9_999}, ["well_calibrated", "few_pairs"]),
    ],
)
def test_every_band_begins_just_past_its_limit(facts: dict[str, float], expected: list[str]) -> None:
    assert bands(**facts) == expected


@pytest.mark.parametrize("facts", [
    {"ece_today": 0.12, "ece_yesterday": 0.12}, {"mce": 0.31}, {"ece": 0.2}, {"roc_auc": 0.6}, {"ece_rise": 0.4},
    {"pairs": 12}, {"threshold": 0.83},
])  # fmt: skip
def test_no_number_asks_for_anything_beside_a_verdict_that_is_ok(facts: dict[str, float]) -> None:
    assert advised(OK, **facts) == [("nothing", ALL_OK)]
    assert advised(**facts) == [("nothing", NO_RULE)]


def test_ok_is_said_with_its_basis() -> None:
    (one,) = conclude(Facts(), [OK, verdict("ok", "mce", Reason.WITHIN_THRESHOLD)]).advice
    assert one.words == "nothing to do (ok: all 2 rules were evaluated)"


def test_people_decide_where_a_breach_turns_automation_off_and_every_rule_behind_it_is_named() -> None:
    off = [
        verdict("breach", m, Reason.ABOVE_THRESHOLD, actions=("disable_automation",)) for m in ("overconfidence", "ece")
    ]
    first = conclude(Facts(), off).advice[0]
    assert (first.act, first.reason) == ("automation_off", "people_decide")
    assert first.words == "let people decide these items (overconfidence-rule: breach, ece-rule: breach)"


def test_scores_are_blocked_in_advice_only_where_the_rule_that_blocks_them_is_in_breach() -> None:
    unproved = verdict("unconfirmed", "mce", Reason.NOT_SIGNIFICANT_IN_FAMILY, "mce-blocks-scores", ("block_scores",))
    assert advised(unproved, mce=0.31, worst_range=(0.81, 1.0)) == [("wait", "not_confirmed")]
    proved = verdict(
        "breach", "mce", Reason.ABOVE_THRESHOLD, "mce-blocks-scores", ("block_scores",), blocked=[[0.81, 1.0]]
    )
    first = conclude(Facts(), [proved]).advice[0]
    assert first.words == "let people decide these scores, 0.81 to 1.00 (mce-blocks-scores: breach)"


def test_above_the_limit_without_proof_is_waited_for_and_called_so() -> None:
    (one,) = conclude(Facts(), [verdict("unconfirmed", reason=Reason.STREAK_INCOMPLETE)]).advice
    assert one.words == "wait for the next window (ece-rule: above the limit, not confirmed)"


def test_more_rows_are_asked_for_by_a_verdict_and_never_beside_a_confirmed_breach() -> None:
    assert advised(TOO_FEW, OK) == [("collect_more", "few_rows")]
    reasons = [reason for _, reason in advised(TOO_FEW, verdict("breach"), pairs=12)]
    assert "few_rows" not in reasons
    found = conclude(Facts(**(GOOD | {"pairs": 12})), [verdict("breach")])  # type: ignore[arg-type]
    assert "few_pairs" not in [band.reason for band in found.bands]


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (verdict("breach", "roc_auc", Reason.BELOW_THRESHOLD), "ranking_poor"),
        (verdict("breach", "false_negative_rate", Reason.ABOVE_THRESHOLD), "misses_too_many"),
        (verdict("breach", "ece", Reason.ABOVE_THRESHOLD), "scores_off"),
        (verdict("breach", "accuracy", Reason.BELOW_THRESHOLD), "level_missed"),
        (verdict("breach", "ece", Reason.TRAFFIC_MIX), "traffic_moved"),
        (verdict("breach", "ece", Reason.CLASS_MIX), "class_mix_moved"),
        (verdict("breach", "ks", Reason.DISTRIBUTION_SHIFTED), "data_shifted"),
        (verdict("not_evaluated", reason=Reason.SCORES_MOVED), "scores_moved"),
        (verdict("not_evaluated", reason=Reason.REJECTED_ROWS), "rows_rejected"),
        (verdict("not_evaluated", reason=Reason.RELATION_ERROR), "source_not_read"),
        (verdict("not_evaluated", reason=Reason.WAREHOUSE_FAILED), "source_not_read"),
        (verdict("not_evaluated", reason=Reason.UNRESOLVED_FAILED), "unresolved_not_read"),
        (verdict("not_evaluated", reason=Reason.NO_ROWS), "no_outcomes"),
        (verdict("not_evaluated", reason=Reason.NO_BASELINE), "no_baseline"),
        (verdict("not_evaluated", reason=Reason.IN_BASELINE), "in_baseline"),
        (verdict("not_evaluated", reason=Reason.NOT_MATURE), "not_mature"),
    ],
)
def test_each_verdict_asks_for_one_thing(one: Verdict, reason: str) -> None:
    assert [found for _, found in advised(one)] == [reason]


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.WITHIN_THRESHOLD])
def test_every_verdict_that_is_not_ok_asks_for_something(reason: Reason) -> None:
    outcome: Outcome = "breach" if reason in BREACHES else "unconfirmed" if reason in UNCONFIRMED else "not_evaluated"
    assert ALL_OK not in [found for _, found in advised(verdict(outcome, reason=reason))]


def test_a_new_model_version_is_named_where_only_the_traffic_seems_to_have_moved() -> None:
    told = "the main model version was v3 in 2026-W28 and is v4; no row is of v3 any more"
    (one,) = conclude(Facts(new_version=told), [verdict("breach", reason=Reason.TRAFFIC_MIX)]).advice
    assert one.words == f"compare the model versions: {told} (ece-rule: breach)"


def test_a_rise_is_recalibrated_and_its_cause_looked_for() -> None:
    assert advised(verdict("breach")) == [("recalibrate", "scores_off"), ("investigate", "something_changed")]


@pytest.mark.parametrize(
    ("ece", "sentence"),
    [
        (0.06, "recalibrate: by temperature scaling"),
        (0.15, "recalibrate: by temperature scaling"),
        (0.1501, "recalibrate: by isotonic regression, and validate on new rows"),
    ],
)
def test_the_tree_names_the_method_where_no_gain_is_known(ece: float, sentence: str) -> None:
    found = conclude(Facts(**(GOOD | {"ece": ece})), [verdict("breach")])  # type: ignore[arg-type]
    assert found.advice[0].sentence == sentence


def test_known_gains_decide_on_the_method_against_the_tree() -> None:
    gains: dict[Method, Gain] = {
        "temperature": gain("temperature", 0.09, 0.199), "isotonic": gain("isotonic", 0.01, 0.15),
    }  # fmt: skip
    found = conclude(Facts(**(GOOD | {"ece": 0.1}), gains=gains), [verdict("breach")])  # type: ignore[arg-type]
    assert found.recalibration is not None
    assert found.recalibration.method == "isotonic"
    told = "isotonic helps: the ECE falls from 0.1000 to 0.0100 on rows not seen"
    assert found.advice[0].sentence == f"recalibrate: {told}"
    assert found.bands[0].sentence == f"ECE above 0.05, at most 0.15: the band of temperature scaling; {told}"


def test_recalibration_is_not_advised_where_none_helps() -> None:
    gains: dict[Method, Gain] = {"temperature": gain("temperature", 0.11, 0.21)}
    facts = Facts(**(GOOD | {"ece": 0.1}), gains=gains)  # type: ignore[arg-type]
    found = conclude(facts, [verdict("breach", reason=Reason.ABOVE_THRESHOLD)])
    assert [(one.act, one.reason) for one in found.advice] == [("retrain", "no_map_helps")]


def test_bands_describe_and_name_their_numbers() -> None:
    facts = Facts(**(GOOD | {"mce": 0.3, "pairs": 6_120, "threshold": 0.83}), worst_range=(0.8, 0.9))  # type: ignore[arg-type]
    assert [band.sentence for band in conclude(facts).bands] == [
        "ROC AUC at least 0.80 and ECE at most 0.05: well calibrated", "MCE above 0.20, in scores 0.80 to 0.90",
        "fewer than 10,000 pairs over all labels of this evaluation: 6,120",
        "the target accuracy is shown from a score on: 0.83",
    ]  # fmt: skip


def test_what_was_not_evaluated_has_no_band_and_no_level() -> None:
    found = conclude(Facts(**(GOOD | {"ece": 0.3}), evaluated=False), [TOO_FEW])  # type: ignore[arg-type]
    assert (found.level, found.reasons, found.bands) == ("grey", ("grey",), ())
    assert [one.reason for one in found.advice] == ["few_rows"]


def test_a_condition_on_an_unknown_quantity_does_not_hold() -> None:
    for sign in (">", "<", ">=", "<="):
        assert not Condition("ece", sign, 0.5).holds(Facts())  # type: ignore[arg-type]
    assert str(Condition("ece", ">", 0.15)) == "ece > 0.15"


def test_facts_are_read_from_the_estimates_over_all_rows() -> None:
    window = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")

    def estimate(metric: str, value: float, where: str = "all", **detail: object) -> Estimate:
        interval = Interval(value, 0, 1, 0.9)
        return Estimate(Subject("tickets", "a"), window, metric, where, interval, 12_000, 9.0, detail)  # type: ignore[arg-type]

    found = facts_of(
        [
            estimate("ece", 0.03), estimate("ece", 0.4, "automated"), estimate("roc_auc", 0.9),
            estimate("mce", 0.1, worst_range=[0.2, 0.3]),
        ],
        {}, days=(0.01, 0.02), threshold=0.7, pairs=14_364,
    )  # fmt: skip
    assert found == Facts(
        ece=0.03, mce=0.1, roc_auc=0.9, pairs=14_364, worst_range=(0.2, 0.3), ece_yesterday=0.01, ece_today=0.02,
        threshold=0.7,
    )  # fmt: skip
    assert facts_of([], {}) == Facts()


def test_the_page_has_a_section_with_every_reason_and_its_conditions() -> None:
    page = DOCS.read_text("utf-8")
    parts = re.split(r"^### (.+)$", page, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    rows: list[Any] = [*TREE, *BANDS, *LEVELS]
    asked = {row.reason for row in ADVICE} | {NO_MAP_HELPS.reason, ALL_OK, NO_RULE}
    assert set(sections) == {row.reason for row in rows} | asked | {"amber", "grey"}
    missing = [f"{row.reason}: {c}" for row in rows for c in row.conditions if f"`{c}`" not in sections[row.reason]]
    assert missing == []
    assert [row.reason for row in ADVICE if f"`{row.outcome}`" not in sections[row.reason]] == []
