"""No yes from the past: older copies of a history, caches, and clocks, against real processes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from monitor.alerting.health.issues import Observed, findings
from monitor.alerting.health.look import automation_line
from monitor.automation import Gate
from monitor.automation.gate.sources import HttpSource, StoreSource
from monitor.automation.state import effective
from monitor.config.load import parse_config
from monitor.config.settings import load_settings
from monitor.history.errors import HistoryLost, StoreMissing
from monitor.history.reader import SwitchReader
from monitor.history.store import Store
from monitor.operations.change_switch import SwitchChange, operate
from monitor.operations.open import open_store
from monitor.story.switch import switch_story
from tests.fakes import forked, heartbeat, slack
from tests.fakes.service import make_place, running
from tests.fakes.world import CONFIG, WEEKS, World, make_world

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
RULES = parse_config(CONFIG)


def turn(store: Store, *, enable: bool) -> None:
    operate(store, RULES, SwitchChange("tickets", "billing", enable, "ann", "looked"), lambda: datetime.now(UTC))


def backed_up(folder: Path) -> tuple[str, Path]:
    """A history in which the label is off, and a plain copy from the time when it was on."""
    url = f"sqlite:///{folder / 'history.sqlite'}"
    with Store.from_url(url) as store:
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))
        turn(store, enable=True)
    copy = folder / "backup.sqlite"
    shutil.copy(folder / "history.sqlite", copy)
    with Store.from_url(url) as store:
        turn(store, enable=False)
    return url, copy


ROUTER = """
import sys, time
from monitor.operations.open import open_store
from monitor.automation import Gate
gate = Gate.from_env()
seen = None
while True:
    found = gate.allows("tickets", "billing", score=0.93).reason.value
    if found != seen:
        seen = found
        print(found, flush=True)
    time.sleep(0.01)
