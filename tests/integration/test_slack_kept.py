"""What is sent when Slack was down and is back, after people have acted meanwhile; and at most one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.alerting.slack.outbox import drain
from monitor.operations.change_switch import change_switch
from tests.fakes.alerts_world import AlertsWorld, Judged, alerts_world
from tests.fakes.slack import TOKEN, FakeSlack, Fault

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
BILLING = Judged("billing", "automated-overconfidence", "breach", 0.12)
ALSO = Judged("billing", "ece-increase", "breach", 0.07)
FINE = [Judged("billing", BILLING.rule, "ok", 0.01), Judged("billing", ALSO.rule, "ok", 0.01)]
POST, MENTION = "chat.postMessage", "<!subteam^S0123>"


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
    (kept,) = (d for d in world.deliveries() if "Not acknowledged" in str(d.payload.get("text")))
    assert kept.state == "failed"


ANSWERS = {
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
        ended = drain(world.monitor.store, world.monitor.sender, now=world.clock, worker="w")
        assert "superseded" in [each.state for each in ended]
    else:
        world.drain(world.clock.now)
    assert reminders(slack) == []
    (kept,) = (d for d in world.deliveries() if "Not acknowledged" in str(d.payload.get("text")))
    assert kept.state == "superseded"


def test_a_reminder_that_may_be_in_slack_is_looked_for_also_where_it_is_composed_anew(
    world: AlertsWorld, slack: FakeSlack
) -> None:
    world.evaluate("2026-W02", [BILLING])
    slack.fail(POST, Fault.reset(accept=True))
    slack.fail_always("conversations.replies", Fault.server_error())
    world.drain(world.clock.now + DAY + HOUR)
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="a bad import")
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert reminders(slack) == [f"Not acknowledged yet: billing must not act alone {MENTION}"]


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
    assert first_post(slack) == edit.payload["text"]
    assert MENTION not in first_post(slack)
    assert MENTION not in str(slack.shown("ml-oncall")[0]["blocks"])
    assert (edit.state, slack.asked("chat.update")) == ("sent", 0)


def test_a_message_that_waited_calls_people_while_its_incident_is_open(world: AlertsWorld, slack: FakeSlack) -> None:
    down(slack)
    world.evaluate("2026-W02", [BILLING])
    world.person("notes", "billing", "ana", why="an import")
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert first_post(slack).endswith(MENTION)
    assert "ana: an import" in str(slack.shown("ml-oncall"))


def calls(slack: FakeSlack) -> list[str]:
    """The replies that call people, without the mention."""
    texts = [m["text"] for m in replies(slack)]
    return [text.removesuffix(MENTION).strip() for text in texts if MENTION in text]


def replies(slack: FakeSlack) -> list[dict[str, Any]]:
    return [m for m in slack.messages if m.get("thread_ts", m["ts"]) != m["ts"]]


def reply_of(slack: FakeSlack, words: str) -> str:
    """The one reply with these words, text and blocks."""
    (found,) = [m for m in replies(slack) if words in m["text"]]
    return f"{found['text']} {found['blocks']}"


def kept_return(world: AlertsWorld, slack: FakeSlack) -> None:
    """Billing came back while Slack is down."""
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", FINE)
    down(slack)
    world.evaluate("2026-W04", [BILLING])


def kept_worse(world: AlertsWorld, slack: FakeSlack) -> None:
    """Billing became more severe while Slack is down."""
    world.evaluate("2026-W02", [FINE[0], ALSO])
    down(slack)
    world.evaluate("2026-W03", [BILLING, ALSO])


KEPT = {"is back": kept_return, "more severe": kept_worse}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("words", KEPT)
def test_a_kept_reply_calls_nobody_after_somebody_has_taken_what_it_is_about(
    world: AlertsWorld, slack: FakeSlack, words: str, answer: Callable[[AlertsWorld, str], object]
) -> None:
    KEPT[words](world, slack)
    answer(world, "billing")
    slack.heal()
    drain(world.monitor.store, world.monitor.sender, now=world.clock, worker="w")
    assert MENTION not in reply_of(slack, words)
    (stored,) = [d for d in world.deliveries() if d.operation == "reply" and words in d.payload["text"]]
    assert MENTION not in str(stored.payload), "what was sent"


@pytest.mark.parametrize("words", KEPT)
def test_a_kept_reply_calls_people_while_what_it_is_about_waits_for_them(
    world: AlertsWorld, slack: FakeSlack, words: str
) -> None:
    KEPT[words](world, slack)
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert MENTION in reply_of(slack, words)
    assert len(calls(slack)) == 1


def test_of_the_calls_that_were_kept_in_one_thread_only_the_newest_calls(world: AlertsWorld, slack: FakeSlack) -> None:
    kept_return(world, slack)
    world.drain(world.clock.now + DAY + HOUR)
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert len(calls(slack)) == 1
    assert reply_of(slack, "is back")


def test_a_message_that_waited_and_its_replies_that_waited_call_people_once(
    world: AlertsWorld, slack: FakeSlack
) -> None:
    down(slack)
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", FINE)
    world.evaluate("2026-W04", [BILLING])
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert first_post(slack).endswith(MENTION)
    assert reply_of(slack, "is back")
    assert calls(slack) == []


def test_a_reply_calls_people_beside_its_message_if_that_was_in_slack_before(
    world: AlertsWorld, slack: FakeSlack
) -> None:
    slack.fail(POST, Fault.reset(accept=True))
    slack.fail_always("conversations.history", Fault.server_error())
    world.evaluate("2026-W02", [BILLING])
    world.evaluate("2026-W03", FINE)
    world.evaluate("2026-W04", [BILLING])
    slack.heal()
    world.drain(world.clock.now + HOUR)
    (call,) = calls(slack)
    assert "billing is back" in call


def test_a_kept_reminder_is_not_sent_beside_a_later_call_of_its_thread(world: AlertsWorld, slack: FakeSlack) -> None:
    kept_reminder(world, slack, BILLING)
    world.evaluate("2026-W03", FINE)
    world.evaluate("2026-W04", [BILLING])
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert len(calls(slack)) == 1
