"""``calmon version``: what is installed."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from monitor.cli import common as cli
from monitor.history.reader import REVISION

_DISTRIBUTION = "calibration-monitor"
_ROOT = Path(__file__).parents[2]


@cli.app.command(epilog="Examples:  calmon version  ·  calmon version --json")
def version(as_json: cli.JsonFlag = False) -> None:
    """The version, its commit, the schema of its history, and the versions of what it depends on."""
    found = _installed()
    if as_json:
        cli.out.print_json(json.dumps(found))
        return
    commit = f"commit {found['commit']}" if found["commit"] else "no commit known"
    head = f"calmon {found['version']} ({commit}), history schema {found['schema']}, Python {found['python']}"
    cli.say(head)
    cli.say(", ".join(f"{name} {number}" for name, number in found["dependencies"].items()))


def _installed() -> dict[str, Any]:
    try:
        ours, needed = metadata.version(_DISTRIBUTION), metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        ours, needed = "not installed", []
    names = [re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in needed if "extra ==" not in each]
    return {
        "version": ours,
        "commit": _commit(),
        "schema": REVISION,
        "python": platform.python_version(),
        "dependencies": {name: number for name in sorted(names) if (number := _number_of(name)) is not None},
    }


def _number_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that runs; None where it is an installed package."""
    git = shutil.which("git")
    if git is None or not (_ROOT / ".git").exists():
        return None
    command = [git, "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    return result.stdout.strip() or None
