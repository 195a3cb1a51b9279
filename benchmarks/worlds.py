"""False alarms after ordinary changes that are no fault: our rules compared with textbook, SD bands and CUSUM.

Each world is a year of twenty calibrated labels with one kind of change: a new model version that is calibrated as well
as the old one, late truths, holidays, or seasons.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit, logit

from benchmarks.checkout import DOCS, ROOT, commit_of
from benchmarks.populations import LABELS, Floats, Ints
from benchmarks.quiet import (
    EFFECTS,
    MEMORY,
    WORLDS,
    YEAR,
    Label,
    Made,
    Played,
    Sums,
    World,
    judged_weeks,
    keeping,
    kinds_of,
    pinned,
    windows_of,
)
from benchmarks.tables import Table, console, write_between
from benchmarks.tally import Tally
from benchmarks.weeks import TEXTBOOK_THRESHOLD, Open, decided, shipped
from monitor.core.baseline import Baseline
from monitor.core.counts import CELLS, bin_counts
from monitor.core.records import Reason
from monitor.metrics.calibration import ece

SEED = 20260101
ROWS = 2_000
SHARPER = 1.0
"""The frequency of a new version's score s is the old one times |2s - 1| to this power, so that fewer are near .5."""
HOLIDAY = 0.2
"""The share of the usual rows in each of five weeks of a year."""
HOLIDAYS = (29, 30, 31, 50, 51)
SWING = 0.4
"""The relative amplitude of the share of true items over a year."""
DELAYED = 0.3
WOBBLE = 0.1
"""The standard deviation, from week to week, of the log-odds by which scores are off."""
MIX, LEVELS = 0.04, 7
BAND_WEEKS, BANDS = 8, 3.0
CUSUM_FALL, CUSUM_MARGIN = 0.10, 0.02
CUSUM_NEEDED = math.log(len(LABELS) * 520)
PEERS = ("textbook", "SD bands", "CUSUM")

Parts = tuple[Sums, Sums]


def _drawn(label: Label, n: Ints, chance: Floats, worth: Floats, rng: np.random.Generator) -> Sums:
    """The sums of ``n`` random rows in each window (T,); shares and hit rates by kind are (T, K)."""
    rows = rng.multinomial(n, chance / chance.sum(axis=1, keepdims=True))
    return Sums(rows, rng.binomial(rows, np.clip(worth, 0, 1)).astype(np.float64), np.ones((len(n), len(EFFECTS))))


def _steady(label: Label, windows: int) -> tuple[Floats, Floats]:
    return np.tile(label.chance, (windows, 1)), np.tile(label.worth, (windows, 1))


