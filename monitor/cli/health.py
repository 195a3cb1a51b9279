"""``calmon health``: is the monitor at work? For a container's check and for people."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from monitor import watch
from monitor.adapters import utc_now
from monitor.cli import app as cli
from monitor.history.store import Store
from monitor.records import Severity
from monitor.watching import observed

_MARKS: dict[Severity, str] = {"critical": "red", "warning": "yellow", "info": "cyan"}


@cli.app.command(
    epilog="Examples:  calmon health  ·  calmon health --json  ·  "
    "HEALTHCHECK CMD calmon health    in a container that shares the history",
)
def health(
    json_output: cli.JsonFlag = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 on warnings too, not only on what is critical.")
    ] = False,
) -> None:
    """Whether runs, data, messages and leases are as they should be. Exit 0: yes; 1: something is critical.

    Reads the history and alerts.yaml only; the warehouse and Slack are not asked (`calmon check` does).
    """
    with cli.plain_errors():
        config = cli.configuration()
        # not the empty one in memory that stands for a missing history elsewhere: nobody would notice a wrong address
        with Store.from_url(cli.settings().store_url.get_secret_value(), create=False) as store:
            seen = observed(store, config, utc_now())
    found = watch.findings(seen, utc_now())
    bad = [f for f in found if f.is_unhealthy or (strict and f.severity == "warning")]
    never = seen.since is None
    if json_output:
        rows = [{"reason": f.reason, "severity": f.severity, "text": f.text, "do_now": f.do_now} for f in found]
        typer.echo(json.dumps({"healthy": not bad, "ever_run": not never, "findings": rows}, indent=1))
    else:
        for each in found:
            cli.out.print(f"{each.severity}: {each.text}", style=_MARKS[each.severity], markup=False, soft_wrap=True)
            cli.out.print(f"  do now: {each.do_now} (docs/runbook/{each.reason}.md)", markup=False, soft_wrap=True)
        if not found:
            cli.out.print("nothing has been run yet" if never else "healthy")
    if bad:
        raise typer.Exit(cli.FAILED)
