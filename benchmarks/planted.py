"""Planted troubles: does the diagnosis name the right part of the rows, the right cause and the right week?

A label has 2,000 rows a week in four channels, three languages and one or two model versions, of which some 350 act
(score of .8 or more). From a random week on something goes wrong, or nothing does. The label is judged and diagnosed
every week by the rules that ship, until three weeks after the trouble is found. In half of the worlds a harmless
version comes at another time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from benchmarks.populations import mixture
from benchmarks.tables import DOCS, Table, publish
from monitor.config.model import Config, Rule, SourceConfig
from monitor.core import windows
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.diagnoses import Diagnosis, Segment
from monitor.core.promises import PastWindow, segment_promises
from monitor.core.records import Verdict, Window
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.diagnosis import diagnose
from monitor.evaluation.evaluate import verdicts_of
from monitor.evaluation.label_facts import LabelFacts
from monitor.inference.levels import all_promises_of

SEED, SEEDS, ROWS = 20261128, 200, 2_000
SOURCE, LABEL, AUTOMATE_AT = "mail", "billing", 0.8
WEEKS, FIRST, LAST, AFTER = 26, 8, 14, 3
"""Weeks of a world, the weeks in which a trouble may begin, and how many are looked at after it is found."""
SCORES = mixture(0.5, (5.0, 2.0), (2.0, 5.0))
CHANNELS, LANGUAGES = ("chat", "email", "phone", "web"), ("de", "en", "fr")
SHARES = {"channel": (0.2, 0.35, 0.1, 0.35), "language": (0.3, 0.5, 0.2)}
FLAPPING, SEASON = "flapping without a cause", "season"
KINDS = (
    "one channel", "a version for some rows", "a version for all rows", FLAPPING, SEASON,
    "two causes", "two segments that compensate", "nothing",
)  # fmt: skip
OLD, NEW = "1.0", "2.0"
_RULE = {"metric": "overconfidence", "where": "automated", "min_samples": 30}
_ACTS = {"severity": "critical", "actions": ("slack", "disable_automation")}
RULES = (
    Rule(id="automated-overconfidence", condition="above", threshold=0.05, **_RULE, **_ACTS),
    Rule(id="lasting-overconfidence", condition="accumulated", threshold=0.02, **_RULE, **_ACTS),
    Rule(id="lasting-segments", condition="accumulated", threshold=0.02, scope="segments", segments=("all",), **_RULE),
)
ACTING = frozenset(rule.id for rule in RULES if rule.acts)

Floats = npt.NDArray[np.float64]
Texts = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class World:
    """The truth of one world: what is right to name, and when it began (None: nothing is wrong).

    ``worse`` maps (column, value) to by how much hit rates fall there; the key ("", "") is every row. ``arrives`` is
    the week of the new version and ``takes`` the share of rows that it has from then on. ``weekly`` is by how much
    every row is worse in each week.
    """

    kind: str
    began: int | None
    worse: dict[Segment, float]
    weekly: Floats
    arrives: int
    takes: float
    segments: tuple[Segment, ...] = ()
    cause: str = ""

    def names_segment(self, told: Diagnosis) -> bool:
        """Whether the right segment is named, or none where none is right."""
        return told.segment in self.segments if self.segments else told.segment is None

    def names_cause(self, told: Diagnosis) -> bool:
        """Whether the right cause is named, or none where none is right."""
        return (told.cause.what if told.cause else "") == self.cause


def world(kind: str, rng: np.random.Generator) -> World:
    """A random world of one kind."""
    began = int(rng.integers(FIRST, LAST))
    fault = float(rng.uniform(0.15, 0.35))
    channel = ("channel", str(rng.choice(("chat", "email", "web"))))
    version = ("model_version", NEW)
    nothing = np.zeros(WEEKS)
    away = began + int(rng.choice((-5, -4, -3, 3, 4, 5)))
    arrives, takes = (away, float(rng.choice((0.3, 1.0)))) if rng.random() < 0.5 else (WEEKS, 0.0)
    some = float(rng.uniform(0.3, 0.6))
    bad = np.where(np.arange(WEEKS) >= began, fault * rng.integers(0, 2, WEEKS), 0.0)
    bad[began] = fault
    wave = 0.1 * np.sin(2 * np.pi * (np.arange(WEEKS) - began) / WEEKS) * (np.arange(WEEKS) >= began)
    share = dict(zip(CHANNELS, SHARES["channel"], strict=True))[channel[1]]
    better = {("channel", name): -fault * share / (1 - share) for name in CHANNELS}
    worlds = (
        World(KINDS[0], began, {channel: fault}, nothing, arrives, takes, (channel,)),
        World(KINDS[1], began, {version: fault}, nothing, began, some, (version,), NEW),
        World(KINDS[2], began, {version: fault - 0.05}, nothing, began, 1.0, (), NEW),
        World(FLAPPING, began, {}, bad, began + int(rng.integers(2, 5)), 1.0),
        World(SEASON, began, {}, wave, arrives, takes),
        World(KINDS[5], began, {version: fault, channel: fault}, nothing, began, some, (version, channel), NEW),
        World(KINDS[6], began, better | {channel: fault}, nothing, arrives, takes, (channel,)),
        World(KINDS[7], None, {}, nothing, arrives, takes),
    )
    return next(each for each in worlds if each.kind == kind)


@dataclass(frozen=True, slots=True, eq=False)
class Week:
    """The counts of one week: of the label, and of each of its segments."""

    whole: Counts
    parts: dict[Segment, Counts]


def drawn(world: World, week: int, rows: int, rng: np.random.Generator) -> Week:
    """The rows of one week."""
    score = SCORES.draw(rng, rows)
    new = week >= world.arrives
    version = np.where(rng.random(rows) < world.takes, NEW, OLD) if new else np.full(rows, OLD)
    values: dict[str, Texts] = {
        "channel": rng.choice(CHANNELS, rows, p=_moved(SHARES["channel"], rng)),
        "language": rng.choice(LANGUAGES, rows, p=_moved(SHARES["language"], rng)),
        "model_version": version,
    }
    worse = np.full(rows, world.weekly[week])
    if world.began is not None and week >= world.began:
        for (column, value), fault in world.worse.items():
            worse += np.where(values[column] == value, fault, 0.0)
    outcome = (rng.random(rows) < np.clip(score - worse, 0.0, 1.0)).astype(float)
    parts = {
        (column, str(value)): _counted(score[of == value], outcome[of == value])
        for column, of in values.items()
        for value in np.unique(of)
    }
    return Week(_counted(score, outcome), parts)


def _moved(shares: Sequence[float], rng: np.random.Generator) -> Floats:
    """Shares that change by about a tenth from week to week."""
    moved = np.array(shares) * np.exp(rng.normal(0, 0.1, len(shares)))
    return np.asarray(moved / moved.sum())


def _counted(score: Floats, outcome: Floats) -> Counts:
    return counts_from_rows(score, outcome, automate_at=AUTOMATE_AT)


@cache
def config() -> Config:
    """The rules, for one source with one label."""
    source = SourceConfig(
        relation="mail", score_is="probability_of_label", automate_at=AUTOMATE_AT,
        segments=("channel", "language", "model_version"),
    )  # fmt: skip
    return Config(version=1, sources={SOURCE: source}, rules=RULES, automation={"when_not_evaluated": "keep"})


@cache
def weeks() -> tuple[Window, ...]:
    """The weeks of a world, oldest first."""
    last = windows.week("2026-W40", config().zone)
    return tuple(reversed([last, *windows.before(last, WEEKS - 1, config().zone)]))


def judged(made: Sequence[Week], at: int) -> tuple[list[Verdict], list[PastWindow]]:
    """The verdicts of one week, and the windows up to it, oldest first."""
    known = [
        PastWindow(
            weeks()[k], {LABEL: all_promises_of(each.whole)}, {_main(each): each.whole.rows},
            segments=segment_promises({LABEL: each.whole}, {s: {LABEL: part} for s, part in each.parts.items()}),
        )
        for k, each in enumerate(made[: at + 1])
    ]  # fmt: skip
    counted = [
        WindowCounts(weeks()[k], {LABEL: made[k].whole}, {_main(made[k]): 1}, segments=known[k].segments)
        for k in range(at, max(at - 4, -1), -1)
    ]
    data = SourceData(SOURCE, counted[0], tuple(counted[1:]), past=tuple(reversed(known[:-1])))
    return [v for rule in RULES for v in verdicts_of(rule, data, config(), (), outcomes_only=True)], known


def _main(week: Week) -> str:
    return max((OLD, NEW), key=lambda version: _rows(week, version))


def _rows(week: Week, version: str) -> int:
    part = week.parts.get(("model_version", version))
    return 0 if part is None else part.rows


def diagnosed(world: World, rows: int, rng: np.random.Generator) -> list[Diagnosis]:
    """The diagnoses of every week until some weeks after the trouble is found."""
    made = [drawn(world, week, rows, rng) for week in range(WEEKS)]
    past: list[Diagnosis] = []
    for at in range(FIRST - 3, WEEKS):
        verdicts, known = judged(made, at)
        counts = {weeks()[k].name: made[k].whole for k in range(at, max(at - 4, -1), -1)}
        facts = LabelFacts(
            SOURCE, LABEL, weeks()[at], config().evaluation, verdicts, ACTING, past=tuple(past),
            windows={"weekly": known}, counts=counts, time_on={},
        )  # fmt: skip
        past.append(diagnose(facts))
        found = next((k for k, each in enumerate(past) if each.is_trouble), None)
        if found is not None and len(past) - found > AFTER:
            break
    return past


@dataclass(frozen=True, slots=True)
class Result:
    """What was told of one world, when its trouble was found and at the end.

    ``off`` are by how many weeks the beginning was wrong, None where nothing was found or nothing was wrong.
    """

    found: bool
    segment: tuple[bool, bool]
    cause: tuple[bool, bool]
    off: tuple[int | None, int | None] = (None, None)
    held: bool = False


def result(kind: str, rows: int, seed: int) -> Result:
    """The result of one world."""
    rng = np.random.default_rng([SEED, KINDS.index(kind), rows, seed])
    planted = world(kind, rng)
    told = [each for each in diagnosed(planted, rows, rng) if each.is_trouble]
    if not told:
        return Result(False, (True, True), (True, True))
    both = (told[0], told[-1])
    segment, cause = (_pair(of(each) for each in both) for of in (planted.names_segment, planted.names_cause))
    found = Result(True, segment, cause)
    spans = [each.since for each in both if each.since]
    if planted.began is None or kind == SEASON or len(spans) < len(both):
        return found
    names = [week.name for week in weeks()]
    off = tuple(abs(names.index(since.window) - int(planted.began)) for since in spans)
    held = spans[0].low <= names[planted.began] <= spans[0].high
    return replace(found, off=(off[0], None if kind == FLAPPING else off[1]), held=held)


def _pair(values: Iterable[bool]) -> tuple[bool, bool]:
    first, last = values
    return first, last


def _share(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.3f}" if values else ""


def line(kind: str, rows: int, results: Sequence[Result]) -> tuple[str, ...]:
    """One line of the table."""
    found = [each for each in results if each.found]
    off = [[weeks_off for each in found if (weeks_off := each.off[k]) is not None] for k in (0, 1)]
    within = [_share([weeks_off <= most for weeks_off in off[k]]) for most in (1, 2) for k in (0, 1)]
    right = [[(each.segment[k], each.cause[k]) for each in found] for k in (0, 1)]
    both = [_share([a and b for a, b in of]) for of in right]
    parts = [_share([pair[k] for pair in right[0]]) for k in (0, 1)]
    held = _share([each.held for each in found if each.off[0] is not None])
    return (kind, f"{rows:,}", f"{len(found)}/{len(results)}", *both, *parts, *within, held)


HEADS = (
    "world", "rows", "found", "both right", "3 weeks later", "segment", "cause", "since within 1 week", "later",
    "within 2", "later", "span holds it",
)  # fmt: skip


def table(seeds: int, workers: int) -> Table:
    """The table of what was named."""
    tasks = [(kind, ROWS, seed) for kind in KINDS for seed in range(seeds)]
    with ProcessPoolExecutor(workers) as pool:
        made = list(pool.map(result, *zip(*tasks, strict=True), chunksize=4))
    lines = (line(kind, ROWS, made[seeds * at : seeds * (at + 1)]) for at, kind in enumerate(KINDS))
    title = f"Named right when it was found, and three weeks later; of {seeds} worlds a line, those found"
    return Table(title, HEADS, tuple(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write-docs", action="store_true", help="put the table into benchmarks/results/statistics.md")
    given = parser.parse_args(arguments)
    made, page = table(given.seeds, workers=given.workers), DOCS if given.write_docs else None
    publish([made], "planted", f"planted --seeds {given.seeds}", f", seed {SEED}", page=page)


if __name__ == "__main__":
    main()
