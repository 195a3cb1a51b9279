"""``calmon health``: whether the monitor itself works, for a container's check and for people."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.alerting.health import issues
from monitor.alerting.health.look import automation_line, observed
from monitor.cli import common as cli
from monitor.context import utc_now
from monitor.core.records import Severity
from monitor.report.csv_table import Table

_MARKS: dict[Severity, str] = {"critical": "red", "warning": "yellow", "info": "cyan"}
NOT_CHECKED = ("warehouse", "Slack")


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
    """Whether runs, data, messages and leases are as they should be. Exit 0: yes; 1: not.

    Reads the history and alerts.yaml only; the warehouse and Slack are not asked (`calmon check` does).
    """
    config = cli.configuration()
    # not the empty one in memory that replaces a missing history elsewhere: nobody would notice a wrong address
    with cli.existing_store() as store:
        now = utc_now()
        with store.one_moment():
            records = observed(store, config, now, has_buttons=cli.settings().has_buttons)
    found = issues.findings(records, now)
    bad = [each for each in found if each.is_unhealthy or (strict and each.severity == "warning")]
    automation = automation_line(records, now)
    if json_output:
        rows = Table.of(found, "reason", "severity", "text", "do_now").documents
        state = {"healthy": not bad, "ever_run": records.since is not None, "automation": automation, "findings": rows}
        cli.print_json(state | {"as_of": now, "not_checked": NOT_CHECKED})
    else:
        for each in found:
            cli.say(f"{each.severity}: {each.text}", style=_MARKS[each.severity])
            cli.say(f"  do now: {each.do_now} (calmon docs {each.reason})")
        if found:
            cli.say(f"automation: {automation}")
        else:
            cli.out.print("healthy" if records.since is not None else issues.NEVER_RUN)
        basis = f"As of {now:%Y-%m-%d %H:%M} UTC, from stored runs and alerts.yaml. Not checked: "
        cli.say(f"{basis}{' and '.join(NOT_CHECKED)} (`calmon check`).")
    if bad:
        raise typer.Exit(cli.FAILED)
