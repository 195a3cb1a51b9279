"""One plan of reading for all engines: rows, counts and items, and only where these show any, all the rest.

Every engine finds the same of rows that are odd in many ways at once.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse import reading
from monitor.warehouse.reader import Reading, Warehouse, WarehouseFailed
from tests.conftest import ENGINES, Loader

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
FAULTS: tuple[Mapping[str, Any], ...] = (
    {"label": None}, {"label": "x" * 2_000}, {"score": None}, {"score": 1.5}, {"score": 1e300},
    {"actual": None}, {"actual": -1.0}, {"actual": 7.0}, {"item": None}, {"predicted": 3},
)  # fmt: skip


def some_rows(seed: int, *, weights: bool, repeats: bool, apart: bool) -> list[dict[str, Any]]:
    """Items of three labels, of which mostly one is true; a row in ten is rejected, an item in ten has none or two."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rows = []
    for item in range(200):
        true = rng.sample(["billing", "it's", "фишинг"], rng.choices([1, 0, 2], [18, 1, 1])[0])
        cluster = rng.choice([f"c{item // 5}", "", None])
        of_item = {"channel": rng.choice(["web", "mail", None]), "model_version": rng.choice(["v1", "v2"])}
        for label in ("billing", "it's", "фишинг"):
            row: dict[str, Any] = {
                "item": f"t{item}", "label": label, "score": round(rng.random(), rng.choice([1, 4, 17])),
                "actual": float(label in true), "predicted": rng.randint(0, 1), "message": f"m{item}-{label}",
                "resolved_at": WEEK.start + timedelta(hours=rng.randint(-5, 170)), **of_item,
                "cluster": rng.choice([cluster, "c0"]) if apart else cluster,
            }  # fmt: skip
            row |= {"weight": rng.choice([1.0, 2.5, 0.001])} if weights else {}
            rows.append(row | (rng.choice(FAULTS) if rng.random() < 0.1 else {}))
            if repeats and rng.random() < 0.05:
                rows.append(row | {"score": 0.5})
    return rows


def source(kind: str, **more: Any) -> SourceConfig:
    return SourceConfig(relation="resolved_tickets", score_is="probability_of_label", kind=kind, **more)


def statements_of(warehouse: Warehouse) -> list[str]:
    """The statements about rows of the window that the warehouse is asked from now on."""
    asked: list[str] = []

    def note(*seen: Any) -> None:
        outside = re.search(r"GROUP BY \W?undated\b", seen[2])  # rows without a date, or in the future
        if "resolved_tickets" in seen[2] and "SELECT *" not in seen[2] and outside is None:
            asked.append(seen[2])

    sa.event.listen(warehouse._engine, "before_cursor_execute", note)
    return asked


def facts(reading: Reading) -> Mapping[str, object]:
    """All of a reading that can be compared between engines."""
    parts: list[Mapping[Any, Any]] = [reading.labels, reading.items, reading.ranked, *reading.segments.values()]
    counted = [{name: (counts.digest(), counts.design_effect) for name, counts in part.items()} for part in parts]
    examples = ("item", "label")  # numbers and dates are other texts in every engine
    quality = [
        (each.reason, each.rows, [tuple(row.get(name) for name in examples) for row in each.examples])
        for each in reading.quality
    ]
    whole, numbers = reading.whole, reading.numbers
    rows = None if whole is None else (whole.labels, whole.items, *map(np.ndarray.tolist, (whole.truth, whole.weight)))
    scores = None if whole is None else np.nan_to_num(whole.probability, nan=-1.0).tolist()
    columns = None if numbers is None else [
        column.tolist() for column in (numbers.predicted, numbers.deviation, numbers.actual, numbers.weight)
    ]  # fmt: skip
    return {
        "counted": counted, "segments": list(reading.segments), "quality": quality, "whole": rows, "scores": scores,
        "rest": (reading.rows, reading.versions, reading.rejected, reading.whole_design_effect), "numbers": columns,
    }  # fmt: skip


