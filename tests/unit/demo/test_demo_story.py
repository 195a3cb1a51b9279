"""The end of the demo under an alerts.yaml of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.core.windows import week
from monitor.demo import story
from monitor.run import run_window
from tests.fakes.world import WEEKS, make_world


def test_without_what_an_audit_is_planned_by_nothing_is_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make_world(tmp_path).opened() as monitor:
        window = week(WEEKS[8], monitor.config.zone)
        run_window(monitor, window)
        assert story._of_one_that_is_fine(monitor, window) == ""
        monkeypatch.setattr(story, "FINE", ("tickets", "steady"))
        assert story._of_one_that_is_fine(monitor, window) == "", "no rule adds up evidence"
