"""What Slack sends when somebody presses a button or sends a modal."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

from tests.fakes.slack import Answer, FakeSlack

_numbers = itertools.count(1)


def button(slack: FakeSlack, action: str, incident: str, user: str = "U1", /, **changed: Any) -> Answer:
    """The block_actions payload of a press; each call is a new press. ``changed`` replaces parts of it."""
    number = next(_numbers)
    trigger = f"trigger.{number}"
    slack.triggers.add(trigger)
    element = {
        "type": "button", "block_id": "incident:1", "action_id": action, "value": incident,
        "text": {"type": "plain_text", "text": action}, "action_ts": f"{time.time() + number * 0.001:.6f}",
    }  # fmt: skip
    payload = {
        "type": "block_actions", "team": {"id": slack.team, "domain": "local"}, "trigger_id": trigger,
        "user": {"id": user, "username": slack.people.get(user, "x"), "team_id": slack.team},
        "channel": {"id": "C002", "name": "ml-monitoring"}, "container": {"type": "message", "channel_id": "C002"},
        "actions": [element],
    }  # fmt: skip
    return payload | changed


def modal(slack: FakeSlack, reason: str, user: str = "U1", view: Answer | None = None) -> Answer:
    """The view_submission payload of the newest modal, submitted with a reason."""
    shown = dict(view or slack.views[-1])
    shown["state"] = {"values": {"reason": {"reason": {"type": "plain_text_input", "value": reason}}}}
    return {
        "type": "view_submission", "team": {"id": slack.team}, "view": json.loads(json.dumps(shown)),
        "user": {"id": user, "username": slack.people.get(user, "x"), "team_id": slack.team},
    }  # fmt: skip
