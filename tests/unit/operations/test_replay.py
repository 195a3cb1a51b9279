"""What a replay does with verdicts and counts: baselines of the time, incidents, pairs, weeks, other thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from monitor.config.model import Config, LabelConfig, Rule, SourceConfig
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import Outcome, Severity, Subject, Verdict, Window, WrongRequest
from monitor.core.windows import week
from monitor.evaluation.other_thresholds import acting_from
from monitor.evaluation.row_comparisons import needs_whole_rows
from monitor.metrics.registry import EXPECTED, METRICS, WHOLE
from monitor.operations.replay.inputs import baseline_of
from monitor.operations.replay.model import Opened, side_by_side
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.results import (
    incidents_of,
    side_of,
    switched_by,
    timelines_of,
)
from tests.fakes import judged

START = datetime(2026, 1, 5, tzinfo=UTC)
SCORES = np.arange(0, 1.0001, 0.05).round(2)
RULE = Rule(id="ece-increase", metric="ece", condition="increase", threshold=0.02)


def window(number: int) -> Window:
    start = START + timedelta(weeks=number)
    return Window(start, start + timedelta(weeks=1), f"2026-W{2 + number:02d}", "weekly")


def day(number: int) -> Window:
    start = START + timedelta(days=number)
    return Window(start, start + timedelta(days=1), f"{start:%Y-%m-%d}", "daily")


def verdict(
    outcome: Outcome, at: Window, *, label: str = "billing", severity: Severity = "warning", rule: str = RULE.id,
    actions: tuple[Any, ...] = ("slack",), detail: Mapping[str, Any] | None = None,
) -> Verdict:  # fmt: skip
    return judged.verdict(
        outcome, at, label, id=f"{rule}-{label}-{at.name}", rule=rule, severity=severity, rules_revision="now",
        actions=actions if outcome == "breach" else (), detail=detail or {},
    )  # fmt: skip


def weekly(*outcomes: Outcome, **more: Any) -> list[tuple[Window, list[Verdict]]]:
    return [(window(n), [verdict(outcome, window(n), **more)]) for n, outcome in enumerate(outcomes)]


def config(**more: Any) -> Config:
    return judged.config(**{"rules": (RULE,)} | more)


# --- baselines


def version(number: int, first: int, last: int) -> Baseline:
    weeks = {"start": window(first).start, "end": window(last).end, "pinned_at": window(60).end}
    return replace(judged.pinned(counts_from_rows([0.2, 0.8], [0, 1])), version=number, **weeks)


@pytest.mark.parametrize(
    ("at", "used", "expected"),
    [
        (3, None, None),  # before any baseline's weeks
        (5, None, 1),  # in the first baseline's own weeks: not judged, as in a run
        (8, None, 1),
        (13, None, 1),  # in the second one's weeks the first was still in force
        (15, None, 1),
        (16, None, 2),
        (20, 1, 1),  # a run had judged it against the first: the second was pinned late
        (2, 2, 2),  # a backfill had judged it against a later one
        (20, 9, 2),  # a version that is not there any more
    ],
)
def test_a_window_is_held_against_the_baseline_of_its_time(at: int, used: int | None, expected: int | None) -> None:
    found = baseline_of([version(1, 4, 7), version(2, 12, 15)], window(at), used)
    assert (None if found is None else found.version) == expected


# --- incidents


def test_an_incident_that_comes_back_soon_is_the_same_one_and_open_at_the_end() -> None:
    (found,) = incidents_of(config(), weekly("breach", "ok", "breach"))
    assert (found.incident.reopened, found.end, found.incident.resolved_window) == (1, None, None)


def test_a_label_has_one_incident_whatever_rules_find_its_trouble() -> None:
    both = [verdict("breach", window(0)), verdict("breach", window(0), label="refund")]
    later = [verdict("breach", window(1), rule="mce-increase"), verdict("ok", window(1))]
    found = incidents_of(config(), [(window(0), both), (window(1), later)])
    assert [(each.incident.label, each.incident.rules) for each in found] == [
        ("billing", ("mce-increase",)), ("refund", ("ece-increase",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "actions", "detail", "expected"),
    [
        ("breach", ("slack",), {}, ""),
        ("breach", ("slack", "disable_automation"), {}, "off"),
        ("breach", ("slack", "block_scores"), {"blocked": [[0.8, 0.9]]}, "blocked"),
        ("breach", ("slack", "block_scores"), {"blocked": []}, "off"),  # no range could be named
        ("breach", ("block_scores", "disable_automation"), {"blocked": [[0.8, 0.9]]}, "off"),
        ("ok", ("disable_automation",), {}, ""),
    ],
)
def test_what_a_verdict_does_to_automation(
    outcome: Outcome, actions: tuple[str, ...], detail: dict[str, Any], expected: str
) -> None:
    found = replace(verdict(outcome, window(0), detail=detail), actions=actions)  # type: ignore[arg-type]
    assert switched_by(found) == expected


# --- side by side


def only(found: list[Opened]) -> Opened:
    (one,) = found
    return one


def test_incidents_that_overlap_are_one_pair_and_what_is_in_one_file_only_comes_first() -> None:
    early = only(incidents_of(config(), weekly("breach", "breach", "ok")))
    later = only(incidents_of(config(), weekly("ok", "breach", "ok")))
    long_ago = only(incidents_of(config(), weekly("breach", "ok", label="refund")))
    after = only(incidents_of(config(), weekly("not_evaluated", "not_evaluated", "breach", label="refund")))
    pairs = side_by_side([early, long_ago], [later, after])
    assert [(pair.present, pair.proposed) for pair in pairs] == [(None, after), (long_ago, None), (early, later)]


def test_a_week_shows_the_worst_of_its_days() -> None:
    said = [
        (window(0), [verdict("ok", window(0))]),
        (window(2), [verdict("breach", window(2))]),
        (window(3), [verdict("not_evaluated", window(3))]),
        *((day(n), [verdict("ok", day(n), rule="days")]) for n in range(7, 9)),
        (day(16), [verdict("breach", day(16), rule="days", severity="critical")]),
        (day(17), [verdict("breach", day(17), rule="days", severity="info")]),
    ]
    weeks = [window(n) for n in range(4)]
    assert timelines_of(config(), said, weeks) == {
        Subject("tickets", "billing"): ("ok", "ok", "critical", "not_evaluated")
    }
    said += [(day(n), [verdict(what, day(n), rule="days")]) for n, what in ((8, "unconfirmed"), (18, "unconfirmed"))]
    assert timelines_of(config(), said, weeks) == {
        Subject("tickets", "billing"): ("ok", "unconfirmed", "critical", "not_evaluated")
    }


def test_a_week_is_ok_where_its_label_could_be_judged_and_weeks_that_were_never_read_do_not_count() -> None:
    weeks = [window(n) for n in range(5)]
    both = [verdict("not_evaluated", weeks[0]), verdict("not_evaluated", weeks[0], rule="other")]
    said = [(weeks[0], both)]
    said += [(w, [verdict("ok", w), verdict("not_evaluated", w, rule="other")]) for w in weeks[1:3]]
    said += [(weeks[3], [verdict("ok", weeks[3]), verdict("ok", weeks[3], rule="other")])]
    side = side_of(config(), said, weeks)
    assert side.timelines == {Subject("tickets", "billing"): ("not_evaluated", "ok", "ok", "ok", None)}
    assert (side.weeks_not_evaluated, side.weeks) == (1, 4)


def test_a_week_in_which_no_rule_that_acts_was_judged_is_not_ok() -> None:
    acting = RULE.model_copy(update={"actions": ("disable_automation",)})
    said = [(window(0), [verdict("not_evaluated", window(0), rule=RULE.id), verdict("ok", window(0), rule="other")])]
    for rules, weeks in (((acting,), 1), ((RULE,), 0)):
        assert side_of(config(rules=rules), said, [window(0)]).weeks_not_evaluated == weeks


def test_an_unconfirmed_week_opens_no_incident_of_a_replay() -> None:
    assert incidents_of(config(), weekly("unconfirmed", "unconfirmed")) == []


# --- what is to be done


def test_days_are_those_of_the_weeks_also_where_clocks_change() -> None:
    daily = RULE.model_copy(update={"id": "days", "schedule": "daily"})
    berlin = config(timezone="Europe/Berlin", rules=(RULE, daily))
    plan = plan_of(berlin, berlin, week("2026-W45", berlin.zone), 3)
    assert [(part.schedule, len(part.windows)) for part in plan.parts] == [("weekly", 3), ("daily", 21)]
    assert plan.total == 24
    days = plan.parts[1].windows
    assert (days[0].start, days[-1].end) == (plan.weeks[0].start, plan.weeks[-1].end)
    assert [w.name for w in plan.weeks] == ["2026-W43", "2026-W44", "2026-W45"]


def test_days_are_left_out_where_no_file_has_a_rule_for_them() -> None:
    plan = plan_of(config(), config(), window(9), 52)
    assert [part.schedule for part in plan.parts] == ["weekly"]


def test_files_of_different_time_zones_have_no_weeks_in_common() -> None:
    with pytest.raises(WrongRequest, match=r"UTC and Asia/Tokyo.*give both the same timezone"):
        plan_of(config(), config(timezone="Asia/Tokyo"), window(0), 4)


@pytest.mark.parametrize(
    "other",
    [{"relation": "others"}, {"score_is": "confidence_in_prediction"}, {"columns": {"item": "id"}},
     {"window_on": "predicted_at"}],
)  # fmt: skip
def test_a_file_that_would_read_other_counts_is_refused(other: dict[str, Any]) -> None:
    source = config().sources["tickets"].model_copy(update=other)
    with pytest.raises(WrongRequest, match=f"source tickets: {next(iter(other))} differs"):
        plan_of(config(), config(sources={"tickets": source}), window(0), 4)
    assert plan_of(config(), config(sources={"mail": source}), window(0), 4).total == 8


def test_what_needs_whole_rows_cannot_be_replayed() -> None:
    known = {metric.needs in WHOLE: name for name, metric in METRICS.items() if name not in EXPECTED}
    assert needs_whole_rows(RULE.model_copy(update={"metric": known[True]}))
    assert all(needs_whole_rows(RULE.model_copy(update={"metric": name})) for name in EXPECTED)
    assert not needs_whole_rows(RULE.model_copy(update={"metric": known[False]}))
    assert not needs_whole_rows(Rule(id="shift", test="ks", column="score", threshold=0.1))


# --- another automate_at


def sample(seed: int, automate_at: float, rows: int = 3_000) -> Counts:
    rng = np.random.default_rng(seed)
    score = rng.choice(SCORES, rows)
    predicted = (score >= 0.5) ^ (rng.random(rows) < 0.2)
    return counts_from_rows(
        score, rng.random(rows) < score, predicted=predicted, weight=rng.integers(1, 4, rows), automate_at=automate_at
    )


def same(one: Counts, other: Counts) -> bool:
    return one.digest() == other.digest()


@pytest.mark.parametrize("automate_at", [0.0, 0.55, 0.9, 1.0])
def test_counts_with_another_threshold_are_those_that_a_reading_with_it_gives(automate_at: float) -> None:
    before, after = (
        SourceConfig(relation="t", score_is="probability_of_label", automate_at=at) for at in (0.8, automate_at)
    )
    labels = {"a": sample(1, 0.8), "b": sample(2, 0.8)}
    labels[None] = pool(list(labels.values())).with_design_effect(1.5)
    found = acting_from(labels, before, after)
    wanted = {"a": sample(1, automate_at), "b": sample(2, automate_at)}
    assert same(found["a"], wanted["a"])
    assert same(found["b"], wanted["b"])
    assert same(found[None], pool(wanted.values()).with_design_effect(1.5))
    assert acting_from(labels, before, after)[None] is found[None]  # made once, so that others can be kept with it


def test_labels_whose_threshold_stays_are_left_alone() -> None:
    before = SourceConfig(
        relation="t", score_is="probability_of_label", labels={"a": LabelConfig(automate_at=0.9)}, automate_at=0.8
    )
    after = before.model_copy(update={"labels": {}})
    labels = {"a": sample(1, 0.9), "b": sample(2, 0.8)}
    found = acting_from(labels, before, after)
    assert found["b"] is labels["b"]
    assert same(found["a"], sample(1, 0.8))
    assert acting_from(labels, before, before) is labels
