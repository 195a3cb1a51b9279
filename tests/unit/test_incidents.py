"""When an incident opens, goes on, is resolved, and when nothing happens, each with its reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.incidents import decide
from monitor.records import Outcome, Reason, Subject, Verdict, Window

START = datetime(2026, 11, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 16, 7, tzinfo=UTC)


def verdict(outcome: Outcome, week: int = 0, *, id: str | None = None, label: str | None = "billing") -> Verdict:
    start = START + timedelta(weeks=week)
    reasons = {"ok": Reason.WITHIN_THRESHOLD, "breach": Reason.INCREASED, "not_evaluated": Reason.TOO_FEW_ROWS}
    return Verdict(
        id=id or f"v{week}", rule="ece-increase", subject=Subject("tickets", label),
        window=Window(start, start + timedelta(weeks=1), f"2026-W{46 + week}", "weekly"), metric="ece", where="all",
        outcome=outcome, reason=reasons[outcome], severity="warning", threshold=0.02,
    )  # fmt: skip


def opened(week: int = 0):
    incident = decide(verdict("breach", week), None, NOW).incident
    assert incident is not None
    return incident


def test_a_first_breach_opens_an_incident():
    decision = decide(verdict("breach"), None, NOW)
    assert (decision.kind, decision.reason) == ("open", "first breach")
    incident = decision.incident
    assert incident is not None
    assert (incident.state, incident.breaches, incident.opened_window) == ("open", 1, "2026-W46")
    assert (incident.first_verdict, incident.last_verdict, incident.reason) == ("v0", "v0", "increased")
    assert (incident.opened_at, incident.last_window_start) == (NOW, START)


def test_the_next_breach_continues_the_incident():
    decision = decide(verdict("breach", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("continue", "still breaching")
    assert decision.incident is not None
    assert (decision.incident.breaches, decision.incident.last_verdict) == (2, "v1")
    assert (decision.incident.id, decision.incident.first_verdict) == (opened().id, "v0")


def test_ok_resolves_it_and_names_the_window():
    decision = decide(verdict("ok", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("resolve", "within threshold again")
    assert decision.incident is not None
    assert (decision.incident.state, decision.incident.resolved_window) == ("resolved", "2026-W47")
    assert decision.incident.resolved_at == NOW
    assert decision.incident.last_verdict == "v0"


def test_late_truths_that_clear_the_last_window_resolve_it():
    assert decide(verdict("ok", 0, id="again"), opened(), NOW).kind == "resolve"


def test_what_could_not_be_evaluated_leaves_it_open():
    decision = decide(verdict("not_evaluated", 1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "not evaluated: stays open")
    assert decision.incident == opened()


@pytest.mark.parametrize("id", ["v0", "judged-again"])
def test_the_same_window_counts_once(id: str):
    decision = decide(verdict("breach", 0, id=id), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "already counted")
    assert decision.incident == opened()


@pytest.mark.parametrize("outcome", ["ok", "breach", "not_evaluated"])
def test_an_older_window_changes_nothing(outcome: Outcome):
    decision = decide(verdict(outcome, -1), opened(), NOW)
    assert (decision.kind, decision.reason) == ("nothing", "older window")
    assert decision.incident == opened()


@pytest.mark.parametrize(("outcome", "reason"), [("ok", "within threshold"), ("not_evaluated", "not evaluated")])
def test_without_an_incident_only_a_breach_does_anything(outcome: Outcome, reason: str):
    decision = decide(verdict(outcome), None, NOW)
    assert (decision.kind, decision.reason, decision.incident) == ("nothing", reason, None)


def test_the_id_depends_on_the_subject_and_the_first_window_only():
    later = decide(verdict("breach", 0, id="other"), None, NOW + timedelta(days=1)).incident
    assert later is not None
    assert later.id == opened().id
    others = {opened(1).id, decide(verdict("breach", label=None), None, NOW).incident.id}  # type: ignore[union-attr]
    assert opened().id not in others
    assert len(others) == 2
