"""The shift tests if nothing has changed, and if scores have moved by a tenth of a standard deviation."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.tables import Table, console
from monitor.core.counts import Counts, counts_from_rows
from monitor.evaluation.shift.counts_tests import Effect, ks, score_jensen_shannon, score_wasserstein
from monitor.inference.multiplicity import adjust

SEED = 20260101
ROWS = (500, 2_000, 5_000)
BASELINE = 40_000
LABELS = 20
RATE = 0.01
MOVED = 0.1
VERBAL = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
TESTS: Mapping[str, Callable[[Counts, Counts], Effect]] = {
    "ks": ks, "wasserstein": score_wasserstein, "jensen_shannon": score_jensen_shannon,
}  # fmt: skip
Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]


def _beta(decimals: int) -> Draw:
    return lambda rng, n: np.round(rng.beta(2.0, 3.0, n), decimals)


SCORES: Mapping[str, Draw] = {
    "seven words": lambda rng, n: rng.choice(VERBAL, n, p=np.array([40, 10, 5, 5, 5, 3, 2]) / 70),
    "two decimals": _beta(2),
    "four decimals": _beta(4),
    "mostly 0": lambda rng, n: np.round(rng.beta(0.3, 8.0, n), 2),
}


def counts_of(score: Floats) -> Counts:
    """The counts of scores; outcomes do not matter here."""
    return counts_from_rows(np.clip(score, 0.0, 1.0), np.zeros(len(score)))


def level_table(runs: int) -> Table:
    """The table of the share of windows with a p-value below :data:`RATE`: unchanged, and moved at 5,000 rows."""
    lines = []
    for name, draw in SCORES.items():
        for n in ROWS:
            rng = np.random.default_rng([SEED, n])
            p_values: dict[str, list[float]] = {test: [] for test in TESTS}
            for _ in range(runs):
                now, then = counts_of(draw(rng, n)), counts_of(draw(rng, BASELINE))
                for test, compare in TESTS.items():
                    p_values[test].append(compare(now, then).p_value or 0.0)
            lines.append((name, f"{n:,}", *(f"{np.mean(np.array(p) < RATE):.3f}" for p in p_values.values())))
    return Table(f"Unchanged windows with p < {RATE} ({runs} a line)", ("scores", "rows", *TESTS), tuple(lines))


def found_table(runs: int) -> Table:
    """The table of how often twenty labels give a finding if none, or one, has moved (p-values adjusted over all)."""
    lines = []
    for moved in (0.0, MOVED):
        found = dict.fromkeys(TESTS, 0)
        anything = 0
        for run in range(runs):
            rng = np.random.default_rng([SEED, run])
            p_values: dict[str, list[float]] = {test: [] for test in TESTS}
            for label in range(LABELS):
                then = SCORES["four decimals"](rng, BASELINE)
                shift = moved * float(then.std()) if label == 0 else 0.0
                now = SCORES["four decimals"](rng, ROWS[-1]) + shift
                for test, compare in TESTS.items():
                    p_values[test].append(compare(counts_of(now), counts_of(then)).p_value or 0.0)
            adjusted = adjust([p for each in p_values.values() for p in each], 1)
            anything += min(adjusted) < RATE
            for place, test in enumerate(TESTS):
                found[test] += adjusted[place * LABELS] < RATE
        lines.append((f"{moved}", f"{anything / runs:.3f}", *(f"{hits / runs:.3f}" for hits in found.values())))
    heads = ("label 0 moved by (sd)", "weeks with any finding", *(f"label 0 by {test}" for test in TESTS))
    return Table(f"{LABELS} labels, {ROWS[-1]:,} rows each, one family at {RATE} ({runs} weeks)", heads, tuple(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shift_level", description=str(__doc__).split("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--weeks", type=int, default=100)
    given = parser.parse_args(arguments)
    for table in (level_table(given.runs), found_table(given.weeks)):
        table.show(console())


if __name__ == "__main__":
    main()
