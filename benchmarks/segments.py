"""Rules on segments: how soon a fault in a segment is found and named, their false alarms, and their cost.

A label has n rows a week in four channels, three languages, two model versions and bands of scores; it is automated
from a score of .8 on. One of twenty such labels gets worse in the first week.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from scipy.stats import binomtest

from benchmarks.checkout import ROOT, commit_of
from benchmarks.populations import mixture
from benchmarks.tables import Table, console, write_between
from monitor.config.model import Rule
from monitor.core.promises import (
    BANDS,
    Promise,
    Segment,
)
from monitor.core.records import SCORE_BAND
from monitor.inference.sequential import SIZES, log_e_values, restarted

SEED = 20260101
LABELS, RUN_LENGTH, MARGIN, AUTOMATE_AT = 20, 520, 0.02, 0.8
NEEDED = math.log(LABELS * RUN_LENGTH)
COLUMNS = {"channel": 4, "language": 3, "model_version": 2}
SCORES = mixture(0.5, (5.0, 2.0), (2.0, 5.0))
ROWS = (200, 500, 2_000)
YEAR = 52
LASTING = Rule(
    id="lasting-overconfidence", metric="overconfidence", where="automated", condition="accumulated", threshold=MARGIN,
    min_samples=30,
)  # fmt: skip
IN_SEGMENTS = LASTING.model_copy(update={"id": "lasting-segments", "scope": "segments", "segments": ("all",)})
DOCS = ROOT / "benchmarks" / "results" / "statistics.md"

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The automated rows of some weeks, each array of shape (R,); every row occurs ``copies`` times."""

    week: Ints
    score: Floats
    values: Mapping[str, Ints]
    copies: int = 1


Fault = Callable[[Drawn], Floats]
Found = tuple[int, Segment] | None
"""The week, and the segment with the most evidence then; None: not found."""


def _in_one(column: str, rows: Drawn) -> Floats:
    return np.where(rows.values[column] == 0, 0.15, 0.0)


def _compensated(rows: Drawn) -> Floats:
    """One channel is worse by .15, the three others are better by .05: the label as a whole stays calibrated."""
    return np.where(rows.values["channel"] == 0, 0.15, -0.05)


WORLDS: dict[str, tuple[Fault, tuple[Segment, ...]]] = {
    "all rows -.15": (lambda rows: np.full(len(rows.score), 0.15), ()),
    "all rows -.10": (lambda rows: np.full(len(rows.score), 0.10), ()),
    "one of four channels -.15": (lambda rows: _in_one("channel", rows), (("channel", "0"),)),
    "one of three languages -.15": (lambda rows: _in_one("language", rows), (("language", "0"),)),
    "scores from .9 on -.15": (
        lambda rows: np.where(rows.score >= 0.9, 0.15, 0.0), ((SCORE_BAND, "from 0.9"), (SCORE_BAND, "from 0.95")),
    ),
    "channels that compensate": (_compensated, (("channel", "0"),)),
}  # fmt: skip
"""Name -> (how much the hit rates of rows fall, the segments that are right to name)."""


def drawn(rng: np.random.Generator, rows: int, weeks: int) -> Drawn:
    """The automated ones among ``rows`` random rows a week."""
    score = SCORES.draw(rng, rows * weeks)
    acts = score >= AUTOMATE_AT
    number = np.repeat(np.arange(weeks), rows)[acts]
    values = {column: rng.integers(0, size, int(acts.sum())) for column, size in COLUMNS.items()}
    return Drawn(number, score[acts], values)


def parts_of(rows: Drawn) -> dict[Segment, npt.NDArray[np.bool_]]:
    """Segment -> which rows belong to it, shape (R,)."""
    found = {(c, str(v)): rows.values[c] == v for c, size in COLUMNS.items() for v in range(size)}
    bands = {
        (SCORE_BAND, name): (rows.score >= low) & (rows.score < high + (high == 1.0))
        for name, (low, high) in BANDS.items()
    }
    return {**found, **{band: mask for band, mask in bands.items() if mask.any()}}


