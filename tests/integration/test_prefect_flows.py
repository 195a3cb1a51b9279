"""The flows on a real Prefect server: schedules, late runs, retries, failures told to Slack, `make serve`."""

from __future__ import annotations

import base64
import gc
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

from monitor.alerting.health.message import on_demand_failed
from monitor.alerting.slack.message import delivery_of, trial_message
from monitor.config.load import load_config, parse_config
from monitor.core.records import Delivery, Note
from monitor.core.windows import week
from monitor.run import deliver, read, run_window
from tests.fakes import heartbeat, slack
from tests.fakes.canaries import IN_QUERY, IN_USER, PASSWORD, WORDS, own_edges, stored
from tests.fakes.installed import Installed
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world, rows, write_duckdb

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
QUIET = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1", "PREFECT_LOGGING_LEVEL": "WARNING"}
# What no test of the module's server looks at: runs that schedules make, Prefect's own automations, a token for forms.
SPARING = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
}
PATIENCE = 300  # seconds for what takes a few: a server was seen to need more than 90 to start on a busy machine
PATIENT = {
    "PREFECT_API_REQUEST_TIMEOUT": str(PATIENCE),
    "PREFECT_SERVER_DATABASE_TIMEOUT": str(PATIENCE),
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": str(PATIENCE),
}
BROKEN = CONFIG.replace("metric: ece,", "metric: eec,")


@dataclass(frozen=True)
class Server:
    """A Prefect server of this test run."""

    url: str
    environment: Mapping[str, str]
    auth: str = ""

    def ask(self, path: str, question: Mapping[str, Any]) -> Any:
        known = {"Authorization": f"Basic {base64.b64encode(self.auth.encode()).decode()}"} if self.auth else {}
        headers = {"Content-Type": "application/json", **known}
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(question).encode(), headers)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != 503:  # the server's SQLite is busy; Prefect's own client asks again too
                    raise
                time.sleep(0.25)
        raise AssertionError(f"{self.url}{path} stays busy")


