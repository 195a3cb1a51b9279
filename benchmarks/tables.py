"""Tables that are shown both in the terminal and in the docs, with the commit that they were made at."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "benchmarks" / "results" / "statistics.md"


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its title and notes; the first ``texts`` columns are words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    texts: int = 1

    def markdown(self) -> str:
        """The table for the docs."""
        rule = ["---"] * self.texts + ["---:"] * (len(self.columns) - self.texts)
        lines = [f"**{self.title}**", "", _line(self.columns), _line(rule), *map(_line, self.rows)]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip()

    def show(self, console: Console) -> None:
        """The table in the terminal."""
        table = RichTable(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="left" if index < self.texts else "right")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}")
        console.print()


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def console() -> Console:
    """A console on standard output; wide enough for a table if it is not a terminal."""
    found = Console(markup=False, highlight=False)
    return found if found.is_terminal else Console(markup=False, highlight=False, width=140)


def write_between(path: Path, marker: str, text: str) -> None:
    """Replace the text between ``<!-- marker:begin -->`` and ``<!-- marker:end -->`` in a file.

    Raises ValueError if the file does not have both, once and in this order.
    """
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end) or begin in after or end in after or end in before:
        raise ValueError(f"{path} must have {begin} and then {end}, each once")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def publish(tables: Sequence[Table], marker: str, command: str, more: str = "", *, page: Path | None = DOCS) -> None:
    """Show tables and put them into a page between their markers; without a page only show them.

    Above them stand the command that made them, the day, the commit, and ``more``.
    """
    for table in tables:
        table.show(console())
    if page is not None:
        day = datetime.now(UTC).date().isoformat()
        origin = f"Made by `python -m benchmarks.{command} --write-docs` on {day} at commit {commit_of(ROOT)}{more}."
        write_between(page, marker, "\n\n".join([origin, *(table.markdown() for table in tables)]))
        console().print(f"written: {page.relative_to(ROOT)}")


def machine() -> str:
    """What a measurement of time depends on."""
    return f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"


def commit_of(root: Path) -> str:
    """The commit of a checkout, and a note if the code has uncommitted changes."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return "unknown"
    head = _output(git, "-C", str(root), "rev-parse", "--short", "HEAD")
    changed = _output(git, "-C", str(root), "status", "--porcelain", "--", "monitor", "benchmarks", "alerts.yaml")
    return f"{head or 'unknown'}{' with uncommitted changes' if changed else ''}"


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - git, by its full path
    return done.stdout.strip()
