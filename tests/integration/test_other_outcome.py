"""A baseline that was pinned under another ``score_is`` counts another outcome: nothing is compared with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from monitor.cli import app
from tests.fakes.world import CONFIG, LABELS, WEEKS, World, pinned_world

AFTER = WEEKS[8]
OTHER = CONFIG.replace("probability_of_label", "confidence_in_prediction")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world whose ``score_is`` was corrected after its baseline was pinned."""
    made = pinned_world(tmp_path)
    (tmp_path / "alerts.yaml").write_text(OTHER, encoding="utf-8")
    return made


def calmon(world: World, *words: str) -> Any:
    return CliRunner(env=world.environment | {"COLUMNS": "300"}).invoke(app, list(words))


def reasons(world: World) -> dict[str, set[tuple[str, str, float | None]]]:
    """By rule, the (outcome, reason, baseline) of its verdicts of a week."""
    run = calmon(world, "run", "weekly", "--week", AFTER, "--json")
    found: dict[str, set[tuple[str, str, float | None]]] = {}
    for verdict in json.loads(run.stdout)["verdicts"]:
        found.setdefault(verdict["rule"], set()).add((verdict["outcome"], verdict["reason"], verdict["baseline"]))
    return found


def test_nothing_is_compared_with_it_until_it_is_pinned_again(world: World) -> None:
    found = reasons(world)
    assert found["ece-increase"] == found["score-shift"] == {("not_evaluated", "no_baseline", None)}
    assert {outcome for outcome, _, _ in found["automated-shortfall"]} == {"ok"}
    pinned = calmon(world, "baseline", "pin", "--from", WEEKS[0], "--to", WEEKS[5], "--anyway")
    assert pinned.stdout.count(" version 2: ") == len(LABELS) + 1
    assert "no_baseline" not in {reason for _, reason, _ in reasons(world)["ece-increase"]}


def test_check_says_so(world: World) -> None:
    said = " ".join(calmon(world, "check").stdout.split())
    assert (
        "4 of 4 baselines were pinned with another score_is than confidence_in_prediction, so nothing is compared with "
        "them: calmon baseline pin --source tickets" in said
    )
    (world.folder / "alerts.yaml").write_text(CONFIG, encoding="utf-8")
    assert "another score_is" not in calmon(world, "check").stdout


def test_no_score_map_is_fitted_on_it(world: World) -> None:
    found = calmon(world, "recalibrate", "--label", "steady", "--baseline")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "the baseline of tickets/steady was pinned with score_is: probability_of_label" in found.stderr


def test_a_replay_compares_each_week_with_a_baseline_of_its_own_outcome(world: World) -> None:
    words = ("replay", "--rules", str(world.folder / "alerts.yaml"), "--weeks", "1", "--to", AFTER, "--json")

    def not_evaluated() -> int:
        return int(json.loads(calmon(world, *words).stdout)["present"]["label_weeks_not_evaluated"])

    reasons(world)
    assert not_evaluated() == len(LABELS)
    (world.folder / "alerts.yaml").write_text(CONFIG, encoding="utf-8")
    reasons(world)
    assert not_evaluated() == 0
