"""A world in which easy items are resolved first: a DuckDB warehouse with the truths known at a given time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd

from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import Window
from monitor.operations.open import open_monitor

UTC_ZONE = ZoneInfo("UTC")
LONGEST_D, NEVER = 35.0, 0.07
LABELS = ("access", "billing", "refund")
CONFIG = """\
version: 1
timezone: UTC
sources:
  tickets:
    relation: known
    score_is: probability_of_label
    window_on: predicted_at
    unresolved: true
    automate_at: 0.8
evaluation: {{min_samples: 200, interval: analytic}}
baseline: {{weeks: 8, min_pairs: 1000}}
rules:
  - {{id: overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05, min_samples: 30,
     {mature}severity: critical, actions: [slack, disable_automation]}}
  - {{id: ece-level, metric: ece, condition: above, threshold: 0.04, {mature}actions: [slack]}}
automation: {{when_not_evaluated: keep, initial: on_first_ok, lease: 40d}}
routes:
  - {{channel: "#ml-monitoring"}}
"""


@dataclass(frozen=True)
class LateTruths:
    """A warehouse with the truths known at a given time, and one history for each way of judging it."""

    folder: Path
    weeks: tuple[Window, ...]
    moment: list[datetime] = field(default_factory=list)

    def at(self, moment: datetime, *, at_once: bool = False) -> None:
        """Fill the warehouse with the truths known at a time; ``at_once``: truths without delays."""
        self.moment[:] = [moment]
        with duckdb.connect(str(self.folder / "warehouse.duckdb")) as connection:
            connection.execute("UPDATE clock SET now = ?, at_once = ?", [moment, at_once])

    def environment(self, way: str, mature: float | None) -> dict[str, str]:
        """The environment of a way of judging: rules that wait or not, and its own history."""
        (self.folder / f"{way}.yaml").write_text(CONFIG.format(mature="" if mature is None else f"mature: {mature}, "))
        return {
            "CALMON_WAREHOUSE_URL": f"duckdb:///{self.folder / 'warehouse.duckdb'}",
            "CALMON_STORE_URL": f"sqlite:///{self.folder / way}.sqlite",
            "CALMON_CONFIG": str(self.folder / f"{way}.yaml"),
        }

    @contextmanager
    def judged_by(self, way: str, *, mature: float | None) -> Iterator[Monitor]:
        """The program at the world's time."""
        with open_monitor(load_settings(self.environment(way, mature)), clock=lambda: self.moment[0]) as monitor:
            yield monitor


def rows(weeks: Sequence[Window], rng: np.random.Generator, size: int, faults: Sequence[float] = ()) -> pd.DataFrame:
    """Items with a hidden difficulty: the easy ones are right more often than their score says, and come first.

    In week k the first label is right ``faults[k]`` less often than its scores say.
    """
    parts = []
    for number, window in enumerate(weeks):
        for label in LABELS:
            score, hard = np.round(rng.beta(1.5, 1.0, size), 2), rng.random(size)
            worth = score + (1 - 2 * hard) * np.minimum(score, 1 - score)
            wait = np.minimum(rng.exponential(0.3 * np.exp(4.6 * hard)), LONGEST_D)
            fault = faults[number] if label == LABELS[0] and number < len(faults) else 0.0
            parts.append(pd.DataFrame({
                "item": [f"{label}-{number}-{i}" for i in range(size)], "label": label, "score": score,
                "actual": (rng.random(size) < worth - fault).astype(float),
                "predicted_at": [window.start + timedelta(days=7 * p) for p in rng.random(size)],
                "wait": np.where(rng.random(size) < NEVER, math.inf, wait),
            }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def late_truths(
    folder: Path, *, weeks: int, size: int, seed: int, first: str = "2026-W10", faults: Sequence[float] = ()
) -> LateTruths:
    """A world in a folder."""
    begins = windows.week(first, UTC_ZONE)
    ends = windows.containing("weekly", begins.start + timedelta(days=7 * weeks - 3), UTC_ZONE)
    span = windows.span(begins, ends, UTC_ZONE)
    frame = rows(span, np.random.default_rng(seed), size, faults)
    comes = np.isfinite(frame["wait"])
    days = pd.to_timedelta(frame["wait"].where(comes, 0.0), unit="D")
    frame["resolved_at"] = (frame["predicted_at"] + days).where(comes, pd.Timestamp("2100-01-01", tz="UTC"))
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.register("made", frame)
        connection.execute("CREATE TABLE tickets AS SELECT * FROM made")
        connection.execute("CREATE TABLE clock AS SELECT TIMESTAMPTZ '2026-01-01' AS now, false AS at_once")
        connection.execute(
            "CREATE VIEW known AS SELECT item, label, score, predicted_at, "
            "CASE WHEN due < now THEN actual END AS actual, CASE WHEN due < now THEN due END AS resolved_at "
            "FROM (SELECT *, CASE WHEN at_once AND wait < 1e9 THEN predicted_at ELSE resolved_at END AS due "
            "FROM tickets, clock) WHERE predicted_at < now"
        )
    return LateTruths(folder, tuple(span))
