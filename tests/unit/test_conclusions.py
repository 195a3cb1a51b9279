"""What is concluded from the numbers: the light, the tree, the action table, and which of them wins."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.conclusions import ACTIONS, LIGHTS, NO_MAP_HELPS, TREE, Condition, Facts, conclude, facts_of, light, lit
from monitor.recalibration.gain import Gain, Quality
from monitor.recalibration.score_map import Method
from monitor.records import Estimate, Interval, Subject, Window

DOCS = Path(__file__).parents[2] / "docs" / "conclusions.md"
GOOD = {"ece": 0.02, "mce": 0.08, "roc_auc": 0.91, "rows": 20_000}


def reasons(**facts: object) -> list[str]:
    return [one.reason for one in conclude(Facts(**(GOOD | facts))).advice]  # type: ignore[arg-type]


def gain(method: Method, after: float, brier: float, low: float = 0.05) -> Gain:
    before = Quality(Interval(0.1, low, 0.2, 0.1), 0.2, 0.5)
    return Gain(method, before, Quality(Interval(after, 0, 1, after), brier, 0.4), 1)


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
def test_a_light_changes_just_past_its_limit(
    quantity: str, border: float, past: float, colour: str, reason: str
) -> None:
    at, beyond = (lit(Facts(**(GOOD | {quantity: value}))) for value in (border, past))  # type: ignore[arg-type]
    assert beyond == (colour, (reason,))
    assert at[0] == ("amber" if colour == "red" else "green")


def test_every_reason_for_red_is_named() -> None:
    assert lit(Facts(ece=0.3, mce=0.4, roc_auc=0.6)) == ("red", ("red_ece", "red_auc", "red_mce"))


@pytest.mark.parametrize(
    ("known", "colour"),
    [
        ({}, "grey"), ({"ece": 0.01}, "amber"), ({"ece": 0.01, "mce": 0.01}, "amber"), ({"mce": 0.3}, "red"),
        ({"roc_auc": 0.5}, "red"), ({"ece": 0.01, "mce": 0.01, "roc_auc": 0.9}, "green"),
    ],
)  # fmt: skip
def test_green_needs_all_three_numbers_red_only_one_and_grey_is_none(known: dict[str, float], colour: str) -> None:
    assert light(known.get("ece"), known.get("roc_auc"), known.get("mce")) == colour
    assert light(known.get("ece"), known.get("roc_auc"), known.get("mce"), evaluated=False) == "grey"


def test_the_light_is_what_the_rule_in_words_says_for_every_combination() -> None:
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
        assert light(ece, auc, mce) == expected


def test_a_good_label_is_deployed_with_its_threshold() -> None:
    found = conclude(Facts(**GOOD, threshold=0.83))  # type: ignore[arg-type]
    assert [(one.act, one.reason) for one in found.advice] == [
        ("set_threshold", "threshold_known"), ("deploy", "well_calibrated"),
    ]  # fmt: skip
    assert found.advice[0].sentence == "automate from the chosen threshold, 0.83"
    assert found.advice[0].docs == "docs/conclusions.md#threshold_known"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"ece": 0.05}, ["well_calibrated"]),
        ({"ece": 0.0501}, ["ece_high"]),
        ({"roc_auc": 0.7999}, ["auc_low"]),
        ({"roc_auc": 0.7999, "ece": 0.0501}, ["auc_low", "ece_high"]),
        ({"mce": 0.20}, ["well_calibrated"]),
        ({"mce": 0.2001}, ["mce_critical"]),
        ({"ece_rise": 0.02}, ["well_calibrated"]),
        ({"ece_rise": 0.0201}, ["ece_rose"]),
        ({"mce_rise": 0.05}, ["well_calibrated"]),
        ({"mce_rise": 0.0501}, ["mce_rose"]),
        ({"ece_today": 0.09, "ece_yesterday": 0.08}, ["well_calibrated"]),
        ({"ece_today": 0.09}, ["well_calibrated"]),
        ({"ece_today": 0.0801, "ece_yesterday": 0.0801, "threshold": 0.9}, ["ece_high_two_days"]),
        ({"rows": 10_000}, ["well_calibrated"]),
        ({"rows": 9_999}, ["few_pairs"]),
    ],
)
def test_every_action_begins_just_past_its_limit(facts: dict[str, float], expected: list[str]) -> None:
    assert reasons(**facts) == expected


def test_an_action_wins_over_a_tree_that_would_deploy() -> None:
    found = conclude(Facts(**(GOOD | {"mce": 0.3}), worst_range=(0.8, 0.9)))  # type: ignore[arg-type]
    assert found.light == "red"
    assert [(one.act, one.sentence) for one in found.advice] == [
        ("block_scores", "block the scores of the worst bin, 0.80 to 0.90")
    ]


@pytest.mark.parametrize(
    ("ece", "sentence"),
    [
        (0.06, "recalibrate: by temperature scaling"),
        (0.15, "recalibrate: by temperature scaling"),
        (0.1501, "recalibrate: by isotonic regression, and validate on new rows"),
    ],
)
def test_the_tree_names_the_method_where_no_gain_is_known(ece: float, sentence: str) -> None:
    assert conclude(Facts(**(GOOD | {"ece": ece}))).advice[0].sentence == sentence  # type: ignore[arg-type]


def test_known_gains_decide_on_the_method_against_the_tree() -> None:
    gains: dict[Method, Gain] = {
        "temperature": gain("temperature", 0.09, 0.199), "isotonic": gain("isotonic", 0.01, 0.15),
    }  # fmt: skip
    found = conclude(Facts(**(GOOD | {"ece": 0.1}), gains=gains))  # type: ignore[arg-type]
    assert found.recalibration is not None
    assert found.recalibration.method == "isotonic"
    assert found.advice[0].sentence == (
        "recalibrate: isotonic helps: the ECE falls from 0.1000 to 0.0100 on rows not seen"
    )


def test_recalibration_is_not_advised_where_none_helps() -> None:
    gains: dict[Method, Gain] = {"temperature": gain("temperature", 0.11, 0.21)}
    found = conclude(Facts(**(GOOD | {"ece": 0.1}), gains=gains))  # type: ignore[arg-type]
    assert [(one.act, one.reason) for one in found.advice] == [("retrain", "no_map_helps")]


def test_nothing_is_advised_where_nothing_was_evaluated() -> None:
    found = conclude(Facts(**(GOOD | {"ece": 0.3}), evaluated=False))  # type: ignore[arg-type]
    assert (found.light, found.reasons, found.advice) == ("grey", ("grey",), ())


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
        {}, days=(0.01, 0.02), threshold=0.7,
    )  # fmt: skip
    assert found == Facts(
        ece=0.03, mce=0.1, roc_auc=0.9, rows=12_000, worst_range=(0.2, 0.3), ece_yesterday=0.01, ece_today=0.02,
        threshold=0.7,
    )  # fmt: skip
    assert facts_of([], {}) == Facts()


def test_the_page_has_a_section_with_every_reason_and_its_conditions() -> None:
    page = DOCS.read_text("utf-8")
    parts = re.split(r"^### (.+)$", page, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    rows = [*TREE, *ACTIONS, *LIGHTS]
    assert set(sections) == {row.reason for row in rows} | {NO_MAP_HELPS.reason, "amber", "grey"}
    missing = [f"{row.reason}: {c}" for row in rows for c in row.conditions if f"`{c}`" not in sections[row.reason]]
    assert missing == []
