"""``calmon serve``: the schedules, by the flows, of which the rest of this package knows nothing."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from monitor.cli import common as cli

_SERVING = "flows.serve"


@cli.app.command(epilog="Example:  calmon serve")
def serve() -> None:
    """Run the weekly and daily schedules, the watch and the outbox in this terminal, as `make serve` does.

    Where PREFECT_API_URL is not set, a Prefect server is started for as long as this runs. Ends with Ctrl-C.
    """
    with cli.plain_errors():
        cli.configuration()  # a broken one starts nothing, and needs no other process to say so
    spec = find_spec(_SERVING.partition(".")[0])
    if spec is None or find_spec("prefect") is None or spec.submodule_search_locations is None:
        raise cli.fail("the schedules are not installed here: install calibration-monitor with its flows and Prefect")
    schedules = Path(next(iter(spec.submodule_search_locations))).parent / "deployments" / "prefect.yaml"
    if not schedules.is_file():
        raise cli.fail(f"{schedules} is not there: run from a checkout, or call `calmon run weekly` from cron")
    sys.stdout.flush()
    # in the place of this process: signals reach it, and what monitor imports stays free of Prefect
    os.execv(sys.executable, [sys.executable, "-m", _SERVING])  # noqa: S606 - our own module
