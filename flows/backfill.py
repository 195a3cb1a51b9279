"""Many past windows, oldest first. Never switches and never sends."""

from __future__ import annotations

from uuid import UUID

from prefect import flow, get_run_logger
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from flows.hooks import report_run_failed
from flows.stages import NothingEvaluated, evaluate_window, opened, requested, scheduled_window
from monitor.core.records import Schedule
from monitor.core.windows import span


@flow(
    name="calmon-backfill",
    timeout_seconds=6 * 3600,
    on_failure=[report_run_failed],
    on_crashed=[report_run_failed],
    description="Evaluate many past windows, oldest first; never switches or sends.",
)
def backfill(first: str, last: str, schedule: Schedule = "weekly", sources: list[str] | None = None) -> dict[str, int]:
    """Evaluate the windows from ``first`` to ``last``; returns window name -> breaches found.

    A window of which no source could be read does not stop the others, but fails the flow at its end.
    """
    logger = get_run_logger()
    found: dict[str, int] = {}
    unread: list[str] = []
    with opened() as monitor:
        names = requested(monitor, sources)
        ends = (scheduled_window(monitor, schedule, first), scheduled_window(monitor, schedule, last))
        windows = span(*ends, monitor.config.zone)
        bar = create_progress_artifact(progress=0.0, key="calmon-backfill", description=f"{first} to {last}")
        for done, window in enumerate(windows, start=1):
            result = evaluate_window(monitor, window, names, "never")
            unread += [window.name] if all(part.problem for part in result.evaluated) else []
            found[window.name] = sum(v.outcome == "breach" for part in result.evaluated for v in part.verdicts)
            logger.info("%s: %d breaches", window.name, found[window.name])
            if isinstance(bar, UUID):
                update_progress_artifact(artifact_id=bar, progress=100.0 * done / len(windows))
    if unread:
        raise NothingEvaluated(f"no source could be read for {', '.join(unread)}")
    return found
