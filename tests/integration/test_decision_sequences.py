"""Verdicts, switch and history over several weeks with known truth, through the whole program over DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from monitor.core import windows
from monitor.core.records import Verdict
from monitor.run import Run, run_window
from tests.fakes.world import World, make_world, write_duckdb

CONFIG = """\
version: 1
sources:
  tickets: {relation: tickets, score_is: probability_of_label, automate_at: 0.8}
evaluation: {interval: analytic, min_samples: 600, pool_weeks: 2}
rules:
RULES
automation: {when_not_evaluated: keep, initial: on_first_ok, re_enable: {after: 2}}
"""
TWO_WEEKS = (
    "  - {id: two, metric: ece, condition: above, threshold: 0.08, for: 2, severity: critical, "
    "actions: [slack, disable_automation]}"
)
OVERCONFIDENT = (
    "  - {id: over, metric: overconfidence, where: automated, condition: above, threshold: 0.05, min_samples: 30, "
    "severity: critical, actions: [slack, disable_automation]}"
)
LASTING = OVERCONFIDENT.replace("condition: above", "condition: accumulated")
ACCURATE = "  - {id: accurate, metric: accuracy, condition: below, threshold: 0.3}"
FIRST = datetime(2026, 3, 2, tzinfo=UTC)  # 2026-W10
HITS = {"good": {0.1: 0.1, 0.5: 0.5, 0.9: 0.9}, "bad": {0.1: 0.1, 0.5: 0.35, 0.9: 0.7}, "low": {0.1: 0.1, 0.5: 0.5}}
HITS["other way"] = {0.1: 0.3, 0.5: 0.65, 0.9: 1.0}


def rows(week: int, kind: str, each: int) -> Iterator[dict[str, object]]:
    """So many rows of each score, with exactly the share of hits that the kind of week has."""
    start = FIRST + timedelta(weeks=week)
    for score, share in HITS[kind].items():
        for number in range(each):
            at = start + timedelta(minutes=number)
            item = f"{week}-{score}-{number}"
            yield {
                "item": item,
                "label": "billing",
                "score": score,
                "actual": int(number < share * each),
                "resolved_at": at,
            }


def world_of(folder: Path, kinds: Sequence[str], *rules: str, each: int = 1_000) -> World:
    frame = pd.DataFrame([row for week, kind in enumerate(kinds) for row in rows(week, kind, each)])
    config = CONFIG.replace("RULES", "\n".join(rules))
    return make_world(folder, config=config, warehouse_url=write_duckdb(folder / "w.duckdb", frame))


def run(world: World, week: int) -> Run:
    """The run of a week, seven hours after its end."""
    with world.opened(clock=lambda: FIRST + timedelta(weeks=week + 1, hours=7)) as monitor:
        return run_window(monitor, windows.week(f"2026-W{10 + week}", monitor.config.zone))


def verdict(found: Run, rule: str = "two") -> Verdict:
    (one,) = [v for v in found.evaluated[0].verdicts if v.rule == rule and v.subject.label == "billing"]
    return one


def switch(world: World) -> tuple[str, datetime | None, int]:
    with world.opened() as monitor:
        found = monitor.store.switch("tickets", "billing")
    return found.state, found.lease_until, found.ok_streak


def test_a_bad_week_between_good_ones_is_no_good_window(tmp_path: Path) -> None:
    world = world_of(tmp_path, ["good", "bad", "bad", "good", "bad"], TWO_WEEKS)
    found = [verdict(run(world, week)) for week in range(3)]
    assert [(v.outcome, v.reason.value) for v in found] == [
        ("ok", "within_threshold"), ("unconfirmed", "streak_incomplete"), ("breach", "above_threshold"),
    ]  # fmt: skip
    newest, before = found[1].detail["groups"]
    assert newest["value"] == pytest.approx(0.35 / 3, abs=0.01)
    assert before["value"] < 0.01
    assert found[1].value < 0.08  # the two weeks together are within the limit
    assert verdict(run(world, 3)).outcome == "ok"
    assert switch(world) == ("off", None, 1)
    assert verdict(run(world, 4)).outcome == "unconfirmed"
    assert switch(world) == ("off", None, 1)


def test_two_bad_weeks_that_are_wrong_in_opposite_ways_are_not_ok(tmp_path: Path) -> None:
    world = world_of(tmp_path, ["bad", "other way"], TWO_WEEKS)
    run(world, 0)
    found = verdict(run(world, 1))
    assert all(group["value"] > 0.08 for group in found.detail["groups"])
    assert found.value < 0.08
    assert (found.outcome, found.reason.value) == ("unconfirmed", "streak_incomplete")


@pytest.mark.parametrize("rule", [OVERCONFIDENT, LASTING])
@pytest.mark.parametrize(("last", "outcome", "state"), [("good", "ok", "on"), ("bad", "breach", "off")])
def test_a_week_without_automated_rows_is_not_judged_by_the_rows_of_weeks_before(
    tmp_path: Path, last: str, outcome: str, state: str, rule: str
) -> None:
    world = world_of(tmp_path, ["good", last, "low"], rule)
    run(world, 0)
    assert verdict(run(world, 1), "over").outcome == outcome
    before = switch(world)
    assert before[0] == state
    found = verdict(run(world, 2), "over")
    assert (found.outcome, found.reason.value, found.n) == ("not_evaluated", "no_rows", 2_000)
    assert switch(world) == before  # no lease is renewed, and no good window counted
    with world.opened() as monitor:
        found_in = [each.opened_window for each in monitor.store.unresolved_incidents("tickets")]
        assert len(found_in) == (last == "bad")


def test_estimates_of_items_stay_in_the_history_where_weeks_are_read_again(tmp_path: Path) -> None:
    world = world_of(tmp_path, ["good"] * 5, ACCURATE, each=50)
    for week in range(4):
        run(world, week)

    def known() -> set[str]:
        with world.opened() as monitor:
            return {each.window.name for each in monitor.store.estimates(metric="review_rate")}

    before = known()
    assert len(before) == 4
    config = world.folder / "alerts.yaml"
    text = config.read_text("utf-8").replace("pool_weeks: 2", "pool_weeks: 4").replace("at: 0.8", "at: 0.95")
    config.write_text(text, "utf-8")
    run(world, 4)
    assert known() > before
