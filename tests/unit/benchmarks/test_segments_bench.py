"""The benchmark of segments: planted faults are found in their places, and it runs."""

from __future__ import annotations

import pytest

from benchmarks import segments
from benchmarks.segments import WORLDS, played


@pytest.mark.parametrize("world", [name for name, (_, right) in WORLDS.items() if right])
def test_a_fault_in_a_part_is_found_where_it_is(world: str) -> None:
    ((found, _),) = played(world, 2_000, 1, 15)
    assert found is not None
    assert found[1] in WORLDS[world][1]


def test_channels_that_compensate_each_other_are_not_found_in_the_label() -> None:
    assert [whole for _, whole in played("channels that compensate", 2_000, 2, 15)] == [None, None]


def test_a_quick_look_prints_all_tables(capsys: pytest.CaptureFixture[str]) -> None:
    segments.main(["--quick"])
    printed = capsys.readouterr().out
    assert "Faults in a part of a label" in printed
    assert "Segments of labels in which nothing is wrong" in printed
