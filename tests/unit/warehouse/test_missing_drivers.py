"""An address whose driver is an extra that is not installed: what to install is said, before anything is read."""

from __future__ import annotations

import sys

import pytest

from monitor.warehouse.engines import ENGINES
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.relation import WrongWarehouseAddress

EXTRAS = {kind: engine.extra for kind, engine in ENGINES.items() if engine.extra is not None}
DRIVERS = (
    "chdb", "clickhouse_connect", "databricks", "google", "pyspark", "redshift_connector", "snowflake",
    "sqlalchemy_bigquery", "sqlalchemy_redshift", "trino",
)  # fmt: skip
OURS_OF_SPARK = "monitor.warehouse.spark_driver"


def as_if_not_installed(monkeypatch: pytest.MonkeyPatch, *drivers: str) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] in drivers] + list(drivers):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, OURS_OF_SPARK, raising=False)  # which imports its driver when it is imported
    monkeypatch.delattr(OURS_OF_SPARK, raising=False)


def test_every_engine_beyond_the_base_is_an_extra() -> None:
    assert sorted(set(ENGINES) - set(EXTRAS)) == ["duckdb", "postgresql", "sqlite"]


@pytest.mark.parametrize(("kind", "extra"), sorted(EXTRAS.items()))
def test_a_driver_that_is_not_installed_is_named_with_what_to_install(
    kind: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_not_installed(monkeypatch, *DRIVERS)
    warehouse = Warehouse.from_url(f"{kind}://someone:secret@host/database")
    with pytest.raises(WrongWarehouseAddress) as refused:
        warehouse.ping()
    assert str(refused.value).startswith(f"CALMON_WAREHOUSE_URL is of kind {kind}, whose driver is")
    assert str(refused.value).endswith(f"pip install 'calibration-monitor[{extra}]'")
    assert "secret" not in str(refused.value)
