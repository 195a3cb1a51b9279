"""Seeded histories of many weeks: no text of the system says anything that is not so (`make truth` plays 500)."""

from __future__ import annotations

import pytest

from benchmarks.timing import fresh
from tests.truth.checker import check_seeds, told

#: The even seeds are played here, the odd ones in test_more_histories.py: xdist shares tests out by file.
SEEDS = range(0, 16, 2)


@pytest.mark.slow
def test_no_text_of_seeded_histories_is_false() -> None:
    found = fresh(check_seeds, SEEDS)
    assert found.histories == len(SEEDS)
    assert not found.false, told(found)
