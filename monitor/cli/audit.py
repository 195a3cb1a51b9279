"""``calmon audit plan|draw|import``: which items of what acts alone people check, so that its accuracy stays known."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.config.model import Config
from monitor.core.wording import clean, count_of
from monitor.operations.audit import draw, plan, sheet_of
from monitor.operations.import_audit import import_audit, rows_of_file
from monitor.warehouse.audit_table import add_drawn, filled_rows

audit_app = typer.Typer(no_args_is_help=True, help="Truth for what acts alone: how many items to check, and which.")
cli.app.add_typer(audit_app, name="audit")

FallOption = Annotated[float, typer.Option(min=0.001, max=1.0, help="The fall of accuracy that must be seen.")]
WeeksOption = Annotated[int, typer.Option(min=1, max=52, help="Within so many weeks.")]
TotalOption = Annotated[int | None, typer.Option("--checks", min=1, help="Instead: so many checks a week in all.")]
TableOption = Annotated[
    str | None, typer.Option(help="Instead of a file: a table in the database of CALMON_AUDIT_URL.")
]
EachOption = Annotated[int | None, typer.Option(min=1, help="Instead of a plan: so many items of each label.")]


@audit_app.command(
    "plan",
    epilog="Examples:  calmon audit plan  ·  calmon audit plan --fall 0.1 --weeks 2  ·  calmon audit plan --checks 300",
)
def plan_command(
    source: cli.SourceOption = None,
    fall: FallOption = 0.05,
    weeks: WeeksOption = 4,
    checks: TotalOption = None,
    week: cli.WeekOption = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """How many random items of each label people must check in a week, so that a fall of its accuracy is seen."""
    with cli.monitor() as opened:
        window = cli.window_of(opened.config, "weekly", week)
        names = _sources(opened.config, source, checks)
        found = {name: plan(opened, name, window, fall, weeks=weeks, total=checks) for name in names}
    if json_output:
        labels = [{"source": name, **asdict(each)} for name, of in found.items() for each in of]
        cli.print_json({"week": window.name, "fall": fall, "labels": labels})
        return
    for name, of in found.items():
        title = f"{name}: to see a fall of {100 * fall:g} points, by the rows of {window.name}"
        rows = [(e.label, f"{e.acted:,}", f"{e.truths:,}", f"{e.checks:,}", f"{e.weeks:.1f} weeks") for e in of]
        cli.print_table(("label", "acted", "truth known", "check a week", "seen after"), rows, title=title)
        total = count_of(sum(each.checks for each in of), "item")
        cli.say(
            f"{total} a week in all. Truths that come by themselves are often of items that somebody complained about: "
            "only a random part says how accurate the others are."
        )


def _sources(config: Config, source: str | None, checks: int | None) -> list[str]:
    of_labels = [name for name, each in config.sources.items() if each.kind != "regression"]
    names = cli.check_source(config, source) or of_labels
    if checks is not None and len(names) > 1:
        raise cli.UsageError(f"--checks is of one source: say which with --source ({', '.join(names)})")
    return names


@audit_app.command(
    "draw",
    epilog="Examples:  calmon audit draw --source tickets --out audit.csv  ·  calmon audit draw --table audit_sample",
)
def draw_command(
    out: Annotated[Path | None, typer.Option(help="The CSV file: ids of items, no text.")] = None,
    table: TableOption = None,
    source: cli.SourceOption = None,
    fall: FallOption = 0.05,
    weeks: WeeksOption = 4,
    checks: TotalOption = None,
    each: EachOption = None,
    week: cli.WeekOption = None,
    seed: Annotated[str, typer.Option(help="Another seed draws other items; the same one draws the same.")] = "audit",
) -> None:
    """Draw the items of a week that people check, as many as planned, at random among those that act alone.

    The history keeps how many each stands for. People write the truth into the last column, and `calmon audit import`
    reads it. What is in the table already stays as it is.
    """
    _one_place(out, table)
    with cli.monitor() as opened:
        window = cli.window_of(opened.config, "weekly", week)
        names = _sources(opened.config, source, checks)
        parts = (draw(opened, n, window, fall, weeks=weeks, total=checks, each=each, seed=seed) for n in names)
        drawn = [item for part in parts for item in part]
        new = 0 if table is None else add_drawn(opened.settings, table, drawn, window)
    if out is not None:
        cli.write(out, sheet_of(drawn, window))
    known = sum(item.stated is not None for item in drawn)
    where = out if table is None else f"{clean(table)} ({new:,} new)"
    cli.say(
        f"{count_of(len(drawn), 'item')} of {window.name} written to {where}; the truth of {known:,} is known already."
    )


def _one_place(file: Path | None, table: str | None) -> None:
    if (file is None) == (table is None):
        raise cli.UsageError("say one place: a CSV file, or a table with --table")


@audit_app.command(
    "import",
    epilog="Examples:  calmon audit import audit.csv --source tickets  ·  "
    "calmon audit import --table audit_sample --source tickets",
)
def import_command(
    source: Annotated[str, typer.Option(help="The source that the items were drawn of.")],
    file: Annotated[
        Path | None, typer.Argument(help="A CSV file with the columns item and truth, such as draw writes.")
    ] = None,
    table: TableOption = None,
) -> None:
    """Store what people found of drawn items; the next run judges their weeks by it.

    A truth is the true label (multilabel: 1 or 0); an empty one is not decided yet.
    """
    _one_place(file, table)
    with cli.monitor(reads=False) as opened:
        cli.check_source(opened.config, source)
        try:
            if file is not None:
                with file.open(encoding="utf-8-sig", newline="") as lines:
                    stored, undecided, refused = import_audit(opened, source, rows_of_file(lines))
            elif table is not None:
                stored, undecided, refused = import_audit(opened, source, filled_rows(opened.settings, table, source))
        except (OSError, ValueError, csv.Error) as error:
            raise cli.fail(f"{file} cannot be imported: {error}") from error
    for place, why in refused:
        cli.warn(f"{clean(place)}: {why}")
    cli.say(
        f"{count_of(stored, 'line' if table is None else 'row')} stored, {undecided:,} not decided yet, "
        f"{len(refused):,} refused."
    )
    if refused:
        raise typer.Exit(cli.FAILED)
