"""Scores in single precision: a score that was written as 0.9 is at the limit 0.9, as in pandas, in every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse.reader import Reading, Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
INSIDE = WEEK.start + timedelta(days=1)
LIMITS = {"refund": 0.9, "access": 0.703, "billing": 0.35}
SINGLE = {"score": "REAL"}


def rows() -> pd.DataFrame:
    """Scores in steps of 0.01 and with four decimals, so that many are at a limit, and others near one."""
    scores = [*np.arange(101) / 100, *np.arange(0, 10_001, 37) / 10_000, 0.8999, 0.9001, 0.00005, 1e-7]
    made = [(label, round(float(score), 7)) for label in LIMITS for score in scores]
    frame = pd.DataFrame(made, columns=["label", "score"])
    frame["item"] = [f"t{number}" for number in range(len(frame))]
    frame["actual"] = (np.arange(len(frame)) % 3 > 0).astype(float)
    frame["resolved_at"] = INSIDE
    return frame


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as an application would have them: dates are plain, and missing values None."""
    plain = frame.astype(object).where(frame.notna(), None)
    dates = {name: INSIDE for name in ("resolved_at", "predicted_at") if name in plain and plain[name].notna().all()}
    return [{str(name): value for name, value in row.items()} | dates for row in plain.to_dict("records")]


def automated(frame: pd.DataFrame) -> dict[str, tuple[int, float]]:
    """By label: the rows at or above its limit, and the sum of their scores."""
    chosen = frame[(frame.score >= frame.label.map(LIMITS)) & (frame.score >= 0.5)]
    return {str(label): (len(part), float(part.score.sum())) for label, part in chosen.groupby("label")}


def source(**settings: Any) -> SourceConfig:
    labels = {label: {"automate_at": limit} for label, limit in LIMITS.items()}
    plain = {"relation": "resolved_tickets", "score_is": "probability_of_label", "labels": labels}
    return SourceConfig.model_validate(plain | settings)


def read(warehouse: Warehouse, config: SourceConfig) -> Reading:
    return warehouse.read("tickets", config, WEEK, now=NOW)


def found(reading: Reading) -> dict[str, Any]:
    return {
        label: (int(counts.n[counts.automated].sum()), pytest.approx(float(counts.ws[counts.automated].sum())))
        for label, counts in reading.labels.items()
    }


def test_a_score_at_the_limit_is_automated_whatever_its_precision(load: Loader) -> None:
    frame = rows()
    made = records(frame)
    in_double = load(made)
    for engine, warehouse in load(made, types=SINGLE).items():
        reading, double = read(warehouse, source()), read(in_double[engine], source())
        assert found(reading) == automated(frame), engine
        assert {k: c.digest() for k, c in reading.labels.items()} == {k: c.digest() for k, c in double.labels.items()}
        assert reading.quality == (), engine


def test_scores_in_percent_and_in_columns_of_labels_are_at_the_limit_too(load: Loader) -> None:
    frame = rows()
    wide = frame.pivot_table(index="item", columns="label", values="score").reset_index()
    wide = (wide.set_index("item") * 100).round(5).add_prefix("p_").reset_index()
    wide["true_label"], wide["resolved_at"] = "refund", INSIDE
    made = records(wide)
    config = source(wide={"score": "p_{label}"}, score_scale=100)
    types = {f"p_{label}": "REAL" for label in LIMITS}
    for engine, warehouse in load(made, types=types).items():
        assert found(read(warehouse, config)) == automated(frame), engine


def test_nan_and_scores_outside_of_the_range_are_rejected_in_single_precision(load: Loader) -> None:
    odd = [float("nan"), 1.5, -0.25, None, float("inf")]
    made = [
        {"item": f"t{number}", "label": "refund", "score": score, "actual": 1.0, "resolved_at": INSIDE}
        for number, score in enumerate([*odd, 0.9])
    ]
    for engine, warehouse in load(made, types=SINGLE).items():
        reading = read(warehouse, source())
        bad = {quality.reason: quality.rows for quality in reading.quality}
        nan = {"score_missing": 2} if engine == "sqlite" else {"score_missing": 1, "score_not_a_number": 1}
        assert bad == {**nan, "score_out_of_range": 3}, engine
        assert reading.rows == 1, engine


def parquet(frame: pd.DataFrame, path: Path, score: str, more: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        kept = str(path).replace("'", "''")
        connection.execute(f"COPY (SELECT * REPLACE (score::{score} AS score){more} FROM frame) TO '{kept}'")


def test_of_parquet_files_of_a_pattern_some_may_be_in_single_precision(tmp_path: Path) -> None:
    frame = rows()
    first, rest = frame[::2], frame[1::2]
    folder = tmp_path / "it's 50%: [new]"
    for each, (single, other) in {"": ("DOUBLE", "DOUBLE"), "mixed-": ("FLOAT", "DOUBLE")}.items():
        parquet(first, folder / f"{each}a.parquet", single, ", {'score': 1.5::FLOAT} AS parts, 1::FLOAT AS length")
        parquet(rest.rename(columns={"item": "Item"}), folder / f"{each}b.parquet", other, ", 'web' AS channel")
    escaped = str(folder).replace("[", "[[]")
    readings = []
    for pattern in ("?.parquet", "mixed-*.parquet"):
        config = source(relation=f"{escaped}/{pattern}", segments=("channel",), features=("length",))
        with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
            assert warehouse.check("tickets", config) == []
            readings.append(read(warehouse, config))
    assert found(readings[1]) == automated(frame)
    double, mixed = ({label: c.digest() for label, c in each.labels.items()} for each in readings)
    assert mixed == double


def test_one_item_in_two_files_of_different_precision_is_a_duplicate_of_equal_rows(tmp_path: Path) -> None:
    frame = rows()
    parquet(frame, tmp_path / "a.parquet", "FLOAT")
    parquet(frame, tmp_path / "b.parquet", "DOUBLE")
    config = source(relation=f"{tmp_path}/*.parquet")
    with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
        reading = read(warehouse, config)
    assert found(reading) == automated(frame)
    assert {each.reason: each.rows for each in reading.quality} == {"duplicate": len(frame)}
