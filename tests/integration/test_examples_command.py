"""``calmon examples``: ids behind a finding, on a real warehouse and history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes import world as worlds
from tests.fakes.world import WEEKS, World, make_world, write_duckdb

WEEK = WEEKS[10]
HOSTILE = "[/red] [bold]x\x1b[31m"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("examples")
    frame = worlds.rows().replace({"label": {"rare": HOSTILE}})
    made = make_world(folder, warehouse_url=write_duckdb(folder / "warehouse.duckdb", frame))
    assert made.calmon("backfill", "--from", WEEK, "--to", WEEK).exit_code == 0
    return made


def test_the_ids_are_those_of_the_confident_errors_in_the_warehouse(world: World) -> None:
    found = world.calmon(
        "examples", "--label", "slipping", "--wrong", "--score-min", "0.9", "--week", WEEK, "--limit", "500",
        "--json",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    frame = worlds.rows()
    wrong = frame[frame["item"].str.startswith(f"{WEEK}-") & (frame["label"] == "slipping") & (frame["actual"] == 0)]
    wrong = wrong[wrong["score"] >= 0.9].sort_values(["score", "item"], ascending=[False, True])
    assert [row["item"] for row in told["rows"]] == wrong["item"].tolist()
    assert [row["segments"]["channel"] for row in told["rows"]] == wrong["channel"].tolist()
    assert (told["decisions"], told["more"], told["window"], told["source"]) == ("wrong", False, WEEK, "tickets")


def test_a_table_says_what_is_shown_and_that_there_is_more(world: World) -> None:
    found = world.calmon("examples", "--label", "slipping", "--week", WEEK, "--limit", "3")
    assert found.exit_code == 0, found.output
    assert f"tickets, slipping, {WEEK}: wrong, scores 0 to 1, the most confident first" in found.stdout
    assert found.stdout.count(f"{WEEK}-") == 3
    assert "3 rows are shown, there are more: --limit" in found.stdout


def test_a_day_can_be_looked_at_and_an_empty_answer_is_an_answer(world: World) -> None:
    found = world.calmon("examples", "--label", "steady", "--date", "2026-08-19", "--score-min", "0.89", "--json")
    rows = json.loads(found.stdout)["rows"]
    assert rows
    assert {row["resolved_at"][:10] for row in rows} == {"2026-08-19"}
    none = world.calmon("examples", "--label", "steady", "--week", WEEK, "--score-min", "0.99")
    assert none.exit_code == 0
    assert "No such row." in none.stdout


def test_a_label_that_looks_like_markup_is_printed_as_it_is(world: World) -> None:
    found = world.calmon("examples", "--label", HOSTILE, "--week", WEEK, "--limit", "2")
    assert found.exit_code == 0, (found.output, found.exception)
    assert "[/red] [bold]x" in found.stdout
    assert "\x1b" not in found.stdout


def test_a_week_that_was_never_evaluated_is_read_from_the_warehouse_all_the_same(world: World) -> None:
    found = world.calmon("examples", "--label", "steady", "--week", WEEKS[3], "--limit", "1", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["rows"][0]["item"].startswith(WEEKS[3])


def test_with_several_sources_the_one_that_had_the_label_is_meant(tmp_path: Path) -> None:
    config = worlds.CONFIG.replace(
        "evaluation:", "  mails:\n    relation: mails\n    score_is: probability_of_label\nevaluation:", 1
    )
    made = make_world(tmp_path, config=config)
    before = made.calmon("examples", "--label", "steady", "--week", WEEK)
    assert before.exit_code == 2
    assert "say which source with --source" in before.stderr
    made.calmon("backfill", "--from", WEEK, "--to", WEEK)
    after = made.calmon("examples", "--label", "steady", "--week", WEEK, "--json")
    assert after.exit_code == 0, after.output
    assert json.loads(after.stdout)["source"] == "tickets"
