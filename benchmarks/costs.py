"""The cost of judging one week of a label by the shipped weekly rules, and of a whole weekly run after the reading."""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from benchmarks.contestants import SEED
from benchmarks.duckdb_rows import address
from benchmarks.populations import LABELS, Population
from benchmarks.size import Size
from benchmarks.tables import Table
from benchmarks.timing import Timing, fresh, number, timed
from benchmarks.weeks import SOURCE, ByLabel, Setting, drawn, judged, rules_of, setting, shipped
from monitor import run
from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.context import Monitor
from monitor.core.records import Verdict, Window
from monitor.core.windows import week
from monitor.evaluation.evaluate import estimates_of
from monitor.history.store import Store
from monitor.inference.memory import forget
from monitor.operations import pin_baseline
from monitor.warehouse.reader import Warehouse

WEEKS = ("2026-W45", "2026-W46")  # the baseline, and the week that is judged
CHANNELS = ("email", "web", "phone")
STAGES = (
    "reading (week, weeks before, segments), counts into the history",
    "judging: estimates, shift tests, verdicts",
    "- the estimates of it",
    "recording and acting: verdicts, switch, incidents, messages",
)


@dataclass(frozen=True, slots=True)
class Judging:
    """Seconds for a label-week of ``rows`` rows; ``pooled`` is the mean number of pooled weeks.

    ``anew``: without cached results of the baseline; ``known``: with those of other weeks in the cache.
    """

    rows: int
    pooled: float
    anew: Timing
    known: Timing


@dataclass(frozen=True, slots=True)
class Staged:
    """The seconds of one weekly run, for each of STAGES, and its results."""

    seconds: tuple[float, ...]
    estimates: int
    verdicts: tuple[Verdict, ...]

    @property
    def beyond(self) -> float:
        """The seconds of all stages but the reading."""
        _, judging, _, acting = self.seconds
        return judging + acting


def tables(size: Size) -> Iterator[Table]:
    """Both tables, each measured in its own process."""
    yield weeks_table(size, fresh(weeks_timings, size))
    with tempfile.TemporaryDirectory() as folder:
        fresh(write, Path(folder) / "warehouse.duckdb", size)
        yield run_table(size, fresh(run_timings, Path(folder), size))


def weeks_timings(size: Size) -> list[Judging]:
    """The seconds of judging without and with a cache, for each number of rows."""
    found = []
    for n in size.week_rows:
        rng = np.random.default_rng((SEED, n))
        labels = LABELS[: size.labels]
        weekly, rows = setting(labels, n, size.weeks, rng), drawn(labels, size.weeks, n, rng)
        found.append(_judging(n, weekly, rows))
    return found


def _judging(n: int, weekly: Setting, rows: ByLabel) -> Judging:
    rules, weeks = rules_of(weekly.config, "weekly"), range(len(weekly.windows))

    def judge(index: int) -> tuple[float, list[Verdict]]:
        weekly.data(rows, index)  # makes the counts, which are not measured
        seconds, verdicts = timed(lambda: judged(weekly, rows, index, rules))
        return seconds / len(rows), verdicts

    def judge_anew(index: int) -> tuple[float, list[Verdict]]:
        forget()
        return judge(index)

    first = [judge_anew(index) for index in weeks]
    pooled = statistics.mean(verdict.windows for _, verdicts in first for verdict in verdicts)
    judge_anew(0)
    later = [judge(index)[0] for index in weeks[1:]]
    return Judging(n, pooled, Timing("anew", tuple(each for each, _ in first)), Timing("known", tuple(later)))


def weeks_table(size: Size, found: Sequence[Judging]) -> Table:
    """The table of milliseconds."""
    rows = tuple(
        (
            f"{each.rows:,}", f"{each.pooled:.1f}", number(1000 * each.anew.median),
            number(1000 * max(each.anew.seconds)), number(1000 * each.known.median),
        )
        for each in found
    )  # fmt: skip
    rules = len(rules_of(shipped(), "weekly"))
    notes = (
        f"All {rules} shipped weekly rules that have a label here, all labels with a baseline of 8 weeks or more. "
        "Nothing has changed.",
        "Known baseline: later weeks in the same process, as in a backfill or a simulation. A weekly run begins anew.",
    )
    title = f"Judging one label's week, one thread, medians of {size.weeks} weeks of {size.labels} labels, ms"
    return Table(title, ("rows a label-week", "weeks pooled", "ms", "max ms", "ms, known baseline"), rows, notes)


