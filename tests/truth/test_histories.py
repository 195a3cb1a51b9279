"""Seeded histories of many weeks: no text of the system says anything that is not so."""

from __future__ import annotations

import os

import pytest

from tests.truth.checker import check_seeds, told

#: How many histories `make test` plays in this file; `make truth` plays 500.
HERE = range(0, int(os.environ.get("CALMON_TRUTH_HISTORIES", "40")), 2)


@pytest.mark.slow
def test_no_text_of_seeded_histories_is_false() -> None:
    found = check_seeds(HERE)
    assert found.histories == len(HERE)
    assert not found.false, told(found)
