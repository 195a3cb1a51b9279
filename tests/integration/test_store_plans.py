"""What a run asks of the history is found by an index: its cost must not grow with the age of the history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from monitor.core.records import Delivery, Incident, Reason
from monitor.core.windows import week
from monitor.history.store import Store
from tests.fakes import judged

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
WINDOW = week("2026-W46", ZoneInfo("UTC"))
BETWEEN = (WINDOW.start - timedelta(weeks=26), WINDOW.start)
GROWS = ("runs", "readings", "counts", "cells", "quality", "estimates", "verdicts", "shifts", "incidents",
         "incident_events", "deliveries", "switch_events", "publications")  # fmt: skip
#: Read from one end, as far as the first rows that fit.
FROM_ONE_END = ("ix_runs_window_start", "ix_deliveries_sent_at")
VERDICT = judged.verdict("breach", WINDOW)
INCIDENT = Incident(
    "i1", "label", "tickets", "billing", "warning", "open", NOW, "2026-W46", "2026-W46", WINDOW.end, WINDOW.end,
    "overconfident",
)  # fmt: skip


def edits(store: Store) -> None:
    with store.one_moment():
        store.last_edit("r1")


QUESTIONS = {
    "unresolved incidents": lambda s: s.unresolved_incidents(),
    "unresolved incidents of a source": lambda s: s.unresolved_incidents("tickets"),
    "incidents that may come back": lambda s: s.unresolved_incidents(since=NOW),
    "troubles of the monitor": lambda s: s.unresolved_incidents(since=NOW, of_monitor=True),
    "incidents of a label": lambda s: s.incidents("tickets", "billing", since=NOW),
    "incidents of a message": lambda s: s.incidents_of(["r1", "r2"]),
    "events of an incident": lambda s: s.incident_events("i1"),
    "the message": lambda s: s.message("r1"),
    "the thread": lambda s: s.thread("r1"),
    "the replies": lambda s: s.thread("r1", operations=["reply"]),
    "how messages were composed last": lambda s: s.compositions({"r1", "r2"}),
    "the last edit": edits,
    "decisions with an edit": lambda s: s.apply_incidents([INCIDENT], [edit("e1")]),
    "what is to be sent": lambda s: s.deliveries(["pending", "failed", "sending"]),
    "what was not sent": lambda s: s.undelivered(NOW),
    "when messages were sent": lambda s: s.sent_between(),
    "messages that Slack refuses in their channel": lambda s: s.leave_channels(["is_archived"], {"#ml"}),
    "edits that a later one replaces": lambda s: s.supersede_edits(),
    "channels": lambda s: s.known_channels({"#ml"}),
    "the roots": lambda s: s.delivery_roots({"r1"}),
    "a claim": lambda s: s.claim_delivery("e1", from_state="pending", worker="w", now=NOW),
    "runs": lambda s: s.runs(limit=200, until=NOW),
    "runs of a schedule": lambda s: s.runs("weekly", limit=12, until=NOW),
    "weeks that were evaluated": lambda s: s.evaluated_windows("weekly", limit=12, until=NOW),
    "what was judged of late": lambda s: s.judged_windows(NOW - timedelta(weeks=12)),
    "runs of a window": lambda s: s.runs_of(WINDOW),
    "readings": lambda s: s.readings_seen(NOW - timedelta(weeks=12), NOW),
    "a reading": lambda s: s.load_reading("weekly", WINDOW.start, "tickets"),
    "promises of a year": lambda s: s.past_promises("tickets", WINDOW, 51, ZoneInfo("UTC")),
    "the newest evaluated window": lambda s: s.newest_evaluated("weekly", "tickets"),
    "the newest window of a source": lambda s: s.newest_window("weekly", "tickets"),
    "what was judged": lambda s: s.judged("weekly", WINDOW.start, "tickets"),
    "what was not judged": lambda s: s.not_judged("weekly", WINDOW.start, "tickets", Reason.NO_ROWS),
    "verdicts of a window": lambda s: s.verdicts(schedule="weekly", window_start=WINDOW.start),
    "verdicts of a trend": lambda s: s.verdicts(
        schedule="weekly", source="tickets", label="billing", between=BETWEEN
    ),
    "estimates of a trend": lambda s: s.estimates(
        metric="ece", where="all", schedule="weekly", source="tickets", label="billing", between=BETWEEN
    ),
    "recording": lambda s: s.save_evaluation(WINDOW, ["tickets"], [], [VERDICT], [], NOW),
    "labels": lambda s: s.known_labels("tickets"),
    "events of a switch": lambda s: s.switch_events("tickets", "billing", since=NOW),
}  # fmt: skip


def edit(id: str) -> Delivery:
    return Delivery(id, "incidents", "#ml", {"text": "x"}, NOW, operation="edit", root="r1", sequence=1)


def scans(url: str, question: Callable[[Store], object]) -> list[str]:
    """The steps in which SQLite reads a growing table as a whole, or an index from one end."""
    return [s for s in steps_of(url, question) if s.startswith("SCAN") and s.split()[1].removesuffix("_1") in GROWS]


def steps_of(url: str, question: Callable[[Store], object]) -> list[str]:
    """How SQLite finds the answers."""
    asked = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    with Store.from_url(url) as store:
        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        try:
            question(store)
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        steps = [
            step[3] for statement, parameters in asked if statement.split()[0] in ("SELECT", "WITH", "UPDATE", "DELETE")
            for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]  # fmt: skip
    engine.dispose()
    assert steps
    return steps


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One history for all questions: how it finds an answer does not depend on its few rows."""
    return f"sqlite:///{tmp_path_factory.mktemp('plans')}/history.sqlite"


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_of_a_run_reads_a_whole_table(url: str, question: str) -> None:
    found = scans(url, QUESTIONS[question])
    assert [step for step in found if not any(index in step for index in FROM_ONE_END)] == []


def test_a_question_that_reads_a_whole_table_is_noticed(url: str) -> None:
    assert scans(url, lambda store: store.incidents()) == ["SCAN incidents"]
