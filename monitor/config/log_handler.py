"""The handler of the log on standard error, by the environment; ``deployments/logging.yml`` names it for Prefect."""

from __future__ import annotations

import logging
import os
import sys

from monitor.config.environment import given
from monitor.core.log_lines import JsonLines, TextLines, is_ours


def handler(usual: int = logging.NOTSET) -> logging.Handler:
    """The handler; ``usual`` is its level where the environment names none (0: what the loggers let through)."""
    made = logging.StreamHandler(sys.stderr)
    made.setFormatter(JsonLines() if given(os.environ, "log") == "json" else TextLines())
    made.setLevel(logging.getLevelNamesMapping().get((given(os.environ, "log_level") or "").upper(), usual))
    made.addFilter(is_ours)
    return made
