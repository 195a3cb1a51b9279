"""The life of incidents over a real history and a local Slack: what windows, people and time do, and what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.alerting import compose
from monitor.alerting.health.watchdog import watch_monitor
from monitor.alerting.slack.client import SlackSender
from monitor.config.load import load_config
from monitor.core.records import Action, Delivery
from monitor.core.windows import week
from monitor.evaluation.data import WindowCounts
from monitor.history.readings import StoredReading
from monitor.incidents.findings import decisions
from monitor.operations import act, incident_actions
from monitor.operations.change_switch import SwitchChange, change_switch, operate
from monitor.operations.diagnose import diagnoses_of
from tests.fakes.alerts_world import CONFIG, UTC_ZONE, AlertsWorld, Judged, alerts_world
from tests.fakes.reading import as_read
from tests.fakes.slack import TOKEN, FakeSlack

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)
BILLING = Judged("billing", "automated-overconfidence", "breach", 0.12)
ALSO = replace(BILLING, rule="ece-increase", value=0.07)
REFUND = Judged("refund", "ece-increase", "breach", 0.07)
MENTION = "<!subteam^S0123>"
DAILY = CONFIG.replace(
    "automation: {",
    "  - {id: daily-ece, metric: ece, condition: above, threshold: 0.08, schedule: daily, severity: warning,"
    " actions: [slack]}\nautomation: {",
)
OF_A_DAY = Judged("billing", "daily-ece", "breach", 0.12)


def fine(line: Judged) -> Judged:
    return replace(line, outcome="ok", value=0.01)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AlertsWorld]:
    with alerts_world(tmp_path, sends=False) as opened:
        yield opened


@pytest.fixture
def told(tmp_path: Path, slack: FakeSlack) -> Iterator[AlertsWorld]:
    """A world whose messages go to the local Slack."""
    with alerts_world(tmp_path, slack_bot_token=TOKEN, slack_api_url=slack.url) as opened:
        yield opened


def kinds(world: AlertsWorld) -> list[str]:
    """The operations that were written about incidents, pictures left out."""
    return [d.operation for d in world.deliveries() if d.kind == "incidents" and d.operation != "file"]


def newest_edit(world: AlertsWorld, label: str) -> Delivery:
    thread = world.monitor.store.thread(str(world.incident(label).root))
    return max((d for d in thread if d.operation == "edit"), key=lambda d: d.sequence)


def read_edit(world: AlertsWorld, label: str = "billing") -> str:
    return as_read(newest_edit(world, label).payload)


def with_config(world: AlertsWorld, folder: Path, config: str) -> None:
    (folder / "other.yaml").write_text(config)
    world.monitor = replace(world.monitor, config=load_config(folder / "other.yaml"))


def living(slack: FakeSlack, channel: str = "ml-oncall") -> list[dict[str, Any]]:
    """The messages of the channel itself."""
    return [m for m in slack.shown(channel) if m.get("thread_ts", m["ts"]) == m["ts"]]


def in_thread(slack: FakeSlack, root: dict[str, Any]) -> list[str]:
    return [m["text"] for m in slack.thread(root["ts"]) if not m.get("files")]


def shown(message: dict[str, Any]) -> str:
    return as_read({"channel": "", **message})


# --- a whole life


def test_the_life_of_an_incident_is_one_message_and_a_line_for_each_change(told: AlertsWorld, slack: FakeSlack) -> None:
    told.evaluate("2026-W02", [fine(BILLING), fine(ALSO)])
    told.evaluate("2026-W03", [fine(BILLING), ALSO])
    (root,) = living(slack, "ml-monitoring")
    assert "[Acknowledge]" in shown(root)
    assert (in_thread(slack, root), len(told.monitor.store.incidents())) == ([], 1)

    told.person("acknowledges", "billing", "ana")
    told.drain(told.clock.now + HOUR)
    told.evaluate("2026-W04", [fine(BILLING), ALSO])  # goes on: no news
    assert "Acknowledged by ana" in shown(root)
    assert "[Acknowledge]" not in shown(root)
    assert in_thread(slack, root) == []

    told.evaluate("2026-W05", [BILLING, ALSO])
    worse = in_thread(slack, root)[0]
    assert worse.startswith(":red_circle: *2026-W05* billing has become more severe")
    assert worse.endswith(MENTION)
    assert "[header] billing must not act alone" in shown(root)
    assert "Automation is off" in shown(root)
    assert told.incident("billing").state == "open"

    told.evaluate("2026-W06", [fine(BILLING), fine(ALSO)])
    assert "billing is fine again" in in_thread(slack, root)[1]
    assert "[actions]" not in shown(root)
    told.evaluate("2026-W08", [fine(BILLING), ALSO])
    assert "billing is back" in in_thread(slack, root)[2]
    assert told.incident("billing").reopened == 1

    told.person("notes", "billing", "ben", why="the import of Tuesday")
    told.person("resolves", "billing", "ana", why="recalibrated")
    told.drain(told.clock.now + HOUR)
    assert in_thread(slack, root)[3:] == [
        ":large_yellow_circle: ben: the import of Tuesday.",
        ":large_green_circle: billing resolved by hand (recalibrated).",
    ]
    events = told.monitor.store.incident_events(told.incident("billing").id)
    assert [event.kind for event in events] == [
        "opened", "acknowledged", "continued", "continued", "resolved", "reopened", "noted", "resolved",
    ]  # fmt: skip
    assert (len(living(slack)), len(living(slack, "ml-monitoring"))) == (0, 1)
    told.evaluate("2026-W08", [fine(BILLING), ALSO])  # judged once more: ana knew of these rows
    assert (told.incident("billing").state, len(in_thread(slack, root))) == ("resolved", 5)
    told.evaluate("2026-W20", [fine(BILLING), ALSO])
    assert len(living(slack, "ml-monitoring")) == 2


def test_both_schedules_of_a_label_are_one_incident_with_one_acknowledgement(tmp_path: Path) -> None:
    with alerts_world(tmp_path, config=DAILY, sends=False) as world:
        world.evaluate("2026-W03", [ALSO])
        world.person("acknowledges", "billing", "ana")
        for name in ("2026-01-19", "2026-01-20"):
            world.evaluate(name, [OF_A_DAY])
        found = world.incident("billing")
        assert (len(world.monitor.store.incidents()), found.state) == (1, "acknowledged")
        assert found.opened_window == "2026-W03"
        assert set(found.rules) == {"ece-increase", "daily-ece"}
        world.evaluate("2026-01-21", [fine(OF_A_DAY)])
        assert world.incident("billing").state == "acknowledged", "the week is still the newest one that says anything"
        world.evaluate("2026-W04", [fine(BILLING), fine(ALSO)])
        assert world.incident("billing").state == "resolved"
        assert kinds(world).count("post") == 1


def test_a_day_like_the_one_before_edits_nothing(tmp_path: Path) -> None:
    with alerts_world(tmp_path, config=DAILY, sends=False) as world:
        for name in ("2026-01-19", "2026-01-20", "2026-01-21"):
            world.evaluate(name, [OF_A_DAY])
        assert kinds(world) == ["post"]
        assert world.incident("billing").window == "2026-01-21"


def test_many_labels_that_fail_at_once_are_one_message_that_calls_once(told: AlertsWorld, slack: FakeSlack) -> None:
    told.evaluate("2026-W02", [replace(BILLING, label=f"label{at}") for at in range(7)])
    (root,) = living(slack)
    assert "[header] 7 labels of tickets need somebody" in shown(root)
    assert "and 1 more" in shown(root)
    (incident,) = told.monitor.store.incidents()
    assert (incident.kind, len(incident.labels)) == ("burst", 7)
    told.evaluate("2026-W03", [fine(replace(BILLING, label=f"label{at}")) for at in range(7)])
    assert [i.state for i in told.monitor.store.incidents()] == ["resolved"]


# --- what is sent, and when


def test_the_message_goes_where_the_gravest_rule_belongs_with_a_picture(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [ALSO, BILLING])
    assert [(d.operation, d.channel) for d in world.deliveries()] == [("post", "#ml-oncall"), ("file", "#ml-oncall")]


def test_what_was_open_before_a_route_and_a_token_existed_is_sent_by_the_next_drain(
    tmp_path: Path, slack: FakeSlack
) -> None:
    with alerts_world(tmp_path, config=CONFIG.partition("routes:")[0]) as world:
        world.evaluate("2026-W02", [BILLING])
        assert (world.incident("billing").root, world.deliveries()) == (None, [])
        with_config(world, tmp_path, CONFIG)
        world.drain(world.clock.now + HOUR)  # a route, and no token: it is written and not sent
        assert [d.state for d in world.deliveries() if d.operation == "post"] == ["not_sent"]
        world.monitor = replace(world.monitor, sender=SlackSender(TOKEN, slack.url))
        for _ in range(2):
            world.drain(world.clock.now + HOUR)
        (root,) = living(slack)
        assert "billing must not act alone" in shown(root)
        world.evaluate("2026-W03", [fine(BILLING)])
        assert "billing is fine again" in in_thread(slack, root)[0]


def test_a_message_that_somebody_deleted_in_slack_is_followed_by_another_one(
    told: AlertsWorld, slack: FakeSlack
) -> None:
    told.evaluate("2026-W02", [BILLING])
    (root,) = living(slack)
    slack.delete(root["ts"])
    told.person("acknowledges", "billing", "ana")
    told.drain(told.clock.now + HOUR)
    assert living(slack) == [], "nobody asks for it: the incident is acknowledged"
    told.evaluate("2026-W03", [BILLING])
    (again,) = living(slack)
    assert told.monitor.store.incident(told.incident("billing").id).root != root["metadata"]
    assert "Acknowledged by ana" in shown(again)


def states_of(world: AlertsWorld, *labels: str) -> list[str]:
    return [
        each.state for each in act.settled(world.monitor, [Action("slack", "tickets", name, "") for name in labels])
    ]


def test_a_run_reports_the_state_of_the_message_of_each_label(world: AlertsWorld, tmp_path: Path) -> None:
    world.evaluate("2026-W02", [BILLING])
    assert states_of(world, "billing", "refund") == ["pending", act.NO_INCIDENT]
    (folder := tmp_path / "nowhere").mkdir()
    with alerts_world(folder, config=CONFIG.partition("routes:")[0]) as nowhere:
        nowhere.evaluate("2026-W02", [BILLING])
        assert states_of(nowhere, "billing") == [act.NO_ROUTE]


def test_a_run_says_of_what_a_person_resolved_that_new_rows_bring_it_back(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    world.person("resolves", "billing", "bob", why="the model is fixed")
    world.evaluate("2026-W02", [BILLING])
    assert states_of(world, "billing") == ["none, resolved by bob; new rows bring it back"]


def test_what_could_not_be_judged_stays_open_and_says_so_once(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [REFUND])
    gone = [replace(line, label="refund", outcome="gone") for line in (REFUND, BILLING)]
    for name in ("2026-W03", "2026-W04"):
        world.evaluate(name, gone)
    assert kinds(world).count("reply") == 1
    assert "[header] refund cannot be judged" in read_edit(world, "refund")
    assert "It has no rows in 2026-W0" in read_edit(world, "refund")
    for name in ("2026-W05", "2026-W06"):
        world.evaluate(name, gone)
    assert (world.incident("refund").state, world.incident("refund").last) == ("resolved", "not_seen")


@pytest.mark.parametrize("is_silenced", [False, True])
def test_what_becomes_more_severe_calls_the_people_of_its_new_route(
    is_silenced: bool, world: AlertsWorld, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [REFUND])
    if is_silenced:
        world.person("silences", "refund", "ana", length=30 * DAY)
    grave = CONFIG.replace("threshold: 0.02, severity: warning", "threshold: 0.02, severity: critical")
    with_config(world, tmp_path, grave)
    world.evaluate("2026-W03", [REFUND])
    reply = world.deliveries()[-1]
    assert (reply.operation, reply.payload["metadata"]["event_payload"]["change"]) == ("reply", "call")
    assert MENTION in reply.payload["text"]


# --- people


def test_a_run_that_did_not_see_what_a_person_did_meanwhile_decides_again(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [BILLING])
    store, part = world.monitor.store, world.evaluated(week("2026-W03", UTC_ZONE), [BILLING])
    made = diagnoses_of(world.monitor, part, WindowCounts(part.window))
    with store.one_moment(), ThreadPoolExecutor(1) as elsewhere:
        seen = store.incidents()
        elsewhere.submit(world.person, "acknowledges", "billing", "ana").result()
        about = {verdict.id: verdict for verdict in part.verdicts}
        stale = compose.compose(world.monitor, decisions(made, about, seen, world.clock.now))
    assert store.apply_incidents(stale.incidents, stale.deliveries, stale.events) == "conflict"
    assert world.incident("billing").window == "2026-W02"
    world.evaluate("2026-W03", [BILLING])
    assert (world.incident("billing").window, world.incident("billing").state) == ("2026-W03", "acknowledged")


def test_a_silence_says_nothing_in_the_thread_and_ends_by_itself_with_an_edit(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [REFUND])
    world.person("silences", "refund", "ana", length=10 * DAY)
    silenced = "Silenced until Thu 2026-01-22 06:05 UTC, or until it becomes more severe, by ana."
    assert silenced in read_edit(world, "refund")
    world.evaluate("2026-W03", [replace(REFUND, outcome="few")])
    assert "reply" not in kinds(world)
    world.clock.now += 2 * DAY
    assert incident_actions.due_repeats(world.monitor) == []
    assert world.incident("refund").state == "silenced"
    world.clock.now += 8 * DAY
    incident_actions.due_repeats(world.monitor)
    assert world.incident("refund").state == "open"
    assert "[Acknowledge]" in read_edit(world, "refund")
    assert "reply" not in kinds(world)


# --- switches


def test_a_message_follows_its_switch_whoever_changes_it_and_says_nothing_twice(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    post = next(d for d in world.deliveries() if d.operation == "post")
    assert "[Turn automation on]" in as_read(post.payload)
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="looked at it")
    assert "[Turn automation off]" in read_edit(world)
    until = "Tue 2026-01-20 06:05 UTC"
    assert f"Automation is left on against this finding: enabled by ana until {until}: looked at it." in read_edit(
        world
    )
    world.clock.now += timedelta(minutes=1)
    assert compose.show_switches(world.monitor) == []
    with world.monitor.store.one_moment():
        assert compose.switch_edits(world.monitor) == []
    change_switch(world.monitor, "tickets", "billing", enable=False, by="ben", reason="again")
    assert "turned off by ben: again" in read_edit(world)


@pytest.mark.parametrize("label", ["billing", None])
def test_a_switch_that_another_process_turned_edits_the_message_once(world: AlertsWorld, label: str | None) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [ALSO, fine(BILLING)])
    world.clock.now += HOUR
    operate(  # writes no message: the next drain does
        world.monitor.store, world.monitor.config, SwitchChange("tickets", label, False, "ben", "model is replaced"),
        world.clock,
    )  # fmt: skip
    before = len(world.deliveries())
    for _ in range(3):
        incident_actions.due_repeats(world.monitor)
    assert len(world.deliveries()) == before + 1
    of = "" if label else " for all of tickets"
    assert f"Automation is off{of} since Mon 2026-01-19 07:05 UTC: turned off by ben" in read_edit(world)


def test_what_was_said_by_a_clock_that_was_behind_is_edited_when_it_is_right(world: AlertsWorld) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="looked at it")
    world.clock.now -= timedelta(hours=3)
    world.person("acknowledges", "billing", "ana")
    assert "Automation is off: the clock is behind the newest change of a switch" in read_edit(world)
    assert compose.show_switches(world.monitor) == []
    world.clock.now += timedelta(hours=3)
    compose.show_switches(world.monitor)
    assert "Automation is left on against this finding" in read_edit(world)


def test_a_label_that_is_fine_again_says_that_automation_is_still_off_until_somebody_turns_it_on(
    world: AlertsWorld,
) -> None:
    world.evaluate("2026-W02", [fine(BILLING)])
    world.evaluate("2026-W03", [BILLING])
    world.evaluate("2026-W04", [fine(BILLING)])
    assert "[header] :large_green_circle: billing is fine again" in read_edit(world)
    assert "Automation is off since Mon 2026-01-19 06:05 UTC (weekly run)." in read_edit(world)
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="mended")
    assert "Automation is off" not in read_edit(world)


# --- what no rule watches, and what cannot be read


@pytest.mark.parametrize("gone", ["rules", "source", "label"])
def test_an_incident_that_nothing_judges_any_more_ends_and_says_why(
    gone: str, world: AlertsWorld, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [REFUND, BILLING])
    of_billing = "{id: ece-increase, match: {label: billing},"
    other = {
        "rules": CONFIG.replace("{id: ece-increase,", of_billing).replace("{id: auto", "{match: {label: x}, id: auto"),
        "source": CONFIG.replace("  tickets:", "  mail:"),
        "label": CONFIG.replace("{id: ece-increase,", of_billing).replace(
            "{id: auto", "{match: {label: billing}, id: auto"
        ),
    }[gone]
    with_config(world, tmp_path, other)
    part = world.evaluated(week("2026-W03", UTC_ZONE), [])
    for _ in range(2):  # once, however often it is run
        world.act_on(replace(part, source="mail" if gone == "source" else "tickets"))
    found = world.incident("refund")
    assert (found.state, found.resolved_by, found.resolved_window) == ("resolved", "calmon", None)
    assert "Resolved by calmon." in read_edit(world, "refund")
    (reply,) = [d.payload["text"] for d in world.deliveries() if d.operation == "reply" and d.root == found.root]
    assert "refund is not watched by any rule any more: resolved" in reply
    assert "alerts.yaml has no rule for it any more; whether it is good again is not known" in reply
    assert world.incident("billing").state == ("resolved" if gone == "source" else "open")


def test_a_run_that_may_not_act_ends_nothing(world: AlertsWorld, tmp_path: Path) -> None:
    world.evaluate("2026-W02", [REFUND])
    world.act_on(world.evaluated(week("2026-W03", UTC_ZONE), [fine(REFUND)]), "not done: backfill")
    assert world.incident("refund").state == "open"


def test_a_source_that_cannot_be_read_is_one_incident_however_many_windows(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W02", [fine(BILLING)])
        for name in ("2026-W03", "2026-W03", "2026-W04"):
            window = week(name, UTC_ZONE)
            world.clock.now = window.end + timedelta(hours=6, minutes=5)
            failed = StoredReading("tickets", "relation_error", error="no column score; password=hunter2")
            world.monitor.store.save_reading(window, failed, world.clock.now)
            watch_monitor(world.monitor)
        told = [d for d in world.deliveries() if d.kind == "monitor"]
    assert [d.operation for d in told] == ["post", "edit", "reply"]  # the reply: that the lease has ended
    read = as_read(told[0].payload)
    assert "tickets could not be read for 2026-W03: no column score" in read
    assert "Automation is on for 1 label; without an evaluation it ends 2026-01-21 00:00 UTC." in read
    assert "hunter2" not in read
    assert "calmon docs source_not_read" in read
    after = as_read(told[1].payload)
    assert "tickets could not be read for 2026-W04 (since 2026-W03)" in after
    assert "No label acts alone now: automation of 1 label ended with its lease, at 2026-01-21 00:00 UTC." in after


def test_labels_turned_off_because_nothing_could_be_judged_are_named(tmp_path: Path) -> None:
    with alerts_world(tmp_path, config=CONFIG.replace("keep", "disable")) as world:
        world.evaluate("2026-W02", [fine(BILLING)])
        for _ in range(2):
            world.evaluate("2026-W03", [replace(BILLING, outcome="few")])
            watch_monitor(world.monitor)
        (told,) = [d for d in world.deliveries() if d.kind == "monitor"]
        assert world.monitor.store.switch("tickets", "billing").state == "off"
    read = as_read(told.payload)
    assert "was turned off for billing, since no acting rule could be judged (too_few_rows)" in read
