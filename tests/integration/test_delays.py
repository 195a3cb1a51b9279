"""When truths became known, counted by three engines and by plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.records import Window
from monitor.warehouse.reader import Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 5, 30, tzinfo=UTC)
NEWEST = windows.week("2026-W46", ZONE)
WEEKS = (*reversed(windows.before(NEWEST, 5, ZONE)), NEWEST)
LABELS = ("access", "billing")
SOURCE = SourceConfig.model_validate(
    {
        "relation": "resolved_tickets",
        "score_is": "probability_of_label",
        "unresolved": True,
        "window_on": "predicted_at",
    }
)
Row = dict[str, Any]


def rows(size: int = 1_500, seed: int = 4) -> list[Row]:
    """Rows of seven weeks: some wait, some are resolved only after now, some come twice; summer time ended between."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(size):
        at = NOW - timedelta(seconds=int(rng.integers(0, 7 * 7 * 86_400)))
        waits = rng.random() < 0.2
        found.append({
            "item": f"t{rng.integers(size)}", "label": str(rng.choice(LABELS)), "score": 0.7, "predicted_at": at,
            "actual": None if waits else 1.0,
            "resolved_at": None if waits else at + timedelta(seconds=int(rng.exponential(500_000))),
        })  # fmt: skip
    return found


def expected(given: Sequence[Row], label: str | None) -> list[tuple[Window, int, dict[int, int]]]:
    found = []
    for week in WEEKS:
        items = {}
        age = (NOW - week.end) // timedelta(days=1)
        for row in given:
            key = (row["item"], row["label"])
            if not week.start <= row["predicted_at"] < week.end or label not in (None, row["label"]):
                continue
            known = row["actual"] is not None and row["resolved_at"] < NOW
            day = max(age - (NOW - row["resolved_at"]) // timedelta(days=1), 0) if known else None
            before = items.get(key)
            items[key] = day if before is None else before if day is None else min(day, before)
        by_day = Counter(int(day) for day in items.values() if day is not None)
        found.append((week, len(items), dict(sorted(by_day.items()))))
    return found


@pytest.fixture
def loaded(load: Loader) -> dict[str, Warehouse]:
    return load(rows())


def test_three_engines_count_delays_as_plain_python_does(loaded: dict[str, Warehouse]) -> None:
    given = rows()
    for engine, warehouse in loaded.items():
        found = warehouse.delays("tickets", SOURCE, WEEKS, now=NOW)
        assert set(found) == {*LABELS, None}, engine
        for label, own in found.items():
            assert [(d.window, d.items, d.by_day) for d in own] == expected(given, label), (engine, label)
        assert found[None][0].known > 0.7 * found[None][0].items
        assert found[None][-1].known < 0.6 * found[None][-1].items


def test_rows_that_wait_in_a_relation_of_their_own_are_counted(load: Loader) -> None:
    given = rows()
    known = [row for row in given if row["actual"] is not None]
    for engine, warehouse in load(known).items():
        alone = warehouse.delays("tickets", SOURCE, WEEKS, now=NOW)
        query = "SELECT item, label, score, predicted_at FROM resolved_tickets"
        both = warehouse.delays("tickets", SOURCE.model_copy(update={"unresolved": query}), WEEKS, now=NOW)
        assert both == alone, (engine, "what waits elsewhere has its truth here")
        assert [(d.window, d.items, d.by_day) for d in alone[None]] == expected(known, None)


def test_a_source_without_unresolved_has_no_delays(loaded: dict[str, Warehouse]) -> None:
    with pytest.raises(ValueError, match="has no unresolved"):
        loaded["duckdb"].delays("tickets", SOURCE.model_copy(update={"unresolved": False}), WEEKS, now=NOW)
