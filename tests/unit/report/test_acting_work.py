"""Rows that acted are those from the score from which gates acted, not from an automate_at that was not in force."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import Counts, counts_from_rows
from monitor.report.acting_work import acted_from

SCORES = np.repeat([0.5, 0.75, 0.85, 0.95], 100)
OUTCOMES = np.concatenate([np.repeat([1, 0], [hits, 100 - hits]) for hits in (50, 75, 65, 90)])


def read(automate_at: float) -> Counts:
    return counts_from_rows(SCORES, OUTCOMES, automate_at=automate_at)


@pytest.mark.parametrize("configured", [0.7, 0.75, 0.8, 0.85, 0.9, 0.95])
@pytest.mark.parametrize("acting", [0.7, 0.75, 0.8, 0.85, 0.9, 0.95])
def test_rows_are_those_from_the_score_in_force_whatever_is_configured(configured: float, acting: float) -> None:
    rows = acted_from(read(configured), acting, configured).where("automated")
    assert rows.rows == int((acting <= SCORES).sum())
    assert float(rows.wy.sum()) == float(OUTCOMES[acting <= SCORES].sum())


def test_rows_beside_the_threshold_within_its_cell_are_kept_as_they_were_read() -> None:
    counts = counts_from_rows([0.79996, 0.9, 0.9], [1, 0, 1], automate_at=0.8)
    assert acted_from(counts, 0.8, 0.8) is counts
