"""Planted causes: is the right one named first, is none named if none is planted, and is the onset right?

Each world has a label with three segment columns whose values already differ a little in calibration, traffic that
varies from span to span, and in half of the worlds a harmless new model version. The overconfidence (mean score minus
accuracy) of all rows together then rises by CHANGE, because of one cause. Of kind "none", it rises by the same in every
segment in half of the worlds, and not at all in the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.tables import Table, console
from monitor.core.causes import Causes
from monitor.core.counts import counts_from_rows, equal_frequency_edges, pool
from monitor.core.counts_by_segment import CountsBySegment, Segment
from monitor.evaluation.shift.causes import Metric, find_causes
from monitor.evaluation.shift.onset import Arrival, Level, may_have_come_with, onset

SEED = 20260101
KINDS = ("version", "channel", "language", "pair", "mix", "none")
ROWS = (500, 2_000, 10_000)
CHANGE, USUAL = 0.05, 0.015
"""The planted rise of the overconfidence, and the standard deviation among values of a column without it."""
COLUMNS = ("channel", "language", "model_version")
CHANNELS = {"chat": 0.30, "email": 0.35, "phone": 0.10, "web": 0.25}
LANGUAGES = {"de": 0.25, "en": 0.55, "es": 0.05, "fr": 0.15}
VERSIONS = {"v1": 0.5, "v2": 0.5}
BASELINE_WEEKS, WEEKS = 8, 12
LEAST_BASELINE = 10_000
MEDIAN_SCORE = 0.79
SLOPE, SLOPE_WEEKS, GROWTHS, CLEAR = 0.1, 26, (1, 2, 4, 8, 16), 3.5
"""A change that grows: its full size, the weeks looked at, over how many it grows, and how clear a week must be."""
WORSE_CHANNEL = 0.3
"""The overconfidence that the growing channel had before, in worlds of kind "mix"."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class World:
    """The truth: the cause (empty: none), how much more overconfident it becomes, and each value's usual gap.

    ``crossed``: its high scores become too high and its low scores too low, by the same amount.
    """

    kind: str
    segment: Segment
    more: float
    usual: Mapping[tuple[str, str], float]
    shares: tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float]]
    everywhere: float = 0.0
    crossed: bool = False


def world(kind: str, rng: Rng) -> World:
    """A random world of one kind, with its traffic in the window."""
    usual = {(c, v): float(rng.normal(0, USUAL)) for c, of in _values() for v in of}
    shares = [_varied(of, rng) for _, of in _values()]
    if kind == "version":
        shares[2] = _with_new(float(rng.uniform(0.3, 1.0)))
    elif rng.random() < 0.5:
        shares[2] = _with_new(0.5)
    segment: Segment = ()
    for column, of in _values():  # the whole baseline becomes calibrated, and a new version harmless
        mean = sum(usual[column, value] * share for value, share in of.items())
        usual |= {(column, value): usual[column, value] - mean for value in of}
    if kind == "mix":
        grows = str(rng.choice(["phone", "web"]))
        usual[("channel", grows)] = WORSE_CHANNEL
        rest = 1 - CHANNELS[grows]
        share = CHANNELS[grows] + CHANGE / WORSE_CHANNEL
        shares[0] = {v: share if v == grows else s * (1 - share) / rest for v, s in CHANNELS.items()}
        segment = (("channel", grows),)
    elif kind != "none":
        segment = _segment(kind, rng)
    reach = 1.0
    for column, value in segment:
        reach *= shares[COLUMNS.index(column)].get(value, 0.0)
    alike = CHANGE if kind == "none" and rng.random() < 0.5 else 0.0
    more = 0.0 if kind in ("mix", "none") else CHANGE / reach
    return World(kind, segment, more, usual, (shares[0], shares[1], shares[2]), alike)


def _values() -> Sequence[tuple[str, Mapping[str, float]]]:
    return tuple(zip(COLUMNS, (CHANNELS, LANGUAGES, VERSIONS), strict=True))


def _varied(shares: Mapping[str, float], rng: Rng) -> dict[str, float]:
    """The traffic of one span: each value's share changes by about a tenth."""
    moved = {value: share * float(np.exp(rng.normal(0, 0.1))) for value, share in shares.items()}
    return {value: share / sum(moved.values()) for value, share in moved.items()}


def _with_new(share: float) -> dict[str, float]:
    rest = 0.0 if share > 0.95 else 1 - share
    return {"v2": rest, "v3": 1 - rest}


def _segment(kind: str, rng: Rng) -> Segment:
    if kind == "version":
        return (("model_version", "v3"),)
    channel = ("channel", str(rng.choice(["chat", "email", "web"])))
    if kind == "channel":
        return (channel,)
    language = ("language", str(rng.choice(["en", "de"] if kind == "pair" else ["en", "de", "fr"])))
    return (language,) if kind == "language" else (channel, language)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one span: a code for each column's value, the score and the outcome."""

    names: Sequence[Sequence[str]]
    codes: Ints
    score: Floats
    outcome: Floats


