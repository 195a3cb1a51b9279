"""No secret leaves: canaries in every setting, every command in many bad situations, every place looked through."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
import sqlalchemy as sa

from monitor.core.windows import week
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.conftest import new_postgres_database
from tests.fakes import heartbeat, service, slack
from tests.fakes.canaries import (
    APP_TOKEN,
    BOT_TOKEN,
    GATE_TOKEN,
    HEARTBEAT,
    IN_QUERY,
    IN_USER,
    PASSWORD,
    QUERY_SECRET,
    WORDS,
    Aviary,
    Trial,
    own_edges,
    tried,
)
from tests.fakes.slack import Fault
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world

pytestmark = pytest.mark.slow

Environ = dict[str, str]
WEEK = WEEKS[10]
COMMANDS = (
    "check", "check --offline", f"run weekly --week {WEEK} --json", f"run weekly --week {WEEK} --dry-run",
    "run daily --date 2026-08-20", f"backfill --from {WEEKS[9]} --to {WEEK}",
    f"baseline pin --from {BASELINE[0]} --to {BASELINE[1]}", "baseline list", "history --format csv",
    "explain 0", f"examples --label slipping --wrong --week {WEEK}", f"report --week {WEEK}",
    f"report --week {WEEK} --html r.html", "incidents list", "incidents test", "incidents ack 0",
    "automation status", "automation enable --all --reason test", "automation disable --label steady --reason test",
    "automation history", "health", "health --json",
    "replay --rules CONFIG --weeks 2", "recalibrate --label slipping", "slack", "demo", "db upgrade",
)  # fmt: skip
SENDING = ("check", "incidents test", "incidents ack 0", f"run weekly --week {WEEK}", "health", "slack",
           "automation disable --label steady --reason test", "incidents list")  # fmt: skip


@pytest.fixture(autouse=True)
def edges() -> Iterator[None]:
    with own_edges():
        yield


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A small world with a baseline and a judged week."""
    made = make_world(tmp_path_factory.mktemp("judged"), config=CONFIG.replace("resamples: 200", "resamples: 100"))
    with made.opened() as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="test", reason="test")
        run_window(monitor, week(WEEK, zone))
    return made


@pytest.fixture
def aviary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aviary]:
    monkeypatch.chdir(tmp_path)
    with heartbeat.running() as calls, slack.running(tokens={BOT_TOKEN}, any_channel=True) as workspace:
        yield Aviary(tmp_path, calls, workspace)


def settings_of(world: World, aviary: Aviary, name: str) -> Environ:
    """A copy of the world, with a canary in every setting that may hold a secret."""
    folder = aviary.folder / name
    folder.mkdir()
    for file in ("alerts.yaml", "warehouse.duckdb", "history.sqlite"):
        shutil.copy(world.folder / file, folder)
    host = aviary.heartbeat.url.partition("/ping")[0]
    return {
        "CALMON_WAREHOUSE_URL": f"duckdb:///{folder / 'warehouse.duckdb'}",
        "CALMON_STORE_URL": f"sqlite:///{folder / 'history.sqlite'}",
        "CALMON_CONFIG": str(folder / "alerts.yaml"),
        "CALMON_SLACK_BOT_TOKEN": BOT_TOKEN, "CALMON_SLACK_APP_TOKEN": APP_TOKEN,
        "CALMON_SLACK_API_URL": aviary.slack.url, "CALMON_GATE_TOKEN": GATE_TOKEN, "CALMON_GATE_TTL_S": "1",
        "CALMON_HEARTBEAT_URL": f"{host}/{HEARTBEAT}",
    }  # fmt: skip


def nowhere(kind: str = "postgresql+psycopg") -> str:
    """An address where nobody listens, with a password in both of its places."""
    return f"{kind}://{IN_USER}127.0.0.1:1/history?connect_timeout=2&{IN_QUERY}&sslmode=disable"


def situations(base: Environ) -> dict[str, Environ]:
    """What may be wrong, as changes of an environment in which all is well."""
    folder = Path(base["CALMON_CONFIG"]).parent
    secret = quote(QUERY_SECRET, safe="")
    return {
        "all is well": {},
        "warehouse unreachable": {"CALMON_WAREHOUSE_URL": nowhere()},
        "store unreachable": {"CALMON_STORE_URL": nowhere()},
        "unknown option": {"CALMON_WAREHOUSE_URL": f"postgresql://{IN_USER}127.0.0.1:1/w?session_secret={secret}"},
        "unknown option of DuckDB": {
            "CALMON_WAREHOUSE_URL": f"duckdb:///{folder / 'warehouse.duckdb'}?motherduck_token={secret}"
        },
        "unknown option of SQLite": {"CALMON_STORE_URL": f"sqlite:///{folder / 'history.sqlite'}?key={secret}"},
        "wrong driver": {
            "CALMON_WAREHOUSE_URL": nowhere("mysql+pymysql"), "CALMON_STORE_URL": nowhere("mssql+pyodbc")
        },
        "driver that is not installed": {
            "CALMON_WAREHOUSE_URL": nowhere("postgresql+nowhere"), "CALMON_STORE_URL": nowhere("postgresql+nowhere")
        },
        "password not encoded": {"CALMON_WAREHOUSE_URL": f"postgresql://watcher:{PASSWORD}@127.0.0.1:1/warehouse"},
        "Slack broken": {"CALMON_SLACK_API_URL": f"http://{IN_USER}127.0.0.1:1/api/"},
        "heartbeat broken": {
            "CALMON_HEARTBEAT_URL": f"http://127.0.0.1:1/{HEARTBEAT}", "CALMON_WAREHOUSE_URL": nowhere()
        },
    }  # fmt: skip


