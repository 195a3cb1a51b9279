"""A gate over a real history: in SQLite and PostgreSQL, removed, locked, replaced, silent."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.automation import Gate, GateReason
from monitor.automation.gate.sources import StoreSource
from monitor.core.records import SwitchState
from monitor.history import reader, schema
from monitor.history.store import Store

ROOT = Path(__file__).parents[2]
TTL = 1.0
SLOW_MACHINE = 10.0
NEVER = SwitchState("tickets", "billing")


def state_on(**more: object) -> SwitchState:
    now = datetime.now(UTC)
    return SwitchState(
        "tickets", "billing", "on", lease_until=now + timedelta(days=2), changed_at=now, version=1, **more
    )  # type: ignore[arg-type]


def turned_on(url: str) -> None:
    """A history in which tickets/billing may act from 0.8."""
    with Store.from_url(url) as store:
        assert store.apply_switch(NEVER, state_on(), None) == "applied"
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))


def change(url: str, state: str) -> None:
    with Store.from_url(url) as store:
        before = store.switch("tickets", "billing")
        after = SwitchState("tickets", "billing", state, changed_at=datetime.now(UTC))  # type: ignore[arg-type]
        assert store.apply_switch(before, after, None) == "applied"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "it's a 100% #history.sqlite"
    turned_on(f"sqlite:///{path}")
    return path


@contextmanager
def gate_of(url: str, ttl_s: float = TTL) -> Iterator[Gate]:
    with Gate(StoreSource(url), ttl_s=ttl_s) as gate:
        yield gate


def asked(gate: Gate) -> str:
    return gate.allows("tickets", "billing", score=0.93).reason.value


def wait_for(gate: Gate, reason: str, words: str = "") -> tuple[float, str]:
    """The seconds until the gate says so, in these words, and all its words."""
    began = time.monotonic()
    while True:
        decision = gate.allows("tickets", "billing", score=0.93)
        took = time.monotonic() - began
        if decision.reason.value == reason and words in decision.detail:
            return took, decision.detail
        assert took < TTL + SLOW_MACHINE, decision
        time.sleep(0.005)


def closes(gate: Gate, reason: GateReason = GateReason.STORE_UNREADABLE) -> str:
    """It closes with this reason, and in time; the gate's unit tests have a clock that says so to the moment."""
    took, detail = wait_for(gate, reason.value)
    assert took < TTL + 1.0
    return detail


def test_the_revision_it_reads_is_the_newest() -> None:
    assert schema.head() == reader.REVISION


def test_a_change_in_the_history_is_noticed_both_ways(file: Path) -> None:
    url = f"sqlite:///{file}"
    with gate_of(url) as gate:
        assert asked(gate) == "on"
        change(url, "off")
        assert wait_for(gate, "off")[0] < TTL + SLOW_MACHINE
        with Store.from_url(url) as store:
            store.apply_switch(store.switch("tickets", "billing"), state_on(), None)
        wait_for(gate, "on")
        with Store.from_url(url) as store:
            store.publish_thresholds({}, datetime.now(UTC))
        wait_for(gate, "no_threshold")


def test_of_a_history_at_rest_only_the_file_itself_is_touched(file: Path) -> None:
    names = sorted(path.name for path in file.parent.iterdir())
    before = file.read_bytes(), file.stat().st_mtime_ns
    with gate_of(f"sqlite:///{file}") as gate:
        assert asked(gate) == "on"
    assert {file.name, f"{file.name}.epoch"} <= set(names)
    assert sorted(path.name for path in file.parent.iterdir()) == names
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_what_a_writer_has_only_in_its_journal_is_read(file: Path) -> None:
    with Store.from_url(f"sqlite:///{file}") as store, gate_of(f"sqlite:///{file}") as gate:
        before = store.switch("tickets", "billing")
        store.apply_switch(before, SwitchState("tickets", "billing", "off", changed_at=datetime.now(UTC)), None)
        assert Path(f"{file}-wal").stat().st_size > 0
        assert asked(gate) == "off"


@pytest.mark.parametrize("ends_in", ["a link to the file", "a link to a link"])
def test_what_a_writer_has_only_in_its_journal_is_read_through_a_symbolic_link(file: Path, ends_in: str) -> None:
    """SQLite puts its journal beside what the link leads to, not beside the link."""
    link = file.parent / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(file)
    if ends_in == "a link to a link":
        link = link.rename(link.with_name("first"))
        (second := link.with_name("second")).symlink_to("first")
        link = second
    with Store.from_url(f"sqlite:///{file}") as store, gate_of(f"sqlite:///{link}") as gate:
        assert asked(gate) == "on"
        before = store.switch("tickets", "billing")
        store.apply_switch(before, SwitchState("tickets", "billing", "off", changed_at=datetime.now(UTC)), None)
        wait_for(gate, "off")


