"""Is prior shift distinguished from faults? Rises of ECE and MCE with another share of true items, and with faults."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.tables import ROOT, Table, commit_of, console, write_between
from benchmarks.weeks import shipped
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import Reason, Subject
from monitor.core.windows import before, week
from monitor.evaluation.comparisons import compare
from monitor.evaluation.data import RuleInput
from monitor.evaluation.verdicts import decide

SEED = 20260101
SHARE = 0.3
"""The share of true items in the baseline. Scores are drawn from a beta distribution with this mean, calibrated."""
SHAPE = (0.6, 1.4)
SHARES = (0.15, 0.2, 0.38, 0.45)
ROWS = (1_000, 3_000, 10_000)
BASELINE_ROWS = 40_000
DOCS = ROOT / "benchmarks" / "results" / "statistics.md"

Floats = npt.NDArray[np.float64]
FAULTS: dict[str, Callable[[Floats], Floats]] = {
    "scores from .5 on: .15 too high": lambda s: np.where(s > 0.5, s - 0.15, s),
    "all scores .06 too high": lambda s: np.clip(s - 0.06, 0.0, 1.0),
    "log odds .7 too high": lambda s: s / (s + (1 - s) * math.exp(0.7)),
    "too sharp (temperature 1.7)": lambda s: 1 / (1 + ((1 - s) / s) ** 0.6),
}
"""Fault -> hit rates as a function of scores; the scores themselves stay the same."""


def shifted(rng: np.random.Generator, rows: int, share: float) -> Counts:
    """Rows of a calibrated classifier, with another share of true items."""
    pool = rng.beta(*SHAPE, size=6 * rows + 200)
    truth = rng.random(len(pool)) < pool
    true = rng.binomial(rows, share)
    chosen = np.concatenate([np.flatnonzero(truth)[:true], np.flatnonzero(~truth)[: rows - true]])
    return counts_from_rows(pool[chosen], truth[chosen])


def faulty(rng: np.random.Generator, rows: int, worth: Callable[[Floats], Floats]) -> Counts:
    """Rows whose hit rates are ``worth`` of their scores."""
    score = rng.beta(*SHAPE, size=rows).clip(1e-6, 1 - 1e-6)
    return counts_from_rows(score, rng.random(rows) < worth(score))


def reason_of(rule_id: str, baseline: Counts, window: Counts) -> str:
    """The reason of the verdict of one shipped rule alone if it is a breach, else its outcome."""
    config = shipped()
    rule = next(each for each in config.rules if each.id == rule_id)
    evaluation = config.evaluation.model_copy(update={"interval": "analytic"})
    now = week("2026-W46", config.zone)
    first, *_, last = reversed(before(now, 8, config.zone))
    pinned = Baseline(
        "mail", "label", 1, first.start, last.end, first.name, last.name, baseline,
        edges_of(baseline, evaluation), last.start, "benchmark", "benchmark",
    )  # fmt: skip
    found = compare(rule, RuleInput(Subject("mail", "label"), now, (window,), pinned), evaluation)
    rules = config.decision_rules("weekly")
    (verdict,) = decide(rule, [found], rate=evaluation.false_discovery_rate, decision_rules=rules, revision="")
    return verdict.reason.value if verdict.outcome == "breach" else verdict.outcome


def table_of(rule_id: str, runs: int, rows: Sequence[int]) -> Table:
    """The table of how often breaches get which reason, by world."""
    worlds: dict[str, Callable[[np.random.Generator, int], Counts]] = {
        **{f"{100 * share:.0f}% true items": partial(shifted, share=share) for share in SHARES},
        **{name: partial(faulty, worth=worth) for name, worth in FAULTS.items()},
    }
    lines: list[tuple[str, ...]] = []
    for name, drawn in worlds.items():
        cells: list[str] = []
        for n in rows:
            rng = np.random.default_rng([SEED, n, len(lines)])
            found = Counter(reason_of(rule_id, shifted(rng, BASELINE_ROWS, SHARE), drawn(rng, n)) for _ in range(runs))
            breaches = sum(found[each.value] for each in (Reason.CLASS_MIX, Reason.INCREASED, Reason.TRAFFIC_MIX))
            cells += [f"{breaches}", f"{found[Reason.CLASS_MIX.value]}"]
        lines.append((name, *cells))
    heads = ("world", *(text for n in rows for text in (f"{n:,} rows: breaches", "of these class_mix")))
    note = (
        f"{runs} runs a cell of one label alone; {100 * SHARE:.0f}% true items in a baseline of {BASELINE_ROWS:,} rows."
    )
    return Table(f"What {rule_id} calls a change", heads, tuple(lines), (note,), texts=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.class_mix", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--runs", type=int, default=100, help="runs a cell (default 100)")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into benchmarks/results/statistics.md"
    )
    given = parser.parse_args(arguments)
    if given.runs < 1 or (given.quick and given.write_docs):
        parser.error("--runs must be at least 1, and --write-docs takes the whole benchmark, not --quick")
    began = time.process_time()
    runs, rows = (2, ROWS[:1]) if given.quick else (given.runs, ROWS)
    tables = [table_of(rule_id, runs, rows) for rule_id in ("ece-increase", "mce-increase")]
    for table in tables:
        table.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.class_mix --runs {runs} --write-docs` at commit {commit_of(ROOT)}, "
            f"seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "class mix", "\n\n".join([origin, *(table.markdown() for table in tables)]))


if __name__ == "__main__":
    main()
