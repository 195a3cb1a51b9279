"""Writes docs/commands.md from the commands' own help: ``python -m tests.write_commands``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
import typer.rich_utils  # here, not below: it keeps for good how wide the terminal is when it is imported
from typer.testing import CliRunner

from monitor.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Commands

Made from the commands' own `--help` by `python -m tests.write_commands`; a test fails when it is out of date.
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 a breach (only with `--exit-code`).
"""


def commands() -> list[tuple[str, ...]]:
    """Every command as the words after ``calmon``, groups included, in the order of their help."""
    found: list[tuple[str, ...]] = [()]

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            found.append((*words, name))
            walk(command.get_command(None, name), (*words, name))

    walk(typer.main.get_command(app), ())
    return found


def help_of(words: tuple[str, ...]) -> str:
    """The help of one command, as a terminal 100 columns wide without colours shows it."""
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"})
    text = runner.invoke(app, [*words, "--help"], prog_name="calmon", terminal_width=100).output
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "\n".join(line.rstrip() for line in plain.splitlines()).strip()


def page() -> str:
    return HEAD + "".join(section(words) for words in commands())


def section(words: tuple[str, ...]) -> str:
    return f"\n## calmon {' '.join(words)}".rstrip() + f"\n\n```text\n{help_of(words)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
