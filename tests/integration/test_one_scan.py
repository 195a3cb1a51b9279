"""The counts, the sums of clusters and the rejected rows by one statement.

DuckDB, SQLite and PostgreSQL share the rows of a scan. Engines that use grouping sets where scans cost most cannot run
here, but for what fakesnow can do. So DuckDB and PostgreSQL read that way too.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import duckdb
import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.config.settings import load_settings
from monitor.core import windows
from monitor.core.records import Expected
from monitor.operations.open import warehouse_of
from monitor.warehouse.dialects import Dialect
from monitor.warehouse.reader import Reading, Warehouse, WarehouseFailed
from tests.conftest import Loader

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
Way = Literal["by several scans", "by shared rows", "by grouping sets", "by several scans with grouping sets"]
WAYS: tuple[Way, ...] = (
    "by several scans", "by shared rows", "by grouping sets", "by several scans with grouping sets"
)  # fmt: skip


def source(**more: Any) -> SourceConfig:
    return SourceConfig(relation="resolved_tickets", score_is="probability_of_label", **more)


def some_rows(seed: int, *, weights: bool, repeats: bool) -> list[dict[str, Any]]:
    """About 700 rows of three labels, in clusters and in none, of which one in ten is rejected."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    faults: Sequence[Mapping[str, Any]] = (
        {"label": None}, {"label": "x" * 2_000}, {"score": None}, {"score": 1.5}, {"score": -3.0}, {"score": 1e300},
        {"score": math.nan}, {"actual": None}, {"actual": -1.0}, {"actual": 7.0}, {"predicted": 3}, {"item": None},
    )  # fmt: skip
    rows = []
    for item in range(250):
        cluster = rng.choice([f"c{item // 5}", f"c{item // 5}", "", None])
        for label in rng.sample(["billing", "it's", "фишинг"], rng.randint(1, 3)):
            plain: dict[str, Any] = {
                "item": f"t{item}", "label": label, "score": round(rng.random(), rng.choice([2, 4, 17])),
                "actual": rng.choice([0.0, 1.0, 0.25]), "predicted": rng.randint(0, 1), "cluster": cluster,
                "resolved_at": WEEK.start + timedelta(hours=rng.randint(-5, 170)), "message": f"m{item}-{label}",
                "channel": rng.choice(["web", "mail", None]), "model_version": rng.choice(["v1", "v2", None]),
            }  # fmt: skip
            plain |= {"weight": rng.choice([1.0, 2.5, 0.001])} if weights else {}
            rows.append(plain | (rng.choice(faults) if rng.random() < 0.1 else {}))
            if repeats and rng.random() < 0.05:
                rows.append(plain | {"score": 0.5})
    return rows


def statements_of_readings(warehouse: Warehouse) -> list[str]:
    """The statements about rows of the window that the warehouse is asked from now on."""
    asked: list[str] = []

    def note(*seen: Any) -> None:
        beside = "SELECT *" in seen[2] or "undated" in seen[2]  # columns, odd dates elsewhere
        if "resolved_tickets" in seen[2] and not beside:
            asked.append(seen[2])

    sa.event.listen(warehouse._engine, "before_cursor_execute", note)
    return asked


def dialect_of(plain: Warehouse) -> Dialect:
    """The dialect of its server."""
    with plain._session("") as connection:
        return plain._dialect.of(connection)


def read_so(plain: Warehouse, way: Way) -> Warehouse:
    """The same warehouse, read in this way."""
    dialect = dialect_of(plain).reading_by("never" if "several" in way else "always")
    dialect.shares_rows = dialect.shares_rows and "grouping sets" not in way
    return Warehouse(plain._url, plain._engine, dialect)


def ways_of(plain: Warehouse) -> tuple[Way, ...]:
    """The ways in which its engine can be read."""
    dialect = dialect_of(plain)
    can = {"by several scans": True, "by shared rows": dialect.shares_rows}
    return tuple(way for way in WAYS if can.get(way, dialect.grouping_sets))


def facts(reading: Reading) -> Mapping[str, object]:
    """All of a reading that can be compared."""
    parts = [reading.labels, reading.items, *reading.segments.values()]
    counted = [{name: (counts.digest(), counts.design_effect) for name, counts in part.items()} for part in parts]
    rest = (reading.rows, reading.versions, reading.quality, reading.rejected, reading.whole_design_effect)
    return {"counted": counted, "segments": list(reading.segments), "rest": rest, "fingerprint": reading.fingerprint}