"""


@contextmanager
def router(url: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "CALMON_STORE_URL": url, "CALMON_GATE_TTL_S": "4", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", ROUTER], stdout=subprocess.PIPE, text=True, env=environ) as process:
        yield process
        process.kill()


def line(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip()


def answers_until(process: subprocess.Popen[str], reason: str) -> list[str]:
    """What a router hears until it hears that; it waits for as long as the test may take."""
    found = [line(process)]
    while found[-1] not in (reason, ""):
        found.append(line(process))
    assert found[-1] == reason, found
    return found


def fresh(url: str) -> str:
    with Gate(StoreSource(url), ttl_s=20.0) as gate:
        return gate.allows("tickets", "billing", score=0.93).reason.value


def calmon(folder: Path, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.calmon(folder, os.environ | {"CALMON_STORE_URL": url}, *words)


def test_an_older_copy_put_back_under_live_gates_says_no_until_an_operator_confirms(tmp_path: Path) -> None:
    url, copy = backed_up(tmp_path)
    with router(url) as live:
        assert "on" not in answers_until(live, "off")
        shutil.copy(copy, tmp_path / "history.sqlite")
        assert "on" not in answers_until(live, "history_went_back")
        assert fresh(url) == "history_went_back"  # by the record beside the file
        with Store.from_url(url) as store:  # whoever opens it to write says so to everybody
            assert not store.identity().confirmed
        (tmp_path / "history.sqlite.epoch").unlink()
        assert fresh(url) == "history_restored"
        done = calmon(tmp_path, url, "db", "confirm", "--reason", "the off was a mistake", "--by", "ann")
        assert done.returncode == 0, done.stderr
        assert "off" not in answers_until(live, "on")
        assert fresh(url) == "on"


def put_back(copy: Path, folder: Path) -> None:
    with closing(sqlite3.connect(copy)) as older, closing(sqlite3.connect(folder / "history.sqlite")) as live:
        older.backup(live)


def test_a_writer_that_has_it_open_lets_no_older_copy_overtake_the_record(tmp_path: Path) -> None:
    """`calmon slack` and the service open a history once: what they change counts on from the older copy."""
    url, copy = backed_up(tmp_path)
    with Store.from_url(url) as kept:
        put_back(copy, tmp_path)
        assert fresh(url) == "history_went_back"
        for enable in (True, False, True, False):
            change = SwitchChange("tickets", "shipping", enable, "ann", "looked")
            operate(kept, RULES, change, lambda: datetime.now(UTC))
        assert fresh(url) == "history_restored"
        found = kept.identity()
    assert (found.confirmed, found.mark.epoch > 0) == (False, True)


def test_scores_published_into_an_older_copy_do_not_make_it_the_newest(tmp_path: Path) -> None:
    url, copy = backed_up(tmp_path)
    with Store.from_url(url) as kept:
        put_back(copy, tmp_path)
        for score in (0.81, 0.82, 0.83):
            kept.publish_thresholds({("tickets", None): score}, datetime.now(UTC))
        assert fresh(url) == "history_restored"


def test_a_gate_refuses_an_older_copy_also_when_its_version_has_overtaken_the_one_seen(tmp_path: Path) -> None:
    url, copy = backed_up(tmp_path)
    record = tmp_path / "history.sqlite.epoch"
    with router(url) as live:
        assert "on" not in answers_until(live, "off")
        record.unlink()  # as where a whole folder is put back
        put_back(copy, tmp_path)
        assert "on" not in answers_until(live, "history_went_back")
        with Store.from_url(url) as store:
            for enable in (True, False, True, False):
                operate(
                    store,
                    RULES,
                    SwitchChange("tickets", "shipping", enable, "ann", "looked"),
                    lambda: datetime.now(UTC),
                )
            assert fresh(url) == "on"  # whoever has seen nothing can miss nothing
            time.sleep(3.0)
            store.confirm(why="known", by="ann", now=datetime.now(UTC))
        assert answers_until(live, "on") == ["on"]


CRASHED = """
import os, sqlite3, sys
from contextlib import closing
from datetime import UTC, datetime
from monitor.history.store import Store
from tests.integration.test_gate_past import turn
store = Store.from_url(sys.argv[1])
turn(store, enable=False)
with closing(sqlite3.connect(sys.argv[1].removeprefix("sqlite:///"))) as other:
    other.execute("PRAGMA wal_checkpoint(RESTART)")  # the off is in the file, and what follows begins a new journal
store.publish_thresholds({("tickets", None): 0.9}, datetime.now(UTC))
os.kill(os.getpid(), 9)
"""


def test_an_old_file_under_the_journal_of_the_newer_one_closes(tmp_path: Path) -> None:
    """The journal says the newest version, and the file under it that the label is on."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    with Store.from_url(url) as store:
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))
        turn(store, enable=True)
    shutil.copy(tmp_path / "history.sqlite", tmp_path / "backup.sqlite")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", CRASHED, url], check=False, timeout=60, env=environ)
    assert fresh(url) == "off"
    shutil.copy(tmp_path / "backup.sqlite", tmp_path / "history.sqlite")
    assert fresh(url) == "history_went_back"
    told = calmon(tmp_path, url, "db", "check")
    assert (told.returncode, "under the journal (-wal)" in told.stderr) == (1, True)
    with Store.from_url(url) as store:
        assert not store.identity().confirmed


def test_another_history_in_its_place_is_refused_by_gates_that_live(tmp_path: Path) -> None:
    url, _ = backed_up(tmp_path)
    other = f"sqlite:///{tmp_path / 'other.sqlite'}"
    with Store.from_url(other) as store:
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))
        for enable in (True, False, True, False, True):
            turn(store, enable=enable)
    with router(url) as live:
        assert "on" not in answers_until(live, "off")
        shutil.move(tmp_path / "other.sqlite", tmp_path / "history.sqlite")
        assert "on" not in answers_until(live, "history_went_back")


