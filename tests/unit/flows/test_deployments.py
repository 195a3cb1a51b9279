"""What is deployed: entry points exist, zones agree, every flow tells its failure and ends some time."""

from __future__ import annotations

import asyncio
import importlib
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import kubernetes_validate
import pytest
import yaml

from monitor.config.load import load_config
from monitor.config.settings import SECRETS, Settings, variable, variables
from monitor.core.windows import day, last_ready

ROOT = Path(__file__).parents[3]
DEPLOYMENTS = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text("utf-8"))["deployments"]
SCHEDULED = [d for d in DEPLOYMENTS if d.get("schedules")]
EVALUATIONS = [d for d in SCHEDULED if d["name"] in ("calmon-weekly", "calmon-daily")]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe",
    "Pacific/Apia", "Africa/Cairo", "Asia/Beirut",
)  # fmt: skip


def flow_of(deployment: dict[str, Any]) -> Any:
    module, _, name = deployment["entrypoint"].rpartition(".")
    assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file()
    return getattr(importlib.import_module(module), name)


@pytest.fixture(autouse=True)
def prefect_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect makes its folder when it is imported: not in anybody's home."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path_factory.getbasetemp()))


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_a_deployed_flow_exists_and_is_called_like_its_deployment(deployment: dict[str, Any]) -> None:
    assert flow_of(deployment).name == deployment["name"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_every_deployed_flow_reports_its_failure_and_its_crash_and_has_a_time_out(deployment: dict[str, Any]) -> None:
    from flows.hooks import report_monitor_failed, report_run_failed

    flow = flow_of(deployment)
    tells = report_monitor_failed if deployment.get("schedules") else report_run_failed
    assert flow.on_failure_hooks == [tells]
    assert flow.on_crashed_hooks == [tells]
    assert 0 < flow.timeout_seconds <= 6 * 3600


def test_every_flow_but_the_demo_is_deployed() -> None:
    found = {
        path.stem
        for path in (ROOT / "flows").glob("*.py")
        if re.search(r"^@flow\(", path.read_text("utf-8"), re.MULTILINE)
    }
    deployed = {d["entrypoint"].split(".")[1] for d in DEPLOYMENTS}
    assert found - deployed == {"demo_story"}


def test_serve_runs_every_flow_that_is_deployed() -> None:
    text = (ROOT / "flows" / "serve.py").read_text("utf-8")
    served = {flow for _, flow in re.findall(r"from (flows\.\w+) import (\w+)  # noqa: PLC0415", text)}
    listed = text[text.index("    scheduled = [") : text.index("    # Pausing at the end")]
    deployed = {d["entrypoint"].rsplit(".", 1)[1] for d in DEPLOYMENTS}
    assert served == deployed == {flow for flow in deployed if re.search(rf"\b{flow}\b", listed)}


def test_every_task_has_a_time_out_and_retries_only_what_is_outside() -> None:
    from prefect import Task

    from flows import audit, backfill, prune, rebaseline, replay, stages

    tasks = {
        t
        for module in (stages, audit, backfill, rebaseline, replay, prune)
        for t in vars(module).values()
        if isinstance(t, Task)
    }
    tasks = {*tasks, *stages.TASKS.values()} - {stages.work}  # from which the tasks of the stages are made
    assert len(tasks) == 14
    for task in tasks:
        assert task.timeout_seconds, task.name
        assert (task.retries, task.retry_condition_fn) == (stages.RETRIES, stages.only_io), task.name


def test_the_schedules_are_the_weekly_and_the_daily_one_in_the_time_zone_of_the_rules() -> None:
    assert [d["name"] for d in EVALUATIONS] == ["calmon-weekly", "calmon-daily"]
    zones = {schedule["timezone"] for d in SCHEDULED for schedule in d["schedules"]}
    assert zones == {load_config(ROOT / "alerts.yaml").timezone}


# In each of these zones clocks are put back on one of these nights of 2026; in Morocco when Ramadan begins.
PUT_BACK = {
    "Europe/Berlin": date(2026, 10, 25), "America/New_York": date(2026, 11, 1), "Africa/Cairo": date(2026, 10, 30),
    "America/Santiago": date(2026, 4, 5), "Australia/Lord_Howe": date(2026, 4, 5),
    "Africa/Casablanca": date(2026, 2, 15),
}  # fmt: skip


@pytest.mark.parametrize("zone", PUT_BACK)
def test_by_the_clock_of_prefect_watchdog_and_drain_are_never_silent_when_clocks_are_put_back(zone: str) -> None:
    from monitor.core.schedules import schedules

    begin = datetime.combine(PUT_BACK[zone], time(), ZoneInfo(zone)) - timedelta(hours=12)
    assert begin.utcoffset() != (begin + timedelta(days=2)).utcoffset()
    for name, seconds in {"calmon-watchdog": 900, "calmon-drain": 300}.items():
        due = due_times(schedules(zone)[name], begin, begin + timedelta(days=2))
        gaps = {(later - before).total_seconds() for before, later in pairwise(due)}
        assert gaps == {seconds}, name


@pytest.mark.parametrize("zone", PUT_BACK)
def test_by_the_clock_of_prefect_each_day_is_judged_once_in_its_own_time_zone(zone: str) -> None:
    from monitor.core.schedules import schedules

    begin = datetime.combine(PUT_BACK[zone], time(), ZoneInfo(zone)) - timedelta(days=1)
    due = due_times(schedules(zone)["calmon-daily"], begin, begin + timedelta(days=3))
    assert [each.astimezone(ZoneInfo(zone)).time() for each in due] == [clock_of(EVALUATIONS[1])[0]] * 3


def due_times(schedule: dict[str, str], start: datetime, end: datetime) -> list[datetime]:
    """When Prefect's server runs a schedule, in UTC."""
    from prefect.server.schemas.schedules import CronSchedule

    found = asyncio.run(CronSchedule(**schedule).get_dates(1_000, start, end))
    return [each.astimezone(UTC) for each in found]


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


PER_CONTAINER = {"config", "api_tokens_file"}  # paths: the same file in every container
OF_ROUTERS = {"gate_url", "gate_token"}  # read where a gate is asked, which is in no container of ours
PLAIN = {variable(field) for field in Settings.model_fields if field not in {*SECRETS, *PER_CONTAINER, *OF_ROUTERS}}
AS_FILES = {f"{variable(field)}_FILE" for field in SECRETS if field not in OF_ROUTERS}
OURS = ("worker", "service", "slack")


@pytest.mark.parametrize("name", OURS)
def test_every_setting_that_is_no_secret_reaches_the_containers_of_compose_and_kubernetes(name: str) -> None:
    compose = {key: value for key, value in COMPOSE["services"][name]["environment"].items() if key in PLAIN}
    assert compose == {key: f"${{{key}:-}}" for key in PLAIN}
    (container,) = PODS[name]["containers"]
    assert set(environment_of(container)) >= PLAIN


def test_every_secret_reaches_a_container_of_compose_and_kubernetes() -> None:
    compose = {key for name in OURS for key in COMPOSE["services"][name]["environment"]}
    kubernetes = {key for name in OURS for container in PODS[name]["containers"] for key in environment_of(container)}
    for found in (compose, kubernetes):
        assert {key for key in found if key.startswith("CALMON_") and key.endswith("_FILE")} == {
            *AS_FILES, "CALMON_API_TOKENS_FILE"
        }  # fmt: skip


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """What compose makes of a text with ``${NAME:-default}`` and ``${NAME:+other}``, the inner ones first."""
    inner = re.compile(r"\$\{(\w+):([-+])([^${}]*)\}")
    while found := inner.search(text):
        given, default = variables.get(found[1], ""), found[2] == "-"
        text = text.replace(found[0], (given or found[3]) if default else (found[3] if given else ""))
    return text


@pytest.mark.parametrize("field", sorted({*SECRETS} - {"store_url"} - OF_ROUTERS))
def test_a_secret_that_compose_is_given_as_a_value_is_refused_with_what_to_set(field: str) -> None:
    name, file = variable(field), COMPOSE["secrets"][f"calmon_{field}"]["file"]
    assert interpolated(file, {}) == "/dev/null"
    assert interpolated(file, {f"{name}_FILE": "./secrets/one"}) == "./secrets/one"
    assert interpolated(file, {f"{name}_FILE": "./secrets/one", name: "secret"}) == "./secrets/one"
    refused = interpolated(file, {name: "secret"})
    assert f"set {name}_FILE instead of {name}" in refused
    assert not (ROOT / refused).exists()


def test_the_example_as_it_is_gives_compose_no_secret_as_a_value() -> None:
    text = (ROOT / ".env.example").read_text("utf-8")
    given = {name for name, value in re.findall(r"^(CALMON_\w+)=(.*)$", text, re.MULTILINE) if value}
    assert given & {variable(field) for field in SECRETS} == {"CALMON_STORE_URL"}  # compose has its own


NEEDS = {
    "postgres": {"postgres_password"},
    "prefect-server": {"prefect_database_url", "prefect_auth"},
    "migrate": {"calmon_store_url"},
    "deploy": {"prefect_auth"},
    "worker": {
        "prefect_auth",
        "calmon_store_url",
        "calmon_warehouse_url",
        "calmon_audit_url",
        "calmon_slack_bot_token",
        "calmon_apprise",
        "calmon_heartbeat_url",
        "calmon_watchdog_heartbeat_url",
    },
    "service": {"calmon_store_url", "calmon_api_tokens"},
    "slack": {"calmon_store_url", "calmon_slack_bot_token", "calmon_slack_app_token"},
}


def test_every_container_has_the_secrets_that_it_needs_and_no_other() -> None:
    assert {name: set(service.get("secrets", ())) for name, service in COMPOSE["services"].items()} == NEEDS
    assert set(COMPOSE["secrets"]) == set().union(*NEEDS.values())
    assert all("file" in secret for secret in COMPOSE["secrets"].values())


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_container_gets_no_secret_but_as_a_file(name: str) -> None:
    service = COMPOSE["services"][name]
    environment = service["environment"]
    values = {variable(field) for field in SECRETS} | {"POSTGRES_PASSWORD", "PREFECT_SERVER_DATABASE_CONNECTION_URL"}
    values |= {"PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"}
    assert not values & set(environment)
    files = {value for key, value in environment.items() if key.endswith("_FILE")}
    mounted = {re.sub(r"^\$\{\w+:\+(.*)\}$", r"\1", value) for value in files}
    assert mounted == {f"/run/secrets/{secret}" for secret in service.get("secrets", ()) if "prefect" not in secret}


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_container_cannot_write_its_root_nor_gain_anything(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in service["tmpfs"]  # noqa: S108 - in the container
    assert "privileged" not in service
    added = {"postgres": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]}
    assert service.get("cap_add", []) == added.get(name, [])


def test_images_have_exact_versions() -> None:
    images = [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", (ROOT / "deployments" / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert len(set(images)) == 2
    assert all(re.fullmatch(r"[\w/.-]+:(\d+\.\d+|\d+\.\d+\.\d+)-[\w-]+(@sha256:[0-9a-f]{64})?", one) for one in images)


def test_the_secrets_of_compose_are_made_once(tmp_path: Path) -> None:
    script = ROOT / "deployments" / "secrets.sh"
    for _ in range(2):
        subprocess.run(["sh", str(script)], cwd=tmp_path, check=True, capture_output=True)
    found = {path.name: path.read_text("utf-8") for path in (tmp_path / "secrets").iterdir()}
    password = found["postgres_password"]
    assert re.fullmatch(r"[0-9a-f]{48}", password)
    assert re.fullmatch(r"calmon:[0-9a-f]{48}", found["prefect_auth"])
    assert found == {
        "postgres_password": password,
        "prefect_auth": found["prefect_auth"],
        "calmon_store_url": f"postgresql+psycopg://calmon:{password}@postgres:5432/calmon",
        "prefect_database_url": f"postgresql+asyncpg://calmon:{password}@postgres:5432/prefect",
    }
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    made = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values() if secret["file"].startswith("./")}
    assert made <= set(found)


@pytest.mark.parametrize("name", ["docker-compose.yml", "deployments/kubernetes.yaml"])
def test_a_token_is_made_into_the_tokens_file_and_not_written_beside_its_hash(name: str) -> None:
    found = re.findall(r"^.*calmon automation token.*$", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    assert found
    for line in found:
        assert re.search(r"CALMON_API_TOKENS_FILE=(\./)?secrets/api-tokens\b", line)
        assert ">" not in line  # the command adds the hash by itself; what it prints is the token


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
    copied = {source for line in re.findall(r"^COPY ([^-].*)$", text, re.MULTILINE) for source in line.split()[:-1]}
    assert [source for source in sorted(copied) if not (ROOT / source).exists()] == []
    builds = {"pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "docs", "monitor", "flows"}
    assert builds | {"alerts.yaml", "deployments"} <= copied  # what a wheel is made from


def test_every_container_has_limits_and_waits_for_the_schema_of_the_history() -> None:
    for name, service in COMPOSE["services"].items():
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service), name
        if "calmon_store_url" in service.get("secrets", ()) and name != "migrate":
            assert service["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}, name
    lasting = {name for name, service in COMPOSE["services"].items() if service["restart"] != "no"}
    assert lasting == {name for name, service in COMPOSE["services"].items() if "healthcheck" in service}


# --- deployments/kubernetes.yaml: the same containers

MANIFESTS = list(yaml.safe_load_all((ROOT / "deployments" / "kubernetes.yaml").read_text("utf-8")))
PODS = {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in MANIFESTS if "template" in m.get("spec", {})}
BACKUP = next(m["spec"]["jobTemplate"]["spec"]["template"]["spec"] for m in MANIFESTS if m["kind"] == "CronJob")
CONTAINERS = [
    pytest.param(pod, container, id=f"{name}-{container['name']}")
    for name, pod in {**PODS, "backup": BACKUP}.items()
    for container in (*pod.get("initContainers", ()), *pod["containers"])
]


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container: its own, and those of config maps."""
    maps = {m["metadata"]["name"]: m["data"] for m in MANIFESTS if m["kind"] == "ConfigMap"}
    named = [maps[each["configMapRef"]["name"]] for each in container.get("envFrom", ())]
    return {k: v for data in named for k, v in data.items()} | {e["name"]: e["value"] for e in container.get("env", ())}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: f"{m['kind']}-{m['metadata']['name']}")
def test_each_object_is_as_the_schema_of_kubernetes_wants_it(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, "1.33", strict=True)
    namespace = None if manifest["kind"] == "Namespace" else "calmon"
    assert manifest["metadata"].get("namespace") == namespace


def test_kubernetes_runs_what_compose_runs() -> None:
    assert set(PODS) == set(COMPOSE["services"])
    for name, service in COMPOSE["services"].items():
        (container,) = PODS[name]["containers"]
        command = [word.replace("$$", "$") for word in service.get("command", [])]
        assert container.get("command", []) == command, name


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_a_container_of_kubernetes_is_not_root_has_limits_and_cannot_write_its_root(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted <= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_a_container_of_kubernetes_gets_the_secrets_it_needs_as_files(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    environment = environment_of(container)
    assert {name for name in environment if name.startswith("CALMON_")} <= set(variables())
    assert not {variable(field) for field in SECRETS} & set(environment)
    files = {value for name, value in environment.items() if name.endswith("_FILE")}
    volume = next((v["secret"] for v in pod["volumes"] if v["name"] == "secrets"), {"items": ()})
    given = {f"/run/secrets/{item['path']}" for item in volume["items"] if "prefect" not in item["path"]}
    assert files <= given
    if container in pod["containers"]:
        assert files == given
    names = {item["path"] for item in volume["items"]}
    assert names == (NEEDS | {"backup": {"calmon_store_url"}})[pod["containers"][0]["name"]]


def test_a_pod_waits_for_the_schema_of_the_history_and_not_for_its_confirmation_after_a_restore() -> None:
    waits = {name: pod["initContainers"][0]["command"] for name, pod in PODS.items() if pod.get("initContainers")}
    assert set(waits) == {"worker", "service", "slack"}
    assert {tuple(words) for words in waits.values()} == {
        ("sh", "-c", "until calmon db check --schema; do sleep 5; done")
    }


def test_what_lasts_in_kubernetes_is_probed_and_its_image_is_this_version() -> None:
    jobs = {m["metadata"]["name"] for m in MANIFESTS if m["kind"] == "Job"}
    assert jobs == {"migrate", "deploy"}
    assert all("readinessProbe" in pod["containers"][0] for name, pod in PODS.items() if name not in jobs)
    images = {
        one["image"] for pod in PODS.values() for one in (*pod.get("initContainers", ()), *pod["containers"])
    }  # fmt: skip
    assert images == {f"calmon:{version('calibration-monitor')}", COMPOSE["services"]["postgres"]["image"]}


def test_in_kubernetes_only_what_needs_them_reaches_the_database_and_prefect() -> None:
    policies = {m["metadata"]["name"]: m["spec"] for m in MANIFESTS if m["kind"] == "NetworkPolicy"}
    assert policies.pop("nobody") == {"podSelector": {}, "policyTypes": ["Ingress"]}
    allowed = {
        spec["podSelector"]["matchLabels"]["app"]: each.get("podSelector", {}).get("matchExpressions", [{}])[0]
        for spec in policies.values()
        for each in spec["ingress"][0]["from"]
    }
    with_history = {name for name in PODS if "calmon_store_url" in NEEDS[name]}
    assert set(allowed["postgres"]["values"]) == {*with_history, "prefect-server", "backup"}
    assert set(allowed["prefect-server"]["values"]) == {"deploy", "worker"}
    assert set(allowed) == {"postgres", "prefect-server", "service"}


def test_a_worker_is_ready_by_what_it_needs_and_not_by_its_data() -> None:
    ready = ["calmon", "db", "check", "--schema"]
    assert PODS["worker"]["containers"][0]["readinessProbe"]["exec"]["command"] == ready
    assert COMPOSE["services"]["worker"]["healthcheck"]["test"] == ["CMD", *ready]


def test_prefects_database_gets_the_extension_that_its_schema_needs_in_both() -> None:
    wanted = (ROOT / "deployments" / "postgres-init.sql").read_text("utf-8")
    (made,) = [m["data"]["prefect.sql"] for m in MANIFESTS if m["metadata"]["name"] == "postgres-init"]
    assert made == wanted
    assert "\\connect prefect\nCREATE EXTENSION IF NOT EXISTS pg_trgm;" in wanted


def test_containers_keep_bounded_logs_and_have_time_to_end() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name
        assert service["stop_grace_period"].endswith("m"), name
    assert PODS["worker"]["terminationGracePeriodSeconds"] == 600
    assert COMPOSE["services"]["worker"]["stop_grace_period"] == "10m"
