"""Seeded histories: every story is what the rows say, and every face shows its story (`make truth` plays 300)."""

from __future__ import annotations

import pytest

from benchmarks.timing import fresh
from tests.truth.checker import check_seeds

SEEDS = (0, 1, 2, 4, 5)
"""Weekly and daily rules, segments, a burst: see ``world.plan``."""
ALWAYS = {
    "cost", "since moves later", "a vanished label is called so", "two incidents of one label", "off since", "cause",
    "changed by a run of another source", "id in a reminder", "terminal has its story", "fine again", "not judged",
}  # fmt: skip


@pytest.mark.slow
def test_what_is_told_in_seeded_histories_is_what_is_stored() -> None:
    findings = fresh(check_seeds, SEEDS)
    assert not findings.false, str(findings)
    assert findings.kinds.keys() >= ALWAYS, "no history has made one of these claims"
