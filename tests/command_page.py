"""The page on commands, made from their own help: ``make docs`` puts it into the site (``docs/site_hooks.py``)."""

from __future__ import annotations

import re
from typing import Any

import typer

from monitor.cli import app

HEAD = """# Commands

Made from the commands' own help; `--help` shows types and examples too. Exit codes: 0 done, 1 failed, 2 wrong usage or
configuration, 3 a breach (only with `--exit-code`).
"""
COMMANDS: Any = typer.main.get_command(app)


def commands() -> list[tuple[str, ...]]:
    """Every command as the words after ``calmon``, groups included, in the order of their help."""
    found: list[tuple[str, ...]] = [()]

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name in command.list_commands(None) if is_group(command) else ():
            found.append((*words, name))
            walk(command.get_command(None, name), (*words, name))

    walk(COMMANDS, ())
    return found


def is_group(command: Any) -> bool:
    return hasattr(command, "list_commands")


def command_of(words: tuple[str, ...]) -> Any:
    command = COMMANDS
    for word in words:
        command = command.get_command(None, word)
    return command


def page() -> str:
    return HEAD + "".join(section(words) for words in commands() if not is_group(command_of(words)))


def section(words: tuple[str, ...]) -> str:
    """The heading of a command, what it does, and a line for each of its arguments and options."""
    command = command_of(words)
    parameters = [line for each in command.params if (line := parameter(each))]
    said = "\n".join(joined(part) for part in str(command.help).split("\n\n"))
    return (
        f"\n## calmon {' '.join(words)}\n\n{said}\n"
        + "".join(f"\n- {line}" for line in parameters)
        + "\n" * bool(parameters)
    )


def parameter(each: Any) -> str:
    """An argument or option in one line; "" for what every command has."""
    if "--help" in each.opts:
        return ""
    names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
    default = "" if each.default in (None, False, ()) or callable(each.default) else f" [{each.default}]"
    return joined(f"{names}{' (required)' if each.required else ''}: {each.help or ''}{default}")


def joined(text: str) -> str:
    return " ".join(re.sub(r"[\b]", "", text).split())
