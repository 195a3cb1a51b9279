"""Every version that constraints.txt pins can be installed with the oldest Python that pyproject.toml promises.

Where one cannot, pip tries other versions of all packages, for longer than anybody waits: `make test` seems to hang.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PINNED = [Requirement(line) for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line]


def oldest_python() -> str:
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    found = re.fullmatch(r">=(\d+\.\d+)", promised)
    assert found, promised
    return f"{found[1]}.0"


def python_of(name: str) -> SpecifierSet | None:
    """Which Python the installed package asks for; None where it is not installed, as those of other engines."""
    try:
        return SpecifierSet(str(metadata(name).json.get("requires_python", "")))
    except PackageNotFoundError:
        return None


def test_every_pinned_package_takes_the_oldest_python_that_is_promised() -> None:
    asked = {pin.name: found for pin in PINNED if (found := python_of(pin.name)) is not None}
    assert len(asked) > 150
    assert [f"{name}: {python}" for name, python in asked.items() if not python.contains(oldest_python())] == []