def test_a_symbolic_link_that_leads_elsewhere_now_is_followed(file: Path, tmp_path: Path) -> None:
    other, link = tmp_path / "other.sqlite", tmp_path / "link.sqlite"
    shutil.copy(file, other)
    change(f"sqlite:///{other}", "off")
    link.symlink_to(file)
    with gate_of(f"sqlite:///{link}") as gate:
        assert asked(gate) == "on"
        (tmp_path / "new").symlink_to(other)
        (tmp_path / "new").rename(link)
        wait_for(gate, "off")


def test_a_history_with_a_second_name_closes_it(file: Path, tmp_path: Path) -> None:
    """What is written under one name lies in a journal that a reader of the other does not see."""
    with Store.from_url(f"sqlite:///{file}") as store, gate_of(f"sqlite:///{tmp_path}/second.sqlite") as gate:
        os.link(file, tmp_path / "second.sqlite")
        store.apply_switch(
            store.switch("tickets", "billing"),
            SwitchState("tickets", "billing", "off", changed_at=datetime.now(UTC)),
            None,
        )
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.reason, "a second name" in decision.detail) == (GateReason.STORE_UNREADABLE, True), decision


def test_asking_where_there_is_no_history_makes_none(tmp_path: Path) -> None:
    with gate_of(f"sqlite:///{tmp_path}/none/history.sqlite") as gate:
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.reason, list(tmp_path.iterdir())) == (GateReason.STORE_UNREADABLE, [])
        assert decision.detail.startswith("there is no history at ")


def test_a_relative_address_is_that_of_the_directory_in_which_the_gate_was_made(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(file, tmp_path / "here.sqlite")
    monkeypatch.chdir(tmp_path)
    gate = Gate.from_env({"CALMON_STORE_URL": "sqlite:///here.sqlite"})
    monkeypatch.chdir("/")
    assert asked(gate) == "on"
    gate.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "duckdb:///a.duckdb", "mysql://h/d", "sqlite:////"])
def test_an_address_that_cannot_be_a_gates_closes_it(url: str) -> None:
    with gate_of(url) as gate:
        assert asked(gate) == "store_unreadable"


def test_a_history_that_is_removed_closes_it(file: Path) -> None:
    with gate_of(f"sqlite:///{file}") as gate:
        assert asked(gate) == "on"
        file.unlink()
        assert "there is no history" in closes(gate)


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be one " * 400], ids=["empty", "text"])
def test_a_history_that_is_replaced_by_garbage_closes_it(file: Path, content: bytes) -> None:
    with gate_of(f"sqlite:///{file}") as gate:
        assert asked(gate) == "on"
        file.write_bytes(content)
        assert closes(gate)


def test_a_history_of_which_half_is_lost_closes_it_or_is_read_rightly(file: Path) -> None:
    size = file.stat().st_size
    with gate_of(f"sqlite:///{file}") as gate:
        assert asked(gate) == "on"
        os.truncate(file, size // 8)
        closes(gate)


def test_a_history_that_is_locked_closes_it_and_opens_it_again(file: Path) -> None:
    with gate_of(f"sqlite:///{file}") as gate:
        assert asked(gate) == "on"
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        holder.execute("UPDATE switches SET version = version")  # another sum would be a history that went back
        closes(gate)  # on a busy machine its own limit of time may strike before SQLite's
        wait_for(gate, GateReason.STORE_UNREADABLE.value, "locked")
        holder.execute("COMMIT")
        holder.close()
        wait_for(gate, "on")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE calmon_revision SET version_num = '0099'", "is at schema revision 0099"),
        ("DROP TABLE calmon_revision", "no tables of a history"),
        ("DROP TABLE thresholds", "no such table"),
        ("UPDATE switches SET state = 'paused'", "holds what is no snapshot"),
        ("UPDATE switches SET lease_until = 'soon'", "holds what is no snapshot"),
        ("UPDATE switches SET blocked = '[[0.9, 0.1]]'", "holds what is no snapshot"),
        ("UPDATE switches SET blocked = '{nonsense'", "holds what is no snapshot"),
        ("UPDATE thresholds SET automate_at = -1", "holds what is no snapshot"),
        ("UPDATE thresholds SET automate_at = 'NaN'", "holds what is no snapshot"),
    ],
)
def test_a_history_that_holds_what_means_nothing_closes_it(file: Path, statement: str, said: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    with gate_of(f"sqlite:///{file}") as gate:
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.reason, said in decision.detail) == (GateReason.STORE_UNREADABLE, True), decision