@pytest.mark.parametrize(("engine", "seed"), [("duckdb", 0), ("duckdb", 1), ("postgresql", 1), ("sqlite", 1)])
@pytest.mark.parametrize(
    "segments", [(), ("channel",), ("model_version", "channel", "message")], ids=["none", "one", "with a crowded one"]
)
@pytest.mark.parametrize("repeats", [False, True], ids=["once", "repeated"])
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
def test_one_scan_counts_what_several_do(
    load: Loader, engine: str, seed: int, segments: tuple[str, ...], repeats: bool, weights: bool
) -> None:
    (plain,) = load(some_rows(seed, weights=weights, repeats=repeats), engines=(engine,)).values()
    config = source(segments=segments, automate_at=0.7)
    theirs, *others = (
        read_so(plain, way).read("tickets", config, WEEK, now=NOW, fingerprint=True) for way in ways_of(plain)
    )
    assert [facts(ours) == facts(theirs) for ours in others] == [True] * len(others)
    assert len({cell.reason for cell in theirs.rejected}) >= 6
    assert ("message", "m1-billing") not in theirs.segments
    assert any(quality.reason == "duplicate" for quality in theirs.quality) is repeats


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("segments", [(), ("channel", "message")])
def test_it_takes_two_scans_with_clusters_segments_and_rejected_rows(
    load: Loader, rejected: bool, segments: tuple[str, ...]
) -> None:
    rows = [row for row in some_rows(1, weights=True, repeats=False) if rejected or row["item"] == "t1"]
    for plain in load(rows).values():
        asked = statements_of_readings(plain)
        usual = [plain] if dialect_of(plain).shares_rows else []
        for warehouse in (*usual, *(read_so(plain, way) for way in ways_of(plain) if "several" not in way)):
            asked.clear()
            found = warehouse.read("tickets", source(segments=segments), WEEK, now=NOW, fingerprint=True)
            assert bool(found.rejected) is rejected
            assert any(quality.examples for quality in found.quality) is rejected
            assert len(asked) == 2


def test_a_text_that_another_begins_with_is_shown_first(load: Loader) -> None:
    odd = {"label": "billing", "score": 7.0, "resolved_at": WEEK.start, "actual": 1.0, "cluster": "c1"}
    rows = [{"item": item, **odd} for item in ["a", *(f"a\t{n:02}" for n in range(20)), "\U0010ffff", "1", "2"]]
    for plain in load(rows).values():
        for way in ways_of(plain):
            (found,) = read_so(plain, way).read("tickets", source(), WEEK, now=NOW).quality
            assert [row["item"] for row in found.examples] == ["1", "2", "a", *(f"a\t{n:02}" for n in range(17))]


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
        for way in ways_of(plain):
            found = read_so(plain, way).read("tickets", source(), WEEK, now=NOW)
            assert (found.rows, list(found.labels)) == (1, ["für"])
            assert [row["item"] for row in found.quality[0].examples] == ["t2"]


def test_a_server_without_room_for_the_rows_says_what_helps(load: Loader) -> None:
    rows = [row for seed in range(12) for row in some_rows(seed, weights=True, repeats=False)]
    (plain,) = load(rows, engines=("postgresql",)).values()
    address = plain._url.update_query_dict({"options": "-c temp_file_limit=64kB -c work_mem=64kB"})
    with (
        Warehouse.from_url(address.render_as_string(hide_password=False)) as small,
        pytest.raises(WarehouseFailed, match=r"has no room .*CALMON_WAREHOUSE_SCANS=several"),
    ):
        small.read("tickets", source(segments=("channel",)), WEEK, now=NOW)


def test_a_warehouse_without_memory_for_the_rows_says_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE resolved_tickets AS SELECT 't' || i // 4 AS item, 'label ' || i % 20 AS label, "
            "hash(i) % 10000 / 10000 AS score, i % 2 AS actual, 'c' || i // 16 AS cluster, "
            f"TIMESTAMPTZ '{WEEK.start.isoformat()}' AS resolved_at FROM range(300000) AS r(i)"
        )
    with Warehouse.from_url(f"duckdb:///{path}") as small:
        sa.event.listen(small._engine, "connect", lambda driver, _: driver.execute("SET memory_limit = '30MB'"))
        with pytest.raises(WarehouseFailed, match=r"has no room .*CALMON_WAREHOUSE_SCANS=several.*Out of Memory"):
            small.read("tickets", source(), WEEK, now=NOW)


PLANS = {
    "duckdb": ("EXPLAIN", re.compile("Seq Scan|SEQ_SCAN")),
    "sqlite": ("EXPLAIN QUERY PLAN", re.compile("(SCAN|SEARCH) relation")),
    "postgresql": ("EXPLAIN", re.compile("Scan on resolved_tickets")),
}
"""How an engine shows the plan of a statement, and what stands in it for one scan."""


