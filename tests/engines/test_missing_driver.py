"""Databricks' dialect is here and Spark's own driver is not: what to install is said, as for any other driver."""

from __future__ import annotations

import sys

import pytest

from monitor.warehouse.reader import Warehouse
from monitor.warehouse.relation import WrongWarehouseAddress


def test_spark_without_pyspark_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(WrongWarehouseAddress, match=r"kind spark, whose driver is not installed.*\[spark\]'$"):
        Warehouse.from_url("spark://host/database").ping()
