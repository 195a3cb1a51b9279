"""How the stages of a run are performed, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from monitor.run import RunResult, Stage, StageName, Stages, _why, perform

NOTHING = RunResult({}, (), ())


def two_stages(seen: list[object]) -> Stages:
    """Begins, and reads what beginning gave; an error of either is noted."""

    @contextmanager
    def noted() -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            seen.append(repr(error))
            raise

    with noted():
        run = yield Stage(StageName.BEGIN, lambda: "run 1")
        seen.append(run)
        yield Stage(StageName.READ, lambda: seen.append(f"read {run}"))
    return NOTHING


def test_each_stage_is_given_the_result_of_the_one_before() -> None:
    seen: list[object] = []
    assert perform(two_stages(seen)) is NOTHING
    assert seen == ["run 1", "read run 1"]


@pytest.mark.parametrize("error", [ZeroDivisionError("wrong"), KeyboardInterrupt()])
def test_an_error_of_a_stage_reaches_the_stages_and_ends_the_run(error: BaseException) -> None:
    seen: list[object] = []

    def do(stage: Stage) -> Any:
        if stage.name is StageName.READ:
            raise error
        return stage.work()

    with pytest.raises(type(error)) as raised:
        perform(two_stages(seen), do)
    assert raised.value is error
    assert seen == ["run 1", repr(error)]


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
