"""Sixteen weeks of two labels: every message, edit and reply, readable as a file, and what the channel shows then."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.core.records import Delivery
from monitor.core.windows import week
from monitor.operations.change_switch import change_switch
from tests.fakes import slack
from tests.fakes.alerts_world import UTC_ZONE, AlertsWorld, Judged, alerts_world
from tests.fakes.reading import lines_of

FOLDER = Path(__file__).parents[1] / "cases" / "story"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
NOON = timedelta(hours=12)


@dataclass
class Week:
    """One week of the story as it is written; ``notes`` are its comments."""

    name: str
    version: str
    judged: list[Judged] = field(default_factory=list)
    people: list[tuple[str, str, str, str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def written(text: str) -> list[Week]:
    """The weeks of the file; a line that is none of its three kinds is an error."""
    found: list[Week] = []
    for line in text.splitlines():
        if match := re.fullmatch(r"week (\S+) model (\S+)", line):
            found.append(Week(match[1], match[2]))
        elif match := re.fullmatch(r"  # (.*)", line):
            found[-1].notes.append(match[1])
        elif match := re.fullmatch(r"  (\w+) +([a-z-]+) +(ok|unconfirmed|breach|gone|few) *([\d.]*)", line):
            found[-1].judged.append(Judged(match[1], match[2], match[3], float(match[4] or 0)))
        elif match := re.fullmatch(r"  (\w{3}) (\d\d:\d\d) +(\w+) +(\w+) +(\w+) *(.*)", line):
            found[-1].people.append(match.groups())  # type: ignore[arg-type]  # six groups
        elif line and not line.startswith("#"):
            raise AssertionError(f"not a line of a story: {line!r}")
    return found


def play(world: AlertsWorld, told: Week) -> None:
    """The evaluation of the week, then seven days with a drain at noon and what people do."""
    world.evaluate(told.name, told.judged, version=told.version)
    monday = week(told.name, UTC_ZONE).end
    drains: list[tuple[datetime, tuple[str, ...] | None]] = [
        (monday + timedelta(days=day) + NOON, None) for day in range(7)
    ]
    acts = [(at(monday, person), person) for person in told.people]
    for moment, person in sorted([*drains, *acts], key=lambda each: each[0]):
        world.clock.now = moment
        if person is not None:
            act(world, person)
        world.drain(moment)


def at(monday: datetime, person: tuple[str, ...]) -> datetime:
    hours, minutes = person[1].split(":")
    return monday + timedelta(days=DAYS.index(person[0]), hours=int(hours), minutes=int(minutes))


def act(world: AlertsWorld, person: tuple[str, ...]) -> None:
    _, _, who, what, label, more = person
    if what in ("enables", "disables"):  # in a terminal
        why, enable = more.removeprefix("because "), what == "enables"
        change_switch(world.monitor, "tickets", label, enable=enable, by=who, reason=why)
        return
    length = timedelta(days=int(more.removeprefix("for ").rstrip("d"))) if what == "silences" else None
    done = world.person(what, label, who, length=length, why=more.removeprefix("because "))
    assert not done.refused, done.words


def chapter(told: Week, new: list[Delivery], numbers: dict[str, int]) -> Iterator[str]:
    """What a week made, as a reader of the channel would tell it; messages are numbered as they come."""
    yield f"{'=' * 20} {told.name}, judged on {week(told.name, UTC_ZONE).end:%a %Y-%m-%d} {'=' * 20}"
    yield from (f"# {note}" for note in told.notes)
    for delivery in new:
        root = delivery.root or delivery.id
        number = numbers.setdefault(root, len(numbers) + 1)
        when = f"{delivery.created_at:%a %H:%M}"
        names = {"post": "MESSAGE", "edit": "EDIT of message", "reply": "REPLY to message", "file": "FILE to message"}
        yield ""
        yield f">>> {when} {names[delivery.operation]} {number} in {delivery.channel}"
        if delivery.operation == "file":
            yield f"[picture] {delivery.payload['title']}: {delivery.payload['alt']}"
        else:
            yield from lines_of(delivery.payload)
    if not new:
        yield ""
        yield "(nothing)"
    yield ""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]], list[Delivery]]:
    """The story as text, what the local Slack shows at its end, and all that was stored."""
    with slack.running() as server:
        given = {"slack_bot_token": slack.TOKEN, "slack_api_url": server.url}
        with alerts_world(tmp_path_factory.mktemp("story"), **given) as world:
            lines: list[str] = []
            numbers: dict[str, int] = {}
            known: set[str] = set()
            for told in written((FOLDER / "input.txt").read_text("utf-8")):
                play(world, told)
                new = [delivery for delivery in world.deliveries() if delivery.id not in known]
                known |= {delivery.id for delivery in new}
                lines += chapter(told, new, numbers)
            return "\n".join(lines), list(server.messages), world.deliveries()


def test_the_weeks_read_as_their_golden_case(
    played: tuple[str, list[dict[str, Any]], list[Delivery]],
) -> None:
    case = FOLDER / "channel.txt"
    if os.environ.get("CALMON_TEST_WRITE_CASES"):  # then read the difference before you keep it
        case.write_text(played[0], encoding="utf-8")
    assert played[0] == case.read_text(encoding="utf-8")


def test_the_channel_shows_one_message_for_each_opening_evaluation_each_as_its_last_edit_says(
    played: tuple[str, list[dict[str, Any]], list[Delivery]],
) -> None:
    _, shown, stored = played
    posts = [delivery for delivery in stored if delivery.operation == "post"]
    roots = [message for message in shown if message.get("thread_ts", message["ts"]) == message["ts"]]
    assert len(posts) == len(roots) == 3
    for post in posts:
        last = max((d for d in stored if d.root == post.id and d.operation == "edit"), key=lambda d: d.sequence)
        assert last.payload["text"] in [message["text"] for message in roots]
        assert last.payload["blocks"][0]["text"]["text"].startswith(":large_green_circle:")


def test_everything_was_sent_but_the_edits_that_a_later_one_made_needless(
    played: tuple[str, list[dict[str, Any]], list[Delivery]],
) -> None:
    _, shown, stored = played
    assert {(d.operation, d.state) for d in stored} <= {
        ("post", "sent"), ("file", "sent"), ("reply", "sent"), ("edit", "sent"), ("edit", "superseded"),
    }  # fmt: skip
    replies = [message for message in shown if message.get("thread_ts", message["ts"]) != message["ts"]]
    assert len(replies) == sum(d.operation in ("reply", "file") for d in stored)
