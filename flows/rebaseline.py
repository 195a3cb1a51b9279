"""Pin a new baseline, on demand. Nothing pins one by itself."""

from __future__ import annotations

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact

from flows.hooks import report_run_failed
from flows.stages import IO, opened, tries_left
from monitor.context import Monitor
from monitor.core.redaction import secrets_hidden
from monitor.core.windows import week
from monitor.operations.pin_baseline import Pinned, default_span, pin


class NotAllPinned(Exception):
    """Some sources could not be read, and the message says why; the others are pinned."""


class NothingPinned(Exception):
    """Something changed in the weeks to be pinned, so nothing was pinned. The message says what."""


@task(name="pin", timeout_seconds=1800, **IO)
@secrets_hidden()
def pin_weeks(
    monitor: Monitor, first: str | None, last: str | None, label: str | None, reason: str, by: str, anyway: bool = False
) -> Pinned:
    """Read the weeks and pin them as a baseline; by default the last ready ones."""
    start, end = default_span(monitor.config, monitor.clock())
    start = week(first, monitor.config.zone) if first else start
    end = week(last, monitor.config.zone) if last else end
    return pin(monitor, start, end, by=by, reason=reason, label=label, try_again=tries_left(), anyway=anyway)


@flow(
    name="calmon-rebaseline",
    timeout_seconds=3600,
    on_failure=[report_run_failed],
    on_crashed=[report_run_failed],
    description="Pin a new baseline, with a reason; labels with too few pairs are refused.",
)
def rebaseline(
    reason: str,
    first: str | None = None,
    last: str | None = None,
    label: str | None = None,
    by: str = "prefect",
    anyway: bool = False,
) -> dict[str, list[str]]:
    """Pin the weeks ``first`` .. ``last`` (default: the last ready ones). Labels with too few pairs are refused.

    If a source cannot be read, the others are pinned and the flow fails at its end. If something changed in these
    weeks, nothing is pinned and the flow fails with the change as its message, unless ``anyway``.
    """
    logger = get_run_logger()
    with opened() as monitor:
        found = pin_weeks(monitor, first, last, label, reason, by, anyway)
    rows = [
        {
            "source": b.source,
            "label": b.label,
            "version": b.version,
            "pairs": b.counts.rows,
            "weeks": f"{b.first_window}..{b.last_window}",
        }
        for b in found.baselines
    ]
    create_table_artifact(key="calmon-baseline", table=rows, description=reason)
    for refused in found.refusals:
        logger.warning("refused %s", refused)
    for concern in found.concerns:
        logger.warning("%s", concern)
    inside = [concern for concern in found.concerns if concern.is_inside]
    if inside and not anyway:
        raise NothingPinned(f"{inside[0]} ({len(inside)} in all); choose other weeks, or anyway=true")
    if found.unread:
        raise NotAllPinned("; ".join(f"{source}: {error}" for source, error in found.unread.items()))
    return {
        "pinned": [f"{b.source}/{b.label} v{b.version}" for b in found.baselines],
        "refused": [str(r) for r in found.refusals],
    }
