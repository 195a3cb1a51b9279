"""Replay other rules over the past, on as many processes as wanted. It changes and sends nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow, task, unmapped

from flows.hooks import report_run_failed
from flows.spread import Origin, opened_like, origin_of, task_runner
from flows.stages import IO, opened, scheduled_window
from monitor.config.load import load_config
from monitor.operations.replay.document import document
from monitor.operations.replay.plan import ReplayPlan, plan_of
from monitor.operations.replay.replay import JudgedWindow, judge_part, put_together

PIECE = 13
"""How many windows a task judges: with fewer, the windows before them are loaded more often."""


@task(name="replay", timeout_seconds=1800, **IO)
def judge(origin: Origin, plan: ReplayPlan) -> list[JudgedWindow]:
    """Judge the windows of the only part of a plan by both files."""
    (part,) = plan.parts
    with opened_like(origin, reads=False) as monitor:
        return list(judge_part(monitor.store, plan, part))


def pieces(plan: ReplayPlan) -> list[list[ReplayPlan]]:
    """For each part of a plan, plans of some of its windows."""
    return [
        [
            replace(plan, parts=(replace(part, windows=part.windows[start : start + PIECE]),))
            for start in range(0, len(part.windows), PIECE)
        ]
        for part in plan.parts
    ]


@flow(
    name="calmon-replay",
    timeout_seconds=6 * 3600,
    on_failure=[report_run_failed],
    on_crashed=[report_run_failed],
    description="What another rules file would have found in the past; changes and sends nothing.",
)
def replay(
    rules: str, weeks: int = 52, last: str | None = None, workers: int = 1, dask: str | None = None
) -> dict[str, Any]:
    """The document of ``calmon replay --json`` for the file ``rules``, over ``weeks`` weeks up to ``last``.

    ``workers`` processes of this machine do it, or those of the Dask scheduler at the address ``dask``.
    """
    with opened(creates=False) as monitor, task_runner(workers, dask) as runner:
        plan = plan_of(monitor.config, load_config(Path(rules)), scheduled_window(monitor, "weekly", last), weeks)
        plans = pieces(plan)
        origin = unmapped(origin_of(monitor))
        judged = [runner.map(judge, {"origin": origin, "plan": each}) for each in plans]  # type: ignore[arg-type]
        parts = [[window for piece in of_part.result() for window in piece] for of_part in judged]
    return document(put_together(plan, parts))
