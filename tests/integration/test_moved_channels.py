"""A channel that is archived: what was kept for it goes where alerts.yaml sends it now, and calls people there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.health.watchdog import watch_monitor
from monitor.alerting.slack.message import delivery_of, trial_message
from monitor.alerting.slack.outbox import drain
from monitor.operations import incident_actions
from tests.fakes import slack
from tests.fakes.alerts_world import CONFIG, START, AlertsWorld, Judged, alerts_world

BREACH = Judged("billing", "automated-overconfidence", "breach", 0.12)
FINE = replace(BREACH, outcome="ok", value=0.01)
ELSEWHERE = CONFIG.replace('"#ml-oncall"', '"#new-oncall"')
HOUR = timedelta(hours=1)
MENTION = "<!subteam^S0123>"


@pytest.fixture
def workspace() -> Iterator[slack.FakeSlack]:
    with slack.running() as fake:
        fake.channels["new-oncall"] = "C003"
        yield fake


@contextmanager
def life(folder: Path, workspace: slack.FakeSlack, config: str, now: datetime = START) -> Iterator[AlertsWorld]:
    """The world by this alerts.yaml, from ``now`` on."""
    with alerts_world(folder, config=config, slack_bot_token=slack.TOKEN, slack_api_url=workspace.url) as world:
        world.clock.now = now
        yield world


def roots(workspace: slack.FakeSlack, channel: str) -> list[str]:
    return [m["text"] for m in workspace.shown(channel) if m.get("thread_ts", m["ts"]) == m["ts"]]


def replies(workspace: slack.FakeSlack, channel: str) -> list[str]:
    return [m["text"] for m in workspace.shown(channel) if m.get("thread_ts", m["ts"]) != m["ts"]]


def test_a_message_that_was_never_sent_goes_to_the_channel_that_routes_name_now_with_its_thread(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    workspace.archived.add("ml-oncall")
    with life(tmp_path, workspace, CONFIG) as world:
        world.evaluate("2026-W02", [BREACH])
        world.clock.now += 2 * HOUR
        watch_monitor(world.monitor)
        world.drain(world.clock.now)
        now = world.clock.now
    assert roots(workspace, "ml-monitoring")[0].startswith("Monitor: messages to #ml-oncall wait")
    with life(tmp_path, workspace, ELSEWHERE, now) as world:
        world.drain(now + HOUR)
        watch_monitor(world.monitor)
        world.drain(now + 2 * HOUR)
        assert {d.state for d in world.deliveries()} <= {"sent", "superseded"}
        world.drain(now + 26 * HOUR)
    (root,) = roots(workspace, "new-oncall")
    assert root.startswith("billing must not act alone")
    assert MENTION in root
    picture, reminder = replies(workspace, "new-oncall")
    assert (picture, "Not acknowledged yet" in reminder) == ("", True)
    assert roots(workspace, "ml-monitoring")[0].startswith("Monitor: nothing is wrong")


def test_a_drain_that_ends_just_after_a_moved_message_was_posted_leaves_no_second_call(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    """The reminder that had waited for the old channel came minutes after the message itself."""
    with life(tmp_path, workspace, CONFIG) as world:
        world.evaluate("2026-W02", [BREACH])
        workspace.archived.add("ml-oncall")
        world.evaluate("2026-W03", [BREACH])
        now = world.clock.now
    with life(tmp_path, workspace, ELSEWHERE, now + HOUR) as world:
        incident_actions.due_repeats(world.monitor)
        drain(world.monitor.store, world.monitor.sender, now=world.clock, worker="killed", limit=1)
        assert len(workspace.shown("new-oncall")) == 1
        world.drain(now + HOUR + timedelta(minutes=5))
    (root,) = roots(workspace, "new-oncall")
    assert MENTION in root
    assert replies(workspace, "new-oncall") == [""]  # its picture


def test_a_message_whose_channel_was_archived_later_is_posted_anew_as_it_is_now(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    with life(tmp_path, workspace, CONFIG) as world:
        world.evaluate("2026-W02", [BREACH])
        workspace.archived.add("ml-oncall")
        world.evaluate("2026-W03", [BREACH])
        now = world.clock.now
    with life(tmp_path, workspace, ELSEWHERE, now) as world:
        world.drain(now + HOUR)
        world.evaluate("2026-W04", [FINE])
    (root,) = roots(workspace, "new-oncall")
    first = workspace.first_texts[workspace.shown("new-oncall")[0]["ts"]]
    assert ("billing must not act alone" in first, MENTION in first) == (True, True)
    assert root.startswith("billing is fine again")
    picture, reply = replies(workspace, "new-oncall")
    assert (picture, "billing is fine again" in reply) == ("", True)


OTHERS = "<!subteam^S0999>"


def test_a_message_that_goes_elsewhere_and_what_waits_in_its_thread_call_the_people_of_the_new_route(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    with life(tmp_path, workspace, CONFIG) as world:
        world.evaluate("2026-W02", [BREACH])
        workspace.archived.add("ml-oncall")
        world.drain(world.clock.now + 25 * HOUR)  # a reminder, which waits
        now = world.clock.now
    with life(tmp_path, workspace, ELSEWHERE.replace(MENTION, OTHERS), now) as world:
        world.drain(now + HOUR)
        assert not [d for d in world.deliveries() if d.channel == "#new-oncall" and MENTION in str(d.payload)]
    (root,) = roots(workspace, "new-oncall")
    assert root.endswith(OTHERS)
    blocks = workspace.shown("new-oncall")[0]["blocks"]
    assert [block["type"] for block in blocks[:3]] == ["header", "section", "section"]
    assert blocks[1]["text"]["text"] == OTHERS
    assert MENTION not in str(workspace.shown("new-oncall"))


def test_nobody_is_called_for_a_message_that_goes_elsewhere_once_somebody_has_it(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    with life(tmp_path, workspace, CONFIG) as world:
        world.evaluate("2026-W02", [BREACH])
        workspace.archived.add("ml-oncall")
        world.person("acknowledges", "billing", "ana")
        world.drain(world.clock.now + HOUR)
        now = world.clock.now
    with life(tmp_path, workspace, ELSEWHERE, now) as world:
        world.drain(now + HOUR)
    (root,) = roots(workspace, "new-oncall")
    assert MENTION not in root + str(workspace.shown("new-oncall")[0]["blocks"])


def test_what_a_route_still_names_waits_there_and_so_does_everything_while_alerts_yaml_is_broken(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    workspace.archived.add("ml-oncall")
    with life(tmp_path, workspace, CONFIG) as world:
        world.evaluate("2026-W02", [BREACH])
        world.drain(world.clock.now + HOUR)
        broken = world.monitor.config.model_copy(update={"sources": {}, "routes": world.monitor.config.routes[1:]})
        incident_actions.due_repeats(replace(world.monitor, config=broken))
        (post,) = [d for d in world.deliveries() if d.operation == "post"]
        assert (post.channel, post.state, post.error_code) == ("#ml-oncall", "failed", "is_archived")
        workspace.archived.clear()
        world.drain(world.clock.now + 2 * HOUR)
    assert len(roots(workspace, "ml-oncall")) == 1


def test_a_test_of_a_channel_that_no_route_names_any_more_is_not_sent(
    tmp_path: Path, workspace: slack.FakeSlack
) -> None:
    workspace.archived.add("ml-oncall")
    with life(tmp_path, workspace, CONFIG) as world:
        payload = trial_message("#ml-oncall", "critical", "ana", START)
        world.monitor.store.add_delivery(delivery_of(payload, kind="test", now=START))
        world.drain(START)
    with life(tmp_path, workspace, ELSEWHERE) as world:
        world.drain(START + HOUR)
        assert [d.state for d in world.deliveries()] == ["superseded"]
    assert roots(workspace, "new-oncall") == []
