"""Whether the scores that `limit_scores` leaves on keep their promise, and how much of what is safe goes on.

``python -m benchmarks.limits [--runs 200]`` prints one line a world. After eight good weeks a fault begins, and a label
of about 500 automated rows a week is limited in the fourth week of it (2,000 automated rows since it began). The
oracle knows the population of the newest week. Seeded; limits are those of a share, 95%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.populations import Curve, Population, Scores, endless
from benchmarks.tables import Table, console
from monitor.config.model import AutomationConfig, Config, Rule, SourceConfig
from monitor.core.counts import CELLS
from monitor.core.records import Reason, Subject, Verdict, Window
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.safe_scores import with_safe_scores
from monitor.inference.sampling import Proportion

SEED, ROWS, GOOD, BAD = 20261128, 800, 8, 4
_HIGH = Scores(((0.65, (12.0, 1.2)), (0.35, (0.7, 8.0))))
_LEVELS = Scores(tuple((1.0, (score,)) for score in (0.3, 0.8, 0.85, 0.9, 0.95, 0.99)))
RULE = Rule(
    id="automated-overconfidence", metric="overconfidence", where="automated", condition="above", threshold=0.05,
    severity="critical", actions=("slack", "limit_scores"),
)  # fmt: skip
CONFIG = Config(
    version=1, rules=(RULE,), automation=AutomationConfig(when_not_evaluated="keep"),
    sources={"tickets": SourceConfig(relation="nowhere", score_is="probability_of_label")},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """A fault of scores (low, high, by); ``grows`` adds a part of it each week, until it is whole in the last."""

    name: str
    fault: tuple[float, float, float]
    scores: Scores = _HIGH
    grows: bool = False

    def population(self, week: int) -> Population:
        """The label in the week so many weeks after the fault began (negative: before)."""
        low, high, by = self.fault
        part = 0.0 if week < 0 else (week + 1) / BAD if self.grows else 1.0
        return Population(self.name, self.scores, Curve(steps=((low, high, by * part),)))


WORLDS = (
    World("everywhere, .15 too high", (0.79, 1.0, -0.15)),
    World("low scores only: .2 too high below .9", (0.79, 0.9, -0.2)),
    World("low scores only: .1 too high below .95", (0.79, 0.95, -0.1)),
    World("high scores only: .15 too high from .95", (0.95, 1.0, -0.15)),
    World("one channel of 40%, .15 too high", (0.79, 1.0, -0.06)),
    World("levels of a language model, .25 too high up to .85", (0.79, 0.85, -0.25), _LEVELS),
    World("levels of a language model, .12 too high everywhere", (0.79, 1.0, -0.12), _LEVELS),
    World("grows to .2 below .9", (0.79, 0.9, -0.2), grows=True),
    World("grows to .2 everywhere", (0.79, 1.0, -0.2), grows=True),
)


def kept_promise(population: Population, score: float) -> tuple[float, float]:
    """(accuracy minus promise, share of the automated rows) of the rows from a score on; the promise is .05 less."""
    points = endless(population)
    acting = points.cell >= round(population.automate_at * CELLS)
    on = points.cell >= round(score * CELLS)
    gap = float((points.worth - points.cell / CELLS)[on].mean()) + RULE.threshold if on.any() else -1.0
    return gap, float(on.sum() / acting.sum())


def oracle(population: Population) -> float | None:
    """The lowest score from .8 to .99 from which the promise is kept."""
    safe = [score for score in np.arange(80, 100) / 100 if kept_promise(population, score)[0] >= 0]
    return float(safe[0]) if safe else None


def windows_of(world: World, rng: np.random.Generator) -> Iterator[WindowCounts]:
    """The weeks of a label, oldest first."""
    for week in range(-GOOD, BAD):
        start = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(weeks=week + GOOD)
        window = Window(start, start + timedelta(weeks=1), f"2026-W{week + GOOD + 2:02d}", "weekly")
        yield WindowCounts(window, {"a": world.population(week).draw(rng, ROWS)})


def limited(world: World, seed: int) -> float | None:
    """The score from which the label goes on; None where it is off."""
    parts = list(windows_of(world, np.random.default_rng([SEED, seed])))
    data = SourceData("tickets", parts[-1], tuple(reversed(parts[:-1])))
    breach = Verdict(
        id="a", rule=RULE.id, subject=Subject("tickets", "a"), window=parts[-1].window, metric="overconfidence",
        where="automated", outcome="breach", reason=Reason.ABOVE_THRESHOLD, severity="critical", threshold=0.05,
        actions=RULE.actions,
    )  # fmt: skip
    (found,) = with_safe_scores(RULE, [breach], data, CONFIG)
    kept = found.detail["limit"]
    return None if kept is None else float(kept["score"])


def line(world: World, runs: int) -> tuple[str, ...]:
    """One line of the table."""
    newest = world.population(BAD - 1)
    best = oracle(newest)
    found = [limited(world, seed) for seed in range(runs)]
    on = [score for score in found if score is not None]
    safe = sum(score is None or kept_promise(newest, score)[0] >= 0 for score in found)
    low, high = Proportion(safe / runs, runs).interval(0.95)
    about = (world.name, "none" if best is None else f"{best:g}", f"{1 - len(on) / runs:.2f}")
    if best is None:
        return (*about, f"{safe / runs:.3f} ({low:.3f} to {high:.3f})", "-", "-")
    most = kept_promise(newest, best)[1]
    shares = [kept_promise(newest, score)[1] if score is not None else 0.0 for score in found]
    return (*about, f"{safe / runs:.3f} ({low:.3f} to {high:.3f})", f"{most:.2f}", f"{np.mean(shares) / most:.2f}")


def table(runs: int, worlds: Sequence[World] = WORLDS) -> Table:
    """Every world."""
    return Table(
        f"Scores that go on acting, {runs} runs a world",
        ("fault of automated scores", "safe from", "off", "promise kept (limits), or off", "safe share", "of it kept"),
        tuple(line(world, runs) for world in worlds),
    )


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=200)
    table(arguments.parse_args().runs).show(console())


if __name__ == "__main__":
    main()
