"""The benchmark of the history's size: its labels, and the line of a case."""

from __future__ import annotations

from benchmarks.history_size import SHOWN, Case, populations_of, row_of


def test_more_labels_than_populations_have_names_of_their_own() -> None:
    found = populations_of(45)
    assert len(found) == 45
    assert all(population.name == name for name, population in found.items())


def test_a_line_shows_what_is_left_in_millions_of_bytes() -> None:
    sizes = {"": 2_000_000, **dict.fromkeys(SHOWN, 250_000)}
    line = row_of(Case(decimals=4), {"a year": sizes, "pruned": sizes, "for good": {"": 500_000}})
    assert line == ("20 labels", "4 decimals", "none", "2.0", "2.0", "0.5", *["0.2"] * len(SHOWN))
