"""Slack in trouble during a run: the run completes, the message is kept, and the next run sends it once."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.core.windows import week
from monitor.run import run_window
from tests.fakes import slack
from tests.fakes.slack import Fault, timed_out_where_scripted
from tests.fakes.world import WEEKS, World, pinned_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return pinned_world(tmp_path)


def run(world: World, server: slack.FakeSlack) -> set[tuple[str, str]]:
    with world.opened(slack_bot_token=slack.TOKEN, slack_api_url=server.url) as monitor:
        zone = monitor.config.zone
        result = run_window(monitor, week(WEEKS[10], zone))
        assert monitor.store.run_of(week(WEEKS[10], zone), "tickets")["state"] == "done"  # type: ignore[index]
        return {(a.kind, a.state) for a in result.actions}


@pytest.mark.parametrize(
    "fault",
    [Fault.server_error(), Fault.hang(accept=True, seconds=8), Fault.slack_error("token_revoked")],
    ids=["500", "times out after accepting", "token revoked"],
)
def test_the_run_completes_and_the_next_one_sends_the_message_once(fault: Fault, world: World) -> None:
    with slack.running() as server, timed_out_where_scripted(server):
        server.fail_always("chat.postMessage", fault)
        first = run(world, server)
        assert ("disable_automation", "it was never turned on") in first
        state = next(state for kind, state in first if kind == "slack")
        # what Slack had accepted is found in the channel's history within the same run
        assert state == "sent" if fault.accept else state.startswith("failed:")
        server.heal()
        assert ("slack", "sent") in run(world, server)
        assert ("slack", "sent") in run(world, server)
        assert len(server.texts("ml-monitoring")) == 1  # its picture is in its thread
