"""What the whole relation says that a reading cannot see: odd names of truths, joins, and rows that tie."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.operations.describe_source import describe
from monitor.operations.propose_source import Proposal, propose
from monitor.warehouse.examination import Examination
from monitor.warehouse.label_names import doubts_about_join, doubts_about_labels
from monitor.warehouse.reader import RelationError, Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
TYPES = {"confidence": "DOUBLE PRECISION", "scored_at": "TIMESTAMP WITH TIME ZONE"}
SINGLE = {"kind": "single_label", "score_is": "confidence_in_prediction", "relation": "resolved_tickets"}
NFC, NFD = (unicodedata.normalize(form, "réclamation") for form in ("NFC", "NFD"))


def rows(true: str, predicted: str = "refund", n: int = 60) -> list[dict[str, Any]]:
    """Rows of a label, and as many of another that is right."""
    known = {"confidence": 0.9, "resolved_at": WEEK.start}
    return [
        {"item": f"{label}{number}", "predicted_label": label, "true_label": truth, **known}
        for label, truth in ((predicted, true), ("delivery", "delivery"))
        for number in range(n)
    ]


def doubts(warehouse: Warehouse, **settings: Any) -> tuple[str, ...]:
    source = SourceConfig.model_validate(SINGLE | settings)
    return describe(warehouse, "tickets", source, warehouse.read("tickets", source, WEEK, now=NOW)).doubts


@pytest.mark.parametrize(
    ("predicted", "true", "said"),
    [
        ("refund", "refund ", "the label 'refund' and the truth 'refund ' (60 rows) read alike"),
        ("refund", "Refund", "the label 'refund' and the truth 'Refund' (60 rows) read alike"),
        (NFC, NFD, "read alike"),
        ("3", "03", "the label '3' and the truth '03' (60 rows) read alike"),
        ("3.0", "3,0", "read alike"),
        ("re fund", "re  fund", "read alike"),
        ("refund", "refund\u200b", "read alike"),
        ("refund", "\ufeffRefund", "read alike"),
        ("refund", "ｒｅｆｕｎｄ", "read alike"),
        ("refund", "NULL", "truths of 60 rows mean missing ('NULL')"),
        ("refund", "n/a", "truths of 60 rows mean missing ('n/a')"),
        ("refund", "money back", "1 label true and never predicted: 'money back'"),
    ],
)
def test_names_of_truths_that_are_odd_are_said_by_every_engine(
    load: Loader, predicted: str, true: str, said: str
) -> None:
    for engine, warehouse in load(rows(true, predicted), types=TYPES).items():
        assert any(said in doubt for doubt in doubts(warehouse)), engine
        reading = warehouse.read("tickets", SourceConfig.model_validate(SINGLE), WEEK, now=NOW)
        noted = [
            str(example["why"])
            for each in reading.quality
            if each.reason == "labels_differ"
            for example in each.examples
        ]
        assert all(said in why for why in noted), engine
        assert bool(noted) == ("never predicted" not in said), engine


def test_names_that_are_right_are_not_doubted(load: Loader) -> None:
    for engine, warehouse in load(rows("refund"), types=TYPES).items():
        assert doubts(warehouse) == (), engine
    assert not list(doubts_about_labels(Examination({"none": 9}, {"none": 9}), files=False))  # a label of that name


# --- joins


def test_ids_in_two_csv_files_may_be_written_as_whole_numbers_or_not(tmp_path: Path) -> None:
    (tmp_path / "predictions.csv").write_text(
        "item,predicted_label,confidence\n" + "".join(f"{n},a,0.9\n" for n in range(10))
    )
    (tmp_path / "truths.csv").write_text(
        "item,true_label,resolved_at\n" + "".join(f"{n}.0,a,2026-11-10\n" for n in range(8))
    )
    paths = [str(tmp_path / f"{name}.csv") for name in ("predictions", "truths")]
    settings = {"relation": paths[0], "truth": {"relation": paths[1], "on": {"item": "item"}}}
    with Warehouse.from_url("duckdb://", relations=paths) as warehouse:
        source = SourceConfig.model_validate(SINGLE | settings)
        reading = warehouse.read("tickets", source, WEEK, now=NOW)
        found = describe(warehouse, "tickets", source, reading)
    assert reading.rows == 8
    assert found.data.endswith("; of 10 predictions 8 have one truth, 2 none")


def joined(on: str, **settings: Any) -> SourceConfig:
    select = "SELECT item, predicted_label, confidence FROM resolved_tickets WHERE predicted_label IS NOT NULL"
    truth = f"SELECT {on} AS item, true_label, resolved_at FROM resolved_tickets WHERE true_label IS NOT NULL"
    return SourceConfig.model_validate(
        SINGLE | {"relation": select, "truth": {"relation": truth, "on": {"item": "item"}}} | settings
    )


def two_tables(truths: int = 1, first: int = 0) -> list[dict[str, Any]]:
    """50 predictions, and for each so many truths."""
    empty = dict.fromkeys(("predicted_label", "confidence", "true_label", "resolved_at"))
    made = [{"item": first + n, **empty, "predicted_label": "a", "confidence": 0.9} for n in range(50)]
    return made + [
        {"item": first + n, **empty, "true_label": "ab"[turn % 2], "resolved_at": WEEK.start + timedelta(hours=turn)}
        for n in range(50) for turn in range(truths)
    ]  # fmt: skip


def test_predictions_that_meet_several_truths_are_refused_unless_the_latest_counts(load: Loader) -> None:
    types = {**TYPES, "item": "BIGINT"}
    for engine, warehouse in load(two_tables(), types=types).items():
        assert warehouse.check("tickets", joined("item")) == [], engine
    for engine, warehouse in load(two_tables(truths=3), types=types).items():
        (problem,) = warehouse.check("tickets", joined("item"))
        assert str(problem) == (
            "tickets: 50 of 50 predictions meet several truths by item; join by a column with one truth each, or write "
            "latest_by: resolved_at if the latest truth counts"
        ), engine
        with pytest.raises(RelationError, match="meet several truths by item"):
            warehouse.read("tickets", joined("item"), WEEK, now=NOW)
        latest = joined("item", latest_by=["resolved_at"])
        assert warehouse.check("tickets", latest) == [], engine
        assert warehouse.read("tickets", latest, WEEK, now=NOW).rows == 50, engine


def test_what_a_join_finds_is_said_in_every_reading(load: Loader) -> None:
    types = {**TYPES, "item": "BIGINT"}
    again = two_tables()[-1] | {"true_label": "a"}
    cases = [
        ([*two_tables(), again], "1 of 50 predictions meet several truths by item"),
        (two_tables()[:50] + two_tables(first=900)[50:], "no prediction has a truth by item: its ids are like 0, "),
        (two_tables(), ""),
    ]
    for rows, said in cases:
        for engine, warehouse in load(rows, types=types).items():
            for _ in range(2):
                reading = warehouse.read("tickets", joined("item"), WEEK, now=NOW)
                odd = [str(e["why"]) for each in reading.quality if each.reason == "join_odd" for e in each.examples]
                assert [why.startswith(said) for why in odd] == [True] * bool(said), (engine, odd)


@pytest.mark.parametrize(("written", "nine"), [("'00' || item", "009"), ("item || '  '", "9  "), ("item", None)])
def test_ids_that_would_meet_if_they_were_written_alike_are_said(load: Loader, written: str, nine: str | None) -> None:
    """27 of 50 truths have another writing of the id; of ten more predictions nothing is known yet."""
    waiting = [{**row, "item": f"w{row['item']}"} for row in two_tables()[:10]]
    rows = [{**row, "item": str(row["item"])} for row in two_tables()] + waiting
    source = joined(f"CASE WHEN item < '3' THEN item ELSE {written} END")
    for engine, warehouse in load(rows, types=TYPES).items():
        join = warehouse.examine("tickets", source).join
        assert (join.one, join.none, join.otherwise.get("9")) == ((50, 10, None) if nine is None else (23, 37, nine))
        said = [each.partition(", such as ")[0] for each in doubts_about_join(join)]
        alike = "of 37 ids that meet no truth 27 would meet one if both were written alike"
        assert said == ([] if nine is None else [alike]), engine


def test_ids_may_be_uuids_and_no_truth_may_be_there(load: Loader) -> None:
    ids = [f"{n:08x}-0000-4000-8000-000000000000" for n in range(50)]
    data = [row | {"item": ids[place % 50]} for place, row in enumerate(two_tables())]
    for engine, warehouse in load(data, types={**TYPES, "item": "UUID"}).items():
        assert warehouse.read("tickets", joined("item"), WEEK, now=NOW).rows == 50, engine
    for engine, warehouse in load(data[:50], types={**TYPES, "item": "UUID"}).items():
        reading = warehouse.read("tickets", joined("item"), WEEK, now=NOW)
        (odd,) = [str(e["why"]) for each in reading.quality if each.reason == "join_odd" for e in each.examples]
        assert odd == f"no prediction has a truth by item: its ids are like {ids[0]}, and no truth has one", engine


@pytest.mark.parametrize("settings", [{}, {"latest_by": ["resolved_at"]}])
def test_rows_without_an_item_or_any_date_are_said_one_by_one(load: Loader, settings: dict[str, Any]) -> None:
    dates = dict.fromkeys(("resolved_at", "predicted_at"), WEEK.start)
    known = [row | dates for row in rows("refund", n=10)]
    odd = [row | {"item": None} for row in known[:5]]
    undated = [row | {"true_label": None, "resolved_at": None, "predicted_at": None} for row in rows("refund", n=2)]
    types = {**TYPES, "predicted_at": "TIMESTAMP WITH TIME ZONE"}
    fresh = [row | {"item": f"new{place}"} for place, row in enumerate(undated)]
    for engine, warehouse in load([*known, *odd, *fresh], types=types).items():
        source = SourceConfig.model_validate(SINGLE | {"unresolved": True} | settings)
        reading = warehouse.read("tickets", source, WEEK, now=NOW)
        assert reading.rows == len(known), engine
        said = {each.reason: each.rows for each in reading.quality}
        assert said == {"item_missing": len(odd), "date_missing": len(fresh)}, engine


def test_rows_that_wait_are_counted_or_said(load: Loader) -> None:
    dates = dict.fromkeys(("resolved_at", "predicted_at"), WEEK.start)
    known = [row | dates for row in rows("refund", n=10)]
    waiting = [
        row | dates | {"item": f"new{place}", "true_label": None} for place, row in enumerate(rows("refund", n=6))
    ]
    waiting[0]["predicted_at"] = waiting[1]["predicted_at"] = waiting[2]["confidence"] = None
    types = {**TYPES, "predicted_at": "TIMESTAMP WITH TIME ZONE"}
    for engine, warehouse in load([*known, *waiting], types=types).items():
        source = SourceConfig.model_validate(SINGLE | {"unresolved": True})
        reading = warehouse.read("tickets", source, WEEK, now=NOW)
        assert reading.unresolved.waiting_of(None).rows == len(waiting) - 3, engine
        (said,) = [str(e["why"]) for r in reading.quality if r.reason == "waiting_unusable" for e in r.examples]
        assert said == "of rows without a truth 1 cannot be used: 1 score missing", engine
        rejected = {each.reason: each.rows for each in reading.quality}
        assert rejected["outcome_missing"] == 2, "of these nobody knows in which window they wait"


def test_columns_of_all_labels_beside_theirs_are_no_labels(load: Loader) -> None:
    data = [
        {"item": f"t{n}", "p_refund": 0.1 + n % 2 * 0.7, "p_other": 0.8 - n % 2 * 0.7, "p_max": 0.8, "p_margin": 0.7,
         "category": ("other", "refund")[n % 2], "resolved_at": WEEK.start}
        for n in range(40)
    ]  # fmt: skip
    types = dict.fromkeys(("p_refund", "p_other", "p_max", "p_margin"), "DOUBLE PRECISION")
    for engine, warehouse in load(data, types=types).items():
        proposed = propose(warehouse.samples("resolved_tickets"), {}, files=False)
        assert isinstance(proposed, Proposal), (engine, proposed)
        settings = {"relation": "resolved_tickets", **proposed.settings}
        source = SourceConfig.model_validate(settings)
        reading = warehouse.read("tickets", source, WEEK, now=NOW)
        assert set(reading.labels) == {"refund", "other"}, engine
        said = describe(warehouse, "tickets", source, reading).doubts
        assert any("p_max, p_margin" in doubt or "p_margin, p_max" in doubt for doubt in said), (engine, said)
        named = SourceConfig.model_validate({**settings, "wide": {"score": "p_{label}", "labels": ["refund", "max"]}})
        assert set(warehouse.read("tickets", named, WEEK, now=NOW).labels) == {"refund", "max"}


def test_explain_names_labels_that_differ_by_a_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{r['item']},{r['predicted_label']},0.9{n % 9},{r['true_label']},2026-11-17 10:00:00"
             for n, r in enumerate(rows("refund "))]  # fmt: skip
    Path("t.csv").write_text("\n".join(["item,predicted_label,confidence,true_label,resolved_at", *lines]), "utf-8")
    Path("alerts.yaml").write_text(
        "version: 1\nsources:\n  t: {relation: t.csv, kind: single_label, score_is: confidence_in_prediction}\n"
        "rules:\n  - {id: high, metric: overconfidence, where: automated, threshold: 0.05, min_samples: 30}\n"
        "automation: {when_not_evaluated: keep}\n",
        "utf-8",
    )

    def calmon(*words: str) -> str:
        found = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words))
        assert found.exit_code == 0, found.output
        return found.output

    ran = json.loads(calmon("run", "weekly", "--week", "2026-W47", "--json"))
    (verdict,) = [v for v in ran["verdicts"] if v["label"] == "refund"]
    assert verdict["outcome"] == "breach"
    said = " ".join(calmon("explain", verdict["id"]).split())
    assert "the label 'refund' and the truth 'refund ' (60 rows) read alike" in said


def test_ids_that_are_not_exact_meet_truths_of_others_and_are_refused(load: Loader) -> None:
    rows = two_tables(first=1_790_000_000_000_000_000)
    for engine, warehouse in load(rows, types={**TYPES, "item": "BIGINT"}).items():
        for settings in ({}, {"latest_by": ["resolved_at"]}):
            problems = warehouse.check("tickets", joined("CAST(item AS DOUBLE PRECISION)", **settings))
            expected = 0 if engine == "sqlite" else 1  # SQLite compares them exactly, and none meets
            assert ["ids that differ are equal by item" in each.message for each in problems] == [True] * expected, (
                engine
            )


# --- ties


def test_items_whose_newest_rows_contradict_each_other_are_counted(load: Loader) -> None:
    data = rows("refund", n=10)
    data += [row | {"predicted_label": "other"} for row in data[:3]] + [dict(data[3])]
    for number, row in enumerate(data):
        row["scored_at"] = WEEK.start + timedelta(minutes=number)
    for engine, warehouse in load(data, types=TYPES).items():
        said = doubts(warehouse, latest_by=["resolved_at"])
        assert any(doubt.startswith("3 items with several newest rows by resolved_at that say") for doubt in said), (
            engine
        )
        assert not any("newest rows" in doubt for doubt in doubts(warehouse, latest_by=["scored_at"])), engine
        columns = warehouse.samples("resolved_tickets")
        proposed = propose(columns, {}, files=False)
        assert isinstance(proposed, Proposal)
        assert proposed.settings["latest_by"] == "scored_at", engine


def test_a_column_of_ids_is_no_column_of_labels(load: Loader) -> None:
    data = [row | {"predicted_label": f"id {number}", "true_label": "a"} for number, row in enumerate(rows("refund"))]
    for engine, warehouse in load(data, types=TYPES).items():
        source = SourceConfig.model_validate(SINGLE | {"max_labels": 119})
        with pytest.raises(
            RelationError, match="column predicted_label has more than 119 labels in 2026-W46: is it an id"
        ):
            warehouse.read("tickets", source, WEEK, now=NOW)
        source = source.model_copy(update={"max_labels": 120})
        assert warehouse.read("tickets", source, WEEK, now=NOW).rows == 120, engine
