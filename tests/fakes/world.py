"""A small world for the main job: twelve weeks and three labels, one of which gets worse in the eleventh.

Scores are seven verbal confidences, so that counts lose nothing and every number can be checked
against plain code on the rows.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pandas as pd
from typer.testing import CliRunner, Result

from monitor.cli import app
from monitor.config.settings import Settings, load_settings
from monitor.context import Monitor
from monitor.core import windows
from monitor.operations.change_switch import change_switch
from monitor.operations.open import open_monitor
from monitor.operations.pin_baseline import pin
from monitor.run import run_window

WEEKS = tuple(f"2026-W{number:02d}" for number in range(24, 36))
BASELINE = (WEEKS[0], WEEKS[5])
BROKEN_FROM = 10  # "slipping" is wrong from the eleventh week on
LABELS = ("rare", "slipping", "steady")
CONFIDENCES = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
ROWS = 600
SEED = 7

CONFIG = """\
version: 1
timezone: UTC
sources:
  tickets:
    relation: tickets
    score_is: probability_of_label
    segments: [channel]
    automate_at: 0.8
evaluation: {resamples: 200, min_samples: 300}
baseline: {weeks: 6, min_pairs: 3000}
rules:
  - {id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     min_samples: 30, severity: critical, actions: [slack, disable_automation]}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02, severity: warning, actions: [slack]}
  - {id: ece-two-days, metric: ece, condition: above, threshold: 0.08, schedule: daily, for: 2, severity: critical,
     actions: [slack, disable_automation]}
  - {id: score-shift, test: ks, column: score, threshold: 0.1, severity: info, actions: [slack]}
automation: {when_not_evaluated: keep, initial: on_first_ok}
routes:
  - {channel: "#ml-monitoring"}
