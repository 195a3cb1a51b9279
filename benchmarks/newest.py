"""From how many rows a window may be judged alone: how small p-values of an ECE and MCE are where nothing is wrong."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from benchmarks.populations import LABELS, Population, endless_edges, true_ece, with_ece
from benchmarks.tables import ROOT, Table, commit_of, console, write_between
from benchmarks.weeks import SOURCE, shipped
from monitor.config.model import Rule
from monitor.core.baseline import Baseline, edges_of
from monitor.core.records import Subject
from monitor.core.windows import week
from monitor.evaluation.comparisons import compare_family
from monitor.evaluation.data import RuleInput

SEED = 20260101
NOW = "2026-W46"
SIZES = (15, 30, 60, 100, 125, 250)
BASELINE_ROWS = 10_000
AT_MOST = (1e-2, 1e-3, 1e-4, 2.5e-5)
DRAWN = 10
"""Windows of each label for one draw of its baseline."""
DOCS = ROOT / "benchmarks" / "results" / "statistics.md"


@cache
def rule_of(rule_id: str) -> Rule:
    """A shipped rule, on one week."""
    rule = next(each for each in shipped().rules if each.id == rule_id)
    return rule.model_copy(update={"for_windows": 1, "schedule": "weekly"})


@cache
def at_threshold(rule: Rule) -> tuple[Population, ...]:
    """The labels as they are for a rule on a change, and with a true ECE of just the threshold for one on a level."""
    if rule.compares:
        return LABELS
    below = [each for each in LABELS if true_ece(each, endless_edges(each)) < rule.threshold]
    return tuple(with_ece(each, rule.threshold) for each in below)


def baseline_of(population: Population, rng: np.random.Generator) -> Baseline:
    """A baseline of the population."""
    config, counts = shipped(), population.draw(rng, BASELINE_ROWS)
    first = week("2026-W01", config.zone)
    return Baseline(
        SOURCE, population.name, 1, first.start, first.end, first.name, first.name, counts,
        edges_of(counts, config.evaluation), first.end, "benchmark", "benchmark",
    )  # fmt: skip


def p_values(rule: Rule, rows: int, draws: int) -> npt.NDArray[np.float64]:
    """p-values of single windows in which nothing is wrong, 1 where the value is within the threshold."""
    config, rng, found = shipped(), np.random.default_rng([SEED, rows, len(rule.id)]), []
    now, evaluation = week(NOW, config.zone), config.evaluation.model_copy(update={"interval": "analytic"})
    for _ in range(draws):
        inputs = [
            RuleInput(Subject(SOURCE, each.name), now, (each.draw(rng, rows),), frozen)
            for each in at_threshold(rule)
            for frozen in [baseline_of(each, rng)]
            for _ in range(DRAWN)
        ]
        found += [each.p_value if each.beyond else 1.0 for each in compare_family(rule, inputs, evaluation)]
    return np.array([1.0 if p is None else p for p in found])


def level_table(draws: int, sizes: Sequence[int]) -> Table:
    """How often a single small window that is well has how small a p-value."""
    lines = []
    for rule_id in ("ece-increase", "mce-increase", "ece-two-days"):
        rule = rule_of(rule_id)
        name = f"{rule.measure} {rule.condition} {rule.threshold:g}"
        for rows in sizes:
            p = p_values(rule, rows, draws)
            shares = (f"{(p <= most).mean():.6f}" for most in AT_MOST)
            lines.append((name, f"{rows:,}", f"{len(p):,}", *shares))
    heads = ("rule", "rows of the window", "windows", *(f"p <= {most:g}" for most in AT_MOST))
    note = (
        "Windows of twenty labels. Of an increase nothing has changed since the baseline; of a level the true ECE is "
        "just the threshold. p-values hold where the share is not larger than p."
    )
    return Table("One small window alone, nothing wrong", heads, tuple(lines), (note,), texts=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.newest", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--write-docs", action="store_true", help="put the table into benchmarks/results/statistics.md")
    given = parser.parse_args(arguments)
    if given.quick and given.write_docs:
        parser.error("--write-docs takes the whole benchmark, not --quick")
    began = time.process_time()
    table = level_table(1, SIZES[:1]) if given.quick else level_table(250, SIZES)
    table.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.newest --write-docs` at commit {commit_of(ROOT)}, "
            f"seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "newest", f"{origin}\n\n{table.markdown()}")


if __name__ == "__main__":
    main()
