"""Rows that are counted by the other rows of their item, and rows that repeat: all questions as one statement."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.records import TOO_MANY_VALUES, Expected
from monitor.warehouse import asked_at_once, reading, row_levels
from monitor.warehouse.asked_at_once import Question
from monitor.warehouse.dialects import DIALECTS, FewScans
from monitor.warehouse.reader import Reading, Warehouse
from tests.conftest import ENGINES, Loader

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
TWICE = {"clickhouse", "snowflake"} & set(ENGINES)
AT_ONCE = tuple(name for name in ENGINES if name != "duckdb" or not TWICE)
"""Engines that are asked at once. With some other tests want DuckDB to compare with; here it would be tried twice."""
SOME = (False, True) if "sqlite" in ENGINES else (True,)
"""Whether rows repeat, and whether items are of several clusters. Of an engine that is an extra the hardest will do."""
FAULTS: tuple[Mapping[str, Any], ...] = (
    {"label": None}, {"label": "x" * 2_000}, {"score": None}, {"score": 1.5}, {"score": 1e300}, {"score": math.nan},
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


def read_both(plain: Warehouse, config: SourceConfig) -> tuple[Reading, Reading]:
    """The reading by several scans, and by one or two."""
    with plain._session("") as connection:
        dialect = plain._dialect.of(connection)
    several = Warehouse(plain._url, plain._engine, dialect.reading_by("never"))
    ours, theirs = (each.read("tickets", config, WEEK, now=NOW, fingerprint=True) for each in (plain, several))
    return ours, theirs


def statements_of(warehouse: Warehouse) -> list[str]:
    """The statements about rows that the warehouse is asked from now on."""
    asked: list[str] = []

    def note(*seen: Any) -> None:
        if "resolved_tickets" in seen[2] and "SELECT *" not in seen[2]:
            asked.append(seen[2])

    sa.event.listen(warehouse._engine, "before_cursor_execute", note)
    return asked


def scans_of(statements: list[str]) -> list[int]:
    """How often each statement names the relation."""
    return [len(re.findall(r"FROM \S*resolved_tickets\b", each)) for each in statements]


def outside_the_window(statement: str) -> bool:
    """Whether a statement is about rows without a date, or in the future."""
    return re.search(r"GROUP BY \W?undated\b", statement) is not None


def facts(reading: Reading) -> Mapping[str, object]:
    """All of a reading that can be compared."""
    parts: list[Mapping[Any, Any]] = [reading.labels, reading.items, reading.ranked, *reading.segments.values()]
    counted = [{name: (counts.digest(), counts.design_effect) for name, counts in part.items()} for part in parts]
    rest = (reading.rows, reading.versions, reading.quality, reading.rejected, reading.whole_design_effect)
    whole, numbers = reading.whole, reading.numbers
    rows = None if whole is None else (whole.labels, whole.items, *map(np.ndarray.tolist, (whole.truth, whole.weight)))
    scores = None if whole is None else np.nan_to_num(whole.probability, nan=-1.0).tolist()
    columns = None if numbers is None else [
        column.tolist() for column in (numbers.predicted, numbers.deviation, numbers.actual, numbers.weight)
    ]  # fmt: skip
    return {
        "counted": counted, "segments": list(reading.segments), "rest": rest, "fingerprint": reading.fingerprint,
        "whole": rows, "scores": scores, "numbers": columns,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["top_k", "multiclass"])
@pytest.mark.parametrize("repeats", SOME, ids=lambda repeats: "repeated" if repeats else "once")
@pytest.mark.parametrize("apart", SOME, ids=lambda apart: "apart" if apart else "together")
@pytest.mark.parametrize(
    ("weights", "decided"), [(False, False), (True, True)], ids=["equal, by score", "weighted, by column"]
)
def test_one_statement_finds_what_several_do(
    load: Loader, kind: str, weights: bool, repeats: bool, apart: bool, decided: bool
) -> None:
    rows = some_rows(3, weights=weights, repeats=repeats, apart=apart)
    rows = rows if decided else [{name: row[name] for name in row if name != "predicted"} for row in rows]
    config = source(kind, segments=("channel", "message"), automate_at=0.6)
    for engine, plain in load(rows, engines=AT_ONCE).items():
        ours, theirs = read_both(plain, config)
        assert facts(ours) == facts(theirs), engine
        for others in (False, True):
            expected = Expected(repeats=True, apart=others)
            expecting = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(expecting) == facts(theirs), engine
        reasons = {cell.reason for cell in ours.rejected}
        assert ({"no_true_label", "several_true_labels"} <= reasons) is (kind == "multiclass")
        assert len(ours.ranked) > 0
        assert (ours.whole is not None) is (kind == "multiclass")
        assert any(each.reason == "duplicate" for each in ours.quality) is repeats


@pytest.mark.parametrize("repeats", SOME, ids=lambda repeats: "repeated" if repeats else "once")
@pytest.mark.parametrize("apart", SOME, ids=lambda apart: "apart" if apart else "together")
def test_rows_that_repeat_and_items_of_several_clusters_are_read_alike_in_any_kind(
    load: Loader, repeats: bool, apart: bool
) -> None:
    rows = some_rows(4, weights=False, repeats=repeats, apart=apart)
    for engine, plain in load(rows, engines=AT_ONCE).items():
        config = source("multilabel", segments=("channel", "model_version"))
        ours, theirs = read_both(plain, config)
        assert facts(ours) == facts(theirs), engine
        asked = statements_of(plain)
        for expected, scans in (
            (Expected(), 2 + (repeats or apart)),  # both are found by the sums of items, and asked together
            (None, 1 if repeats else 2),  # as they were found: never one more
            (Expected(apart=True), 2 + repeats),
            (Expected(repeats=True, apart=True), 1),
            (Expected(repeats=True), 1 + apart),
        ):
            asked.clear()
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(found) == facts(theirs), (engine, expected)
            assert found.apart is apart
            counting = [each for each in asked if not outside_the_window(each)]
            assert scans_of(counting) == [1] * scans, (engine, expected)


@pytest.mark.parametrize("repeats", SOME, ids=lambda repeats: "repeated" if repeats else "once")
def test_items_of_several_clusters_are_expected_too_where_labels_are_too_many_for_bits(
    load: Loader, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "COUNTED_BY_BITS", 2)
    for engine, plain in load(some_rows(4, weights=True, repeats=repeats, apart=True), engines=AT_ONCE).items():
        config = source("multilabel", segments=("channel",))
        ours, theirs = read_both(plain, config)
        assert facts(ours) == facts(theirs), engine
        asked = statements_of(plain)
        for expected, scans in ((Expected(), 3), (None, 1 if repeats else 2), (Expected(apart=True), 2 + repeats)):
            asked.clear()
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(found) == facts(theirs), (engine, expected)
            counting = [each for each in asked if not outside_the_window(each)]
            assert scans_of(counting) == [1] * scans, (engine, expected)


@pytest.mark.parametrize("repeats", SOME, ids=lambda repeats: "repeated" if repeats else "once")
@pytest.mark.parametrize("apart", SOME, ids=lambda apart: "apart" if apart else "together")
@pytest.mark.parametrize(
    ("segments", "most"),
    [((), 248), (("channel",), 248), (("channel",), 2)],
    ids=["whole", "by segment", "many labels"],
)
def test_where_labels_are_known_two_scans_find_whatever_nobody_expected(
    load: Loader, segments: tuple[str, ...], repeats: bool, apart: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "COUNTED_BY_BITS", most)
    config, every = source("multilabel", segments=segments), ("billing", "it's", "фишинг")
    for engine, plain in load(some_rows(4, weights=True, repeats=repeats, apart=apart), engines=AT_ONCE).items():
        _, theirs = read_both(plain, config)
        asked = statements_of(plain)
        nothing, dirty = Expected(rejects=False), Expected(rejects=True, apart=True)
        for before, labels in ((nothing, every), (nothing, every[:2]), (nothing, ("gone",)), (dirty, (*every, "gone"))):
            asked.clear()
            expected = replace(before, labels=labels)
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(found) == facts(theirs), (engine, expected)
            counting = [each for each in asked if not outside_the_window(each)]
            assert scans_of(counting) == [1, 1], (engine, expected)


def test_a_source_without_clusters_is_read_as_always_where_items_were_apart_before(load: Loader) -> None:
    rows = some_rows(4, weights=False, repeats=False, apart=False)
    rows = [{name: row[name] for name in row if name != "cluster"} for row in rows]
    for engine, plain in load(rows, engines=AT_ONCE).items():
        for kind in ("multilabel", "top_k", "multiclass"):
            theirs = facts(read_both(plain, source(kind))[1])
            for expected in (Expected(apart=True), Expected(repeats=True, apart=True)):
                found = plain.read("tickets", source(kind), WEEK, now=NOW, fingerprint=True, expected=expected)
                assert (facts(found), found.apart) == (theirs, False), engine


@pytest.mark.skipif("sqlite" not in ENGINES, reason="nothing of an engine is tried")
@pytest.mark.parametrize("kind", ["multilabel", "multiclass"])
def test_statements_that_are_forgotten_between_readings_are_never_forgotten_within_one(
    load: Loader, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plain,) = load(some_rows(6, weights=False, repeats=True, apart=True)[:150], engines=("sqlite",)).values()
    config = source(kind, segments=("channel",))
    theirs = facts(read_both(plain, config)[1])
    for levels in (1, 15):
        monkeypatch.setattr(row_levels, "LEVELS", levels)
        for expected in (Expected(), Expected(rejects=False), Expected(apart=True), Expected(repeats=True, apart=True)):
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(found) == theirs


def test_of_rows_that_repeat_the_same_are_shown_however_they_are_read(load: Loader) -> None:
    plain = {"label": "billing", "score": 0.7, "actual": 1.0, "resolved_at": WEEK.start + timedelta(days=6)}
    rows = [
        plain | {"item": f"a\x01{item}", "predicted_at": WEEK.start + timedelta(hours=hour)}
        for item in range(30)
        for hour in ((2, 0, 1) if item % 2 else (1, 2, 0))
    ]
    config = source("multilabel", window_on="predicted_at")
    for engine, warehouse in load(rows, engines=AT_ONCE).items():
        ours, theirs = read_both(warehouse, config)
        assert ours.quality == theirs.quality, engine
        ((reason, n, first),) = [(each.reason, each.rows, each.examples[0]) for each in ours.quality]
        assert (reason, n, first["item"]) == ("duplicate", 60, "a 0")


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
    for engine, plain in load(rows, engines=AT_ONCE, types=types).items():
        ours, theirs = read_both(plain, source("regression"))
        assert facts(ours) == facts(theirs), engine
        assert ours.numbers is not None
        assert len(ours.numbers.predicted) == ours.rows > 250
        assert {"deviation_invalid", "outcome_not_finite"} <= {cell.reason for cell in ours.rejected}
        asked = statements_of(plain)
        for expected, scans in ((Expected(), 1 + repeats), (Expected(repeats=True), 1)):
            asked.clear()
            assert facts(plain.read("tickets", source("regression"), WEEK, now=NOW, expected=expected)) == facts(theirs)
            assert scans_of([each for each in asked if not outside_the_window(each)]) == [1] * scans, engine
        assert any(each.reason == "duplicate" for each in ours.quality) is repeats


@pytest.mark.parametrize(
    ("kind", "repeats", "apart", "expected", "statements"),
    [
        ("top_k", False, False, Expected(), 1), ("top_k", True, False, Expected(), 2),
        ("top_k", True, False, Expected(repeats=True), 1), ("top_k", False, True, Expected(), 2),
        ("top_k", False, True, Expected(apart=True), 1), ("top_k", True, True, Expected(), 2),
        ("top_k", True, True, Expected(repeats=True, apart=True), 1),
        ("multiclass", False, False, Expected(), 2), ("multiclass", True, False, Expected(), 3),
        ("multiclass", True, False, Expected(repeats=True), 2), ("multiclass", False, True, Expected(), 3),
        ("multiclass", False, True, Expected(apart=True), 2),
        ("multiclass", True, True, Expected(repeats=True, apart=True), 2),
    ],
)  # fmt: skip
def test_one_scan_answers_and_one_reads_whole_rows(
    load: Loader, kind: str, repeats: bool, apart: bool, expected: Expected, statements: int
) -> None:
    rows = some_rows(3, weights=False, repeats=repeats, apart=apart)
    for engine, plain in load(rows, engines=AT_ONCE).items():
        asked = statements_of(plain)
        config = source(kind, segments=("channel",))
        found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
        assert (len(found.rejected) > 0, found.apart) == (True, apart)
        counting = [each for each in asked if "kept_rows" in each]
        assert scans_of(counting) == [1] * statements, engine
        assert [each for each in asked if each not in counting and not outside_the_window(each)] == []


@pytest.mark.skipif("postgresql" not in ENGINES, reason="of PostgreSQL alone")
@pytest.mark.parametrize("few", ["never", "beyond counts"])
def test_postgresql_joins_the_rows_of_items_by_hashes(load: Loader, few: FewScans) -> None:
    rows = [
        {"item": f"t{n // 4}", "label": f"label {n % 4}", "score": n % 7 / 7, "actual": float(n % 4 == 0),
         "resolved_at": WEEK.start}
        for n in range(4_000)
    ]  # fmt: skip
    (plain,) = load(rows, engines=("postgresql",)).values()
    with plain._session("") as connection:
        connection.exec_driver_sql("ANALYZE resolved_tickets")
    warehouse = Warehouse(plain._url, plain._engine, plain._dialect.reading_by(few))
    asked: list[tuple[str, Any]] = []
    sa.event.listen(plain._engine, "before_cursor_execute", lambda *seen: asked.append(seen[2:4]))
    whole = warehouse.read("tickets", source("multiclass"), WEEK, now=NOW).whole
    assert whole is not None
    assert len(whole.truth) == 1_000
    ((text, values),) = [each for each in asked if "AS frequency" in each[0]]
    with plain._session("") as connection:
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {text}", values).scalars())
    assert "Hash Cond" in plan or "Merge Cond" in plan
    assert "Join Filter" not in plan  # each row with each item


def with_segments(rows: list[dict[str, Any]], number: int) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Names of so many segments, and the rows with them; the last one has more values than are counted."""
    names = tuple(f"s{place}" for place in range(number))
    values = [{name: f"{name} {(at + place) % 3}" for place, name in enumerate(names[:-1])} for at in range(len(rows))]
    return names, [row | own | {names[-1]: row["message"]} for row, own in zip(rows, values, strict=True)]


