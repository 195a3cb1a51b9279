"""Every table that a benchmark writes with ``--write-docs`` has its place among the results."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WRITTEN = [
    (path.stem, constant, marker)
    for path in sorted((ROOT / "benchmarks").glob("*.py"))
    for constant, marker in re.findall(r'write_between\((\w+), f?"([^"]+)"', path.read_text("utf-8"))
]


def test_the_writers_are_found() -> None:
    assert {module for module, _, _ in WRITTEN} >= {"simulate", "quiet", "planted", "whole_run", "bench", "gate"}


@pytest.mark.parametrize(("module", "constant", "marker"), WRITTEN)
def test_a_table_has_its_place(module: str, constant: str, marker: str) -> None:
    page: Path = getattr(importlib.import_module(f"benchmarks.{module}"), constant)
    assert page.parent == ROOT / "benchmarks" / "results"
    pattern = re.sub(r"\{\w+\}", r"\\w+", marker)
    assert re.search(rf"<!-- {pattern}:begin -->\n.*?<!-- {pattern}:end -->", page.read_text("utf-8"), re.DOTALL)
