"""``calmon audit``: a plan whose promise holds, and a sample of what acts alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from monitor.cli import app
from monitor.core.promises import Promise
from monitor.inference.sequential import evidence_needed, restarted
from monitor.operations.audit import rows_to_see
from tests.fakes.world import CONFIG, WEEKS, World, make_world, rows, write_duckdb

LASTING = (
    "  - {id: lasting-overconfidence, metric: overconfidence, where: automated, condition: accumulated,\n"
    "     threshold: 0.02, min_samples: 30, severity: critical, actions: [slack, disable_automation]}\n"
)
AUDITED = CONFIG.replace("  - {id: ece-increase", f"{LASTING}  - {{id: ece-increase", 1).replace(
    "    segments: [channel]\n", "    segments: [channel]\n    unresolved: true\n    window_on: predicted_at\n", 1
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every second item has no truth yet."""
    folder = tmp_path_factory.mktemp("audit")
    frame = rows()
    waits = frame["item"].str.slice(-1).isin(list("02468"))
    frame = frame.assign(predicted_at=frame["resolved_at"], actual=frame["actual"].where(~waits))
    write_duckdb(folder / "warehouse.duckdb", frame.assign(resolved_at=frame["resolved_at"].where(~waits)))
    made = make_world(folder, config=AUDITED, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")
    assert calmon(made, "backfill", "--from", WEEKS[8], "--to", WEEKS[8]).exit_code == 0
    return made


def calmon(world: World, *words: str) -> Result:
    return CliRunner(env=world.environment | {"COLUMNS": "120"}).invoke(app, list(words))


@pytest.mark.parametrize(("claimed", "fall", "weeks"), [(0.9, 0.05, 4), (0.85, 0.1, 2), (0.95, 0.15, 1)])
def test_a_fall_is_seen_within_the_planned_weeks_in_four_of_five_cases(claimed: float, fall: float, weeks: int) -> None:
    rng, needed = np.random.default_rng(5), evidence_needed([-np.inf] * 20, 520)
    found = rows_to_see(claimed, fall, 0.02, needed)
    assert found is not None
    each, seen = -(-found // weeks), 0
    for _ in range(400):
        hits = rng.binomial(each, claimed - fall, weeks) / each
        path = restarted([Promise(each, float(each), claimed, kept) for kept in hits.tolist()], 0.02)
        seen += path[-1] >= needed
    assert 0.76 <= seen / 400 <= 0.92


def test_a_fall_that_the_rule_allows_is_never_seen(world: World) -> None:
    found = calmon(world, "audit", "plan", "--week", WEEKS[8], "--fall", "0.02")
    assert found.exit_code == 1
    assert "lasting-overconfidence allows 2 points: a fall of 2 is never seen" in found.output


def test_the_plan_says_how_many_items_and_when(world: World) -> None:
    plain = json.loads(calmon(world, "audit", "plan", "--week", WEEKS[8], "--json").stdout)
    assert [each["label"] for each in plain["labels"]] == ["rare", "slipping", "steady"]
    for each in plain["labels"]:
        assert each["checks"] == -(-each["rows"] // 4)
        assert each["weeks"] == pytest.approx(each["rows"] / each["checks"])
        assert each["weeks_without"] > each["weeks"]
    given = json.loads(calmon(world, "audit", "plan", "--week", WEEKS[8], "--checks", "300", "--json").stdout)
    assert 300 <= sum(each["checks"] for each in given["labels"]) <= 303
    assert max(each["weeks"] for each in given["labels"]) - min(each["weeks"] for each in given["labels"]) < 0.2
    told = calmon(world, "audit", "plan", "--week", WEEKS[8]).stdout
    assert "to see a fall of 5 points" in told


def test_the_sample_is_of_what_acts_and_each_item_stands_for_others(world: World, tmp_path: Path) -> None:
    words = ("audit", "draw", "--week", WEEKS[8], "--checks", "60", "--out")
    first, again, other = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"
    done = calmon(world, *words, str(first))
    assert done.exit_code == 0, done.output
    assert calmon(world, *words, str(again)).exit_code == 0
    assert calmon(world, *words, str(other), "--seed", "another").exit_code == 0
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    with first.open(newline="") as file:
        drawn = list(csv.DictReader(file))
    frame = rows()
    of_week = frame[frame["item"].str.startswith(WEEKS[8]) & (frame["score"] >= 0.8)]
    for label, mine in of_week.groupby("label"):
        taken = [row for row in drawn if row["label"] == label]
        assert {row["item"] for row in taken} <= set(mine["item"])
        assert sum(float(row["weight"]) for row in taken) == pytest.approx(len(mine), rel=1e-4)
    assert f"{len(drawn)} items of {WEEKS[8]} written to" in " ".join(done.stdout.split())


def test_a_source_that_does_not_say_what_waits_has_no_sample(world: World, tmp_path: Path) -> None:
    text = AUDITED.replace("    unresolved: true\n", "")
    (tmp_path / "alerts.yaml").write_text(text, "utf-8")
    env = world.environment | {"CALMON_CONFIG": str(tmp_path / "alerts.yaml")}
    found = CliRunner(env=env).invoke(app, ["audit", "draw", "--week", WEEKS[8], "--out", str(tmp_path / "x.csv")])
    assert found.exit_code == 1
    assert "`unresolved: true`" in found.output
    assert not (tmp_path / "x.csv").exists()
