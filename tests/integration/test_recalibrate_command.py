"""``calmon recalibrate`` on a real history: what it shows, what it writes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.recalibration.score_map import apply_one, load
from tests.fakes.world import CONFIDENCES, CONFIG, LABELS, WEEKS, World, make_world, pinned_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world with a baseline and the last three weeks; "slipping" is wrong in two of them."""
    made = pinned_world(tmp_path_factory.mktemp("world"))
    assert made.calmon("backfill", "--from", WEEKS[9], "--to", WEEKS[11]).exit_code == 0
    return made


def test_a_label_that_promises_too_much_gets_a_map_that_a_router_can_load(world: World, tmp_path: Path) -> None:
    out = tmp_path / "map.json"
    found = world.calmon("recalibrate", "--label", "slipping", "--week", WEEKS[11], "--weeks", "2", "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "slipping, 1,200 rows of 2026-W34..2026-W35" in found.stdout
    assert "platt helps: the ECE falls from" in found.stdout
    assert f"written: {out}" in found.stderr
    made = load(out)
    assert (made.source, made.label, made.rows, made.fitted_on) == ("tickets", "slipping", 1_200, "2026-W34..2026-W35")
    for score in CONFIDENCES[CONFIDENCES > 0.5].tolist():  # the true rate is .25 below
        assert apply_one(made, score) == pytest.approx(score - 0.25, abs=0.1)


def test_the_next_step_of_a_diagnosis_is_what_the_command_takes_on_the_same_rows(world: World) -> None:
    run = json.loads(world.calmon("run", "weekly", "--week", WEEKS[11], "--json").stdout)
    advice = next(each["advice"] for each in run["labels"] if each["label"] == "slipping")
    found = json.loads(world.calmon("recalibrate", "--label", "slipping", "--week", WEEKS[11], "--json").stdout)
    before, after = (found["methods"][found["choice"]][of]["ece"] for of in ("before", "after"))
    assert found["fitted_on"] == "2026-W34..2026-W35"  # since the trouble began
    assert advice == f"recalibrate by {found['choice']}: ECE {before:.3f} to {after:.3f}"


def test_a_good_label_is_left_alone_and_nothing_is_written(world: World, tmp_path: Path) -> None:
    out = tmp_path / "map.json"
    found = world.calmon("recalibrate", "--label", "steady", "--week", WEEKS[11], "--out", str(out))
    assert found.exit_code == 0
    assert "nothing to fix: the ECE is not significantly above 0" in found.stdout
    assert f"not written: {out}" in found.stderr
    assert not out.exists()


def test_a_method_asked_for_is_fitted_all_the_same_and_said_not_to_help(world: World, tmp_path: Path) -> None:
    out = tmp_path / "map.json"
    words = ("recalibrate", "--label", "steady", "--week", WEEKS[11], "--weeks", "3", "--method", "temperature")
    found = world.calmon(*words, "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "temperature, as asked for: on rows not seen it does not help" in found.stdout
    made = load(out)
    assert (made.method, made.rows, made.fitted_on) == ("temperature", 3 * 600, f"{WEEKS[9]}..{WEEKS[11]}")


def test_one_map_for_all_labels_and_the_same_document_each_time(world: World) -> None:
    first, second = (world.calmon("recalibrate", "--week", WEEKS[11], "--json") for _ in range(2))
    assert first.stdout == second.stdout
    found = json.loads(first.stdout)
    assert (found["label"], found["rows"]) == (None, 600 * len(LABELS))
    assert found["methods"]["platt"]["after"]["brier"] < found["methods"]["platt"]["before"]["brier"]
    assert found["methods"]["isotonic"]["refused"] == "too_few_rows"
    assert found["map"]["method"] == found["choice"] == "platt"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--label", "nope", "--week", WEEKS[11]), 1, "tickets/nope has no rows in 2026-W35"),
        (("--label", "steady", "--week", "2026-W02"), 1, "`calmon run weekly --week 2026-W02` reads it"),
        (("--label", "steady", "--week", WEEKS[11], "--method", "isotonic"), 1, "600 rows: too_few_rows"),
        (("--label", "steady", "--source", "post"), 2, "alerts.yaml has no source 'post'"),
        (("--label", "slipping", "--week", WEEKS[11], "--out", "/nowhere/map.json"), 1, "cannot be written"),
        (("--label", "steady", "--method", "spline"), 2, "'spline' is not one of"),
    ],
)
def test_what_cannot_be_done_is_said_plainly(world: World, words: tuple[str, ...], code: int, sentence: str) -> None:
    found = world.calmon("recalibrate", *words)
    assert found.exit_code == code, found.output
    assert sentence in found.stderr


def test_a_source_of_numbers_has_no_scores_to_map(tmp_path: Path) -> None:
    numbers = "  hours: {relation: hours, kind: regression}\nevaluation:"
    made = make_world(tmp_path, config=CONFIG.replace("evaluation:", numbers))
    made.calmon("run", "weekly", "--week", WEEKS[11])
    named = made.calmon("recalibrate", "--source", "hours", "--week", WEEKS[11])
    assert named.exit_code == 2
    assert "hours has numbers (kind: regression), not scores: there is nothing to map" in named.stderr
    other = made.calmon("recalibrate", "--label", "slipping", "--week", WEEKS[11], "--json")
    assert json.loads(other.stdout)["source"] == "tickets"


def test_of_several_sources_the_one_with_the_label_is_taken(tmp_path: Path) -> None:
    config = CONFIG.replace(
        "evaluation:", "  other: {relation: no_such_table, score_is: probability_of_label}\nevaluation:"
    )
    made = make_world(tmp_path, config=config)
    made.calmon("run", "weekly", "--week", WEEKS[11])
    found = made.calmon("recalibrate", "--label", "slipping", "--week", WEEKS[11], "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["source"] == "tickets"
    unread = made.calmon("recalibrate", "--label", "slipping", "--week", WEEKS[11], "--source", "other")
    assert unread.exit_code == 1
    assert "could not be read" in unread.stderr
    nowhere = made.calmon("recalibrate", "--label", "nope", "--week", WEEKS[11])
    assert nowhere.exit_code == 2
    assert "say which source with --source; these have the label 'nope': none" in nowhere.stderr
