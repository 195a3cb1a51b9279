"""What changed within the weeks of a future baseline is said with the size of the change from the named week on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.load import load_config
from monitor.core import windows
from monitor.core.counts import counts_from_rows
from monitor.core.records import Subject
from monitor.evaluation.baseline_checks import Between, Concern, SpanSeen, WeekSeen, concerns

ZONE = ZoneInfo("UTC")
LAST = windows.containing("weekly", datetime(2026, 11, 16, tzinfo=UTC), ZONE)
ROWS = 2_000
CONFIG = load_config(Path(__file__).parents[3] / "alerts.yaml").model_copy(update={"rules": ()})


def found(gaps: list[float], spread: list[float]) -> list[Concern]:
    """The concerns about some weeks: by how much the scores of each are too high, and how far they lie from .6."""
    rng = np.random.default_rng(1)
    spans = [*reversed(windows.before(LAST, len(gaps) - 1, ZONE)), LAST]
    weeks = []
    for window, gap, wide in zip(spans, gaps, spread, strict=True):
        score = np.round(0.6 + wide * rng.uniform(-0.3, 0.3, ROWS), 2)
        weeks.append(WeekSeen(window, counts_from_rows(score, (rng.random(ROWS) < score - gap).astype(float))))
    return concerns(
        [SpanSeen(Subject("tickets", "billing"), weeks)],
        CONFIG,
    )


@pytest.mark.parametrize(
    ("gaps", "spread", "what", "week", "change"),
    [
        ([0.0] * 6 + [0.2] * 2, [1.0] * 8, "calibration", "2026-W46", 0.2),
        ([0.0] * 8, [1.0] * 7 + [0.0], "scores", "2026-W47", 0.5),
    ],
)
def test_the_size_is_that_of_the_change_from_the_named_week_on(
    gaps: list[float], spread: list[float], what: str, week: str, change: float
):
    (concern,) = found(gaps, spread)
    assert (concern.what, concern.between, concern.week) == (what, Between.HALVES, week)
    assert concern.change == pytest.approx(change, abs=0.03)
