"""``calmon status``: what is open, what waits and what comes next."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from typer.testing import Result

from monitor.alerting.health.look import observed
from monitor.alerting.health.watchdog import watch_monitor
from monitor.core.windows import week
from monitor.history.readings import StoredReading
from monitor.service.prometheus import families
from monitor.story.gather import Teller
from tests.fakes.alerts_world import CONFIG, Judged, alerts_world
from tests.fakes.world import World, make_world, pinned_world

RULE = "automated-overconfidence"


def world_of(folder: Path) -> World:
    return make_world(folder, config=CONFIG, warehouse_url=f"duckdb:///{folder / 'unused.duckdb'}")


def parts(found: Result) -> dict[str, list[str]]:
    """The lines under each heading."""
    said = {}
    for line in found.stdout.splitlines():
        if line.startswith("  "):
            said[list(said)[-1]].append(line.strip())
        else:
            said[line] = []
    return said


def test_an_open_incident_is_told_with_who_has_it_and_the_printed_command_takes_it(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W03", [Judged("billing", RULE, "breach", 0.12)])
        id = world.incident("billing").id[:8]
    made = world_of(tmp_path)
    found = made.calmon("status")
    assert found.exit_code == 0, found.output
    said = parts(found)
    (line,) = said["Open"]
    assert line.startswith(f"{id} critical: billing must not act alone")
    assert line.endswith("(open)")
    (asked,) = [each for each in said["Waits"] if "nobody has taken" in each]
    assert asked.endswith(f"calmon incidents ack {id}")
    assert made.calmon(*shlex.split(asked.partition(": calmon ")[2])).exit_code == 0
    (line,) = parts(made.calmon("status"))["Open"]
    assert "(acknowledged by" in line


def test_an_incident_of_the_monitor_is_open_too_and_the_printed_command_takes_it(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W02", [Judged("billing", RULE, "ok")])
        window = week("2026-W03", ZoneInfo("UTC"))
        world.clock.now = window.end + timedelta(hours=6, minutes=5)
        unread = StoredReading("tickets", "relation_error", error="no column score")
        world.monitor.store.save_reading(window, unread, world.clock.now)
        watch_monitor(world.monitor)
        store, config, now = world.monitor.store, world.monitor.config, world.clock.now
        exposed = {each.name: each for each in families(store, config, now, observed(store, config, now))}
    made = world_of(tmp_path)
    said = parts(made.calmon("status"))
    (line,) = [each for each in said["Open"] if "Monitor: " in each]
    assert "a source cannot be read" in line
    (asked,) = [each for each in said["Waits"] if "nobody has taken" in each]
    assert line[:8] in asked
    assert made.calmon(*shlex.split(asked.partition(": calmon ")[2])).exit_code == 0
    assert sum(sample.value for sample in exposed["calmon_incidents"].samples) == len(said["Open"])


def test_automation_is_off_since_its_lease_ended_also_where_a_later_run_turned_it_off(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W02", [Judged("billing", RULE, "ok")])
        world.evaluate("2026-W04", [Judged("billing", RULE, "breach", 0.12)])
        told = Teller.of(world.monitor).switch("tickets", "billing")
    assert "off since Wed 2026-01-21 00:00 UTC" in told.words
    status = world_of(tmp_path).calmon("automation", "status").stdout
    assert " ".join(told.words.removeprefix("Automation is ").split()) in " ".join(status.split())


def test_the_next_run_of_each_schedule_with_rules_is_named_and_a_week_that_was_not_judged(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W03", [Judged("billing", RULE, "ok")])
    made = world_of(tmp_path)
    (line,) = parts(made.calmon("status"))["Next"]  # no rule of it is daily
    assert line.startswith("weekly: 20")
    assert " was not judged yet: calmon run weekly --week 20" in line
    when = line.partition("next run ")[2]
    at = datetime.strptime(when, "%A %Y-%m-%d %H:%M (UTC)").replace(tzinfo=UTC)
    assert (at.weekday(), at.hour, at.minute) == (0, 6, 30)


def test_a_week_whose_source_could_not_be_read_was_not_judged(tmp_path: Path) -> None:
    made = pinned_world(tmp_path)
    (tmp_path / "warehouse.duckdb").unlink()
    assert made.calmon("run", "weekly").exit_code == 1
    weekly, _ = parts(made.calmon("status"))["Next"]
    assert " was not judged yet: calmon run weekly --week 20" in weekly


def test_before_the_first_run_nothing_is_open(tmp_path: Path) -> None:
    found = world_of(tmp_path).calmon("status")
    assert found.exit_code == 0, found.output
    assert parts(found)["Open"] == ["nothing"]


def test_as_json_it_says_the_same(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W03", [Judged("billing", RULE, "breach", 0.12)])
    made = world_of(tmp_path)
    document = json.loads(made.calmon("status", "--json").stdout)
    said = parts(made.calmon("status"))
    assert [document[name.lower()] for name in ("Open", "Next")] == [said["Open"], said["Next"]]
