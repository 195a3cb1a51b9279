"""How soon what is wrong is turned off, and how soon what has healed is fine again.

One label of twenty goes wrong in its automated rows after eight good weeks: suddenly, slowly, or as an underconfident
model that stays underconfident. The shipped weekly rules that act on such rows judge each week by the functions of a
run, at the rate of twenty labels: automated-overconfidence, lasting-overconfidence and automated-accuracy-decrease.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.tables import DOCS, Table, publish
from benchmarks.weeks import shipped
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.promises import promise_of
from monitor.core.records import Comparison, Subject
from monitor.core.windows import before, week
from monitor.evaluation.accumulated import evidence_of, family_detail, margin_of, paths_of, run_length
from monitor.evaluation.comparisons import compare_family
from monitor.evaluation.data import RuleInput

SEED, LABELS, GOOD_WEEKS = 20261128, 20, 8
RULES = ("automated-overconfidence", "lasting-overconfidence", "automated-accuracy-decrease")
CONFIG = shipped()
LEVEL = CONFIG.evaluation.false_discovery_rate / (LABELS * CONFIG.decision_rules("weekly"))
LAST = week("2027-W52", CONFIG.zone)
WINDOWS = [*reversed(before(LAST, 103, CONFIG.zone)), LAST]
SUBJECT = Subject("mail", "label")
Rates = Callable[[int], float]
"""The hit rate of the automated rows in a week, counted from 1 where the fault begins; 0 and less: the weeks before."""


@dataclass(frozen=True, slots=True)
class World:
    """Automated rows a week, the score that they all have, and their hit rate week by week."""

    name: str
    rows: int
    claimed: float
    rate: Rates
    weeks: int
    by: int
    wanted: float


def sudden(fall: float, claimed: float = 0.9) -> Rates:
    """A fall from what is claimed, in the first week."""
    return lambda at: claimed - (fall if at > 0 else 0.0)


WORLDS = (
    World("overconfident by .15", 43, 0.9, sudden(0.15), 20, 7, 0.8),
    World("overconfident by .12", 196, 0.9, sudden(0.12), 12, 3, 0.9),
    World("one point more each week", 300, 0.9, lambda at: 0.9 - 0.01 * max(at, 0), 20, 9, 0.8),
    World("right in 99.5, then 89.2%, claims 85%", 200, 0.85, lambda at: 0.892 if at > 0 else 0.995, 8, 2, 0.9),
)
HEALED = tuple((rows, fault) for rows in (43, 85, 340) for fault in (0.08, 0.15))
"""(automated rows a week, overconfidence for four weeks): 500 and 2,000 rows a week have 85 and 340."""


def counts(rng: np.random.Generator, rows: int, claimed: float, rate: float) -> Counts:
    """One week."""
    return counts_from_rows([claimed] * rows, (rng.random(rows) < rate).astype(int), automate_at=0.8)


def pinned(rng: np.random.Generator, world: World) -> Baseline:
    """Eight weeks as they were before."""
    frozen = counts(rng, GOOD_WEEKS * world.rows, world.claimed, world.rate(0))
    start, end = WINDOWS[0].start, WINDOWS[GOOD_WEEKS - 1].end
    return Baseline(
        "mail", "label", 1, start, end, "a", "b", frozen, edges_of(frozen, CONFIG.evaluation), end, "study", "study"
    )


def judged(weeks: Sequence[Counts], baseline: Baseline | None) -> dict[str, Comparison]:
    """The evidence of each rule on the newest of some weeks, oldest first; ``detail`` says "sure" of each."""
    windows = [WINDOWS[GOOD_WEEKS + place] for place in range(len(weeks))]
    newest, deepest = tuple(reversed(weeks)), CONFIG.evaluation.pool_weeks
    earlier = tuple(reversed(windows[:-1]))[: deepest - 1]
    rule_input = RuleInput(SUBJECT, windows[-1], newest[:deepest], baseline, before=earlier)
    promises = (promise_of(each.where("automated")) for each in weeks)
    run = [(window, each) for window, each in zip(windows, promises, strict=True) if each is not None]
    found = {}
    for rule in (rule for rule in CONFIG.rules if rule.id in RULES):
        if rule.accumulates:
            needed = float(LABELS * run_length(rule))
            path = paths_of([run], [margin_of(rule)], [needed])[0]
            detail = family_detail(rule, CONFIG.evaluation, path.alone, LABELS)
            found[rule.id] = evidence_of(rule, rule_input, path, {**detail, "sure": path.now >= path.alone})
        elif not rule.compares or baseline is not None:
            comparison = compare_family(rule, [rule_input], CONFIG.evaluation, level=LEVEL)[0]
            is_sure = comparison.p_value is not None and comparison.p_value < LEVEL
            found[rule.id] = replace(comparison, detail={**comparison.detail, "sure": is_sure})
    return found


def breaches(found: dict[str, Comparison]) -> list[str]:
    """The rules in breach."""
    return [name for name, each in found.items() if each.beyond and each.detail["sure"]]


def turned_off(world: World, run: int) -> tuple[int | None, str]:
    """The week of the fault, from 1, in which a rule is first in breach, and the first such rule."""
    rng = np.random.default_rng([SEED, run, round(world.rows + 1000 * world.claimed)])
    baseline = pinned(rng, world)
    weeks = [counts(rng, world.rows, world.claimed, world.rate(0)) for _ in range(GOOD_WEEKS)]
    for at in range(1, world.weeks + 1):
        weeks.append(counts(rng, world.rows, world.claimed, world.rate(at)))
        found = breaches(judged(weeks, baseline))
        if found:
            return at, found[0]
    return None, ""


def off_table(runs: int) -> Table:
    """By when faults are turned off."""
    lines = []
    for world in WORLDS:
        found = [turned_off(world, run) for run in range(runs)]
        weeks = sorted(99 if at is None else at for at, _ in found)
        share = float(np.mean([at <= world.by for at in weeks]))
        first = Counter(name for _, name in found if name).most_common()
        by = ", ".join(f"{name} {count}" for name, count in first)
        median, late = weeks[len(weeks) // 2], weeks[min(len(weeks) - 1, int(0.9 * len(weeks)))]
        lines.append(
            (
                world.name,
                f"{world.rows}",
                f"{median}",
                f"{late}",
                f"{share:.2f} by week {world.by}",
                f"{world.wanted}",
                by,
            )
        )
    heads = ("fault", "automated rows a week", "median week", "90% by", "turned off", "wanted", "first in breach")
    return Table("Turned off", heads, tuple(lines), (f"{runs} runs a line, one label of {LABELS}.",), texts=1)


def healed(rows: int, fault: float, run: int) -> tuple[int, int, bool]:
    """The last week after healing with a rule in breach (0: none), and how often a pool went behind a fine week.

    The last: whether the fault was found at all.
    """
    rng = np.random.default_rng([SEED, run, rows, round(1000 * fault)])
    world = World("", rows, 0.9, sudden(fault), 4, 4, 0.9)
    weeks = [counts(rng, rows, 0.9, 0.9) for _ in range(GOOD_WEEKS)]
    weeks += [counts(rng, rows, 0.9, world.rate(1)) for _ in range(4)]
    was_found, last, behind = bool(breaches(judged(weeks, None))), 0, 0
    for at in range(1, 9):
        weeks.append(counts(rng, rows, 0.9, 0.9))
        found = judged(weeks, None)
        if breaches(found):
            last = at
        level = found["automated-overconfidence"]
        alone = [0.9 - float(each.wy.sum() / each.w.sum()) for each in reversed(weeks)][: level.windows]
        behind += "automated-overconfidence" in breaches(found) and any(each <= 0.05 for each in alone[:-1])
    return last, behind, was_found


def healed_table(runs: int) -> Table:
    """By when what has healed is fine again."""
    lines = []
    for rows, fault in HEALED:
        found = [each for each in (healed(rows, fault, run) for run in range(runs)) if each[2]]
        if not found:
            lines.append((f"{fault:g}", f"{rows}", "0", "-", "-", "0"))
            continue
        ended = [float(np.mean([last < week for last, _, _ in found])) for week in (1, 2)]
        lines.append(
            (
                f"{fault:g}",
                f"{rows}",
                f"{len(found)}",
                f"{ended[0]:.2f}",
                f"{ended[1]:.2f}",
                f"{sum(b for _, b, _ in found)}",
            )
        )
    heads = (
        "fault",
        "automated rows a week",
        "in breach when it heals",
        "fine from the first week on",
        "from the second",
        "pools behind a fine week",
    )
    note = f"{runs} runs a line: four weeks with the fault, then eight without. Fine: no rule in breach from then on."
    return Table("Healed", heads, tuple(lines), (note,), texts=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.acting", description=str(__doc__).split("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="runs a line (default 100)")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into benchmarks/results/statistics.md"
    )
    given = parser.parse_args(arguments)
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    began = time.process_time()
    tables = [off_table(given.runs), healed_table(given.runs)]
    spent = f", seed {SEED}, {time.process_time() - began:,.0f} s of a processor"
    publish(tables, "acting", f"acting --runs {given.runs}", spent, page=DOCS if given.write_docs else None)


if __name__ == "__main__":
    main()
