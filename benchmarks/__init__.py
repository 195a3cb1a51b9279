"""Benchmarks of the monitor: simulations of its decisions, and its speed compared with other libraries.

Each process has one thread, so that two processes do not compete for the same two cores. NumPy reads
these variables when it is first imported, so they are set here.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
