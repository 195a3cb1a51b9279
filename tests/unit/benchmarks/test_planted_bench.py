"""A few worlds of the study of planted troubles."""

from __future__ import annotations

import pytest

from benchmarks.planted import KINDS, Result, line, result


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "season"])
def test_what_is_planted_is_named_after_three_weeks(kind: str) -> None:
    found = result(kind, 2_000, 0)
    assert found.found is (kind != "nothing")
    assert found.segment[1]
    assert found.cause[1]
    assert found.off[0] in (None, 0, 1)


def test_a_line_counts_what_was_found() -> None:
    right, wrong = Result(True, (True, True), (True, True), (0, 3), True), Result(False, (True, True), (True, True))
    assert line("x", 2_000, [right, wrong])[2:] == (
        "1/2", "1.000", "1.000", "1.000", "1.000", "1.000", "0.000", "1.000", "0.000", "1.000",
    )  # fmt: skip
