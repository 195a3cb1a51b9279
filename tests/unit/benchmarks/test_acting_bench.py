"""The study of the rules that act: what it plays is what it says, and it prints its tables."""

from __future__ import annotations

import pytest

from benchmarks.acting import HEALED, WORLDS, healed, main, turned_off


def test_every_fault_is_turned_off_and_what_has_healed_is_no_breach() -> None:
    for world in WORLDS:
        at, rule = turned_off(world, 1)
        assert at is not None
        assert rule
    assert healed(340, 0.15, 1) == (0, 0, True)


def test_a_quick_look_prints_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--runs", "2"])
    said = capsys.readouterr().out
    assert said.count("│ ") >= len(WORLDS) + len(HEALED)
