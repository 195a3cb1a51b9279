"""The cost of `calmon replay`: a year of twenty labels from stored counts, weeks only and weeks with their days."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import SEED
from benchmarks.populations import LABELS
from benchmarks.tables import Table
from benchmarks.timing import Size, Timing, fresh, timed
from benchmarks.weeks import SOURCE, ByLabel, Setting, by_day, drawn, setting, shipped
from monitor.config.model import Config, Rule
from monitor.core.counts import pool
from monitor.core.records import Schedule, Window
from monitor.evaluation.data import ByLabel as CountsByLabel
from monitor.evaluation.data import SourceData
from monitor.evaluation.evaluate import verdicts_of
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.inference.memory import forget
from monitor.operations.replay.model import Replay
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay

ROWS = 2_000
THE_SAME, STRICTER, ONE_MORE = "the same file", "one threshold stricter", "one rule more: each judged by both files"


@dataclass(frozen=True, slots=True)
class Replayed:
    """One proposed file and one set of schedules: the seconds of every round, and the result."""

    name: str
    schedules: str
    timing: Timing
    incidents: tuple[int, int]
    same_twice: bool


def tables(size: Size) -> Iterator[Table]:
    """The table. The history is made in one process and replayed in another."""
    with tempfile.TemporaryDirectory() as folder:
        fresh(write, Path(folder), size)
        yield table_of(size, fresh(replayed, Path(folder), size))


def config() -> Config:
    """The shipped rules on one source, without features."""
    mail = shipped().sources[SOURCE].model_copy(update={"relation": SOURCE, "features": ()})
    return shipped().model_copy(update={"sources": {SOURCE: mail}})


def address(folder: Path) -> str:
    """The address of the history."""
    return f"sqlite:///{folder}/history.sqlite"


def write(folder: Path, size: Size) -> None:
    """Write the history of a year of weekly and daily runs, without estimates, switches and messages."""
    rng = np.random.default_rng(SEED)
    labels = LABELS[: size.labels]
    weekly, rows = setting(labels, ROWS, size.replayed, rng), drawn(labels, size.replayed, ROWS, rng)
    with Store.from_url(address(folder)) as store:
        store.save_baselines(list(weekly.baselines.values()))
        _keep(store, weekly, rows, "weekly")
        _keep(store, by_day(weekly), {name: part.in_days() for name, part in rows.items()}, "daily")


def _keep(store: Store, year: Setting, rows: ByLabel, schedule: Schedule) -> None:
    """Store the counts and verdicts of every window."""
    for index, window in enumerate(year.windows):
        data, now = year.data(rows, index), window.end + timedelta(hours=6)
        labels: CountsByLabel = {**data.current.labels, None: pool(data.current.labels.values())}
        read = sum(counts.rows for counts in data.current.labels.values())
        store.save_reading(window, StoredReading(SOURCE, labels=labels, rows=read), now)
        store.save_evaluation(window, [SOURCE], [], _verdicts(data, window, schedule), [], now)


def _verdicts(data: SourceData, window: Window, schedule: Schedule) -> list[Any]:
    shifts = tuple(source_shifts(SOURCE, window, data.current.labels, data.baselines)) if schedule == "weekly" else ()
    rules = config().rules_for(schedule)
    return [each for rule in rules for each in verdicts_of(rule, data, config(), shifts, outcomes_only=True)]


def proposals(present: Config) -> dict[str, Config]:
    """Name -> a file that is compared with the present one."""
    first, *others = present.rules
    more = Rule(id="brier-increase", metric="brier", condition="increase", threshold=0.02)
    daily = more.model_copy(update={"id": "brier-days", "schedule": "daily"})
    stricter = first.model_copy(update={"threshold": first.threshold / 2})
    return {
        THE_SAME: present,
        STRICTER: present.model_copy(update={"rules": (stricter, *others)}),
        ONE_MORE: present.model_copy(update={"rules": (*present.rules, more, daily)}),
    }


def replayed(folder: Path, size: Size) -> list[Replayed]:
    """Replay every proposal, on weeks only and on weeks with days, each time with empty caches."""
    with Store.from_url(address(folder), create=False) as store:
        return [
            _rounds(store, name, proposed, schedules, size)
            for schedules in (("weekly",), ("weekly", "daily"))
            for name, proposed in proposals(config()).items()
        ]


def _rounds(store: Store, name: str, proposed: Config, schedules: tuple[str, ...], size: Size) -> Replayed:
    plan = plan_of(only(config(), schedules), only(proposed, schedules), newest_week(store), size.replayed)

    def run() -> Replay:
        forget()
        return replay(store, plan)

    rounds = [timed(run) for _ in range(size.rounds)]
    first = rounds[0][1]
    return Replayed(
        name, " and ".join(schedules), Timing(name, tuple(seconds for seconds, _ in rounds)),
        (len(first.present.incidents), len(first.proposed.incidents)), all(found == first for _, found in rounds),
    )  # fmt: skip


def newest_week(store: Store) -> Window:
    """The newest week that is stored."""
    return max(verdict.window for verdict in store.verdicts(schedule="weekly", rule="auc-floor"))


def only(config: Config, schedules: Sequence[str]) -> Config:
    """The configuration with only the rules of these schedules."""
    return config.model_copy(update={"rules": tuple(rule for rule in config.rules if rule.schedule in schedules)})


def table_of(size: Size, found: Sequence[Replayed]) -> Table:
    """The table of seconds."""
    rows = tuple(
        (each.name, each.schedules, *each.timing.shown, f"{each.incidents[0]} / {each.incidents[1]}")
        for each in found
    )  # fmt: skip
    same = "gave the same" if all(each.same_twice for each in found) else "did NOT give the same"
    notes = (
        f"{size.replayed} weeks of {ROWS:,} rows a label, their counts and verdicts in SQLite; nothing has changed in "
        "them. One thread; reading the history is included.",
        f"Rounds {same} result. Rules that say the same in both files are judged once.",
    )
    title = f"`calmon replay`: {size.replayed} weeks, {size.labels} labels, one thread, {size.rounds} rounds, s"
    columns = ("proposed file", "windows", "min s", "median s", "max s", "incidents, present / proposed")
    return Table(title, columns, rows, notes, texts=2)
