"""The public views on SQLite and PostgreSQL: what the page says of them, its examples, and Grafana's dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem
from monitor.core.records import Subject
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.operations import annotate as notes
from tests.integration.test_store import NOW, START, WEEK, delivery, estimate, incident, verdict, week

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "history.md").read_text("utf-8")
GRAFANA = json.loads((ROOT / "deployments" / "grafana-dashboard.json").read_text("utf-8"))
EXAMPLES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
DOCUMENTED = {
    name: re.findall(r"`(\w+)`", columns)
    for name, columns in re.findall(r"^\| `(v1_\w+)` \|[^|]*\| (.*) \|$", PAGE, re.M)
}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two weeks: estimates, a breach and one judged again, an incident, a reading, a message, an annotation."""
    from tests.conftest import new_postgres_database

    url = f"sqlite:///{tmp_path_factory.mktemp('views')}/history.sqlite"
    if request.param == "postgresql":
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
    with Store.from_url(url) as found:
        for number in range(2):
            found.begin_run(week(number), ["tickets"], run=f"r{number}", acts=True, rules_revision="r1", now=NOW)
            whole, part = estimate(None, window=week(number)), estimate(window=week(number))
            segment = estimate(window=week(number), subject=Subject("tickets", "billing", ("channel", "web")))
            overconfidence = replace(estimate(metric="overconfidence", window=week(number)), where="automated")
            every = [whole, part, segment, overconfidence]
            old = verdict(f"old{number}", week(number))
            found.save_evaluation(week(number), ["tickets"], every, [old], [], NOW)
            again = verdict(f"new{number}", week(number), outcome="breach" if number else "ok")
            found.save_evaluation(week(number), ["tickets"], every, [again], [], NOW)
            found.save_reading(week(number), StoredReading("tickets", rows=10), NOW)
            found.finish_run(week(number), ["tickets"], state="done", now=NOW)
        told = Diagnosis(
            "tickets", "billing", week(1), DiagnosisState.UNSAFE, LabelProblem.OVERCONFIDENT, segment=("channel", "web")
        )
        for _ in range(2):
            found.save_diagnoses(week(1), ["tickets"], [told], NOW)
        found.apply_incidents([incident()], [delivery()], [])
        for label, text_ in (("billing", "prompt v7"), (None, "gone")):
            added, _ = notes.annotate(
                found, notes.NewAnnotation("tickets", label, START + WEEK, text_, "ana"), lambda: NOW
            )
        notes.remove(found, added.id, by="ana", reason="wrong", clock=lambda: NOW)
        yield found


@pytest.fixture
def connection(store: Store) -> Iterator[Connection]:
    with store._read() as found:
        yield found


def test_every_view_is_documented_with_all_its_columns_and_can_be_read(connection: Connection) -> None:
    views = {name for name in inspect(connection).get_view_names() if name.startswith("v1_")}
    assert views == set(DOCUMENTED)
    for name, columns in DOCUMENTED.items():
        assert list(connection.execute(text(f"SELECT * FROM {name}")).keys()) == columns, name


def rows(connection: Connection, statement: str) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(text(statement)).mappings()]


def test_whole_sources_and_all_rows_are_null_and_what_was_judged_again_is_left_out(connection: Connection) -> None:
    found = rows(
        connection,
        "SELECT label, segment, value, low, n FROM v1_estimates WHERE window_name = '2026-W46' AND metric = 'ece'",
    )
    assert sorted((r["label"] or "", r["segment"] or "") for r in found) == [
        ("", ""), ("billing", ""), ("billing", '{"channel": "web"}'),
    ]  # fmt: skip
    assert {(r["value"], r["low"], r["n"]) for r in found} == {(0.05, 0.03, 1000)}
    judged = rows(connection, "SELECT id, outcome FROM v1_verdicts ORDER BY id")
    assert judged == [{"id": "new0", "outcome": "ok"}, {"id": "new1", "outcome": "breach"}]
    assert rows(connection, "SELECT label, text, added_by FROM v1_annotations") == [
        {"label": "billing", "text": "prompt v7", "added_by": "ana"}
    ]
    (told,) = rows(connection, "SELECT label, state, problem, segment FROM v1_diagnoses")
    assert (told["label"], told["state"], told["problem"]) == ("billing", "unsafe", "overconfident")
    (opened,) = rows(connection, "SELECT state FROM v1_incidents")
    assert opened["state"] == "open"


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_gives_rows(connection: Connection, number: int) -> None:
    statement = EXAMPLES[number]
    found = rows(connection, statement)
    assert found or "v1_switch_events" in statement, statement


def test_worse_since_an_annotation_is_the_mean_of_the_weeks_before_and_after(connection: Connection) -> None:
    (found,) = rows(connection, next(each for each in EXAMPLES if "AS before" in each))
    assert (found["label"], found["before"], found["after"]) == ("billing", 0.05, 0.05)


def plain(statement: str) -> str:
    """What Grafana sends for one source and label, over all time."""
    found = re.sub(
        r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN '2000-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'", statement
    )
    return found.replace("$source", "'tickets'").replace("$label", "'billing', '(all labels)'").replace(":%", r"\:%")


@pytest.mark.parametrize("store", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_every_query_of_the_grafana_dashboard_runs_on_postgresql(store: Store) -> None:
    ours = [panel for panel in GRAFANA["panels"] if panel["datasource"]["uid"] == "${DS_CALMON}"]
    asked = {panel["title"]: target["rawSql"] for panel in ours for target in panel["targets"]}
    asked |= {each["name"]: each["query"] for each in GRAFANA["templating"]["list"]}
    asked |= {each["name"]: each["target"]["rawSql"] for each in GRAFANA["annotations"]["list"]}
    assert len(asked) == 10
    empty = {"Switches", "label", "Rejected rows by reason"}
    with store._read() as connection:
        for name, statement in asked.items():
            assert set(re.findall(r"(?<!EPOCH )FROM (\w+)", statement)) <= set(DOCUMENTED), name
            found = rows(connection, plain(statement))
            assert found or name in empty, name
            if "AS metric" in statement:
                assert {"time", "metric", "value"} == set(found[0] if found else {"time", "metric", "value"})