@pytest.mark.parametrize("kind", ["multilabel", "top_k"])
def test_many_segments_take_no_scan_more(load: Loader, kind: str) -> None:
    of_all = some_rows(3, weights=False, repeats=True, apart=False)
    segments, rows = with_segments(of_all, 60)
    config = source(kind, segments=segments)
    for engine, plain in load(rows, engines=AT_ONCE).items():
        _, theirs = read_both(plain, config)
        if plain._dialect.segments_at_once < 60:
            continue
        assert [dict(each.examples[0]) for each in theirs.quality if each.reason == TOO_MANY_VALUES] == [
            {"segment": "s59", "values": "more than 200"}
        ]
        asked = statements_of(plain)
        for expected, scans in ((Expected(), 3 if kind == "multilabel" else 2), (Expected(repeats=True), 1)):
            asked.clear()
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(found) == facts(theirs), (engine, expected)
            counting = [each for each in asked if not outside_the_window(each)]
            assert scans_of(counting) == [1] * scans, (engine, expected)


def test_as_many_segments_as_one_statement_counts_are_counted_by_it(load: Loader) -> None:
    segments, rows = with_segments(some_rows(3, weights=True, repeats=False, apart=False)[:150], 150)
    for engine, plain in load(rows, engines=AT_ONCE).items():
        most = plain._dialect.segments_at_once
        config = source("multilabel", segments=segments[:most])
        asked = statements_of(plain)
        for expected, scans in ((Expected(), 2), (Expected(repeats=True), 1)):
            asked.clear()
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert len({column for column, _ in found.segments}) == most
            assert scans_of([each for each in asked if not outside_the_window(each)]) == [1] * scans, engine


