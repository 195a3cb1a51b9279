"""Edits, replies and files of a message, through the real slack-sdk, store and a local Slack: in order, and once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from monitor.alerting.slack.client import SlackSender, TransportError
from monitor.alerting.slack.outbox import LEASE, UNCERTAIN, drain
from monitor.core.records import Delivery
from monitor.history.store import Store
from tests.conftest import new_postgres_database
from tests.fakes.slack import TOKEN, UPLOAD, FakeSlack, Fault, InProcessClient, Work
from tests.fakes.slack_schedule import CHANNEL, START, Clock, composed

POST, UPDATE, REPLIES, COMPLETE = (
    "chat.postMessage", "chat.update", "conversations.replies", "files.completeUploadExternal",
)  # fmt: skip
ROOT = composed("root", "post", START)


def edit(sequence: int) -> Delivery:
    return composed(f"edit{sequence}", "edit", START, "root", sequence)


def reply(id: str = "reply") -> Delivery:
    return composed(id, "reply", START, "root")


def picture() -> Delivery:
    return composed("picture", "file", START, "root")


def add(store: Store, *deliveries: Delivery) -> None:
    for delivery in deliveries:
        store.add_delivery(delivery)


def run(store: Store, slack: FakeSlack | None, **options: Any) -> None:
    sender = None if slack is None else SlackSender(TOKEN, slack.url)
    drain(store, sender, **{"now": lambda: START, "worker": "host/1:1:1", "sleep": lambda _: None} | options)


def states(store: Store) -> dict[str, str]:
    return {d.id: d.state for d in store.deliveries()}


def stored(store: Store, id: str) -> Delivery:
    return next(d for d in store.deliveries() if d.id == id)


def test_what_belongs_to_a_message_goes_after_it_whatever_the_order_in_which_it_was_stored(
    store: Store, slack: FakeSlack
) -> None:
    add(store, picture(), reply(), edit(1), ROOT)
    run(store, slack)
    assert set(states(store).values()) == {"sent"}
    (root,) = (m for m in slack.messages if "thread_ts" not in m)
    assert root["text"] == "edit1"
    assert root["metadata"]["event_payload"] == {"delivery_id": "root"}
    thread = slack.thread(root["ts"])
    assert [m["text"] for m in thread if not m.get("files")] == ["reply"]
    (file,) = (f for m in thread for f in m.get("files", ()))
    assert (file["title"], file["name"], file["alt_txt"]) == ("billing", "billing-picture.png", "a picture")
    assert slack.files[file["id"]]["content"] == b"\x89PNG a picture"


def test_while_its_message_cannot_be_sent_a_reply_waits_untouched(store: Store, slack: FakeSlack) -> None:
    add(store, ROOT, reply(), edit(1))
    slack.archived.add(CHANNEL)
    run(store, slack)
    assert states(store) == {"root": "failed", "reply": "pending", "edit1": "pending"}
    assert stored(store, "reply").attempts == 0
    slack.archived.clear()
    run(store, slack)
    assert set(states(store).values()) == {"sent"}


def thread_of(slack: FakeSlack) -> list[str]:
    return ["picture" if m.get("files") else m["text"] for m in slack.messages if "thread_ts" in m]


LATER = START + timedelta(seconds=1)


@pytest.mark.parametrize("due_only", [False, True])
def test_a_reply_that_failed_is_not_overtaken_by_the_picture_and_the_news_after_it(
    store: Store, slack: FakeSlack, due_only: bool
) -> None:
    add(store, ROOT)
    run(store, slack)
    add(
        store, reply("numbers"), replace(picture(), created_at=LATER), replace(reply("news"), created_at=LATER), edit(1)
    )
    slack.fail(POST, Fault.server_error(), Fault.server_error())
    for seconds in (0, 30, 120):
        run(store, slack, now=lambda at=seconds: START + timedelta(seconds=at), due_only=due_only)
        if seconds == 0:
            assert (thread_of(slack), slack.texts(CHANNEL)) == ([], ["edit1"])
    assert thread_of(slack)[0] == "numbers"
    assert sorted(thread_of(slack)) == ["news", "numbers", "picture"]


@pytest.mark.parametrize("due_only", [False, True])
def test_a_reply_that_keeps_failing_holds_up_its_thread_for_some_attempts_only(
    store: Store, slack: FakeSlack, monkeypatch: pytest.MonkeyPatch, due_only: bool
) -> None:
    add(store, ROOT)
    run(store, slack)
    add(store, reply("numbers"), replace(reply("news"), created_at=LATER))
    post = SlackSender._post

    def refused(sender: SlackSender, payload: Any, *arguments: Any, **named: Any) -> Any:
        if payload["text"] == "numbers":
            raise TransportError("flux_capacitor_empty")
        return post(sender, payload, *arguments, **named)

    monkeypatch.setattr(SlackSender, "_post", refused)
    for minutes in range(0, 31, 5):
        run(store, slack, now=lambda at=minutes: START + timedelta(minutes=at), due_only=due_only)
    assert thread_of(slack) == ["news"]


def test_a_picture_that_cannot_be_uploaded_holds_up_no_news(store: Store, slack: FakeSlack) -> None:
    slack.scopes -= {"files:write"}
    add(store, ROOT, picture(), replace(reply("news"), created_at=LATER))
    run(store, slack)
    assert thread_of(slack) == ["news"]


def test_no_edit_is_sent_while_another_one_of_the_same_message_is_under_way(store: Store, slack: FakeSlack) -> None:
    """Else the older one could arrive after the newer one and stay."""
    add(store, ROOT)
    run(store, slack)
    add(store, edit(1))
    in_between = []

    def meanwhile(effect: Work) -> None:
        add(store, edit(2))
        run(store, slack, worker="other/1:1:1")
        in_between.append(states(store)["edit2"])
        effect()

    slow = SlackSender(TOKEN)
    slow._client = InProcessClient(slack, during=meanwhile)
    slack.fail(UPDATE, Fault.hang(accept=True))
    drain(store, slow, now=lambda: START, worker="host/1:1:1", sleep=lambda _: None)
    assert in_between == ["pending"]
    run(store, slack)
    assert slack.texts(CHANNEL) == ["edit2"]


def test_a_worker_whose_lease_is_nearly_over_does_not_try_again(store: Store, slack: FakeSlack) -> None:
    """The one that takes over may have sent something newer by then."""
    add(store, ROOT)
    run(store, slack)
    add(store, edit(1))
    clock = Clock()

    def meanwhile(effect: Work) -> None:
        effect()
        clock.move(LEASE + timedelta(minutes=1))
        add(store, edit(2))
        run(store, slack, worker="other/1:1:1", now=clock)  # it finds the older one abandoned
        run(store, slack, worker="other/1:1:1", now=clock)

    slow = SlackSender(TOKEN)
    slow._client = InProcessClient(slack, during=meanwhile)
    slack.fail(UPDATE, Fault.hang(accept=True))
    drain(store, slow, now=clock, worker="host/1:1:1", sleep=lambda _: None)
    assert slack.texts(CHANNEL) == ["edit2"]
    assert states(store) == {"root": "sent", "edit1": "superseded", "edit2": "sent"}


def test_two_edits_of_one_message_are_never_claimed_together_also_on_postgresql(postgres_url: str) -> None:
    with Store.from_url(new_postgres_database(postgres_url)) as store:
        add(store, ROOT, edit(1), edit(2))
        assert not store.claim_delivery("edit1", from_state="pending", worker="a", now=START)  # a later one is stored
        assert store.claim_delivery("edit2", from_state="pending", worker="a", now=START)
        add(store, edit(3))
        assert not store.claim_delivery("edit3", from_state="pending", worker="b", now=START)  # one is under way
        assert store.supersede_edits() == 1
        assert states(store) == {"root": "pending", "edit1": "superseded", "edit2": "sending", "edit3": "pending"}


def test_what_belongs_to_a_dead_message_is_dead_with_its_reason(store: Store, slack: FakeSlack) -> None:
    header = {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}
    refused, edited = (replace(d, payload=dict(d.payload) | {"blocks": [header]}) for d in (ROOT, edit(1)))
    add(store, refused, reply(), edited, picture())
    run(store, slack)
    assert set(states(store).values()) == {"dead"}
    assert "its message was not sent: invalid_blocks" in (stored(store, "reply").error or "")


def test_what_belongs_to_no_stored_message_is_dead(store: Store, slack: FakeSlack) -> None:
    add(store, reply())
    run(store, slack)
    assert (states(store)["reply"], slack.messages) == ("dead", [])
    assert "it is not stored" in (stored(store, "reply").error or "")


def test_without_a_token_all_of_a_new_message_is_not_sent(store: Store) -> None:
    add(store, ROOT, reply(), edit(1))
    run(store, None)
    assert set(states(store).values()) == {"not_sent"}
    assert stored(store, "reply").error == "its message was not sent: no token"


def test_what_belongs_to_a_sent_message_waits_for_the_token_to_come_back(store: Store, slack: FakeSlack) -> None:
    add(store, ROOT)
    run(store, slack)
    add(store, edit(1), reply())
    run(store, None)
    assert states(store) == {"root": "sent", "edit1": "pending", "reply": "pending"}
    run(store, slack)
    assert slack.texts(CHANNEL) == ["edit1"]


@pytest.mark.parametrize("accept", [True, False], ids=["shown", "not shown"])
def test_a_file_without_an_answer_is_looked_for_later_by_its_name(store: Store, slack: FakeSlack, accept: bool) -> None:
    add(store, ROOT)
    run(store, slack)
    add(store, picture())
    slack.fail(COMPLETE, Fault.reset(accept=accept))
    run(store, slack)
    assert (stored(store, "picture").error or "").startswith(UNCERTAIN)
    assert stored(store, "picture").uncertain
    assert slack.asked(REPLIES) == 0  # Slack shows a file some moments after it has taken it
    run(store, slack)
    assert len(slack.thread(slack.messages[0]["ts"])) == 1
    assert states(store)["picture"] == "sent"


def test_a_file_whose_upload_breaks_is_shown_once_in_the_end(store: Store, slack: FakeSlack) -> None:
    add(store, ROOT, picture())
    slack.fail(UPLOAD, Fault.server_error(), Fault.reset(accept=True))
    for _ in range(3):
        run(store, slack)
    assert len(slack.thread(slack.messages[0]["ts"])) == 1


def test_the_edit_of_a_message_that_a_person_deleted_is_dead_with_a_name(store: Store, slack: FakeSlack) -> None:
    add(store, ROOT)
    run(store, slack)
    slack.delete(slack.messages[0]["ts"])
    add(store, edit(1))
    run(store, slack)
    assert states(store)["edit1"] == "dead"
    assert (stored(store, "edit1").error or "").startswith("message_deleted: ")
    assert stored(store, "edit1").is_of_deleted


@pytest.mark.parametrize("fault", [None, Fault.reset(accept=True)], ids=["answered", "answer lost"])
def test_news_for_the_thread_of_a_deleted_message_is_shown_once_in_the_channel(
    store: Store, slack: FakeSlack, fault: Fault | None
) -> None:
    add(store, ROOT)
    run(store, slack)
    slack.delete(slack.messages[0]["ts"])
    add(store, reply())
    slack.fail(POST, *([fault] if fault else []))
    run(store, slack)
    assert (states(store)["reply"], slack.texts(CHANNEL)) == ("sent", ["reply"])


def test_a_file_that_is_no_base64_is_dead_and_says_so(store: Store, slack: FakeSlack) -> None:
    add(store, ROOT, replace(picture(), payload=dict(picture().payload) | {"png": "%%%"}))
    run(store, slack)
    assert states(store)["picture"] == "dead"
    assert "base64" in (stored(store, "picture").error or "")


def test_a_hundred_replies_that_wait_do_not_keep_a_new_message_from_going(store: Store, slack: FakeSlack) -> None:
    add(store, replace(ROOT, channel="#gone"), *(reply(f"reply{n}") for n in range(100)))
    add(store, replace(composed("later", "post", START + timedelta(hours=1))))
    run(store, slack, limit=2)
    assert states(store)["later"] == "sent"


def test_what_was_in_the_channel_for_forty_minutes_of_outage_is_found_among_much_talk(
    store: Store, slack: FakeSlack
) -> None:
    clock = Clock()
    add(store, ROOT)
    slack.fail(POST, Fault.reset(accept=True))
    slack.fail_always("conversations.history", Fault.server_error(503))
    run(store, slack, now=clock)
    slack.heal()
    clock.move(timedelta(minutes=40))
    for n in range(2_500):
        slack.add("C001", f"talk {n}", [], None, "")
    run(store, slack, now=clock)
    assert states(store)["root"] == "sent"
    assert slack.texts(CHANNEL).count("root") == 1
