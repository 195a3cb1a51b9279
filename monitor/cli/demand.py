"""Commands that are imported on demand.

An emergency stop must not wait for pandas and SciPy, which other commands need. So a group has the names of its
commands, the module of each and its summary, and its help imports none of them; completion imports what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class OnDemand(TyperGroup):
    """A group whose ``modules`` (command -> module) add commands to its ``owner`` as they are imported."""

    modules: ClassVar[Mapping[str, str]] = {}
    summaries: ClassVar[Mapping[str, str]] = {}
    """The first sentence of the help of a command, for the help of its group. Without one the command is imported."""
    owner: ClassVar[typer.Typer]
    """The application whose group this is."""
    _lists = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The group's own commands, then those of modules."""
        return [*(name for name in self.commands if name not in self.modules), *self.modules]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the group, with the summary of each command."""
        self._lists = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lists = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; for an unknown name all are imported, so that the nearest can be proposed.

        For the help of the group, it is a command that has only its name and its summary.
        """
        if self._lists and cmd_name in self.summaries and cmd_name not in self.commands:
            return TyperCommand(cmd_name, help=self.summaries[cmd_name])
        if cmd_name not in self.commands:
            for module in [self.modules[cmd_name]] if cmd_name in self.modules else set(self.modules.values()):
                import_module(module)
            self.commands.update(typer.main.get_group(self.owner).commands)
        return super().get_command(ctx, cmd_name)
