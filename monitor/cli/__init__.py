"""The command line: ``calmon``."""

from monitor.cli import automation, baseline, checks, demo, history, incidents, runs, service  # noqa: F401 - they add commands
from monitor.cli.app import app, main

__all__ = ["app", "main"]
