"""What people, time and evaluations do to stored incidents and their living messages."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.alerting import compose
from monitor.alerting.health import issues
from monitor.alerting.health.watchdog import observed, watch_data
from monitor.alerting.incidents import newest, steps_of
from monitor.automation.gate.snapshot import SwitchSnapshot, snapshot_of
from monitor.cli.automation import status_rows
from monitor.config.load import load_config
from monitor.core import windows
from monitor.core.records import Delivery, Incident, Schedule, Window
from monitor.core.windows import week
from monitor.history.errors import NotFound
from monitor.history.readings import StoredReading
from monitor.operations import act, incident_actions
from monitor.operations.change_switch import SwitchChange, change_switch, operate
from monitor.run import record, run_window
from tests.fakes.alerts_world import CONFIG, UTC_ZONE, AlertsWorld, Judged, alerts_world
from tests.fakes.reading import as_read
from tests.fakes.world import WEEKS, make_world

DAY = timedelta(days=1)
BILLING = Judged("billing", "automated-overconfidence", "breach", 0.12)
REFUND = Judged("refund", "ece-increase", "breach", 0.07)


def fine(line: Judged) -> Judged:
    return Judged(line.label, line.rule, "ok", 0.01)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AlertsWorld]:
    with alerts_world(tmp_path, sends=False) as found:
        yield found


def kinds(world: AlertsWorld) -> list[tuple[str, str]]:
    """What was written but the numbers of a message, which are always its first reply."""
    return [(delivery.operation, delivery.channel) for delivery in world.deliveries() if change(delivery) != "numbers"]


def change(delivery: Delivery) -> str:
    return str(delivery.payload.get("metadata", {}).get("event_payload", {}).get("change", ""))


def newest_edit(world: AlertsWorld, root: str) -> Delivery:
    return max((d for d in world.monitor.store.thread(root) if d.operation == "edit"), key=lambda d: d.sequence)


def sent(world: AlertsWorld) -> None:
    """As if Slack had taken every message."""
    for delivery in world.monitor.store.deliveries(["pending", "not_sent"]):
        if delivery.state == "pending":
            assert world.monitor.store.claim_delivery(
                delivery.id, from_state="pending", worker="w", now=world.clock.now
            )
            assert world.monitor.store.settle_delivery(delivery.id, worker="w", state="sent", now=world.clock.now)


def test_an_evaluation_makes_one_living_message_a_route_with_a_picture_each(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING, REFUND])
    assert sorted(kinds(world)) == [
        ("file", "#ml-monitoring"), ("file", "#ml-oncall"), ("post", "#ml-monitoring"), ("post", "#ml-oncall"),
    ]  # fmt: skip
    posts = {d.channel: d.id for d in world.deliveries() if d.operation == "post"}
    assert world.incident("billing").root == posts["#ml-oncall"]
    assert world.incident("refund").root == posts["#ml-monitoring"]


def test_several_rules_on_one_label_make_one_message_where_the_gravest_belongs(world: AlertsWorld) -> None:
    also = Judged("billing", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [also, BILLING])
    assert kinds(world) == [("post", "#ml-oncall"), ("file", "#ml-oncall")]
    assert len({i.root for i in world.monitor.store.incidents()}) == 1


def test_a_lesser_finding_on_a_label_that_has_a_message_joins_its_message_and_a_more_severe_one_makes_its_own(
    world: AlertsWorld,
) -> None:
    also = Judged("refund", "automated-overconfidence", "breach", 0.12)
    world.evaluate("2026-W02", [REFUND])
    world.evaluate("2026-W03", [REFUND, also])  # critical: another channel, people are called
    assert [kind for kind in kinds(world) if kind[0] == "post"] == [
        ("post", "#ml-monitoring"), ("post", "#ml-oncall"),
    ]  # fmt: skip
    world.evaluate("2026-W04", [fine(REFUND), also])
    world.evaluate("2026-W12", [REFUND, also])  # long after: a new incident, of a label that is told of
    joined = world.incident("refund")
    assert (joined.rule, joined.opened_window) == ("ece-increase", "2026-W12")
    assert [d.channel for d in world.deliveries() if d.id == joined.root] == ["#ml-oncall"]
    edit = as_read(newest_edit(world, str(joined.root)).payload)
    assert "[header] refund in breach: critical (2026-W12)" in edit
    assert "In breach in 3 of 10 weeks since 2026-W03, last in 2026-W12" in edit
    assert "Also failing: ece-increase." in edit
    assert "new" in as_read(world.deliveries()[-1].payload)


def test_a_new_finding_joins_the_message_that_comes_back_in_the_same_evaluation(world: AlertsWorld) -> None:
    also = Judged("billing", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [BILLING, fine(also)])
    for name in ("2026-W03", "2026-W04"):
        world.evaluate(name, [fine(BILLING), fine(also)])
    assert {i.state for i in world.monitor.store.incidents()} == {"resolved"}
    world.evaluate("2026-W05", [BILLING, also])
    assert [kind for kind in kinds(world) if kind[0] == "post"] == [("post", "#ml-oncall")]
    assert [(i.rule, i.reopened) for i in world.monitor.store.unresolved_incidents()] == [
        ("automated-overconfidence", 1), ("ece-increase", 0),
    ]  # fmt: skip
    assert len({i.root for i in world.monitor.store.incidents()}) == 1
    assert "Also failing: ece-increase." in as_read(newest_edit(world, str(world.incident("billing").root)).payload)


def test_a_rule_that_was_resolved_and_fails_again_is_named_once_in_the_message_of_its_label(
    world: AlertsWorld,
) -> None:
    also = Judged("billing", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [BILLING, also])
    world.evaluate("2026-W03", [BILLING, fine(also)])
    root = str(world.incident("billing").root)
    assert "Resolved: ece-increase." in as_read(newest_edit(world, root).payload)
    world.evaluate("2026-W12", [BILLING, also])  # long after: a second incident of the rule, in the same message
    edit = as_read(newest_edit(world, root).payload)
    assert "Also failing: ece-increase." in edit
    assert "Resolved:" not in edit


def test_resolved_in_one_channel_names_the_rule_while_another_channel_has_an_open_incident_of_the_label(
    world: AlertsWorld,
) -> None:
    also = Judged("refund", "automated-overconfidence", "breach", 0.12)
    world.evaluate("2026-W02", [REFUND])
    first = str(world.incident("refund").root)
    world.evaluate("2026-W03", [REFUND, also])  # critical: a message of its own in another channel
    world.evaluate("2026-W04", [fine(REFUND), also])
    edit = newest_edit(world, first)
    read = as_read(edit.payload)
    assert "[header] refund: ece-increase resolved (2026-W04)" in read
    assert "Not resolved, and not in this message: automated-overconfidence." in read
    assert "Turn on" not in read
    assert edit.payload["text"].startswith("refund: ece-increase resolved")
    reply = next(
        d for d in world.deliveries() if d.operation == "reply" and "W04" in str(d.payload) and d.root == first
    )
    notification, blocks = reply.payload["text"], as_read({**reply.payload, "text": ""})
    for said in (notification, blocks):
        assert "Not resolved: automated-overconfidence." in said
        assert "Automation is off since Mon 2026-01-19 06:05 UTC (weekly run)" in said
        assert "refund resolved" not in said
    assert notification.startswith("refund: ece-increase resolved. Not resolved: automated-overconfidence.")
    assert ":white_check_mark:" not in blocks
    world.evaluate("2026-W05", [fine(REFUND), also])
    assert newest_edit(world, first).id == edit.id  # nothing new to say
    world.evaluate("2026-W06", [fine(REFUND), fine(also)])
    over = as_read(newest_edit(world, first).payload)
    assert "[header] :large_green_circle: refund resolved (2026-W04)" in over
    assert "not in this message" not in over
    other = next(d for d in world.deliveries() if d.operation == "post" and d.channel == "#ml-oncall")
    assert "refund resolved (2026-W06)" in as_read(newest_edit(world, other.id).payload)
    last = next(
        d for d in world.deliveries() if d.operation == "reply" and d.root == other.id and "W06" in str(d.payload)
    )
    assert "refund resolved: within the limit in 2026-W06" in last.payload["text"]
    assert ":white_check_mark: *tickets/refund*" in as_read(last.payload)
    assert "Not resolved" not in as_read(last.payload)


def test_what_was_never_sent_is_reported_in_a_message_of_its_own_once_somebody_can_be_notified(
    world: AlertsWorld,
) -> None:
    world.evaluate("2026-W02", [BILLING])
    world.sends = True
    world.drain(world.clock.now)  # no token: it never will be sent
    root = world.incident("billing").root
    world.sends = False
    world.evaluate("2026-W03", [BILLING, Judged("billing", "ece-increase", "breach", 0.07)])
    again = world.incident("billing").root
    assert again != root
    assert [d.state for d in world.monitor.store.deliveries() if d.operation == "post"] == ["not_sent", "pending"]
    assert {i.root for i in world.monitor.store.incidents()} == {again}


def test_a_message_that_somebody_deleted_in_slack_is_followed_by_another_one(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    sent(world)
    root = str(world.incident("billing").root)
    world.evaluate("2026-W03", [BILLING])
    edit, store, now = newest_edit(world, root), world.monitor.store, world.clock.now
    assert store.claim_delivery(edit.id, from_state="pending", worker="w", now=now)
    assert store.settle_delivery(edit.id, worker="w", state="dead", now=now, error_code="message_not_found")
    world.evaluate("2026-W04", [BILLING])
    assert world.incident("billing").root != root
    assert [d.state for d in store.deliveries(files=False) if d.operation == "post"] == ["sent", "pending"]


def test_a_run_says_of_every_incident_the_state_of_its_message_also_of_one_that_joined(world: AlertsWorld) -> None:
    also = Judged("billing", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", [BILLING, also])
    (root,) = {incident.root for incident in world.monitor.store.incidents()}
    pending = [act.Pending("slack", "tickets", "billing", "", root)]
    assert [each.state for each in act.settled(world.monitor, pending)] == ["pending"]


def test_the_same_evaluation_again_stores_nothing_new(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    before = world.deliveries(), world.monitor.store.incidents(), world.monitor.store.incident_events()
    world.evaluate("2026-W02", [BILLING])
    assert (world.deliveries(), world.monitor.store.incidents(), world.monitor.store.incident_events()) == before


def test_a_further_week_edits_the_message_and_replies_once(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING, Judged("other", "automated-overconfidence", "breach", 0.2)])
    world.evaluate("2026-W03", [BILLING, Judged("other", "automated-overconfidence", "ok", 0.01)])
    assert [kind for kind, _ in kinds(world)] == ["post", "file", "edit", "reply"]
    root = world.incident("billing").root
    assert root == world.incident("other").root is not None
    edit = as_read(newest_edit(world, str(root)).payload)
    assert "1 label in breach, 1 resolved, 1 critical (2026-W03)" in edit
    assert "In breach for 2 weeks (since 2026-W02)" in edit
    reply = as_read(world.deliveries()[-1].payload)
    assert "still in breach" in reply
    assert "resolved: within the limit in 2026-W03" in reply
    assert "<!subteam" not in reply


def test_the_message_is_green_when_all_is_resolved_and_a_much_later_breach_opens_another(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", [fine(BILLING)])
    root = str(world.incident("billing").root)
    assert newest_edit(world, root).payload["blocks"][0]["text"]["text"] == (
        ":large_green_circle: billing resolved (2026-W03)"
    )
    offered = [b for b in newest_edit(world, root).payload["blocks"] if b["type"] == "actions"]
    assert [e["action_id"] for b in offered for e in b["elements"]] == ["automation_on"]  # it is off all the same
    world.evaluate("2026-W09", [BILLING])
    assert world.incident("billing").root != root
    assert [kind for kind, _ in kinds(world)].count("post") == 2


def test_what_comes_back_soon_is_reported_in_its_old_thread_and_calls_people(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", [fine(BILLING)])
    world.evaluate("2026-W04", [BILLING])
    assert [kind for kind, _ in kinds(world)].count("post") == 1
    reply = world.deliveries()[-1]
    assert (reply.operation, reply.root) == ("reply", world.incident("billing").root)
    assert reply.payload["text"] == "billing back in breach: reopened (2026-W04) <!subteam^S0123>"


def test_a_person_edits_the_message_once_and_is_answered_in_words(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    done = world.person("acknowledges", "billing", "ana")
    assert (done.words, done.refused) == ("tickets/billing, automated-overconfidence: acknowledged", False)
    assert "Acknowledged by ana" in as_read(done.deliveries[0].payload)
    again = world.person("acknowledges", "billing", "ben")
    assert (again.words.endswith("already acknowledged"), again.deliveries) == (True, ())
    assert world.incident("billing").acknowledged_by == "ana"
    assert [e.kind for e in world.monitor.store.incident_events(world.incident("billing").id)] == [
        "opened", "acknowledged",
    ]  # fmt: skip


def test_a_refused_wish_is_kept_with_its_reason_and_changes_nothing(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    done = world.person("resolves", "billing", "ana", why=" ")
    assert (done.refused, done.deliveries) == (True, ())
    (_, event) = world.monitor.store.incident_events(world.incident("billing").id)
    assert (event.kind, event.reason, event.actor) == ("refused", "a reason is needed", "ana")
    assert world.incident("billing").state == "open"
    with pytest.raises(NotFound, match="no incident has an id"):
        incident_actions.acknowledge(world.monitor, "nonsense", "ana")


def test_edits_of_one_message_come_in_order_and_the_last_says_it_all(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING, Judged("other", "automated-overconfidence", "breach", 0.2)])
    world.person("acknowledges", "billing", "ana")
    world.person("silences", "other", "ben", length=7 * DAY)
    root = str(world.incident("billing").root)
    edits = [d for d in world.monitor.store.thread(root) if d.operation == "edit"]
    assert [d.sequence for d in edits] == [1, 2]
    assert "1 acknowledged, 1 silenced" in as_read(edits[-1].payload)


def test_a_run_that_did_not_see_what_a_person_did_meanwhile_decides_again(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING, Judged("other", "automated-overconfidence", "breach", 0.2)])
    store, window = world.monitor.store, week("2026-W03", UTC_ZONE)
    part = world.evaluated(window, [Judged("other", "automated-overconfidence", "breach", 0.2)])
    store.save_evaluation(window, ["tickets"], part.estimates, part.verdicts, (), world.clock.now)
    with store.one_moment(), ThreadPoolExecutor(1) as elsewhere:
        seen = newest(store.incidents())
        # of another incident of the same message
        elsewhere.submit(world.person, "acknowledges", "billing", "ana").result()
        stale = compose.compose(world.monitor, steps_of(part.verdicts, seen, world.clock.now), window=window)
    assert store.apply_incidents(stale.opened, stale.updated, stale.deliveries, stale.events) == "conflict"
    assert world.incident("other").breaches == 1
    world.evaluate("2026-W03", [Judged("other", "automated-overconfidence", "breach", 0.2)])
    assert "1 acknowledged" in as_read(newest_edit(world, str(world.incident("other").root)).payload)


def test_a_silence_says_nothing_in_the_thread_and_ends_by_itself_with_an_edit(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    world.person("silences", "billing", "ana", length=10 * DAY)
    world.evaluate("2026-W03", [BILLING])
    assert [kind for kind, _ in kinds(world)] == ["post", "file", "edit", "edit"]
    world.clock.now += 2 * DAY
    assert incident_actions.due_repeats(world.monitor) == []
    assert world.incident("billing").state == "silenced"
    world.clock.now += 8 * DAY
    incident_actions.due_repeats(world.monitor)
    assert world.incident("billing").state == "open"
    assert [kind for kind, _ in kinds(world)] == ["post", "file", "edit", "edit", "edit"]


def test_people_are_called_every_repeat_until_somebody_acknowledges(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    assert incident_actions.due_repeats(world.monitor) == []
    world.clock.now += 2 * DAY
    assert incident_actions.due_repeats(world.monitor) == []  # the message itself has not been sent yet
    sent(world)
    world.clock.now += DAY - timedelta(seconds=1)
    assert incident_actions.due_repeats(world.monitor) == []
    world.clock.now += timedelta(seconds=1)
    (call,) = incident_actions.due_repeats(world.monitor)
    assert (call.operation, call.root) == ("reply", world.incident("billing").root)
    assert call.payload["text"] == "billing: not acknowledged yet <!subteam^S0123>"
    read = as_read(call.payload)
    assert f"`{world.incident('billing').id[:8]}`" in read
    assert "Press *Acknowledge* above" in read
    assert incident_actions.due_repeats(world.monitor) == []
    world.clock.now += DAY
    assert len(incident_actions.due_repeats(world.monitor)) == 1
    world.person("acknowledges", "billing", "ana")
    world.clock.now += 30 * DAY
    assert incident_actions.due_repeats(world.monitor) == []


def test_a_label_that_disappears_is_reported_once(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [REFUND])
    gone = Judged("refund", "ece-increase", "gone")
    world.evaluate("2026-W03", [gone])
    assert [kind for kind, _ in kinds(world)] == ["post", "file", "edit", "reply"]
    assert "no outcome of this label arrived in 2026-W03: stays open" in as_read(world.deliveries()[-1].payload)
    world.evaluate("2026-W04", [gone])
    assert [kind for kind, _ in kinds(world)] == ["post", "file", "edit", "reply", "edit"]  # the newest week, no reply
    assert "refund not judged: warning (2026-W04)" in read_edit(world, "refund")


def test_what_is_above_the_limit_but_not_confirmed_stays_open_and_says_so_with_its_numbers(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", [replace(BILLING, outcome="unconfirmed", value=0.07)])
    found = world.incident("billing")
    assert (found.state, found.ok_windows) == ("open", 0)
    shown, reply = read_edit(world, "billing"), as_read(world.deliveries()[-1].payload)
    assert "[header] billing above the limit, not confirmed: critical (2026-W03)" in shown
    assert "is above the limit, not confirmed: overconfident by 7.0 points (limit 5.0 points)" in shown
    assert "Last breach: overconfident" in shown
    assert "above the limit, not confirmed in 2026-W03: stays open" in reply
    assert "esolved" not in shown.replace("resolves it", "") + reply


def test_an_edit_after_the_switch_was_changed_by_hand_shows_it(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "ok", 0.01)])
    world.evaluate("2026-W03", [BILLING])
    post = next(d for d in world.deliveries() if d.operation == "post")
    assert "[Turn on]" in as_read(post.payload)
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="looked at it")
    shown = read_edit(world, "billing")  # written by the change itself
    assert "[Turn off]" in shown
    until = "Tue 2026-01-20 06:05 UTC"
    assert f"Automation is left on against this finding: enabled by ana until {until}: looked at it." in shown
    world.clock.now += timedelta(minutes=1)
    last = next(iter(world.monitor.store.compositions({post.id}).values()))
    with world.monitor.store.one_moment():
        assert compose.switch_edits(world.monitor) == ([], [last.id])
    assert compose.show_switches(world.monitor) == []  # it says so already
    world.clock.now += timedelta(minutes=1)
    with world.monitor.store.one_moment():
        assert compose.switch_edits(world.monitor) == ([], []), "compared once, until a switch moves again"
    change_switch(world.monitor, "tickets", "billing", enable=False, by="ben", reason="again")
    assert "turned off by ben: again" in read_edit(world, "billing")


def test_a_message_that_was_resolved_while_another_of_its_label_was_open_follows_the_switch(world: AlertsWorld) -> None:
    also = Judged("refund", "automated-overconfidence", "breach", 0.12)
    world.evaluate("2026-W02", [REFUND])
    first = str(world.incident("refund").root)
    world.evaluate("2026-W03", [REFUND, also])  # critical: a message of its own, which is the newer one
    for name in ("2026-W04", "2026-W05"):
        world.evaluate(name, [fine(REFUND), also])
    other = next(i for i in world.monitor.store.incidents() if i.rule == also.rule)
    assert [i.state for i in world.monitor.store.incidents_of([first])] == ["resolved"]
    assert other.root != first
    for enable, word in ((True, "enabled by ana"), (False, "turned off by ana")):
        world.clock.now += timedelta(hours=1)
        change_switch(world.monitor, "tickets", "refund", enable=enable, by="ana", reason="looked at it")
        assert word in as_read(newest_edit(world, first).payload)
        assert word in as_read(newest_edit(world, str(other.root)).payload)
    for name in ("2026-W06", "2026-W07"):
        world.evaluate(name, [fine(REFUND), fine(also)])
    world.evaluate("2026-W20", [also])  # a newer incident, in a message of its own: those before are of the past
    before = newest_edit(world, first)
    change_switch(world.monitor, "tickets", "refund", enable=True, by="ben", reason="again")
    assert newest_edit(world, first).sequence == before.sequence


def test_what_was_said_by_a_clock_that_was_behind_is_edited_when_it_is_right(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "ok", 0.01)])
    world.evaluate("2026-W03", [BILLING])
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="looked at it")
    world.clock.now -= timedelta(hours=3)
    world.person("acknowledges", "billing", "ana")
    assert "Automation is off: the clock is behind the newest change of a switch" in read_edit(world, "billing")
    assert compose.show_switches(world.monitor) == []
    world.clock.now += timedelta(hours=3)
    compose.show_switches(world.monitor)
    assert "Automation is left on against this finding" in read_edit(world, "billing")


def test_an_edit_after_a_segment_was_changed_by_hand_shows_it(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "ok", 0.01)])
    world.evaluate("2026-W03", [BILLING])
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="looked at it")
    for enable in (False, True):
        world.clock.now += timedelta(minutes=1)
        web = ("channel", "web")
        change_switch(world.monitor, "tickets", "billing", enable=enable, by="ana", reason="a form", segment=web)
        assert ("but not for channel = web" in read_edit(world, "billing")) is not enable


@pytest.mark.parametrize("label", ["billing", None])
def test_a_switch_of_the_label_or_its_source_turned_by_anybody_edits_the_message_once(
    world: AlertsWorld, label: str | None
) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [replace(BILLING, rule="ece-increase", value=0.07)])
    world.clock.now += timedelta(hours=1)
    operate(  # as another process would, which writes no message: the next drain does
        world.monitor.store, world.monitor.config, SwitchChange("tickets", label, False, "ben", "model is replaced"),
        world.clock,
    )  # fmt: skip
    before = len(world.deliveries())
    for _ in range(3):
        incident_actions.due_repeats(world.monitor)
    assert len(world.deliveries()) == before + 1
    of = "" if label else " for all of tickets"
    since = "since Mon 2026-01-19 07:05 UTC"
    assert f"Automation is off{of} {since}: turned off by ben: model is replaced." in read_edit(world, "billing")


def test_the_end_of_an_enable_is_reported_in_the_thread_of_its_incident_once_with_what_to_do(
    world: AlertsWorld,
) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="a bad import")
    world.clock.now += timedelta(hours=25)
    for _ in range(3):
        incident_actions.due_repeats(world.monitor)
    ended = [d for d in world.deliveries() if change(d) == "ended"]
    assert [(d.operation, d.root, d.channel) for d in ended] == [
        ("reply", world.incident("billing").root, "#ml-oncall"),
    ]  # fmt: skip
    read = as_read(ended[0].payload)
    assert "Automation is off since Tue 2026-01-20 06:05 UTC: the enable by ana has ended." in read
    assert "billing is still in breach." in read
    assert "<!subteam^S0123>" in read
    assert "Automation is off since Tue 2026-01-20 06:05 UTC" in read_edit(world, "billing")
    found = issues.findings(observed(world.monitor.store, world.monitor.config, world.clock.now), world.clock.now)
    assert "lease_ended" not in [each.reason.value for each in found]  # not in another channel as well


def test_the_end_of_an_enable_is_no_reply_where_only_rules_are_reported_that_do_not_act(world: AlertsWorld) -> None:
    worse = Judged("billing", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [worse])  # in #ml-monitoring
    world.evaluate("2026-W04", [worse, BILLING])
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="a bad import")
    world.clock.now += timedelta(hours=25)
    incident_actions.due_repeats(world.monitor)
    assert [d.channel for d in world.deliveries() if change(d) == "ended"] == ["#ml-oncall"]
    edits = [d for d in world.deliveries() if d.operation == "edit" and d.channel == "#ml-monitoring"]
    assert "the enable by ana has ended" in as_read(edits[-1].payload)


ALSO_OFF = replace(BILLING, label="refund")


def ended_replies(world: AlertsWorld) -> list[str]:
    """What the replies say that report the end of an enable, oldest first."""
    return [as_read(d.payload) for d in world.deliveries() if change(d) == "ended"]


@pytest.mark.parametrize("apart", [timedelta(0), timedelta(minutes=2)], ids=["the same minute", "some minutes apart"])
def test_enables_that_end_together_are_one_reply_that_names_all_labels_and_calls_once(
    world: AlertsWorld, apart: timedelta
) -> None:
    world.evaluate("2026-W02", [fine(BILLING), fine(ALSO_OFF)])
    world.evaluate("2026-W03", [BILLING, ALSO_OFF])
    for label in ("billing", "refund"):
        change_switch(world.monitor, "tickets", label, enable=True, by="ana", reason="a bad import")
        world.clock.now += apart
    world.clock.now += timedelta(hours=25)
    for _ in range(3):
        incident_actions.due_repeats(world.monitor)
    (read,) = ended_replies(world)
    for label in ("billing", "refund"):
        assert f"{label}: Automation is off since Tue 2026-01-20 06:0" in read
        assert f"{label} is still in breach." in read
    assert read.count("Tonight:") == 1
    assert "<!subteam^S0123>" in read
    assert "Before one of them is turned on again:" in read
    (reply,) = (d for d in world.deliveries() if change(d) == "ended")
    assert {world.monitor.store.incident(each).label for each in reply.payload["calls"]} == {"billing", "refund"}


def test_an_enable_that_ends_later_than_another_of_the_same_message_is_a_reply_of_its_own(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [fine(BILLING), fine(ALSO_OFF)])
    world.evaluate("2026-W03", [BILLING, ALSO_OFF])
    for label in ("billing", "refund"):
        change_switch(world.monitor, "tickets", label, enable=True, by="ana", reason="a bad import")
        world.clock.now += timedelta(hours=5)
    world.clock.now += timedelta(hours=15)
    for hours in (0, 5, 5):
        world.clock.now += timedelta(hours=hours)
        incident_actions.due_repeats(world.monitor)
    first, second = ended_replies(world)
    assert ("billing: Automation is off" in first, "refund: Automation is off" in first) == (True, False)
    assert ("billing: Automation is off" in second, "refund: Automation is off" in second) == (False, True)
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="once more")
    world.clock.now += timedelta(hours=25)
    incident_actions.due_repeats(world.monitor)
    assert len(ended_replies(world)) == 3, "each end is reported, also that of a second enable of a label"


def health(world: AlertsWorld) -> list[str]:
    """The reasons of what the watchdog would find now."""
    seen = observed(world.monitor.store, world.monitor.config, world.clock.now)
    return [each.reason.value for each in issues.findings(seen, world.clock.now)]


def test_the_end_of_an_enable_that_was_to_last_longer_than_its_lease_is_reported_once(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    until = world.clock.now + 12 * DAY
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="a bad import", until=until)
    world.clock.now += 8 * DAY
    world.evaluate("2026-W04", [BILLING])
    assert "lease_ending" not in health(world)
    for hours in (25, 1, 24):
        world.clock.now += timedelta(hours=hours)
        incident_actions.due_repeats(world.monitor)
    (read,) = ended_replies(world)
    assert "Automation is off since Wed 2026-01-28 06:05 UTC: the enable by ana has ended." in read
    assert "lease_ended" not in health(world)


def test_a_message_that_says_itself_that_an_enable_has_ended_gets_no_reply_that_says_it_again(
    world: AlertsWorld,
) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    until = world.clock.now + 25 * DAY
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="the queue is long", until=until)
    world.evaluate("2026-W04", [BILLING])  # five days after its lease, and before ``until``
    post = next(d for d in world.deliveries() if d.operation == "post" and d.kind == "incidents")
    assert "Automation is off since Wed 2026-01-21 06:05 UTC: the enable by ana has ended." in as_read(post.payload)
    world.person("acknowledges", "billing", "ben")
    world.evaluate("2026-W05", [BILLING])
    assert ended_replies(world) == []


def test_a_button_of_a_label_is_about_all_of_its_open_incidents(world: AlertsWorld) -> None:
    also, other = replace(BILLING, rule="ece-increase", value=0.07), Judged("other", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [BILLING, also, other])
    done = incident_actions.acknowledge_label(world.monitor, world.incident("billing").id, "ana")
    assert done.words.startswith("tickets/billing: acknowledged (")
    states = {(i.label, i.rule): i.state for i in world.monitor.store.incidents()}
    assert states == {
        ("billing", "automated-overconfidence"): "acknowledged", ("billing", "ece-increase"): "acknowledged",
        ("other", "ece-increase"): "open",
    }  # fmt: skip
    again = incident_actions.acknowledge_label(world.monitor, world.incident("billing").id, "ben")
    assert (again.words.endswith("already acknowledged"), again.deliveries) == (True, ())
    until = world.clock.now + DAY
    assert (
        incident_actions.silence_label(world.monitor, world.incident("billing").id, until, "ben").words.count(
            "silenced"
        )
        == 1
    )
    assert {i.state for i in world.monitor.store.incidents() if i.label == "billing"} == {"silenced"}


def test_a_source_that_cannot_be_read_is_one_incident_however_many_windows(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "ok", 0.01)])
        for name in ("2026-W03", "2026-W03", "2026-W04"):
            window = week(name, UTC_ZONE)
            world.clock.now = window.end + timedelta(hours=6, minutes=5)
            failed = StoredReading("tickets", "relation_error", error="no column score; password=hunter2")
            world.monitor.store.save_reading(window, failed, world.clock.now)
            watch_data(world.monitor, ["tickets"])
        told = [d for d in world.deliveries() if d.kind == "monitor"]
    assert [d.operation for d in told] == ["post", "edit", "reply"]  # the reply: that the lease has ended
    read = as_read(told[0].payload)
    assert "tickets could not be read for 2026-W03: no column score" in read
    assert "Automation is on for 1 label; without an evaluation it ends 2026-01-21 00:00 UTC." in read
    assert "hunter2" not in read
    assert "docs/runbook/source_not_read.md" in read
    after = as_read(told[1].payload)
    assert "tickets could not be read for 2026-W04 (since 2026-W03)" in after
    assert "No label acts alone now: automation of 1 label ended with its lease, at 2026-01-21 00:00 UTC." in after


def test_labels_turned_off_because_nothing_could_be_judged_are_named(tmp_path: Path) -> None:
    with alerts_world(tmp_path, config=CONFIG.replace("keep", "disable")) as world:
        world.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "ok", 0.01)])
        for _ in range(2):
            world.evaluate("2026-W03", [Judged("billing", "automated-overconfidence", "few")])
            watch_data(world.monitor, ["tickets"])
        (told,) = [d for d in world.deliveries() if d.kind == "monitor"]
        assert world.monitor.store.switch("tickets", "billing").state == "off"
    read = as_read(told.payload)
    assert "was turned off for billing, since no acting rule could be judged (too_few_rows)" in read


def read_edit(world: AlertsWorld, label: str) -> str:
    return as_read(newest_edit(world, str(world.incident(label).root)).payload)


def opened_in(window: Window) -> Incident:
    return Incident(
        "ghost", "", "", None, "warning", "open", window.schedule, window.end, window.name, "v", "v", window.start, 1,
        "increased",
    )  # fmt: skip


def with_config(world: AlertsWorld, folder: Path, config: str) -> None:
    (folder / "other.yaml").write_text(config)
    world.monitor = replace(world.monitor, config=load_config(folder / "other.yaml"))


def test_a_message_stays_that_of_its_evaluation_where_its_incident_is_older(world: AlertsWorld, tmp_path: Path) -> None:
    with_config(world, tmp_path, CONFIG.partition("routes:")[0])
    world.evaluate("2026-W02", [BILLING])  # no route: nobody is told
    with_config(world, tmp_path, CONFIG)
    world.evaluate("2026-W03", [BILLING])
    world.person("acknowledges", "billing", "ana")
    shown = read_edit(world, "billing")
    assert "[header] billing in breach: critical, acknowledged (2026-W03)" in shown
    assert "in breach for 2 weeks (since 2026-W02)" in shown


def test_what_was_refused_later_does_not_hide_why_an_incident_was_resolved(world: AlertsWorld) -> None:
    other = Judged("other", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [REFUND, other])
    world.person("resolves", "refund", "ana", why="recalibrated")
    assert world.person("acknowledges", "refund", "ben").refused
    world.person("acknowledges", "other", "ana")
    assert "resolved by ana: recalibrated." in read_edit(world, "refund")


def test_a_label_that_disappeared_is_reported_once_also_where_somebody_acknowledges_it_then(world: AlertsWorld) -> None:
    gone = Judged("refund", "ece-increase", "gone")
    world.evaluate("2026-W02", [REFUND])
    world.evaluate("2026-W03", [gone])
    world.person("acknowledges", "refund", "ana")
    world.evaluate("2026-W04", [gone])
    assert [kind for kind, _ in kinds(world)].count("reply") == 1
    shown = read_edit(world, "refund")
    assert "Acknowledged by ana" in shown
    assert "was not judged: no item with a known outcome arrived (2026-W04)" in shown
    assert f"calmon incidents resolve {world.incident('refund').id[:8]}" in shown


def test_what_becomes_graver_calls_the_people_of_its_new_route(world: AlertsWorld, tmp_path: Path) -> None:
    world.evaluate("2026-W02", [REFUND])
    with_config(
        world, tmp_path, CONFIG.replace("threshold: 0.02, severity: warning", "threshold: 0.02, severity: critical")
    )
    world.evaluate("2026-W03", [REFUND])
    reply = world.deliveries()[-1]
    assert (reply.operation, reply.payload["metadata"]["event_payload"]["change"]) == ("reply", "call")
    assert "<!subteam^S0123>" in reply.payload["text"]
    world.evaluate("2026-W04", [REFUND])
    assert "<!subteam^S0123>" not in world.deliveries()[-1].payload["text"]


def test_what_comes_back_calls_its_own_people_also_beside_a_lesser_finding(world: AlertsWorld) -> None:
    also = Judged("billing", "ece-increase", "breach", 0.07)
    world.evaluate("2026-W02", [also, BILLING])
    world.evaluate("2026-W03", [also, fine(BILLING)])
    world.evaluate("2026-W04", [also, BILLING])
    assert "back in breach: reopened" in world.deliveries()[-1].payload["text"]
    assert world.deliveries()[-1].payload["text"].endswith("<!subteam^S0123>")


@pytest.mark.parametrize("gone", ["rule", "source", "label"])
def test_an_incident_that_nothing_judges_any_more_ends_and_says_why(
    gone: str, world: AlertsWorld, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [REFUND, BILLING])
    shown = CONFIG.replace("ece-increase", "ece-rise")
    if gone == "source":
        shown = CONFIG.replace("  tickets:", "  mail:")
        world.monitor.store.apply_incidents([], [replace(world.incident("billing"), state="resolved", version=2)], [])
    if gone == "label":
        shown = CONFIG.replace("{id: ece-increase,", "{id: ece-increase, match: {label: billing},")
    with_config(world, tmp_path, shown)
    window = week("2026-W03", UTC_ZONE)
    source = "mail" if gone == "source" else "tickets"
    for _ in range(2):  # once, however often it is run
        act.act(world.monitor, window, [replace(world.evaluated(window, []), source=source)], {source: ""})
    found = world.incident("refund")
    assert (found.state, found.resolved_by, found.resolved_window) == ("resolved", "calmon", None)
    rule = "weekly rule ece-increase"
    what = {"rule": rule, "source": "source tickets", "label": f"{rule} for tickets/refund"}[gone]
    assert f"resolved by calmon: alerts.yaml has no {what} any more" in read_edit(world, "refund")
    mine = [d for d in world.deliveries() if d.operation == "reply" and d.root == found.root]
    replies = [d.payload["text"] for d in mine if change(d) == "news"]
    assert len(replies) == 1
    assert "no rule watches it any more" in replies[0]
    assert [i.state for i in world.monitor.store.incidents() if i.label == "billing"] == [
        "resolved" if gone == "source" else "open"
    ]


ON_ANOTHER = CONFIG.replace(
    "automation: {",
    "  - {id: moving, metric: ece, condition: above, threshold: 0.08, schedule: SCHEDULE, severity: critical, "
    "actions: [slack, disable_automation]}\nautomation: {",
)
MOVING = Judged("billing", "moving", "breach", 0.12)


@pytest.mark.parametrize("to", ["weekly", "daily"])
@pytest.mark.parametrize("outcome", ["breach", "ok", "unconfirmed"])
def test_an_incident_of_a_rule_with_another_schedule_now_ends_and_a_breach_opens_a_new_one(
    to: Schedule, outcome: str, tmp_path: Path
) -> None:
    """Two weeks, or two days, of the former schedule; then windows of the new one, each of which a run completes."""
    before: Schedule = "daily" if to == "weekly" else "weekly"
    named = {"weekly": ("2026-W02", "2026-W03"), "daily": ("2026-01-11", "2026-01-19")}
    with alerts_world(tmp_path, config=ON_ANOTHER.replace("SCHEDULE", before), sends=False) as world:
        evaluate_window(world, windows.named(before, named[before][0], UTC_ZONE), [MOVING])
        first = world.incident("billing")
        with_config(world, tmp_path, ON_ANOTHER.replace("SCHEDULE", to))
        judged = replace(MOVING, outcome=outcome)
        evaluate_window(world, windows.named(to, named[to][1], UTC_ZONE), [judged])
        last, former = world.incident("billing"), world.monitor.store.incident(first.id)
        if outcome == "unconfirmed":  # resolves nothing
            assert former == first
            return
        assert (former.state, former.resolved_by, former.schedule) == ("resolved", "calmon", before)
        assert (last.id == first.id) == (outcome == "ok")
        if outcome == "breach":
            assert (last.state, last.schedule, last.opened_window, last.root) == ("open", to, named[to][1], first.root)
            (reply,) = [d for d in world.deliveries() if d.root == first.root and change(d) == "call"]
            assert "new" in reply.payload["text"]


OTHER_QUESTION = CONFIG.replace("id: ece-increase, metric: ece,", "id: ece-increase, metric: mce,")


@pytest.mark.parametrize("outcome", ["breach", "ok"])
def test_an_incident_of_a_rule_that_asks_something_else_now_ends_and_a_breach_opens_a_new_one(
    outcome: str, world: AlertsWorld, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [REFUND])
    first = world.incident("refund")
    with_config(world, tmp_path, OTHER_QUESTION)
    world.evaluate("2026-W03", [replace(REFUND, outcome=outcome)])
    former, last = world.monitor.store.incident(first.id), world.incident("refund")
    assert (former.state, former.resolved_by, former.breaches) == ("resolved", "calmon", 1)
    assert (last.id == first.id) == (outcome == "ok")
    mine = [d.payload for d in world.deliveries() if d.operation == "reply" and d.root == first.root]
    assert "asks something else under this rule's name now; whether it is good again is not known" in str(mine)
    assert outcome == "ok" or (last.state, last.opened_window, last.root) == ("open", "2026-W03", first.root)
    world.evaluate("2026-W04", [REFUND])
    assert world.monitor.store.incident(first.id) == former
    assert world.incident("refund").breaches == (2 if outcome == "breach" else 1)


def test_an_incident_that_ends_under_another_limit_says_so(world: AlertsWorld, tmp_path: Path) -> None:
    world.evaluate("2026-W02", [REFUND])
    with_config(world, tmp_path, CONFIG.replace("threshold: 0.02", "threshold: 0.5"))
    world.evaluate("2026-W03", [fine(REFUND)])
    (said,) = [d.payload for d in world.deliveries() if d.operation == "reply" and change(d) == "news"]
    assert "The limit in alerts.yaml was 0.02 in 2026-W02." in str(said)


def evaluate_window(world: AlertsWorld, window: Window, judged: list[Judged]) -> None:
    world.clock.now = max(world.clock.now, window.end + timedelta(hours=6, minutes=5))
    part = world.evaluated(window, judged)
    record(world.monitor, window, [part])
    act.act(world.monitor, window, [part], {"tickets": ""})


def test_a_run_that_may_not_act_ends_nothing(world: AlertsWorld, tmp_path: Path) -> None:
    world.evaluate("2026-W02", [REFUND])
    with_config(world, tmp_path, CONFIG.replace("ece-increase", "ece-rise"))
    window = week("2026-W03", UTC_ZONE)
    act.act(world.monitor, window, [world.evaluated(window, [])], {"tickets": "not done: backfill"})
    assert world.incident("refund").state == "open"


def test_a_green_message_says_that_automation_is_still_off_and_offers_to_turn_it_on(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    world.evaluate("2026-W04", [fine(BILLING)])
    shown = read_edit(world, "billing")
    assert ":large_green_circle:" in shown
    assert "Automation is off since Mon 2026-01-19 06:05 UTC (weekly run)." in shown
    assert "[Turn on]" in shown
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="mended")
    assert "Automation is off" not in read_edit(world, "billing")


def test_a_label_that_no_rule_can_bring_back_says_so_and_how_it_is_turned_on(
    world: AlertsWorld, tmp_path: Path
) -> None:
    back = CONFIG.replace("lease: 9d", "lease: 9d, re_enable: {after: 2}")
    with_config(world, tmp_path, back)
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    assert "does not come back by itself" not in as_read(world.deliveries()[-1].payload)
    of_days = "{id: of-days, schedule: daily,"
    with_config(world, tmp_path, back.replace("{id: automated-overconfidence,", of_days))
    world.evaluate("2026-W04", [fine(REFUND)])
    shown = read_edit(world, "billing")
    assert "alerts.yaml has no weekly rule automated-overconfidence any more" in shown
    assert "Automation is off since Mon 2026-01-19 06:05 UTC (weekly run)." in shown
    words = "No weekly rule acts on it any more, so it does not come back by itself"
    assert f"{words} (`calmon automation enable`)." in shown
    assert "[Turn on]" in shown
    rows = {row["label"]: row for row in status_rows(world.monitor, switches_now(world), "tickets", "billing")}
    assert rows["billing"]["stays_off"] == words


def switches_now(world: AlertsWorld) -> SwitchSnapshot:
    found = world.monitor.store.stored_switches()
    return snapshot_of(world.clock.now, found.switches, found.automate_at, found.identity)


def test_an_incident_of_a_schedule_that_has_lost_all_rules_ends_at_any_run(world: AlertsWorld, tmp_path: Path) -> None:
    with_config(world, tmp_path, ON_ANOTHER.replace("SCHEDULE", "daily"))
    day = windows.day("2026-01-12", UTC_ZONE)
    world.clock.now = day.end + timedelta(hours=7)
    part = replace(world.evaluated(day, [MOVING]), window=day)
    record(world.monitor, day, [part])
    act.act(world.monitor, day, [part], {"tickets": ""})
    assert (world.incident("billing").schedule, world.incident("billing").state) == ("daily", "open")
    with_config(world, tmp_path, CONFIG)
    world.evaluate("2026-W04", [fine(REFUND)])
    assert world.incident("billing").state == "resolved"


def test_a_label_with_neither_switch_nor_baseline_disappears_not_unseen_either(tmp_path: Path) -> None:
    made = make_world(tmp_path)
    window = week(WEEKS[9], UTC_ZONE)
    with made.opened(lambda: window.end + timedelta(hours=6)) as monitor:
        ghost = replace(
            opened_in(week(WEEKS[8], UTC_ZONE)), rule="ece-increase", source="tickets", label="ghost"
        )  # its rows came in one week only
        monitor.store.apply_incidents([ghost], [], [])
        run_window(monitor, window)
        (event,) = monitor.store.incident_events(ghost.id)
        assert (event.kind, event.reason) == ("continued", "label disappeared: not evaluated, stays open")
        assert monitor.store.incident(ghost.id).state == "open"
