"""What PostgreSQL sends in its binary form is what it sends as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.records import Window
from monitor.warehouse.dialects import Arrays
from monitor.warehouse.postgresql import BINARY, PostgreSQL
from monitor.warehouse.reader import Reading, Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK, BEFORE = (windows.week(name, ZoneInfo("Europe/Berlin")) for name in ("2026-W46", "2026-W45"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
LABELS = ("access", "büro", "☎ phone", "it's")
LOADED_ALIKE = {"int2", "int4", "int8", "float8", "text", "varchar", "numeric"}
"""Types whose values psycopg gives alike, however they were sent."""


def rows(number: int = 240) -> list[dict[str, Any]]:
    """Items of four labels in two weeks: rows to be set aside, repeats, dates at infinity, scores that are odd."""
    rng = np.random.default_rng(3)
    found = []
    for n in range(number):
        week = (WEEK, BEFORE)[n % 2]
        for label in LABELS:
            score = float(rng.random() ** 3)
            row = {
                "item": f"t{n}", "label": label, "score": score, "actual": float(rng.random() < score),
                "resolved_at": week.start + timedelta(minutes=n, microseconds=n), "predicted_at": week.start,
                "channel": ("web", "mail", None)[n % 3], "model_version": f"v{n % 2}", "cluster": f"c{n // 3}",
                "weight": 1 + n % 3 / 7, "predicted": n % 2,
            }  # fmt: skip
            found.append(row)
    found += [row | {"score": score} for row, score in zip(found[::9], (None, float("nan"), 1.5, -1.0), strict=False)]
    found += [row | {"resolved_at": None} for row in found[:3]]
    return found + [row | {"actual": None} for row in found[5:8]] + found[20:23]


ODD_TYPES = (
    "CREATE TYPE mood AS ENUM ('access', 'büro', '☎ phone', 'it''s')",
    "CREATE DOMAIN share AS numeric(30, 20)",
    "CREATE TABLE odd (item uuid, label mood, score share, actual boolean, resolved_at timestamptz, channel char(9), "
    "model_version varchar(20), cluster bigint, weight real, predicted smallint)",
    "INSERT INTO odd SELECT md5(item)::uuid, label::mood, score::numeric, actual <> 0, resolved_at, channel, "
    "model_version, substr(cluster, 2)::bigint, weight, predicted FROM resolved_tickets "
    "WHERE score <> 'NaN' OR score IS NULL",
    "INSERT INTO odd SELECT item, label, score, actual, 'infinity' FROM odd LIMIT 3",
    "INSERT INTO odd SELECT item, label, 'NaN', actual, resolved_at FROM odd LIMIT 4",
)


def source(**settings: Any) -> SourceConfig:
    return SourceConfig(**{"relation": "resolved_tickets", "score_is": "probability_of_label"} | settings)


def read(warehouse: Warehouse, config: SourceConfig, window: Window = WEEK) -> Reading:
    return warehouse.read("tickets", config, window, now=NOW)


SOURCES = {
    "rows": source(),
    "segments": source(segments=["channel", "model_version"], automate_at=0.8),
    "ranks": source(kind="top_k", columns={"weight": "weight"}),
    "whole rows": source(kind="multiclass"),
    "numbers": source(kind="regression", columns={"predicted": "score", "deviation": "weight"}),
    "predicted": source(window_on="predicted_at", unresolved=True),
    "odd types": source(relation="odd", segments=["channel"]),
    "a query": source(relation="SELECT item, label, score, actual, resolved_at FROM resolved_tickets"),
}


def test_only_types_that_are_loaded_alike_are_asked_for_in_binary(
    load_once: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = load_once(rows(), then=ODD_TYPES, engines=("postgresql",))["postgresql"]
    seen = set()
    arrays = PostgreSQL.arrays

    def noted(self: PostgreSQL, connection: sa.Connection, statement: sa.Executable) -> Arrays:
        cursor = connection.execute(statement, execution_options={BINARY: True}).cursor
        assert cursor.format == 1
        seen.update(column[1] for column in cursor.description)
        return arrays(self, connection, statement)

    monkeypatch.setattr(PostgreSQL, "arrays", noted)
    for config in SOURCES.values():
        read(warehouse, config)
    with warehouse._session("") as connection:
        names = sa.text("SELECT typname FROM pg_type WHERE oid = ANY(:oids)").bindparams(oids=sorted(seen))
        assert set(connection.execute(names).scalars()) <= LOADED_ALIKE
