"""Whether a rise of the ECE is called `traffic_mix` where only the traffic moved, and never where scores went wrong.

``python -m benchmarks.traffic [--runs 200] [--write-docs]`` draws a baseline of 10,000 rows and a week, and asks the
two tests of a breach: did the ECE rise, and did behaviour change? Without the second a breach is called so. Seeded.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.populations import Curve, Population, Scores, mixture
from benchmarks.tables import DOCS, Table, publish
from benchmarks.weeks import shipped
from monitor.core.counts import bin_counts, equal_frequency_edges
from monitor.inference.change import ece_increase_ps, ece_rate_p

SEED, BASELINE, LABELS = 20261130, 10_000, 20
MIDDLE = Scores(((1.0, (4.0, 4.0)),))
WRONG = Curve(steps=((0.5, 0.8, -0.2),))
"""Where the model was always wrong: scores of .5 to .8 are too high by .2."""
BEFORE = {
    "calibrated": Population("", mixture(0.3)),
    "calibrated, scores in the middle": Population("", MIDDLE),
    "too extreme": Population("", mixture(0.3), Curve(1.3)),
}
FAULTS = {
    "too high everywhere": Curve(offset=-0.4),
    "more extreme": Curve(1.8),
    "less extreme": Curve(0.6),
    "too high from .5 to .8": Curve(steps=((0.5, 0.8, -0.15),)),
    "too high from .8": Curve(steps=((0.8, 1.0, -0.3),)),
}
MOVED = {
    "moves to where the model was wrong": (mixture(0.1), mixture(0.5, (5.0, 2.5))),
    "scores move to the middle": (mixture(0.3), MIDDLE),
}


def worlds() -> list[tuple[str, str, Population, Population]]:
    """What happens, what was before, and the populations of the baseline and of the week."""
    faults = [
        (fault, name, before, replace(before, curve=curve))
        for name, before in BEFORE.items()
        for fault, curve in FAULTS.items()
    ]
    traffic = [
        (name, "wrong from .5 to .8", Population("", then, WRONG), Population("", now, WRONG))
        for name, (then, now) in MOVED.items()
    ]
    return [*faults, *traffic]


def named(before: Population, now: Population, n: int, runs: int) -> list[bool]:
    """Of each run with a breach, whether it is called `traffic_mix`."""
    config, pairs = shipped(), []
    for run in range(runs):
        rng = np.random.default_rng((SEED, n, run))
        then, week = before.draw(rng, BASELINE), now.draw(rng, n)
        edges = equal_frequency_edges(then, config.evaluation.bins)
        pairs.append((bin_counts(week, edges), bin_counts(then, edges)))
    rate = config.evaluation.false_discovery_rate
    alone = rate / LABELS / config.decision_rules("weekly")
    breaches = [pair for pair, p in zip(pairs, ece_increase_ps(pairs), strict=True) if p < alone]
    return [ece_rate_p(*pair) >= rate for pair in breaches]


def table(runs: int) -> Table:
    """Every world with 500 and 2,000 rows a week."""
    lines = []
    for happens, before, then, now in worlds():
        for n in (500, 2_000):
            found = named(then, now, n, runs)
            lines.append((happens, before, f"{n:,}", f"{len(found)}", f"{sum(found)}"))
    heads = ("what happens", "before", "rows", "breaches", "called traffic_mix")
    note = f"{runs} runs a line. A breach: the rise is significant among {LABELS} labels of which no other rises."
    return Table("Called traffic_mix", heads, tuple(lines), (note,), texts=2)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description=str(__doc__).split("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="runs a line (default 200)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into benchmarks/results/statistics.md")
    given = parser.parse_args(arguments)
    page = DOCS if given.write_docs else None
    publish([table(given.runs)], "traffic", f"traffic --runs {given.runs}", f", seed {SEED}", page=page)


if __name__ == "__main__":
    main()
