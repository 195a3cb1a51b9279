"""``calmon incidents list``, ``calmon db upgrade``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from monitor.cli import app as cli
from monitor.history.store import Store
from monitor.records import Incident, Subject
from monitor.report.terminal import plain_table

incidents_app = typer.Typer(no_args_is_help=True, help="Runs of breaches of one rule on one label.")
cli.app.add_typer(incidents_app, name="incidents")
db_app = typer.Typer(no_args_is_help=True, help="The history database.")
cli.app.add_typer(db_app, name="db")


@incidents_app.command("list", epilog="Example:  calmon incidents list --all --json")
def list_command(
    every: Annotated[bool, typer.Option("--all", help="Resolved ones too.")] = False, json_output: cli.JsonFlag = False
) -> None:
    """Open incidents, the newest first."""
    with cli.store() as store:
        found = sorted(store.incidents(state=None if every else "open"), key=lambda i: i.opened_at, reverse=True)
    if json_output:
        typer.echo(json.dumps([_row(incident) for incident in found], indent=1))
        return
    table = plain_table("severity", "rule", "label", "since", "breaches", "verdict", *(["state"] if every else []))
    for i in found:
        name = Subject(i.source, i.label).name
        row = (i.severity, i.rule, name, i.opened_window, str(i.breaches), i.last_verdict[:8])
        table.add_row(*cli.cells(*row, *([i.state] if every else [])))
    cli.out.print(table if found else "no incident is open")


def _row(incident: Incident) -> dict[str, object]:
    return {
        "id": incident.id, "rule": incident.rule, "source": incident.source, "label": incident.label,
        "severity": incident.severity, "state": incident.state, "opened_window": incident.opened_window,
        "opened_at": incident.opened_at.isoformat(), "breaches": incident.breaches, "reason": incident.reason,
        "verdict": incident.last_verdict, "resolved_window": incident.resolved_window,
    }  # fmt: skip


@db_app.command(epilog="Example:  calmon db upgrade")
def upgrade() -> None:
    """Bring the history database to this version's schema. Nothing is lost; run it after an update."""
    with cli.plain_errors():
        url = cli.settings().store_url.get_secret_value()
        with Store.from_url(url, create=True, check=False) as store:
            before = store.revision()
            store.upgrade()
            after = store.revision()
    cli.out.print(f"the history is at revision {after}" + ("" if before == after else f" (it was {before})"))
