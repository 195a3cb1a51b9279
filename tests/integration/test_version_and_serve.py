"""`calmon version` says what is installed; `calmon serve` runs the schedules in the place of its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.cli import serve as serving
from monitor.history.reader import REVISION

ROOT = Path(__file__).parents[2]


def test_the_version_has_its_schema() -> None:
    found = CliRunner().invoke(app, ["version", "--json"])
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert (said["schema"], said["version"]) == (REVISION, metadata.version("calibration-monitor"))
    assert (
        CliRunner().invoke(app, ["version"]).stdout.startswith(f"calmon {said['version']}, history schema {REVISION}")
    )


def test_serving_starts_nothing_with_a_broken_configuration(tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text("version: 2\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CALMON_")}
    found = subprocess.run(
        [sys.executable, "-m", "monitor", "serve"], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=False, env=environment | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert found.returncode == 2, found.stderr
    assert "CAL007" in found.stderr
    assert not (tmp_path / "var").exists()


def test_it_runs_in_the_place_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(os, "execv", lambda _, words: called.append(words))
    assert CliRunner().invoke(app, ["serve"]).exit_code == 0
    assert called == [[sys.executable, "-m", "flows.serve"]]


def test_without_prefect_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(serving, "find_spec", lambda _: None)
    found = CliRunner().invoke(app, ["serve"])
    assert found.exit_code == 1
    assert "the schedules are not installed here" in found.stderr


def test_a_run_of_the_schedules_ends_without_a_word_of_what_a_thread_still_holds() -> None:
    lines = (
        "import sys, threading, time, duckdb, flows",
        "x = duckdb.connect(); threading.Thread(target=lambda: (x, time.sleep(60)), daemon=True).start()",
        "print('said', file=sys.stderr)",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "said\n"  # without flows, DuckDB 2.0 adds forty lines
