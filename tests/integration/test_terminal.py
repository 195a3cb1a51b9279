"""The terminal of somebody who begins: help by task, completion, wrong addresses, errors that say what to do next."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from monitor.cli import app, common, main
from monitor.cli.common import Commands
from monitor.config.settings import load_settings
from monitor.evaluation.data import SourceData
from monitor.evaluation.evaluate import evaluate
from monitor.history.store import Store
from monitor.warehouse.reader import Warehouse
from tests.fakes.world import CONFIG, WEEKS, World, make_world

ADDRESSES = (
    "sqlite://history.sqlite", "sqlite:/history.sqlite", "sqlite:history.sqlite", "sqlite:////proc/none/x.sqlite",
    "sqlite:///folder", "sqlite:///text.txt", "sqlite+aiosqlite:///text.txt", "duckdb://w.duckdb",
    "duckdb:///none.duckdb", "duckdb:///folder", "duckdb:///text.txt", "duckdb:/w", "duckdb:///x.duckdb?threads=abc",
    "postgres://a:hunter2@127.0.0.1:1/x", "postgresql://a:hunter2@127.0.0.1:1/x",
    "postgresql+psycopg://a:hunter2@127.0.0.1:1/x", "postgresql+psycopg2://a:hunter2@127.0.0.1:1/x",
    "postgresql+asyncpg://a:hunter2@127.0.0.1:1/x", "postgresql+nothing://a:hunter2@127.0.0.1:1/x",
    "postgresql://a:hunter2@no.such.host.invalid/x", "postgresql://a:hunter2@[::1/x",
    "postgresql://a:hunter2@h:notaport/x", "postgresql://a:hun@ter2@h/x", "postgresql://a:hunter2@127.0.0.1:99999/x",
    "postgresql://127.0.0.1:1/x?sslmode=nonsense", "postgresql://a@h/x?host=/nowhere", "mysql://a:hunter2@h/x",
    "snowflake://a:hunter2@account/db", "bigquery://project", "foo+bar://x", "http://example.com/x", "://x", "nonsense",
    "mssql+pyodbc://x", "s3://bucket/x.parquet", "jdbc:postgresql://h/x", r"\\server\share",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("no database\n" * 50, encoding="utf-8")
    for name in ("CALMON_WAREHOUSE_URL", "CALMON_CONFIG", "CALMON_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def calmon(*words: str, columns: int = 200, **environment: str) -> Result:
    return CliRunner(env={"COLUMNS": str(columns), **environment}).invoke(app, list(words))


def of_a_warehouse(address: str) -> None:
    with common.plain_errors():
        settings = load_settings({"CALMON_WAREHOUSE_URL": address})
        with Warehouse.from_url(settings.warehouse_url.get_secret_value()) as warehouse:
            warehouse.tables()


def of_a_history(address: str) -> None:
    with common.plain_errors():
        settings = load_settings({"CALMON_STORE_URL": address})
        Store.from_url(settings.store_url.get_secret_value(), create=True)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_wrong_address_is_a_traceback(address: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tried in (of_a_warehouse, of_a_history):
        with pytest.raises(typer.Exit):
            tried(address)
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "hunter2" not in said
    assert "\nnext: calmon check\n" in said


def test_help_shows_every_command_below_a_task_with_an_example(folder: Path) -> None:
    text = calmon("--help", columns=80).output
    for task, commands in Commands.tasks.items():
        panel = text.partition(task)[2].partition("╰")[0]
        assert all(f"│ {name} " in panel for name in commands), task
    assert "─ Commands ─" not in text  # none is left over
    assert max(map(len, text.splitlines())) <= 80


def test_words_are_completed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"_CALMON_COMPLETE": "complete_bash", "COMP_WORDS": "calmon ba", "COMP_CWORD": "1"}
    found = CliRunner(env=asked).invoke(app, [], prog_name="calmon")
    assert found.stdout.split() == ["baseline", "backfill"]


def test_where_there_is_no_configuration_the_next_command_is_init(folder: Path) -> None:
    assert calmon("run", "weekly").stderr.endswith("next: calmon init\n")
    (folder / "alerts.yaml").write_text("version: 2\n", encoding="utf-8")
    assert calmon("run", "weekly").stderr.endswith("next: calmon check --offline\n")


def test_a_warehouse_that_is_not_there_ends_with_check(folder: Path) -> None:
    (folder / "alerts.yaml").write_text(
        "version: 1\nsources: {t: {relation: t, score_is: probability_of_label}}\n"
        "rules: [{id: a, metric: ece, threshold: 0.1}]\nautomation: {when_not_evaluated: keep}\n",
        encoding="utf-8",
    )
    for words in (("run", "weekly"), ("baseline", "pin"), ("examples", "--label", "a")):
        assert calmon(*words).stderr.rstrip().endswith("next: calmon check"), words
    run = calmon("run", "weekly", "--json")
    assert {verdict["reason"] for verdict in json.loads(run.stdout)["verdicts"]} == {"warehouse_failed"}
    assert run.stderr.startswith("t: warehouse_failed: the warehouse ")
    assert run.stderr.endswith("next: calmon check\n")
    assert calmon("check").stderr == "next: correct what failed (warehouse, above), then: calmon check\n"
    past = calmon("backfill", "--from", "2026-W40", "--to", "2026-W41")
    assert past.exit_code == 1
    assert "0 windows evaluated" in past.stdout
    assert "error: 2 windows could not be read, the last 2026-W41: the warehouse" in past.stderr


def test_a_backfill_names_a_source_that_could_not_be_read_beside_others(tmp_path: Path) -> None:
    broken = "  mail: {relation: nothing_here, score_is: probability_of_label}\n"
    world = make_world(tmp_path, config=CONFIG.replace("evaluation:", f"{broken}evaluation:", 1))
    done = CliRunner(env=world.environment).invoke(app, ["backfill", "--from", WEEKS[6], "--to", WEEKS[7]])
    assert done.exit_code == 0, done.output
    assert "2 windows evaluated" in done.stdout
    assert f"note: mail could not be read in 2 windows, the last {WEEKS[7]}: " in done.stderr


def test_calmon_reads_the_file_env_of_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".env").write_text("CALMON_CONFIG=rules/mine.yaml\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["calmon", "check"])
    monkeypatch.setenv("CALMON_CONFIG", "")
    with pytest.raises(SystemExit):
        main()
    assert "rules/mine.yaml CAL002 the file does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"CALMON_CONFIG='open", b"A=\xff\xfe"], ids=["open", "no text"])
def test_a_file_env_that_cannot_be_read_is_one_plain_error(
    folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".env").write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["calmon", "version"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("error: ")
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_backfill_that_is_stopped_says_what_it_did_and_how_to_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    seen = []

    def interrupted(data: SourceData, *args: Any) -> Any:
        seen.append(data.current.window.name)
        if len(seen) == 2:
            os.kill(os.getpid(), number)
        return evaluate(data, *args)

    monkeypatch.setattr("monitor.run.evaluate", interrupted)
    words = ["backfill", "--from", WEEKS[0], "--to", WEEKS[2], "--source", "tickets"]
    before = signal.signal(number, signal.default_int_handler)  # as the command does
    try:
        found = CliRunner(env=world.environment | {"COLUMNS": "200"}).invoke(app, words)
    finally:
        signal.signal(number, before)
    assert found.exit_code == 1
    assert "1 window evaluated; nothing was switched or sent." in found.stdout
    assert "stopped: what was stored stays" in found.stderr
    assert f"next: calmon backfill --from {WEEKS[1]} --to {WEEKS[2]} --source tickets    # the rest" in found.stderr
    with world.opened() as monitor:
        assert {run["state"] for run in monitor.store.runs("weekly")} == {"done", "failed"}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_are_no_wider_than_the_terminal(columns: int, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common.out, "_width", columns)
    for words in (("check",), ("incidents", "list"), ("baseline", "list"), ("report", "--week", WEEKS[0])):
        found = CliRunner(env=world.environment).invoke(app, list(words))
        assert max(map(len, found.stdout.splitlines())) <= columns, words
