"""How the stages of a run are performed, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from monitor.context import Monitor
from monitor.core.windows import week
from monitor.run import Run, Stage, _why, perform

MONITOR = cast("Monitor", None)
DUE = Run(week("2026-W02", ZoneInfo("UTC")), ("tickets",))


def begin(_: Monitor, run: Run) -> Run:
    return replace(run, name="run 1")


def act(_: Monitor, run: Run) -> Run:
    assert run.name == "run 1"
    return replace(run, ended=True)


def broken(_: Monitor, run: Run) -> Run:
    raise KeyboardInterrupt


def test_each_stage_is_given_what_the_one_before_returned() -> None:
    assert perform(MONITOR, DUE, (begin, act)).ended


@pytest.mark.parametrize(
    ("stages", "noted"),
    [((broken,), [("", False)]), ((begin, broken), [("run 1", False)]), ((begin, act, broken), [("run 1", True)])],
)
def test_an_error_ends_the_run_and_is_noted_with_what_was_done(
    stages: tuple[Stage, ...], noted: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("monitor.run.note_failure", lambda _, run, __: seen.append((run.name, run.ended)))
    with pytest.raises(KeyboardInterrupt):
        perform(MONITOR, DUE, stages)
    assert seen == noted


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError("wrong"), "ZeroDivisionError: wrong"),
        (ValueError(), "ValueError"),
        (KeyboardInterrupt(), "it was cancelled or ended from outside (KeyboardInterrupt)"),
    ],
)
def test_what_ends_a_run_is_said_also_where_the_error_says_nothing(error: BaseException, words: str) -> None:
    assert _why(error) == words
