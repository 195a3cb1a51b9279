"""How soon accumulated evidence, CUSUM and weekly rules find a lasting fault, and how many false alarms they give.

One label of twenty loses precision in its automated rows, of score .9, from the first week on. Accumulated evidence is
compared with: a CUSUM for a fall by .10, with the same proved run length; the shipped weekly rule on overconfidence;
bands of three standard deviations of eight weeks; and the textbook rule: a week's overconfidence above .05.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from benchmarks.checkout import ROOT, commit_of
from benchmarks.tables import Table, console, write_between
from benchmarks.weeks import shipped
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.promises import Promise
from monitor.core.records import Subject
from monitor.core.windows import before, week
from monitor.evaluation.comparisons import compare
from monitor.evaluation.data import RuleInput
from monitor.inference.sequential import e_process, restarted

SEED = 20260101
LABELS, RUN_LENGTH, MARGIN, CLAIMED = 20, 520, 0.02, 0.9
NEEDED = math.log(LABELS * RUN_LENGTH)
TEXTBOOK = 0.05
BAND_WEEKS, BANDS = 8, 3.0
CELLS = (
    (10, 0.30),
    (20, 0.15),
    (20, 0.30),
    (50, 0.15),
    (50, 0.10),
    (100, 0.10),
    (100, 0.05),
    (200, 0.15),
    (200, 0.0375),
)
"""(automated rows a week, fall of precision). The last one is a fall by .15 in one of four channels."""
QUIET = ((20, 0.0), (100, 0.0), (300, 0.0), (20, MARGIN), (100, MARGIN), (300, MARGIN))
"""(automated rows a week, overconfidence): calibrated labels, and labels exactly at the allowed overconfidence."""
ALPHAS = (0.05, 0.01)
DOCS = ROOT / "benchmarks" / "results" / "statistics.md"

Floats = npt.NDArray[np.float64]
First = int | None
Method = Callable[[Floats, int], First]
"""(hit rates of the weeks, rows a week) -> the first week with an alarm, counted from 1."""


def by_evidence(kept: Floats, rows: int) -> First:
    """Evidence of all weeks so far: never less than that of the newest 52 weeks, which a run uses."""
    promises = [Promise(rows, float(rows), CLAIMED, each) for each in kept.tolist()]
    return _first(restarted(promises, MARGIN) >= NEEDED)


def by_cusum(kept: Floats, rows: int) -> First:
    """Page's sum of log likelihood ratios, for a fall by .10 against the allowed overconfidence."""
    p, q, total = CLAIMED - MARGIN, CLAIMED - 0.10, 0.0
    alarms = []
    for ratio in rows * (kept * math.log(q / p) + (1 - kept) * math.log((1 - q) / (1 - p))):
        total = max(total, 0.0) + ratio
        alarms.append(total >= NEEDED)
    return _first(np.array(alarms))


def by_week(kept: Floats, rows: int) -> First:
    """The shipped rule on up to four pooled weeks, its p-value adjusted as the smallest of twenty labels."""
    config = shipped()
    rule = next(each for each in config.rules if each.id == "automated-overconfidence")
    adjusted = LABELS * config.decision_rules("weekly")
    weeks = [_counts(each, rows) for each in kept]
    for place in range(len(weeks)):
        pooled = tuple(reversed(weeks[max(0, place - 3) : place + 1]))
        material = RuleInput(Subject("mail", "label"), _WINDOWS[place], pooled)
        found = compare(rule, material, config.evaluation)
        if found.beyond and (found.p_value or 0.0) * adjusted < config.evaluation.false_discovery_rate:
            return place + 1
    return None


def by_textbook(kept: Floats, rows: int) -> First:
    """An overconfidence above .05 in one week, however few rows it has."""
    return _first(kept < CLAIMED - TEXTBOOK)


def by_bands(kept: Floats, rows: int) -> First:
    """A hit rate below the mean of the eight weeks before by three of their standard deviations, as on dashboards."""
    rng = np.random.default_rng([SEED, rows, round(1e6 * float(kept.mean()))])
    before = rng.binomial(rows, CLAIMED, size=BAND_WEEKS) / rows
    return _first(kept < before.mean() - BANDS * before.std(ddof=1))


METHODS: dict[str, Method] = {
    "evidence": by_evidence, "CUSUM": by_cusum, "weekly rule": by_week, "SD bands": by_bands, "textbook": by_textbook,
}  # fmt: skip
_LAST = week("2027-W52", shipped().zone)
_WINDOWS = [*reversed(before(_LAST, 103, shipped().zone)), _LAST]


def _first(alarms: npt.NDArray[np.bool_]) -> First:
    return int(alarms.argmax()) + 1 if alarms.any() else None


def _counts(kept: float, rows: int) -> Counts:
    hits = round(kept * rows)
    return counts_from_rows([CLAIMED] * rows, [1] * hits + [0] * (rows - hits), automate_at=0.8)


