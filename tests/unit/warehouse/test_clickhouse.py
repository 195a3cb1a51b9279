"""What a session with ClickHouse may set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from monitor.warehouse.clickhouse import ClickHouse, takes_long


def settings(**readonly: int) -> dict[str, Any]:
    return {name: SimpleNamespace(name=name, value="50000", readonly=given) for name, given in readonly.items()}


LENGTHS = {"max_ast_elements": 0, "max_expanded_ast_elements": 0}


@pytest.mark.parametrize(
    ("given", "long"),
    [
        (LENGTHS, True),
        (LENGTHS | {"max_ast_elements": 1}, False),
        (LENGTHS | {"max_expanded_ast_elements": 1}, False),
        ({"max_ast_elements": 0}, False),
        ({}, False),
    ],
)
def test_all_is_asked_at_once_only_where_the_session_may_send_long_statements(
    given: dict[str, int], long: bool
) -> None:
    assert takes_long(settings(**given)) is long
    client = SimpleNamespace(server_settings=settings(**given, enable_materialized_cte=0))
    connection: Any = SimpleNamespace(connection=SimpleNamespace(driver_connection=SimpleNamespace(client=client)))
    found = ClickHouse().of(connection)
    assert (found.shares_rows, found.asks_at_once, found.few_scans) == (True, long, "beyond counts")
