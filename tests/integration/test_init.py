"""`calmon init`: from a file or a warehouse to a first alerts.yaml, or to the question that is open."""

# ruff: noqa: E501 - a shape beside what it is recognised as

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest
import sqlalchemy as sa
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.load import load_config, parse_config
from monitor.core.windows import last_ready
from monitor.history.store import Store
from monitor.operations.propose_source import Proposal, Unclear, propose
from monitor.operations.starter_files import starter_config
from monitor.warehouse.reader import Warehouse

LABELS = ("billing", "delivery", "refund")
Rows = list[dict[str, Any]]
START = datetime.now(UTC) - timedelta(days=28)


def single(n: int = 200, **changed: Any) -> Rows:
    rng = np.random.default_rng(1)
    rows = []
    for number in range(n):
        given, score = str(rng.choice(LABELS)), round(float(rng.uniform(0.3, 1)), 2)
        true = given if rng.random() < score else str(rng.choice(LABELS))
        when = (START + timedelta(hours=3 * number)).isoformat(timespec="seconds")
        rows.append(
            {
                "ticket_id": f"T-{number}",
                "predicted_label": given,
                "confidence": score,
                "true_label": true,
                "resolved_at": when,
            }
            | changed
        )
    return rows


def long(n: int = 60) -> Rows:
    rng = np.random.default_rng(2)
    return [
        {"item": f"t{number}", "label": label, "score": (score := round(float(rng.random()), 2)), "actual": int(rng.random() < score),
         "resolved_at": (START + timedelta(hours=number)).isoformat(timespec="seconds")}
        for number in range(n) for label in LABELS
    ]  # fmt: skip


def renamed(rows: Rows, names: Mapping[str, str], **computed: Callable[[dict[str, Any]], Any]) -> Rows:
    """The rows with other names, and then some columns computed from the old ones."""
    return [{names.get(k, k): v for k, v in row.items()} | {k: f(row) for k, f in computed.items()} for row in rows]


def wide(rows: Rows, before: str = "p_", scale: int = 1) -> Rows:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        item = found.setdefault(row["item"], {"item": row["item"], "resolved_at": row["resolved_at"]})
        item |= {f"{before}{row['label']}": row["score"] * scale, f"is_{row['label']}": row["actual"]}
    return list(found.values())