def free_port() -> int:
    """A port that nothing uses, from below those which the system hands out: it stays free until it is bound."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("none of a hundred ports is free")


@contextmanager
def process(
    log: Path, *words: str, cwd: Path, environment: Mapping[str, str], python: str = sys.executable
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended, by its own id, with the block."""
    with log.open("wb") as out:
        started = subprocess.Popen(
            [python, "-m", *words], cwd=cwd, env={**environment}, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(timeout=120)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def until(what: Callable[[], Any], log: Path, seconds: float = PATIENCE) -> Any:
    """The first true answer of ``what``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds} s\n{log.read_text('utf-8', 'replace')[-5000:]}")


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=30):
            return True
    except (urllib.error.URLError, OSError):
        return False


def clean_environment() -> dict[str, str]:
    """This one without what a developer may have set for Prefect or calmon."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "CALMON_"))} | QUIET | PATIENT


def known_tables(factory: pytest.TempPathFactory) -> Path:
    """Where the server of this module keeps a database with its tables and no more, for other servers of the test run.

    With a copy of it a server starts in 5 s of a core, with nothing in 8. `make serve` of the wheel has nothing.
    """
    mine = factory.getbasetemp()
    return (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "tables-of-prefect.db"


def keep_tables(database: Path, target: Path) -> None:
    """Copy the database of a server that runs; nobody sees half of it."""
    half = target.with_name(f"{target.name}-{os.getpid()}")
    with closing(sqlite3.connect(database)) as made, closing(sqlite3.connect(half)) as copy:
        made.backup(copy)
    half.replace(target)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("prefect")
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = clean_environment() | SPARING | {"PREFECT_HOME": str(home)}
    words = ("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
    with process(home / "server.log", *words, cwd=home, environment=environment):
        until(lambda: healthy(url), home / "server.log")
        keep_tables(home / "prefect.db", known_tables(tmp_path_factory))
        yield Server(url, environment | {"PREFECT_API_URL": url})


@pytest.fixture
def prefect(server: Server, tmp_path: Path) -> Iterator[None]:
    """Flows called in this process go to the server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_API_URL, PREFECT_HOME, temporary_settings

        patch.chdir(tmp_path)  # reports are written below the working directory
        home = server.environment["PREFECT_HOME"]
        mine = {PREFECT_API_URL: server.url, PREFECT_HOME: home, PREFECT_API_REQUEST_TIMEOUT: PATIENCE}
        with temporary_settings(mine):
            yield


@pytest.fixture
def workspace() -> Iterator[slack.FakeSlack]:
    with slack.running() as found:
        yield found


@pytest.fixture
def heart() -> Iterator[heartbeat.Calls]:
    with heartbeat.running() as found:
        yield found


@pytest.fixture
def world(tmp_path: Path, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch) -> World:
    """A pinned world, named by the environment of this process."""
    made = pinned_world(tmp_path)
    for name, value in environment_of(made, workspace).items():
        monkeypatch.setenv(name, value)
    return made


def environment_of(world: World, workspace: slack.FakeSlack) -> dict[str, str]:
    return world.environment | {"CALMON_SLACK_BOT_TOKEN": slack.TOKEN, "CALMON_SLACK_API_URL": workspace.url}


def monday_after(name: str) -> datetime:
    """When the weekly schedule runs for that week, as deployments/prefect.yaml has it."""
    return datetime.strptime(f"{name}-1 +0000", "%G-W%V-%u %z") + timedelta(days=7, hours=6, minutes=30)


def run_scheduled(flow: Any, due: datetime) -> Any:
    """Run ``flow`` now as a run that was scheduled for ``due``; returns its final state."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Scheduled

    with get_client(sync_client=True) as client:
        run = client.create_flow_run(flow, state=Scheduled(scheduled_time=due))
    return run_flow(flow, flow_run=run, return_type="state")


def reads_with(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Change options of the task that reads."""
    from flows import stages

    monkeypatch.setitem(stages.TASKS, read, stages.TASKS[read].with_options(**options))


@pytest.mark.usefixtures("prefect")
def test_a_flow_and_a_command_go_through_the_same_stages(
    world: World, heart: heartbeat.Calls, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.weekly import weekly

    monkeypatch.setenv("CALMON_HEARTBEAT_URL", heart.url)
    state = run_scheduled(weekly, monday_after(WEEKS[10]))
    with world.opened() as monitor:
        again = run_window(monitor, week(WEEKS[10], monitor.config.zone)).document
    assert {"run": "", "actions": [], **state.result()}.keys() == again.keys()
    assert state.result()["verdicts"] == again["verdicts"] != []
    assert heart.made == [("/ping/secret-1234", "")]  # by the flow: the command of this test has no address
    mine = {"flow_runs": {"id": {"any_": [str(state.state_details.flow_run_id)]}}}
    tasks = server.ask("/task_runs/filter", {**mine, "sort": "EXPECTED_START_TIME_ASC"})
    named = [f"{stage} {WEEKS[10]}" for stage in ("begin", "read", "judge", "act", "publish")]
    assert [task["name"] for task in tasks[1:]] == named
    assert tasks[0]["name"].startswith("reach the history")


@pytest.mark.usefixtures("prefect")
def test_late_runs_evaluate_the_weeks_they_were_scheduled_for_after_what_was_missed_and_older_ones_do_not_act(
    world: World, workspace: slack.FakeSlack
) -> None:
    from flows.weekly import weekly

    order = [WEEKS[7], WEEKS[9], WEEKS[11], WEEKS[8], WEEKS[10]]
    documents = [run_scheduled(weekly, monday_after(name)).result() for name in order]
    assert [document["window"]["name"] for document in documents] == order
    with world.opened() as monitor:
        evaluated = {v.window.name for v in monitor.store.verdicts(schedule="weekly")}
    assert evaluated == set(order)
    states = {d["window"]["name"]: {a["state"] for a in d["actions"]} for d in documents}
    assert states[WEEKS[11]] >= {"sent", "already off"}  # by the week before, which was missed and is judged first
    assert states[WEEKS[10]] == {"not done: a newer window has been evaluated (--act overrides)"}
    assert len(workspace.texts("ml-monitoring")) == 1


@pytest.mark.usefixtures("prefect")
def test_a_start_judges_the_last_ready_week_at_once_says_when_the_next_run_is_and_drops_late_looks(
    world: World, server: Server
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    from flows.drain import drain_outbox
    from flows.start import begin
    from flows.watchdog import watchdog
    from flows.weekly import weekly

    friday = monday_after(WEEKS[11]) + timedelta(days=4, hours=8)
    config = parse_config(CONFIG.replace(", schedule: daily, for: 2", ""))
    with get_client(sync_client=True) as client:
        late = [
            client.create_flow_run(flow, state=Scheduled(scheduled_time=friday - timedelta(minutes=5 * n)))
            for n, flow in enumerate([drain_outbox] * 9 + [watchdog] * 3, start=1)
        ]
        flow_id = client.create_flow(weekly)
        deployment = client.create_deployment(flow_id, "calmon-weekly")
        # a late run of an older week does not judge this one
        older = Scheduled(scheduled_time=monday_after(WEEKS[10]))
        client.create_flow_run_from_deployment(deployment, state=older)
        (line,) = begin(config.model_copy(update={"timezone": "Europe/Berlin"}), friday)
        assert line == (
            f"weekly: {WEEKS[11]} was not judged yet: that is done now; "
            f"next run Monday {friday + timedelta(days=3):%Y-%m-%d} 06:30 (Europe/Berlin)"
        )
        assert {str(client.read_flow_run(run.id).state_name) for run in late} == {"Cancelled"}
    mine = {"flow_runs": {"deployment_id": {"any_": [str(deployment)]}}}
    assert [run["state_type"] for run in server.ask("/flow_runs/filter", mine)] == ["SCHEDULED"] * 2
    with world.opened(clock=lambda: friday) as monitor:
        run_window(monitor, week(WEEKS[11], monitor.config.zone))
    (line,) = begin(config, friday)
    assert line.startswith(f"weekly: {WEEKS[11]} was judged; next run Monday ")
    assert len(server.ask("/flow_runs/filter", mine)) == 2


@pytest.mark.usefixtures("prefect")
def test_the_first_look_after_a_pause_has_judged_what_is_due_and_calls_nothing_wrong_that_is_being_made_up_for(
    world: World, server: Server, workspace: slack.FakeSlack
) -> None:
    from prefect.client.orchestration import get_client

    from flows.daily import daily
    from flows.watchdog import watchdog
    from flows.weekly import weekly

    with get_client(sync_client=True) as client:
        made = [
            client.create_deployment(client.create_flow(flow), flow.name, paused=flow is daily)
            for flow in (weekly, daily)
        ]
        for run in client.read_flow_runs():
            client.delete_flow_run(run.id)  # of other tests, which would be late
    with world.opened(clock=lambda: datetime(2026, 9, 1, tzinfo=UTC)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone), act="never")
        monitor.store.put_note(Note("watchdog", datetime.now(UTC) - timedelta(hours=9)))
    assert (watchdog(), workspace.messages) == ([], [])
    found = [(run["deployment_id"], run["state_type"]) for run in server.ask("/flow_runs/filter", {})]
    assert [each for each in found if each[1] == "SCHEDULED"] == [(str(made[0]), "SCHEDULED")], (
        "the paused one has none"
    )
    assert any(text.startswith("run_missing") for text in watchdog())


@pytest.mark.usefixtures("prefect")
def test_a_warehouse_that_fails_twice_and_then_answers_completes_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import stages
    from flows.weekly import weekly

    warehouse = world.folder / "warehouse.duckdb"
    away = warehouse.rename(world.folder / "away.duckdb")
    failures = []

    def counting(task: Any, task_run: Any, state: Any) -> bool:
        failures.append(state.data)
        if len(failures) == 2:
            away.rename(warehouse)
        return stages.only_io(task, task_run, state)

    reads_with(monkeypatch, retry_delay_seconds=0, retry_jitter_factor=0, retry_condition_fn=counting)
    state = run_scheduled(weekly, monday_after(WEEKS[9]))
    assert state.is_completed()
    assert [type(failure).__name__ for failure in failures] == ["WarehouseFailed", "WarehouseFailed"]
    assert {v["reason"] for v in state.result()["verdicts"]}.isdisjoint({"warehouse_failed", "relation_error"})


@pytest.mark.usefixtures("prefect")
def test_a_warehouse_that_never_answers_fails_the_run_and_slack_is_notified_once(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.weekly import weekly

    (world.folder / "warehouse.duckdb").unlink()
    reads_with(monkeypatch, retry_delay_seconds=0, retry_jitter_factor=0)
    state = run_scheduled(weekly, monday_after(WEEKS[9]))
    assert state.is_failed()
    with world.opened() as monitor:
        reasons = {v.reason.value for v in monitor.store.verdicts(schedule="weekly")}
    assert reasons == {"warehouse_failed"}
    (text,) = workspace.texts("ml-monitoring")  # by the run itself; the hook of the failed flow has nothing to add
    assert text.startswith("Monitor: tickets cannot be read: tickets could not be read for ")


@pytest.mark.usefixtures("prefect")
def test_where_no_route_takes_what_is_critical_the_first_gets_it(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.weekly import weekly

    only_warnings = CONFIG.replace('{channel: "#ml-', '{match: {severity: warning}, channel: "#ml-')
    assert only_warnings != CONFIG
    (world.folder / "alerts.yaml").write_text(only_warnings, "utf-8")
    (world.folder / "warehouse.duckdb").unlink()
    reads_with(monkeypatch, retry_delay_seconds=0, retry_jitter_factor=0)
    assert run_scheduled(weekly, monday_after(WEEKS[9])).is_failed()
    (text,) = workspace.texts("ml-monitoring")
    assert text.startswith("Monitor: tickets cannot be read: ")


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("text", [BROKEN, CONFIG + "\n  - [unclosed"], ids=["a wrong rule", "not even YAML"])
def test_a_broken_configuration_fails_at_once_evaluates_nothing_and_is_reported_once(
    text: str, world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import stages
    from flows.hooks import report_monitor_failed
    from flows.weekly import weekly

    (world.folder / "alerts.yaml").write_text(text, "utf-8")
    tries = []
    plain = load_config

    def counting(path: Path) -> Any:
        tries.append(path)
        return plain(path)

    monkeypatch.setattr(stages, "load_config", counting)
    state = weekly(return_state=True)
    assert state.is_failed()
    assert len(tries) == 1
    (told,) = workspace.texts("ml-monitoring")
    assert "alerts.yaml" in told
    (world.folder / "alerts.yaml").write_text(CONFIG, "utf-8")
    with world.opened() as monitor:
        assert monitor.store.verdicts(schedule="weekly") == []
        (delivery,) = monitor.store.deliveries()
        assert (delivery.kind, delivery.state) == ("monitor", "sent")
    again = type("Run", (), {"id": state.state_details.flow_run_id})
    report_monitor_failed(weekly, again, state)  # a hook may be called twice: by the run and by the worker
    assert len(workspace.messages) == 1


@pytest.mark.usefixtures("prefect")
def test_when_the_history_is_down_slack_is_notified_all_the_same(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import stages
    from flows.weekly import weekly

    monkeypatch.setattr(stages, "reach", stages.reach.with_options(retry_delay_seconds=0, retry_jitter_factor=0))
    with socket.socket() as deaf:  # bound, so that nobody else takes the port, but not listening
        deaf.bind(("127.0.0.1", 0))
        monkeypatch.setenv("CALMON_STORE_URL", f"postgresql://calmon@127.0.0.1:{deaf.getsockname()[1]}/history")
        assert weekly(return_state=True).is_failed()
    (text,) = workspace.texts("ml-monitoring")
    assert "does not answer" in text


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("broken", ["warehouse", "history", "a driver"])
def test_a_failed_flow_leaves_no_secret_in_prefect_nor_in_slack(
    world: World, workspace: slack.FakeSlack, server: Server, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str], broken: str,
) -> None:  # fmt: skip
    from prefect.logging.handlers import APILogHandler
    from sqlalchemy.exc import OperationalError

    from flows import stages
    from flows.weekly import weekly

    nowhere = f"postgresql+psycopg://{IN_USER}127.0.0.1:1/history?connect_timeout=2&{IN_QUERY}"
    monkeypatch.setattr(stages, "reach", stages.reach.with_options(retries=0))
    reads_with(monkeypatch, retries=0)
    if broken != "a driver":
        monkeypatch.setenv({"warehouse": "CALMON_WAREHOUSE_URL", "history": "CALMON_STORE_URL"}[broken], nowhere)
    else:
        cause = OSError(f"cannot use {nowhere}")
        error = OperationalError("SELECT 1", {"password": PASSWORD}, cause)
        monkeypatch.setattr("monitor.run.evaluate", lambda *_, **__: (_ for _ in ()).throw(error))
    with own_edges():
        state = run_scheduled(weekly, monday_after(WEEKS[9]))
        APILogHandler().flush()
    assert state.is_failed()
    database = Path(server.environment["PREFECT_HOME"]) / "prefect.db"
    until(
        lambda: str(state.state_details.flow_run_id) in stored(f"sqlite:///{database}"),
        database.with_name("server.log"),
    )
    printed = capfd.readouterr()
    places = {
        "state": state.message or "", "printed": printed.out + printed.err, "Slack": repr(workspace.messages),
        "Prefect": stored(f"sqlite:///{database}"), "history": stored(world.store_url),
    }  # fmt: skip
    assert "127.0.0.1:1/history" in places["state"] + places["Prefect"]
    for place, text in places.items():
        found = WORDS.search(text)
        assert not found, f"{place}: {text[max(0, found.start() - 300) : found.end() + 100]}"


def sleeping(seconds: int) -> str:
    """A relation that takes this long to read from PostgreSQL."""
    return (
        "SELECT 'i' AS item, 'x' AS label, 0.5 AS score, 1 AS actual, TIMESTAMPTZ '2026-08-12' AS resolved_at, "
        f"pg_sleep({seconds})::text AS channel"
    )


@pytest.mark.postgres
@pytest.mark.usefixtures("prefect")
def test_a_query_that_took_too_long_fails_the_run_and_is_not_tried_again(
    world: World, workspace: slack.FakeSlack, fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import stages
    from flows.weekly import weekly

    (world.folder / "alerts.yaml").write_text(
        CONFIG.replace("relation: tickets", f'relation: "{sleeping(4)}"'), "utf-8"
    )
    monkeypatch.setenv("CALMON_WAREHOUSE_URL", fresh_postgres_url)
    failures = []

    def counting(task: Any, task_run: Any, state: Any) -> bool:
        failures.append(state.data)
        return stages.only_io(task, task_run, state)

    reads_with(monkeypatch, timeout_seconds=2, retry_delay_seconds=0, retry_condition_fn=counting)
    assert run_scheduled(weekly, monday_after(WEEKS[9])).is_failed()
    assert len(failures) == 1
    assert "timed out after 2" in workspace.texts("ml-monitoring")[0]


def is_busy(url: str) -> bool:
    """Whether the query that sleeps runs in that database; the server goes on with it when its client is killed."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        others = (
            "datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%pg_sleep%'"
        )
        found = connection.execute(sa.text(f"SELECT count(*) FROM pg_stat_activity WHERE {others}")).scalar_one()
    engine.dispose()
    return bool(found)


@pytest.mark.postgres
def test_a_query_that_never_returns_ends_the_process_of_its_run(
    server: Server, world: World, fresh_postgres_url: str
) -> None:
    (world.folder / "alerts.yaml").write_text(
        CONFIG.replace("relation: tickets", f'relation: "{sleeping(300)}"'), "utf-8"
    )
    environment = {**server.environment, **world.environment, "CALMON_WAREHOUSE_URL": fresh_postgres_url}
    for seconds in (3, 12, 48, 192):  # more where the machine is so slow that the query had not begun by then
        code = (
            "from flows import stages; stages.GRACE = 1; from flows.weekly import weekly; "
            f"weekly.with_options(timeout_seconds={seconds})('{WEEKS[9]}')"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=world.folder,
            capture_output=True, text=True, timeout=seconds + PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "Timeout" in done.stderr
        if is_busy(fresh_postgres_url) and "psycopg" in done.stderr:
            break
    assert "psycopg" in done.stderr, done.stderr  # where it hung


@pytest.mark.usefixtures("prefect")
def test_a_backfill_evaluates_every_window_and_neither_switches_nor_sends(
    world: World, workspace: slack.FakeSlack
) -> None:
    from flows.backfill import backfill

    found = backfill(WEEKS[9], WEEKS[11])
    assert list(found) == list(WEEKS[9:])
    assert (found[WEEKS[9]] == 0, found[WEEKS[11]] > 0) == (True, True)
    with world.opened() as monitor:
        assert monitor.store.switches() == []
    assert workspace.messages == []


@pytest.mark.usefixtures("prefect")
def test_a_source_that_cannot_be_read_fails_the_rebaseline_only_after_the_others_are_pinned(world: World) -> None:
    from flows.rebaseline import rebaseline

    mail = "  mail:\n    relation: nowhere\n    score_is: probability_of_label\nevaluation:"
    (world.folder / "alerts.yaml").write_text(CONFIG.replace("evaluation:", mail), "utf-8")
    state = rebaseline("recalibrated", WEEKS[1], WEEKS[6], anyway=True, return_state=True)
    assert state.is_failed()
    assert "mail: the warehouse refuses the relation" in str(state.message)
    with world.opened() as monitor:
        assert monitor.store.latest_baselines("tickets")["steady"].version == 2


@pytest.mark.usefixtures("prefect")
def test_the_items_that_people_check_are_drawn_by_a_flow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.audit import draw_audit

    out = world.folder / "audit.csv"
    state = draw_audit("tickets", str(out), WEEKS[8], each=5, return_state=True)
    assert (state.is_failed(), "`unresolved: true`" in str(state.message), out.exists()) == (True, True, False)
    waiting = "    segments: [channel]\n    unresolved: true\n    window_on: predicted_at\n"
    (world.folder / "alerts.yaml").write_text(CONFIG.replace("    segments: [channel]\n", waiting, 1), "utf-8")
    frame = rows()
    acts = frame["score"] >= 0.8
    frame = frame.assign(predicted_at=frame["resolved_at"], actual=frame["actual"].where(~acts))
    write_duckdb(world.folder / "waiting.duckdb", frame.assign(resolved_at=frame["resolved_at"].where(~acts)))
    monkeypatch.setenv("CALMON_WAREHOUSE_URL", f"duckdb:///{world.folder / 'waiting.duckdb'}")
    monkeypatch.setenv("CALMON_AUDIT_URL", f"sqlite:///{world.folder / 'people.sqlite'}")
    drawn = draw_audit("tickets", str(out), WEEKS[8], each=5, table="to_check")
    lines = out.read_text("utf-8").splitlines()
    assert (len(lines), lines[0]) == (1 + drawn, "source,label,item,score,week,truth")
    with closing(sqlite3.connect(world.folder / "people.sqlite")) as people:
        assert people.execute("SELECT count(*), count(truth), min(week) FROM to_check").fetchone() == (
            drawn,
            0,
            WEEKS[8],
        )
    assert drawn == 5 * frame[acts & frame["item"].str.startswith(WEEKS[8])]["label"].nunique()


@pytest.mark.usefixtures("prefect")
def test_a_run_that_fails_in_prefect_says_so_in_the_history(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.weekly import weekly

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a mistake in computing")

    monkeypatch.setattr("monitor.run.evaluate", broken)
    assert weekly(WEEKS[9], return_state=True).is_failed()
    with world.opened() as monitor:
        row = monitor.store.run_of(week(WEEKS[9], monitor.config.zone), "tickets")
    assert (row["state"], row["error"]) == ("failed", "ZeroDivisionError: a mistake in computing")


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"week": "2199-W01"}, "is not over yet"),
        ({"week": "2026-46"}, "write it like 2026-W46"),
        ({"sources": ["tickets", "mial"]}, "alerts.yaml has no source mial; it has: tickets"),
    ],
)
def test_wrong_parameters_of_a_run_are_refused_in_plain_words(
    parameters: dict[str, Any], says: str, world: World
) -> None:
    from flows.weekly import weekly

    state = weekly(**parameters, return_state=True)
    assert says in state.message
    with world.opened() as monitor:
        assert monitor.store.verdicts() == []


def prefect_command(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """``prefect WORDS`` in that folder, in this process: one of its own would import Prefect again (3 s of a core)."""
    from prefect.cli import app

    code = None
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Prefect leaves its connections to the end of its process
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["prefect", "--no-prompt", *words])
        try:
            app()
        except SystemExit as left:
            code = left.code
        gc.collect()
    assert code in (0, None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A root of the project of its own, so that nobody's var/reports is touched."""
    root = tmp_path / "project"
    for folder in ("flows", "deployments"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "alerts.yaml", root)
    return root


def scheduled_run(server: Server, deployment: str, due: datetime) -> str:
    """A run of that deployment that was due then, as a schedule leaves it; returns its id."""
    (found,) = server.ask("/deployments/filter", {"deployments": {"name": {"any_": [deployment]}}})
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": due.isoformat()}}
    return str(server.ask(f"/deployments/{found['id']}/create_flow_run", {"state": state})["id"])


def flow_run(server: Server, run: str) -> dict[str, Any]:
    (found,) = server.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return dict(found)


@pytest.mark.usefixtures("prefect")
def test_a_worker_runs_a_scheduled_run_whose_summary_can_be_read_and_a_crash_is_reported(
    server: Server, world: World, workspace: slack.FakeSlack, project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    prefect_command(project, monkeypatch, "work-pool", "create", "calmon", "--type", "process")
    prefect_command(project, monkeypatch, "deploy", "--prefect-file", "deployments/prefect.yaml", "--all")
    environment = {
        **server.environment, **environment_of(world, workspace),
        "PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_LOGGING_LEVEL": "INFO",
    }  # fmt: skip
    log = tmp_path / "worker.log"
    with process(log, "prefect", "worker", "start", "--pool", "calmon", cwd=project, environment=environment):
        run = scheduled_run(server, "calmon-weekly", monday_after(WEEKS[10]))
        until(lambda: flow_run(server, run)["state_type"] not in ("SCHEDULED", "PENDING", "RUNNING"), log)
        assert flow_run(server, run)["state_type"] == "COMPLETED", log.read_text("utf-8")
        check_artifact(server, run, project)
        assert workspace.texts("ml-monitoring")[0].startswith("slipping must not act alone")

        with duckdb.connect(str(world.folder / "warehouse.duckdb")):  # one writer: the run waits for it
            run = scheduled_run(server, "calmon-weekly", monday_after(WEEKS[11]))
            until(lambda: reading_again(server, run), log)
            os.kill(int(flow_run(server, run)["infrastructure_pid"].rpartition(":")[2]), signal.SIGKILL)
            until(lambda: flow_run(server, run)["state_type"] == "CRASHED", log)
            until(lambda: len(workspace.texts("ml-monitoring")) == 2, log)
        assert "The weekly run failed at " in workspace.texts("ml-monitoring")[1]


def reading_again(server: Server, run: str) -> bool:
    """Whether the reading task of the run has failed once and waits, or tries again."""
    tasks = server.ask("/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return any(task["state_name"] in ("AwaitingRetry", "Retrying") for task in tasks)


def check_artifact(server: Server, run: str, project: Path) -> None:
    (found,) = server.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    assert found["key"] == "calmon-weekly"
    summary = found["data"]
    for words in (
        "# Calibration 2026-W34",
        "slipping must not act alone",
        "automation off: it was never turned on",
        "## Pages",
    ):
        assert words in summary, summary
    page = project / "var" / "reports" / "weekly" / "2026-W34" / "report.html"
    assert page.as_uri() in summary
    assert page.is_file()


def test_serve_of_a_wheel_starts_its_own_server_registers_the_schedules_and_leaves_nothing_behind(
    world: World, tmp_path: Path, installed: Installed
) -> None:
    (world.folder / "alerts.yaml").write_text(CONFIG.replace("timezone: UTC", "timezone: Europe/Berlin"), "utf-8")
    # a port of its own: two that start at once on the usual one would take each other's server for theirs
    mine = {"PREFECT_HOME": str(tmp_path / "home"), "PREFECT_SERVER_API_PORT": str(free_port())}
    environment = installed.environment | QUIET | PATIENT | world.environment | mine
    log, empty = tmp_path / "serve.log", tmp_path / "empty"
    empty.mkdir()
    with process(
        log, "monitor", "serve", cwd=empty, environment=environment, python=f"{installed.folder}/bin/python"
    ) as serving:
        url = until(lambda: address(log), log)
        server = Server(f"{url}/api", environment)
        until(lambda: len(server.ask("/deployments/filter", {})) == 9, log)
        found = {d["name"]: [s["schedule"] for s in d["schedules"]] for d in server.ask("/deployments/filter", {})}
        assert {name: [(s["cron"], s["timezone"]) for s in schedules] for name, schedules in found.items()} == {
            "calmon-weekly": [("30 6 * * 1", "Europe/Berlin")],
            "calmon-daily": [("15 7 * * *", "Europe/Berlin")],
            "calmon-watchdog": [("*/15 * * * *", "UTC")],
            "calmon-drain": [("*/5 * * * *", "UTC")],
            "calmon-prune": [("45 4 * * 0", "Europe/Berlin")],
            "calmon-backfill": [],
            "calmon-rebaseline": [],
            "calmon-replay": [],
            "calmon-audit": [],
        }
        children = Path(f"/proc/{serving.pid}/task/{serving.pid}/children")
        servers = children.read_text().split() if children.exists() else []
        serving.send_signal(signal.SIGINT)
        code = until(lambda: None if serving.poll() is None else [serving.poll()], log)
        assert code == [0], log.read_text("utf-8")
    assert not healthy(f"{url}/api")
    assert not [pid for pid in servers if Path(f"/proc/{pid}").exists()]
    assert "Stopped" in log.read_text("utf-8")
    assert installed.wanted == ""


def address(log: Path) -> str | None:
    """Where `make serve` says its server is."""
    for word in log.read_text("utf-8").split():
        if word.startswith("http://127.0.0.1:"):
            return word
    return None


SERVE_AND_FAIL = """
import asyncio, os, signal, sys
from flows import serve

def schedules(timezone, server=None):
    ask = lambda: os.kill(os.getpid(), signal.SIGTERM)
    try:
        if sys.argv[1] != "a mistake":
            ask()
        if sys.argv[1] == "asked twice in an import":
            ask()
    except KeyboardInterrupt:
        pass
    if sys.argv[1] == "asked where all is swallowed":
        asyncio.run(serve.run_until_asked_to_end(asyncio.sleep(3600)))
    elif sys.argv[1] == "asked before the server answers":
        with serve.local_server():
            print("it was waited for")
    elif sys.argv[1] == "asked and not heard":
        serve.threading.Event().wait()
    raise ValueError("what pydantic makes of it")

serve.SECONDS_TO_END = 2

serve.serve_schedules = schedules
sys.exit(serve.main())
"""


@pytest.mark.usefixtures("prefect")
def test_the_watchdog_reports_a_run_that_is_missing_once(world: World, workspace: slack.FakeSlack) -> None:
    from flows.watchdog import watchdog

    with world.opened(clock=lambda: datetime(2026, 9, 1, tzinfo=UTC)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone), act="never")  # the newest of this history, long ago
    found = [watchdog() for _ in range(2)]
    assert [[text.partition(":")[0] for text in texts].count("run_missing") for texts in found] == [2, 2]
    (told,) = [text for text in workspace.texts("ml-monitoring") if "evaluations are missing" in text]
    assert "The weekly run of" in told
    assert "The daily run of" in told
    with world.opened() as monitor:
        assert monitor.store.notes()["waiting"].detail == {"runs": []}
        assert datetime.now(UTC) - monitor.store.notes()["watchdog"].at < timedelta(minutes=10)


@pytest.mark.usefixtures("prefect")
def test_watchdog_drain_and_pruning_make_no_history_and_a_lost_one_is_reported_once(
    world: World, workspace: slack.FakeSlack
) -> None:
    from flows.drain import drain_outbox
    from flows.prune import prune_history
    from flows.watchdog import watchdog

    assert (prune_history()["windows"], prune_history()["estimates"]) == (0, 0)
    for path in world.folder.glob("history.sqlite*"):
        if not path.name.endswith(".epoch"):
            path.unlink()
    assert drain_outbox() == {}
    assert all(watchdog(return_state=True).is_failed() for _ in range(2))
    assert len(workspace.messages) == 1
    assert "is gone" in workspace.texts("ml-monitoring")[0]
    (world.folder / "history.sqlite.epoch").unlink()  # never made, as far as anybody knows
    assert (drain_outbox(), watchdog(), prune_history()) == ({}, [], {})
    assert not (world.folder / "history.sqlite").exists()


@pytest.mark.usefixtures("prefect")
def test_a_watchdog_that_fails_every_quarter_of_an_hour_is_one_message_with_reminders(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch, heart: heartbeat.Calls
) -> None:
    from flows import hooks
    from flows.watchdog import watchdog

    monkeypatch.setenv("CALMON_WATCHDOG_HEARTBEAT_URL", heart.url)
    repeating = CONFIG.replace('"#ml-monitoring"}', '"#ml-monitoring", mention: "<!here>", repeat: 24h}')
    broken = repeating.replace("metric: ece,", "metric: eec,")

    def fail(at: datetime, error: str) -> tuple[int, int]:
        monkeypatch.setattr(hooks, "utc_now", lambda: at)
        state = type("State", (), {"message": error})
        hooks.report_monitor_failed(watchdog, type("Run", (), {"id": uuid.uuid4()}), state)
        roots = len(workspace.texts("ml-monitoring"))
        return roots, len(workspace.messages) - roots

    (world.folder / "alerts.yaml").write_text(broken, "utf-8")
    assert all(watchdog(return_state=True).is_failed() for _ in range(2))
    (text,) = workspace.texts("ml-monitoring")
    assert text.startswith("Monitor: a flow fails: The flow calmon-watchdog failed at ")
    assert {path for path, _ in heart.made} == {"/ping/secret-1234/fail"}
    begun = datetime.now(UTC)
    quarters = [begun + timedelta(minutes=15 * n) for n in range(1, 9 * 24 * 4)]
    assert [fail(at, f"no answer after {at.minute} s") for at in quarters[::12]][-1] == (1, 8)
    (world.folder / "alerts.yaml").write_text(repeating, "utf-8")
    watchdog()
    assert heart.made[-1] == ("/ping/secret-1234", "")


@pytest.mark.usefixtures("prefect")
def test_the_watchdogs_heartbeat_reports_what_slack_cannot(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch, heart: heartbeat.Calls
) -> None:
    """The token was revoked: Slack shows nothing of it, and a heartbeat that goes on would say that all is well."""
    from flows.watchdog import watchdog

    monkeypatch.setenv("CALMON_WATCHDOG_HEARTBEAT_URL", heart.url)
    workspace.always["chat.postMessage"] = slack.Fault.slack_error("token_revoked")
    at = datetime.now(UTC) - timedelta(hours=2)
    waiting = trial_message("#ml-monitoring", "critical", "ana", at)
    with world.opened() as monitor:
        monitor.store.add_delivery(delivery_of(waiting, kind="monitor", now=at))
    watchdog()
    watchdog()
    path, body = heart.made[-1]
    assert path == "/ping/secret-1234/fail"
    assert "token was revoked" in body
    assert body.endswith("Nothing has reached Slack so far.")
    workspace.always.clear()
    with world.opened(slack_bot_token=slack.TOKEN, slack_api_url=workspace.url) as monitor:
        deliver(monitor)
    watchdog()
    assert heart.made[-1] == ("/ping/secret-1234", "")


@pytest.mark.usefixtures("prefect")
def test_a_history_that_is_down_for_days_is_one_message_with_reminders_and_one_end(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import hooks
    from flows.watchdog import watchdog

    repeating = CONFIG.replace('"#ml-monitoring"}', '"#ml-monitoring", mention: "<!here>", repeat: 24h}')
    (world.folder / "alerts.yaml").write_text(repeating, "utf-8")
    begun = datetime.now(UTC)
    with monkeypatch.context() as patch:
        patch.setenv("CALMON_STORE_URL", "postgresql://calmon@127.0.0.1:1/history")  # nobody there: none is kept
        for quarter in range(0, 9 * 24 * 4, 8):
            patch.setattr(hooks, "utc_now", lambda at=begun + timedelta(minutes=15 * quarter): at)
            hooks.report_monitor_failed(
                watchdog, type("Run", (), {"id": 1}), type("State", (), {"message": "no history"})
            )
    (root,) = workspace.texts("ml-monitoring")
    replies = [m["text"] for m in workspace.messages if m["text"] != root]
    assert root.startswith("Monitor: the history cannot be used: ")
    assert len(replies) == 8
    assert all("Not over yet" in text and "<!here>" in text for text in replies)
    blocks = json.dumps(workspace.shown("ml-monitoring")[0]["blocks"])
    assert "refuses everything once what it knows is older than its TTL (30 s" in blocks
    assert "stays on" not in blocks
    watchdog()
    ours = [m["text"] for m in workspace.messages if "history" in m["text"]]
    assert ours[0].startswith("The history can be used again (seen ")  # the root, edited
    assert sum("can be used again" in text for text in ours) == 2
    watchdog()
    assert sum("can be used again" in m["text"] for m in workspace.messages) == 2


def kept_message() -> Delivery:
    at = datetime.now(UTC)
    payload = on_demand_failed("backfill", "a test", at, channel="#ml-monitoring", run="kept", url=None, mention=None)
    return delivery_of(payload, kind="monitor", now=at)


@pytest.mark.usefixtures("prefect")
def test_the_watchdog_leaves_slack_alone_for_as_long_as_it_asked(world: World, workspace: slack.FakeSlack) -> None:
    from flows.watchdog import watchdog

    kept = kept_message()
    with world.opened() as monitor:
        monitor.store.add_delivery(replace(kept, next_attempt_at=datetime.now(UTC) + timedelta(hours=1)))
    watchdog()
    assert workspace.messages == []


@pytest.mark.usefixtures("prefect")
def test_the_drain_sends_what_was_kept_once_it_is_due_and_stays_quiet_while_alerts_yaml_is_broken(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.drain import drain_outbox

    kept = kept_message()
    with world.opened() as monitor:
        monitor.store.add_delivery(kept)
        monitor.store.add_delivery(replace(kept, id="later", next_attempt_at=datetime.now(UTC) + timedelta(hours=1)))
    assert [drain_outbox() for _ in range(2)] == [{"sent": 1}, {}]
    assert len(workspace.texts("ml-monitoring")) == 1
    (world.folder / "alerts.yaml").write_text(BROKEN, "utf-8")
    assert drain_outbox() == {}
    assert len(workspace.texts("ml-monitoring")) == 1


ASKED = ("where all is swallowed", "twice in an import", "before the server answers", "and not heard")


@pytest.mark.parametrize(
    ("why", "code", "says"),
    [*((f"asked {where}", 0, "Stopped") for where in ASKED), ("a mistake", 1, "ValueError")],
)
def test_serve_ends_in_order_wherever_it_is_asked_to_and_mistakes_are_shown(
    why: str, code: int, says: str, world: World, tmp_path: Path
) -> None:
    # seen once: Ctrl-C while fastapi was imported came out as a SchemaError, with a traceback and exit code 1;
    # and twice: raised in the callback of a weak reference it was ignored, and nothing ended
    mine = {"PREFECT_API_URL": "http://127.0.0.1:1/api", "PREFECT_HOME": str(tmp_path / "home")}
    environment = clean_environment() | world.environment | mine
    done = subprocess.run(
        [sys.executable, "-c", SERVE_AND_FAIL, why], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done.stderr
    assert ("Traceback" in done.stderr) is (code == 1)
    assert "it was waited for" not in done.stdout
