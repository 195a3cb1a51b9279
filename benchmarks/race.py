"""ECE, MCE and 95% intervals of twenty labels: ours compared with row bootstraps and other libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.contestants import Answer, Contestant, affordable, contestants, count, made_up_rows
from benchmarks.peers import PEERS
from benchmarks.tables import Table
from benchmarks.timing import Size, Timing, fresh, in_turns, times

COUNTING = "counting in numpy"
ANALYTIC, BOOTSTRAP, ROWS = 0, 1, 2  # indices of contestants
WANTED = (200, 30)
"""The numpy row bootstrap should take this many times as long as our analytic form, and as our bootstrap form."""

COLUMNS = ("what", "reads", "resamples", "min s", "median s", "max s", "/ analytic", "/ bootstrap")


@dataclass(frozen=True, slots=True)
class Line:
    """A contestant with its times; None if it is not installed."""

    name: str
    reads: str
    resamples: str
    timing: Timing | None


@dataclass(frozen=True, slots=True)
class Raced:
    """The result of a race: its lines, the time of counting, and the largest difference of plug-in ECEs of a label."""

    lines: tuple[Line, ...]
    counting: Timing
    apart: float


def tables(size: Size) -> Iterator[Table]:
    """The table; the race is run in its own process."""
    yield table_of(size, fresh(race, size))


def race(size: Size) -> Raced:
    """Measure every contestant in every round, in turns."""
    runners = [affordable(runner, size) for runner in contestants(size)]
    ready = [runner for runner in runners if runner.run is not None]
    rows = made_up_rows(size.labels, size.rows)
    counts = count(rows)
    answers: dict[str, list[Answer]] = {}
    for runner in ready:
        _warm_up(runner)

    def kept(runner: Contestant) -> None:
        answers[runner.name] = runner.answers(rows, counts)

    runs = {COUNTING: lambda: count(rows)} | {runner.name: lambda runner=runner: kept(runner) for runner in ready}
    timings = in_turns(runs, size.rounds, scale={runner.name: runner.scale for runner in ready})
    by_name = {timing.name: timing for timing in timings}
    lines = tuple(Line(each.name, each.reads, each.resamples, by_name.get(each.name)) for each in runners)
    return Raced(lines, by_name[COUNTING], disagreement([answers[each.name] for each in ready if each.alike]))


def disagreement(answers: Sequence[Sequence[Answer]]) -> float:
    """The largest difference of two contestants' plug-in ECEs on the same label."""
    by_label = [[answer.plug_in for answer in label] for label in zip(*answers, strict=True)]
    return float(max(max(values) - min(values) for values in by_label))


def _warm_up(runner: Contestant) -> None:
    """Run it once on a few rows, so that imports and compilation at first use are not measured."""
    rows = made_up_rows(1, 200)
    runner.answers(rows, count(rows))


def table_of(size: Size, raced: Raced) -> Table:
    """The table of the contestants; ratios are of medians, to our two forms."""
    analytic, bootstrap, row_bootstrap = (_median(raced.lines[index]) for index in (ANALYTIC, BOOTSTRAP, ROWS))
    rows = [(line.name, line.reads, line.resamples, *_times(line.timing, analytic, bootstrap)) for line in raced.lines]
    counting = (COUNTING, "rows", "-", *raced.counting.shown, "", "")
    ratios = [row_bootstrap / ours for ours in (analytic, bootstrap)]
    with_counting = [row_bootstrap / (raced.counting.median + ours) for ours in (analytic, bootstrap)]
    notes = (
        f"Wanted of the numpy row bootstrap: at least {WANTED[0]}x the analytic form and {WANTED[1]}x the bootstrap "
        f"form, although that inverts a test. Measured: {times(ratios[0])} and {times(ratios[1])}.",
        "They do different work. Ours: debiased ECE and MCE with intervals that cover, by test inversion and exact "
        "limits. The row bootstraps: percentile limits of the plug-in values, which do not cover.",
        "Ours read counts: the warehouse makes them where the rows are. Counting in numpy is "
        f"shown for fairness: with it the numpy row bootstrap takes {times(with_counting[0])} as long as the analytic "
        f"form and {times(with_counting[1])} as long as the bootstrap form.",
        f"Scaled from: fewer resamples were measured, and the time is that of {size.resamples:,} at the same pace.",
        f"Libraries without an interval are put into the plainest row bootstrap: {_whats()}.",
        f"Where bins hold equal numbers of rows, plug-in ECEs of one label differ by at most {raced.apart:.1g} "
        "(edges on 10,001 cells or on exact quantiles).",
    )
    title = f"ECE, MCE and 95% intervals: {size.labels} labels of {size.rows:,} rows, one thread, {size.rounds} rounds"
    return Table(title, COLUMNS, (counting, *rows), notes, texts=3)


def _times(timing: Timing | None, analytic: float, bootstrap: float) -> tuple[str, ...]:
    if timing is None:
        return ("",) * 5
    return *timing.shown, times(timing.median / analytic), times(timing.median / bootstrap)


def _median(line: Line) -> float:
    assert line.timing is not None
    return line.timing.median


def _whats() -> str:
    return "; ".join(f"{peer.name}{f' {peer.version}' if peer.installed else ''} ({peer.what})" for peer in PEERS)
