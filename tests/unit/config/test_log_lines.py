"""The log as text and as JSON: date, level, what a line is about, and whose lines are left out."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable

import pytest

from monitor.config.log_handler import handler
from monitor.core.log_lines import about

Say = Callable[..., str]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Log a line by the handler of this environment, as if a file had logged it; what was written."""

    def line(text: str, *given: object, level: int = logging.INFO, path: str = "/app/flows/weekly.py") -> str:
        written = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", written)
            made = handler(usual=logging.INFO)
            record = logging.LogRecord("flows.weekly", level, path, 1, text, given, None)
            record.created = 1_794_810_604.5  # 2026-11-16 06:30:04.5 UTC
            if record.levelno >= made.level:
                made.handle(record)
        return written.getvalue()

    return line


def test_a_line_has_its_date_and_what_it_is_about(say: Say) -> None:
    with about(run="weekly-1", schedule="weekly", window="2026-W46", source="tickets"), about(incident=""):
        assert say("%d breaches", 2) == "2026-11-16 06:30:04 INFO 2026-W46 tickets: 2 breaches\n"
    assert say("nothing") == "2026-11-16 06:30:04 INFO flows.weekly: nothing\n"


def test_as_json_each_line_is_one_object_with_run_window_source_and_incident(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALMON_LOG", "json")
    with about(run="weekly-1", schedule="weekly", window="2026-W46", source="tickets"), about(incident="i1"):
        written = say("two\nlines", level=logging.WARNING)
    assert json.loads(written) == {
        "at": "2026-11-16T06:30:04.500+00:00", "level": "warning", "logger": "flows.weekly", "message": "two\nlines",
        "run": "weekly-1", "schedule": "weekly", "window": "2026-W46", "source": "tickets", "incident": "i1",
    }  # fmt: skip
    assert written.count("\n") == 1


def test_what_prefect_says_of_itself_is_left_out_below_a_warning(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = "/venv/lib/python3.12/site-packages/prefect/flow_engine.py"
    assert say("Beginning flow run 'meek-puma'", path=engine) == ""
    assert "crashed" in say("crashed", path=engine, level=logging.ERROR)
    monkeypatch.setenv("CALMON_LOG_LEVEL", "error")
    assert say("late", level=logging.WARNING) == ""
    monkeypatch.setenv("CALMON_LOG_LEVEL", "debug")
    assert "reading" in say("reading", level=logging.DEBUG)
