"""The counts, the sums of clusters and the rejected rows by one statement, as engines read where scans cost most.

Such engines cannot run here, but for what fakesnow can do. So DuckDB and PostgreSQL read both ways, as they do where
``CALMON_WAREHOUSE_SCANS`` is ``fewest``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.config.settings import load_settings
from monitor.core import windows
from monitor.operations.open import warehouse_of
from monitor.warehouse.reader import Reading, Warehouse
from monitor.warehouse.relation import WrongWarehouseAddress
from tests.conftest import Loader

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
BOTH = ("duckdb", "postgresql")


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
        beside = ("SELECT *", "SELECT undated", "SELECT placed.reason")  # columns, odd dates elsewhere, examples
        if "resolved_tickets" in seen[2] and not seen[2].startswith(beside):
            asked.append(seen[2])

    sa.event.listen(warehouse._engine, "before_cursor_execute", note)
    return asked


def by_one_scan(plain: Warehouse) -> Warehouse:
    return Warehouse(plain._url, plain._engine, plain._dialect.by_few_scans())


def facts(reading: Reading) -> Mapping[str, object]:
    """All of a reading that can be compared."""
    parts = [reading.labels, reading.items, *reading.segments.values()]
    counted = [{name: (counts.digest(), counts.design_effect) for name, counts in part.items()} for part in parts]
    rest = (reading.rows, reading.versions, reading.quality, reading.rejected, reading.whole_design_effect)
    return {"counted": counted, "segments": list(reading.segments), "rest": rest, "fingerprint": reading.fingerprint}


@pytest.mark.parametrize(("engine", "seed"), [("duckdb", 0), ("duckdb", 1), ("postgresql", 1)])
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
    ours, theirs = (
        each.read("tickets", config, WEEK, now=NOW, fingerprint=True) for each in (by_one_scan(plain), plain)
    )
    assert facts(ours) == facts(theirs)
    assert len({cell.reason for cell in ours.rejected}) >= 6
    assert ("message", "m1-billing") not in ours.segments
    assert any(quality.reason == "duplicate" for quality in ours.quality) is repeats


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("segments", [(), ("channel", "message")])
def test_it_takes_two_scans_with_clusters_segments_and_rejected_rows(
    load: Loader, rejected: bool, segments: tuple[str, ...]
) -> None:
    rows = [row for row in some_rows(1, weights=True, repeats=False) if rejected or row["item"] == "t1"]
    for plain in load(rows, engines=BOTH).values():
        asked = statements_of_readings(plain)
        found = by_one_scan(plain).read("tickets", source(segments=segments), WEEK, now=NOW, fingerprint=True)
        assert bool(found.rejected) is rejected
        assert len(asked) == 2
        asked.clear()
        plain.read("tickets", source(segments=segments), WEEK, now=NOW, fingerprint=True)
        more = (2 if rejected else 1) if segments else 0  # the values of the crowded one are counted once more
        assert len(asked) == 2 + 1 + more + rejected


def test_values_of_rejected_rows_do_not_crowd_a_segment(load: Loader) -> None:
    week = {"resolved_at": WEEK.start, "score": 0.9, "actual": 1.0, "label": "billing"}
    rows = [{"item": f"t{n}", "message": f"m{n}", **week, **({"score": 7.0} if n == 0 else {})} for n in range(201)]
    for plain in load(rows).values():
        ways = [plain, by_one_scan(plain)] if plain._dialect.grouping_sets else [plain]
        for warehouse in ways:
            found = warehouse.read("tickets", source(segments=("message",)), WEEK, now=NOW)
            assert len({value for _, value in found.segments}) == 200
            assert [quality.reason for quality in found.quality] == ["score_out_of_range"]


@pytest.mark.parametrize("versions", [3, 300])
def test_versions_are_counted_where_they_are_a_segment_too(load: Loader, versions: int) -> None:
    rows = [row | {"model_version": f"v{n % versions}"}
            for n, row in enumerate(some_rows(2, weights=False, repeats=False))]  # fmt: skip
    (plain,) = load(rows, engines=("duckdb",)).values()
    ours, theirs = (
        each.read("tickets", source(segments=("model_version",)), WEEK, now=NOW) for each in (by_one_scan(plain), plain)
    )
    assert facts(ours) == facts(theirs)
    assert len(ours.versions) > 2
    assert (len(ours.segments) == 0) is (versions == 300)


def test_an_empty_window_has_no_counts(load: Loader) -> None:
    (plain,) = load([row | {"resolved_at": WEEK.end} for row in some_rows(1, weights=False, repeats=False)],
                    engines=("duckdb",)).values()  # fmt: skip
    found = by_one_scan(plain).read("tickets", source(segments=("channel",)), WEEK, now=WEEK.end)
    assert (found.rows, dict(found.labels), found.rejected, found.quality) == (0, {}, (), ())


@pytest.mark.parametrize(
    ("address", "few", "usual"),
    [
        ("duckdb:///warehouse.duckdb", "always", "never"),
        ("postgresql://monitor@host/database", "always", "never"),
        ("clickhouse://monitor:unused@host:8123/database", "always", "never"),
        ("spark://host:15002/tickets", "always", "of clusters"),
        ("trino://monitor@host:8080/catalog", "always", "always"),
    ],
)
def test_the_setting_chooses_the_fewest_scans_and_changes_no_other_warehouse(
    address: str, few: str, usual: str
) -> None:
    for scans, expected in (("fewest", few), ("quickest", usual), (None, usual)):
        given = {"CALMON_WAREHOUSE_URL": address} | ({} if scans is None else {"CALMON_WAREHOUSE_SCANS": scans})
        assert warehouse_of(load_settings(given), frozenset())._dialect.few_scans == expected


def test_an_engine_without_grouping_sets_cannot_be_read_by_the_fewest_scans() -> None:
    settings = load_settings({"CALMON_WAREHOUSE_URL": "sqlite:///tickets.sqlite", "CALMON_WAREHOUSE_SCANS": "fewest"})
    with pytest.raises(WrongWarehouseAddress, match="CALMON_WAREHOUSE_SCANS cannot be fewest: sqlite has no GROUPING"):
        warehouse_of(settings, frozenset())
