"""Tables in a narrow terminal: texts are wrapped, and ids, which people copy, stay whole."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from monitor.report.console import plain_table

ID, LONG = "3f2a9b1c77d0e4aa", "overconfidence of automated rows above the limit"


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("name", ["id", "item", "verdict"])
def test_an_id_is_not_broken_while_another_column_can_be_narrower(width: int, name: str):
    table = plain_table("when", "source", "label", name, "why", "by")
    table.add_row("2026-11-16T07:00:00", "customer-tickets", "a-label-of-one-long-word", ID, LONG, "weekly-run")
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    shown = out.getvalue().splitlines()
    assert any(ID in line for line in shown)
    assert max(map(len, shown)) <= width
    assert "".join("".join(shown).split()).count("limit") == 1  # nothing is cut
