"""The rows behind a finding, from DuckDB, SQLite and PostgreSQL, against plain Python on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from sqlalchemy.dialects import postgresql

from monitor.config.model import SourceConfig
from monitor.config.relation import parse_relation
from monitor.core import windows
from monitor.warehouse.checks import Column, Layout
from monitor.warehouse.postgresql import PostgreSQL
from monitor.warehouse.reader import Warehouse, WarehouseTimeout
from monitor.warehouse.relation import from_clause
from monitor.warehouse.statements import ExampleQuery, ExampleRow, Statements
from tests.conftest import ENGINES, Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
INSIDE = WEEK.start + timedelta(days=1, seconds=5, microseconds=250_000)
HOSTILE = "'; DROP TABLE resolved_tickets; --"


def source(**settings: Any) -> SourceConfig:
    plain = {"relation": "resolved_tickets", "score_is": "probability_of_label", "segments": ("channel",)}
    return SourceConfig(**plain | settings)


def row(item: str, score: float, actual: float, **more: Any) -> dict[str, Any]:
    plain = {
        "item": item,
        "label": "billing",
        "score": score,
        "actual": actual,
        "resolved_at": INSIDE,
        "channel": "web",
    }
    return plain | {"predicted": int(score >= 0.5)} | more


def rows(n: int = 300) -> list[dict[str, Any]]:
    """Scores in steps, so that there are ties; some decisions against the score, some soft truths."""
    rng = np.random.default_rng(11)
    return [
        row(
            f"t{k}", float(round(rng.random(), 1)), float(rng.choice([0, 0, 1, 1, 0.3, 0.5])),
            label=str(rng.choice(["billing", HOSTILE])), predicted=int(rng.random() < 0.5),
            channel=str(rng.choice(["web", "fax"])),
        )
        for k in range(n)
    ]  # fmt: skip


def expected(given: Sequence[Mapping[str, Any]], wanted: ExampleQuery, *, by_decision: bool) -> list[str]:
    """The items by plain Python: ``by_decision``, a low score is a confident decision against the label."""

    def agreed(r: Mapping[str, Any]) -> float:
        return float(r["actual"] if r["predicted"] else 1 - r["actual"])

    def confidence(r: Mapping[str, Any]) -> float:
        return float(r["score"] if r["predicted"] or not by_decision else 1 - r["score"])

    fitting = [
        r for r in given
        if (agreed(r) >= 0.5) == wanted.right and wanted.least <= r["score"] <= wanted.most
        and wanted.label in (None, r["label"])
    ]  # fmt: skip
    ordered = sorted(fitting, key=lambda r: (-confidence(r), r["item"].encode(), r["label"].encode()))
    return [r["item"] for r in ordered[: wanted.limit]]


def found_by(
    warehouses: Mapping[str, Warehouse], config: SourceConfig, wanted: ExampleQuery
) -> dict[str, list[ExampleRow]]:
    return {name: w.examples("tickets", config, WEEK, wanted, now=NOW) for name, w in warehouses.items()}


@pytest.mark.parametrize("score_is", ["probability_of_label", "confidence_in_prediction"])
def test_the_most_confident_errors_of_a_label_come_first_alike_in_every_engine(load: Loader, score_is: str) -> None:
    given = rows()
    warehouses = load(given)
    base = ExampleQuery("billing", limit=25)
    for wanted in (
        base,
        replace(base, least=0.9),
        replace(base, most=0.1),
        replace(base, right=True),
        ExampleQuery(HOSTILE, least=0.2, most=0.8, limit=1000),
        ExampleQuery(None, limit=40),
    ):
        items = expected(given, wanted, by_decision=score_is == "probability_of_label")
        assert items
        for engine, found in found_by(warehouses, source(score_is=score_is), wanted).items():
            assert [one.item for one in found] == items, (engine, wanted)


def test_every_column_of_a_row_is_reported_as_it_is_in_the_warehouse(load: Loader) -> None:
    given = [row("t1", 0.97, 0.0), row("t2", 0.96, 0.0, channel=None), row("t3", 0.99, 1.0)]
    for engine, found in found_by(load(given), source(), ExampleQuery("billing")).items():
        assert found[0] == ExampleRow("t1", "billing", 0.97, 0.0, True, INSIDE, {"channel": "web"}), engine
        assert [(one.item, one.segments) for one in found[1:]] == [("t2", {"channel": "(none)"})], engine


def test_the_true_label_is_named_where_each_item_has_only_the_row_of_its_predicted_label(load: Loader) -> None:
    def item(name: str, true: str, at: datetime = INSIDE) -> dict[str, Any]:
        return {"item": name, "predicted_label": "billing", "true_label": true, "score": 0.9, "resolved_at": at}

    later = INSIDE + timedelta(hours=1)
    given = [item("right", "billing"), item("wrong", "refund"), item("twice", "fax"), item("twice", "other", later)]
    config = source(
        kind="single_label", score_is="confidence_in_prediction", columns={"confidence": "score"}, segments=()
    )
    for wanted, true in ((ExampleQuery("billing"), {"wrong": ("refund",), "twice": ("other",)}),
                         (ExampleQuery("billing", right=True), {"right": ("billing",)})):  # fmt: skip
        for engine, found in found_by(load(given), config, wanted).items():
            assert {one.item: one.true_labels for one in found} == true, engine


def test_only_rows_that_count_are_examples_and_of_repeated_ones_the_latest(load: Loader) -> None:
    later = INSIDE + timedelta(hours=1)
    given = [
        row("twice", 0.9, 1.0),
        row("twice", 0.9, 0.0, resolved_at=later),
        row("mended", 0.9, 0.0),
        row("mended", 0.9, 1.0, resolved_at=later),
        row("out of range", 1.7, 0.0, predicted=1),
        row("last week", 0.9, 0.0, resolved_at=WEEK.start - timedelta(seconds=1)),
    ]
    for engine, found in found_by(load(given), source(), ExampleQuery("billing")).items():
        assert [one.item for one in found] == ["twice"], engine
        assert found[0].resolved_at == later, engine


@pytest.mark.parametrize("type_", ["TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "DATE"])
@pytest.mark.parametrize("odd", ["infinity", "-infinity", "0044-03-15 BC", "12026-11-10"])
def test_a_row_whose_truth_has_a_date_that_python_does_not_have_counts_nowhere(
    load: Loader, odd: str, type_: str
) -> None:
    given = [row(f"t{k}", 0.9, 0.0, predicted_at=INSIDE) for k in range(3)]
    config = source(window_on="predicted_at", unresolved=True)
    for engine in (name for name in ENGINES if name in ("duckdb", "postgresql")):
        written = odd.replace("BC", "(BC)") if engine == "duckdb" else odd
        then = [f"UPDATE resolved_tickets SET resolved_at = '{written}' WHERE item <> 't0'"]
        warehouse = load(given, types={"resolved_at": type_}, then=then, engines=(engine,))[engine]
        (found,) = warehouse.examples("tickets", config, WEEK, ExampleQuery("billing"), now=NOW)
        assert found.item == "t0", engine
        reading = warehouse.read("tickets", config, WEEK, now=NOW)
        reason = "date_malformed" if odd in ("-infinity", "0044-03-15 BC") else "date_in_future"
        assert (reading.rows, [(each.reason, each.rows) for each in reading.quality]) == (1, [(reason, 2)]), engine
        delays = warehouse.delays("tickets", config, [WEEK], now=NOW)["billing"][0]
        assert (delays.items, delays.known) == (3, 1 if reason == "date_in_future" else 3), engine


@pytest.mark.parametrize("odd", ["-infinity", "0044-03-15 BC"])
def test_rows_of_no_time_at_all_are_counted_and_there_is_no_newest_row(load: Loader, odd: str) -> None:
    for engine in (name for name in ENGINES if name in ("duckdb", "postgresql")):
        written = odd.replace("BC", "(BC)") if engine == "duckdb" else odd
        then = [f"UPDATE resolved_tickets SET resolved_at = '{written}'"]
        warehouse = load([row("t1", 0.9, 0.0)], then=then, engines=(engine,))[engine]
        for near in (WEEK.start, NOW):
            assert warehouse.newest("tickets", source(), near=near, now=NOW) is None, engine
        reading = warehouse.read("tickets", source(), WEEK, now=NOW)
        assert [(each.reason, each.rows) for each in reading.quality] == [("date_malformed", 1)], engine


def test_of_a_multiclass_source_items_that_were_set_aside_whole_are_no_examples(load: Loader) -> None:
    given = [
        row("whole", 0.9, 0.0), row("whole", 0.1, 1.0, label="other"),
        row("no truth", 0.95, 0.0), row("no truth", 0.05, 0.0, label="other"),
    ]  # fmt: skip
    for engine, found in found_by(load(given), source(kind="multiclass"), ExampleQuery("billing")).items():
        assert [one.item for one in found] == ["whole"], engine


def test_a_source_of_numbers_has_no_wrong_decisions_and_says_so(load: Loader) -> None:
    warehouse = load([row("t1", 0.9, 0.0)], engines=("duckdb",))["duckdb"]
    with pytest.raises(ValueError, match="kind regression"):
        warehouse.examples("hours", source(kind="regression", segments=()), WEEK, ExampleQuery("billing"), now=NOW)


def test_what_was_asked_for_is_bound_and_never_part_of_the_statement() -> None:
    kinds = {"item": "text", "label": "text", "score": "number", "actual": "number", "resolved_at": "timestamptz"}
    layout = Layout(
        from_clause(parse_relation("resolved_tickets")),
        {name: Column(name, kind) for name, kind in kinds.items()},  # type: ignore[arg-type]
    )
    statements = Statements(source(segments=()), layout, PostgreSQL(), WEEK, NOW)
    wanted = ExampleQuery(HOSTILE, least=0.123456, most=0.654321, limit=17)
    compiled = replace(statements, latest=True).behind(wanted).compile(dialect=postgresql.dialect())
    assert {HOSTILE, 0.123456, 0.654321, 17} <= set(compiled.params.values())
    for told in ("DROP", "0.123456", "0.654321", "17"):
        assert told not in str(compiled)


def test_a_relation_that_takes_too_long_is_given_up(load: Loader) -> None:
    slow = (
        "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 2000000000) "
        "SELECT CAST(k AS TEXT) AS item, 'billing' AS label, 0.9 AS score, 0.0 AS actual, "
        f"'{INSIDE.isoformat()}' AS resolved_at, 'web' AS channel FROM n"
    )
    plain = load([row("t1", 0.9, 0.0)], engines=("sqlite",))["sqlite"]
    hasty = Warehouse(plain._url, plain._engine, plain._dialect, timeout_s=0.3)
    with pytest.raises(WarehouseTimeout, match=r"no answer within 0\.3 s"):
        hasty.examples("tickets", source(relation=slow), WEEK, ExampleQuery("billing"), now=NOW)
