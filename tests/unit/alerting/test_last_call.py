"""When people were last called in a thread: reminders count from then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.slack.blocks import metadata
from monitor.alerting.slack.message import last_call
from monitor.core.records import Delivery, DeliveryState

MORNING = datetime(2026, 10, 2, 6, tzinfo=UTC)


def reminder(state: DeliveryState = "sent", *, waited: timedelta = timedelta(seconds=2)) -> Delivery:
    return Delivery(
        "reminder", "incidents", "#ml-oncall", {"metadata": metadata("reminder", "repeat")}, MORNING, state,
        operation="reply", root="post", sent_at=MORNING + waited,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("thread", "last"),
    [
        ([], timedelta(days=-1)),
        ([reminder()], timedelta(0)),
        ([reminder(waited=timedelta(minutes=15))], timedelta(minutes=15)),  # it waited after a kill -9
        ([reminder("superseded")], timedelta(days=-1)),
    ],
)
def test_a_call_that_waited_counts_from_when_it_was_sent(thread: list[Delivery], last: timedelta):
    posted = MORNING - timedelta(days=1)
    assert last_call(posted, thread, None, MORNING + timedelta(days=1)) == MORNING + last