def test_health_and_status_say_that_the_history_went_back(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    copy = tmp_path / "copy.sqlite"
    file = tmp_path / "history.sqlite"
    shutil.copy(file, copy)
    with Store.from_url(place.store_url) as store:
        turn(store, enable=False)
    shutil.copy(copy, file)
    told = calmon(tmp_path, place.store_url, "health")
    assert told.returncode == 1
    assert "The history is not confirmed" in told.stdout
    assert "calmon docs history_restored" in told.stdout
    status = calmon(tmp_path, place.store_url, "automation", "status", "--label", "billing", "--json")
    assert '"allowed": false' in status.stdout
    assert "older than the one seen before" in status.stdout


def test_the_service_refuses_a_history_that_went_back_and_says_why(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    copy = tmp_path / "copy.sqlite"
    shutil.copy(tmp_path / "history.sqlite", copy)
    with running(place) as service, service.client("boss") as client:
        assert client.get("/v1/automation/tickets/billing?score=0.9").json()["reason"] == "on"
        off = client.post("/v1/automation/tickets/billing/disable", json={"reason": "wrong"})
        assert off.status_code == 200
        with closing(sqlite3.connect(copy)) as older, closing(sqlite3.connect(tmp_path / "history.sqlite")) as live:
            older.backup(live)
        found = client.get("/v1/automation/tickets/billing?score=0.9").json()
        assert (found["allowed"], found["reason"]) in [(False, "history_went_back"), (False, "history_restored")]


@pytest.mark.postgres
def test_rows_of_a_dump_put_back_into_postgresql_close_gates_that_live(fresh_postgres_url: str) -> None:
    with Store.from_url(fresh_postgres_url) as store:
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))
        turn(store, enable=True)
        before = store.identity().mark
        with Gate(StoreSource(fresh_postgres_url), ttl_s=4.0) as gate:
            assert gate.allows("tickets", "billing", score=0.93)
            turn(store, enable=False)
            wait_for(gate, "off")
            engine = sa.create_engine(fresh_postgres_url)
            with engine.begin() as connection:  # as pg_restore would leave it
                connection.execute(sa.text("UPDATE switches SET state = 'on', lease_until = now() + interval '9 days'"))
                connection.execute(sa.text(f"UPDATE history SET version = {before.version}"))
            engine.dispose()
            wait_for(gate, "history_went_back")
            store.confirm(why="known", by="ann", now=datetime.now(UTC))
            wait_for(gate, "on")


