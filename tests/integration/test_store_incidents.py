"""Incidents, their events and edits in the history: all or nothing, and nobody's change is lost. Both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.context import Monitor
from monitor.core.records import Delivery, Incident, IncidentEvent, IncidentReason
from monitor.history.errors import Ambiguous, NotFound
from monitor.history.store import Store
from monitor.operations import incident_actions
from monitor.operations.incident_actions import Outcome
from tests.fakes.alerts_world import AlertsWorld, Judged, alerts_world

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)


def incident(id: str = "i1", **changes: Any) -> Incident:
    known = Incident(
        id, "label", "tickets", id, "warning", "open", NOW, "2026-W46", "2026-W46", NOW, NOW, "overconfident", root="r1"
    )  # fmt: skip
    return replace(known, **changes)


def edit(sequence: int, root: str = "r1") -> Delivery:
    return Delivery(
        f"{root}-{sequence}", "incidents", "#ml", {"text": "x"}, NOW, operation="edit", root=root, sequence=sequence
    )


def event(key: str, of: str = "i1") -> IncidentEvent:
    return IncidentEvent(key, of, NOW, "acknowledged", "acknowledged", "ana")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite'}"
    return request.getfixturevalue("fresh_postgres_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.from_url(url) as opened:
        opened.apply_incidents([incident(), incident("i2")], [])
        yield opened


def test_a_change_of_what_somebody_else_changed_first_stores_nothing_at_all(store: Store) -> None:
    taken = incident(state="acknowledged", version=2)
    assert store.apply_incidents([taken], [edit(1)], [event("e1")]) == "applied"
    late = incident(state="silenced", version=2)
    also = incident("i2", state="silenced", version=2)
    assert store.apply_incidents([incident("i3"), also, late], [edit(2)], [event("e2")]) == "conflict"
    assert {i.id: i.state for i in store.incidents()} == {"i1": "acknowledged", "i2": "open"}
    assert [e.key for e in store.incident_events()] == ["e1"]
    with store.one_moment():
        assert store.last_edit("r1") == 1


@pytest.mark.parametrize("sequence", [1, 3])
def test_an_edit_that_is_not_the_next_one_of_its_message_is_refused(store: Store, sequence: int) -> None:
    assert store.apply_incidents([], [edit(1), edit(1, "other")]) == "applied"
    assert store.apply_incidents([incident("i2", state="silenced", version=2)], [edit(sequence)]) == "conflict"
    assert store.incident("i2").state == "open"
    assert store.apply_incidents([], [edit(2)]) == "applied"


def test_two_steps_of_one_incident_are_stored_in_their_order(store: Store) -> None:
    steps = [incident(state="acknowledged", version=2), incident(state="resolved", resolved_at=NOW, version=3)]
    assert store.apply_incidents(steps, []) == "applied"
    assert (store.incident("i1").state, store.incident("i1").version) == ("resolved", 3)


def test_an_incident_is_not_opened_beside_one_of_its_fingerprint(store: Store) -> None:
    twin = incident("i9", label="i1")
    assert store.apply_incidents([twin], [edit(1)], [event("e9", "i9")]) == "conflict"
    assert (store.incident_events(), store.thread("r1")) == ([], [])


def test_an_incident_is_found_by_how_its_id_begins(store: Store) -> None:
    assert store.incident("i2").id == "i2"
    with pytest.raises(NotFound, match="no incident has an id that begins with 'x'"):
        store.incident("x")
    with pytest.raises(Ambiguous, match="several incidents begin with 'i'"):
        store.incident("i")


def test_a_thread_is_a_message_with_all_that_belongs_to_it(store: Store) -> None:
    store.add_delivery(Delivery("r1", "incidents", "#ml", {"text": "x"}, NOW))
    store.apply_incidents([], [edit(1), edit(1, "other")])
    assert [each.id for each in store.thread("r1")] == ["r1", "r1-1"]


@contextmanager
def world_in(folder: Path, url: str) -> Iterator[AlertsWorld]:
    with alerts_world(folder, sends=False, store_url=url) as world:
        yield world


def pressed(world: AlertsWorld, url: str, what: Callable[[Monitor, int], Outcome], numbers: range) -> list[Outcome]:
    """What four people at a time do, each with a connection of his own."""

    def press(number: int) -> Outcome:
        with Store.from_url(url, create=False) as own:
            known = world.monitor
            return what(Monitor(known.config, known.settings, known.warehouse, own, None, world.clock), number)

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(press, numbers))


def test_people_who_act_at_the_same_moment_lose_nothing_and_the_last_edit_says_all(url: str, tmp_path: Path) -> None:
    with world_in(tmp_path, url) as world:
        world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "breach", 0.12)])
        id = world.incident("billing").id

        def act(monitor: Monitor, number: int) -> Outcome:
            if number % 2:
                return incident_actions.note(monitor, id, f"person {number}", f"note {number}")
            return incident_actions.acknowledge(monitor, id, f"person {number}")

        done = pressed(world, url, act, range(12))
        assert sum(each.decision.kind == "acknowledge" for each in done) == 1
        others = {each.decision.reason for each in done if each.decision.kind == "nothing"}
        assert others == {IncidentReason.ALREADY_ACKNOWLEDGED}
        events = world.monitor.store.incident_events(id)
        assert {each.detail["why"] for each in events if each.kind == "noted"} == {
            f"note {at}" for at in range(1, 12, 2)
        }
        thread = world.monitor.store.thread(str(world.incident("billing").root))
        lines = " ".join(str(each.payload["blocks"]) for each in thread if each.operation == "reply")
        assert all(f"note {at}" in lines for at in range(1, 12, 2))
        edits = [delivery for delivery in thread if delivery.operation == "edit"]
        assert [each.sequence for each in edits] == [1], "a note changes nothing that the message shows"
        assert "Acknowledged by person" in str(edits[-1].payload["blocks"])


def test_people_who_change_what_a_message_shows_at_the_same_moment_leave_an_edit_each(url: str, tmp_path: Path) -> None:
    with world_in(tmp_path, url) as world:
        world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "breach", 0.12)])
        id, now = world.incident("billing").id, world.clock()

        def act(monitor: Monitor, hours: int) -> Outcome:
            return incident_actions.silence(monitor, id, now + timedelta(hours=hours), f"person {hours}")

        done = pressed(world, url, act, range(1, 13))
        silenced = sum(each.decision.kind == "silence" for each in done)
        assert {each.decision.kind for each in done} <= {"silence", "nothing"}
        thread = world.monitor.store.thread(str(world.incident("billing").root))
        edits = [delivery for delivery in thread if delivery.operation == "edit"]
        assert [each.sequence for each in edits] == list(range(1, silenced + 1))
        assert world.incident("billing").silenced_until == now + timedelta(hours=12)
        assert f"{now + timedelta(hours=12):%Y-%m-%d %H:%M}" in str(edits[-1].payload["blocks"])
