"""What is deployed: entry points exist, zones agree, every flow tells its failure and ends some time."""

from __future__ import annotations

import importlib
import re
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from monitor.rules.load import load_config
from monitor.settings import variables
from monitor.windows import day, last_ready

ROOT = Path(__file__).parents[2]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text("utf-8"))[
    "deployments"
]
SCHEDULED = [d for d in DEPLOYMENTS if d.get("schedules")]
EVALUATIONS = [d for d in SCHEDULED if d["name"] in ("calmon-weekly", "calmon-daily")]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe",
    "Pacific/Apia", "Africa/Cairo", "Asia/Beirut",
)  # fmt: skip


def flow_of(deployment: dict[str, Any]) -> Any:
    path, _, name = deployment["entrypoint"].partition(":")
    assert (ROOT / path).is_file()
    return getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)


@pytest.fixture(autouse=True)
def prefect_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect makes its folder when it is imported: not in anybody's home."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path_factory.getbasetemp()))


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_a_deployed_flow_exists_and_is_called_like_its_deployment(deployment: dict[str, Any]) -> None:
    assert flow_of(deployment).name == deployment["name"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_every_deployed_flow_tells_its_failure_and_its_crash_and_has_a_time_out(deployment: dict[str, Any]) -> None:
    from flows.hooks import tell_monitor_failed, tell_once_a_day

    flow = flow_of(deployment)
    tells = tell_once_a_day if "*/" in str(deployment.get("schedules")) else tell_monitor_failed
    assert flow.on_failure_hooks == [tells]
    assert flow.on_crashed_hooks == [tells]
    assert 0 < flow.timeout_seconds <= 6 * 3600


def test_every_flow_but_the_demo_is_deployed() -> None:
    found = {
        path.stem
        for path in (ROOT / "flows").glob("*.py")
        if re.search(r"^@flow\(", path.read_text("utf-8"), re.MULTILINE)
    }
    deployed = {Path(d["entrypoint"].partition(":")[0]).stem for d in DEPLOYMENTS}
    assert found - deployed == {"demo_story"}


def test_every_task_has_a_time_out_and_retries_only_what_is_outside() -> None:
    from prefect import Task

    from flows import rebaseline, stages

    tasks = {t for module in (stages, rebaseline) for t in vars(module).values() if isinstance(t, Task)}
    assert len(tasks) == 7
    for task in tasks:
        assert task.timeout_seconds, task.name
        assert (task.retries, task.retry_condition_fn) == (stages.RETRIES, stages.only_io), task.name


def test_the_schedules_are_the_weekly_and_the_daily_one_in_the_time_zone_of_the_rules() -> None:
    assert [d["name"] for d in EVALUATIONS] == ["calmon-weekly", "calmon-daily"]
    zones = {schedule["timezone"] for d in SCHEDULED for schedule in d["schedules"]}
    assert zones == {load_config(ROOT / "alerts.yaml").timezone}


def test_a_look_at_what_is_now_is_dropped_where_one_is_running() -> None:
    others = [d for d in SCHEDULED if d not in EVALUATIONS]
    assert "calmon-watchdog" in [d["name"] for d in others]
    assert {d["concurrency_limit"]["collision_strategy"] for d in others} == {"CANCEL_NEW"}


@pytest.mark.parametrize("deployment", EVALUATIONS, ids=lambda d: d["name"])
def test_scheduled_runs_wait_for_each_other_and_none_is_dropped(deployment: dict[str, Any]) -> None:
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}


def clock_of(deployment: dict[str, Any]) -> tuple[time, bool]:
    """When of the day a schedule runs, and whether only on Mondays."""
    minute, hour, *days = deployment["schedules"][0]["cron"].split()
    assert days in (["*", "*", "*"], ["*", "*", "1"])
    return time(int(hour), int(minute)), days[-1] == "1"


@pytest.mark.parametrize("zone", ZONES)
def test_in_every_time_zone_each_daily_run_finds_the_day_before_ready_also_when_clocks_change(zone: str) -> None:
    clock, _ = clock_of(EVALUATIONS[1])
    here = ZoneInfo(zone)
    for today in (date(2026, 1, 1) + timedelta(days=n) for n in range(730)):
        expected = day((today - timedelta(days=1)).isoformat(), here)
        assert last_ready("daily", datetime.combine(today, clock, here), here) == expected


@pytest.mark.parametrize("zone", ZONES)
def test_in_every_time_zone_each_weekly_run_finds_the_week_before_ready(zone: str) -> None:
    clock, mondays = clock_of(EVALUATIONS[0])
    assert mondays
    here = ZoneInfo(zone)
    for monday in (date(2026, 1, 5) + timedelta(weeks=n) for n in range(104)):
        year, number, _ = (monday - timedelta(days=1)).isocalendar()
        assert last_ready("weekly", datetime.combine(monday, clock, here), here).name == f"{year}-W{number:02d}"


def test_compose_gives_only_variables_that_calmon_or_prefect_know() -> None:
    for name, service in COMPOSE["services"].items():
        ours = (
            {key for key in service["environment"] if key.startswith("CALMON_")} if "environment" in service else set()
        )
        assert ours <= set(variables()), name


def test_compose_publishes_ports_to_this_machine_only() -> None:
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_browser_of_a_compose_user_is_not_sent_to_an_address_inside_the_network() -> None:
    server = COMPOSE["services"]["prefect-server"]["environment"]
    (port,) = COMPOSE["services"]["prefect-server"]["ports"]
    host = port.rpartition(":")[0]
    assert server["PREFECT_UI_API_URL"] == f"http://{host}/api"


def test_everything_the_image_copies_is_there() -> None:
    text = (ROOT / "deployments" / "Dockerfile").read_text("utf-8")
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
