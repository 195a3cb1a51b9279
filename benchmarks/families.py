"""Other ways to adjust p-values for many labels and rules: which finds more, with as few false alarms?

The verdicts of twenty labels under the shipped weekly rules are made once for each week. Every method then decides on
the same p-values: of the first week after a change, and of weeks in which nothing changes.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.checkout import DOCS, ROOT, commit_of
from benchmarks.populations import LABELS, SIX_PERCENT, Bools, Curve, Floats, Population, less_precise, raised
from benchmarks.tables import Table, console, write_between
from benchmarks.weeks import ByLabel, Setting, drawn, judged, rules_of, setting, shipped
from monitor.core.records import Verdict
from monitor.inference.multiplicity import adjust

SEED = 20260101
RATE, LOUD_RATE = 0.01, 0.10
"""The shipped rate, and a rate at which a few hundred weeks are enough to show a method's level."""
CALIBRATOR = 0.1
"""k of the e-value k p^(k - 1) of a p-value p. A small k suits very small p."""
STOREY = 0.5
QUIET_WEEKS = 26


@dataclass(frozen=True, slots=True, eq=False)
class WeekTests:
    """The p-values of one week by rule and label, shape (R, L); NaN if there was no test.

    ``rules`` is the number of rules that share the rate. ``beyond`` says which values are beyond the threshold: only
    those can be a breach.
    """

    p: Floats
    beyond: Bools
    rules: int


Method = Callable[[WeekTests, float], Bools]
"""(tests, rate) -> which tests are significant, shape (R, L)."""


def present(tests: WeekTests, rate: float) -> Bools:
    """Benjamini and Hochberg over the labels of each rule, times the number of rules: the method of runs."""
    found = np.zeros(tests.p.shape, dtype=bool)
    for row, p in enumerate(tests.p):
        tested = ~np.isnan(p)
        found[row, tested] = np.array(adjust(p[tested].tolist(), tests.rules)) < rate
    return found


def bonferroni(tests: WeekTests, rate: float) -> Bools:
    """Every p-value times the numbers of labels and rules."""
    return np.asarray(_scaled(tests) < rate)


def weighted_joint(tests: WeekTests, rate: float) -> Bools:
    """One family of all rules and labels, with more weight for a rule on few labels.

    With these weights it finds everything that the present method finds (Genovese, Roeder & Wasserman 2006).
    """
    scaled = _scaled(tests)
    ordered = np.sort(scaled[~np.isnan(scaled)])
    steps = np.flatnonzero(ordered < np.arange(1, len(ordered) + 1) * rate)
    return np.asarray(scaled <= (ordered[steps[-1]] if len(steps) else -1.0))


def labels_first(tests: WeekTests, rate: float) -> Bools:
    """Simes over the rules of each label, Benjamini and Hochberg over labels, then the rules of the found labels.

    Rules are tested at the rate times the share of found labels (Benjamini & Bogomolov 2014).
    """
    scaled: Floats = _scaled(tests) / tests.p.shape[1]  # times rules, for rules on all labels
    rules: Floats = np.sort(np.where(np.isnan(scaled), np.inf, scaled), axis=0)
    of_label = (rules / np.arange(1, len(rules) + 1)[:, None]).min(axis=0)
    labels = len(of_label)
    ordered = np.sort(of_label)
    steps = np.flatnonzero(ordered < np.arange(1, labels + 1) * rate / labels)
    if not len(steps):
        return np.zeros(tests.p.shape, dtype=bool)
    chosen, level = of_label <= ordered[steps[-1]], rate * (steps[-1] + 1) / labels
    found = np.zeros(tests.p.shape, dtype=bool)
    for label in np.flatnonzero(chosen):
        count = int((rules[:, label] < np.arange(1, len(rules) + 1) * level).nonzero()[0].max(initial=-1)) + 1
        found[:, label] = scaled[:, label] <= (rules[count - 1, label] if count else -1.0)
    return found


def adaptive(tests: WeekTests, rate: float) -> Bools:
    """The present method with Storey's estimate of the share of unchanged labels (Storey 2002)."""
    found = np.zeros(tests.p.shape, dtype=bool)
    for row, p in enumerate(tests.p):
        tested = ~np.isnan(p)
        quiet = min(1.0, (1 + (p[tested] > STOREY).sum()) / (max(tested.sum(), 1) * (1 - STOREY)))
        found[row, tested] = np.array(adjust(p[tested].tolist(), tests.rules)) * quiet < rate
    return found


