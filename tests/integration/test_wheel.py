"""What a person gets with pip: its contents, and the first commands in an empty folder.

The wheel's demo is in test_demo.py (through Prefect; without, in `make test-wheel`), its schedules in
test_prefect_flows.py: each takes long, and is run once.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.fakes.installed import ROOT, Installed, contents

DAYS = [f"2026-{month:02}-{day:02}" for month in (8, 9, 10, 11) for day in range(1, 29, 3)]
LABELS = ("billing", "login")
ROWS = [
    f"{n},{LABELS[n % 2]},{0.5 + n % 50 / 100:.2f},{LABELS[n % 3 > 0]},{DAYS[n // 40]}T10:00:00Z"
    for n in range(40 * len(DAYS))
]


def test_a_wheel_carries_flows_schedules_rules_documents_and_migrations(installed: Installed) -> None:
    found = contents(installed.wheel)
    expected = {
        path.relative_to(ROOT).as_posix()
        for room in ("monitor", "flows")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= set(found)
    assert {"monitor/shipped/alerts.yaml", "monitor/shipped/deployments/prefect.yaml"} <= set(found)
    documents = {f"monitor/docs/{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*.md")}
    assert documents <= set(found)
    assert not [name for name in found if name.startswith(("tests/", "benchmarks/", "docs/"))]


def test_a_wheel_of_the_sdist_is_that_of_the_checkout(installed: Installed) -> None:
    assert contents(installed.wheel) == contents(installed.wheel_of_checkout)


def test_init_makes_a_configuration_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text(
        "ticket,predicted,confidence,true_label,resolved_at\n" + "\n".join(ROWS), "utf-8"
    )
    done = installed.run(tmp_path, "init", "tickets.csv", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    made = yaml.safe_load((tmp_path / "alerts.yaml").read_text("utf-8"))
    assert made["sources"]["tickets"]["kind"] == "single_label"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alerts.yaml", "tickets.csv"]
    assert installed.wanted == ""


def test_the_schedules_are_printed_for_a_prefect_server_of_ones_own(installed: Installed, tmp_path: Path) -> None:
    done = installed.run(tmp_path, "serve", "--print-schedules")
    assert done.stdout == (ROOT / "deployments" / "prefect.yaml").read_text("utf-8"), done.stderr
    assert list(tmp_path.iterdir()) == []