def alike(warehouses: Mapping[str, Warehouse], config: SourceConfig) -> Reading:
    """The reading of the first engine, which those of the others must equal."""
    readings = {name: each.read("tickets", config, WEEK, now=NOW) for name, each in warehouses.items()}
    first, *others = readings
    for other in others:
        assert facts(readings[other]) == facts(readings[first]), (first, other)
    return readings[first]


# Each two of the properties meet in each way.
@pytest.mark.parametrize(
    ("kind", "repeats", "apart", "weights"),
    [
        ("multilabel", False, False, False), ("multilabel", True, True, True),
        ("top_k", False, True, True), ("top_k", True, False, False),
        ("multiclass", True, False, True), ("multiclass", False, True, False),
    ],
)  # fmt: skip
def test_every_engine_finds_the_same(load: Loader, kind: str, weights: bool, repeats: bool, apart: bool) -> None:
    rows = some_rows(3, weights=weights, repeats=repeats, apart=apart)
    if not weights:  # decided by the score
        rows = [{name: row[name] for name in row if name != "predicted"} for row in rows]
    found = alike(load(rows), source(kind, segments=("channel", "message", "model_version"), automate_at=0.6))
    reasons = {cell.reason for cell in found.rejected}
    assert ({"no_true_label", "several_true_labels"} <= reasons) is (kind == "multiclass")
    assert (len(found.ranked) > 0) is (kind != "multilabel")
    assert (found.whole is not None) is (kind == "multiclass")
    assert any(each.reason == "duplicate" for each in found.quality) is repeats
    assert {segment for segment, _ in found.segments} == {"channel", "model_version"}


