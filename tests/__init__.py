"""All tests, with linear algebra on one thread, as calmon and its flows do it."""

import os

from monitor.core.process_environment import one_thread

one_thread(os.environ)  # before anything imports NumPy
