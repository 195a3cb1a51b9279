"""Every table that a benchmark writes with ``--write-docs`` has its place among the results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import bench, gate, history_size, whole_run
from benchmarks.simulate import SECTIONS
from benchmarks.tables import DOCS

ROOT = Path(__file__).parents[3]
PAGES = {
    "bench": bench.DOCS, "gate": gate.DOCS, "history_size": history_size.PAGE, "whole_run": whole_run.DOCS,
    "acting": DOCS, "planted": DOCS, "traffic": DOCS, "simulate": DOCS,
}  # fmt: skip
WRITTEN = [
    (module, marker)
    for path in sorted((ROOT / "benchmarks").glob("*.py"))
    for module in [path.stem]
    for found in re.findall(r'publish\(.+?\], f?"([^"]+)"|publish\(tables, "([^"]+)"', path.read_text("utf-8"))
    for marker in [found[0] or found[1]]
] + [("simulate", section) for section in SECTIONS]


def test_the_writers_are_found() -> None:
    assert {module for module, _ in WRITTEN} == set(PAGES)


@pytest.mark.parametrize(("module", "marker"), WRITTEN)
def test_a_table_has_its_place(module: str, marker: str) -> None:
    page = PAGES[module]
    assert page.parent == ROOT / "benchmarks" / "results"
    pattern = re.sub(r"\{\w+\}", r"\\w+", marker)
    assert re.search(rf"<!-- {pattern}:begin -->\n.*?<!-- {pattern}:end -->", page.read_text("utf-8"), re.DOTALL)
