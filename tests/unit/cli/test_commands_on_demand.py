"""Commands are imported when they are asked for, and none is forgotten."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import monitor.cli
from monitor.cli import app, automation
from monitor.cli.common import Commands
from tests.fakes.world import make_world


@pytest.mark.parametrize("owner", [app, automation.automation_app])
def test_a_group_names_every_command_of_every_module(owner: typer.Typer) -> None:
    group = typer.main.get_group(owner)
    named = group.list_commands(typer.Context(group))
    for module in pkgutil.iter_modules(monitor.cli.__path__):
        importlib.import_module(f"monitor.cli.{module.name}")
    assert set(typer.main.get_group(owner).commands) == set(named)
    assert all(group.get_command(typer.Context(group), name) is not None for name in named)


def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help() -> None:
    group = typer.main.get_group(app)
    helps = {name: group.get_command(typer.Context(group), name).help for name in Commands.modules}
    assert {name: " ".join(text.split("\n\n")[0].split()) for name, text in helps.items()} == dict(Commands.summaries)


HEAVY = {
    "numpy", "pandas", "scipy", "duckdb", "sklearn", "matplotlib", "evidently", "plotly", "prefect", "slack_sdk",
    "alembic", "fastapi", "jinja2",
}  # fmt: skip
QUICK = (["--help"], ["automation", "status", "--help"], ["incidents", "list", "--help"], ["automation", "disable"])


@pytest.mark.parametrize("words", QUICK, ids=" ".join)
def test_what_people_wait_for_imports_no_library_that_takes_long(words: list[str]) -> None:
    assert HEAVY & imported_by(words, os.environ) == set()


@pytest.mark.parametrize("words", [["automation", "status"], ["incidents", "list"]], ids=" ".join)
def test_what_is_read_from_a_history_alone_imports_no_library_that_takes_long(tmp_path: Path, words: list[str]) -> None:
    world = make_world(tmp_path)
    with world.opened():  # makes the history
        pass
    assert HEAVY & imported_by(words, os.environ | world.environment) == set()


def imported_by(words: list[str], environment: Mapping[str, str]) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = f"""
import sys
from monitor.cli import main
sys.argv = {["calmon", *words]!r}
try:
    main()
except SystemExit:
    pass
print("imported", *sys.modules)
"""
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    imported = set(shown.rpartition("imported ")[2].split())
    assert "typer" in imported
    return imported


def test_the_nearest_of_all_commands_is_proposed_for_a_word_that_is_none() -> None:
    shown = subprocess.run([sys.executable, "-m", "monitor", "repot"], capture_output=True, text=True, check=False)
    assert shown.returncode == 2
    assert "Did you mean 'report'" in shown.stderr


def test_the_help_of_a_group_has_what_other_modules_add() -> None:
    told = CliRunner().invoke(app, ["automation", "--help"]).output
    assert "token" in told
    assert "thresholds" in told


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.mark.parametrize("package", ["monitor.cli", "flows"])
def test_commands_and_flows_do_linear_algebra_on_one_thread(package: str) -> None:
    code = (
        f"import {package}, numpy, threadpoolctl; "
        "print({each['num_threads'] for each in threadpoolctl.threadpool_info() if each['user_api'] == 'blas'})"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.strip() == "{1}"


@pytest.mark.parametrize("package", ["monitor.cli", "flows"])
def test_a_server_of_this_machine_is_never_asked_through_a_proxy(package: str) -> None:
    code = (
        f"import {package}, http.server, threading, urllib.request, httpx\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "url = f'http://127.0.0.1:{server.server_port}/'\n"
        "print(urllib.request.urlopen(url).status, httpx.get(url).status_code)"
    )
    proxy = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"} | proxy
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert shown.stdout.strip() == "200 200", shown.stderr
