"""Draw the items of a week that people check, on demand or by a schedule of its owner (docs/audit.md)."""

from __future__ import annotations

from pathlib import Path

from prefect import flow, get_run_logger, task

from flows.hooks import report_run_failed
from flows.stages import IO, opened
from monitor.context import Monitor
from monitor.core.files import write_whole
from monitor.core.redaction import secrets_hidden
from monitor.core.windows import last_ready, week
from monitor.operations.audit import draw, sheet_of
from monitor.warehouse.audit_table import add_drawn


@task(name="draw", timeout_seconds=1800, **IO)
@secrets_hidden()
def draw_to(
    monitor: Monitor, source: str, out: str | None, table: str | None, of_week: str | None, fall: float, weeks: int,
    each: int | None, seed: str,
) -> int:  # fmt: skip
    """Draw the items of the week (default: the last ready one) into a file or a table; returns how many."""
    zone = monitor.config.zone
    window = week(of_week, zone) if of_week else last_ready("weekly", monitor.clock(), zone)
    drawn = draw(monitor, source, window, fall, weeks=weeks, each=each, seed=seed)
    if out is not None:
        write_whole(Path(out), sheet_of(drawn, window))
    if table is not None:
        add_drawn(monitor.settings, table, drawn, window)
    places = " and ".join(filter(None, (out, table)))
    get_run_logger().info("%d items of %s written to %s", len(drawn), window.name, places)
    return len(drawn)


@flow(
    name="calmon-audit",
    timeout_seconds=3600,
    on_failure=[report_run_failed],
    on_crashed=[report_run_failed],
    description="Draw the items of a week that people check, and write their ids to a CSV file or a table.",
)
def draw_audit(
    source: str,
    out: str | None = None,
    week: str | None = None,
    each: int | None = None,
    fall: float = 0.05,
    weeks: int = 4,
    seed: str = "audit",
    table: str | None = None,
) -> int:
    """Draw as many items of each label as a plan for ``fall`` and ``weeks`` says, or ``each``; returns how many.

    They go into the file ``out``, the ``table`` in the database of CALMON_AUDIT_URL, or both.
    """
    if out is None and table is None:
        raise ValueError("say where the items go: out (a CSV file) or table")
    with opened() as monitor:
        return draw_to(monitor, source, out, table, week, fall, weeks, each, seed)
