"""The command line: ``calmon``. Its commands are in the modules that :data:`monitor.cli.common.Commands` names."""

import gc
import os

from monitor.core.process_environment import drop_odd_sizes, exempt_loopback, one_thread

GARBAGE_AFTER = (50_000, 20, 100)
"""Thresholds of Python's search for reference cycles: imports leave none, and the search took 5% of a command."""

gc.set_threshold(*GARBAGE_AFTER)  # before the imports, which make most of the objects of a command
exempt_loopback(os.environ)  # before anything asks a server of this machine
one_thread(os.environ)  # before anything imports NumPy
drop_odd_sizes(os.environ)  # before anything makes a console

from monitor.cli.common import app, main  # noqa: E402 - as above

__all__ = ["GARBAGE_AFTER", "app", "main"]
