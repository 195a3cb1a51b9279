"""What commands print of names: no text from outside moves the cursor, reorders a line or becomes an emoji."""

from __future__ import annotations

import importlib
import io

import pytest
import typer
from rich.text import Text
from slack_sdk.web.base_client import BaseClient

from monitor.alerting.slack import limited_client
from monitor.cli import common
from monitor.cli.checks import CheckResult, print_findings
from monitor.report.console import PlainConsole

HOSTILE = "\x1b[31mred\x1b[0m \u202egnp.exe :fire: \x07"


@pytest.mark.parametrize("given", [HOSTILE, Text(HOSTILE)])
def test_a_hostile_name_is_printed_as_plain_text(given: str | Text) -> None:
    out = io.StringIO()
    PlainConsole(file=out, width=100).print(given, markup=False)
    assert out.getvalue().strip() == "[31mred[0m gnp.exe :fire:"


def test_too_little_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    # not the property: undoing that would keep the stream of this test for all that follow
    monkeypatch.setattr(common.err, "_file", out)
    with pytest.raises(typer.Exit) as ended, common.plain_errors():
        raise MemoryError
    assert ended.value.exit_code == common.FAILED
    assert out.getvalue().startswith("error: too little free memory")
    assert out.getvalue().count("\n") == 1


def test_a_slack_sdk_without_the_methods_that_are_limited_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(BaseClient, "_upload_file")
    with pytest.raises(ImportError, match="no _upload_file, without which a call has no time limit"):
        importlib.reload(limited_client)


def test_what_was_checked_is_printed_without_characters_that_steer(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings([CheckResult("source \u202egnp", "ok", "rows of \x1b[31mred\u202e")])
    said = capsys.readouterr().out
    assert "source gnp" in said
    assert [character for character in said if character in "\u202e\x1b"] == []