def paths_of(
    rows: Drawn, outcome: Floats, weeks: int, parts: Mapping[Segment, npt.NDArray[np.bool_]]
) -> dict[Segment, Floats]:
    """The log evidence of every segment after each week, shape (weeks,) each."""
    found = {}
    for segment, mask in parts.items():
        found[segment] = restarted(promises(rows, outcome, weeks, mask), MARGIN)
    return found


def promises(rows: Drawn, outcome: Floats, weeks: int, mask: npt.NDArray[np.bool_]) -> list[Promise]:
    """The promises of the rows of ``mask`` in each week; copies of a row count once in the effective rows."""
    n = np.bincount(rows.week[mask], minlength=weeks)
    claimed = np.bincount(rows.week[mask], weights=rows.score[mask], minlength=weeks) / np.maximum(n, 1)
    kept = np.bincount(rows.week[mask], weights=outcome[mask], minlength=weeks) / np.maximum(n, 1)
    weekly = zip(n.tolist(), claimed.tolist(), kept.tolist(), strict=True)
    return [Promise(k * rows.copies, float(k), s, y) for k, s, y in weekly]


def found_in(paths: Mapping[Segment, Floats]) -> Found:
    """The first week in which the label's mean evidence is enough, with the segment that has most evidence."""
    matrix = np.array(list(paths.values()))
    mean = logsumexp(matrix, axis=0) - math.log(len(matrix))
    alarms = np.flatnonzero(mean >= NEEDED)
    return (int(alarms[0]) + 1, list(paths)[int(matrix[:, alarms[0]].argmax())]) if len(alarms) else None


def played(world: str, rows: int, runs: int, weeks: int) -> list[tuple[Found, Found]]:
    """When and where each of ``runs`` labels is found: by the rule on segments, and by the rule on whole labels."""
    fault, _ = WORLDS[world]
    rng = np.random.default_rng([SEED, rows, list(WORLDS).index(world)])
    found = []
    for _ in range(runs):
        known = drawn(rng, rows, weeks)
        outcome = _outcome(rng, known, fault(known))
        whole = {("label", "all"): np.ones(len(known.score), dtype=bool)}
        either = [found_in(paths_of(known, outcome, weeks, parts)) for parts in (parts_of(known), whole)]
        found.append((either[0], either[1]))
    return found


def found_table(runs: int, weeks: int, rows: Sequence[int] = ROWS) -> Table:
    """The table of how soon a fault in a segment is found, and how often the right segment is named."""
    lines = []
    for world, (_, right) in WORLDS.items():
        for n in rows:
            found = played(world, n, runs, weeks)
            parts = [each for each, _ in found]
            quantiles = [text for one in (parts, [each for _, each in found]) for text in _quantiles(one)]
            named = sum(each is not None and each[1] in right for each in parts)
            some = sum(each is not None for each in parts)
            lines.append((world, f"{n:,}", *quantiles, f"{named} of {some}" if right else "-"))
    names = ("segments", "label")
    heads = (
        "world", "rows a week", *(f"{name}: {share}" for name in names for share in ("50%", "80%", "90%")),
        "rightly named",
    )  # fmt: skip
    automated = 100 * float((SCORES.points() >= AUTOMATE_AT).mean())
    note = (
        f"{runs} runs a line, {weeks} weeks each, {automated:.0f}% of the rows automated; -: not within them. "
        "Segments: lasting-segments; label: lasting-overconfidence. Rightly named: of those found, the segment with "
        "the most evidence is at fault."
    )
    title = "Faults in a part of a label: the week by which so many runs are found"
    return Table(title, heads, tuple(lines), (note,), texts=1)


def _quantiles(found: Sequence[Found]) -> list[str]:
    at = sorted(math.inf if each is None else each[0] for each in found)
    return [_week(at[math.ceil(share * len(at)) - 1]) for share in (0.5, 0.8, 0.9)]


def _week(at: float) -> str:
    return "-" if math.isinf(at) else f"{at:.0f}"


