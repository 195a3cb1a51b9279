from __future__ import annotations

import pytest
from typer.testing import CliRunner

from monitor.alerting.health.issues import WatchReason
from monitor.cli.common import app
from monitor.cli.docs import documents_named
from monitor.core import documents
from monitor.core.records import Reason

NAMED = [*(reason.value for reason in WatchReason), *(reason.value for reason in Reason), "bad-rows", "operations"]


@pytest.mark.parametrize("name", NAMED)
def test_a_document_that_a_message_names_is_one(name: str) -> None:
    found = documents_named(name, documents.titles())
    assert [each.rpartition("/")[2] for each in found] == [name]


def test_a_document_is_printed_whole_and_an_unknown_name_is_refused() -> None:
    assert (documents.text_of("switch") or "").strip() in CliRunner().invoke(app, ["docs", "docs/switch.md"]).output
    near, far = (CliRunner().invoke(app, ["docs", name]) for name in ("swich", "0815"))
    assert (near.exit_code, far.exit_code) == (2, 2)
    assert "no document is called swich; did you mean switch? `calmon docs` lists them" in near.stderr
    assert "no document is called 0815: `calmon docs` lists them" in far.stderr
