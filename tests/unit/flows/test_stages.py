"""The stages of a run as Prefect tasks: which are tasks, for how long each may take, and what is tried again."""

from __future__ import annotations

from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from flows import stages
from monitor.core.records import Reason
from monitor.core.windows import week
from monitor.evaluation.evaluate import Evaluated
from monitor.run import STAGES, Run, heartbeat
from monitor.warehouse.reader import WarehouseFailed


def test_every_stage_but_the_heartbeat_is_a_task_with_its_name_time_out_and_retries() -> None:
    found = {stage.__name__: (task.name, task.timeout_seconds, task.retries) for stage, task in stages.TASKS.items()}
    assert found == {
        "begin": ("begin", 120, 3),
        "read": ("read", 2700, 3),
        "judge": ("judge", 1800, 3),
        "act": ("act", 600, 3),
        "publish": ("publish", 600, 3),
    }
    assert {task.retry_condition_fn for task in stages.TASKS.values()} == {stages.only_io}
    assert {*STAGES} - {*stages.TASKS} == {heartbeat}
    assert [*stages.PUBLISHED] == [*stages.TASKS, heartbeat]
    assert (stages.reach.timeout_seconds, stages.reach.retries) == (120, 3)
    assert (stages.ask.timeout_seconds, stages.ask.retries, stages.ask.retry_condition_fn) == (120, 3, stages.only_io)


@pytest.mark.parametrize(
    ("problems", "failed"),
    [((None, None), []), ((Reason.WAREHOUSE_FAILED, None), []), ((Reason.RELATION_ERROR,) * 2, ["a", "b"])],
)
def test_the_history_is_asked_no_more_after_a_run_that_has_judged_a_source(
    problems: tuple[Reason | None, ...], failed: list[str]
) -> None:
    window = week("2026-W02", ZoneInfo("UTC"))
    parts = [Evaluated(name, window, (), (), (), (), problem=each) for name, each in zip("ab", problems, strict=True)]
    assert stages.unread(Run(window, ("a", "b"), evaluated=tuple(parts))) == failed


@pytest.mark.parametrize(
    ("error", "again"),
    [(WarehouseFailed("no answer"), True), (OSError(), True), (TimeoutError(), False), (ValueError(), False)],
)
def test_only_what_is_outside_and_answered_in_time_is_tried_again(error: Exception, again: bool) -> None:
    assert stages.only_io(None, None, SimpleNamespace(data=error)) is again
