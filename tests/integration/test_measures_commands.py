"""``calmon stability``, ``dependencies`` and ``cheapest-threshold``, against the rows themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from monitor.core.windows import week
from monitor.run import run_window
from tests.fakes.world import World, make_world
from tests.integration.test_kinds import ITEMS, LABELS, NOW, WEEK, scored, write_duckdb

CONFIG = (
    "version: 1\nsources:\n  mails: {relation: tickets, kind: multiclass, score_is: probability_of_label, "
    "labels: {phishing: {costs: {false_negative: 20, false_positive: 1}}}}\n"
    "  hours: {relation: hours, kind: regression}\n"
    "rules:\n  - {id: a, metric: ece, threshold: 0.2}\nautomation: {when_not_evaluated: keep}\n"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("measures")
    made = make_world(folder, config=CONFIG, warehouse_url=write_duckdb(folder / "warehouse.duckdb"))
    with made.opened(clock=lambda: NOW) as monitor:
        run_window(monitor, week(WEEK, monitor.config.zone))
    return made


def ask(world: World, *words: str) -> Result:
    return CliRunner(env={**world.environment, "COLUMNS": "140"}).invoke(app, [*words, "--week", WEEK])


def document(world: World, *words: str) -> dict[str, Any]:
    found = ask(world, *words, "--json")
    assert found.exit_code == 0, found.stderr
    return dict(json.loads(found.stdout))


def test_stability_shows_all_rows_beside_their_parts(world: World) -> None:
    found = document(world, "stability", "--source", "mails", "--label", "billing", "--folds", "4")
    assert (found["rows"], found["folds"]) == (ITEMS, 4)
    accuracy = next(one for one in found["metrics"] if one["metric"] == "accuracy")
    frame = scored()
    best = frame["score"] == frame.groupby("item")["score"].transform("max")
    mine = frame["label"] == "billing"
    assert accuracy["whole"]["value"] == pytest.approx((best[mine] == (frame["actual"][mine] == 1)).mean(), abs=0.01)
    assert accuracy["mean"] == pytest.approx(accuracy["whole"]["value"], abs=1e-9)
    shown = ask(world, "stability", "--label", "billing", "--metric", "f1", "--metric", "ece")
    assert "mean of parts" in shown.stdout
    wrong = ask(world, "stability", "--metric", "kappa")
    assert wrong.exit_code == 2
    assert "no metric of counts" in wrong.stderr


def test_dependencies_are_those_of_the_rows(world: World) -> None:
    found = document(world, "dependencies", "--source", "mails")
    assert found["labels"] == list(LABELS)
    assert found["truth"] == np.eye(4).tolist(), "one label of an item is true"
    assert found["n"] == np.full((4, 4), ITEMS).tolist()
    assert "P(a | b)" in ask(world, "dependencies").stdout
    refused = ask(world, "dependencies", "--source", "hours")
    assert refused.exit_code == 2
    assert "of kind regression" in refused.stderr


def test_the_cheapest_threshold_of_a_label_takes_its_costs(world: World) -> None:
    asked = ("cheapest-threshold", "--source", "mails", "--label", "phishing")
    found = document(world, *asked)
    assert (found["false_negative"], found["false_positive"]) == (20, 1)
    frame = scored()
    mine = frame[frame["label"] == "phishing"]
    told = mine["score"] >= found["threshold"]
    cost = (20 * ((mine["actual"] == 1) & ~told) + ((mine["actual"] == 0) & told)).mean()
    assert found["cost"] == pytest.approx(cost)
    assert found["cost"] <= found["present_cost"]
    assert document(world, *asked, "--false-negative", "1")["threshold"] > found["threshold"]
    assert "a miss costs 20" in ask(world, *asked).stdout


def test_the_cheapest_threshold_of_classes_takes_a_cost_matrix(world: World, tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text("phishing: {other: 20, billing: 20, access: 20}\n", encoding="utf-8")
    found = document(world, "cheapest-threshold", "--costs", str(path), "--review", "0.3")
    probability = scored()["score"].to_numpy().reshape(ITEMS, 4)
    true = scored()["actual"].to_numpy().reshape(ITEMS, 4).argmax(axis=1)
    costs = np.where(np.arange(4)[:, None] == LABELS.index("phishing"), 20.0, 1.0) * (1 - np.eye(4))
    assert found["present"] == pytest.approx(costs[true, probability.argmax(axis=1)].mean())
    assert found["cost"] <= min(0.3, found["present"])
    shown = ask(world, "cheapest-threshold", "--costs", str(path)).stdout
    assert "cheapest:" in shown
    path.write_text("spam: {other: 1}\n", encoding="utf-8")
    unknown = ask(world, "cheapest-threshold", "--costs", str(path))
    assert unknown.exit_code == 2
    assert "'spam'" in unknown.stderr
    path.write_text("- 1\n", encoding="utf-8")
    assert "is no cost matrix" in ask(world, "cheapest-threshold", "--costs", str(path)).stderr


def test_one_map_for_the_highest_scores_shows_each_k_before_and_after(world: World, tmp_path: Path) -> None:
    found = document(world, "recalibrate", "--source", "mails", "--top-k", "--method", "temperature")
    assert [one["k"] for one in found["before"]] == [1, 3, 5]
    probability = scored()["score"].to_numpy().reshape(ITEMS, 4)
    true = scored()["actual"].to_numpy().reshape(ITEMS, 4).argmax(axis=1)
    assert found["before"][0]["precision"] == pytest.approx((probability.argmax(axis=1) == true).mean())
    assert [one["precision"] for one in found["after"]] == pytest.approx([one["precision"] for one in found["before"]])
    assert found["after"][0]["nll"] < found["before"][0]["nll"], "scores are too confident"
    shown = ask(world, "recalibrate", "--top-k", "--out", str(tmp_path / "map.json"))
    assert "ECE@k" in shown.stdout
    assert json.loads((tmp_path / "map.json").read_text("utf-8"))["source"] == "mails"
    refused = ask(world, "recalibrate", "--top-k", "--label", "billing")
    assert refused.exit_code == 2