@dataclass(frozen=True, slots=True)
class Cell:
    """The week in which one method found the fault, for each run; None: not within the simulated weeks."""

    method: str
    rows: int
    fall: float
    found: tuple[First, ...]

    def quantile(self, share: float) -> str:
        """The week by which this share of the runs is found; "-" if there is none."""
        weeks = sorted(math.inf if each is None else each for each in self.found)
        week = weeks[min(len(weeks) - 1, math.ceil(share * len(weeks)) - 1)]
        return "-" if math.isinf(week) else f"{week:.0f}"


def played(method: str, rows: int, fall: float, runs: int, weeks: int) -> Cell:
    """Simulate ``runs`` runs of ``weeks`` weeks."""
    rng = np.random.default_rng([SEED, rows, round(10_000 * fall)])
    kept = rng.binomial(rows, CLAIMED - fall, size=(runs, weeks)) / rows
    return Cell(method, rows, fall, tuple(METHODS[method](each, rows) for each in kept))


def found_table(runs: int, weeks: int) -> Table:
    """The table of how soon a fall is found."""
    lines = []
    for rows, fall in CELLS:
        cells = [played(method, rows, fall, runs, weeks) for method in METHODS if method != "textbook"]
        quantiles = [text for cell in cells for text in (cell.quantile(0.5), cell.quantile(0.8), cell.quantile(0.9))]
        lines.append((str(rows), f"{fall:g}", *quantiles))
    heads = [f"{name}: {share}" for name in METHODS if name != "textbook" for share in ("50%", "80%", "90%")]
    title = "A lasting fall of precision: the week by which so many runs are found"
    note = f"{runs} runs a line, {weeks} weeks each; -: not within them."
    return Table(title, ("automated rows a week", "fall", *heads), tuple(lines), (note,), texts=0)


def quiet_table(runs: int, weeks: int) -> Table:
    """The table of false alarms."""
    lines = []
    for rows, overconfidence in QUIET:
        cells = {name: played(name, rows, overconfidence, runs, weeks) for name in METHODS if name != "weekly rule"}
        rates = [
            f"{LABELS * _rate(cell, weeks):.3f} (at most {LABELS * _rate(cell, weeks, 0.95):.3f})"
            for cell in cells.values()
        ]
        lines.append((str(rows), f"{overconfidence:g}", *rates))
    heads = ("automated rows a week", "overconfidence", *(name for name in METHODS if name != "weekly rule"))
    note = (
        f"{runs} labels a line, {weeks} weeks each: alarms over the time until the first one of each label, for 20 "
        "labels; in brackets the upper 95% limit. At most 0.1 is proved for evidence and CUSUM."
    )
    return Table("False alarms a year for twenty labels", heads, tuple(lines), (note,), texts=0)


def ever_table(worlds: int, weeks: int) -> Table:
    """The table of how often the plain e-process ever exceeds 1/a, for an overconfidence of exactly the margin."""
    lines = []
    for rows, copies in ((20, 1), (100, 1), (300, 1), (100, 5)):
        rng = np.random.default_rng([SEED, rows, copies, 2])
        kept = rng.binomial(rows // copies, CLAIMED - MARGIN, size=(worlds, weeks)) / (rows // copies)
        highest = np.array(
            [e_process([_promise(rows, copies, each) for each in world], MARGIN).max() for world in kept]
        )
        shares = [f"{float((highest >= math.log(1 / alpha)).mean()):.4f}" for alpha in ALPHAS]
        lines.append((str(rows), str(copies), *shares))
    heads = ("automated rows a week", "copies of each row", *(f"ever above {1 / alpha:g}" for alpha in ALPHAS))
    note = (
        f"{worlds:,} labels a line, {weeks} weeks each; copies are known by their cluster. At most a is proved for 1/a."
    )
    return Table("The plain e-process at an overconfidence of exactly .02", heads, tuple(lines), (note,), texts=0)


def _promise(rows: int, copies: int, kept: float) -> Promise:
    return Promise(rows, rows / copies, CLAIMED, float(kept))


def _rate(cell: Cell, weeks: int, limit: float | None = None) -> float:
    """First alarms per label and year of time until them, or the upper limit of that rate."""
    alarms = sum(each is not None for each in cell.found)
    spent = sum(weeks if each is None else each for each in cell.found)
    share = alarms / spent if limit is None else binomtest(alarms, spent).proportion_ci(2 * limit - 1).high
    return float(52 * share)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accumulated", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--runs", type=int, default=200, help="runs a line (default 200)")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into benchmarks/results/statistics.md"
    )
    given = parser.parse_args(arguments)
    if given.runs < 1 or (given.quick and given.write_docs):
        parser.error("--runs must be at least 1, and --write-docs takes the whole benchmark, not --quick")
    runs, weeks, years = (5, 20, 1) if given.quick else (given.runs, 52, 5)
    began = time.process_time()
    tables = [found_table(runs, weeks), quiet_table(runs, 52 * years), ever_table(10 * runs, 520)]
    for table in tables:
        table.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.accumulated --runs {runs} --write-docs` at commit {commit_of(ROOT)}, "
            f"seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "accumulated", "\n\n".join([origin, *(table.markdown() for table in tables)]))


if __name__ == "__main__":
    main()