def test_the_plan_of_each_statement_has_one_scan(load: Loader) -> None:
    for engine, plain in load(some_rows(1, weights=True, repeats=False), engines=tuple(PLANS)).items():
        explain, scan = PLANS[engine]
        asked: list[tuple[str, Any]] = []
        sa.event.listen(plain._engine, "before_cursor_execute", lambda *seen, to=asked: to.append(seen[2:4]))
        counting = statements_of_readings(plain)
        for segments in (), ("channel", "message"):
            asked.clear()
            counting.clear()
            plain.read("tickets", source(segments=segments), WEEK, now=NOW, fingerprint=True)
            read = [each for each in asked if each[0] in counting]
            with plain._session("") as connection:
                answers = [connection.exec_driver_sql(f"{explain} {text}", values).all() for text, values in read]
            plans = ["\n".join(str(cell) for line in answer for cell in line) for answer in answers]
            assert [len(scan.findall(plan)) for plan in plans] == [1, 1], (engine, plans)


def test_postgresql_finds_rows_with_odd_dates_by_the_index_of_the_dates(load: Loader) -> None:
    of_all = {"label": "billing", "score": 0.9, "actual": 1.0}
    rows = [{"item": f"t{n}", "resolved_at": WEEK.start + timedelta(hours=n), **of_all} for n in range(3_000)]
    indexed = ("CREATE INDEX of_dates ON resolved_tickets (resolved_at)", "ANALYZE resolved_tickets")
    (plain,) = load(rows, engines=("postgresql",), then=indexed).values()
    asked: list[tuple[str, Any]] = []
    sa.event.listen(plain._engine, "before_cursor_execute", lambda *seen: asked.append(seen[2:4]))
    found = plain.read("tickets", source(), WEEK, now=WEEK.start + timedelta(hours=2_990))
    assert {each.reason: each.rows for each in found.quality} == {"date_in_future": 9}
    ((text, values),) = [each for each in asked if "GROUP BY undated.reason" in each[0]]
    with plain._session("") as connection:
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {text}", values).scalars())
    assert "of_dates" in plan
    assert "Seq Scan" not in plan


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("segments", [(), ("channel", "message")])
def test_by_several_scans_it_takes_one_for_each_of_clusters_segments_and_rejected_rows(
    load: Loader, rejected: bool, segments: tuple[str, ...]
) -> None:
    rows = [row for row in some_rows(1, weights=True, repeats=False) if rejected or row["item"] == "t1"]
    for plain in load(rows, engines=("duckdb", "postgresql")).values():
        asked = statements_of_readings(plain)
        for way in (way for way in ways_of(plain) if "several" in way):
            asked.clear()
            read_so(plain, way).read("tickets", source(segments=segments), WEEK, now=NOW, fingerprint=True)
            more = (2 if rejected else 1) if segments else 0  # the values of the crowded one are counted once more
            assert len(asked) == 2 + 1 + more + rejected


def test_rejected_rows_take_a_scan_of_their_own_only_where_neither_they_nor_labels_were_known(load: Loader) -> None:
    rows = [{k: v for k, v in row.items() if k != "cluster"} for row in some_rows(1, weights=False, repeats=False)]
    for plain in load(rows, engines=("duckdb", "sqlite", "postgresql")).values():
        asked = statements_of_readings(plain)
        found = []
        known = tuple(sorted({row["label"] for row in rows if row["label"] and len(row["label"]) < 100}))
        for expected, scans in ((Expected(False), 3), (Expected(True), 2), (Expected(False, labels=known), 2)):
            asked.clear()
            read = plain.read("tickets", source(), WEEK, now=NOW, fingerprint=True, expected=expected)
            found.append(facts(read))
            assert len(asked) == scans
        assert found[0] == found[1] == found[2]


def test_rejected_rows_are_read_by_the_second_of_two_scans_once_labels_are_known(load: Loader) -> None:
    sound = {"item": "t1", "label": "billing", "score": 0.9, "actual": 1.0}
    weeks = [windows.week(f"2026-W{number}", ZoneInfo("UTC")) for number in (43, 44, 45, 46)]
    rows = [sound | {"resolved_at": week.start} for week in weeks]
    rows += [sound | {"item": "t2", "score": 7.0, "resolved_at": week.start} for week in weeks[1:3]]
    ways = ((True, False), (False, True), (False, True), (False, False))  # first, rejected rows might be there
    for engine, plain in load(rows, engines=("duckdb", "sqlite", "postgresql")).items():
        asked = statements_of_readings(plain)
        for week, shared in zip(weeks, ways, strict=True):
            asked.clear()
            found = plain.read("tickets", source(), week, now=NOW)
            assert bool(found.rejected) is (week in weeks[1:3])
            assert tuple("shared_rows" in each for each in asked) == shared, (engine, week.name)


