"""The end of a process of ``calmon``."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUN = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0, gc.isenabled()))  # the last to be called
from monitor.cli import main
sys.argv = ["calmon", "version"]
try:
    main()
finally:
    print(gc.isenabled())
"""


@pytest.mark.parametrize(("before", "said"), [("", "True False"), ("import duckdb; duckdb.connect()", "False False")])
def test_a_command_ends_without_searching_for_cycles_and_duckdb_misses_nothing(before: str, said: str) -> None:
    ended = subprocess.run([sys.executable, "-c", before + RUN], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.splitlines()[-2:] == ["True", said]  # whoever called main() has a collector still
    assert ended.stderr == ""
