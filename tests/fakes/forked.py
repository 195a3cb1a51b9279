"""``calmon`` in a process of its own that is forked from one which has imported the large libraries already.

For tests of what a process does or leaves behind; how one starts is tested with ``python -m monitor``.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb  # noqa: F401 - what a run imports when it comes to it
import pandas as pd  # noqa: F401 - the same
import scipy.stats  # noqa: F401 - the same

import monitor.evaluation.shift.drift_report
import monitor.run  # noqa: F401 - the same
from tests.fakes import slack_killed  # noqa: F401 - the same

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload([__name__])
PATIENCE_S = 400


def calmon(
    folder: Path, environment: Mapping[str, str], *words: str, main: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """``calmon WORDS`` in that folder and environment; ``main``, a function of a module, is called in its place."""
    with TemporaryDirectory() as said:
        process = processes.Process(target=_become, args=(Path(said), folder, dict(environment), words, main))
        process.start()
        process.join(PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"calmon {' '.join(words)} did not end within {PATIENCE_S} s")
        output, errors = ((Path(said) / name).read_text("utf-8") for name in ("1", "2"))
    return subprocess.CompletedProcess(words, process.exitcode, output, errors)


def _become(
    said: Path, folder: Path, environment: Mapping[str, str], words: tuple[str, ...], main: Callable[[], None] | None
) -> None:
    """Be that process: its streams, folder, environment and arguments."""
    for number in (1, 2):
        os.dup2(os.open(said / str(number), os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ |= environment
    sys.argv = ["calmon", *words]
    if main is None:
        from monitor.cli import main
    main()