def new_version(label: Label, n: Ints, rng: np.random.Generator) -> Parts:
    """From mid-year on scores are farther from .5, with the same hit rate at each score."""
    chance, worth = _steady(label, len(n))
    chance[MEMORY + (len(n) - MEMORY) // 2 :] *= np.abs(2 * label.cell / CELLS - 1) ** SHARPER
    found = _drawn(label, n, chance, worth, rng)
    return found, found


def holidays(label: Label, n: Ints, rng: np.random.Generator) -> Parts:
    """Five weeks have a fifth of the rows."""
    week = (np.arange(len(n)) - MEMORY) % YEAR
    rows = np.where(np.isin(week, HOLIDAYS), np.rint(HOLIDAY * n).astype(np.int64), n)
    found = _drawn(label, rows, *_steady(label, len(n)), rng)
    return found, found


def seasons(label: Label, n: Ints, rng: np.random.Generator, swing: float = SWING) -> Parts:
    """The share of true items varies over the year; scores given the truth stay the same."""
    share = float((label.chance * label.worth).sum())
    true, other = label.chance * label.worth / share, label.chance * (1 - label.worth) / (1 - share)
    now = np.minimum(share * (1 + swing * np.sin(2 * np.pi * np.arange(len(n)) / YEAR)), 0.9)[:, None]
    chance = now * true + (1 - now) * other
    found = _drawn(label, n, chance, now * true / np.maximum(chance, 1e-300), rng)
    return found, found


def right_ones_late(label: Label, n: Ints, rng: np.random.Generator) -> Parts:
    """Three in ten of the positive truths come a week later than all others."""
    whole = _drawn(label, n, *_steady(label, len(n)), rng)
    later = rng.binomial(whole.hits.astype(np.int64), DELAYED)
    return whole, replace(whole, n=whole.n - later, hits=whole.hits - later)


def wrong_ones_late(label: Label, n: Ints, rng: np.random.Generator) -> Parts:
    """Three in ten of the negative truths come a week later than all others."""
    whole = _drawn(label, n, *_steady(label, len(n)), rng)
    later = rng.binomial((whole.n - whole.hits).astype(np.int64), DELAYED)
    return whole, replace(whole, n=whole.n - later)


def wobble(label: Label, n: Ints, rng: np.random.Generator) -> Parts:
    """The log-odds of all scores are a little too high or too low in each week."""
    moved = logit(np.clip(label.worth, 1e-9, 1 - 1e-9)) + rng.normal(0, WOBBLE, (len(n), 1))
    found = _drawn(label, n, _steady(label, len(n))[0], expit(moved), rng)
    return found, found


def other_mix(label: Label, n: Ints, rng: np.random.Generator) -> Parts:
    """Each seventh of the scores has up to four points more or fewer of a week's rows, and is as right as before."""
    level = np.minimum(np.cumsum(label.chance) / label.chance.sum() * LEVELS, LEVELS - 1).astype(np.int64)
    share = np.bincount(level, label.chance, LEVELS)
    moved = np.maximum(share + rng.uniform(-MIX, MIX, (len(n), LEVELS)), 0.01) / np.where(share > 0, share, 1.0)
    found = _drawn(label, n, label.chance * moved[:, level], _steady(label, len(n))[1], rng)
    return found, found


CHANGES: Mapping[str, Made] = {
    "nothing changes": WORLDS["as they come"][0],
    "new version, as well calibrated": new_version,
    "five weeks with a fifth of the rows": holidays,
    "half of the truths a week late": WORLDS["late truths"][0],
    "three in ten of \"yes\" a week late": right_ones_late,
    "three in ten of \"no\" a week late": wrong_ones_late,
    "share of true items 40% up and down": seasons,
    "share of true items 20% up and down": partial(seasons, swing=SWING / 2),
    "log-odds of scores off by .1 from week to week": wobble,
    "mix of scores moves by 4 points from week to week": other_mix,
}  # fmt: skip
"""World -> function that draws the windows of a label."""


def played_in(change: str, n: int, weeks: int, rng: np.random.Generator) -> Played:
    """Simulate a year of one of the worlds."""
    place, windows = windows_of(n, weeks), MEMORY + weeks
    kinds = {label.name: kinds_of(keeping(label)) for label in LABELS}
    both = {name: CHANGES[change](kind, np.full(windows, n), rng) for name, kind in kinds.items()}
    baselines: dict[str | None, Baseline] = {
        name: pinned(place.baselines[name], kind, 1.0, CHANGES[change], rng) for name, kind in kinds.items()
    }
    half = MEMORY + weeks // 2
    versions = ["2" if at >= half else "1" for at in range(windows)] if change.startswith("new version") else []
    world = World(kinds, {k: each[0] for k, each in both.items()}, {k: each[1] for k, each in both.items()}, versions)
    return Played(replace(place, config=shipped(), baselines=baselines), world, MEMORY)


def our_incidents(played: Played) -> Counter[str]:
    """Incidents of weekly rules and of accumulating rules, and how many of each have a change of mix as reason."""
    open_now: Open = {}
    found: Counter[str] = Counter()
    lasting = {rule.id for rule in played.place.config.rules if rule.accumulates}
    for verdicts in judged_weeks(played, open_now):
        for verdict in verdicts:
            if decided(verdict, open_now).kind == "open":
                kind = "lasting" if verdict.rule in lasting else "weekly"
                found[kind] += 1
                found[f"{kind} mix"] += verdict.reason in (Reason.CLASS_MIX, Reason.TRAFFIC_MIX)
    return found


def peers_incidents(played: Played) -> Counter[str]:
    """The alarms of the other methods; consecutive weeks count once."""
    found: Counter[str] = Counter()
    for name in played.world.labels:
        errors = plug_in_errors(played, name)
        judged = errors[played.first :]
        base = played.place.baselines[name]
        before = ece(bin_counts(base.counts, base.edges["all"])) or 0.0
        found["textbook"] += _runs(judged - before > TEXTBOOK_THRESHOLD)
        back = np.array([errors[at - BAND_WEEKS : at] for at in played.judged])
        found["SD bands"] += _runs(judged > back.mean(axis=1) + BANDS * back.std(axis=1, ddof=1))
        found["CUSUM"] += cusum_alarms(played.world.labels[name], played.world.of(name, now=True), played.first)
    return found


def _runs(fired: np.typing.NDArray[np.bool_]) -> int:
    return int((fired & ~np.append(False, fired[:-1])).sum())


def plug_in_errors(played: Played, name: str) -> Floats:
    """The plug-in ECE of each window as known when it is judged, in the baseline's bins, (windows,)."""
    label, sums = played.world.labels[name], played.world.of(name, now=True)
    upper = np.asarray(played.place.baselines[name].edges["all"])
    index = np.minimum(np.searchsorted(upper, label.cell, side="left"), len(upper) - 1)
    chosen = (index[:, None] == np.arange(len(upper))).astype(np.float64)
    gap = (sums.hits - sums.n * (label.cell / CELLS)) @ chosen
    return np.asarray(np.abs(gap).sum(axis=1) / sums.n.sum(axis=1))


def cusum_alarms(label: Label, sums: Sums, first: int) -> int:
    """Alarms from ``first`` on of Page's sum, for a fall of precision by .10 beyond .02. Each alarm restarts it."""
    n, hits = sums.n @ label.acts, sums.hits @ label.acts
    claimed = (sums.n * (label.cell / CELLS)) @ label.acts / np.maximum(n, 1)
    total, alarms = 0.0, 0
    for week in range(len(n)):
        p, q = max(claimed[week] - CUSUM_MARGIN, 1e-6), max(claimed[week] - CUSUM_FALL, 1e-6)
        ratio = hits[week] * math.log(q / p) + (n[week] - hits[week]) * math.log((1 - q) / (1 - p))
        total = max(total, 0.0) + (ratio if n[week] else 0.0)
        if total >= CUSUM_NEEDED:
            total, alarms = 0.0, alarms + (week >= first)
    return alarms


@dataclass(frozen=True, slots=True)
class Ordinary:
    """One year of a world."""

    change: str
    n: int
    number: int
    weeks: int

    def run(self) -> Tally:
        """The tally of all methods' incidents."""
        rng = np.random.default_rng((SEED, list(CHANGES).index(self.change), self.n, self.number))
        played = played_in(self.change, self.n, self.weeks, rng)
        found = our_incidents(played) + peers_incidents(played)
        sums = {name: float(found[name]) for name in ("weekly", "lasting", "weekly mix", "lasting mix", *PEERS)}
        return Tally("worlds", (self.change, self.n), 1, sums | {f"{k} squared": v**2 for k, v in sums.items()})


def table(years: int, weeks: int, changes: Sequence[str], rows: int) -> Table:
    """The table of incidents a year of all methods, in every world."""
    lines = []
    for change in changes:
        first, *others = (Ordinary(change, rows, number, weeks).run() for number in range(years))
        tally = sum(others, first)
        incidents = [f"{tally.share(name):.2f} ({tally.upper_mean(name):.2f})" for name in ("weekly", "lasting")]
        named = [f"{tally.of(f'{name} mix'):.0f} of {tally.of(name):.0f}" for name in ("weekly", "lasting")]
        peers = [f"{tally.share(name):.2f} ({tally.upper_mean(name):.2f})" for name in PEERS]
        lines.append((change, *incidents, *named, *peers))
    heads = (
        "world", "weekly rules", "rules that accumulate", "weekly: named as a change of mix",
        "accumulated: named as a change of mix", *PEERS,
    )  # fmt: skip
    note = (
        f"{years} years of twenty labels of {rows:,} rows a week a line, a year before each; incidents a year, in "
        "brackets the upper 95% limit of their mean. Weekly rules: the shipped ones. Textbook: a "
        f"plug-in ECE more than {TEXTBOOK_THRESHOLD:g} above the baseline's. SD bands: an ECE {BANDS:g} standard "
        f"deviations of {BAND_WEEKS} weeks above their mean. CUSUM: a fall of precision by .10, tuned to ten years "
        "between false alarms of twenty labels."
    )
    return Table("What is no fault: incidents a year", heads, tuple(lines), (note,), texts=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--years", type=int, default=10, help="years a line (default 10)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows a label-week (default {ROWS})")
    parser.add_argument("--write-docs", action="store_true", help="put the table into benchmarks/results/statistics.md")
    given = parser.parse_args(arguments)
    if min(given.years, given.rows) < 1 or (given.quick and given.write_docs):
        parser.error("--years and --rows must be at least 1, and --write-docs takes the whole benchmark, not --quick")
    began = time.process_time()
    found = table(1, 2, list(CHANGES)[:2], 500) if given.quick else table(given.years, YEAR, list(CHANGES), given.rows)
    found.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.worlds --years {given.years} --write-docs` at commit {commit_of(ROOT)}, "
            f"seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "worlds", f"{origin}\n\n{found.markdown()}")


if __name__ == "__main__":
    main()
