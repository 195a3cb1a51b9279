"""Labels that try to break or to mention: the real messages, edits, replies, files and modals about them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

import pandas as pd
import pytest

from monitor.alerting.slack.client import web_client
from monitor.alerting.slack.socket_mode import SocketModeResponder
from monitor.config.load import load_config
from monitor.context import Monitor
from monitor.core.windows import week
from monitor.operations import incident_actions
from monitor.operations.pin_baseline import pin
from monitor.operations.slack_buttons import Buttons
from monitor.run import deliver, run_window
from tests.fakes.slack import TOKEN, Answer, FakeSlack, running
from tests.fakes.slack_presses import button, modal
from tests.fakes.world import BASELINE, CONFIG, WEEKS, make_world, rows, write_duckdb

LABELS = {
    "mention": "<!channel> <@U1> <!subteam^S01> <https://evil.example|click>",
    "entities": "a & b &lt;!here&gt; &amp;",
    "code": "`rm -rf /` ```code``` *bold* _it_ ~gone~",
    "long": "x" * 500,
    "right to left": "\u202egnp.exe\u202c \u05e2\u05d1\u05e8\u05d9\u05ea \u2066\u2069",
    "at": "@here #general @channel",
    "lines": "first\nsecond\r\n> quoted\t\x1b[31m",
}
NAMES = list(LABELS.values())
Told = tuple[Monitor, FakeSlack]
HOSTILE_NAME = "<!here> `ada` \u202e*&*"
OPERATED = CONFIG.replace("initial: on_first_ok}", 'initial: on_first_ok, operators: ["<@U1>"]}')


def hostile_rows(names: Iterable[str]) -> pd.DataFrame:
    """The label that slips, under each of these names."""
    frame = rows()
    slipping = frame[frame["label"] == "slipping"]
    others = [slipping.assign(label=name) for name in names]
    return pd.concat([frame[frame["label"] == "steady"], *others], ignore_index=True)


@pytest.fixture(scope="module", params=[NAMES[:4], NAMES[4:], NAMES], ids=["some", "others", "all in one message"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Two weeks in breach, every button pressed: all that can be said about these labels."""
    folder = tmp_path_factory.mktemp("hostile")
    warehouse = write_duckdb(folder / "hostile.duckdb", hostile_rows(request.param))
    world = make_world(folder, config=OPERATED, warehouse_url=warehouse)
    settings = {"slack_bot_token": TOKEN, "public_url": "https://calmon.example/docs"}
    with running(people={"U1": HOSTILE_NAME}) as slack, world.opened(slack_api_url=slack.url, **settings) as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="test", reason="test")
        for name in WEEKS[9:12]:
            run_window(monitor, week(name, zone))
        buttons = Buttons(
            monitor, SocketModeResponder(web_client(TOKEN, slack.url)), slack.team,
            config=lambda: load_config(monitor.settings.config), deliver=lambda: deliver(monitor),
        )  # fmt: skip
        for incident in monitor.store.incidents():
            incident_actions.note(monitor, incident.id, HOSTILE_NAME, LABELS["mention"])
            for action in ("incident_ack", "automation_off", "automation_on"):
                buttons.handle(button(slack, action, incident.id))
            buttons.handle(modal(slack, "looked <!channel> at & it"))
        yield monitor, slack


def texts(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from texts(part)


def mrkdwn(found: object) -> Iterator[Answer]:
    """Every text object in which Slack reads marks."""
    if isinstance(found, dict) and found.get("type") == "mrkdwn":
        yield found
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from mrkdwn(part)


def test_all_of_it_was_taken_by_slack(told: Told) -> None:
    monitor, slack = told
    assert {d.state for d in monitor.store.deliveries()} <= {"sent", "superseded"}
    incidents = monitor.store.incidents()
    together = any(incident.labels for incident in incidents)
    assert {d.operation for d in monitor.store.deliveries()} == {"post", "edit", "reply", "file"}
    named = {label for incident in incidents for label in incident.labels or [incident.label]}
    assert named in ({*NAMES}, {*NAMES[:4]}, {*NAMES[4:]})
    assert slack.asked("chat.update") > len(incidents) - together
    assert len(slack.views) >= len(incidents) - together  # of several labels, a message turns none on
    assert not any("could not" in answer["text"] for answer in slack.private)


def test_nobody_is_mentioned_and_no_link_but_ours_is_shown(told: Told) -> None:
    _, slack = told
    read = [*(m["text"] for m in slack.messages), *(p["text"] for p in slack.private)]
    read += [t["text"] for t in mrkdwn([*slack.messages, *slack.views])]
    marks = {mark for text in read for mark in re.findall(r"<[^>]*>", text)}
    assert [m for m in marks if not m.startswith("<https://calmon.example/docs/")] == []
    assert any("&lt;!channel&gt;" in text for text in read)


def test_slack_is_asked_to_make_no_links_and_mentions_of_its_own(told: Told) -> None:
    _, slack = told
    assert all(text.get("verbatim") is True for text in mrkdwn([*slack.messages, *slack.views]))
    for method, arguments in slack.calls:
        if method.startswith("chat."):
            assert (arguments.get("link_names"), arguments.get("parse")) == (None, None)


def test_no_character_that_steers_the_text_is_left(told: Told) -> None:
    _, slack = told
    shown = [m["text"] for m in slack.messages] + [p["text"] for p in slack.private]
    shown += [*texts([m["blocks"] for m in slack.messages]), *texts(slack.views)]
    shown += [f[key] for m in slack.messages for f in m.get("files", ()) for key in ("name", "title", "alt_txt")]
    found = {unicodedata.name(c, hex(ord(c))) for text in shown for c in text if _steers(c)}
    assert found == set()


def _steers(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf") and character != "\n"


def test_marks_of_a_label_format_nothing(told: Told) -> None:
    _, slack = told
    for text in mrkdwn([*slack.messages, *slack.views]):
        assert "rm -rf" not in text["text"] or "`rm" not in text["text"]


def test_the_page_of_a_message_stays_readable(told: Told) -> None:
    _, slack = told
    assert not any("x" * 200 in text for m in slack.messages for text in texts(m["blocks"]))


def test_the_switch_of_such_a_label_knows_who_pressed(told: Told) -> None:
    monitor, _ = told
    alone = [incident.label for incident in monitor.store.incidents() if not incident.labels]
    actors = [[e.actor for e in monitor.store.switch_events("tickets", label)][-2:] for label in alone]
    assert actors == [["<!here> `ada` *&* (Slack U1)"] * 2] * len(alone)
