"""After a history was put back from a backup nothing may act, and everything that speaks of automation says so."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.alerting.incident_context import IncidentContext
from monitor.core.windows import week
from monitor.history import archive
from monitor.run import run_window
from tests.fakes.in_process import in_process
from tests.fakes.world import WEEKS, make_world
from tests.integration.test_main_job import calmon

NOW = datetime(2026, 8, 25, 7, tzinfo=UTC)
WHY = "the history was put back from a backup, and no operator has confirmed it"


@pytest.mark.parametrize("confirmed", [False, True])
def test_all_that_speaks_of_automation_says_that_a_copy_of_a_history_closes_it(tmp_path: Path, confirmed: bool) -> None:
    world, copy = make_world(tmp_path), tmp_path / "copy.sqlite"
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, week(WEEKS[9], monitor.config.zone))
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
    archive.backup(world.store_url, copy)
    archive.restore(world.store_url, copy, by="ann", reason="disk", now=NOW)
    with world.opened(lambda: NOW) as monitor:
        if confirmed:
            monitor.store.confirm(why="looked at", by="ann", now=NOW)
        context = IncidentContext(monitor)
        briefs = [context.brief(each) for each in monitor.store.incidents()]
        assert briefs
        lines = {line.words for each in briefs if (line := context.switch(each.verdict, each)) is not None}
        off = f"Automation is off: {WHY} (calmon db confirm --reason TEXT, once it is looked at)"
        assert (lines == {off}) is not confirmed
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        pages = {name: asked.get(name).text for name in ("/", "/automation", "/label/tickets/steady", "/monitor")}
        on = re.findall(r'calmon_automation_on\{label="(\w+)",source="tickets"\} ([\d.]+)', asked.get("/metrics").text)
    assert [name for name, text in pages.items() if name != "/monitor" and "put back from a backup" not in text] == (
        list(pages)[:3] if confirmed else []
    )
    assert dict(on)["steady"] == ("1.0" if confirmed else "0.0")
    told = re.sub(r"\s+", " ", calmon(world, "report", "--week", WEEKS[10]).stdout)
    assert ("put back from a backup" in told) is not confirmed, told
