"""The command line: ``calmon``."""

from monitor.cli import (  # noqa: F401 - they add commands
    automation,
    baseline,
    checks,
    database,
    demo,
    examples,
    health,
    history,
    incidents,
    recalibration,
    replay,
    runs,
    service,
    slack,
    thresholds,
)
from monitor.cli.app import app, main

__all__ = ["app", "main"]
