"""Prefect flows: thin wrappers that put monitor.run on a schedule."""

import atexit
import os

from monitor.core.process_environment import exempt_loopback, one_thread, silent_end

atexit.register(silent_end)  # the first that is registered is the last that runs
exempt_loopback(os.environ)  # before Prefect asks its server
one_thread(os.environ)  # before a flow imports NumPy
