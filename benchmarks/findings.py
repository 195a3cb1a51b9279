"""The tables of the study."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import power, quiet
from benchmarks.coverage import KINDS, TARGET, Kind
from benchmarks.tables import Table
from benchmarks.tally import Tally
from benchmarks.targets import WIDTHS, Findings, held, mean_over

STAR = "* coverage significantly below .93 (one-sided, 1%)."


COVERED = "95% intervals: share that held the truth, and mean width"
AT_WALLS = "95% intervals of labels that are (nearly) always right or never true"


def tables(findings: Findings) -> list[Table]:
    """The tables of all simulated parts; the one of targets comes first."""
    makers: dict[str, Callable[[list[Tally]], list[Table]]] = {
        "coverage": lambda cells: [coverage_summary(cells), coverage_table(cells)],
        "walls": lambda cells: [coverage_table(cells, AT_WALLS)],
        "dependent": lambda cells: [dependent_table(cells)],
        "power": lambda lines: [power.table(lines)],
        "quiet": lambda lines: [quiet.table(lines)],
    }
    return [held_table(findings), *(table for part, found in findings.items() for table in makers[part](found))]


def held_table(findings: Findings) -> Table:
    """The table of every figure with its target, and whether it is reached."""
    rows = [
        (each.figure, each.target, each.found, each.repetitions, "reached" if each.reached else "NOT REACHED")
        for each in held(findings)
    ]
    return Table("What must hold", ("figure", "target", "found", "repetitions", ""), tuple(rows), texts=5)


def _covered(cell: Tally, kind: Kind) -> str:
    name = f"{kind} held"
    return f"{cell.share(name):.3f}{'*' if cell.is_significantly_below(name, TARGET) else ''}"


def _kept(cells: Sequence[Tally], kind: Kind) -> str:
    not_below = sum(not cell.is_significantly_below(f"{kind} held", TARGET) for cell in cells)
    return f"{not_below} of {len(cells)} (lowest {min(cell.share(f'{kind} held') for cell in cells):.3f})"


def _repetitions(cells: Sequence[Tally]) -> str:
    return f"{min(cell.count for cell in cells):,} repetitions a line; {STAR}"


def coverage_summary(cells: list[Tally]) -> Table:
    """The table of widths and biases, by number of rows."""
    sizes = sorted({int(cell.line[-1]) for cell in cells})

    def row(rows: int) -> tuple[str, ...]:
        means = [mean_over(cells, rows, f"{kind} width") for kind in KINDS]
        truth = mean_over(cells, rows, "bootstrap truth")
        bias = [mean_over(cells, rows, f"bootstrap {name}") - truth for name in ("plug-in", "point")]
        yardstick = f"{WIDTHS[rows]:.3f}" if rows in WIDTHS else "-"
        return (f"{rows:,}", *(f"{mean:.4f}" for mean in means), yardstick, *(f"{each:+.4f}" for each in bias))

    widths = ("bootstrap", "analytic", "textbook", "MCE", "bootstrap, as first found")
    return Table(
        "Mean width of the 95% intervals, and bias of the points, over the populations",
        ("rows", *widths, "bias of the plug-in", "bias of `value`"),
        tuple(row(rows) for rows in sizes),
        notes=(
            "Lines of the next table that are not significantly below .93: "
            + ", ".join(f"{kind} {_kept(cells, kind)}" for kind in KINDS)
            + ".",
        ),
    )


def coverage_table(cells: list[Tally], title: str = COVERED) -> Table:
    """The table with one line for each population and number of rows."""
    rows = [
        (
            str(cell.line[0]), f"{cell.line[1]:,}", f"{cell.share('bootstrap truth'):.3f}",
            f"{cell.share('bootstrap plug-in'):.3f}", f"{cell.share('bootstrap point'):.3f}",
            *(text for kind in KINDS for text in (_covered(cell, kind), f"{cell.share(f'{kind} width'):.3f}")),
        )
        for cell in cells
    ]  # fmt: skip
    of_kinds = ("bootstrap", "width", "analytic", "width", "textbook", "width", "MCE", "width")
    return Table(
        title,
        ("population", "rows", "true ECE", "mean plug-in", "mean `value`", *of_kinds),
        tuple(rows),
        notes=(_repetitions(cells),),
    )


def dependent_table(cells: list[Tally]) -> Table:
    """The table of clusters, with and without the cluster column, and of weights."""
    unknown = {(c.line[0], *c.line[2:]): c for c in cells if c.line[1] == "not known"}

    def row(cell: Tally) -> tuple[str, ...]:
        unknown_cell = unknown.get((cell.line[0], *cell.line[2:]))
        ignored = [_covered(unknown_cell, kind) if unknown_cell else "-" for kind in ("analytic", "mce")]
        known = [_covered(cell, kind) for kind in ("bootstrap", "analytic", "mce")]
        return str(cell.line[0]), str(cell.line[2]), f"{cell.line[3]:,}", *known, *ignored

    columns = ("rows that are not alike", "population", "rows", "bootstrap", "analytic", "MCE")
    return Table(
        "Clusters of five copies, and weights: share of 95% intervals that held the truth",
        (*columns, "analytic, no column", "MCE, no column"),
        tuple(row(cell) for cell in cells if cell.line[1] == "known"),
        notes=(_repetitions(cells),),
        texts=2,
    )
