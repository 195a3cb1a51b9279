"""After a history was put back from a backup nothing may act, and everything that speaks of automation says so."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.automation.as_of import by_switch, time_on
from monitor.automation.gate.snapshot import snapshot_of
from monitor.cli.automation import status_rows
from monitor.core.windows import week
from monitor.evaluation.evaluate import evaluate
from monitor.history import archive
from monitor.history.errors import NotFound
from monitor.run import run_window
from monitor.story.gather import Teller
from tests.fakes.in_process import in_process
from tests.fakes.world import CONFIG, WEEKS, World, make_world, pinned_world
from tests.integration.test_main_job import calmon

NOW = datetime(2026, 8, 25, 7, tzinfo=UTC)
RESTORED, CONFIRMED = datetime(2026, 8, 19, tzinfo=UTC), datetime(2026, 8, 21, 12, tzinfo=UTC)
WEEKLY = re.sub(r"  - \{id: ece-two-days.*?\}\n", "", CONFIG, flags=re.DOTALL)  # a daily rule would end the lease
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
        stories = [Teller.of(monitor).of_incident(each) for each in monitor.store.incidents()]
        lines = {each.switch.words for each in stories if each is not None and each.switch is not None}
        assert lines
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
    with world.opened(lambda: NOW) as monitor:
        stored = monitor.store.stored_switches()
        snapshot = snapshot_of(NOW, stored.switches, stored.automate_at, stored.identity)
        found = {row["label"]: row["if_confirmed"] for row in status_rows(monitor, snapshot, "tickets", None)}
    on_then = dict.fromkeys(("rare", "steady"), True) | {"slipping": False}
    assert found == (dict.fromkeys(on_then) if confirmed else on_then)


def test_a_run_under_way_while_the_history_is_restored_names_the_command_that_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, copy = pinned_world(tmp_path, config=WEEKLY), tmp_path / "copy.sqlite"
    archive.backup(world.store_url, copy)

    def restored(*arguments: Any) -> Any:
        archive.restore(world.store_url, copy, by="ann", reason="disk", now=NOW)
        return evaluate(*arguments)

    with world.opened(lambda: NOW) as monitor:
        window = week(WEEKS[10], monitor.config.zone)
        monkeypatch.setattr("monitor.run.evaluate", restored)
        with pytest.raises(NotFound, match=f"calmon run weekly --week {window.name}"):
            run_window(monitor, window)
        monkeypatch.undo()
        begun = [d.id for d in monitor.store.deliveries() if d.kind == "incidents"]
        assert begun
        run_window(monitor, window)
        stored = monitor.store.run_of(window, "tickets")
        assert stored["state"] == "done"
        told = [d.id for d in monitor.store.deliveries() if d.kind == "incidents"]
        assert told == begun  # nothing is said twice


@pytest.fixture
def closed_for_days(tmp_path: Path) -> World:
    """A week in which labels were on, but for two and a half days under a restored history; and its run."""
    world, copy, clock = pinned_world(tmp_path, config=WEEKLY), tmp_path / "copy.sqlite", [NOW]
    with world.opened(lambda: clock[0]) as monitor:
        for name in WEEKS[8:10]:
            clock[0] = week(name, monitor.config.zone).end + timedelta(hours=7)
            run_window(monitor, week(name, monitor.config.zone))
    archive.backup(world.store_url, copy)
    archive.restore(world.store_url, copy, by="ann", reason="the wrong file", now=RESTORED)
    archive.restore(world.store_url, copy, by="ann", reason="disk", now=RESTORED + timedelta(hours=1))
    with world.opened(lambda: CONFIRMED) as monitor:
        monitor.store.confirm(why="looked at", by="ann", now=CONFIRMED)
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
    return world


def test_nothing_was_automated_from_a_restore_until_it_was_confirmed(closed_for_days: World) -> None:
    world, on = closed_for_days, 1 - 2.5 / 7
    assert week(WEEKS[10], UTC).start == RESTORED - timedelta(days=2)
    with world.opened(lambda: NOW) as monitor:
        events = by_switch([*monitor.store.switch_events("tickets"), *monitor.store.gate_events()])
        window = week(WEEKS[10], monitor.config.zone)
        assert time_on(events, ("tickets", "steady"), window.start, window.end) == pytest.approx(on)
        expected = 0.0
        for name in WEEKS[8:11]:
            span = week(name, monitor.config.zone)
            reading = monitor.store.load_reading("weekly", span.start, "tickets")
            share = time_on(events, ("tickets", "steady"), span.start, span.end)
            expected += share * reading.labels["steady"].where("automated").rows
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        work = csv.DictReader(io.StringIO(asked.get("/automation?csv=months&source=tickets&label=steady").text))
        acted = [float(row["acted"]) for row in work]
        changes = list(
            csv.DictReader(io.StringIO(asked.get("/automation?csv=changes&source=tickets&label=steady").text))
        )
        pages = {name: asked.get(name).text for name in ("/automation", "/label/tickets/steady", "/")}
    assert acted == [pytest.approx(expected)]
    assert [(row["kind"], row["by"], row["reason"]) for row in changes[:3]] == [
        ("gates_confirmed", "ann", "looked at"),
        ("gates_closed", "ann", "restored from copy.sqlite: disk"),
        ("gates_closed", "ann", "restored from copy.sqlite: the wrong file"),
    ]
    assert "restored from copy.sqlite: disk" in pages["/automation"]
    assert "gates_closed: restored from copy.sqlite: disk" in pages["/label/tickets/steady"]
    assert "on from 21 Aug" in pages["/label/tickets/steady"]
    told = calmon(world, "automation", "history", "--label", "steady", "--json").stdout
    assert [row["kind"] for row in json.loads(told) if row["source"] is None] == [
        "gates_closed", "gates_closed", "gates_confirmed"
    ]  # fmt: skip
    assert "gates closed" in calmon(world, "automation", "history").stdout