def drawn(world: World, n: int, rng: Rng, *, changed: bool) -> Rows:
    """The rows of one span, before or after the change."""
    shares = world.shares if changed else (CHANNELS, LANGUAGES, VERSIONS)
    names = [list(of) for of in shares]
    codes = np.array([rng.choice(len(of), n, p=list(of.values())) for of in shares])
    score = np.round(rng.beta(6.0, 1.8, n), 2)
    gap = np.full(n, world.everywhere if changed else 0.0)
    for at, column in enumerate(COLUMNS):
        gap += np.array([world.usual.get((column, value), 0.0) for value in names[at]])[codes[at]]
    if changed and world.more:
        mask = np.ones(n, dtype=bool)
        for column, value in world.segment:
            at = COLUMNS.index(column)
            mask &= codes[at] == names[at].index(value)
        gap += world.more * mask * (np.where(score < MEDIAN_SCORE, -1.0, 1.0) if world.crossed else 1.0)
    outcome = (rng.random(n) < np.clip(score - gap, 0.0, 1.0)).astype(float)
    return Rows(names, codes, score, outcome)


def by_segment(rows: Rows) -> CountsBySegment:
    """The counts of each combination."""
    sizes = [len(of) for of in rows.names]
    combined = np.ravel_multi_index(tuple(rows.codes), sizes)
    order = np.argsort(combined, kind="stable")
    found, starts = np.unique(combined[order], return_index=True)
    parts = {}
    for key, at in zip(found, np.split(order, starts[1:]), strict=True):
        codes = np.unravel_index(int(key), sizes)
        values = tuple(of[int(code)] for of, code in zip(rows.names, codes, strict=True))
        parts[values] = counts_from_rows(rows.score[at], rows.outcome[at])
    return CountsBySegment(COLUMNS, parts)


def causes_of(world: World, n: int, metric: Metric, rng: Rng) -> Causes:
    """The causes named for a window of ``n`` rows, compared with a baseline of eight such weeks."""
    then = by_segment(drawn(world, max(LEAST_BASELINE, n * BASELINE_WEEKS), rng, changed=False))
    now = by_segment(drawn(world, n, rng, changed=True))
    found = find_causes(now, then, metric=metric, edges=equal_frequency_edges(pool(then.parts.values()), 15))
    if found is None:
        raise AssertionError("both spans have rows")
    return found


def is_right(world: World, found: Causes) -> bool:
    """Whether the planted cause is named first, or nothing is named if none is planted."""
    if world.kind == "none":
        return not found.causes
    if not found.causes:
        return False
    first = found.causes[0]
    same_kind = (first.kind == "mix") == (world.kind == "mix")
    return same_kind and sorted(first.segment) == sorted(world.segment)


def onset_off(n: int, rng: Rng) -> tuple[int, bool]:
    """By how many weeks the named onset is wrong, and whether its span contains the true onset."""
    planted = world("channel", rng)
    true = int(rng.integers(1, WEEKS - 1))
    base = drawn(planted, max(LEAST_BASELINE, n * BASELINE_WEEKS), rng, changed=False)
    levels = [_level(drawn(planted, n, rng, changed=week >= true), str(week)) for week in range(WEEKS)]
    began = onset(_level(base, "baseline"), levels)
    if began is None:
        raise AssertionError("there are weeks")
    return abs(int(began.window) - true), int(began.low) <= true <= int(began.high)


def slope_off(n: int, growth: int, rng: Rng) -> tuple[bool, bool] | None:
    """Whether the stated span of a change that grows over ``growth`` weeks holds its first week.

    First with the weeks from which on it may have grown, then of a change all at once. It is judged up to three weeks
    after the first week that is clearly above the baseline; None where none is.
    """
    planted = world("none", rng)
    true = int(rng.integers(1, SLOPE_WEEKS - 3))
    base = _level(drawn(planted, max(LEAST_BASELINE, n * BASELINE_WEEKS), rng, changed=False), "baseline")
    levels: list[Level] = []
    judged = SLOPE_WEEKS
    for week in range(SLOPE_WEEKS):
        share = min(max((week - true + 1) / growth, 0.0), 1.0)
        planted = replace(planted, everywhere=SLOPE * share)
        levels.append(_level(drawn(planted, n, rng, changed=True), f"{week:02}"))
        noise = np.sqrt(levels[-1].variance + base.variance)
        if judged == SLOPE_WEEKS and week >= true and levels[-1].value - base.value > CLEAR * noise:
            judged = week + int(rng.integers(0, 4))
        if week >= judged:
            break
    began = onset(base, levels) if judged < SLOPE_WEEKS else None
    if began is None:
        return None
    earliest = int(began.earliest or began.low)
    return earliest <= true <= int(began.high), int(began.low) <= true <= int(began.high)


