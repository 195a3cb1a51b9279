"""The command line: ``calmon``. Its commands are in the modules that :data:`monitor.cli.common.Commands` names."""

from monitor.cli.common import app, main

__all__ = ["app", "main"]
