"""``calmon audit plan|draw``: which items of what acts alone people check, so that its accuracy stays known."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.config.model import Config
from monitor.core.records import Window
from monitor.core.wording import count_of
from monitor.history.store import Store
from monitor.operations.audit import LabelPlan, NothingToPlan, draw, plan
from monitor.report.console import plain_table
from monitor.warehouse.unresolved import DrawnItem

audit_app = typer.Typer(no_args_is_help=True, help="Truth for what acts alone: how many items to check, and which.")
cli.app.add_typer(audit_app, name="audit")

FallOption = Annotated[float, typer.Option(min=0.001, max=1.0, help="The fall of accuracy that must be seen.")]
WeeksOption = Annotated[int, typer.Option(min=1, max=52, help="Within so many weeks.")]
TotalOption = Annotated[int | None, typer.Option("--checks", min=1, help="Instead: so many checks a week in all.")]
WeekOption = Annotated[str | None, typer.Option(help="An ISO week; default: the last ready one.")]
COLUMNS = ("source", "label", "item", "score", "weight", "week")


@audit_app.command(
    "plan",
    epilog="Examples:  calmon audit plan  ·  calmon audit plan --fall 0.1 --weeks 2  ·  calmon audit plan --checks 300",
)
def plan_command(
    source: cli.SourceOption = None,
    fall: FallOption = 0.05,
    weeks: WeeksOption = 4,
    checks: TotalOption = None,
    week: WeekOption = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """How many random items of each label people must check in a week, so that a fall of its accuracy is seen."""
    with cli.store() as store:
        config = cli.configuration()
        window = cli.window_of(config, "weekly", week)
        found = _planned(store, config, source, window, fall, weeks, checks)
    if json_output:
        rows = [{"source": name, **asdict(each)} for name, of in found.items() for each in of]
        typer.echo(json.dumps({"week": window.name, "fall": fall, "labels": rows}, indent=1, ensure_ascii=False))
        return
    for name, of in found.items():
        (title,) = cli.cells(f"{name}: to see a fall of {100 * fall:g} points, by the rows of {window.name}")
        table = plain_table(
            "label", "check a week", "seen after", "acted, truth known", "with these alone", title=title
        )
        for each in of:
            alone = "over a year" if each.weeks_without > 52 else f"{each.weeks_without:.0f} weeks"
            table.add_row(
                *cli.cells(each.label), f"{each.checks:,}", f"{each.weeks:.1f} weeks", f"{each.truths:,}", alone
            )
        cli.out.print(table)
        total = count_of(sum(each.checks for each in of), "item")
        cli.out.print(
            f"{total} a week in all. Truths that come by themselves are often of items that somebody complained about: "
            "only a random part says how accurate the others are.",
            markup=False, highlight=False,
        )  # fmt: skip


def _planned(
    store: Store, config: Config, source: str | None, window: Window, fall: float, weeks: int, checks: int | None
) -> dict[str, list[LabelPlan]]:
    names = cli.check_source(config, source) or [
        name for name, each in config.sources.items() if each.kind != "regression"
    ]
    if checks is not None and len(names) > 1:
        raise cli.UsageError(f"--checks is of one source: say which with --source ({', '.join(names)})")
    try:
        return {name: plan(store, config, name, window, fall, weeks=weeks, total=checks) for name in names}
    except NothingToPlan as error:
        raise cli.fail(str(error)) from error


@audit_app.command("draw", epilog="Example:  calmon audit draw --source tickets --out audit.csv")
def draw_command(
    out: Annotated[Path, typer.Option(help="The CSV file: ids of items, no text.")],
    source: cli.SourceOption = None,
    fall: FallOption = 0.05,
    weeks: WeeksOption = 4,
    checks: TotalOption = None,
    week: WeekOption = None,
    seed: Annotated[str, typer.Option(help="Another seed draws other items; the same one draws the same.")] = "audit",
) -> None:
    """Draw the items of a week that people check, as many as planned, at random among those that act alone.

    The weight of an item is how many it stands for: 1 / the chance that it is drawn.
    """
    with cli.monitor(writes=False) as opened:
        window = cli.window_of(opened.config, "weekly", week)
        planned = _planned(opened.store, opened.config, source, window, fall, weeks, checks)
        drawn: list[tuple[str, DrawnItem, float]] = []
        for name, of in planned.items():
            wanted = {each.label: each.checks for each in of}
            try:
                found = draw(opened, name, window, wanted, f"{seed} {window.name}")
            except NothingToPlan as error:
                raise cli.fail(str(error)) from error
            drawn += [(name, item, max(1.0, item.of / wanted[item.label])) for item in found]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(
        [name, item.label, item.item, item.score, f"{weight:.6g}", window.name] for name, item, weight in drawn
    )
    cli.write(out, text.getvalue())
    known = sum(item.is_known for _, item, _ in drawn)
    cli.out.print(
        f"{count_of(len(drawn), 'item')} of {window.name} written to {out}; the truth of {known:,} is known already.",
        markup=False, highlight=False,
    )  # fmt: skip
