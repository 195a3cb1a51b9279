"""``calmon serve``: the schedules, run by the flows, which the rest of this package does not import."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.config.load import load_config
from monitor.core.schedules import in_zone
from monitor.core.shipped import SCHEDULES_FILE, shipped

_SERVING = "flows.serve"


@cli.app.command(epilog="Examples:  calmon serve  ·  calmon serve --print-schedules > prefect.yaml")
def serve(
    print_schedules: Annotated[
        bool, typer.Option("--print-schedules", help="Print them for a Prefect server of your own, and end.")
    ] = False,
) -> None:
    """Run the weekly and daily schedules, the watch and the outbox in this terminal, as `make serve` does.

    Where PREFECT_API_URL is not set, a Prefect server is started for as long as this runs. Ends with Ctrl-C.
    """
    if print_schedules:
        text, file = shipped(SCHEDULES_FILE).read_text("utf-8"), cli.settings().config
        if not file.exists():
            cli.warn(f"note: there is no {file} yet: the schedules are in UTC")
        sys.stdout.write(in_zone(text, load_config(file).timezone) if file.exists() else text)
        return
    cli.configuration()  # a broken one is reported here, before another process starts
    if find_spec(_SERVING.partition(".")[0]) is None or find_spec("prefect") is None:
        raise cli.fail("the schedules are not installed here: install calibration-monitor with its flows and Prefect")
    server = "" if os.environ.get("PREFECT_API_URL") else " and a Prefect server for them"
    cli.say(f"Starting the schedules{server}: this takes up to a minute.")
    sys.stdout.flush()
    # in the place of this process: signals reach it, and what monitor imports stays free of Prefect
    os.execv(sys.executable, [sys.executable, "-m", _SERVING])  # noqa: S606 - our own module
