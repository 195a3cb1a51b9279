"""Whatever windows, people and clocks do to incidents, these things hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import SEVERITY_RANK, Incident, Window
from monitor.incidents.findings import newest
from monitor.incidents.life import (
    Finding,
    IncidentDecision,
    acknowledge,
    decide,
    event_of,
    note,
    resolve,
    silence,
    wake,
)

START = datetime(2026, 1, 5, tzinfo=UTC)
WEEK = timedelta(weeks=1)
SEVERITIES = {"unsafe": "critical", "degraded": "warning"}
Windows = st.tuples(
    st.just("window"), st.sampled_from(["unsafe", "degraded", "fine", "cannot_tell"]), st.integers(-1, 3)
)
People = st.tuples(
    st.just("person"), st.sampled_from(["acknowledge", "silence", "resolve", "note"]), st.integers(0, 20)
)
Story = st.lists(st.one_of(Windows, People), min_size=1, max_size=40)


def finding(state: str, number: int) -> Finding:
    start = START + number * WEEK
    window = Window(start, start + WEEK, f"w{number:03d}", "weekly")
    return Finding("label", "s", "l", window, DiagnosisState(state), "x", SEVERITIES.get(state, "warning"))


@dataclass
class History:
    """Incidents as a store keeps them: a change is taken only from the version before it."""

    stored: dict[str, Incident] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    number: int = 0
    now: datetime = START
    called: list[IncidentDecision] = field(default_factory=list)

    def take(self, decision: IncidentDecision) -> None:
        incident, event = decision.incident, event_of(decision, self.now)
        if incident is None or not decision.changes:
            assert event is None
            assert not decision.calls
            return
        before = self.stored.get(incident.id)
        assert incident.version == (1 if before is None else before.version + 1)
        assert event.key not in self.events
        self.events.add(event.key)
        self.stored[incident.id] = incident
        if decision.calls:
            self.called.append(decision)
            assert incident.state != "acknowledged"
            if before is not None and before.is_open:
                assert SEVERITY_RANK[incident.severity] < SEVERITY_RANK[before.severity]

    @property
    def current(self) -> Incident | None:
        return newest(self.stored.values()).get("label\x1fs\x1fl")


def play(history: History, entry: tuple[str, str, int]) -> None:
    kind, what, number = entry
    if kind == "window":
        history.number = max(0, history.number + number)
        history.now = max(history.now, START + (history.number + 1) * WEEK)
        told = finding(what, history.number)
        if history.current is not None:
            history.take(wake(history.current, history.now))
        before = history.current
        decision = decide(told, before, history.now)
        history.take(decision)
        if what == "cannot_tell" and before is not None and before.is_open and history.current is not None:
            assert replace(history.current, version=0).acknowledged_by == before.acknowledged_by
        again = decide(told, history.current, history.now)
        assert not again.changes, "the same window with the same state counts once"
        return
    incident = history.current
    if incident is None:
        return
    history.now += timedelta(hours=number)
    history.take(
        {
            "acknowledge": lambda: acknowledge(incident, "ana", history.now),
            "silence": lambda: silence(incident, "ana", history.now + timedelta(days=number), history.now),
            "resolve": lambda: resolve(incident, "ana", "gone", history.now),
            "note": lambda: note(incident, "ana", "looked at it"),
        }[what]()
    )


@settings(max_examples=300)
@given(Story)
def test_any_story_keeps_versions_gapless_one_incident_open_and_each_window_counted_once(
    story: list[tuple[str, str, int]],
):
    history = History()
    for entry in story:
        play(history, entry)
        incidents = list(history.stored.values())
        assert sum(incident.is_open for incident in incidents) <= 1
        for incident in incidents:
            assert (incident.state == "resolved") == (incident.resolved_at is not None)
            assert (incident.state == "acknowledged") <= (incident.acknowledged_at is not None)
            assert (incident.state == "silenced") <= (incident.silenced_until is not None)
            assert incident.seen_until <= incident.window_end


@settings(max_examples=200)
@given(Story)
def test_whatever_happened_one_good_window_or_five_silent_ones_end_it_and_a_silence_is_over_in_time(
    story: list[tuple[str, str, int]],
):
    for last in (["fine"], ["cannot_tell"] * 5):
        history = History()
        for entry in story:
            play(history, entry)
        calls = len(history.called)
        for at, state in enumerate(last):
            play(history, ("window", state, 4 if at == 0 else 1))
        assert not any(incident.is_open for incident in history.stored.values())
        assert len(history.called) == calls
        current = history.current
        if current is not None:
            assert not wake(current, history.now + timedelta(days=365)).changes
