"""The rules that `calmon init` writes: those of alerts.yaml, and a floor where the owner gives one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.weeks import SHIPPED
from monitor.config.load import load_config, parse_config
from monitor.config.model import Rule
from monitor.operations.propose_evaluation import arrives_daily
from monitor.operations.starter_files import EVERY_KIND, ONE_TRUTH, starter_config
from monitor.warehouse.survey import Survey

ACTING = {"automated-overconfidence", "lasting-overconfidence", "automated-accuracy-decrease"}
WATCHING = {
    "auc-decrease",
    "ece-increase",
    "lasting-auc-decrease",
    "lasting-ece-increase",
    "lasting-segments",
    "score-shift",
}
OF_ALL_ROWS = {"auc-decrease", "ece-increase", "lasting-auc-decrease", "lasting-ece-increase"}


def rules_of(kind: str, must_be_right: float | None = None) -> dict[str, Rule]:
    settings = {"kind": kind, **({} if kind == "single_label" else {"score_is": "probability_of_label"})}
    text = starter_config("mail", "data/*.csv", settings, "UTC", must_be_right=must_be_right)
    return {rule.id: rule for rule in parse_config(text).rules}


@pytest.mark.parametrize("kind", sorted(EVERY_KIND))
def test_what_every_source_gets_is_as_in_alerts_yaml_and_what_is_proved_acts(kind: str) -> None:
    shipped, ours = {rule.id: rule for rule in load_config(SHIPPED).rules}, rules_of(kind)
    same = ACTING | WATCHING - (OF_ALL_ROWS if kind in ONE_TRUTH else set())
    assert {name: ours[name] for name in same} == {name: shipped[name] for name in same}
    assert {name for name, rule in ours.items() if rule.acts} == ACTING
    assert {rule.severity for name, rule in ours.items() if name in ACTING} == {"critical"}
    assert ours["score-shift"].actions == ()


@pytest.mark.parametrize("kind", sorted(ONE_TRUTH))
def test_where_an_item_has_one_truth_each_label_is_judged_on_the_rows_that_it_was_given(kind: str) -> None:
    of_labels = [
        rule for rule in rules_of(kind).values() if rule.scope == "labels" and rule.metric in ("ece", "roc_auc")
    ]
    assert {(rule.metric, rule.where) for rule in of_labels} == {("ece", "predicted"), ("roc_auc", "predicted")}


def test_a_floor_is_written_where_the_owner_gives_one() -> None:
    floor = rules_of("single_label", must_be_right=0.97)["automated-accuracy-floor"]
    assert (floor.metric, floor.condition, floor.threshold, floor.acts) == ("automated_accuracy", "below", 0.97, True)
    assert "automated-accuracy-floor" not in rules_of("single_label")


def test_a_rule_of_each_day_is_written_where_rows_arrive_daily() -> None:
    settings = {"kind": "single_label"}
    rules = {rule.id: rule for rule in parse_config(starter_config("mail", "mails", settings, "UTC", daily=True)).rules}
    rule = rules["daily-overconfidence"]
    assert (rule.schedule, rule.scope, rule.for_windows, rule.acts) == ("daily", "source", 2, False)
    assert "daily-overconfidence" not in rules_of("single_label")


NOW = datetime(2026, 11, 27, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rows", "newest", "files", "daily"),
    [
        (28_000, timedelta(hours=6), False, True),
        (28_000, timedelta(days=4), False, False),  # a load a week
        (2_800, timedelta(hours=6), False, False),  # a hundred rows a day show little
        (28_000, timedelta(hours=6), True, False),
    ],
)
def test_rows_arrive_daily_where_the_newest_are_fresh_and_a_day_has_many(
    rows: int, newest: timedelta, files: bool, daily: bool
) -> None:
    last = NOW - newest
    seen = Survey(rows, rows, 5, last - timedelta(days=28), last, 0, None, True, 0.1, 0.9, rows, rows, False)
    assert arrives_daily(seen, NOW, files=files) is daily


def test_an_empty_or_unread_table_says_nothing_of_days() -> None:
    assert not arrives_daily(None, NOW, files=False)
    assert not arrives_daily(Survey(0, 0, 0, None, None, 0, None, True, None, None, 0, 0, False), NOW, files=False)
