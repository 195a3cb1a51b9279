"""Prefect flows: thin wrappers that put monitor.run on a schedule."""

import os

from monitor.core.blas import one_thread

one_thread(os.environ)  # before a flow imports NumPy