def copied(rng: np.random.Generator, rows: int, weeks: int, copies: int) -> Drawn:
    """Rows in clusters of ``copies`` equal rows, which have a cluster key in the warehouse."""
    known = drawn(rng, rows // copies, weeks)
    return replace(known, copies=copies)


def on_time(rng: np.random.Generator, known: Drawn, outcome: Floats) -> dict[Segment, Floats]:
    """The evidence after each week if half of its truths come a week late and are then counted too."""
    weeks, early = int(known.week.max()) + 1, rng.random(len(known.week)) < 0.5
    found = {}
    for segment, mask in parts_of(known).items():
        whole, half = (promises(known, outcome, weeks, each) for each in (mask, mask & early))
        steps, first = [log_e_values(each, MARGIN) for each in (whole, half)], -math.log(len(SIZES))
        parts, path = np.full(len(SIZES), -np.inf), []
        for full, now in zip(*steps, strict=True):
            begun = np.logaddexp(parts, first)
            path.append(float(np.logaddexp.reduce(begun + now)))
            parts = begun + full
        found[segment] = np.array(path)
    return found


QUIET: dict[str, Callable[[np.random.Generator, int, int, float], dict[Segment, Floats]]] = {
    "as they come": lambda rng, n, weeks, fall: _quiet(rng, drawn(rng, n, weeks), weeks, fall),
    "five copies of each row": lambda rng, n, weeks, fall: _quiet(rng, copied(rng, n, weeks, 5), weeks, fall),
    "half of the truths late": lambda rng, n, weeks, fall: _late(rng, drawn(rng, n, weeks), fall),
}
"""Name -> function that gives the evidence of the segments of a label with no overconfidence or the allowed one."""


def _quiet(rng: np.random.Generator, known: Drawn, weeks: int, fall: float) -> dict[Segment, Floats]:
    return paths_of(known, _outcome(rng, known, fall), weeks, parts_of(known))


def _late(rng: np.random.Generator, known: Drawn, fall: float) -> dict[Segment, Floats]:
    return on_time(rng, known, _outcome(rng, known, fall))


def _outcome(rng: np.random.Generator, known: Drawn, fall: Floats | float) -> Floats:
    return (rng.random(len(known.score)) < known.score - fall).astype(float)


def quiet_table(labels: int, weeks: int, rows: Sequence[int] = ROWS) -> Table:
    """The table of false alarms."""
    lines = []
    for (name, played_), n in product(QUIET.items(), rows):
        for overconfidence in (0.0, MARGIN):
            rng = np.random.default_rng([SEED, n, round(100 * overconfidence), list(QUIET).index(name)])
            alarms = spent = 0
            for _ in range(labels):
                found = found_in(played_(rng, n, weeks, overconfidence))
                alarms, spent = alarms + (found is not None), spent + (weeks if found is None else found[0])
            scale = LABELS * YEAR
            high = float(binomtest(alarms, spent).proportion_ci(0.9).high)
            lines.append(
                (
                    name,
                    f"{n:,}",
                    f"{overconfidence:g}",
                    f"{alarms}",
                    f"{scale * alarms / spent:.3f}",
                    f"{scale * high:.3f}",
                )
            )
    heads = ("rows", "rows a week", "overconfidence", "alarms", "a year, of twenty labels", "at most (95%)")
    note = f"{labels} labels a line, {weeks} weeks each: alarms over the time until the first one of each label."
    return Table("Segments of labels in which nothing is wrong", heads, tuple(lines), (note,), texts=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segments", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--runs", type=int, default=100, help="runs a line (default 100)")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into benchmarks/results/statistics.md"
    )
    given = parser.parse_args(arguments)
    if given.runs < 1 or (given.quick and given.write_docs):
        parser.error("--runs must be at least 1, and --write-docs takes the whole benchmark, not --quick")
    began = time.process_time()
    runs, weeks, rows = (2, 8, ROWS[:1]) if given.quick else (given.runs, 40, ROWS)
    tables = (
        found_table(runs, weeks, rows),
        quiet_table(runs if given.quick else 2 * runs, 26 if given.quick else 5 * YEAR, rows),
    )
    for table in tables:
        table.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.segments --runs {runs} --write-docs` at commit {commit_of(ROOT)}, "
            f"seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "segments", "\n\n".join([origin, *(table.markdown() for table in tables)]))


if __name__ == "__main__":
    main()