FORKED = """
import importlib.abc, os, sys, threading, time
from monitor.automation import Gate
from monitor.automation.gate.sources import StoreSource

begun = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "sqlalchemy.engine":
            begun.set()
            time.sleep(1.0)

sys.meta_path.insert(0, Slow())
gate = Gate(StoreSource(sys.argv[1]), ttl_s=2.0)
threading.Thread(target=gate.allows, args=("tickets", "billing", 0.93)).start()
assert begun.wait(20)
child = os.fork()  # in the middle of the first reading's imports
end = time.monotonic() + 20
while not (found := gate.allows("tickets", "billing", 0.93)) and time.monotonic() < end:
    time.sleep(0.01)
if child == 0:
    os._exit(0 if found else 1)
print(found.reason.value, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


FORKED_WHILE_READING = """
import os, sys, threading, time
from monitor.automation.gate.sources import StoreSource

StoreSource(sys.argv[1]).read(5)
threading.Thread(target=lambda: [StoreSource(sys.argv[1]).read(5) for _ in iter(int, 1)], daemon=True).start()

def hung(child):
    end = time.monotonic() + 10
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > end:
            os.kill(child, 9)
            return bool(os.waitpid(child, 0))
        time.sleep(0.001)
    return False

found = 0
for _ in range(60):  # of those, five hung while a reading of SQLite could be cut in two
    if (child := os.fork()) == 0:
        StoreSource(sys.argv[1]).read(3)
        os._exit(0)
    found += hung(child)
    if found:
        break
