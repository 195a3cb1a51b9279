"""The rule auc-decrease over years of twenty labels: its false alarms, and how soon it finds the fall of one label."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import chi2

from benchmarks.populations import LABELS, Curve, Population
from benchmarks.tables import Table, console
from benchmarks.weeks import ByLabel, Open, Setting, drawn, judged, opened, setting
from monitor.config.model import Rule
from monitor.metrics.discrimination import roc_auc

SEED = 20260101
RULE = Rule(id="auc-decrease", metric="roc_auc", condition="decrease", threshold=0.03)
ROWS = (500, 2_000, 10_000)
WEEKS = 52
TROUBLED = 5
"""The index of the label that gets worse."""
BLUR = 1.3
"""The temperature of its scores then: extreme scores come true less often than before."""


def with_rule(base: Setting) -> Setting:
    """The shipped rules and this rule."""
    rules = (*base.config.rules, RULE)
    return replace(base, config=base.config.model_copy(update={"rules": rules}))


def blurred(population: Population) -> Population:
    """The label with the same scores that predict less: those far from the middle come true less often than before."""
    return replace(population, curve=Curve(BLUR, population.curve.offset))


def area_of(population: Population) -> float:
    """The ROC AUC of the population, from enough rows to make noise negligible."""
    return roc_auc(population.draw(np.random.default_rng(SEED), 400_000)) or 0.0


def year(n: int, number: int, weeks: int) -> int:
    """The number of incidents in one year in which nothing changes."""
    rng = np.random.default_rng([SEED, n, number])
    place = with_rule(setting(LABELS, n, weeks, rng))
    rows: ByLabel = drawn(LABELS, weeks, n, rng)
    open_now: Open = {}
    found: Counter[str] = Counter()
    for week in range(weeks):
        found += opened(judged(place, rows, week, [RULE]), open_now)
    return found[RULE.id]


def first_week(n: int, number: int, weeks: int) -> int | None:
    """The week in which a label is found that got worse in the first week; None: not within ``weeks``."""
    rng = np.random.default_rng([SEED, n, number, 1])
    place = with_rule(setting(LABELS, n, weeks, rng))
    now = [blurred(label) if at == TROUBLED else label for at, label in enumerate(LABELS)]
    rows = drawn(now, weeks, n, rng)
    for week in range(weeks):
        breaches = {v.subject.label for v in judged(place, rows, week, [RULE]) if v.outcome == "breach"}
        if LABELS[TROUBLED].name in breaches:
            return week + 1
    return None


def table(years: int, weeks: int) -> Table:
    """The table of both results for each number of rows."""
    before, after = area_of(LABELS[TROUBLED]), area_of(blurred(LABELS[TROUBLED]))
    lines = []
    for n in ROWS:
        quiet = sum(year(n, number, weeks) for number in range(years)) * WEEKS / weeks
        limit = chi2.isf(0.05, 2 * (quiet + 1)) / 2
        firsts = sorted(first_week(n, number, 13) or 99 for number in range(years))
        median, late = (firsts[min(len(firsts) - 1, int(share * len(firsts)))] for share in (0.5, 0.9))
        found_after = ["-" if week == 99 else str(week) for week in (median, late)]
        lines.append((f"{n:,}", f"{quiet / years:.2f}", f"{limit / years:.2f}", *found_after))
    heads = ("rows a label-week", "false incidents a year", "at most", "found: 50%", "found: 90%")
    note = (
        f"{years} years of twenty labels a line, {years} falls of one label from {before:.3f} to {after:.3f}; "
        f"seed {SEED}. At most: the upper 95% limit."
    )
    return Table("ROC AUC more than .03 below its baseline (auc-decrease)", heads, tuple(lines), (note,), texts=0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decrease", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--years", type=int, default=10, help="years a line (default 10)")
    parser.add_argument("--markdown", action="store_true", help="print the table for the docs")
    given = parser.parse_args(arguments)
    if given.years < 1:
        parser.error("--years must be at least 1")
    found = table(1, 3) if given.quick else table(given.years, WEEKS)
    if given.markdown:
        print(found.markdown())
    else:
        found.show(console())


if __name__ == "__main__":
    main()
