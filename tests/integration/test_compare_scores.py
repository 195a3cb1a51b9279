"""``calmon compare-scores`` on real rows with token log-probabilities."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score
from typer.testing import CliRunner, Result

from monitor.cli import app
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
    folder: Path = tmp_path_factory.mktemp("mails")
    config = CONFIG.replace("    segments:", f"    {TOKENS}\n    segments:", 1)
    return make_world(folder, config=config, warehouse_url=write_duckdb(folder / "mails.duckdb", frame()))


def calmon(world: World, *words: str) -> Result:
    return CliRunner(env=world.environment).invoke(app, list(words))


def test_the_score_that_is_the_truth_comes_first_and_has_the_numbers_of_the_rows(world: World) -> None:
    found = calmon(world, "compare-scores", "--label", "billing", "--week", WEEK, "--json")
    assert found.exit_code == 0, found.output
    scores = json.loads(found.stdout)["scores"]
    assert len(scores) == 4
    assert scores[0]["score"] == "sequence_probability"
    rows = frame().drop(index=7).query("label == 'billing'")
    assert {one["rows"] for one in scores} == {len(rows)}
    assert scores[0]["brier"] == pytest.approx(brier_score_loss(rows["actual"], rows["truth"]), abs=1e-6)
    assert scores[0]["roc_auc"] == pytest.approx(roc_auc_score(rows["actual"], rows["truth"]), abs=1e-3)
    assert scores[0]["ece_low"] == 0
    assert all(one["ece_low"] > 0.05 for one in scores[1:])


def test_all_labels_together_are_shown_side_by_side(world: World) -> None:
    found = calmon(world, "compare-scores", "--week", WEEK)
    assert found.exit_code == 0, found.output
    assert "tickets (all labels), 2026-W35, the best calibrated first" in found.stdout
    assert found.stdout.index("sequence_probability") < found.stdout.index("min_probability")
    assert found.stdout.count("2,999") == 4


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--label", "nope", "--week", WEEK), 1, "tickets has no rows of 'nope' in 2026-W35"),
        (("--week", "2026-W30"), 1, "tickets has no rows in 2026-W30"),
        (("--source", "post"), 2, "alerts.yaml has no source 'post'"),
    ],
)
def test_what_cannot_be_compared_is_said_plainly(
    world: World, words: tuple[str, ...], code: int, sentence: str
) -> None:
    found = calmon(world, "compare-scores", *words)
    assert found.exit_code == code, found.output
    assert sentence in found.stderr


def test_a_source_that_reads_its_scores_has_nothing_to_compare(tmp_path: Path) -> None:
    plain = make_world(tmp_path)
    alone = calmon(plain, "compare-scores", "--week", WEEK)
    assert alone.exit_code == 2
    assert "these have `score:`: none" in alone.stderr
    named = calmon(plain, "compare-scores", "--source", "tickets", "--week", WEEK)
    assert named.exit_code == 1
    assert "tickets reads its scores as they are" in named.stderr