def slopes_table(seeds: int, sizes: Sequence[int]) -> Table:
    """The table of how often the stated span of a growing change holds its first week."""
    lines = []
    for n in sizes:
        cells = [f"{n:,}"]
        for growth in GROWTHS:
            worlds = (np.random.default_rng([SEED, n, 97, growth, seed]) for seed in range(seeds))
            found = [each for each in (slope_off(n, growth, rng) for rng in worlds) if each is not None]
            held, at_once = np.mean(found, axis=0) if found else (np.nan, np.nan)
            cells.append(f"{held:.3f} ({at_once:.3f})")
        lines.append(tuple(cells))
    heads = ("rows", *(f"{growth} weeks" if growth > 1 else "at once" for growth in GROWTHS))
    title = f"The span of a change of {SLOPE} that grows over so many weeks holds its first week; {seeds} worlds"
    return Table(f"{title} (in brackets: the span of a change all at once)", heads, tuple(lines))


def is_version_named(n: int, late: int, share: float, rng: Rng) -> bool:
    """Whether a version of all rows is named that arrives ``late`` weeks after a change, with ``share`` at first.

    With ``late`` 0 the change comes with it: in the first week, that share of the rows is changed.
    """
    planted = replace(world("none", rng), everywhere=CHANGE)
    true = int(rng.integers(1, WEEKS - 3))
    arrived, judged = true + late, int(rng.integers(true + late + (share < 1), WEEKS))
    base = drawn(planted, max(LEAST_BASELINE, n * BASELINE_WEEKS), rng, changed=False)
    levels = []
    for week in range(judged + 1):
        changed = round(n * (0.0 if week < true else share if week == true and not late else 1.0))
        parts = [
            drawn(planted, rows, rng, changed=way) for rows, way in ((changed, True), (n - changed, False)) if rows
        ]
        levels.append(_level_of([part.score - part.outcome for part in parts], f"{week:02}"))
    began = onset(_level(base, "baseline"), levels)
    if began is None:
        raise AssertionError("there are weeks")
    complete = arrived + (share < 1)
    return may_have_come_with(Arrival(f"{arrived:02}", f"{complete:02}"), began)


def versions_table(seeds: int, sizes: Sequence[int]) -> Table:
    """The table of how often a version of all rows is named that came with a change, or after it."""
    cases = ((0, 1.0), (0, 0.3), (1, 1.0), (2, 1.0))
    lines = []
    for n in sizes:
        named = [
            np.mean(
                [is_version_named(n, late, share, np.random.default_rng([SEED, n, 98, at, k])) for k in range(seeds)]
            )
            for at, (late, share) in enumerate(cases)
        ]
        lines.append((f"{n:,}", *(f"{share:.3f}" for share in named)))
    heads = ("rows", "with it", "with it, 30% of the rows at first", "a week after", "two weeks after")
    return Table(
        f"A version of all rows is named: it came with the change, or after; {seeds} worlds", heads, tuple(lines)
    )


def _level(rows: Rows, name: str) -> Level:
    return _level_of([rows.score - rows.outcome], name)


def _level_of(gaps: Sequence[Floats], name: str) -> Level:
    gap = np.concatenate(gaps)
    return Level(name, float(gap.mean()), float(gap.var() / len(gap)))


def table(seeds: int, metric: Metric, sizes: Sequence[int], *, crossed: bool = False) -> Table:
    """The table of how often the right cause is named first, by kind and rows."""
    lines = []
    for n in sizes:
        shares = []
        for at, kind in enumerate(KINDS):
            right = 0
            for seed in range(seeds):
                rng = np.random.default_rng([SEED, n, at, seed])
                planted = replace(world(kind, rng), crossed=crossed)
                right += is_right(planted, causes_of(planted, n, metric, rng))
            shares.append(f"{right / seeds:.3f}")
        off = [onset_off(n, np.random.default_rng([SEED, n, 99, seed])) for seed in range(seeds)]
        within = np.mean([weeks <= 1 for weeks, _ in off])
        lines.append((f"{n:,}", *shares, f"{within:.3f}", f"{np.mean([held for _, held in off]):.3f}"))
    title = f"Right cause first (none: nothing named), change of {metric} {CHANGE}, {seeds} worlds a cell"
    return Table(title, ("rows", *KINDS, "onset within a week", "span holds it"), tuple(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causes", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--metric", choices=["overconfidence", "ece", "both"], default="both")
    parser.add_argument("--crossed", action="store_true", help="high scores too high and low ones too low")
    chosen = parser.parse_args(arguments)
    out = console()
    for metric in ("overconfidence", "ece") if chosen.metric == "both" else (chosen.metric,):
        table(chosen.seeds, metric, chosen.rows, crossed=chosen.crossed).show(out)
    versions_table(chosen.seeds, chosen.rows).show(out)
    slopes_table(chosen.seeds, chosen.rows).show(out)


if __name__ == "__main__":
    main()
