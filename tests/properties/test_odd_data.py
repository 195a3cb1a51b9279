"""Generated files with odd dates, numbers and labels: none is refused as a whole, and no row is lost in silence."""

from __future__ import annotations

import pytest

from tests.properties.odd_data import DEFECTS, ENGINES, SHAPES, outcome_of


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("defect", DEFECTS)
def test_every_row_is_counted_or_said(shape: str, engine: str, defect: str) -> None:
    outcome = outcome_of(shape, engine, defect, seed=2026)
    assert outcome.refused == ""
    assert outcome.counted > 0
    assert outcome.counted + outcome.said == outcome.made