def config() -> Config:
    """The shipped rules on one source, without features, whose drift report is Evidently's."""
    mail = shipped().sources[SOURCE].model_copy(update={"relation": SOURCE, "features": ()})
    return shipped().model_copy(update={"sources": {SOURCE: mail}})


def write(path: Path, size: Size) -> None:
    """Write a warehouse with two weeks of every label."""
    rng = np.random.default_rng(SEED)
    rows = pd.concat(
        [
            made(label, week(name, config().zone), size.run_rows, rng)
            for label in LABELS[: size.labels]
            for name in WEEKS
        ]
    )
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
        connection.register("made", rows)
        connection.execute(f"CREATE TABLE {SOURCE} AS SELECT * REPLACE (item::VARCHAR AS item) FROM made")


def made(label: Population, window: Window, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """``rows`` rows of a label, spread evenly over a window."""
    cell, outcome = label.rows(rng, rows)
    item = np.arange(rows)
    return pd.DataFrame({
        "item": item, "label": label.name, "score": cell / 10_000, "actual": outcome.astype(np.int8),
        "resolved_at": window.start + pd.to_timedelta(item * (604_799 / rows), unit="s"),
        "model_version": "v1", "channel": np.array(CHANNELS)[item % len(CHANNELS)],
    })  # fmt: skip


def run_timings(folder: Path, size: Size) -> list[Staged]:
    """The seconds of the stages of weekly runs, each with a new history."""
    return [_staged(folder, attempt) for attempt in range(size.rounds)]


def _staged(folder: Path, attempt: int) -> Staged:
    """The seconds of the stages of `run.run_window`, and of the estimates alone."""
    first, window = (week(name, config().zone) for name in WEEKS)
    now = window.end + timedelta(hours=7)
    history = f"sqlite:///{folder}/{attempt}.sqlite"
    with Warehouse.from_url(address(folder / "warehouse.duckdb")) as warehouse, Store.from_url(history) as store:
        monitor = Monitor(config(), Settings(), warehouse, store, None, lambda: now)
        pin_baseline.pin(monitor, first, first, by="benchmark", reason="benchmark")
        begun = run.begin(monitor, run.Run(window, (SOURCE,)))
        reading, read = timed(lambda: run.read(monitor, begun))
        forget()
        judging, judged = timed(lambda: run.judge(monitor, replace(read, mode="never")))
        acting, _ = timed(lambda: run.act(monitor, replace(judged, mode="auto")))
        estimating, estimates = timed(lambda: estimates_of(read.collected[0].data, monitor.config))
    assert len(estimates) == len(judged.evaluated[0].estimates)
    return Staged((reading, judging, estimating, acting), len(estimates), judged.evaluated[0].verdicts)


def run_table(size: Size, found: Sequence[Staged]) -> Table:
    """The table of the stages, and of all stages after the reading together."""
    timings = [Timing(name, each) for name, each in zip(STAGES, zip(*(r.seconds for r in found), strict=True),
                                                        strict=True)]  # fmt: skip
    beyond = Timing("beyond the reading", tuple(each.beyond for each in found))
    rows = tuple((timing.name, *timing.shown) for timing in (*timings, beyond))
    outcomes = Counter(verdict.outcome for verdict in found[-1].verdicts)
    shown = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(outcomes.items()))
    notes = (
        f"{found[-1].estimates:,} estimates (labels, the source as a whole, and segments by channel and model "
        f"version), {outcomes.total():,} verdicts ({shown}); baseline of one week, history in SQLite, no Slack.",
        "Without features: their drift report is Evidently's (docs/shift.md).",
    )
    title = f"A weekly run: {size.labels} labels of {size.run_rows:,} rows, one thread, {size.rounds} rounds"
    return Table(title, ("stage", "min s", "median s", "max s"), rows, notes)
