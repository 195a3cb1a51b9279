"""No secret leaves: canaries in every setting, every command in many bad situations, every place looked through."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from monitor.pinning import pin
from monitor.run import run_window
from monitor.windows import week
from tests.conftest import new_postgres_database
from tests.fakes import heartbeat, slack
from tests.fakes.canaries import (
    APP_TOKEN,
    BOT_TOKEN,
    GATE_TOKEN,
    HEARTBEAT,
    IN_QUERY,
    IN_USER,
    PASSWORD,
    QUERY_SECRET,
    Aviary,
    Trial,
    own_edges,
    tried,
)
from tests.fakes.slack import Fault
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world

Environ = dict[str, str]
WEEK = WEEKS[10]
COMMANDS = (
    "check", "check --offline", f"run weekly --week {WEEK} --json", f"run weekly --week {WEEK} --dry-run",
    "run daily --date 2026-08-20", f"backfill --from {WEEKS[9]} --to {WEEK}",
    f"baseline pin --from {BASELINE[0]} --to {BASELINE[1]}", "baseline list", "history --format csv",
    "explain 0", f"examples --label slipping --wrong --week {WEEK}", f"report --week {WEEK}",
    f"report --week {WEEK} --html r.html --markdown r.md", "incidents list", "incidents test", "incidents ack 0",
    "automation status", "automation enable --all --reason test", "automation disable --label steady --reason test",
    "automation history", "health", "health --json",
    "replay --rules CONFIG --weeks 2", "recalibrate --label slipping", "slack", "demo", "db upgrade",
)  # fmt: skip
SENDING = ("check", "incidents test", "incidents ack 0", f"run weekly --week {WEEK}", "health", "slack",
           "automation disable --label steady --reason test", "incidents list")  # fmt: skip
LASTING = "automation drill --source tickets --runs 1"


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
        commands = SENDING if short else (*COMMANDS, LASTING) if name.startswith("store") else COMMANDS
        lines = [words.replace("CONFIG", base["CALMON_CONFIG"]).split(" ") for words in commands]
        found += [tried(name, words, environ, aviary) for words in lines]
    return found


@pytest.fixture(scope="module")
def guarded(postgres_url: str) -> Callable[[str], str]:
    """Databases that ask their user for a password, on the real server: the right one is a canary."""
    admin = sa.create_engine(
        sa.make_url(postgres_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        hba = Path(str(connection.exec_driver_sql("SHOW hba_file").scalar()))
        hba.write_text("local all watcher scram-sha-256\n" + hba.read_text("utf-8"), "utf-8")
        right = PASSWORD.replace("'", "''").replace("%", "%%")
        connection.exec_driver_sql(f"CREATE ROLE watcher LOGIN PASSWORD '{right}'")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    admin.dispose()

    def address(password: str) -> str:
        url = new_postgres_database(postgres_url)
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("GRANT ALL ON SCHEMA public TO watcher")
        engine.dispose()
        return url.replace("postgres:@", f"watcher:{quote(password, safe='')}@")

    return address


def test_no_command_in_no_situation_shows_stores_or_sends_a_secret(
    judged: World, aviary: Aviary, guarded: Callable[[str], str], record_property: Callable[[str, Any], None]
) -> None:
    wrong = f"Kanari1{PASSWORD}wrong"
    more = {
        "wrong password of the warehouse": {"CALMON_WAREHOUSE_URL": guarded(wrong)},
        "wrong password of the history": {"CALMON_STORE_URL": guarded(wrong)},
        "no such table": {"CALMON_WAREHOUSE_URL": guarded(PASSWORD)},
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


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
