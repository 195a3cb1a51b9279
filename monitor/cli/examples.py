"""``calmon examples``."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.markup import escape

from monitor.cli import common as cli
from monitor.core.records import Schedule
from monitor.core.wording import clean
from monitor.operations.examples import Examples, document, examples
from monitor.warehouse.statements import ExampleQuery

MOST = 10_000
Wrong = Annotated[bool, typer.Option("--wrong/--right", help="Decisions that were wrong, or that were right.")]


@cli.app.command(
    "examples",
    epilog="Examples:  calmon examples --label phishing --wrong --score-min 0.9  ·  calmon examples --label billing "
    "--wrong --score-max 0.1 --week 2026-W46  ·  calmon examples --source tickets --right --limit 5 --json",
)
def examples_command(
    label: Annotated[str | None, typer.Option("--label", help="The label; left out: any of the source.")] = None,
    wrong: Wrong = True,
    score_min: Annotated[float, typer.Option(min=0.0, max=1.0, help="Scores from here on.")] = 0.0,
    score_max: Annotated[float, typer.Option(min=0.0, max=1.0, help="Scores up to here.")] = 1.0,
    source: cli.SourceOption = None,
    week: cli.WeekOption = None,
    date: Annotated[str | None, typer.Option(help="A day like 2026-11-16 instead of a week.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="How many rows at most.")] = 20,
    json_output: cli.JsonFlag = False,
) -> None:
    """The rows behind a finding: ids of items, the most confident errors first.

    Read from the warehouse, which must still have them: the history keeps no ids. A low score is a confident decision
    too: that the label is not given.
    """
    if week is not None and date is not None:
        raise cli.UsageError("give --week or --date, not both")
    if score_min > score_max:
        raise cli.UsageError(f"--score-min {score_min:g} is above --score-max {score_max:g}: no score lies there")
    schedule: Schedule = "weekly" if date is None else "daily"
    query = ExampleQuery(label, right=not wrong, least=score_min, most=score_max, limit=limit)
    with cli.monitor(writes=False) as opened:
        names = cli.check_source(opened.config, source) or list(opened.config.sources)
        window = cli.window_of(opened.config, schedule, date or week)
        found = examples(opened, cli.source_with(opened.store, names, label, window), window, query)
        if json_output:
            cli.print_json(document(found))
        else:
            _show(found, opened.config.zone)


def _show(found: Examples, zone: ZoneInfo) -> None:
    query = found.query
    which = "right" if query.right else "wrong"
    (about,) = cli.cells(
        f"{found.source}, {query.label or 'all labels'}, {found.window.name}: {which}, scores {query.least:g} to "
        f"{query.most:g}, the most confident first"
    )
    segments = [escape(clean(name)) for row in found.rows[:1] for name in row.segments]
    true = ["true label"] if any(row.true_labels for row in found.rows) else []
    rows = [
        (row.item, row.label, f"{row.score:.4f}", f"{row.actual:g}", *("; ".join(row.true_labels) for _ in true),
         f"{row.predicted:d}", f"{row.resolved_at.astimezone(zone):%Y-%m-%d %H:%M}", *row.segments.values())
        for row in found.rows
    ]  # fmt: skip
    cli.out.print(about)
    head = ("item", "label", "score", "actual", *true, "predicted", "resolved at", *segments)
    cli.print_table(head, rows, nothing="No such row.")
    if found.more:
        shown = "1 row is" if len(found.rows) == 1 else f"{len(found.rows)} rows are"
        cli.say(f"{shown} shown, there are more: --limit")
