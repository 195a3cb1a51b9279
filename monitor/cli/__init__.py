"""The command line: ``calmon``. Its commands are in the modules that :data:`monitor.cli.common.Commands` names."""

import os

from monitor.core.blas import one_thread

one_thread(os.environ)  # before anything imports NumPy

from monitor.cli.common import app, main  # noqa: E402 - as above

__all__ = ["app", "main"]
