"""A role or database of PostgreSQL that writes dates in another style: the warehouse and the history are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.history.connect import open_engine, store_url
from monitor.operations.describe_source import data_in_words
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.statements import ExampleQuery
from tests.conftest import fill_postgresql

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
INSIDE = WEEK.start + timedelta(days=2, hours=3)
ROWS = [
    {"item": f"t{n}", "label": "refund", "score": 0.9, "actual": 0.0, "resolved_at": INSIDE if n else None}
    for n in range(3)
]
STYLES = ("German", "SQL, DMY", "Postgres, MDY")


@contextmanager
def styled(url: str, style: str) -> Iterator[str]:
    """The address of a database that writes dates in this style, with a limit of memory in the address."""
    address = sa.make_url(url).set(drivername="postgresql")
    with psycopg.connect(address.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{address.database}" SET datestyle = {style}'.encode())
    yield address.update_query_dict({"options": "-c work_mem=9MB"}).render_as_string(hide_password=False)


def setting(engine: sa.Engine, name: str) -> Any:
    with engine.connect() as connection:
        return connection.exec_driver_sql(f"SHOW {name}").scalar_one()


@pytest.mark.parametrize("style", STYLES)
def test_the_warehouse_is_read_whatever_the_style_of_its_dates(fresh_postgres_url: str, style: str) -> None:
    fill_postgresql(fresh_postgres_url, ROWS, {}, "resolved_tickets", ())
    source = SourceConfig(relation="resolved_tickets", score_is="probability_of_label")
    with styled(fresh_postgres_url, style) as url, Warehouse.from_url(url) as warehouse:
        assert warehouse.read("tickets", source, WEEK, now=NOW).rows == 2
        words = "3 rows, 1 label, from 2026-11-11 to 2026-11-11, dates with a time zone"
        assert data_in_words(warehouse.survey("tickets", source)) == words
        rows = warehouse.examples("tickets", source, WEEK, ExampleQuery(), now=NOW)
        assert {row.resolved_at for row in rows} == {INSIDE}
        assert setting(warehouse._engine, "work_mem") == "9MB"


@pytest.mark.parametrize("style", STYLES)
def test_the_history_reads_its_moments_whatever_the_style_of_its_dates(fresh_postgres_url: str, style: str) -> None:
    with styled(fresh_postgres_url, style) as url:
        engine = open_engine(store_url(url))
        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT CAST(:now AS timestamptz)"), {"now": NOW}).scalar_one() == NOW
            connection.rollback()  # the style stays after it
            assert connection.execute(sa.select(sa.func.now())).scalar_one().tzinfo is not None
        assert setting(engine, "work_mem") == "9MB"
        engine.dispose()
