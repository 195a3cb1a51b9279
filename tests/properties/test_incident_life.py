"""Whatever verdicts, people and clocks do to incidents, these things hold."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerting.incidents import (
    IncidentStep,
    acknowledge,
    decide,
    event_of,
    newest,
    resolve,
    silence,
    steps_of,
    wake,
)
from monitor.core.records import Incident, Reason, Subject, Verdict, Window

START = datetime(2026, 1, 5, tzinfo=UTC)
WEEK = timedelta(weeks=1)
REASONS = {
    "ok": Reason.WITHIN_THRESHOLD, "breach": Reason.INCREASED, "not_evaluated": Reason.NO_ROWS,
    "unconfirmed": Reason.STREAK_INCOMPLETE,
}  # fmt: skip

Verdicts = st.tuples(
    st.just("verdict"), st.sampled_from(["ok", "breach", "breach", "not_evaluated", "unconfirmed"]), st.integers(-1, 3)
)
People = st.tuples(st.just("person"), st.sampled_from(["acknowledge", "silence", "resolve"]), st.integers(0, 20))
Story = st.lists(st.one_of(Verdicts, People), min_size=1, max_size=40)


def verdict(outcome: str, week: int) -> Verdict:
    start = START + week * WEEK
    window = Window(start, start + WEEK, f"w{week}", "weekly")
    return Verdict(
        id=f"{outcome}{week}", rule="r", subject=Subject("s", "l"), window=window,
        metric="ece", where="all", outcome=outcome, reason=REASONS[outcome], severity="warning", threshold=0.02,  # type: ignore[arg-type]
    )  # fmt: skip


@dataclass
class History:
    """Incidents as a store keeps them: a change is taken only from the version before it."""

    stored: dict[str, Incident] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    in_breach: dict[str, set[datetime]] = field(default_factory=lambda: defaultdict(set))
    week: int = 0
    now: datetime = START

    def take(self, step: IncidentStep) -> None:
        incident = step.decision.incident
        event = event_of(step, self.now)
        if incident is None or not step.decision.changes:
            return
        before = self.stored.get(incident.id)
        assert incident.version == (1 if before is None else before.version + 1)
        assert event is not None
        assert event.key not in self.events
        self.events.add(event.key)
        self.stored[incident.id] = incident
        if step.verdict is not None:  # late truths may make a window in breach good, and the other way round
            windows, start = self.in_breach[incident.id], step.verdict.window.start
            (windows.add if step.verdict.outcome == "breach" else windows.discard)(start)

    @property
    def current(self) -> Incident | None:
        return newest(self.stored.values()).get("r\x1fs\x1fl")


def play(history: History, entry: tuple[str, str, int]) -> None:
    kind, what, number = entry
    if kind == "verdict":
        history.week = max(0, history.week + number)
        history.now = max(history.now, START + (history.week + 1) * WEEK)
        judged = verdict(what, history.week)
        before, incidents = history.current, dict(history.stored)
        for step in steps_of([judged], newest(history.stored.values()), history.now):
            history.take(step)
        if what in ("unconfirmed", "not_evaluated"):  # only a silence that is over may end
            assert len(history.stored) == len(incidents)
            assert history.current == before or (before is not None and before.state == "silenced")
        again = decide(judged, history.current, history.now)
        assert not again.changes, "the same window with the same outcome counts once"
        return
    incident = history.current
    if incident is None:
        return
    history.now += timedelta(hours=number)
    decision = {
        "acknowledge": lambda: acknowledge(incident, "ana", history.now),
        "silence": lambda: silence(incident, "ana", history.now + timedelta(days=number), history.now),
        "resolve": lambda: resolve(incident, "ana", "gone", history.now),
    }[what]()
    history.take(IncidentStep(decision, actor="ana"))


@settings(max_examples=300)
@given(Story)
def test_any_story_keeps_versions_gapless_one_incident_open_and_each_window_counted_once(
    story: list[tuple[str, str, int]],
) -> None:
    history = History()
    for entry in story:
        play(history, entry)
        incidents = list(history.stored.values())
        assert sum(i.state != "resolved" for i in incidents) <= 1
        for incident in incidents:
            assert (incident.state == "resolved") == (incident.resolved_at is not None)
            assert (incident.state == "acknowledged") <= (incident.acknowledged_at is not None)
            assert (incident.state == "silenced") <= (incident.silenced_until is not None)
            assert incident.breaches == len(history.in_breach[incident.id])


@settings(max_examples=200)
@given(Story)
def test_whatever_happened_two_good_windows_end_it_and_a_silence_is_over_in_time(
    story: list[tuple[str, str, int]],
) -> None:
    history = History()
    for entry in story:
        play(history, entry)
    for _ in range(2):
        play(history, ("verdict", "ok", 4))
    assert all(incident.state == "resolved" for incident in history.stored.values())
    last = history.current
    if last is not None:
        assert not wake(last, history.now + 365 * timedelta(days=1)).changes
