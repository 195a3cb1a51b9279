"""Commands are imported when they are asked for, and none is forgotten."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import monitor.cli
from monitor.cli import app, automation


@pytest.mark.parametrize("owner", [app, automation.automation_app])
def test_a_group_names_every_command_of_every_module(owner: typer.Typer) -> None:
    group = typer.main.get_group(owner)
    named = group.list_commands(typer.Context(group))
    for module in pkgutil.iter_modules(monitor.cli.__path__):
        importlib.import_module(f"monitor.cli.{module.name}")
    assert set(typer.main.get_group(owner).commands) == set(named)
    assert all(group.get_command(typer.Context(group), name) is not None for name in named)


def test_the_nearest_of_all_commands_is_proposed_for_a_word_that_is_none() -> None:
    shown = subprocess.run([sys.executable, "-m", "monitor", "repot"], capture_output=True, text=True, check=False)
    assert shown.returncode == 2
    assert "Did you mean 'report'" in shown.stderr


def test_the_help_of_a_group_has_what_other_modules_add() -> None:
    told = CliRunner().invoke(app, ["automation", "--help"]).output
    assert "token" in told
    assert "thresholds" in told
