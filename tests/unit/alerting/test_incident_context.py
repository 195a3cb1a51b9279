"""What the history knows around an incident."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.alerting.incident_context import IncidentContext
from monitor.core.records import Incident, IncidentEvent, Outcome, Reason, Subject, Verdict, Window
from monitor.history.store import Store

START = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(START, START + timedelta(weeks=1), "2026-W46", "weekly")
FIRST = Verdict(
    id="a" * 16, rule="automated-overconfidence", subject=Subject("tickets", "spam"), window=WEEK,
    metric="overconfidence", where="automated", outcome="ok", reason=Reason.WITHIN_THRESHOLD, severity="critical",
    threshold=0.05, value=0.019,
)  # fmt: skip


@pytest.mark.parametrize(("outcome", "value"), [("ok", -0.0004), ("breach", 0.019)])
def test_late_truths_change_the_numbers_of_a_message_unless_they_change_what_it_says(
    outcome: Outcome, value: float
) -> None:
    reason = Reason.WITHIN_THRESHOLD if outcome == "ok" else Reason.ABOVE_THRESHOLD
    again = replace(FIRST, id="b" * 16, outcome=outcome, reason=reason, value=-0.0004)
    event = IncidentEvent("k", "i", WEEK.end, "held_back", "held back: flapping", "run", WEEK.name, FIRST.id)
    incident = Incident(
        id="i", rule=FIRST.rule, source="tickets", label="spam", severity="critical", state="open", schedule="weekly",
        opened_at=WEEK.end, opened_window=WEEK.name, first_verdict=FIRST.id, last_verdict=FIRST.id,
        last_window_start=WEEK.start, breaches=1, reason="above_threshold",
    )  # fmt: skip
    with Store.from_url("sqlite://", create=True) as store:
        for verdict in (FIRST, again):
            store.save_evaluation(WEEK, ["tickets"], [], [verdict], [], WEEK.end)
        config = SimpleNamespace(rules=(), zone=UTC)
        monitor: Any = SimpleNamespace(store=store, config=config)
        latest = IncidentContext(monitor).brief(incident, event).latest
    assert latest is not None
    assert (latest.outcome, latest.value) == ("ok", value)
