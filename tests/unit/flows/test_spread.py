"""Processes of a pool end with the process of their flow, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLOW = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from flows.spread import end_with_the_flow

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_the_flow) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def is_there(process: int) -> bool:
    """Whether a process has not ended; what has, and waits to be collected, has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_no_process_of_a_pool_outlives_a_flow_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW, "utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path)}
    flow = subprocess.Popen([sys.executable, "flow.py"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    worker = int(flow.stdout.readline())
    try:
        assert is_there(worker)
        flow.send_signal(signal.SIGKILL)
        flow.communicate()
        deadline = time.monotonic() + 30
        while is_there(worker) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not is_there(worker)
    finally:
        flow.kill()
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
