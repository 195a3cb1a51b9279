"""Prefect flows: thin wrappers that put monitor.run on a schedule."""

import os

from monitor.core.process_environment import exempt_loopback, one_thread

exempt_loopback(os.environ)  # before Prefect asks its server
one_thread(os.environ)  # before a flow imports NumPy
