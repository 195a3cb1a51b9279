"""The world of ``benchmarks.faults``: its warehouse, rules and schedule, and a cache of results.

Judging depends only on its arguments, and the rows of the warehouse do not change. So all years of one process share
the results of both, and the time of a year is that of the history, the switch and the messages.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import psycopg
import sqlalchemy as sa

from monitor import run
from monitor.core.records import Window
from monitor.core.windows import SETTLE, day, week
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.relation import WarehouseFailed
from tests.fakes.world import CONFIDENCES, write_duckdb

ZONE = ZoneInfo("UTC")
FIRST = datetime(2025, 1, 6, tzinfo=UTC)
BASELINE, WEEKS = 6, 52
START = FIRST + timedelta(weeks=BASELINE)
WORLD_SEED, ROWS = 20260101, 420
LABELS = ("rare", "slipping", "steady")
BROKEN = {"slipping": ((3, 5), (20, 23), (38, 43)), "rare": ((29, 32),), "steady": ()}
"""Label -> the weeks (from, to) after the baseline in which its scores are overconfident."""
FEW, SOON = 3, {"slipping": ((1, 2),)}
"""The same for a year of at most FEW weeks, so that a short test has incidents too."""
REPEAT = timedelta(hours=24)
CONFIG = """\
version: 1
timezone: UTC
sources:
  tickets:
    relation: tickets
    score_is: probability_of_label
    automate_at: 0.8
    labels: {rare: {critical: true}}
evaluation: {interval: analytic, min_samples: 150}
baseline: {weeks: 6, min_pairs: 2000}
rules:
  - {id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     min_samples: 30, severity: critical, actions: [slack, disable_automation]}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02, severity: warning, actions: [slack]}
  - {id: ece-two-days, metric: ece, condition: above, threshold: 0.08, schedule: daily, for: 2, severity: critical,
     actions: [slack, disable_automation]}
automation: {when_not_evaluated: keep, initial: on_first_ok, re_enable: {after: 2}}
routes:
  - {match: {severity: critical}, channel: "#ml-oncall", repeat: 24h}
  - {channel: "#ml-monitoring"}
"""


def rows(weeks: int) -> pd.DataFrame:
    """The rows of the warehouse: ``ROWS`` for each week and label, overconfident in the weeks of BROKEN."""
    rng, parts = np.random.default_rng(WORLD_SEED), []
    broken = SOON if weeks <= FEW else BROKEN
    for number in range(BASELINE + weeks):
        start = FIRST + timedelta(weeks=number)
        for label in LABELS:
            score = rng.choice(CONFIDENCES, ROWS, p=np.array([10, 10, 10, 10, 20, 20, 20]) / 100)
            wrong = any(first <= number - BASELINE < until for first, until in broken.get(label, ()))
            truth = np.where(score > 0.5, score - 0.3, score) if wrong else score
            at = np.sort(rng.random(ROWS)) * 604_000
            parts.append(
                pd.DataFrame(
                    {
                        "item": [f"{number}-{i}" for i in range(ROWS)], "label": label, "score": score,
                        "actual": (rng.random(ROWS) < truth).astype(int),
                        "resolved_at": [start + timedelta(seconds=float(s)) for s in at],
                    }
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def write_warehouse(folder: Path, frame: pd.DataFrame, postgres: str | None) -> str:
    """Write the rows to a DuckDB file, or to an empty PostgreSQL database. Returns the address."""
    if postgres is None:
        return write_duckdb(folder / "warehouse.duckdb", frame)
    with psycopg.connect(postgres.replace("+psycopg", "")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE tickets (item text, label text, score double precision, actual integer, "
            "resolved_at timestamptz)"
        )
        with cursor.copy("COPY tickets FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row(row)
    return postgres


def schedule(weeks: int) -> list[tuple[Window, datetime]]:
    """(window, start time) of every run of the year, oldest first."""
    weekly = [week(f"{START + timedelta(weeks=n):%G-W%V}", ZONE) for n in range(weeks)]
    daily = [day(f"{START + timedelta(days=n):%Y-%m-%d}", ZONE) for n in range(7 * weeks)]
    late = {"weekly": timedelta(hours=1), "daily": timedelta()}
    return sorted(((w, w.end + SETTLE + late[w.schedule]) for w in [*weekly, *daily]), key=lambda each: each[1])


def commands(weeks: int) -> dict[int, tuple[str, bool]]:
    """Number of a run -> (label, enable) of the operator's command that comes before it."""
    if weeks <= FEW:
        return {5: ("steady", False), 9: ("steady", True), 13: ("slipping", True)}
    found = {30: ("steady", False), 40: ("steady", True), 27: ("slipping", True)}
    return found | {8 * n: (LABELS[n % 3], n % 2 == 0) for n in range(9, weeks, 6)}


NOT_QUERIES = ("kept_open", "close")
"""Methods that are not queries, and are called each time."""


class Remembered:
    """A warehouse that caches the result of each query, since all years read the same rows. ``fails``: no answer."""

    def __init__(self, real: Warehouse, kept: dict[Any, Any], *, fails: bool = False) -> None:
        self._real, self._kept, self._fails = real, kept, fails

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found) or name in NOT_QUERIES:
            return found

        def ask(*given: Any, **more: Any) -> Any:
            if self._fails:
                raise WarehouseFailed("the connection was lost")
            # `now` does not matter here, since all queried rows are in the past
            named = {key: value for key, value in more.items() if key != "now"}
            return once(self._kept, (name, given, named), lambda: found(*given, **more))

        return ask


def once(kept: dict[Any, Any], arguments: Any, work: Callable[[], Any]) -> Any:
    """The cached result for these arguments; computed now if there is none."""
    key = _digest(arguments)
    if key not in kept:
        kept[key] = work()
    return kept[key]


def _digest(arguments: Any) -> bytes:
    """A digest that is equal for equal arguments. A plain pickle also depends on which parts are the same object."""
    text = io.BytesIO()
    pickler = pickle.Pickler(text)
    pickler.fast = True
    pickler.dump(arguments)
    return hashlib.sha256(text.getvalue()).digest()


@contextmanager
def judged_once(kept: dict[Any, Any]) -> Iterator[None]:
    """Within the block, equal data are judged only once."""
    room: Any = run
    plain = room.evaluate

    def evaluate(data: Any, config: Any, shifts: Any) -> Any:
        return once(kept, ("evaluate", data, config.revision, shifts), lambda: plain(data, config, shifts))

    room.evaluate = evaluate
    try:
        yield
    finally:
        room.evaluate = plain


def backend_of(connection: sa.Connection) -> int:
    """The id of the PostgreSQL process that serves a connection."""
    return int(connection.connection.driver_connection.info.backend_pid)  # type: ignore[union-attr]
