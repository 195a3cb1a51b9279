"""The benchmark of the gate runs, and a gate is quick by a wide margin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import gate

PAGE = Path(__file__).parents[3] / "benchmarks" / "results" / "gate.md"


def test_a_look_does_not_go_into_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        gate.main(["--quick", "--write-docs"])
    assert "does not belong into the docs" in capsys.readouterr().err


def test_the_table_shows_what_was_wanted_and_reached() -> None:
    text = PAGE.read_text("utf-8")
    slowest = re.search(r"The slowest median of `Gate` is ([\d,]+)", text)
    assert int(slowest[1].replace(",", "")) >= gate.WANTED
