"""``calmon incidents``: the life of an incident from a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from tests.fakes import slack
from tests.fakes.alerts_world import CONFIG, Judged, alerts_world
from tests.fakes.world import World

HOSTILE = "[/red] \x1b[31m<!channel>"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A history with one open incident of a critical rule, and one of a label with a hostile name."""
    with alerts_world(tmp_path) as found:
        lines = [
            Judged("billing", "automated-overconfidence", "breach", 0.12),
            Judged(HOSTILE, "ece-increase", "breach", 0.07),
        ]
        found.evaluate("2026-W02", lines)
    return World(tmp_path, f"duckdb:///{tmp_path / 'unused.duckdb'}", f"sqlite:///{tmp_path / 'history.sqlite'}")


def calmon(world: World, *words: str, **environment: str) -> Result:
    return CliRunner(env=world.environment | environment).invoke(app, ["incidents", *words])


def listed(world: World, *words: str) -> dict[str, dict[str, str]]:
    return {row["label"]: row for row in json.loads(calmon(world, "list", "--json", *words).stdout)}


def test_an_incident_is_acknowledged_silenced_and_resolved_each_with_a_name(world: World) -> None:
    id = listed(world)["billing"]["id"]
    for words, said in (
        (("ack", id[:8], "--by", "ana"), "tickets/billing: acknowledged"),
        (("ack", id, "--by", "ben"), "is acknowledged already"),
        (("note", id, "an import", "--by", "ben"), "a note was added"),
        (("silence", id, "--until", "friday", "--by", "ben"), "silenced until Fri 20"),
        (("resolve", id, "--reason", "retired", "--by", "cleo"), "resolved by hand"),
    ):
        done = calmon(world, *words)
        assert (done.exit_code, done.stderr.count("error")) == (0, 0), done.output
        assert said in done.stdout
    assert "billing" not in listed(world)
    row = listed(world, "--all")["billing"]
    assert (row["state"], row["acknowledged_by"], row["resolved_by"]) == ("resolved", "ana", "cleo")
    shown = json.loads(calmon(world, "show", id, "--json").stdout)
    assert [(e["kind"], e["actor"], e["why"]) for e in shown["events"]] == [
        ("opened", "run", None), ("acknowledged", "ana", None), ("noted", "ben", "an import"),
        ("silenced", "ben", None),
        ("resolved", "cleo", "retired"),
    ]  # fmt: skip
    assert shown["message"] == "not sent: no token"


def test_several_incidents_are_acknowledged_by_one_command_or_none_of_them(world: World) -> None:
    ids = [row["id"][:8] for row in json.loads(calmon(world, "list", "--json").stdout)]
    assert len(ids) > 1
    wrong = calmon(world, "ack", *ids, "nosuch", "--by", "ana")
    assert (wrong.exit_code, "begins with 'nosuch'" in wrong.output) == (1, True)
    assert {row["state"] for row in listed(world).values()} == {"open"}
    done = calmon(world, "ack", *ids, "--by", "ana")
    assert (done.exit_code, done.stdout.count("acknowledged")) == (0, len(ids))
    assert {row["acknowledged_by"] for row in listed(world).values()} == {"ana"}


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("ack", "nosuch"), "no incident has an id that begins with 'nosuch'", 1),
        (("silence", "ID"), "say how long", 2),
        (("silence", "ID", "--for", "1d", "--until", "2099-01-01"), "say how long", 2),
        (("silence", "ID", "--for", "a day"), "'a day' is not a length of time", 2),
        (("silence", "ID", "--for", "999999w"), "longer than there are dates", 2),
        (("silence", "ID", "--until", "2020-01-01"), "a silence must end in the future", 2),
        (("resolve", "ID", "--reason", " "), "a reason is needed", 2),
        (("test", "--severity", "grave"), "'grave' is not one of", 2),
    ],
)
def test_what_cannot_be_done_is_a_plain_error(world: World, words: tuple[str, ...], said: str, code: int) -> None:
    id = listed(world)["billing"]["id"]
    done = calmon(world, *(id if word == "ID" else word for word in words))
    assert (done.exit_code, said in done.stderr) == (code, True), done.output
    assert listed(world)["billing"]["state"] == "open"


def test_hostile_names_are_shown_as_they_are_and_steer_no_terminal(world: World) -> None:
    id = listed(world)[HOSTILE]["id"]
    for words in (("list",), ("show", id), ("ack", id, "--by", HOSTILE), ("show", id)):
        done = calmon(world, *words)
        assert done.exit_code == 0, (done.output, done.exception)
        assert "[/red]" in done.stdout
        assert "\x1b[31m" not in done.stdout


def test_a_test_message_goes_to_every_route_says_so_and_calls_nobody(world: World) -> None:
    with slack.running() as server:
        given = {"CALMON_SLACK_BOT_TOKEN": slack.TOKEN, "CALMON_SLACK_API_URL": server.url}
        every = calmon(world, "test", "--by", "ana", **given)
        one = calmon(world, "test", "--severity", "critical", "--by", "ana", **given)
        sent = [message for message in server.messages if message["text"].startswith("Test of calmon")]
        assert (every.exit_code, one.exit_code) == (0, 0), every.output + one.output
        assert len(sent) == 3
        assert {message["channel"] for message in sent} == {
            server.channels["ml-oncall"],
            server.channels["ml-monitoring"],
        }
        assert not any("<!" in str(message) for message in sent)


def test_a_test_message_with_mention_really_mentions(world: World) -> None:
    with slack.running() as server:
        given = {"CALMON_SLACK_BOT_TOKEN": slack.TOKEN, "CALMON_SLACK_API_URL": server.url}
        done = calmon(world, "test", "--severity", "critical", "--mention", **given)
        (sent,) = [message for message in server.messages if message["text"].startswith("Test of calmon")]
    assert done.exit_code == 0, done.output
    assert "It mentions <!subteam^S0123>." in sent["text"]


def test_without_a_token_or_a_route_the_test_says_what_to_do(world: World) -> None:
    done = calmon(world, "test")
    assert done.exit_code == 1
    assert "not_sent: no token" in done.stdout
    (world.folder / "alerts.yaml").write_text(CONFIG[: CONFIG.index("routes:")], "utf-8")
    done = calmon(world, "test")
    assert (done.exit_code, "no route of alerts.yaml takes it" in done.stderr) == (2, True)
