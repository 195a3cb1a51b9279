"""``make demo``: the story through Prefect's flows, on a server of its own, its past weeks on worker processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from monitor.core.windows import week
from tests.integration.test_demo import last_week, masked, shown

ROOT = Path(__file__).parents[2]
PROGRAM = """
import datetime
from flows import demo
demo.prepare_prefect()
from monitor.demo import story
story.utc_now = lambda: {now!r}
raise SystemExit(demo.main())
"""


@pytest.mark.slow  # a Prefect server, and 18 weeks of 11 labels
@pytest.mark.prefect
@pytest.mark.timeout(1500)
def test_make_demo_prints_what_the_readme_shows_and_leaves_no_process(tmp_path: Path) -> None:
    now = week(last_week("README.md"), UTC).end + timedelta(days=2)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CALMON_", "PREFECT_"))}
    environment |= {
        "CALMON_WAREHOUSE_URL": f"duckdb:///{tmp_path / 'warehouse.duckdb'}", "PYTHONPATH": str(ROOT), "COLUMNS": "80",
        "CALMON_STORE_URL": f"sqlite:///{tmp_path / 'history.sqlite'}", "CALMON_CONFIG": str(ROOT / "alerts.yaml"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
    }  # fmt: skip
    command = [sys.executable, "-c", PROGRAM.format(now=now)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parts = [masked(part) for part in re.split(r"^\[\.\.\.\]\n", shown("README.md"), flags=re.M)]
    assert [part for part in parts if part not in masked(done.stdout)] == []
    assert _processes_with(str(tmp_path)) == []


def _processes_with(text: str) -> list[str]:
    """The command lines of processes whose environment has a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found
