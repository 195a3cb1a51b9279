"""Where tables of measurements are kept, and the commit of a checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "benchmarks" / "results" / "statistics.md"


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