"""


def judged_at(index: int) -> datetime:
    """An hour after a week of the world is ready."""
    return datetime.strptime(f"{WEEKS[index]}-1 +0000", "%G-W%V-%u %z") + timedelta(days=7, hours=7)


def rows(weeks: tuple[str, ...] = WEEKS, per_week: int = ROWS) -> pd.DataFrame:
    """The rows of the world, always the same: item, label, score, actual, predicted, resolved_at, channel."""
    return _rows(weeks, per_week).copy()


@cache
def _rows(weeks: tuple[str, ...], per_week: int) -> pd.DataFrame:
    rng = np.random.default_rng(SEED)
    parts = []
    for number, week in enumerate(weeks):
        start = datetime.strptime(f"{week}-1", "%G-W%V-%u").replace(tzinfo=UTC)
        for label in LABELS:
            weights = [40, 10, 5, 5, 5, 3, 2] if label == "rare" else [10, 10, 10, 10, 20, 20, 20]
            score = rng.choice(CONFIDENCES, per_week, p=np.array(weights) / sum(weights))
            wrong = label == "slipping" and number >= BROKEN_FROM
            truth = np.where(score > 0.5, score - 0.25, score) if wrong else score
            parts.append(
                pd.DataFrame(
                    {
                        "item": [f"{week}-{i}" for i in range(per_week)],
                        "label": label,
                        "score": score,
                        "actual": (rng.random(per_week) < truth).astype(int),
                        "predicted": (score >= 0.5).astype(int),
                        "resolved_at": [start + timedelta(seconds=float(s)) for s in rng.random(per_week) * 604_000],
                        "channel": rng.choice(["web", "email"], per_week),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def write_duckdb(path: Path, frame: pd.DataFrame) -> str:
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE OR REPLACE TABLE tickets AS SELECT * FROM frame")
    return f"duckdb:///{path}"


def write_sqlite(path: Path, frame: pd.DataFrame) -> str:
    connection = sqlite3.connect(path)
    frame.assign(resolved_at=frame["resolved_at"].map(lambda t: t.isoformat())).to_sql(
        "tickets", connection, index=False
    )
    connection.close()
    return f"sqlite:///{path}"


def write_postgresql(url: str, frame: pd.DataFrame) -> str:
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE tickets (item text, label text, score double precision, actual integer, predicted integer, "
            "resolved_at timestamptz, channel text)"
        )
        with cursor.copy("COPY tickets FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row(row)
    return url


@dataclass(frozen=True)
class World:
    """The files of a world, and the environment with which calmon uses it."""

    folder: Path
    warehouse_url: str
    store_url: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CALMON_WAREHOUSE_URL": self.warehouse_url,
            "CALMON_STORE_URL": self.store_url,
            "CALMON_CONFIG": str(self.folder / "alerts.yaml"),
        }

    def settings(self, **more: str) -> Settings:
        return load_settings(self.environment | {f"CALMON_{key.upper()}": value for key, value in more.items()})

    @contextmanager
    def opened(self, clock: Callable[[], datetime] | None = None, **more: str) -> Iterator[Monitor]:
        arguments = {} if clock is None else {"clock": clock}
        with open_monitor(self.settings(**more), **arguments) as monitor:
            yield monitor

    def copied(self, folder: Path) -> World:
        """A copy in another folder, for one test to change."""
        for file in self.folder.iterdir():
            shutil.copy(file, folder)
        return World(folder, f"duckdb:///{folder / 'warehouse.duckdb'}", f"sqlite:///{folder / 'history.sqlite'}")

    def calmon(self, *words: str, **environment: str) -> Result:
        """``calmon WORDS`` in this process, on a wide terminal."""
        return CliRunner(env=self.environment | {"COLUMNS": "200"} | environment).invoke(app, list(words))


def make_world(
    folder: Path, *, config: str = CONFIG, warehouse_url: str | None = None, store_url: str | None = None
) -> World:
    """A world in ``folder``, by default with a DuckDB warehouse and an SQLite history."""
    (folder / "alerts.yaml").write_text(config, "utf-8")
    if warehouse_url is None:
        (folder / "warehouse.duckdb").write_bytes(_warehouse())
    warehouse = warehouse_url or f"duckdb:///{folder / 'warehouse.duckdb'}"
    return World(folder, warehouse, store_url or f"sqlite:///{folder / 'history.sqlite'}")


@cache
def _warehouse() -> bytes:
    """The DuckDB file of a world, made once in each process."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "warehouse.duckdb"
        write_duckdb(path, rows())
        return path.read_bytes()


def pinned_world(folder: Path, *, config: str = CONFIG, pinned_under: str = CONFIG) -> World:
    """A world with a pinned baseline: its history is a copy of one that is made once in each process.

    ``config`` must read the source as ``pinned_under`` does.
    """
    for name, content in _pinned(pinned_under).items():
        (folder / name).write_bytes(content)
    return make_world(folder, config=config)


def acted_world(folder: Path, *, config: str = CONFIG, reason: str = "ready") -> World:
    """Three weeks, the last two of which act: ann turned two labels on after the first, a run "slipping" off."""
    made, clock = pinned_world(folder, config=config), [judged_at(9)]
    with made.opened(lambda: clock[0]) as monitor:
        for place, name in enumerate(WEEKS[9:12]):
            window = windows.week(name, monitor.config.zone)
            clock[0] = window.end + timedelta(hours=7)
            run_window(monitor, window, act="auto" if place else "never")
            if place == 0:
                for label in ("steady", "slipping"):
                    change_switch(monitor, "tickets", label, enable=True, by="ann", reason=reason)
    return made


@cache
def _pinned(config: str) -> dict[str, bytes]:
    """The files of a history with only the pinned baseline of this configuration."""
    with TemporaryDirectory() as folder:
        world = make_world(Path(folder), config=config)
        with world.opened() as monitor:
            zone = monitor.config.zone
            pin(monitor, windows.week(BASELINE[0], zone), windows.week(BASELINE[1], zone), by="test", reason="test")
        return {path.name: path.read_bytes() for path in Path(folder).glob("history.sqlite*")}
