"""What the monitor is held against: simulations of its decisions, and its speed beside that of peers.

One thread each: numpy reads these variables when it is first imported, so they are set here, where
they come first. Two processes beside each other would otherwise fight for the same two cores.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
