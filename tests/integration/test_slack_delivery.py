"""The real slack-sdk and the real store against a local Slack that fails in every way it can.

Whatever goes wrong: the drain returns, the message is kept, and the channel shows it once.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.alerting.health.message import on_demand_failed
from monitor.alerting.slack import outbox
from monitor.alerting.slack.client import SlackSender, TransportError
from monitor.alerting.slack.outbox import UNCERTAIN, drain, worker_id
from monitor.core.records import Delivery
from monitor.history.store import Store
from tests.fakes.slack import PATIENT, SHORT, TOKEN, FakeSlack, Fault, running, timed_out_where_scripted

NOW = datetime(2026, 11, 16, 6, 5, tzinfo=UTC)
POST, HISTORY, LIST = "chat.postMessage", "conversations.history", "conversations.list"


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with running() as fake, timed_out_where_scripted(fake):
        yield fake


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.from_url(f"sqlite:///{tmp_path}/history.sqlite") as opened:
        yield opened


def sender(slack: FakeSlack, token: str = TOKEN) -> SlackSender:
    return SlackSender(token, slack.url)


def message(text: str = "billing promises more than it keeps", channel: str = "#ml-oncall") -> Delivery:
    payload = on_demand_failed("weekly", text, NOW, channel=channel, run=text, url=None, mention=None)
    id = payload["metadata"]["event_payload"]["delivery_id"]
    return Delivery(id, "monitor", channel, payload, created_at=NOW, next_attempt_at=NOW)


def run(store: Store, to: SlackSender | None, *, now: datetime = NOW, **options: Any) -> list[Delivery]:
    """One drain, as a run does it; the pauses between tries are not waited for."""
    return drain(store, to, now=lambda: now, worker=worker_id(), sleep=lambda _: None, **options)


def only(store: Store) -> Delivery:
    (delivery,) = store.deliveries()
    return delivery


def test_a_message_is_sent_once_and_its_place_in_slack_is_kept(store: Store, slack: FakeSlack) -> None:
    store.add_delivery(message())
    (done,) = run(store, sender(slack))
    assert run(store, sender(slack)) == []
    kept = only(store)
    assert (done.state, kept.state, kept.attempts, kept.error) == ("sent", "sent", 1, None)
    assert (kept.external_channel, kept.external_id) == ("C001", slack.messages[0]["ts"])
    assert kept.sent_at == NOW
    assert slack.messages[0]["metadata"]["event_payload"] == {"delivery_id": kept.id}
    assert slack.messages[0]["blocks"] == kept.payload["blocks"]
    assert slack.asked(POST) == 1


FAULTS = {
    "429": Fault.rate_limited(30),
    "500": Fault.server_error(),
    "503": Fault.server_error(503),
    "500 after accepting": Fault.server_error(accept=True),
    "time-out before accepting": Fault.hang(5),
    "time-out after accepting": Fault.hang(5, accept=True),
    "reset before accepting": Fault.reset(),
    "reset after accepting": Fault.reset(accept=True),
    "a proxy's page": Fault.page("<html>log in</html>"),
    "token revoked": Fault.slack_error("token_revoked"),
    "invalid token": Fault.slack_error("invalid_auth"),
    "channel archived": Fault.slack_error("is_archived"),
    "channel not found": Fault.slack_error("channel_not_found"),
    "not in the channel": Fault.slack_error("not_in_channel"),
    "an error nobody has heard of": Fault.slack_error("flux_capacitor_empty"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_while_slack_fails_the_message_is_kept_and_the_next_run_sends_it_once(
    store: Store, slack: FakeSlack, fault: Fault
) -> None:
    store.add_delivery(message())
    slack.fail_always(POST, fault)
    slack.fail_always(HISTORY, Fault.server_error())
    (done,) = run(store, sender(slack))
    assert done.state == "failed"
    assert only(store).state == "failed"
    assert only(store).error
    assert only(store).next_attempt_at is not None
    slack.heal()
    (done,) = run(store, sender(slack))
    assert done.state == "sent"
    assert len(slack.messages) == 1
    assert "possible repeat" not in slack.messages[0]["text"]


def test_a_short_rate_limit_is_waited_for_within_the_run(store: Store, slack: FakeSlack) -> None:
    store.add_delivery(message())
    slack.fail(POST, Fault.rate_limited(2))
    waited = []
    drain(store, sender(slack), now=lambda: NOW, worker=worker_id(), sleep=waited.append)
    assert waited == [2.0]
    assert only(store).state == "sent"
    assert len(slack.messages) == 1


def test_a_long_rate_limit_ends_the_drain_and_sets_the_next_attempt(store: Store, slack: FakeSlack) -> None:
    for i in range(3):
        store.add_delivery(message(f"m{i}"))
    slack.fail_always(POST, Fault.rate_limited(600))
    (done,) = run(store, sender(slack))
    assert done.next_attempt_at == NOW + timedelta(seconds=600)
    assert slack.asked(POST) == 1
    slack.heal()
    assert len(run(store, sender(slack))) == 3
    assert len(slack.messages) == 3


def test_the_sdk_itself_never_tries_twice(slack: FakeSlack) -> None:
    slack.fail_always(POST, Fault.reset())
    with pytest.raises(TransportError):
        sender(slack).send(message())
    assert slack.asked(POST) == 1


def test_a_server_that_refuses_the_connection_took_nothing(store: Store) -> None:
    store.add_delivery(message())
    with socket.socket() as deaf:  # bound, so that nobody else takes the port, but not listening
        deaf.bind(("127.0.0.1", 0))
        run(store, SlackSender(TOKEN, f"http://127.0.0.1:{deaf.getsockname()[1]}/api/", timeout=PATIENT))
    kept = only(store)
    assert kept.state == "failed"
    assert not kept.error.startswith(UNCERTAIN)
    assert not kept.uncertain


@pytest.mark.parametrize("missing", [set(), {"groups:read"}, {"groups:read", "channels:read"}])
def test_the_channel_is_known_from_an_earlier_message_or_looked_up_with_the_scopes_there_are(
    store: Store, slack: FakeSlack, missing: set[str]
) -> None:
    slack.scopes -= missing
    store.add_delivery(message("earlier"))
    run(store, sender(slack))
    store.add_delivery(message("later"))
    slack.fail(POST, Fault.hang(5, accept=True))
    run(store, sender(slack))
    assert len(slack.messages) == 2
    assert slack.asked(LIST) == 0
    if "channels:read" not in missing:
        assert sender(slack).find(message("earlier")) is not None
        assert slack.asked(LIST) > 0


def test_a_history_too_long_to_search_counts_as_not_searchable(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.alerting.slack.client.PAGES", 2)
    slack.page_size = 1
    slack.clock = NOW.timestamp
    for i in range(4):
        sender(slack).send(message(f"other {i}"))
    with pytest.raises(TransportError, match="not searched to the end") as raised:
        sender(slack).find(message("wanted"))
    assert raised.value.permanent


def test_a_message_that_slack_will_never_take_is_dead_and_not_tried_again(store: Store, slack: FakeSlack) -> None:
    broken = message()
    payload = dict(broken.payload) | {"blocks": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}]}
    store.add_delivery(replace(broken, payload=payload))
    (done,) = run(store, sender(slack))
    assert done.state == "dead"
    assert "must be less than 151 characters" in (only(store).error or "")
    assert run(store, sender(slack)) == []
    assert slack.asked(POST) == 1


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        ("token_revoked", "install the app again and set CALMON_SLACK_BOT_TOKEN"),
        ("invalid_auth", "set CALMON_SLACK_BOT_TOKEN"),
        ("is_archived", "unarchive it"),
        ("channel_not_found", "correct `channel` in routes or invite the app"),
        ("not_in_channel", "invite it"),
    ],
)
def test_what_somebody_must_fix_is_named_in_the_stored_error(
    store: Store, slack: FakeSlack, fault: str, remedy: str
) -> None:
    store.add_delivery(message())
    slack.fail_always(POST, Fault.slack_error(fault))
    run(store, sender(slack))
    error = only(store).error or ""
    assert error.startswith(f"{fault}: ")
    assert remedy in error


def test_without_a_token_the_message_is_stored_as_not_sent_and_stays_so(
    store: Store, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    store.add_delivery(message())
    with caplog.at_level(logging.INFO):
        (done,) = run(store, None)
    assert (done.state, done.error) == ("not_sent", "no token")
    assert "not sent: no token" in caplog.text
    assert run(store, sender(slack)) == []
    assert only(store).state == "not_sent"
    assert slack.messages == []


def test_a_kept_message_waits_for_the_token_to_come_back(store: Store, slack: FakeSlack) -> None:
    store.add_delivery(message())
    slack.fail_always(POST, Fault.slack_error("token_revoked"))
    run(store, sender(slack))
    assert run(store, None) == []
    slack.heal()
    run(store, sender(slack))
    assert only(store).state == "sent"


def test_a_loop_that_takes_only_what_is_due_waits_for_the_next_attempt(store: Store, slack: FakeSlack) -> None:
    store.add_delivery(message())
    slack.fail_always(POST, Fault.slack_error("is_archived"))
    run(store, sender(slack), due_only=True)
    slack.heal()
    due = only(store).next_attempt_at
    assert run(store, sender(slack), now=due - timedelta(seconds=1), due_only=True) == []
    assert len(run(store, sender(slack), now=due, due_only=True)) == 1


def test_out_of_time_the_rest_is_kept(store: Store, slack: FakeSlack) -> None:
    for i in range(4):
        store.add_delivery(message(f"m{i}"))
    slack.fail_always(POST, Fault.hang(5))
    slack.fail_always(LIST, Fault.hang(5))
    touched = run(store, sender(slack), budget=2 * SHORT, seconds=lambda: SHORT * slack.asked(POST))
    assert len(touched) == slack.asked(POST) == 2
    slack.heal()
    run(store, sender(slack))
    assert len(slack.messages) == 4


def claimed(store: Store, worker: str, at: datetime) -> None:
    store.add_delivery(message())
    assert store.claim_delivery(message().id, from_state="pending", worker=worker, now=at)


def test_a_living_worker_keeps_what_it_is_sending_for_five_minutes(store: Store, slack: FakeSlack) -> None:
    claimed(store, "another-host/1:1:1", NOW)
    assert run(store, sender(slack), now=NOW + timedelta(minutes=5)) == []
    assert len(run(store, sender(slack), now=NOW + timedelta(minutes=5, seconds=1))) == 1
    assert only(store).state == "sent"


def dead_worker() -> str:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    host, _, _ = worker_id().partition(":")
    return f"{host}:{process.pid}:123"


def reused_id() -> str:
    host, pid, _ = worker_id().split(":")
    return f"{host}:{pid}:1"


@pytest.mark.parametrize("gone", [dead_worker, reused_id], ids=["ended", "its process id now belongs to another"])
def test_what_a_dead_process_of_this_machine_was_sending_is_taken_over_at_once(
    store: Store, slack: FakeSlack, gone: Callable[[], str]
) -> None:
    claimed(store, gone(), NOW)
    (done,) = run(store, sender(slack))
    assert done.state == "sent"
    assert slack.asked(HISTORY) == 1
    assert len(slack.messages) == 1


def test_of_two_that_take_over_one_wins(store: Store) -> None:
    claimed(store, "another-host/1:1:1", NOW)
    stale = only(store)
    later = NOW + timedelta(minutes=6)
    first, second = (
        outbox._Drain(store, None, name, lambda: later, time.sleep, time.monotonic, ends=0.0)
        for name in ("first", "second")
    )
    assert first._take(stale) is not None
    assert second._take(stale) is None


def test_a_worker_id_fits_the_column_and_names_this_process() -> None:
    assert len(worker_id()) <= 64
    assert worker_id() == worker_id()
    assert f":{os.getpid()}:" in worker_id()


def test_auth_test_says_who_we_are_or_what_is_wrong(slack: FakeSlack) -> None:
    good, bad = sender(slack).check(), sender(slack, "xoxb-wrong").check()
    assert (good.ok, good.team, good.user, good.problem) == (True, "Local", "calmon", "")
    assert not bad.ok
    assert bad.problem.startswith("invalid_auth: the bot token is not valid")


def test_a_host_named_in_no_proxy_is_reached_without_the_proxy(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urllib.request, "_opener", None)  # it keeps the proxies of its first use for all that follows
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert sender(slack).check().ok


@pytest.mark.parametrize("told", [float("inf"), 1e12, float("nan"), -5.0])
def test_an_odd_retry_after_stops_no_drain(store: Store, slack: FakeSlack, told: float) -> None:
    store.add_delivery(message())
    slack.fail_always(POST, Fault.rate_limited(told))
    (done,) = run(store, sender(slack))
    assert done.state == "failed"
    after = only(store).next_attempt_at
    assert NOW < after <= NOW + timedelta(days=1)


def test_the_backlog_of_a_closed_channel_does_not_hold_up_the_others(store: Store, slack: FakeSlack) -> None:
    slack.archived.add("ml-oncall")
    for number in range(40):
        store.add_delivery(replace(message(f"old {number}"), created_at=NOW - timedelta(hours=5)))
    store.add_delivery(message("new", channel="#ml-monitoring"))
    waited = []
    drain(store, sender(slack), now=lambda: NOW, worker=worker_id(), sleep=waited.append)
    assert len(slack.texts("ml-monitoring")) == 1
    assert slack.asked(POST) == 2  # one attempt tells that the channel is closed
    assert waited == []
    slack.archived.clear()
    run(store, sender(slack))
    assert {delivery.state for delivery in store.deliveries()} == {"sent"}


def test_in_a_channel_of_many_messages_only_those_since_the_message_was_composed_are_searched(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.alerting.slack.client.PAGES", 2)
    slack.page_size = 3
    times = [NOW - timedelta(days=9) + timedelta(minutes=n) for n in range(20)]
    slack.messages.extend({"channel": "C001", "ts": f"{at.timestamp():.6f}", "text": "old"} for at in times)
    assert sender(slack).find(message()) is None
    slack.messages.extend(
        {"channel": "C001", "ts": f"{NOW.timestamp() + n:.6f}", "text": "busy"} for n in range(20)
    )  # fmt: skip
    with pytest.raises(TransportError, match="not searched to the end"):
        sender(slack).find(message())


def test_a_clock_that_was_far_ahead_keeps_no_message(store: Store, slack: FakeSlack) -> None:
    ahead, claimed = NOW + timedelta(days=400), message("claimed")
    store.add_delivery(claimed)
    store.claim_delivery(claimed.id, from_state="pending", worker="another/1:1:1", now=ahead)
    store.add_delivery(replace(message("composed"), created_at=ahead, next_attempt_at=ahead))
    store.add_delivery(replace(message("waits"), next_attempt_at=NOW + timedelta(hours=20)))
    run(store, sender(slack), due_only=True)
    assert {d.payload["text"].rpartition(" ")[2]: d.state for d in store.deliveries()} == {
        "claimed": "sent", "composed": "sent", "waits": "pending",
    }  # fmt: skip
