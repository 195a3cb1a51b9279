"""Which way of making scores is best calibrated, on real rows with token log-probabilities."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score
from typer.testing import CliRunner

from monitor.cli import app
from monitor.core.windows import week
from monitor.operations.further_tables import compare_scores
from monitor.run import run_window
from tests.fakes.world import CONFIG, World, make_world, write_duckdb

WEEK = "2026-W35"
TOKENS = "score: {from: token_logprobs, method: mean_probability}"


def frame() -> pd.DataFrame:
    """Answers of two tokens, right as often as the product of their probabilities says; one row is broken."""
    rng = np.random.default_rng(3)
    first, second = rng.uniform(0.6, 1, (2, 3_000))
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    start = pd.Timestamp("2026-08-24", tz="UTC")
    made = pd.DataFrame(
        {
            "item": [str(i) for i in range(3_000)],
            "label": np.where(np.arange(3_000) % 3 == 0, "access", "billing"),
            "token_logprobs": [json.dumps([math.log(a), math.log(b)]) for a, b in pairs],
            "actual": (rng.random(3_000) < first * second).astype(int),
            "resolved_at": [start + pd.Timedelta(seconds=60 * i) for i in range(3_000)],
            "channel": "web",
            "truth": first * second,
        }
    )
    made.loc[7, "token_logprobs"] = "broken"
    return made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("mails")
    config = CONFIG.replace("    segments:", f"    {TOKENS}\n    segments:", 1)
    return make_world(folder, config=config, warehouse_url=write_duckdb(folder / "mails.duckdb", frame()))


def test_the_score_that_is_the_truth_comes_first_and_has_the_numbers_of_the_rows(world: World) -> None:
    with world.opened() as monitor:
        window = week(WEEK, monitor.config.zone)
        run_window(monitor, window)
        scores = compare_scores(monitor, "tickets", "billing", window)
        assert compare_scores(monitor, "tickets", "nope", window) == []
    assert len(scores) == 4
    assert scores[0].name == "sequence_probability"
    rows = frame().drop(index=7).query("label == 'billing'")
    assert {one.rows for one in scores} == {len(rows)}
    assert scores[0].brier == pytest.approx(brier_score_loss(rows["actual"], rows["truth"]), abs=1e-6)
    assert scores[0].roc_auc.value == pytest.approx(roc_auc_score(rows["actual"], rows["truth"]), abs=1e-3)
    assert scores[0].ece.low == 0
    assert all((one.ece.low or 0.0) > 0.05 for one in scores[1:])
    words = ["report", "--label", "billing", "--week", WEEK, "--more"]
    shown = CliRunner(env=world.environment).invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.index("sequence_probability") < shown.stdout.index("min_probability")


def test_a_source_that_reads_its_scores_has_nothing_to_compare(tmp_path: Path) -> None:
    with make_world(tmp_path).opened() as monitor:
        assert compare_scores(monitor, "tickets", None, week(WEEK, monitor.config.zone)) == []