def written(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def german(row: dict[str, Any]) -> str:
    return datetime.fromisoformat(row["resolved_at"]).strftime("%d.%m.%Y %H:%M")


def slashed(row: dict[str, Any]) -> str:
    return f"0{1 + int(row['ticket_id'][2:]) % 9}/0{1 + int(row['ticket_id'][2:]) % 8}/2026"


SINGLE = {"kind": "single_label", "columns": {"item": "ticket_id"}}
SHAPES: dict[str, tuple[Rows, dict[str, Any]]] = {
    "canonical single labels": (single(), SINGLE),
    "other names": (
        renamed(single(), {"ticket_id": "id", "predicted_label": "intent", "confidence": "prob", "true_label": "category", "resolved_at": "closed_at"}),
        {"kind": "single_label", "columns": {"item": "id", "predicted_label": "intent", "confidence": "prob", "true_label": "category", "resolved_at": "closed_at"}},
    ),
    "names in capitals and with spaces": (
        renamed(single(), {"ticket_id": "Ticket ID", "predicted_label": "Prediction", "confidence": "Score (%)", "true_label": "Ground Truth", "resolved_at": "Closed At"}),
        {"kind": "single_label", "columns": {"item": "Ticket ID", "predicted_label": "Prediction", "confidence": "Score (%)", "true_label": "Ground Truth", "resolved_at": "Closed At"}},
    ),
    "camel case": (
        renamed(single(), {"ticket_id": "ticketId", "predicted_label": "predictedLabel", "true_label": "trueLabel", "resolved_at": "resolvedAt"}),
        {"kind": "single_label", "columns": {"item": "ticketId", "predicted_label": "predictedLabel", "true_label": "trueLabel", "resolved_at": "resolvedAt"}},
    ),
    "truths called by another usual name": (
        renamed(single(), {"true_label": "final_intent", "predicted_label": "intent"}),
        {"kind": "single_label", "columns": {"item": "ticket_id", "true_label": "final_intent", "predicted_label": "intent"}},
    ),
    "above 1 and no percent": (renamed(single(), {}, confidence=lambda r: round(r["confidence"] * 1.6, 2)), SINGLE),
    "percent": (renamed(single(), {}, confidence=lambda r: round(r["confidence"] * 100)), SINGLE | {"score_scale": 100}),
    "German decimals": (renamed(single(), {}, confidence=lambda r: str(r["confidence"]).replace(".", ",")), SINGLE),
    "German dates": (renamed(single(), {}, resolved_at=german), SINGLE | {"types": {"resolved_at": "%d.%m.%Y %H:%M"}}),
    "no truth yet": (renamed(single(), {}, true_label=lambda _: ""), SINGLE),
    "some truths missing": (renamed(single(), {}, true_label=lambda r: r["true_label"] if r["confidence"] > 0.6 else ""), SINGLE),
    "some scores broken": (renamed(single(), {}, confidence=lambda r: "n/a" if r["ticket_id"] in ("T-3", "T-40") else r["confidence"]), SINGLE),
    "segments and a version": (
        renamed(single(), {}, channel=lambda r: "mail" if r["confidence"] > 0.5 else "chat", model=lambda _: "v1"),
        {"kind": "single_label", "columns": {"item": "ticket_id", "model_version": "model"}, "segments": ["channel"]},
    ),
    "whether it was right": (
        [{k: v for k, v in row.items() if k != "true_label"} | {"correct": "ja" if row["true_label"] == row["predicted_label"] else "nein"} for row in single()],
        {"kind": "single_label", "columns": {"actual": "correct", "item": "ticket_id"}, "positive": ["ja"], "negative": ["nein"]},
    ),
    "one row an item with 0 and 1": (
        [{"item": r["ticket_id"], "label": r["predicted_label"], "score": r["confidence"], "actual": int(r["true_label"] == r["predicted_label"]), "resolved_at": r["resolved_at"]} for r in single()],
        {"kind": "single_label", "columns": {"actual": "actual", "predicted_label": "label", "confidence": "score"}},
    ),
    "corrected later": (
        renamed([*single(), *single(30, true_label="refund")], {}, updated_at=lambda r: r["resolved_at"]),
        SINGLE | {"latest_by": "updated_at"},
    ),
    "scored again with another label": (
        renamed(
            [*single(), *(r | {"predicted_label": "other"} for r in single(3))], {},
            scored_at=lambda r: f"2026-11-16 {8 + (r['predicted_label'] == 'other')}:00:00",
        ),
        SINGLE | {"latest_by": "scored_at"},
    ),
    "200 columns": (
        renamed(single(), {}, **{f"x{number}": (lambda _, n=number: f"free text {n}") for number in range(195)}),
        SINGLE,
    ),
    "numbers as labels": (renamed(single(), {}, predicted_label=lambda r: LABELS.index(r["predicted_label"]) + 101, true_label=lambda r: LABELS.index(r["true_label"]) + 101), SINGLE),
    "canonical long": (long(), {"score_is": "probability_of_label"}),
    "long with words": (
        renamed(long(), {"actual": "outcome"}, outcome=lambda r: ("No", "Yes")[r["actual"]]),
        {"score_is": "probability_of_label", "positive": ["yes"], "negative": ["no"], "columns": {"actual": "outcome"}},
    ),
    "long with decisions": (renamed(long(), {}, predicted=lambda r: int(r["score"] > 0.6)), {"score_is": "probability_of_label"}),
    "long with the true label": (
        [{k: v for k, v in row.items() if k != "actual"} | {"true_label": LABELS[int(row["item"][1:]) % 3]} for row in long()],
        {"kind": "multiclass", "score_is": "probability_of_label", "columns": {"true_label": "true_label"}},
    ),
    "wide": (wide(long()), {"score_is": "probability_of_label", "wide": {"score": "p_{label}", "actual": "is_{label}"}}),
    "wide in percent": (
        wide(long(), "score_", 100),
        {"score_is": "probability_of_label", "wide": {"score": "score_{label}", "actual": "is_{label}"}, "score_scale": 100},
    ),
    "wide with the true label": (
        [{k: v for k, v in row.items() if not k.startswith("is_")} | {"category": LABELS[place % 3]} for place, row in enumerate(wide(long()))],
        {"score_is": "probability_of_label", "wide": {"score": "p_{label}"}, "kind": "multiclass", "columns": {"true_label": "category"}},
    ),
}  # fmt: skip


def proposed(path: Path, given: Mapping[str, str] | None = None) -> Proposal | Unclear:
    with Warehouse.from_url("duckdb://") as warehouse:
        return propose(warehouse.samples(str(path)), given or {}, files=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_recognised(shape: str, tmp_path: Path) -> None:
    rows, expected = SHAPES[shape]
    path = written(tmp_path / "t.csv", rows)
    found = proposed(path)
    assert isinstance(found, Proposal), found
    assert dict(found.settings) == {key: value for key, value in expected.items() if value}
    (source,) = parse_config(starter_config("t", str(path), found.settings, "UTC")).sources.values()
    with Warehouse.from_url("duckdb://") as warehouse:
        assert warehouse.check("t", source) == []  # and it can be read so


UNCLEAR: dict[str, tuple[Rows, str]] = {
    "no date": ([{k: v for k, v in row.items() if k != "resolved_at"} for row in single()], "resolved_at"),
    "no score": ([{k: v for k, v in row.items() if k != "confidence"} for row in single()], "score"),
    "two scores of unknown names": (renamed(single(), {"confidence": "a"}, b=lambda r: r["confidence"] / 2), "score"),
    "two dates of unknown names": (
        renamed(single(), {"resolved_at": "a"}, b=lambda r: r["resolved_at"]),
        "resolved_at",
    ),
    "a date of the item, and one of an unknown name": (
        renamed(single(), {"resolved_at": "erledigt_am"}, created=lambda r: r["resolved_at"]),
        "resolved_at",
    ),
    "no label": ([{k: v for k, v in row.items() if "label" not in k} for row in single()], "label"),
    "labels of unknown names": (renamed(single(), {"predicted_label": "a", "true_label": "b"}), "label"),
    "no truth": ([{k: v for k, v in row.items() if k != "true_label"} for row in single()], "true_label"),
    "day or month first": (renamed(single(), {}, resolved_at=slashed), "date_format"),
    "nothing that is known": ([{"x": f"{number} bla", "y": "same"} for number in range(20)], "resolved_at"),
}


@pytest.mark.parametrize("shape", UNCLEAR)
def test_what_cannot_be_recognised_is_the_question(shape: str, tmp_path: Path) -> None:
    rows, missing = UNCLEAR[shape]
    found = proposed(written(tmp_path / "t.csv", rows))
    assert isinstance(found, Unclear), found
    assert found.missing == missing


@pytest.mark.parametrize("odd", [-0.2, "0.90f", math.inf])
def test_a_column_that_has_the_name_of_a_score_and_no_scores_is_named_with_a_value(odd: Any, tmp_path: Path) -> None:
    rows = [row | {"confidence": odd if number else 0.9} for number, row in enumerate(single())]
    found = proposed(written(tmp_path / "t.csv", rows))
    assert isinstance(found, Unclear), found
    assert f"confidence has values like {odd}: a score lies between 0 and 1 (or 0 and 100)." in found.question


def test_dates_that_a_database_cannot_read_are_made_in_a_select(folder: Path) -> None:
    written(folder / "t.csv", [row | {"resolved_at": "Nov 17th"} for row in single()])
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM read_csv('t.csv', all_varchar = true)")
    found = calmon("init", "w.duckdb", "--yes").stderr
    assert "values like Nov 17th: if these are dates, make dates of them in a SELECT, and give --relation" in found
    assert "--date-format" not in found


@pytest.mark.parametrize("other", ["created_at", "predicted_at", "updated_at"])
def test_a_date_of_a_known_name_is_taken_beside_one_that_is_known_to_mean_another_time(
    other: str, tmp_path: Path
) -> None:
    rows = renamed(single(), {"resolved_at": "date"}, **{other: lambda r: r["resolved_at"]})
    found = proposed(written(tmp_path / "t.csv", rows))
    assert isinstance(found, Proposal), found
    assert found.settings["columns"]["resolved_at"] == ("updated_at" if other == "updated_at" else "date")


def test_a_date_that_a_person_named_is_no_question(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", UNCLEAR["a date of the item, and one of an unknown name"][0])
    for name in ("created", "erledigt_am"):
        found = proposed(path, {"resolved_at": name})
        assert isinstance(found, Proposal), found
        assert found.settings["columns"]["resolved_at"] == name


def test_an_answer_is_taken(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", UNCLEAR["labels of unknown names"][0])
    found = proposed(path, {"label": "a", "true_label": "b"})
    assert isinstance(found, Proposal)
    assert found.settings["columns"] == {"item": "ticket_id", "true_label": "b", "predicted_label": "a"}
    dated = proposed(written(tmp_path / "d.csv", UNCLEAR["day or month first"][0]), {"date_format": "%m/%d/%Y"})
    assert isinstance(dated, Proposal)
    assert dated.settings["types"] == {"resolved_at": "%m/%d/%Y"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with nothing configured."""
    monkeypatch.chdir(tmp_path)
    for name in ("CALMON_WAREHOUSE_URL", "CALMON_CONFIG", "CALMON_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def calmon(*words: str, said: str | None = None, **environment: str) -> Result:
    """The command, at a terminal where a person says something."""
    with patch("monitor.cli.init.somebody_answers", lambda: said is not None):
        return CliRunner(env={"COLUMNS": "200", **environment}).invoke(app, list(words), input=said)


def test_a_csv_file_becomes_a_configuration_that_check_accepts(folder: Path) -> None:
    written(folder / "tickets.csv", single())
    found = calmon("init", "tickets.csv", "--yes")
    assert found.exit_code == 0, found.output
    assert "tickets.csv: 200 rows, 3 labels" in found.stdout
    assert "; one row an item" in found.stdout
    assert "next: calmon run weekly --week" in found.stdout
    config = load_config(folder / "alerts.yaml")
    assert config.sources["tickets"].kind == "single_label"
    assert not (folder / ".env").exists()  # files need no address
    assert calmon("check").exit_code == 0


def test_the_column_that_orders_the_predictions_of_an_item_is_said_to_be_read(folder: Path) -> None:
    hour = {"scored_at": lambda row: f"2026-11-16 {8 + (row['predicted_label'] == 'other')}:00:00"}
    again = [*single(), *(row | {"predicted_label": "other"} for row in single(3))]
    written(folder / "tickets.csv", renamed(again, {}, **hour))
    found = calmon("init", "tickets.csv", "--yes")
    assert ["scored_at", "latest_by"] in [line.split()[:2] for line in found.stdout.splitlines()]


def test_columns_that_are_read_for_their_name_are_said_to_be_read(folder: Path) -> None:
    more = {"Weight": lambda row: 2 + len(row["ticket_id"]), "cluster": lambda row: row["ticket_id"]}
    written(folder / "parcels.csv", renamed(single(), {}, **more))
    found = calmon("init", "parcels.csv", "--yes")
    assert found.exit_code == 0, found.output
    table = [line.split()[:2] for line in found.stdout.splitlines()]
    assert ["Weight", "weight"] in table
    assert ["cluster", "cluster"] in table
    said = " ".join(found.stdout.split())
    assert "Weight is read as weight for its name: each row counts as often as its weight says" in said
    assert "something else, give it another name there, or in a view or SELECT as relation" in said
    assert "; weight is read, and rows count by it; cluster is read, and rows of one cluster are not" in said


def test_the_printed_commands_judge_each_week_after_the_baseline_once_the_last_one_as_a_schedule_would(
    folder: Path,
) -> None:
    begin = datetime.now(UTC) - timedelta(days=80)
    eleven_weeks = [
        row | {"resolved_at": (begin + timedelta(hours=3 * number)).isoformat()}
        for number, row in enumerate(single(8 * 80))
    ]
    written(folder / "tickets.csv", eleven_weeks)
    found = calmon("init", "tickets.csv", "--yes")
    steps = [line.partition("    # ")[0].split()[2:] for line in found.stdout.splitlines() if line.startswith("next:")]
    assert [step[0] for step in steps] == ["baseline", "backfill", "run"]
    pin, backfill, run = steps
    assert [pin[-1], *backfill[2:5:2], run[-1]] == following(pin[-1], (1, 2, 3))
    for step in (backfill, run):
        done = calmon(*step)
        assert done.exit_code == 0, done.output
    with Store.from_url(f"sqlite:///{folder}/var/history.sqlite") as store:
        judged = {verdict.window.name for verdict in store.verdicts()}
    assert sorted(judged) == following(pin[-1], (1, 2, 3))[1:]


def following(week: str, more: tuple[int, ...]) -> list[str]:
    """A week's name and those of weeks after it."""
    first = datetime.strptime(f"{week}-1", "%G-W%V-%u").replace(tzinfo=UTC)
    return [f"{first + timedelta(weeks=each):%G-W%V}" for each in (0, *more)]


def test_nothing_is_ever_overwritten(folder: Path) -> None:
    written(folder / "tickets.csv", single())
    (folder / "alerts.yaml").write_text("mine", encoding="utf-8")
    found = calmon("init", "tickets.csv", "--yes")
    assert found.exit_code == 2
    assert "alerts.yaml is there, and init never overwrites" in found.stderr
    assert (folder / "alerts.yaml").read_text("utf-8") == "mine"
    (folder / "alerts.yaml").unlink()
    (folder / ".env").write_text("MINE=1\n", encoding="utf-8")
    address = f"duckdb:///{folder}/w.duckdb"
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE tickets AS SELECT * FROM read_csv('tickets.csv')")
    found = calmon("init", address, "--yes")
    assert found.exit_code == 0, found.output
    assert ".env is there and stays as it is" in found.stdout
    assert (folder / ".env").read_text("utf-8") == "MINE=1\n"


def test_a_database_is_asked_for_its_tables_and_its_address_goes_into_env(folder: Path) -> None:
    written(folder / "tickets.csv", single())
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE tickets AS SELECT * FROM read_csv('tickets.csv')")
        connection.execute('CREATE VIEW "Other View" AS SELECT 1 AS a')
        connection.execute("CREATE SCHEMA marts; CREATE TABLE marts.more AS SELECT * FROM tickets")
    several = calmon("init", "w.duckdb", "--yes")
    assert several.exit_code == 2
    assert 'Give --relation with one of: "Other View", marts.more, tickets' in several.stderr
    found = calmon("init", "w.duckdb", "--relation", "tickets", "--source", "mail", "--yes")
    assert found.exit_code == 0, found.output
    assert "CALMON_WAREHOUSE_URL='duckdb:///w.duckdb'" in (folder / ".env").read_text("utf-8")
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    assert list(load_config(folder / "alerts.yaml").sources) == ["mail"]


def test_a_question_is_answered_by_a_number_and_the_answers_are_in_the_file(folder: Path) -> None:
    written(folder / "tickets.csv", UNCLEAR["two scores of unknown names"][0])
    stopped = calmon("init", "tickets.csv", said="1\n")
    assert stopped.exit_code == 1, stopped.output
    assert not (folder / "alerts.yaml").exists()
    found = calmon("init", said="tickets.csv\nnine\n1\nhigh\n.7\n90%\n#ml-alerts\n")
    assert found.exit_code == 0, found.output
    assert "which column is the score" in found.stdout
    config = load_config(folder / "alerts.yaml")
    assert config.sources["tickets"].columns["confidence"] == "a"
    assert config.sources["tickets"].automate_at == 0.7
    assert [rule.threshold for rule in config.rules if rule.id == "automated-accuracy-floor"] == [0.9]
    assert [route.channel for route in config.routes] == ["#ml-alerts"]


def tags(n: int = 400, lowest: float = 0.5) -> Rows:
    """Tags that a model gave, one to three an item: each row is a decision."""
    rng = np.random.default_rng(4)
    return [
        {"message": f"m{number // 2}", "tag": LABELS[number % 3], "score": round(float(rng.uniform(lowest, 1)), 1),
         "correct": str(rng.choice(["yes", "no"], p=[0.8, 0.2])),
         "resolved_at": (START + timedelta(hours=number)).isoformat(timespec="seconds")}
        for number in range(n)
    ]  # fmt: skip


def test_rows_without_a_score_below_one_half_are_labels_that_were_given(folder: Path) -> None:
    written(folder / "tags.csv", tags())
    found = calmon("init", "tags.csv", "--column", "item=message")
    assert found.exit_code == 0, found.output
    assert load_config(folder / "alerts.yaml").sources["tags"].kind == "single_label"
    assert "the label that was given" in found.stdout
    assert "--score-is probability_of_label" in found.stdout  # and what to give where that is wrong
    for more, kind, said in (
        (["--score-is", "probability_of_label"], "multilabel", None),
        ([], "multilabel", "2\n\n\n\n"),
        ([], "single_label", "\n\n\n\n"),
    ):
        (folder / "alerts.yaml").unlink()
        again = calmon("init", "tags.csv", "--column", "item=message", *more, said=said)
        assert again.exit_code == 0, again.output
        assert load_config(folder / "alerts.yaml").sources["tags"].kind == kind
    (folder / "alerts.yaml").unlink()
    written(folder / "low.csv", tags(lowest=0.1))
    assert calmon("init", "low.csv", "--column", "item=message").exit_code == 0
    assert load_config(folder / "alerts.yaml").sources["low"].kind == "multilabel"


def test_the_share_and_accuracy_of_what_would_act_alone_are_those_of_the_rows(folder: Path) -> None:
    first = last_ready("weekly", datetime.now(UTC), ZoneInfo("UTC")).start - timedelta(weeks=2)
    rows = [
        row | {"correct": "yes" if number % 10 else "no", "resolved_at": (first + timedelta(minutes=10 * number)).isoformat()}
        for number, row in enumerate(tags(3000))
    ]  # fmt: skip
    written(folder / "tags.csv", rows)
    found = calmon("init", "tags.csv", "--column", "item=message", "--automate-at", ".9", "--must-be-right", ".95")
    acting = [row for row in rows if row["score"] >= 0.9]
    right = sum(row["correct"] == "yes" for row in acting) / len(acting)
    assert f"({len(acting) / len(rows):.0%}), of which {right:.1%} are right" in found.stdout, found.stdout
    assert f"95.0% (today {right:.1%}); below it already" in found.stdout


def test_rows_without_a_truth_wait_for_it(folder: Path) -> None:
    rows = [
        row | {"true_label": "" if number % 8 == 0 else row["true_label"], "created": german(row)}
        for number, row in enumerate(single())
    ]
    written(folder / "tickets.csv", rows)
    found = calmon("init", "tickets.csv")
    assert found.exit_code == 0, found.output
    assert "25 rows have no truth: they wait for it" in found.stdout
    source = load_config(folder / "alerts.yaml").sources["tickets"]
    assert source.unresolved
    assert source.columns["predicted_at"] == "created"
    assert source.types == {"predicted_at": "%d.%m.%Y %H:%M"}
    assert "rejected" not in calmon("check").stdout
    (folder / "alerts.yaml").unlink()
    named = calmon("init", "tickets.csv", "--column", "predicted_at=resolved_at")
    assert named.exit_code == 0, named.output
    assert load_config(folder / "alerts.yaml").sources["tickets"].columns["predicted_at"] == "resolved_at"


def test_the_folder_of_the_demo_says_where_to_begin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "calmon-demo").mkdir()
    monkeypatch.chdir(folder / "calmon-demo")
    Path("alerts.yaml").write_text("version: 1", encoding="utf-8")
    found = calmon("init", "../tickets.csv")
    assert found.exit_code == 2
    assert "this is the folder of calmon demo" in found.stderr


def test_without_answers_a_question_is_an_error_that_says_what_to_give(folder: Path) -> None:
    written(folder / "tickets.csv", UNCLEAR["no truth"][0])
    found = calmon("init", "tickets.csv", "--yes")
    assert found.exit_code == 2
    assert "Give --column true_label=NAME, or actual=NAME for yes and no; it could be:" in found.stderr
    assert "if another table says it: --truth TABLE" in found.stderr
    wrong = calmon("init", "tickets.csv", "--yes", "--column", "score=nothing")
    assert wrong.exit_code == 2
    assert "there is no column nothing. Give --column score=NAME; it could be: " in wrong.stderr


def test_a_column_that_init_does_not_know_is_refused_and_not_ignored(folder: Path) -> None:
    written(folder / "tickets.csv", single())
    for name in ("id", "cluster"):
        found = calmon("init", "tickets.csv", "--yes", "--column", f"{name}=ticket_id")
        assert found.exit_code == 2
        assert f"init knows no {name}; before the = it is one of item, label, score, true_label" in found.stderr
    assert not (folder / "alerts.yaml").exists()


@pytest.mark.parametrize(
    "given",
    [
        "missing.csv",
        "empty",
        "text.txt",
        "sqlite://history.sqlite",
        "duckdb://w.duckdb",
        "http://example.com/t.csv",
        "postgresql://a:se:cret@@h:x/d",
        "mysql://a/b",
        "duckdb:///none.duckdb",
        "postgresql://nobody:secret@127.0.0.1:1/x",
    ],
)
def test_no_place_is_a_traceback(given: str, folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("no database", encoding="utf-8")
    found = calmon("init", given, "--yes")
    assert found.exit_code in (1, 2), found.output
    assert found.stderr.startswith("error: ")
    assert "Traceback" not in found.output
    assert "secret" not in found.output


@pytest.mark.parametrize("name", ["tickets.xlsx", "tickets.csv.bz2"])
def test_a_file_of_another_kind_says_what_can_be_read(name: str, folder: Path) -> None:
    (folder / name).write_bytes(b"PK or {} or anything else")
    found = calmon("init", name, "--yes")
    assert found.exit_code == 2
    assert f"error: {name} is no file of CSV, Parquet or JSON, and no database of DuckDB or SQLite" in found.stderr


@pytest.mark.parametrize("name", ["mails.jsonl", "it's.json.gz"])
def test_json_is_read_by_a_select_whose_address_goes_into_env(name: str, folder: Path) -> None:
    written(folder / "t.csv", single())
    path = f"{folder}/{name}".replace("'", "''")
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{folder}/t.csv')) TO '{path}' (FORMAT json)")
    found = calmon("init", name, "--yes")
    assert found.exit_code == 0, found.output
    assert "CALMON_WAREHOUSE_URL='duckdb://'" in (folder / ".env").read_text("utf-8")
    (source,) = load_config(folder / "alerts.yaml").sources
    assert source == ("mails" if name.startswith("mails") else "it_s")
    checked = calmon("check", CALMON_WAREHOUSE_URL="duckdb://")
    assert "200 rows, 3 labels" in checked.stdout, checked.output


def test_an_empty_table_is_said_to_be_empty(folder: Path) -> None:
    (folder / "t.csv").write_text("item,label,score,actual,resolved_at\n", encoding="utf-8")
    found = calmon("init", "t.csv", "--yes")
    assert found.exit_code == 2
    assert "there is no row" in found.stderr


def test_a_folder_of_parquet_files_is_read_as_one(folder: Path) -> None:
    written(folder / "t.csv", single())
    for region in ("eu", "us"):
        (folder / "data" / f"region={region}").mkdir(parents=True)
        duckdb.sql(
            f"COPY (SELECT * FROM read_csv('{folder}/t.csv') WHERE hash(ticket_id) % 2 = {int(region == 'eu')}) TO '{folder}/data/region={region}/a.parquet'"
        )
    found = calmon("init", "data", "--yes")
    assert found.exit_code == 0, found.output
    source = load_config(folder / "alerts.yaml").sources
    assert [each.relation for each in source.values()] == ["data/**/*.parquet"]
    assert "200 rows" in found.stdout


def two_tables(folder: Path) -> None:
    predictions = [
        {k: v for k, v in row.items() if k not in ("true_label", "resolved_at")} | {"created_at": row["resolved_at"]}
        for row in single()
    ]
    written(folder / "predictions.csv", predictions)
    written(
        folder / "resolutions.csv",
        [
            {"ticket_id": row["ticket_id"], "category": row["true_label"], "closed_at": row["resolved_at"]}
            for row in single()
        ],
    )


def test_predictions_and_resolutions_apart_are_joined_by_the_column_that_both_have(folder: Path) -> None:
    two_tables(folder)
    found = calmon("init", "predictions.csv", "--truth", "resolutions.csv", "--yes")
    assert found.exit_code == 0, found.output
    source = load_config(folder / "alerts.yaml").sources["predictions"]
    assert (source.truth.relation, dict(source.truth.on)) == ("resolutions.csv", {"ticket_id": "ticket_id"})
    assert dict(source.columns) == {"item": "ticket_id", "true_label": "category", "resolved_at": "closed_at"}
    assert "200 rows, 3 labels" in found.stdout


def test_the_second_table_is_found_beside_the_first_one(folder: Path) -> None:
    two_tables(folder)
    written(folder / "other.csv", [{"ticket_id": f"x{number}", "note": "bla"} for number in range(30)])
    found = calmon("init", "predictions.csv", "--yes")
    assert found.exit_code == 0, found.output
    source = load_config(folder / "alerts.yaml").sources["predictions"]
    assert (source.truth.relation, dict(source.truth.on)) == ("resolutions.csv", {"ticket_id": "ticket_id"})
    (folder / "alerts.yaml").unlink()
    asked = calmon("init", "predictions.csv", said="y\n\n\n\n")
    assert "Read predictions.csv, with what came true in resolutions.csv (ticket_id = ticket_id)?" in asked.stdout
    assert load_config(folder / "alerts.yaml").sources["predictions"].truth == source.truth


def test_of_a_database_the_two_tables_are_found_by_what_they_hold(folder: Path) -> None:
    two_tables(folder)
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE scored AS SELECT * FROM read_csv('predictions.csv')")
        rows = "SELECT ticket_id AS ticket, category, closed_at + INTERVAL 1 DAY AS closed_at FROM"
        connection.execute(f"CREATE SCHEMA crm; CREATE TABLE crm.raw AS {rows} read_csv('resolutions.csv')")
        connection.execute("CREATE TABLE staff AS SELECT 1 AS id")
    found = calmon("init", "w.duckdb", "--yes")
    assert found.exit_code == 0, found.output
    source = load_config(folder / "alerts.yaml").sources["scored"]
    assert (source.relation, source.truth.relation) == ("scored", "crm.raw")
    assert dict(source.truth.on) == {"ticket_id": "ticket"}
    assert "200 rows, 3 labels" in found.stdout
    (folder / "alerts.yaml").unlink()
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE VIEW crm.outcomes AS SELECT * FROM crm.raw")
    several = calmon("init", "w.duckdb", "--relation", "scored", "--yes")
    assert "where is what came true? Give --truth with one of: crm.outcomes, crm.raw" in several.stderr


def test_only_one_table_that_can_be_read_is_taken(folder: Path) -> None:
    written(folder / "tickets.csv", single())
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE VIEW tickets AS SELECT * FROM read_csv('tickets.csv')")
        connection.execute("CREATE TABLE a AS SELECT * FROM tickets; CREATE TABLE staff AS SELECT 1 AS id")
        connection.execute(
            "DROP VIEW tickets; CREATE TABLE gone (x INT); CREATE VIEW v AS SELECT * FROM gone; DROP TABLE gone"
        )
    found = calmon("init", "w.duckdb", "--yes")
    assert found.exit_code == 0, found.output
    assert list(load_config(folder / "alerts.yaml").sources) == ["a"]


def test_two_tables_that_share_but_a_counter_are_not_joined_by_it(folder: Path) -> None:
    two_tables(folder)
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        for name, order in (("predictions", "created_at"), ("resolutions", "closed_at DESC")):
            numbered = f"row_number() OVER (ORDER BY {order}) AS id, * EXCLUDE (ticket_id)"
            own = ", ticket_id" if name == "predictions" else ", split_part(ticket_id, '-', 2)::INT + 900 AS ref"
            connection.execute(f"CREATE TABLE {name} AS SELECT {numbered}{own} FROM read_csv('{name}.csv')")
    for more in ((), ("--relation", "predictions"), ("--truth", "resolutions", "--relation", "predictions")):
        unclear = calmon("init", "w.duckdb", *more, "--yes")
        assert unclear.exit_code == 2, more
        assert "joined? Give --on COLUMN, or --on theirs=its; both have: id; the truth's are: id, cat" in unclear.stderr
    said = calmon("init", "w.duckdb", "--on", "id", "--yes")  # a person may know better
    assert said.exit_code == 0, said.output
    truth = load_config(folder / "alerts.yaml").sources["predictions"].truth
    assert dict(truth.on) == {"id": "id"}


GERMAN_TEXT = {
    "comma": lambda row: f"{row['confidence']:.2f}".replace(".", ","),
    "percent": lambda row: f"{100 * row['confidence']:.1f} %".replace(".", ","),
}


@pytest.mark.parametrize("style", GERMAN_TEXT)
@pytest.mark.parametrize("where", ["parquet", "duckdb", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_numbers_and_dates_that_are_german_text_are_read(
    where: str, style: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    rows = [
        row | {"confidence": GERMAN_TEXT[style](row), "resolved_at": german(row), "order": "-", "Eingang": german(row)}
        for row in single()
    ]
    for row in rows[::10]:
        row |= {"true_label": "", "resolved_at": ""}
    name = written(folder / "t.csv", rows).name
    place = {"parquet": "t.parquet", "duckdb": "w.duckdb"}.get(where) or request.getfixturevalue("fresh_postgres_url")
    with duckdb.connect("w.duckdb" if where == "duckdb" else ":memory:") as connection:
        connection.execute(f"CREATE TABLE tickets AS SELECT * FROM read_csv('{name}', all_varchar = true)")
        connection.execute("COPY tickets TO 't.parquet'")
    if where == "postgresql":
        engine = sa.create_engine(place)
        table = sa.Table("tickets", sa.MetaData(), *(sa.Column(column, sa.Text) for column in rows[0]))
        with engine.begin() as connection:
            table.create(connection)
            connection.execute(table.insert(), rows)
        engine.dispose()
    found = calmon("init", place, "--yes")
    assert found.exit_code == 0, found.output
    (source,) = load_config(folder / "alerts.yaml").sources.values()
    form = "%d.%m.%Y %H:%M"
    types = {"resolved_at": form, "predicted_at": form, "confidence": "number"}
    assert source.types == (types if where == "parquet" else {})
    assert "200 rows, 3 labels" in found.stdout
    assert "20 rows have no truth: they wait for it" in found.stdout
    (folder / "alerts.yaml").unlink()
    plain_rows = [row | {"Eingang": row["resolved_at"]} for row in single()]
    for row in plain_rows[::10]:
        row |= {"true_label": "", "resolved_at": ""}
    written(folder / "plain.csv", plain_rows)
    plain = calmon("init", "plain.csv", "--yes").stdout
    (acts,) = (line for line in plain.splitlines() if "acts alone from" in line)
    assert acts.removesuffix(" ") in found.stdout


def test_two_tables_without_a_shared_column_need_to_know_by_which_they_are_joined(folder: Path) -> None:
    two_tables(folder)
    written(
        folder / "resolutions.csv",
        [
            {"nr": row["ticket_id"], "category": row["true_label"], "closed_at": row["resolved_at"], "old": row["ticket_id"]}
            for row in single()
        ],
    )  # fmt: skip
    unclear = calmon("init", "predictions.csv", "--truth", "resolutions.csv", "--yes")
    assert unclear.exit_code == 2
    assert (
        "Give --on COLUMN, or --on theirs=its; both have: none; the truth's are: nr, category, closed_at, old"
        in unclear.stderr
    )
    found = calmon("init", "predictions.csv", "--truth", "resolutions.csv", "--on", "ticket_id=nr", "--yes")
    assert found.exit_code == 0, found.output
    assert "200 rows, 3 labels" in found.stdout


@pytest.mark.postgres
def test_tables_of_postgresql_and_sqlite_are_found(folder: Path, fresh_postgres_url: str) -> None:
    engine = sa.create_engine(fresh_postgres_url)
    rows = [row | {"resolved_at": datetime.fromisoformat(row["resolved_at"])} for row in single()]
    table = sa.Table(
        "Resolved", sa.MetaData(schema="support"), sa.Column("ticket_id", sa.Text), sa.Column("predicted_label", sa.Text),
        sa.Column("confidence", sa.Double), sa.Column("true_label", sa.Text), sa.Column("resolved_at", sa.TIMESTAMP(timezone=True)),
    )  # fmt: skip
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA support")
        table.create(connection)
        connection.execute(table.insert(), rows)
    engine.dispose()
    found = calmon("init", fresh_postgres_url, "--yes")
    assert found.exit_code == 0, found.output
    (source,) = load_config(folder / "alerts.yaml").sources.values()
    assert (source.relation, source.kind) == ('support."Resolved"', "single_label")
    (folder / "alerts.yaml").unlink()
    local = sa.create_engine(f"sqlite:///{folder}/w.db")
    with local.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE tickets (ticket_id TEXT, predicted_label TEXT, confidence REAL, true_label TEXT, resolved_at TEXT)"
        )
        for row in single():
            connection.exec_driver_sql("INSERT INTO tickets VALUES (?, ?, ?, ?, ?)", tuple(row.values()))
    local.dispose()
    found = calmon("init", "w.db", "--yes")
    assert found.exit_code == 0, found.output
    assert "sqlite:///w.db" in found.stdout or ".env is there" in found.stdout


@pytest.mark.postgres
def test_two_tables_of_postgresql_give_a_first_week_in_three_commands(folder: Path, fresh_postgres_url: str) -> None:
    engine = sa.create_engine(fresh_postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE predictions (ticket_id int, intent text, confidence numeric, created_at timestamp)"
        )
        connection.exec_driver_sql("CREATE TABLE resolutions (ticket text, category text, closed_at timestamptz)")
        for number, row in enumerate(single(400)):
            when = datetime.fromisoformat(row["resolved_at"]) - timedelta(days=14)
            connection.exec_driver_sql(
                "INSERT INTO predictions VALUES (%s, %s, %s, %s)",
                (number, row["predicted_label"], row["confidence"], when.replace(tzinfo=None)),
            )
            connection.exec_driver_sql(
                "INSERT INTO resolutions VALUES (%s, %s, %s)", (str(number), row["true_label"], when)
            )
    engine.dispose()
    found = calmon(
        "init",
        fresh_postgres_url,
        "--relation",
        "predictions",
        "--truth",
        "resolutions",
        "--on",
        "ticket_id=ticket",
        "--yes",
    )
    assert found.exit_code == 0, found.output
    assert "predictions: 400 rows, 3 labels" in found.stdout
    environment = {"CALMON_WAREHOUSE_URL": fresh_postgres_url}
    assert calmon("check", **environment).exit_code == 0
    week = calmon("run", "weekly", "--json", **environment)
    assert week.exit_code == 0, week.output
    assert '"source-ece"' in week.stdout
