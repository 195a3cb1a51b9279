"""Generated files with odd dates, numbers and labels: none is refused as a whole, and no row is lost in silence."""

from __future__ import annotations

import pytest

from tests.properties.odd_data import DEFECTS, ENGINES, SHAPES, outcome_of, outcome_of_commands


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("defect", DEFECTS)
def test_every_row_is_counted_or_said(shape: str, engine: str, defect: str):
    outcome = outcome_of(shape, engine, defect, seed=2026)
    assert outcome.refused == ""
    assert outcome.counted > 0
    assert outcome.counted + outcome.said == outcome.made


@pytest.mark.parametrize(
    ("shape", "engine", "defect"),
    [
        ("long", "csv", "dates"), ("single", "sqlite", "labels"), ("wide", "duckdb", "labels"),
        ("wide", "parquet", "numbers"),
    ],
)  # fmt: skip
def test_what_init_writes_or_asks_for_loses_no_row_either(shape: str, engine: str, defect: str):
    outcome = outcome_of_commands(shape, engine, defect, seed=20)
    assert outcome.failed == ""
    assert outcome.counted > 0
    assert outcome.counted + outcome.said == outcome.made
    assert not outcome.asked or "Give --column" in outcome.asked
