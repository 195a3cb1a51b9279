"""``calmon report --label L --more`` and ``calmon recalibrate --top-k``, against the rows themselves."""

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


def tables(world: World, source: str, label: str) -> dict[str, list[list[Any]]]:
    """The rows of each table of ``calmon report --more``, by its title."""
    found = ask(world, "report", "--source", source, "--label", label, "--more", "--json")
    assert found.exit_code == 0, found.stderr
    (one,) = json.loads(found.stdout)
    return {table["title"]: table["rows"] for table in one["tables"]}


def test_stability_shows_all_rows_beside_their_parts(world: World) -> None:
    rows = {row[0]: row[1:] for row in tables(world, "mails", "billing")["Stability"]}
    frame = scored()
    best = frame["score"] == frame.groupby("item")["score"].transform("max")
    mine = frame["label"] == "billing"
    whole, mean, *_ = rows["accuracy"]
    assert whole["value"] == pytest.approx((best[mine] == (frame["actual"][mine] == 1)).mean(), abs=0.01)
    assert float(mean) == pytest.approx(whole["value"], abs=1e-3)
    assert "mean of parts" in ask(world, "report", "--label", "billing", "--more").stdout
    refused = ask(world, "report", "--more")
    assert (refused.exit_code, "--more is about one label" in refused.stderr) == (2, True)


def test_the_cheapest_decisions_of_classes_take_what_a_miss_of_each_label_costs(world: World) -> None:
    always, *_, cheapest = tables(world, "mails", "*")["Cost of an item"]
    probability = scored()["score"].to_numpy().reshape(ITEMS, 4)
    true = scored()["actual"].to_numpy().reshape(ITEMS, 4).argmax(axis=1)
    costs = np.where(np.arange(4)[:, None] == LABELS.index("phishing"), 20.0, 1.0) * (1 - np.eye(4))
    assert float(always[1]) == pytest.approx(costs[true, probability.argmax(axis=1)].mean(), abs=6e-4)
    assert float(cheapest[1]) <= float(always[1])
    assert cheapest[0].startswith("cheapest: ")


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