def bad_relation(base: Environ) -> None:
    """A relation that asks another database with a password: it is repeated by every engine's error."""
    asks = f"SELECT * FROM postgres_scan('host=127.0.0.1 port=1 user=w password={QUERY_SECRET}', 'public', 'tickets')"
    path = Path(base["CALMON_CONFIG"])
    path.write_text(path.read_text("utf-8").replace("relation: tickets", f'relation: "{asks}"'), "utf-8")


def all_trials(world: World, aviary: Aviary, more: Mapping[str, Environ]) -> list[Trial]:
    found = []
    first = settings_of(world, aviary, "first")
    for number, name in enumerate([*situations(first), *more, "bad relation", "Slack says no"]):
        base = settings_of(world, aviary, f"s{number}")
        environ = base | situations(base).get(name, {}) | more.get(name, {})
        if name == "bad relation":
            bad_relation(base)
        if name == "Slack says no":
            aviary.slack.fail_always("chat.postMessage", Fault.page(f"<html>no: {BOT_TOKEN}</html>"))
        short = "Slack" in name or "heartbeat" in name or "SQLite" in name
        commands = SENDING if short else COMMANDS
        lines = [words.replace("CONFIG", base["CALMON_CONFIG"]).split(" ") for words in commands]
        found += [tried(name, words, environ, aviary) for words in lines]
    return found


@dataclass
class Guarded:
    """A role of the real server that must show a password (a canary), as every user over a network does."""

    server: str
    admin: sa.Engine

    def address(self, password: str) -> str:
        """A new database, and the role's address of it with that password."""
        url = new_postgres_database(self.server)
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("GRANT ALL ON SCHEMA public TO watcher")
        engine.dispose()
        return url.replace("postgres:@", f"watcher:{quote(password, safe='')}@")

    def say(self, *statements: str) -> None:
        with self.admin.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    @contextmanager
    def shut(self) -> Iterator[None]:
        """The role may not connect meanwhile, and loses the connections it has."""
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'watcher'"
        self.say("ALTER ROLE watcher NOLOGIN", ends)
        try:
            yield
        finally:
            self.say("ALTER ROLE watcher LOGIN")


@pytest.fixture(scope="module")
def guarded(postgres_url: str) -> Iterator[Guarded]:
    url = sa.make_url(postgres_url).set(drivername="postgresql+psycopg")
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    found = Guarded(postgres_url, admin)
    with admin.connect() as connection:
        hba = Path(str(connection.exec_driver_sql("SHOW hba_file").scalar()))
    hba.write_text("local all watcher scram-sha-256\n" + hba.read_text("utf-8"), "utf-8")
    right = PASSWORD.replace("'", "''").replace("%", "%%")
    found.say(f"CREATE ROLE watcher LOGIN PASSWORD '{right}'", "SELECT pg_reload_conf()")
    yield found
    admin.dispose()


def test_no_command_in_no_situation_shows_stores_or_sends_a_secret(
    judged: World, aviary: Aviary, guarded: Guarded, record_property: Callable[[str, Any], None]
) -> None:
    wrong = f"Kanari1{PASSWORD}wrong"
    more = {
        "wrong password of the warehouse": {"CALMON_WAREHOUSE_URL": guarded.address(wrong)},
        "wrong password of the history": {"CALMON_STORE_URL": guarded.address(wrong)},
        "no such table": {"CALMON_WAREHOUSE_URL": guarded.address(PASSWORD)},
    }
    trials = all_trials(judged, aviary, more)
    leaking = [trial for trial in trials if trial.seen]
    record_property("calls", len(trials))
    record_property("leaking", len(leaking))
    print(f"{len(trials)} calls, {len(leaking)} leak a canary")
    assert not leaking, "\n".join(f"{t.situation}: calmon {t.command}: {t.seen}" for t in leaking)
    assert len({trial.code for trial in trials}) == 3  # done, failed, wrong: else nothing was tried
    lost = [t for t in trials if "Traceback" in t.output]
    assert not lost, "\n".join(f"{t.situation}: calmon {t.command}: {t.output[-2000:]}" for t in lost)