def e_values(tests: WeekTests, rate: float) -> Bools:
    """Each label's mean e-value over rules, then e-BH over labels (Vovk & Wang 2021; Wang & Ramdas 2022).

    For a found label, the rules whose own e-value is large enough are significant, and always the largest one.
    """
    e = np.where(
        np.isnan(tests.p), 0.0, CALIBRATOR * np.maximum(np.nan_to_num(tests.p, nan=1.0), 1e-300) ** (CALIBRATOR - 1)
    )
    mean = e.sum(axis=0) / tests.rules
    labels = len(mean)
    ordered = np.sort(mean)[::-1]
    steps = np.flatnonzero(ordered >= labels / (rate * np.arange(1, labels + 1)))
    if not len(steps):
        return np.zeros(tests.p.shape, dtype=bool)
    needed = labels / (rate * (steps[-1] + 1))
    return np.asarray((mean >= needed) & ((e >= needed) | (e == e.max(axis=0))))


def _scaled(tests: WeekTests) -> Floats:
    """Every p-value times the labels of its rule and the number of rules; NaN stays."""
    return np.asarray(tests.p * (~np.isnan(tests.p)).sum(axis=1, keepdims=True) * tests.rules)


METHODS: Mapping[str, Method] = {
    "BH by rule (present)": present, "Bonferroni": bonferroni, "weighted BH over all": weighted_joint,
    "labels first (Simes)": labels_first, "Storey by rule": adaptive, "mean e-value, e-BH": e_values,
}  # fmt: skip

Change = Callable[[Population], Population]


def blurred(population: Population) -> Population:
    """The label with the same scores that predict less: those far from the middle come true less often than before."""
    return replace(population, curve=Curve(1.3, population.curve.offset))


CELLS: dict[str, tuple[int, tuple[int, ...], Change]] = {
    "true ECE +.05 on 1 label": (2_000, (7,), lambda label: raised(label, 0.05)),
    "true ECE +.05 on 3 labels": (2_000, (3, 9, 15), lambda label: raised(label, 0.05)),
    "true ECE +.03 on 1 label": (5_000, (7,), lambda label: raised(label, 0.03)),
    "true ECE +.03 on 8 labels": (2_000, tuple(range(2, 18, 2)), lambda label: raised(label, 0.03)),
    "precision above .8 down to .75 on 1 label": (2_000, (7,), lambda label: less_precise(label, 0.75, 0.8)),
    "precision above .8 down to .75 on 3 labels": (2_000, (3, 9, 15), lambda label: less_precise(label, 0.75, 0.8)),
    "precision above .8 down to .75 on 8 labels": (
        2_000, tuple(range(2, 18, 2)), lambda label: less_precise(label, 0.75, 0.8),
    ),
    "precision above .8 down to .59, 6% positives": (
        2_000, (LABELS.index(SIX_PERCENT),), lambda label: less_precise(label, 0.59, 0.8),
    ),
    "scores less clear on 3 labels": (2_000, (3, 9, 15), blurred),
}  # fmt: skip
"""World -> (rows a label-week, indices of the labels that change, the change)."""


def tests_of(verdicts: Sequence[Verdict], names: Sequence[str], rules: int) -> WeekTests:
    """The verdicts of one window on a grid of rules and labels."""
    rows = {rule: row for row, rule in enumerate(dict.fromkeys(verdict.rule for verdict in verdicts))}
    p = np.full((len(rows), len(names)), np.nan)
    beyond = np.zeros(p.shape, dtype=bool)
    for verdict in verdicts:
        if verdict.subject.label in names and verdict.p_value is not None:
            at = rows[verdict.rule], names.index(verdict.subject.label)
            p[at], beyond[at] = verdict.p_value, bool(verdict.detail["beyond"])
    return WeekTests(p, beyond, rules)


def _week(place: Setting, rows: ByLabel, index: int) -> WeekTests:
    rules = [rule for rule in rules_of(shipped(), "weekly") if rule.metric is not None]
    names = [label.name for label in LABELS]
    return tests_of(judged(place, rows, index, rules), names, place.config.decision_rules("weekly"))


