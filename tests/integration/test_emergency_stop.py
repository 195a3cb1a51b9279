"""Stopping everything takes as much work with many stored verdicts as with few."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.cli.automation import targets_of
from monitor.history.store import Store
from monitor.operations.change_switch import change_switch
from tests.fakes import forked
from tests.fakes.world import World, make_world

EVERY = 50  # instructions of SQLite's machine
LABELS = 20
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)"
LABELS_SEEN = f"{NUMBERS} INSERT INTO labels (source, label) SELECT 'tickets', 'label-' || (i - 1) FROM n"
VERDICTS = f"""
{NUMBERS}
INSERT INTO verdicts (id, schedule, window_start, window_end, window_name, source, label, rule, metric, population,
                      outcome, reason, severity, threshold, n, windows, rules_revision, data_digest, stored_at,
                      "current", actions, detail)
SELECT printf('%032d', i), 'weekly', datetime('2020-01-06', (i / :labels / 10) || ' hours') || '.000000',
       datetime('2020-01-13', (i / :labels / 10) || ' hours') || '.000000', 'w', 'tickets',
       'label-' || (i % :labels), 'a', 'ece', 'all', 'ok', 'within_threshold', 'warning', 0.1, 100, 1, 'r', 'd',
       '2020-01-13 00:00:00.000000', 1, '[]', '{{}}' FROM n
