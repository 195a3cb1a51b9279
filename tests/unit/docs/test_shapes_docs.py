"""The examples of docs/shapes.md are true: each configuration reads its tables as the long form beside it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest

from monitor.config.load import parse_config
from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse.reader import Reading, Warehouse
from tests.unit.docs.test_rules_docs import MINIMAL, sections

PAGE = Path(__file__).parents[3] / "docs" / "shapes.md"
EXAMPLES = {
    heading: re.findall(r"^```(yaml|csv [\w ]+)\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    for heading, body in sections(PAGE.read_text("utf-8")).items()
}
WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)


def reading(warehouse: Path, source: SourceConfig) -> Reading:
    with Warehouse.from_url(f"duckdb:///{warehouse}", relations=source.relations) as opened:
        return opened.read("example", source, WEEK, now=NOW)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_a_table_of_the_page_is_read_as_the_long_form_beside_it(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = EXAMPLES[heading]
    tables = {kind.removeprefix("csv ").replace(" ", "_"): text for kind, text in blocks if kind != "yaml"}
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
        with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{tmp_path / name}.csv')")
    (text,) = (text for kind, text in blocks if kind == "yaml")
    config = parse_config(text + "".join(part for key, part in MINIMAL.items() if key != "sources"))
    (source,) = config.sources.values()
    plain = SourceConfig(relation="long_form", score_is=source.score_is)
    found, expected = (reading(tmp_path / "warehouse.duckdb", each) for each in (source, plain))
    assert expected.rows > 0
    assert {label: counts.digest() for label, counts in found.labels.items()} == {
        label: counts.digest() for label, counts in expected.labels.items()
    }
    assert [(each.reason, each.rows) for each in found.quality] == [(e.reason, e.rows) for e in expected.quality]