@pytest.mark.parametrize("kind", ["multilabel", "top_k"])
@pytest.mark.parametrize("repeats", SOME, ids=lambda repeats: "repeated" if repeats else "once")
def test_of_more_segments_than_one_statement_counts_these_alone_are_counted_apart(
    load: Loader, kind: str, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments, rows = with_segments(some_rows(3, weights=False, repeats=repeats, apart=True), 4)
    config = source(kind, segments=segments)
    for engine, plain in load(rows, engines=AT_ONCE).items():
        monkeypatch.setattr(type(plain._dialect), "segments_at_once", 3)
        _, theirs = read_both(plain, config)
        asked = statements_of(plain)
        usual = 1 if kind == "top_k" else 2
        for expected, scans in ((Expected(apart=True), usual + repeats), (Expected(repeats=True, apart=True), 1)):
            asked.clear()
            found = plain.read("tickets", config, WEEK, now=NOW, fingerprint=True, expected=expected)
            assert facts(found) == facts(theirs), (engine, expected)
            if engine == "snowflake" and kind == "multilabel" and not expected.repeats:
                continue  # grouping sets count any number of segments
            counting = [each for each in asked if not outside_the_window(each)]
            of_others = [each for each in counting if "calmon_shared_rows" in each or "rows_r" in each]
            assert scans_of(of_others) == [1] * scans, (engine, expected)
            again = kind == "multilabel" and repeats and not expected.repeats  # of all rows, and then of the latest
            assert len(counting) - scans == (6 if again else 3), (engine, expected)


def test_an_empty_window_has_no_counts(load: Loader) -> None:
    rows = [row | {"resolved_at": WEEK.end} for row in some_rows(1, weights=True, repeats=False, apart=False)]
    for plain in load(rows, engines=AT_ONCE).values():
        for kind in ("top_k", "multiclass"):
            found = plain.read("tickets", source(kind, segments=("channel",)), WEEK, now=WEEK.end, fingerprint=True)
            assert (found.rows, dict(found.labels), found.rejected, found.quality) == (0, {}, (), ())
            assert (dict(found.ranked), found.whole) == ({}, None)


def test_answers_are_put_together_from_texts_and_numbers() -> None:
    wide = sa.select(sa.literal("a").label("label"), *(sa.literal(n).label(f"n{n}") for n in range(12)))
    narrow = sa.select(sa.literal("b").label("label"), sa.null().label("n"))
    questions = [Question(wide, ("label",)), Question(narrow, ("label",))]
    assert [each.by_places for each in questions] == [True, False]
    with sa.create_engine("sqlite://").connect() as connection:
        result = connection.execute(asked_at_once.asked_at_once(questions, DIALECTS["sqlite"]))
        names, rows = list(result.keys()), result.all()
    each = zip(names, zip(*rows, strict=True), strict=True)
    columns = {name: np.array(column, dtype=object) for name, column in each}
    first, second = asked_at_once.answers(questions, columns)
    assert first["label"].tolist() == ["a"]
    assert [first[f"n{n}"].tolist() for n in range(12)] == [[float(n)] for n in range(12)]
    assert second["label"].tolist() == ["b"]
    assert np.isnan(second["n"]).tolist() == [True]
    twice = {name: np.concatenate([column, column]) for name, column in columns.items()}
    with pytest.raises(AssertionError, match="24 numbers are not 12 of each of 1 rows"):
        list(asked_at_once.answers(questions, twice))
    with pytest.raises(ValueError, match="2 texts, not 3"):
        Question(wide, ("a", "b", "c"))


@pytest.mark.skipif("sqlite" not in ENGINES, reason="nothing of another engine is tried")
def test_a_table_may_have_any_name_of_the_statement(load: Loader) -> None:
    rows = some_rows(3, weights=False, repeats=True, apart=True)
    for name in ("facts", "kept_rows", "shared_rows", "part_0", "values_of_segments"):
        for plain in load(rows, table=name, engines=("duckdb", "sqlite")).values():
            config = source("top_k", segments=("channel",)).model_copy(update={"relation": name})
            ours, theirs = read_both(plain, config)
            assert facts(ours) == facts(theirs), name
            assert ours.rows > 400
