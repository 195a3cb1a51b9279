"""How `make serve` ends the server that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

import pytest

from flows import serve

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('begun', flush=True); time.sleep(99)"
)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def test_a_server_that_ignores_the_request_is_killed_where_somebody_asks_once_more() -> None:
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            asking = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
            asking.start()
            serve.stop(server, seconds=90)
            asking.join()
            assert server.returncode == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGUSR1, before)


async def cancelled() -> None:
    raise asyncio.CancelledError


def test_work_that_nobody_asked_to_end_does_not_end_unnoticed() -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(serve.run_until_asked_to_end(cancelled()))
