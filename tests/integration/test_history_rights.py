"""A role that may not create or change the history's tables: a plain error that says what to grant."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from monitor.cli.checks import check_store
from monitor.config.settings import load_settings
from monitor.history.errors import StoreUnreachable
from monitor.history.schema import explained, missing_grant
from monitor.history.store import Store
from tests.fakes.world import make_world

pytestmark = pytest.mark.postgres


def run(url: str, *statements: str) -> None:
    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def role(fresh_postgres_url: str) -> Iterator[str]:
    """A role that may connect, and whose name must be quoted."""
    name = f"Monitor-{uuid.uuid4().hex[:8]}"
    run(fresh_postgres_url, f'CREATE ROLE "{name}" LOGIN')
    yield name
    run(fresh_postgres_url, f'DROP OWNED BY "{name}"', f'DROP ROLE "{name}"')


@pytest.fixture
def url(fresh_postgres_url: str, role: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The address of an empty database, as that role."""
    monkeypatch.chdir(tmp_path)
    address = sa.make_url(fresh_postgres_url).set(username=role).render_as_string(hide_password=False)
    monkeypatch.setenv("CALMON_STORE_URL", address)
    return address


def calmon(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, list(words))


def refused(*words: str) -> str:
    found = calmon(*words)
    assert found.exit_code == 1, found.output
    assert isinstance(found.exception, SystemExit)
    assert "Traceback" not in found.output
    return " ".join(found.stderr.split())


@pytest.mark.parametrize("option", [(), ("--new",)])
def test_a_role_that_may_not_create_tables_reads_what_to_grant(
    fresh_postgres_url: str, url: str, role: str, option: tuple[str, ...]
) -> None:
    run(fresh_postgres_url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    what = f'the role "{role}" may not create tables in the schema public, where the history would be'
    grant = f'GRANT CREATE ON SCHEMA public TO "{role}"'
    assert f"{what}; as the owner of the schema: {grant}" in refused("db", "upgrade", *option)
    found = check_store(load_settings(os.environ))
    assert (found.state, grant in found.text) == ("failed", True)
    run(fresh_postgres_url, grant)
    assert check_store(load_settings(os.environ)).state == "note"
    assert calmon("db", "upgrade", *option).exit_code == 0
    assert check_store(load_settings(os.environ)).state == "ok"


def test_a_role_that_may_use_no_schema_reads_what_to_grant(fresh_postgres_url: str, url: str, role: str) -> None:
    run(fresh_postgres_url, "REVOKE ALL ON SCHEMA public FROM PUBLIC")
    grant = f'GRANT USAGE, CREATE ON SCHEMA public TO "{role}"'
    assert grant in refused("db", "upgrade")
    assert grant in check_store(load_settings(os.environ)).text
    run(fresh_postgres_url, grant)
    assert calmon("db", "upgrade").exit_code == 0


def test_a_role_that_does_not_own_the_tables_reads_who_does(
    fresh_postgres_url: str, url: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(fresh_postgres_url, f'GRANT CREATE ON SCHEMA public TO "{role}"')
    assert calmon("db", "upgrade").exit_code == 0
    run(
        fresh_postgres_url,
        f'REASSIGN OWNED BY "{role}" TO postgres',
        f'GRANT SELECT, UPDATE, INSERT, DELETE ON ALL TABLES IN SCHEMA public TO "{role}"',
    )

    def migrate(config: Config, _: str) -> None:
        config.attributes["connection"].execute(sa.text("ALTER TABLE runs ADD COLUMN more text"))

    monkeypatch.setattr(command, "upgrade", migrate)
    what = f'the tables of the history belong to the role postgres, and the role "{role}" may not change them'
    assert f'{what}; run `calmon db upgrade` as postgres, or as a superuser: GRANT postgres TO "{role}"' in refused(
        "db", "upgrade"
    )


def test_a_role_that_may_only_read_the_tables_reads_what_to_grant(
    fresh_postgres_url: str, url: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALMON_WAREHOUSE_URL", make_world(tmp_path).warehouse_url)
    with Store.from_url(fresh_postgres_url) as store:
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))
    run(fresh_postgres_url, f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{role}"')
    grants = (
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{role}"',
        f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO "{role}"',
    )
    what = f'the role "{role}" may not use the tables of the history as calmon does; as postgres: {"; ".join(grants)}'
    assert calmon("automation", "status").exit_code == 0
    found = check_store(load_settings(os.environ))
    assert (found.state, "can be read but not written" in found.text, what in found.text) == ("note", True, True)
    for words in CHANGES:
        assert what in refused(*words.split())
    assert f"error: permission denied for table thresholds: {what}" in refused("run", "weekly", "--week", "2026-W34")
    run(fresh_postgres_url, *grants)
    assert check_store(load_settings(os.environ)).state == "ok"
    for words in CHANGES:
        assert calmon(*words.split()).exit_code == 0, words


CHANGES = (
    "run weekly --week 2026-W34", "automation disable --source tickets --reason x", "db confirm --reason x", "db prune",
    "automation enable --source tickets --reason x",
)  # fmt: skip


def test_a_server_that_takes_no_changes_for_a_moment_may_be_asked_again(fresh_postgres_url: str) -> None:
    why = "the history's database takes no changes: cannot execute UPDATE in a read-only transaction"
    both = "SET TRANSACTION READ ONLY; UPDATE history SET why = 'x'"  # as after a failover that has just ended
    with Store.from_url(fresh_postgres_url) as store, store._write() as connection:
        with pytest.raises(StoreUnreachable, match=why), explained(store._engine, missing_grant):
            connection.exec_driver_sql(both)
        connection.rollback()


def test_any_other_refusal_is_said_in_the_words_of_the_server(fresh_postgres_url: str, url: str, role: str) -> None:
    run(
        fresh_postgres_url,
        f'GRANT CREATE ON SCHEMA public TO "{role}"',
        "REVOKE EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) FROM PUBLIC",
    )
    assert "the history's database refuses: permission denied for function" in refused("db", "upgrade")