def wait_for(gate: Gate, reason: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while (found := gate.allows("tickets", "billing", score=0.93)).reason.value != reason:
        assert time.monotonic() < end, found
        time.sleep(0.01)


def test_a_clock_far_behind_the_newest_change_closes(tmp_path: Path) -> None:
    url, _ = backed_up(tmp_path)
    with Store.from_url(url) as store:
        turn(store, enable=True)
    for behind, reason in ((timedelta(minutes=5), "on"), (timedelta(hours=3), "clock_behind")):
        source = StoreSource(url)
        source._reader = SwitchReader(url, limit_s=5.0, clock=lambda back=behind: datetime.now(UTC) - back)
        with Gate(source, ttl_s=20.0) as gate:
            assert gate.allows("tickets", "billing", score=0.93).reason.value == reason


def test_by_a_clock_far_behind_everything_says_that_automation_is_off(tmp_path: Path) -> None:
    url, _ = backed_up(tmp_path)
    with Store.from_url(url) as store:
        turn(store, enable=True)
        identity, state = store.identity(), store.switch("tickets", "billing")
    now = datetime.now(UTC) - timedelta(hours=3)
    assert effective(state, now, whole=None, identity=identity).reason.value == "clock_behind"
    off = "the clock is behind the newest change of a switch"
    assert switch_story(state, now, whole=None, identity=identity).words == f"Automation is off: {off}"
    seen = Observed(ZoneInfo("UTC"), (), (state.source,), switches=[state], since=now, identity=identity)
    (found,) = findings(seen, now)
    assert (found.reason, found.severity) == ("clock_behind", "critical")
    assert automation_line(seen, now).startswith("Every gate is closed, since the clock is behind")
    assert "clock_behind" not in [each.reason for each in findings(seen, now + timedelta(hours=3))]


PROXY = """
import http.client, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

origin, kept = urlsplit(sys.argv[1]), {}

class Caching(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        page = urlsplit(self.path).path  # as a proxy does that is told to leave out queries
        if page not in kept:
            asked = http.client.HTTPConnection(origin.hostname, origin.port)
            asked.request("GET", self.path, headers={k: v for k, v in self.headers.items() if k != "Host"})
            found = asked.getresponse()
            dropped = ("age", "cache-control", "date", "connection", "transfer-encoding", "server")
            headers = [(k, v) for k, v in found.getheaders() if k.lower() not in dropped]
            kept[page] = found.status, headers, found.read()
        status, headers, body = kept[page]
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Caching)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_behind_a_proxy_that_keeps_answers_and_drops_their_age_nothing_is_answered_from_its_memory(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path)
    with running(place) as service:
        command = [sys.executable, "-c", PROXY, service.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
            try:
                url = f"http://127.0.0.1:{line(proxy)}"
                with Gate(HttpSource(url, place.tokens["router"]), ttl_s=4.0) as gate:
                    assert gate.allows("tickets", "billing", score=0.93)  # the first answer is the service's own
                    wait_for(gate, "service_failed")
                    assert "another request" in gate.allows("tickets", "billing", score=0.93).detail
                with Gate(HttpSource(url, place.tokens["router"]), ttl_s=20.0) as late:
                    assert late.allows("tickets", "billing", score=0.93).reason.value == "service_failed"
            finally:
                proxy.kill()


def test_a_history_that_is_gone_is_an_error_and_only_an_operator_makes_another(tmp_path: Path) -> None:
    url, _ = backed_up(tmp_path)
    (tmp_path / "history.sqlite").unlink()
    for create in (True, False):
        with pytest.raises(HistoryLost, match="calmon db upgrade --new"):
            Store.from_url(url, create=create)
    assert not (tmp_path / "history.sqlite").exists()
    assert calmon(tmp_path, url, "db", "upgrade", "--new").returncode == 0
    with Store.from_url(url) as store:
        assert store.switches() == []
        assert store.identity().mark.epoch > 0


def test_a_run_whose_history_was_lost_makes_none_and_people_are_notified(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    first = run_weekly(world)
    assert first.returncode == 0, first.stderr  # the first run makes the history, as ever
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"history.sqlite{ending}").unlink(missing_ok=True)
    with slack.running() as workspace, heartbeat.running() as beats:
        told = {
            "CALMON_SLACK_BOT_TOKEN": slack.TOKEN, "CALMON_SLACK_API_URL": workspace.url,
            "CALMON_HEARTBEAT_URL": beats.url,
        }  # fmt: skip
        again = run_weekly(world, **told)
        assert again.returncode == 1
        assert "calmon db upgrade --new" in again.stderr
        (text,) = workspace.texts("ml-monitoring")
        assert "is gone" in text
        assert [path.endswith("/fail") for path, _ in beats.made] == [True]
        assert run_weekly(world, "health", **told).returncode == 1
    assert not (tmp_path / "history.sqlite").exists()


def run_weekly(world: World, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    asked = words or ("run", "weekly", "--week", WEEKS[6])
    return forked.calmon(world.folder, os.environ | world.environment | environment, *asked)


@pytest.mark.parametrize("existed", [True, False])
def test_neither_drain_nor_watchdog_makes_a_history(tmp_path: Path, existed: bool) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    if existed:
        url, _ = backed_up(tmp_path)
        (tmp_path / "history.sqlite").unlink()
    settings = load_settings({"CALMON_STORE_URL": url})
    with pytest.raises(HistoryLost if existed else StoreMissing), open_store(settings, writes=True, creates=False):
        raise AssertionError("nothing is opened")
    assert not (tmp_path / "history.sqlite").exists()
