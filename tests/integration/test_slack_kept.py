"""Messages that were kept while Slack was down: what is sent when it is back, after people have acted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.alerting.slack.outbox import drain
from tests.fakes.alerts_world import AlertsWorld, Judged, alerts_world
from tests.fakes.slack import TOKEN, FakeSlack, Fault, running

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
BILLING = Judged("billing", "automated-shortfall", "breach", 0.12)
PHISHING = Judged("phishing", "automated-shortfall", "breach", 0.11)
POST, MENTION = "chat.postMessage", "<!subteam^S0123>"


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with running() as fake:
        yield fake


@pytest.fixture
def world(tmp_path: Path, slack: FakeSlack) -> Iterator[AlertsWorld]:
    with alerts_world(tmp_path, slack_bot_token=TOKEN, slack_api_url=slack.url) as found:
        yield found


def reminders(slack: FakeSlack) -> list[str]:
    return [m["text"] for m in slack.messages if "not acknowledged yet" in m["text"].lower()]


def down(slack: FakeSlack) -> None:
    """Slack refuses everything and takes nothing."""
    for method in (POST, "chat.update", "conversations.replies", "conversations.history"):
        slack.fail_always(method, Fault.slack_error("restricted_action"))


def kept_reminder(world: AlertsWorld, slack: FakeSlack, *judged: Judged) -> None:
    """The message was sent, and its first reminder is kept since Slack is down."""
    world.evaluate("2026-W02", judged)
    down(slack)
    world.drain(world.clock.now + DAY + HOUR)
    (kept,) = (d for d in world.deliveries() if "not acknowledged" in str(d.payload.get("text")))
    assert kept.state == "failed"


ANSWERS: dict[str, Callable[[AlertsWorld, str], object]] = {
    "acknowledged": lambda world, label: world.person("acknowledges", label, "ana"),
    "silenced": lambda world, label: world.person("silences", label, "ana", length=7 * DAY),
    "resolved": lambda world, label: world.person("resolves", label, "ana", why="fixed"),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("by_drain_alone", [False, True], ids=["flow", "press of a button"])
def test_a_kept_reminder_is_not_sent_after_somebody_has_taken_its_incident(
    world: AlertsWorld, slack: FakeSlack, answer: Callable[[AlertsWorld, str], object], by_drain_alone: bool
) -> None:
    kept_reminder(world, slack, BILLING)
    answer(world, "billing")
    slack.heal()
    world.clock.now += HOUR
    if by_drain_alone:
        drain(world.monitor.store, world.monitor.sender, now=world.clock, worker="w")
    else:
        world.drain(world.clock.now)
    assert reminders(slack) == []
    assert [d.state for d in world.deliveries() if d.operation == "reply"] == ["sent", "superseded"]


def test_a_kept_reminder_names_only_those_that_still_wait(world: AlertsWorld, slack: FakeSlack) -> None:
    kept_reminder(world, slack, BILLING, PHISHING)
    world.person("acknowledges", "billing", "ana")
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert reminders(slack) == [f"phishing: not acknowledged yet {MENTION}"]
    world.drain(world.clock.now + HOUR)
    assert len(reminders(slack)) == 1


def test_a_reminder_that_may_be_in_slack_is_looked_for_also_where_it_is_composed_anew(
    world: AlertsWorld, slack: FakeSlack
) -> None:
    world.evaluate("2026-W02", [BILLING, PHISHING])
    slack.fail(POST, Fault.reset(accept=True))
    slack.fail_always("conversations.replies", Fault.server_error())
    world.drain(world.clock.now + DAY + HOUR)
    world.person("acknowledges", "billing", "ana")
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert reminders(slack) == [f"billing, phishing: not acknowledged yet {MENTION}"]


def test_of_the_reminders_of_a_long_outage_only_the_newest_is_sent(world: AlertsWorld, slack: FakeSlack) -> None:
    kept_reminder(world, slack, BILLING)
    for _ in range(2):
        world.drain(world.clock.now + DAY)
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert len(reminders(slack)) == 1
    world.drain(world.clock.now + DAY)
    assert len(reminders(slack)) == 2


def test_a_silence_that_ends_is_followed_by_the_reminder_that_was_not_sent_before_it(
    world: AlertsWorld, slack: FakeSlack
) -> None:
    kept_reminder(world, slack, BILLING)
    world.person("silences", "billing", "ana", length=2 * HOUR)
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert reminders(slack) == []
    world.drain(world.clock.now + 2 * HOUR)
    assert len(reminders(slack)) == 1


def first_post(slack: FakeSlack) -> str:
    """The text with which the first message of the channel was posted, before any edit."""
    return slack.first_texts[slack.shown("ml-oncall")[0]["ts"]]


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_message_that_waited_says_what_is_true_now_and_calls_nobody_if_nobody_is_waited_for(
    world: AlertsWorld, slack: FakeSlack, answer: Callable[[AlertsWorld, str], object]
) -> None:
    down(slack)
    world.evaluate("2026-W02", [BILLING])
    answer(world, "billing")
    slack.heal()
    world.drain(world.clock.now + HOUR)
    (edit,) = (d for d in world.deliveries() if d.operation == "edit")
    assert MENTION in edit.payload["text"]  # an edit calls nobody in Slack; a new message would
    assert first_post(slack) == edit.payload["text"].removesuffix(f"\n{MENTION}")
    assert MENTION not in str(slack.shown("ml-oncall")[0]["blocks"])
    assert (edit.state, slack.asked("chat.update")) == ("sent", 0)


def test_a_message_that_waited_calls_people_while_one_of_its_incidents_is_open(
    world: AlertsWorld, slack: FakeSlack
) -> None:
    down(slack)
    world.evaluate("2026-W02", [BILLING, PHISHING])
    world.person("acknowledges", "billing", "ana")
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert first_post(slack).endswith(MENTION)
    assert "ana" in str(slack.shown("ml-oncall")[0]["blocks"])