@pytest.mark.parametrize("way", WAYS)
def test_the_first_rejected_rows_of_each_reason_are_shown_in_order(load: Loader, way: Way) -> None:
    week = {"resolved_at": WEEK.start, "actual": 1.0, "cluster": "c1"}
    odd = [*(f"t{n:03}" for n in range(25)), None, "a\x01b", "ü", "it's"]
    rows = [{"item": item, "label": "billing", "score": 7.0, **week} for item in odd]
    rows += [
        {"item": "t000", "label": "billing", "score": 7.0, **week},
        {"item": "t1", "label": "", "score": 0.5, **week},
    ]
    for plain in load(rows).values():
        if way not in ways_of(plain):
            continue
        found = read_so(plain, way).read("tickets", source(), WEEK, now=NOW)
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
        for warehouse in (read_so(plain, way) for way in ways_of(plain)):
            found = warehouse.read("tickets", source(segments=("message",)), WEEK, now=NOW)
            assert len({value for _, value in found.segments}) == 200
            assert [quality.reason for quality in found.quality] == ["score_out_of_range"]


@pytest.mark.parametrize("versions", [3, 300])
def test_versions_are_counted_where_they_are_a_segment_too(load: Loader, versions: int) -> None:
    rows = [row | {"model_version": f"v{n % versions}"}
            for n, row in enumerate(some_rows(2, weights=False, repeats=False))]  # fmt: skip
    for plain in load(rows).values():
        config = source(segments=("model_version",))
        ours, *others = (read_so(plain, way).read("tickets", config, WEEK, now=NOW) for way in ways_of(plain))
        assert [facts(theirs) == facts(ours) for theirs in others] == [True] * len(others)
        assert len(ours.versions) > 2
        assert (len(ours.segments) == 0) is (versions == 300)


def test_an_empty_window_has_no_counts(load: Loader) -> None:
    rows = [row | {"resolved_at": WEEK.end} for row in some_rows(1, weights=False, repeats=False)]
    for plain in load(rows).values():
        for way in ways_of(plain):
            found = read_so(plain, way).read("tickets", source(segments=("channel",)), WEEK, now=WEEK.end)
            assert (found.rows, dict(found.labels), found.rejected, found.quality) == (0, {}, (), ())


@pytest.mark.parametrize(
    ("address", "usual"),
    [
        ("duckdb:///warehouse.duckdb", "beyond counts"),
        ("sqlite:///tickets.sqlite", "beyond counts"),
        ("postgresql://monitor@host/database", "beyond counts"),
        ("clickhouse://monitor:unused@host:8123/database", "never"),
        ("spark://host:15002/tickets", "beyond counts"),
        ("trino://monitor@host:8080/catalog", "always"),
    ],
)
def test_the_setting_chooses_by_how_many_scans_and_changes_no_other_warehouse(address: str, usual: str) -> None:
    for scans, expected in (("fewest", "always"), ("several", "never"), ("quickest", usual), (None, usual)):
        given = {"CALMON_WAREHOUSE_URL": address} | ({} if scans is None else {"CALMON_WAREHOUSE_SCANS": scans})
        assert warehouse_of(load_settings(given), frozenset())._dialect.few_scans == expected


def test_labels_that_come_now_and_then_are_remembered(load: Loader) -> None:
    weeks = [windows.week(f"2026-W{number}", ZoneInfo("UTC")) for number in (43, 44, 45, 46)]
    often, rare = {"item": "t1", "label": "billing"}, {"item": "t1", "label": "rare"}
    plain = {"score": 0.9, "actual": 1.0}
    rows = [each | plain | {"resolved_at": week.start} for week in weeks for each in (often, rare)]
    rows = [row for row in rows if row["label"] != "rare" or row["resolved_at"] in (weeks[0].start, weeks[3].start)]
    for engine, warehouse in load(rows, engines=("duckdb", "sqlite", "postgresql")).items():
        asked = statements_of_readings(warehouse)
        for week, labels in zip(weeks, (2, 1, 1, 2), strict=True):
            asked.clear()
            assert len(warehouse.read("tickets", source(), week, now=NOW).labels) == labels
            assert [each for each in asked if "kept_rows" in each] == [], (engine, week.name)
