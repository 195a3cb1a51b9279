"""``calmon version``: what is installed."""

from __future__ import annotations

import platform
from importlib import metadata

from monitor.cli import common as cli
from monitor.history.reader import REVISION


@cli.app.command(epilog="Examples:  calmon version  ·  calmon version --json")
def version(as_json: cli.JsonFlag = False) -> None:
    """The version, the schema of its history, and the version of Python."""
    try:
        installed = metadata.version("calibration-monitor")
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        installed = "not installed"
    if as_json:
        cli.print_json({"version": installed, "schema": REVISION, "python": platform.python_version()})
    else:
        cli.say(f"calmon {installed}, history schema {REVISION}, Python {platform.python_version()}")
