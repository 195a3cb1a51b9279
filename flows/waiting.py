"""Runs that were due and have not begun: evaluations are noted for ``calmon health``, late looks are dropped."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
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
from prefect.exceptions import PrefectHTTPStatusError
from prefect.states import Cancelled

from monitor.alerting.health.issues import WAITING_NOTE
from monitor.core.records import Note
from monitor.history.store import Store

log = logging.getLogger(__name__)

EVALUATIONS = ("calmon-weekly", "calmon-daily")
LOOKS = ("calmon-watchdog", "calmon-drain")
"""Flows that look at the present: of their late runs none is of use, since the next is due within minutes."""
PATIENCE = timedelta(hours=1)
"""How late a run may begin without a note: the runs of a backlog wait for each other."""
MOST = 20
MANY, ROUNDS = 200, 20
"""How many the server names at once, and how often it is asked: what gathers in ten days without a worker."""
LATE = timedelta(minutes=2)


def note_waiting_runs(store: Store, now: datetime, *, may_wait: bool = False) -> None:
    """Store a note of the runs that have waited too long. If the Prefect server does not answer, only log that.

    With ``may_wait`` none has: the scheduler has just been started again.
    """
    try:
        drop_late_looks(now)
        runs = [] if may_wait else waiting_runs(now)
    except Exception as error:  # noqa: BLE001 - the client may raise anything; the watchdog continues without it
        log.warning("the Prefect server does not say which runs wait: %s", type(error).__name__)
        return
    store.put_note(Note(WAITING_NOTE, now, {"runs": runs}))


def waiting_runs(now: datetime) -> list[dict[str, str]]:
    """Flow, due time and state of each run that was due more than an hour ago and has not begun, the oldest first."""
    names = {}
    with get_client(sync_client=True) as client:
        states = [StateType.SCHEDULED, StateType.PENDING]
        found = client.read_flow_runs(**_due_before(now - PATIENCE, EVALUATIONS, states), limit=MOST)
        for id in {run.flow_id for run in found}:
            names[id] = client.read_flow(id).name
    return [
        {"flow": names[run.flow_id], "due": f"{_due(run):%Y-%m-%d %H:%M}", "state": str(run.state_name)}
        for run in sorted(found, key=_due)
    ]


def drop_late_looks(now: datetime) -> int:
    """Cancel the late runs of the drain and the watchdog, so that evaluations do not wait behind them; how many.

    Of one that its server refuses to change now the next look sees to.
    """
    dropped = 0
    with get_client(sync_client=True) as client:
        for _ in range(ROUNDS):
            found = client.read_flow_runs(**_due_before(now - LATE, LOOKS, [StateType.SCHEDULED]), limit=MANY)
            for run in found:
                with suppress(PrefectHTTPStatusError):  # SQLite is locked while the server marks runs as late
                    client.set_flow_run_state(run.id, Cancelled(message="late: the next look is of the present"))
                    dropped += 1
            if len(found) < MANY:
                break
    return dropped


def is_coming(flow: str, since: datetime, now: datetime) -> bool:
    """Whether a run of an evaluation that was due from ``since`` on is going on or about to begin."""
    with get_client(sync_client=True) as client:
        states = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING]
        return bool(client.read_flow_runs(**_due_before(now, [flow], states, since), limit=1))


def _due_before(
    at: datetime, flows: Sequence[str], states: list[StateType], since: datetime | None = None
) -> dict[str, Any]:
    """The filters of these flows' runs that were due before ``at`` and are in such a state."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=states))
    due = FlowRunFilterExpectedStartTime(before_=at, after_=since)
    return {
        "flow_filter": FlowFilter(name=FlowFilterName(any_=list(flows))),
        "flow_run_filter": FlowRunFilter(state=state, expected_start_time=due),
    }


def _due(run: Any) -> datetime:
    due: datetime = run.expected_start_time
    return due
