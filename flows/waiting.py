"""Runs that were due and have not begun: read from the Prefect server, and noted for ``calmon health``."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType

from monitor.alerting.health.issues import WAITING_NOTE
from monitor.core.records import Note
from monitor.history.store import Store

log = logging.getLogger(__name__)

FLOWS = ("calmon-weekly", "calmon-daily", "calmon-watchdog", "calmon-drain")
PATIENCE = timedelta(hours=1)
"""How late a run may begin without a note: the runs of a backlog wait for each other."""
MOST = 20


def note_waiting_runs(store: Store, now: datetime) -> None:
    """Store a note of the runs that have waited too long. If the Prefect server does not answer, only log that."""
    try:
        runs = waiting_runs(now)
    except Exception as error:  # noqa: BLE001 - the client may raise anything; the watchdog continues without it
        log.warning("the Prefect server does not say which runs wait: %s", type(error).__name__)
        return
    store.put_note(Note(WAITING_NOTE, now, {"runs": runs}))


def waiting_runs(now: datetime) -> list[dict[str, str]]:
    """Flow, due time and state of each run that was due more than an hour ago and has not begun, the oldest first."""
    run_filter = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED, StateType.PENDING])),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=now - PATIENCE),
    )
    names = {}
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=list(FLOWS))), flow_run_filter=run_filter, limit=MOST
        )
        for id in {run.flow_id for run in found}:
            names[id] = client.read_flow(id).name
    return [
        {"flow": names[run.flow_id], "due": f"{_due(run):%Y-%m-%d %H:%M}", "state": str(run.state_name)}
        for run in sorted(found, key=_due)
    ]


def _due(run: Any) -> datetime:
    due: datetime = run.expected_start_time
    return due
