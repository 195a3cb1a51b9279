"""`make simulate`: do the intervals cover, are calm weeks quiet, is a rise seen?

Through the functions that runs use, on made-up rows whose truth is known, seeded. A first version:
what it does not look at yet stands in docs/statistics.md under "Known limits".
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy.stats import chi2

from benchmarks.checkout import DOCS, ROOT, commit_of
from benchmarks.coverage import KINDS, Coverage
from benchmarks.plan import QUICK, RISE, Findings, Plan, cost, full, run
from benchmarks.tables import Table, console, write_between
from benchmarks.weeks import TEXTBOOK, Judged, rules_of, shipped

WEEKS_A_YEAR = 52


def coverage_table(parts: Sequence[Coverage]) -> Table:
    """One line a population and number of rows."""
    rows = [
        (
            part.population, f"{part.n:,}", f"{part.truth / part.repetitions:.3f}",
            f"{part.plug_in / part.repetitions:.3f}",
            *(text for kind in KINDS for text in _of_kind(part, kind)),
        )
        for part in parts
    ]  # fmt: skip
    columns = ("population", "rows", "true ECE", "mean plug-in", "bootstrap", "width", "analytic", "width")
    marked = {kind: sum(part.too_low(kind) for part in parts) for kind in KINDS}
    kept = ", ".join(f"{kind} {len(parts) - low} of {len(parts)}" for kind, low in marked.items())
    return Table(
        "95% intervals: share that held the truth, and mean width",
        (*columns, "textbook", "width", "MCE", "width"),
        tuple(rows),
        notes=(
            f"{parts[0].repetitions} repetitions a line; * coverage surely below .93 (one-sided, 1%).",
            f"Lines without it: {kept}.",
        ),
    )


def _of_kind(part: Coverage, kind: str) -> tuple[str, str]:
    known = next(each for each in KINDS if each == kind)
    mark = "*" if part.too_low(known) else ""
    return f"{part.share(known):.3f}{mark}", f"{part.mean_width(known):.3f}"


def calm_table(parts: Sequence[Judged]) -> Table:
    """Twenty labels in which nothing changed: who rings nevertheless?"""
    names = [rule.id for rule in rules_of(shipped())]
    rows = [
        (
            f"{part.n:,}", name, f"{part.label_weeks:,}", f"{part.breaches[name]:,}",
            f"{100 * part.breaches[name] / part.label_weeks:.2f}%",
            f"{part.incidents[name]:,}",
            "-" if name == TEXTBOOK else f"{100 * part.not_evaluated[name] / part.label_weeks:.0f}%",
        )
        for part in parts
        for name in (*names, TEXTBOOK)
    ]  # fmt: skip
    columns = ("rows a label-week", "rule", "label-weeks", "breaches", "share", "incidents", "not evaluated")
    notes = tuple(_false_a_year(part, names) for part in parts)
    return Table("Nothing changed: false alarms", columns, tuple(rows), notes, texts=2)


def _false_a_year(part: Judged, names: Sequence[str]) -> str:
    seen, years = sum(part.incidents[name] for name in names), part.weeks / WEEKS_A_YEAR
    most = float(chi2.ppf(0.95, 2 * seen + 2)) / 2  # Poisson, one-sided: Garwood 1936
    return (
        f"{part.n:,} rows: {seen} false incidents in {part.weeks} weeks of 20 labels, {seen / years:.2f} a year "
        f"(95% upper limit {most / years:.2f}); the textbook rule: {part.incidents[TEXTBOOK] / years:,.0f} a year."
    )


def risen_table(part: Judged) -> Table:
    """Three labels of twenty got worse: who says so in the first week?"""
    names = [*(rule.id for rule in rules_of(shipped())), TEXTBOOK]
    rows = [
        (
            name, f"{part.planted_weeks:,}", f"{100 * part.found[name] / part.planted_weeks:.1f}%",
            f"{part.breaches[name]:,} of {part.label_weeks:,}",
        )
        for name in names
    ]  # fmt: skip
    title = f"True ECE +{RISE:.2f} on 3 of 20 labels, {part.n:,} rows a label-week: first week"
    return Table(title, ("rule", "risen labels", "found", "alarms on the other 17"), tuple(rows))


def tables(findings: Findings) -> list[Table]:
    """All of it."""
    return [coverage_table(findings.coverage), calm_table(findings.calm), risen_table(findings.risen)]


def section(findings: Findings, day: str, commit: str, command: str) -> str:
    """What goes into the docs: where it comes from, then the tables."""
    plan = findings.plan
    origin = (
        f"Made by `{command}` on {day} at commit {commit}: {plan.repetitions} repetitions a line of the first table, "
        f"seed {plan.seed}, {findings.seconds:.0f} s."
    )
    return "\n\n".join([origin, *(table.markdown() for table in tables(findings))])


def measured(plan: Plan) -> Findings:
    """The plan, with a progress bar on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("simulating", total=sum(cost(task) for task in plan.tasks()))
        findings = run(plan, lambda step: progress.advance(bar, step))
    return replace(findings, seconds=time.monotonic() - began)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description=str(__doc__).split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200, help="intervals a cell; weeks go with it (default 200)")
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/statistics.md")
    given = parser.parse_args(arguments)
    if given.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    if given.quick and given.write_docs:
        parser.error("--quick is a look only: its tables do not belong into the docs")
    plan = QUICK if given.quick else full(given.repetitions)
    findings = measured(plan)
    shown = console()
    for table in tables(findings):
        table.show(shown)
    shown.print(f"{findings.seconds:.0f} s, seed {plan.seed}")
    if given.write_docs:
        command = "python -m benchmarks.simulate" + (
            f" --repetitions {given.repetitions}" if given.repetitions != 200 else ""
        )
        day = datetime.now(UTC).date().isoformat()
        write_between(DOCS, "simulate", section(findings, day, commit_of(ROOT), command))
        shown.print(f"written: {DOCS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