def test_where_labels_are_too_many_for_bits_repeats_are_counted_by_a_statement_of_their_own(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouses = load(some_rows(4, weights=True, repeats=True, apart=False))
    config = source("multilabel")
    usual = {name: facts(each.read("tickets", config, WEEK, now=NOW)) for name, each in warehouses.items()}
    monkeypatch.setattr(reading, "LABELS_BY_BITS", 2)
    assert {name: facts(each.read("tickets", config, WEEK, now=NOW)) for name, each in warehouses.items()} == usual


@pytest.mark.parametrize(("odd", "asked"), [({}, 3), ({"score": 7.0}, 5)], ids=["sound", "rejected"])
def test_only_what_there_is_is_asked(load: Loader, odd: Mapping[str, Any], asked: int) -> None:
    plain = {"label": "billing", "score": 0.9, "actual": 1.0, "resolved_at": WEEK.start}
    rows = [{"item": "t1"} | plain, {"item": "t2"} | plain | odd]
    for engine, warehouse in load(rows).items():
        statements = statements_of(warehouse)
        assert bool(warehouse.read("tickets", source("multilabel"), WEEK, now=NOW).rejected) is bool(odd)
        assert len(statements) == asked, (engine, statements)
        assert [len(re.findall(r"FROM \S*resolved_tickets\b", each)) for each in statements] == [1] * asked


@pytest.mark.parametrize("repeats", [False, True], ids=["once", "repeated"])
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
def test_rows_of_numbers_are_read_alike_and_in_the_same_order(load: Loader, repeats: bool, weights: bool) -> None:
    rng = random.Random(5)  # noqa: S311 - no secret
    rows: list[dict[str, Any]] = []
    for item in range(300):
        row: dict[str, Any] = {
            "item": f"t{item}", "predicted": rng.gauss(0, 1), "deviation": rng.random(), "actual": rng.gauss(0, 1),
            "resolved_at": WEEK.start + timedelta(minutes=item), "model_version": rng.choice(["v1", "v2"]),
        }  # fmt: skip
        row |= {"weight": rng.choice([1.0, 2.5])} if weights else {}
        rows.append(row | rng.choices([{}, {"deviation": -1.0}, {"actual": math.inf}], [18, 1, 1])[0])
        rows += [row | {"predicted": 0.25}] if repeats and item % 20 == 0 else []
    types = dict.fromkeys(("predicted", "deviation", "actual"), "DOUBLE PRECISION")
    found = alike(load(rows, types=types), source("regression"))
    assert len(found.numbers.predicted) == found.rows > 250
    assert {"deviation_invalid", "outcome_not_finite"} <= {cell.reason for cell in found.rejected}
    assert any(each.reason == "duplicate" for each in found.quality) is repeats


@pytest.mark.skipif("postgresql" not in ENGINES, reason="of PostgreSQL alone")
def test_postgresql_joins_the_rows_of_items_by_hashes(load: Loader) -> None:
    rows = [
        {"item": f"t{n // 4}", "label": f"label {n % 4}", "score": n % 7 / 7, "actual": float(n % 4 == 0),
         "resolved_at": WEEK.start}
        for n in range(4_000)
    ]  # fmt: skip
    (plain,) = load(rows, engines=("postgresql",)).values()
    with plain._session("") as connection:
        connection.exec_driver_sql("ANALYZE resolved_tickets")
    asked: list[tuple[str, Any]] = []
    sa.event.listen(plain._engine, "before_cursor_execute", lambda *seen: asked.append(seen[2:4]))
    whole = plain.read("tickets", source("multiclass"), WEEK, now=NOW).whole
    assert len(whole.truth) == 1_000
    ((text, values),) = [each for each in asked if "AS frequency" in each[0]]
    with plain._session("") as connection:
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {text}", values).scalars())
    assert "Hash Cond" in plan or "Merge Cond" in plan
    assert "Join Filter" not in plan  # each row with each item


@pytest.mark.parametrize("kind", ["multilabel", "top_k", "multiclass"])
def test_an_empty_window_has_no_counts(load: Loader, kind: str) -> None:
    rows = [row | {"resolved_at": WEEK.end} for row in some_rows(1, weights=True, repeats=False, apart=False)]
    for plain in load(rows).values():
        found = plain.read("tickets", source(kind, segments=("channel",)), WEEK, now=WEEK.end)
        assert (found.rows, dict(found.labels), found.rejected, found.quality) == (0, {}, (), ())
        assert (dict(found.ranked), found.whole) == ({}, None)


def test_a_text_that_another_begins_with_is_shown_first(load: Loader) -> None:
    odd = {"label": "billing", "score": 7.0, "resolved_at": WEEK.start, "actual": 1.0, "cluster": "c1"}
    rows = [{"item": item, **odd} for item in ["a", *(f"a\t{n:02}" for n in range(20)), "\U0010ffff", "1", "2"]]
    for plain in load(rows).values():
        (found,) = plain.read("tickets", source("multilabel"), WEEK, now=NOW).quality
        assert [row["item"] for row in found.examples] == ["1", "2", "a", *(f"a\t{n:02}" for n in range(17))]


@pytest.mark.skipif("postgresql" not in ENGINES, reason="of PostgreSQL alone")
@pytest.mark.postgres
def test_a_database_in_another_encoding_than_utf_8_is_read(postgres_url: str) -> None:
    from sqlalchemy.pool import NullPool

    url = sa.make_url(postgres_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        how = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        connection.exec_driver_sql(f"CREATE DATABASE in_latin_1 {how}")
    there = url.set(database="in_latin_1")
    with sa.create_engine(there, poolclass=NullPool).begin() as connection:
        columns = "item text, label text, score float8, actual int, resolved_at timestamptz, cluster text"
        connection.exec_driver_sql(f"CREATE TABLE resolved_tickets ({columns})")
        values = f"('t1', 'für', 0.9, 1, '{WEEK.start}', 'c1'), ('t2', 'für', 7.0, 1, '{WEEK.start}', 'c1')"
        connection.exec_driver_sql(f"INSERT INTO resolved_tickets VALUES {values}")
    with Warehouse.from_url(there.render_as_string(hide_password=False)) as plain:
        found = plain.read("tickets", source("multilabel"), WEEK, now=NOW)
        assert (found.rows, list(found.labels)) == (1, ["für"])
        assert [row["item"] for row in found.quality[0].examples] == ["t2"]


def test_a_warehouse_without_memory_for_the_rows_says_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE resolved_tickets AS SELECT 't' || i // 4 AS item, 'label ' || i % 20 AS label, "
            "hash(i) % 10000 / 10000 AS score, i % 2 AS actual, 'c' || i // 16 AS cluster, "
            f"TIMESTAMPTZ '{WEEK.start.isoformat()}' AS resolved_at FROM range(300000) AS r(i)"
        )
    with Warehouse.from_url(f"duckdb:///{path}") as small:
        sa.event.listen(small._engine, "connect", lambda driver, _: driver.execute("SET memory_limit = '10MB'"))
        with pytest.raises(WarehouseFailed, match=r"has no room .*Out of Memory"):
            small.read("tickets", source("multilabel"), WEEK, now=NOW)


@pytest.mark.skipif("postgresql" not in ENGINES, reason="of PostgreSQL alone")
def test_postgresql_finds_rows_with_odd_dates_by_the_index_of_the_dates(load: Loader) -> None:
    of_all = {"label": "billing", "score": 0.9, "actual": 1.0}
    rows = [{"item": f"t{n}", "resolved_at": WEEK.start + timedelta(hours=n), **of_all} for n in range(3_000)]
    indexed = ("CREATE INDEX of_dates ON resolved_tickets (resolved_at)", "ANALYZE resolved_tickets")
    (plain,) = load(rows, engines=("postgresql",), then=indexed).values()
    asked: list[tuple[str, Any]] = []
    sa.event.listen(plain._engine, "before_cursor_execute", lambda *seen: asked.append(seen[2:4]))
    found = plain.read("tickets", source("multilabel"), WEEK, now=WEEK.start + timedelta(hours=2_990))
    assert {each.reason: each.rows for each in found.quality} == {"date_in_future": 9}
    ((text, values),) = [each for each in asked if "GROUP BY undated.reason" in each[0]]
    with plain._session("") as connection:
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {text}", values).scalars())
    assert "of_dates" in plan
    assert "Seq Scan" not in plan


def test_the_first_rejected_rows_of_each_reason_are_shown_in_order(load: Loader) -> None:
    week = {"resolved_at": WEEK.start, "actual": 1.0, "cluster": "c1"}
    odd = [*(f"t{n:03}" for n in range(25)), None, "a b", "ü", "it's"]
    rows = [{"item": item, "label": "billing", "score": 7.0, **week} for item in odd]
    rows += [
        {"item": "t000", "label": "billing", "score": 7.0, **week},
        {"item": "t1", "label": "", "score": 0.5, **week},
    ]
    for plain in load(rows).values():
        found = plain.read("tickets", source("multilabel"), WEEK, now=NOW)
        shown = {quality.reason: [(row["item"], row["label"]) for row in quality.examples] for quality in found.quality}
        first = sorted(["a b", "it's", "t000", *map(str, odd[:17])])
        assert shown["score_out_of_range"] == [(item, "billing") for item in first]
        assert shown["item_missing"] == [(None, "billing")]
        assert shown["label_missing"] == [("t1", "")]
        assert {q.reason: q.rows for q in found.quality} == {
            "score_out_of_range": 29, "item_missing": 1, "label_missing": 1
        }  # fmt: skip


def test_values_of_rejected_rows_do_not_crowd_a_segment(load: Loader) -> None:
    week = {"resolved_at": WEEK.start, "score": 0.9, "actual": 1.0, "label": "billing"}
    rows = [{"item": f"t{n}", "message": f"m{n}", **week, **({"score": 7.0} if n == 0 else {})} for n in range(201)]
    for plain in load(rows).values():
        found = plain.read("tickets", source("multilabel", segments=("message",)), WEEK, now=NOW)
        assert len({value for _, value in found.segments}) == 200
        assert [quality.reason for quality in found.quality] == ["score_out_of_range"]


@pytest.mark.parametrize("versions", [3, 300])
def test_versions_are_counted_where_they_are_a_segment_too(load: Loader, versions: int) -> None:
    made = some_rows(2, weights=False, repeats=False, apart=False)
    rows = [row | {"model_version": f"v{n % versions}"} for n, row in enumerate(made)]
    found = alike(load(rows), source("multilabel", segments=("model_version",)))
    assert len(found.versions) > 2
    assert (len(found.segments) == 0) is (versions == 300)
