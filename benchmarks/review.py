"""Coverage and false alarms if people review all flagged rows but only one in K of the others: before and now.

*Before* uses Kish's effective size of all rows of a share together; *now* is the method of estimates and rules.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.populations import LABELS, PHISHING, SIX_PERCENT, Endless, Floats, Population, endless
from benchmarks.tables import Table, console
from monitor.core.counts import CELLS, Counts, counts_from_rows
from monitor.inference.change import Side
from monitor.inference.levels import law_of
from monitor.inference.sampling import FScore, Proportion
from monitor.metrics.classification import agreed, missed, positives_found
from monitor.metrics.registry import METRICS

SEED = 20260101
KEEP = (1, 5, 20, 100)
ROWS = 4_000
POPULATIONS = (PHISHING, SIX_PERCENT, LABELS[10])
BEFORE: dict[str, Callable[[Counts], Proportion | FScore | None]] = {
    "false_negative_rate": lambda counts: Proportion.of(missed(counts)),
    "recall": lambda counts: Proportion.of(positives_found(counts)),
    "f1": lambda counts: None if (found := Proportion.of(agreed(counts))) is None else FScore(found),
}
UNCHANGED = ("accuracy", "overconfidence", "precision", "specificity")


def reviewed(made: Endless, keep: int, rng: np.random.Generator) -> Counts:
    """The counts of a week: every row with a score of at least .5, and one in ``keep`` of the others."""
    picked = rng.integers(len(made.cell), size=ROWS)
    score, outcome = made.cell[picked] / CELLS, rng.random(ROWS) < made.worth[picked]
    flagged = score >= 0.5
    known = flagged | (rng.random(ROWS) < 1 / keep)
    weight = np.where(flagged, 1.0, float(keep))
    return counts_from_rows(score[known], outcome[known].astype(float), weight=weight[known], automate_at=0.8)


def truth_of(made: Endless, metric: str) -> float:
    """The true metric of the population, from the probabilities of its points."""
    half = len(made.cell)
    score = np.concatenate([made.cell, made.cell]) / CELLS
    outcome = np.concatenate([np.ones(half), np.zeros(half)])
    weight: Floats = np.concatenate([made.worth, 1 - made.worth])
    is_used = weight > 0
    counts = counts_from_rows(score[is_used], outcome[is_used], weight=weight[is_used], automate_at=0.8)
    return float(METRICS[metric].point(counts) or 0.0)


def covered(population: Population, metric: str, keep: int, runs: int, *, before: bool) -> tuple[float, float]:
    """(share of 95% intervals that hold the truth, share of p-values for "worse" at the truth that are .01 or less)."""
    made = endless(population)
    truth = truth_of(made, metric)
    worse: Side = "above" if METRICS[metric].direction == "lower" else "below"
    rng = np.random.default_rng([SEED, keep])
    covering = alarms = 0
    for _ in range(runs):
        counts = reviewed(made, keep, rng)
        law = BEFORE[metric](counts) if before else law_of(metric, counts)
        low, high = (0.0, 1.0) if law is None else law.interval(0.95)
        covering += low <= truth <= high
        alarms += law is not None and law.p_value(truth, worse) <= 0.01
    return covering / runs, alarms / runs


def table(runs: int) -> Table:
    """The table of the lowest coverage and the most false alarms of the populations, for each metric and K."""
    lines = []
    for metric in (*BEFORE, *UNCHANGED):
        for keep in KEEP:
            now = [covered(each, metric, keep, runs, before=False) for each in POPULATIONS]
            then = [covered(each, metric, keep, runs, before=True) for each in POPULATIONS] if metric in BEFORE else now
            cells = [text for found in (then, now) for text in _lowest(found)]
            lines.append((metric, str(keep), *cells))
    names = ", ".join(each.name for each in POPULATIONS)
    note = (
        f"{runs} weeks of {ROWS:,} rows a population ({names}); lowest coverage of 95% intervals, and the largest "
        "share of p-values of .01 or less at the truth. Wanted: .93 and more, .01 and less."
    )
    heads = ("metric", "K", "before: coverage", "p <= .01", "now: coverage", "p <= .01 now")
    return Table("One in K of the unflagged rows reviewed", heads, tuple(lines), (note,))


def _lowest(found: Sequence[tuple[float, float]]) -> tuple[str, str]:
    return f"{min(each[0] for each in found):.3f}", f"{max(each[1] for each in found):.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.review", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--runs", type=int, default=400, help="weeks a population (default 400)")
    parser.add_argument("--markdown", action="store_true", help="print the table for the docs")
    given = parser.parse_args(arguments)
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    found = table(10 if given.quick else given.runs)
    if given.markdown:
        print(found.markdown())
    else:
        found.show(console())


if __name__ == "__main__":
    main()
