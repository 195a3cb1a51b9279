"""``calmon`` in its own process, forked from one that has imported the large libraries already.

For tests of what a process does or leaves behind; tests of its start use ``python -m monitor``.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

import monitor

LIBRARIES = (
    "duckdb", "matplotlib.backends.backend_agg", "matplotlib.figure", "pandas", "rich.console", "rich.progress",
    "scipy.stats", "sqlalchemy.dialects.sqlite", "typer.main", "uvicorn",
)  # fmt: skip
CALMON = Path(monitor.__file__).parent
#: All modules of calmon, except those that inspect their process at import: migrations, and commands with their
#: console.
ROOMS = [
    ".".join(path.relative_to(CALMON.parent).with_suffix("").parts)
    for path in sorted(CALMON.rglob("*.py"))
    if "migrations" not in path.parts and "cli" not in path.parts and path.name not in ("__init__.py", "__main__.py")
]
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload([__name__, *LIBRARIES, *ROOMS, "tests.fakes.slack_killed"])
PATIENCE_S = 400


def calmon(
    folder: Path, environment: Mapping[str, str], *words: str, main: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """``calmon WORDS`` in that folder and environment; ``main``, a function of a module, is called in its place."""
    with TemporaryDirectory() as said:
        output, errors = Path(said) / "output", Path(said) / "errors"
        process = start(folder, environment, *words, output=output, errors=errors, main=main)
        process.join(PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"calmon {' '.join(words)} did not end within {PATIENCE_S} s")
        return subprocess.CompletedProcess(
            words, process.exitcode, output.read_text("utf-8"), errors.read_text("utf-8")
        )


def start(
    folder: Path, environment: Mapping[str, str], *words: str, output: Path, errors: Path,
    main: Callable[[], None] | None = None,
) -> BaseProcess:  # fmt: skip
    """Start ``calmon`` without waiting for its end; its output is appended to two files, or to one."""
    output.touch()
    errors.touch()
    process = processes.Process(target=_become, args=(folder, dict(environment), words, output, errors, main))
    process.start()
    return process


def _become(
    folder: Path, environment: Mapping[str, str], words: tuple[str, ...], output: Path, errors: Path,
    main: Callable[[], None] | None,
) -> None:  # fmt: skip
    """Become that process: its streams, folder, environment and arguments. Imported objects are never collected."""
    gc.freeze()
    for number, file in ((1, output), (2, errors)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ |= environment
    sys.argv = ["calmon", *words]
    if main is None:
        from monitor.cli import main
    main()
