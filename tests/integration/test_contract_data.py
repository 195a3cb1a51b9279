"""What an outside check found: numbers from whole runs against plain code on the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from monitor.cli import app
from tests.fakes.world import write_duckdb, write_postgresql, write_sqlite

SECONDS = 60  # a run of a few hundred rows takes two
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(SECONDS, func_only=True)]

CONFIG = """\
version: 1
sources: {tickets: {relation: tickets, score_is: probability_of_label}}
rules: [{id: level, metric: ece, condition: above, threshold: 0.5}]
automation: {when_not_evaluated: keep}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # reports are written below the working directory
    return tmp_path


def run_week(folder: Path, warehouse_url: str) -> dict[str, Any]:
    (folder / "alerts.yaml").write_text(CONFIG, "utf-8")
    environment = {
        "CALMON_WAREHOUSE_URL": warehouse_url,
        "CALMON_STORE_URL": f"sqlite:///{folder / 'history.sqlite'}",
        "CALMON_CONFIG": str(folder / "alerts.yaml"),
    }
    done = CliRunner(env=environment).invoke(app, ["run", "weekly", "--week", "2026-W46", "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def thin_labels() -> pd.DataFrame:
    """Forty labels in which most scores are those of one or two rows."""
    rng, rows = np.random.default_rng(1), []
    for label in range(40):
        for score in rng.choice(np.arange(1, 100) / 100, 14, replace=False):
            rows += [(f"label {label}", float(score), int(rng.random() < score))] * int(rng.integers(1, 3))
    frame = pd.DataFrame(rows, columns=["label", "score", "actual"])
    monday = pd.Timestamp("2026-11-10", tz="UTC")
    named = frame.assign(item=[f"t{i}" for i in range(len(frame))], predicted=1, resolved_at=monday, channel="web")
    return named[["item", "label", "score", "actual", "predicted", "resolved_at", "channel"]]


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def warehouse_url(folder: Path, request: pytest.FixtureRequest) -> str:
    write = {
        "duckdb": lambda rows: write_duckdb(folder / "warehouse.duckdb", rows),
        "sqlite": lambda rows: write_sqlite(folder / "warehouse.sqlite", rows),
        "postgresql": lambda rows: write_postgresql(request.getfixturevalue("fresh_postgres_url"), rows),
    }
    return write[request.param](thin_labels())


def test_weights_whose_squares_would_be_lost_are_set_aside_and_the_run_ends(folder: Path) -> None:
    path = folder / "warehouse.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE tickets AS SELECT 't' || i AS item, label, (i % 9 + .5) / 9 AS score, i % 2 AS actual, "
            "weight, TIMESTAMP '2026-11-10' AS resolved_at FROM range(900) AS r(i), "
            "(VALUES ('smallest', 1e-5), ('one', 1.0), ('too small', 5e-7)) AS l(label, weight)"
        )
    document = run_week(folder, f"duckdb:///{path}")
    assert document["quality"] == [{"source": "tickets", "reason": "weight_invalid", "rows": 900}]
    of_label = {
        label: {e["metric"]: e for e in document["estimates"] if e["label"] == label and e["where"] == "all"}
        for label in ("smallest", "one")
    }
    for metric, at_one in of_label["one"].items():
        at_smallest = of_label["smallest"][metric]
        assert at_smallest["n"] == 900
        assert at_smallest["plug_in"] == pytest.approx(at_one["plug_in"], abs=1e-6), metric
        if metric not in ("ece", "mce"):  # theirs are drawn with random numbers of the label, or on whole rows
            assert at_smallest["high"] == pytest.approx(at_one["high"], abs=1e-3), metric