def test_the_service_shows_no_secret_whatever_is_asked_and_whatever_breaks(
    tmp_path: Path, guarded: Guarded, record_property: Callable[[str, Any], None]
) -> None:
    place = service.make_place(tmp_path, guarded.address(PASSWORD))
    more = {"CALMON_HEARTBEAT_URL": f"http://127.0.0.1:1/{HEARTBEAT}", "CALMON_SLACK_BOT_TOKEN": BOT_TOKEN}
    with service.running(place, CALMON_WAREHOUSE_URL=nowhere(), **more) as running, running.client("boss") as boss:
        answers = _asked(boss, place.tokens["boss"])
        with guarded.shut():
            answers += _asked(boss, place.tokens["boss"])
        with running.client() as nobody:
            answers += _asked(nobody, "calmon_" + "x" * 43)
        said = running.output()
    statuses = {answer.status_code for answer in answers}
    assert {200, 401, 404, 422, 503} <= statuses
    record_property("answers", len(answers))
    for text in (*(f"{answer.headers}\n{answer.text}" for answer in answers), said):
        assert not WORDS.search(text), text[-2000:]
        assert not any(token in text for token in place.tokens.values()), text[-800:]
    assert "Traceback" not in said


def _asked(client: httpx.Client, token: str) -> list[httpx.Response]:
    """Every address of the service, right and wrong; a token in the wrong place among it."""
    paths = (
        "/", "/health", "/metrics", "/v1/automation", "/v1/automation/tickets/billing?score=0.9",
        "/?week=2026-W34",
        "/?week=2026-W01", "/nothing", f"/v1/automation/{token}/billing",
        f"/v1/automation/tickets/billing?score={token}",
        f"/?token={token}", "/docs/http.md", "/docs/configuration.md",
    )  # fmt: skip
    change = "/v1/automation/tickets/billing/disable"
    bodies = ({"reason": "x"}, {"reason": "x", "until": token}, {token: "x"}, [token])
    return [client.get(path) for path in paths] + [client.post(change, json=body) for body in bodies]


class _Told(NamedTuple):
    """As much of Prefect's flow, run and state as a hook reads."""

    name: str = "weekly"
    id: str = "5e1f"
    message: str = ""


@pytest.mark.parametrize("broken", ["nothing", "history", "no route", "no token"])
def test_no_hook_of_a_flow_shows_a_secret(
    judged: World, aviary: Aviary, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(aviary.folder))
    from flows.hooks import report_monitor_failed, report_run_failed

    environ = settings_of(judged, aviary, "hooks") | {"CALMON_WAREHOUSE_URL": nowhere()}
    environ |= {"CALMON_STORE_URL": nowhere()} if broken == "history" else {}
    environ |= {"CALMON_SLACK_BOT_TOKEN": ""} if broken == "no token" else {}
    if broken == "no route":
        path = Path(environ["CALMON_CONFIG"])
        path.write_text(path.read_text("utf-8").partition("routes:")[0], "utf-8")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    message = (
        f"Flow run encountered an exception: OperationalError: {nowhere()} refused {PASSWORD}, {QUERY_SECRET!r}, "
        f"{BOT_TOKEN}, http://127.0.0.1/{HEARTBEAT}"
    )
    with caplog.at_level("DEBUG"):
        report_monitor_failed(_Told(), _Told(), _Told(message=message))
        report_monitor_failed(_Told(name="calmon-watchdog"), _Told(), _Told(message=message))
        report_run_failed(_Told(name="calmon-backfill"), _Told(), _Told(message=message))
    places = aviary.places(environ) | {"log": caplog.text}
    assert broken in ("no route", "no token") or "encountered an exception" in places["slack"]
    for place, text in places.items():
        assert not WORDS.search(text), f"{place}: {text[-1500:]}"


UNEXPECTED = """
import os, sys
import monitor.cli.health as health
from monitor.cli import main

def breaks(*_, **__):
    try:
        raise OSError(5, os.environ["CALMON_STORE_URL"])
    except OSError as error:
        secrets = os.environ["CALMON_WAREHOUSE_URL"], os.environ["CALMON_SLACK_BOT_TOKEN"]
        raise RuntimeError("cannot use %s with %s" % secrets) from error

health.observed = breaks
sys.argv = ["calmon", "health"]
main()
"""


def test_the_traceback_of_what_nobody_foresaw_shows_no_secret(judged: World, aviary: Aviary) -> None:
    environ = settings_of(judged, aviary, "unexpected") | {"CALMON_WAREHOUSE_URL": nowhere()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CALMON_")}
    done = subprocess.run(
        [sys.executable, "-c", UNEXPECTED], env=kept | environ, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 1
    assert "RuntimeError: cannot use postgresql+psycopg://watcher:***@127.0.0.1:1/history" in done.stderr
    assert not WORDS.search(done.stdout + done.stderr), done.stderr