print(found)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    ("meanwhile", "said"), [(FORKED, ["on", "0"]), (FORKED_WHILE_READING, ["0"])], ids=["imports the driver", "reads"]
)
def test_a_process_forked_while_its_parent_uses_sqlite_can_still_read(
    file: Path, meanwhile: str, said: list[str]
) -> None:
    command = [sys.executable, "-c", meanwhile, f"sqlite:///{file}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.split() == said, done.stderr


# The clock of the router, in a process of its own whose clock the test sets


CLOCKS = """
import datetime as dt, sys, time
from monitor.automation import Gate
from monitor.automation.gate.sources import StoreSource
from monitor.history import reader

shift = dt.timedelta(0)
source = StoreSource(sys.argv[1])
source._reader = reader.SwitchReader(sys.argv[1], limit_s=1.0, clock=lambda: dt.datetime.now(dt.timezone.utc) + shift)
gate = Gate(source, ttl_s=0.5)

def wait_for(reason):
    end = time.monotonic() + 20
    while (found := gate.allows("tickets", "billing", 0.93).reason) != reason:
        assert time.monotonic() < end, found
        time.sleep(0.005)

wait_for("on")
shift = dt.timedelta(days=-3)          # back: the lease of two days has not become five, and nothing is believed
time.sleep(0.5)
wait_for("answer_old")
ahead = gate._refresher.held.now - dt.datetime.now(dt.timezone.utc)
assert abs(ahead) < dt.timedelta(seconds=30), ahead
shift = dt.timedelta(days=3)
wait_for("lease_ended")
shift = dt.timedelta(0)                # and back again: ended is ended
time.sleep(0.5)
wait_for("answer_old")
print("well")
"""


def test_a_wall_clock_that_jumps_neither_prolongs_nor_revives_a_lease(file: Path) -> None:
    command = [sys.executable, "-c", CLOCKS, f"sqlite:///{file}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


# PostgreSQL, with a stretch of wire in between that can be cut or go silent


@dataclass
class Wire:
    """A proxy for TCP before a server on a Unix socket. ``silent``: it takes everything and passes nothing on."""

    target: str
    silent: bool = False
    port: int = 0
    taken: int = 0
    _open: list[socket.socket] = field(default_factory=list)
    _server: socket.socket = field(default_factory=socket.socket)

    def __enter__(self) -> Wire:
        self._server.bind(("127.0.0.1", 0))
        self._server.listen(50)
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.target)
                self.taken += 1
                self._open += [near, far]
                threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.silent:
                    target.sendall(data)
            if not self.silent:
                target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(fresh_postgres_url: str) -> Iterator[tuple[Wire, str, str]]:
    """The wire, the address through it, and the one beside it."""
    turned_on(fresh_postgres_url)
    url = sa.make_url(fresh_postgres_url)
    folder = str(url.query["host"])
    (end,) = [path for path in Path(folder).glob(".s.PGSQL.*") if not path.name.endswith(".lock")]
    with Wire(str(end)) as found:
        through = url.set(host="127.0.0.1", port=found.port, query={"sslmode": "disable"})
        yield found, through.render_as_string(hide_password=False), fresh_postgres_url


@pytest.mark.postgres
def test_a_change_in_postgresql_is_noticed_and_no_connection_is_kept(wire: tuple[Wire, str, str]) -> None:
    _, through, beside = wire
    with gate_of(through) as gate:
        assert asked(gate) == "on"
        change(beside, "off")
        wait_for(gate, "off")
    engine = sa.create_engine(sa.make_url(beside).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        wait_until(
            lambda: (
                connection.scalar(sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"))
                == 1
            )
        )
    engine.dispose()


@pytest.mark.postgres
def test_postgresql_that_stops_answering_closes_it_and_the_thread_comes_free(wire: tuple[Wire, str, str]) -> None:
    found, through, _ = wire
    with gate_of(through) as gate:
        assert asked(gate) == "on"
        threads = threading.active_count()
        found.silent = True
        assert "within" in closes(gate)
        taken = found.taken
        wait_until(lambda: found.taken >= taken + 2)  # it goes on trying, one reading after the other
        assert threading.active_count() <= threads + 2 * 2 * (found.taken + 2)  # the wire has two threads a connection
        assert [t.name for t in threading.enumerate()].count("calmon gate") == 1
        found.silent = False
        wait_for(gate, "on")


@pytest.mark.postgres
def test_postgresql_that_goes_silent_in_the_middle_of_a_reading_is_hung_up_on(wire: tuple[Wire, str, str]) -> None:
    """The first answer comes, then nothing: no time limit of the server or of connecting helps there."""
    found, through, beside = wire
    engine = sa.create_engine(sa.make_url(beside).set(drivername="postgresql+psycopg"))
    assert StoreSource(through).read(20.0).switches
    with engine.begin() as blocker:
        blocker.execute(sa.text("LOCK TABLE thresholds IN ACCESS EXCLUSIVE MODE"))
        threading.Timer(0.3, lambda: setattr(found, "silent", True)).start()
        began = time.monotonic()
        with pytest.raises(Exception, match="did not answer within") as raised:
            StoreSource(through).read(1.0)
        assert time.monotonic() - began < 1.0 + SLOW_MACHINE
    assert raised.value.reason is GateReason.STORE_UNREADABLE  # type: ignore[attr-defined]
    engine.dispose()


@pytest.mark.postgres
def test_a_table_that_somebody_has_locked_closes_it_and_waits_for_nobody(wire: tuple[Wire, str, str]) -> None:
    _, through, beside = wire
    engine = sa.create_engine(sa.make_url(beside).set(drivername="postgresql+psycopg"))
    with gate_of(through) as gate:
        assert asked(gate) == "on"
        with engine.begin() as blocker:
            blocker.execute(sa.text("LOCK TABLE switches IN ACCESS EXCLUSIVE MODE"))
            assert closes(gate)
        wait_for(gate, "on")
    engine.dispose()


@pytest.mark.postgres
def test_postgresql_that_is_gone_closes_it_and_the_password_is_not_reported(
    wire: tuple[Wire, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    found, through, _ = wire
    secret = sa.make_url(through).set(password="s3cret").render_as_string(hide_password=False)
    with gate_of(secret) as gate:
        assert asked(gate) == "on"
        found.__exit__()
        detail = closes(gate)
    assert "s3cret" not in detail + caplog.text
    assert "cannot be read" in detail


@pytest.mark.postgres
def test_the_time_is_the_servers(fresh_postgres_url: str) -> None:
    """A reader whose own clock is years wrong has the server's time on its board."""
    turned_on(fresh_postgres_url)
    wrong = reader.SwitchReader(fresh_postgres_url, limit_s=20.0, clock=lambda: datetime(1999, 1, 1, tzinfo=UTC))
    assert abs(wrong.read()[0] - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.postgres
def test_a_role_that_may_only_read_four_tables_is_enough(fresh_postgres_url: str) -> None:
    turned_on(fresh_postgres_url)
    url = sa.make_url(fresh_postgres_url)
    role = f"router_{url.database}"
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE ROLE {role} LOGIN"))
        connection.execute(sa.text(f"GRANT SELECT ON switches, thresholds, history, calmon_revision TO {role}"))
    with gate_of(url.set(username=role).render_as_string(hide_password=False), ttl_s=20.0) as gate:
        decision = gate.allows("tickets", "billing", score=0.93)
        assert decision.reason is GateReason.ON, decision
    with engine.begin() as connection:
        connection.execute(sa.text(f"DROP OWNED BY {role}"))
        connection.execute(sa.text(f"DROP ROLE {role}"))
    engine.dispose()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SLOW_MACHINE * 2
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
