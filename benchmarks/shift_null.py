"""Weeks of twenty labels and twenty columns: how often is a shift found if there is none, and if there is one?

All tests of a week are one family at the default rate, as in a run: scores of the labels and of the source as a whole,
both label mixes, and every test of every column, on samples of the default size.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from benchmarks.shift_level import SCORES, Draw
from benchmarks.tables import Table, console
from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import ShiftResult, Window
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.evaluation.shift.drift_report import feature_drift
from monitor.evaluation.shift.findings import ShiftFinding, findings
from monitor.operations.collect import REFERENCE_SAMPLES

SEED = 20260101
LABELS, ROWS, BASELINE_ROWS = 20, 5_000, 40_000
NUMBERS, TEXTS = 12, 8
MOVED = 0.1
SAMPLE = SourceConfig(relation="t", score_is="probability_of_label").sample_size
EVALUATION = EvaluationConfig()
MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
WINDOW = Window(MONDAY, MONDAY + timedelta(weeks=1), "2026-W46", "weekly")


@dataclass(frozen=True, slots=True)
class Week:
    """By how many standard deviations the scores of the first label, or the first column, have moved."""

    label: float = 0.0
    column: float = 0.0


def _counts(rng: np.random.Generator, draw: Draw, rows: int, moved: float) -> Counts:
    score = draw(rng, rows)
    score = np.clip(score + moved * float(score.std()), 0.0, 1.0)
    return counts_from_rows(score, rng.random(rows) < score)


def _sample(rng: np.random.Generator, rows: int, moved: float = 0.0) -> pd.DataFrame:
    """Numbers (continuous, long-tailed, whole) and texts, some of them rare, some values missing."""
    columns: dict[str, object] = {}
    for k in range(NUMBERS):
        plain = rng.normal(moved if k == 0 else 0.0, 1.0, rows)
        values = (plain, np.exp(plain), rng.poisson(3.0, rows).astype(float))[k % 3]
        columns[f"number_{k}"] = np.where(rng.random(rows) < 0.05 * (k % 4 == 3), np.nan, values)
    for k in range(TEXTS):
        share = 1.0 / np.arange(1, 4 + 5 * k) ** 2
        columns[f"text_{k}"] = rng.choice(np.arange(len(share)).astype(str), rows, p=share / share.sum())
    return pd.DataFrame(columns)


def shifts_of(week: Week, rng: np.random.Generator) -> list[ShiftResult]:
    """All tests of one week, compared with its own baseline."""
    draws: Sequence[Draw] = tuple(SCORES.values())
    sides: dict[str | None, tuple[Counts, Counts]] = {}
    for k in range(LABELS):
        draw = draws[k % len(draws)] if k else SCORES["four decimals"]
        now = _counts(rng, draw, ROWS, week.label if k == 0 else 0.0)
        sides[f"label {k}"] = now, _counts(rng, draw, BASELINE_ROWS, 0.0)
    sides[None] = pool([now for now, _ in sides.values()]), pool([then for _, then in sides.values()])
    baselines = {label: _pinned(label, then) for label, (_, then) in sides.items()}
    found = source_shifts("tickets", WINDOW, {label: now for label, (now, _) in sides.items()}, baselines)
    samples = _sample(rng, SAMPLE, week.column), _sample(rng, REFERENCE_SAMPLES * SAMPLE)
    return [*found, *feature_drift("tickets", WINDOW, *samples)]


def _pinned(label: str | None, counts: Counts) -> Baseline:
    end = MONDAY - timedelta(weeks=4)
    edges = edges_of(counts, EVALUATION)
    return Baseline("tickets", label, 1, end - timedelta(weeks=8), end, "a", "b", counts, edges, end, "bench", "bench")


def found_in(week: Week, weeks: int, *, first: int = 0) -> list[tuple[ShiftFinding, ...]]:
    """The findings of each of ``weeks`` weeks, at the default rate. The number of tests does not vary."""
    rate = EVALUATION.false_discovery_rate
    return [
        findings(shifts_of(week, np.random.default_rng([SEED, first + k])), rate) for k in range(weeks)
    ]  # fmt: skip


def table(weeks: int, moved_weeks: int) -> Table:
    """The table of the share of weeks with a finding, and how often a shift is found, with their 95% limits."""
    tests = sum(shift.p_value is not None for shift in shifts_of(Week(), np.random.default_rng(SEED)))
    quiet = found_in(Week(), weeks)
    scores = found_in(Week(label=MOVED), moved_weeks, first=weeks)
    columns = found_in(Week(column=MOVED), moved_weeks, first=weeks + moved_weeks)

    def about(label: str | None, column: str) -> int:
        sought = scores if column == "score" else columns
        return sum(
            any(f.result.subject.label == label and f.result.column == column for f in week) for week in sought
        )  # fmt: skip

    lines = (
        ("nothing moved: weeks with any finding", weeks, sum(map(bool, quiet))),
        (f"scores of a label moved by {MOVED} sd: found", moved_weeks, about("label 0", "score")),
        (f"a column moved by {MOVED} sd: found", moved_weeks, about(None, "number_0")),
    )
    title = f"{LABELS} labels of {ROWS:,} rows, {NUMBERS + TEXTS} columns, samples of {SAMPLE:,}: {tests} tests a week"
    return Table(title, ("what", "weeks", "share", "95% limits"), tuple(_line(*line) for line in lines))


def _line(what: str, weeks: int, hits: int) -> tuple[str, str, str, str]:
    limits = binomtest(hits, weeks).proportion_ci(0.95)
    return what, f"{weeks:,}", f"{hits / weeks:.3f}", f"{limits.low:.3f} to {limits.high:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shift_null", description=str(__doc__).split("\n")[0])
    parser.add_argument("--weeks", type=int, default=1000)
    parser.add_argument("--moved", type=int, default=100)
    given = parser.parse_args(arguments)
    table(given.weeks, given.moved).show(console())


if __name__ == "__main__":
    main()