"""


def fill(url: str, rows: int) -> None:
    """Store ``rows`` verdicts of twenty labels."""
    Store.from_url(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(LABELS_SEEN), {"rows": LABELS})
        connection.execute(sa.text(VERDICTS), {"rows": rows, "labels": LABELS})
    engine.dispose()


def steps_of_a_stop(folder: Path, rows: int) -> tuple[int, int]:
    """(steps of SQLite's machine, labels) of turning off everything."""
    folder.mkdir()
    world = make_world(folder, warehouse_url="sqlite://")
    fill(world.store_url, rows)
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    with world.opened() as monitor:
        targets = targets_of(monitor, ["tickets"], None, enable=False)
        sa.event.listen(
            monitor.store._engine, "engine_connect", lambda c: driver(c).set_progress_handler(count, EVERY)
        )  # fmt: skip
        targets = targets_of(monitor, ["tickets"], None, enable=False)
        for source, label in targets:
            change_switch(monitor, source, label, enable=False, by="ann", reason="stop")
    return counted[0], len(targets)


def driver(connection: sa.Connection) -> Any:
    return connection.connection.driver_connection


def test_a_stop_reads_no_more_where_fifty_times_as_many_verdicts_are_stored(tmp_path: Path) -> None:
    few, labels = steps_of_a_stop(tmp_path / "few", 1_000)
    many, same = steps_of_a_stop(tmp_path / "many", 50_000)
    assert (labels, same) == (20, 20)
    assert few > 100
    assert many < 1.2 * few


@pytest.mark.postgres
def test_labels_are_found_in_postgresql_too(tmp_path: Path, fresh_postgres_url: str) -> None:
    world = make_world(tmp_path, warehouse_url="sqlite://", store_url=fresh_postgres_url)
    with world.opened() as monitor:
        for label in ("b", "a", None):
            change_switch(monitor, "tickets", label, enable=False, by="ann", reason="stop")
        assert monitor.store.known_labels("tickets") == {"a", "b", None}
        assert monitor.store.known_labels("mail") == set()


RUN = """
import json, os, sys
from monitor.cli import main
sys.argv = ["calmon", "automation", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""
SLOW_TO_IMPORT = {
    "pandas", "scipy", "sklearn", "matplotlib", "plotly", "fastapi", "uvicorn", "evidently", "alembic", "duckdb",
    "slack_sdk", "jinja2", "numpy", "sqlalchemy.orm", "monitor.warehouse.reader", "monitor.metrics.registry",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["disable", "--label", "label-1", "--reason", "stop"], "tickets/label-1: turned off"),
        (["disable", "--all", "--reason", "stop"], "tickets/label-1: turned off"),
        (["status", "--label", "label-1"], "tickets"),
    ],
)
def test_a_stop_and_the_status_wait_for_no_library_that_other_commands_need(
    words: list[str], shown: str, tmp_path: Path
) -> None:
    world = make_world(tmp_path, warehouse_url="duckdb:///none.duckdb")
    fill(world.store_url, 100)
    environment = os.environ | {
        "CALMON_STORE_URL": world.store_url, "CALMON_CONFIG": str(world.folder / "alerts.yaml"),
        "CALMON_WAREHOUSE_URL": "duckdb:///none.duckdb", "CALMON_SLACK_BOT_TOKEN": "xoxb-test",
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )  # fmt: skip
    *told, imported = found.stdout.splitlines()
    assert any(shown in line for line in told)
    assert not SLOW_TO_IMPORT & set(json.loads(imported))


def without_output() -> None:
    """``calmon ... >&-``."""
    os.close(1)
    sys.stdout = None  # type: ignore[assignment]
    run_main()


def without_errors() -> None:
    """``calmon ... 2>&-``."""
    os.close(2)
    sys.stderr = None  # type: ignore[assignment]
    run_main()


def onto_a_full_disk() -> None:
    """``calmon ... >/dev/full``."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    run_main()


def notes_onto_a_full_disk() -> None:
    """``calmon ... 2>/dev/full``."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    run_main()


def in_ascii() -> None:
    """``PYTHONIOENCODING=ascii calmon ...``, in a process that has its streams already."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="ascii", errors="strict")  # type: ignore[union-attr]
    run_main()


def run_main() -> None:
    """Imports the commands only now, with the streams that they find."""
    from monitor.cli import main

    main()


def state_of(world: World, label: str) -> str:
    with world.opened() as monitor:
        return monitor.store.switch("tickets", label).state


@pytest.mark.parametrize(
    ("main", "environment", "code"),
    [
        (None, {"COLUMNS": ""}, 0),
        (without_output, {}, 0),
        (without_errors, {}, 0),
        (in_ascii, {"COLUMNS": "\u00b2", "LINES": "\u00b2", "TERMINAL_WIDTH": "1e3"}, 0),
        (notes_onto_a_full_disk, {"CALMON_STORE_URLS": "a note about this variable"}, 0),
        (onto_a_full_disk, {}, 1),
    ],
)
def test_a_stop_works_under_any_environment(
    main: Callable[[], None] | None, environment: dict[str, str], code: int, tmp_path: Path
) -> None:
    world = make_world(tmp_path, warehouse_url="sqlite://")
    fill(world.store_url, 100)
    words = ["automation", "disable", "--all", "--reason", "naïve → stop"]
    found = forked.calmon(tmp_path, os.environ | world.environment | environment, *words, main=main)
    assert (found.returncode, "Traceback" in found.stderr) == (code, False), found.stderr[-2000:]
    assert [state_of(world, f"label-{n}") for n in (0, 1, 19)] == ["off"] * 3
    assert code == 0 or found.stderr == "error: No space left on device\n"


def test_letters_that_the_encoding_does_not_have_are_written_with_a_backslash(tmp_path: Path) -> None:
    world = make_world(tmp_path, warehouse_url="sqlite://")
    fill(world.store_url, 100)
    with world.opened() as monitor:
        change_switch(monitor, "tickets", "Zürich", enable=False, by="ann", reason="stop")
    words = ["automation", "status", "--label", "Zürich"]
    found = forked.calmon(tmp_path, os.environ | world.environment, *words, main=in_ascii)
    assert (found.returncode, r"Z\xfcrich" in found.stdout) == (0, True), found.stderr[-2000:]


@pytest.mark.parametrize("words", ["incidents list", "automation status --json"])
def test_an_output_onto_a_full_disk_is_one_plain_error(words: str, tmp_path: Path) -> None:
    world = make_world(tmp_path, warehouse_url="sqlite://")
    fill(world.store_url, 100)
    found = forked.calmon(tmp_path, os.environ | world.environment, *words.split(), main=onto_a_full_disk)
    assert (found.returncode, found.stderr) == (1, "error: No space left on device\n")
