"""A baseline, or a window, that was read under other settings of its source: recognised by name, or cut to today's."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
import yaml

from monitor.core import windows
from monitor.report.collect import collect_report
from tests.fakes.world import CONFIG, LABELS, WEEKS, World, pinned_world

AFTER = WEEKS[9]  # of fewer weeks since the baseline a rise of .04 could not be seen
OTHER = CONFIG.replace("probability_of_label", "confidence_in_prediction")
OUTCOME = "score_is: probability_of_label then, confidence_in_prediction now"


@pytest.fixture
def pinned(tmp_path: Path) -> World:
    return pinned_world(tmp_path)


@pytest.fixture
def world(pinned: World) -> World:
    """A world whose ``score_is`` was corrected after its baseline was pinned."""
    return configured(pinned, OTHER)


def configured(world: World, config: str) -> World:
    (world.folder / "alerts.yaml").write_text(config, encoding="utf-8")
    return world


def with_source(more: str) -> str:
    return CONFIG.replace("    automate_at: 0.8\n", f"    automate_at: 0.8\n    {more}\n")


def in_warehouse(world: World, statement: str) -> None:
    with duckdb.connect(world.warehouse_url.removeprefix("duckdb:///")) as connection:
        connection.execute(statement)


def reasons(world: World) -> dict[str, set[tuple[str, str, float | None]]]:
    """By rule, the (outcome, reason, baseline) of its verdicts of a week."""
    run = world.calmon("run", "weekly", "--week", AFTER, "--json")
    found = {}
    for verdict in json.loads(run.stdout)["verdicts"]:
        found.setdefault(verdict["rule"], set()).add((verdict["outcome"], verdict["reason"], verdict["baseline"]))
    return found


def test_nothing_is_compared_with_it_until_it_is_pinned_again(world: World) -> None:
    found = reasons(world)
    assert found["ece-increase"] == found["score-shift"] == {("not_evaluated", "settings_changed", None)}
    assert {outcome for outcome, _, _ in found["automated-overconfidence"]} == {"ok"}
    pinned = world.calmon("baseline", "pin", "--from", WEEKS[0], "--to", WEEKS[5], "--anyway")
    assert pinned.stdout.count(" version 2: ") == len(LABELS) + 1
    assert "settings_changed" not in {reason for _, reason, _ in reasons(world)["ece-increase"]}


def test_a_report_shows_no_change_against_it(world: World) -> None:
    reasons(world)
    with world.opened() as monitor:
        week = windows.week(AFTER, monitor.config.zone)
        shown = collect_report(monitor.store, monitor.config, week, monitor.clock())
    assert {each.trend.baseline for each in shown.subjects if each.trend is not None} == {None}


def test_no_score_map_is_fitted_on_weeks_that_were_read_under_other_settings(world: World) -> None:
    weeks = ("--label", "steady", "--week", WEEKS[5], "--weeks", "2")
    found = world.calmon("recalibrate", *weeks)
    assert (found.exit_code, found.stdout) == (1, "")
    assert f"tickets {WEEKS[4]} was read under other settings ({OUTCOME})" in found.stderr
    again = f"calmon backfill --from {WEEKS[4]} --to {WEEKS[5]}"
    assert again in found.stderr
    assert world.calmon(*again.split()[1:]).exit_code == 0
    assert world.calmon("recalibrate", *weeks).exit_code == 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (with_source("columns: {score: better}"), "columns.score: score then, better now"),
        (CONFIG.replace("relation: tickets", 'relation: "SELECT * FROM tickets WHERE channel = \'web\'"'),
         "relation: tickets then, a SELECT now"),
    ],
    ids=["column", "filter"],
)  # fmt: skip
def test_other_scores_outcomes_or_rows_are_not_compared_and_named(pinned: World, config: str, said: str) -> None:
    in_warehouse(pinned, "ALTER TABLE tickets ADD COLUMN better DOUBLE")
    in_warehouse(pinned, "UPDATE tickets SET better = score")
    found = reasons(configured(pinned, config))["ece-increase"]
    assert found == {("not_evaluated", "settings_changed", None)}
    assert f"pinned under other settings ({said})" in " ".join(pinned.calmon("check").stdout.split())


def test_a_renamed_table_is_compared_with_and_reported(pinned: World) -> None:
    in_warehouse(pinned, "ALTER TABLE tickets RENAME TO tickets_v2")
    before = reasons(configured(pinned, CONFIG.replace("relation: tickets", "relation: tickets_v2")))
    assert {outcome for outcome, _, _ in before["ece-increase"]} == {"ok"}
    said = " ".join(pinned.calmon("check").stdout.split())
    assert (
        "4 of 4 baselines were pinned under other names (relation: tickets then, tickets_v2 now), and are compared "
        "with as if the rows were the same" in said
    )


def test_check_says_that_a_renamed_source_is_a_new_one(pinned: World) -> None:
    configured(pinned, CONFIG.replace("  tickets:", "  mail:"))
    said = " ".join(pinned.calmon("check").stdout.split())
    assert "source tickets note alerts.yaml has no source of this name any more. Under another name it is a new" in said


def test_a_replay_compares_each_week_with_a_baseline_of_its_own_outcome(world: World) -> None:
    only = world.folder / "only.yaml"
    words = ("replay", "--rules", str(only), "--weeks", "1", "--to", AFTER, "--json")

    def not_evaluated() -> int:
        rules = yaml.safe_load((world.folder / "alerts.yaml").read_text(encoding="utf-8"))
        rules["rules"] = [rule for rule in rules["rules"] if rule["id"] == "ece-increase"]
        only.write_text(yaml.safe_dump(rules), encoding="utf-8")
        return int(json.loads(world.calmon(*words).stdout)["proposed"]["label_weeks_not_evaluated"])

    reasons(world)
    assert not_evaluated() == len(LABELS)
    (world.folder / "alerts.yaml").write_text(CONFIG, encoding="utf-8")
    reasons(world)
    assert not_evaluated() == 0
