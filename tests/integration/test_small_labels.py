"""Labels of few rows: `init` proposes what fits, a baseline can be pinned, and a model swap is found in all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.load import load_config

END = datetime(2026, 11, 16)  # noqa: DTZ001 - of a column without a zone
WEEKS, SWAP = 13, 12
KINDS = ("single_label", "multilabel", "multiclass")


def calmon(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words))


def items(labels: int, rows: int) -> Iterator[dict[str, Any]]:
    """One row an item: the label that was given, its score, the label that is true; overconfident in the last week."""
    rng = np.random.default_rng(5)
    for week in range(WEEKS):
        start = END - timedelta(weeks=WEEKS - week)
        for number in range(labels * rows):
            given, score = number % labels, float(rng.beta(9, 1.2))
            right = rng.random() < score - (0.16 if week >= SWAP else 0)
            true = given if right else (given + 1 + int(rng.integers(labels - 1))) % labels
            when = (start + timedelta(seconds=int(rng.integers(7 * 86_400)))).isoformat(sep=" ")
            yield {"item": f"{week}-{number}", "given": given, "score": score, "actual": true, "resolved_at": when}


def written(path: Path, kind: str, labels: int, rows: int) -> None:
    """The items as a Parquet file of this kind; in the long form other labels share what is left of the score."""
    with duckdb.connect() as connection:
        connection.register("i", pd.DataFrame(items(labels, rows)))
        long = f"""
            SELECT item, 'l' || k AS label, CASE WHEN k = given THEN score ELSE (1 - score) / {labels - 1} END AS score,
                %s, resolved_at::TIMESTAMP AS resolved_at
            FROM i, range({labels}) t(k)"""
        single = """
            SELECT item, 'l' || given AS predicted_label, score AS confidence, 'l' || actual AS true_label,
                resolved_at::TIMESTAMP AS resolved_at
            FROM i"""
        query = {
            "single_label": single,
            "multilabel": long % "(k = i.actual)::INT AS actual, (k = given)::INT AS predicted",
            "multiclass": long % "'l' || i.actual AS true_label",
        }[kind]
        connection.execute(f"COPY ({query}) TO '{path}'")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CALMON_WAREHOUSE_URL", "CALMON_CONFIG", "CALMON_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_swap_in_labels_of_forty_rows_a_week_is_found_by_what_init_writes(kind: str, folder: Path) -> None:
    written(folder / "tickets.parquet", kind, labels=6, rows=40)
    assert calmon("init", "tickets.parquet", "--yes").exit_code == 0
    config = load_config(folder / "alerts.yaml")
    assert config.sources["tickets"].kind == kind
    found = calmon("run", "weekly", "--week", "2026-W46", "--json")
    assert found.exit_code == 0, found.output
    verdicts = {(v["rule"], v["label"]): v for v in json.loads(found.stdout)["verdicts"]}
    swap = verdicts["source-ece", None]
    assert (swap["outcome"], swap["value"] > 0.13) == ("breach", True)
    assert verdicts["source-overconfidence", None]["outcome"] == "breach"
    before = calmon("run", "weekly", "--week", "2026-W45", "--json")
    quiet = {(v["rule"], v["label"]): v for v in json.loads(before.stdout)["verdicts"]}["source-ece", None]
    assert (quiet["outcome"], quiet["value"] < 0.02) == ("ok", True)


def test_seventy_labels_of_eight_rows_a_week_end_with_a_baseline(folder: Path) -> None:
    written(folder / "tickets.parquet", "single_label", labels=70, rows=8)
    found = calmon("init", "tickets.parquet", "--yes")
    assert found.exit_code == 0, found.output
    text = (folder / "alerts.yaml").read_text("utf-8")
    assert "evaluation: {min_samples: 500, pool_weeks: 13}\nbaseline: {weeks: 8, min_pairs: 50}" in text
    reason = "Not used: no label has rows enough (at most 8 a week), even in 13 weeks\n  # - {id: ece-increase"
    assert reason in text
    (line,) = (line for line in found.stdout.splitlines() if line.startswith(" l12 "))
    assert re.fullmatch(r"l12 8 \d \d+\.\d% \d+ points, in \d+ weeks over a year", " ".join(line.split())), line
    assert "… 63 more" in found.stdout
    every = calmon("check", "--labels")
    assert sum(line.split()[1:2] == ["8"] for line in every.stdout.splitlines()) == 70
    assert "next: calmon baseline pin --from 2026-W35 --to 2026-W42" in found.stdout
    refused = calmon("baseline", "pin", "--from", "2026-W35", "--to", "2026-W42", "--min-pairs", "1000")
    assert refused.exit_code == 1
    assert "refused 70 of tickets: 64 pairs each, at least 1,000 are needed" in refused.stderr
    assert "next: calmon baseline pin --from 2026-W35 --to 2026-W42 --min-pairs 50    # fewer" in refused.stderr
    assert "no rule of alerts.yaml compares a label" not in refused.stderr  # one on the accuracy of what acts does
    pinned = calmon("baseline", "pin", "--from", "2026-W35", "--to", "2026-W42")
    assert pinned.exit_code == 0, pinned.stderr
    assert "pinned 70 labels of tickets: 64 pairs each of 2026-W35..2026-W42" in pinned.stdout
    assert "pinned tickets (all labels) version 2: 4,480 pairs of 2026-W35..2026-W42" in pinned.stdout


def test_check_says_which_numbers_would_let_more_be_evaluated(folder: Path) -> None:
    written(folder / "tickets.parquet", "single_label", labels=20, rows=8)
    (folder / "alerts.yaml").write_text(
        """version: 1
sources: {tickets: {relation: tickets.parquet, kind: single_label}}
rules:
  - {id: automated-overconfidence, metric: overconfidence, where: automated, threshold: 0.05, min_samples: 30}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02}
automation: {when_not_evaluated: keep}
""",
        encoding="utf-8",
    )
    found = calmon("check")
    assert found.exit_code == 0, found.output
    said = " ".join(found.stdout.split())
    assert "automated-overconfidence: for 20 of 20 labels, having 7 rows a week or fewer that the rule is" in said, said
    assert "ece-increase: no baseline can be pinned for 20 of 20 labels: fewer than 10,000 pairs in 8 weeks" in said
    assert "evaluation: {min_samples: 500, pool_weeks: 13}; baseline: {weeks: 8, min_pairs: 50}" in said
    assert "Add source-ece (`calmon docs source-ece`)" in said