def power(world: str, runs: int) -> tuple[Counter[str], Counter[str], int]:
    """(changed labels that each method finds in the first week by any rule, other labels found, changed labels)."""
    n, places, change = CELLS[world]
    quiet = shipped().evaluation.pool_weeks - 1
    found: Counter[str] = Counter()
    blamed: Counter[str] = Counter()
    for run in range(runs):
        rng = np.random.default_rng([SEED, list(CELLS).index(world), run])
        place = setting(LABELS, n, quiet + 1, rng)
        now = [change(label) if at in places else label for at, label in enumerate(LABELS)]
        newest = drawn(now, 1, n, rng)
        rows = {name: part.then(newest[name]) for name, part in drawn(LABELS, quiet, n, rng).items()}
        tests = _week(place, rows, quiet)
        for name, method in METHODS.items():
            labels = np.any(method(tests, RATE) & tests.beyond, axis=0)
            found[name] += int(labels[list(places)].sum())
            blamed[name] += int(labels.sum() - labels[list(places)].sum())
    return found, blamed, runs * len(places)


def quiet_weeks(n: int, years: int, weeks: int) -> tuple[Counter[tuple[str, float]], int]:
    """(unchanged weeks with anything significant, by method and rate, number of weeks)."""
    found: Counter[tuple[str, float]] = Counter()
    for year in range(years):
        rng = np.random.default_rng([SEED, n, year, 1])
        place, rows = setting(LABELS, n, weeks, rng), drawn(LABELS, weeks, n, rng)
        for index in range(weeks):
            tests = _week(place, rows, index)
            for name, method in METHODS.items():
                for rate in (RATE, LOUD_RATE):
                    found[name, rate] += bool(method(tests, rate).any())
    return found, years * weeks


def power_table(runs: int, worlds: Sequence[str]) -> Table:
    """The table of what every method finds in the first week."""
    lines, wrong = [], Counter[str]()
    for world in worlds:
        found, blamed, count = power(world, runs)
        wrong += blamed
        n = CELLS[world][0]
        lines.append((world, f"{n:,}", f"{count:,}", *(f"{found[name] / count:.3f}" for name in METHODS)))
    false_alarms = ", ".join(f"{name} {wrong[name]}" for name in METHODS)
    notes = (
        f"{runs} first weeks a line; found: significant and beyond the threshold, by any of the shipped weekly rules.",
        f"Labels found that had not changed, of all lines: {false_alarms}.",
    )
    heads = ("change", "rows a label-week", "labels", *METHODS)
    return Table("Found in the first week, by the way p-values are adjusted", heads, tuple(lines), notes, texts=1)


def quiet_table(years: int, weeks: int, rows: Sequence[int]) -> Table:
    """The table of every method's false alarms."""
    lines = []
    for n in rows:
        found, count = quiet_weeks(n, years, weeks)
        for rate in (RATE, LOUD_RATE):
            shares = (f"{found[name, rate] / count:.4f}" for name in METHODS)
            lines.append((f"{n:,}", f"{rate:g}", f"{count:,}", *shares))
    heads = ("rows a label-week", "rate", "weeks", *METHODS)
    note = "Significant by any rule, whether or not beyond its threshold. At most the rate is wanted."
    return Table("Share of weeks in which nothing changes and anything is significant", heads, tuple(lines), (note,), 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--runs", type=int, default=150, help="first weeks a line (default 150)")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/statistics.md")
    given = parser.parse_args(arguments)
    if given.runs < 1 or (given.quick and given.write_docs):
        parser.error("--runs must be at least 1, and --write-docs takes the whole benchmark, not --quick")
    began = time.process_time()
    if given.quick:
        tables = [power_table(1, list(CELLS)[:2]), quiet_table(1, 2, (500,))]
    else:
        tables = [
            power_table(given.runs, list(CELLS)),
            quiet_table(max(1, given.runs // 10), QUIET_WEEKS, (500, 2_000)),
        ]
    for table in tables:
        table.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.families --runs {given.runs} --write-docs` at commit {commit_of(ROOT)}, "
            f"seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "families", "\n\n".join([origin, *(table.markdown() for table in tables)]))


if __name__ == "__main__":
    main()
