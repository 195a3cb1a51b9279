"""Every command that a document, a message or a help text names exists, with its options; so does every make target."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from monitor.cli import app

ROOT = Path(__file__).parents[3]
COMMANDS: Any = typer.main.get_command(app)
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
BLOCK = re.compile(r"```(?:console|sh|bash)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`(calmon [^`\n]+|make [^`\n]+)`")


def named(text: str) -> list[str]:
    """The commands of a page: lines after a prompt in blocks, and code in sentences."""
    blocks = "\n".join(BLOCK.findall(text)).replace("\\\n", " ")
    lines = [line.removeprefix("$ ").strip() for line in blocks.splitlines() if line.startswith("$ ")]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [*lines, *INLINE.findall(prose)]


def problem(line: str) -> str:
    """What is wrong with a command line; "" where nothing is, or where it is another program's."""
    words = shlex.split(line, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if not words or words[0] not in ("calmon", "make"):
        return ""
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        return "" if len(words) == 1 or words[1] in targets or "=" in words[1] else f"no target {words[1]}"
    command = COMMANDS
    words = words[1:]
    while words and hasattr(command, "list_commands"):
        name = words.pop(0)
        if name.startswith("-") or re.fullmatch(r"[A-Z]+|\.\.\.", name):
            return ""
        found = command.get_command(None, name)
        if found is None:
            return f"no command {name}"
        command = found
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {
        "--help"
    }
    asked = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return ", ".join(f"no option {option}" for option in asked if option not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    wrong = {line: said for line in named(page.read_text("utf-8")) if (said := problem(line))}
    assert wrong == {}


def test_commands_are_found_and_wrong_ones_too() -> None:
    assert sum(len(named(page.read_text("utf-8"))) for page in PAGES) > 200
    assert problem("calmon run weekly --week 2026-W46 --json") == ""
    assert problem("calmon run weekly --wek 2026-W46") == "no option --wek"
    assert problem("calmon automaton status") == "no command automaton"
    assert problem("make tests") == "no target tests"
