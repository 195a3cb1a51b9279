"""``calmon automation disable`` stops automation whatever else is broken, and says what is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.automation import Gate
from monitor.cli import app
from monitor.core.windows import week
from monitor.operations.change_switch import change_switch
from monitor.run import run_window
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world

BROKEN = {
    "an empty file": ("", {}),
    "no file": (None, {}),
    "a broken file": (CONFIG.replace("metric:", "metrik:"), {}),
    "a broken variable": (CONFIG, {"CALMON_HEARTBEAT_URL": "beats.example.invalid/x"}),
    "a secret that is not there": (CONFIG, {"CALMON_SLACK_BOT_TOKEN_FILE": "/nowhere/token"}),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = pinned_world(tmp_path_factory.mktemp("broken"))
    with made.opened() as monitor:
        run_window(monitor, week(WEEKS[7], monitor.config.zone))
    return made


def calmon(world: World, *words: str, **more: str) -> tuple[int, str, str]:
    done = CliRunner(env=world.environment | more).invoke(app, ["automation", *words])
    return done.exit_code, " ".join(done.stdout.split()), " ".join(done.stderr.split())


@pytest.mark.parametrize(("config", "more"), BROKEN.values(), ids=BROKEN)
def test_a_label_is_turned_off_whatever_is_broken(world: World, config: str | None, more: dict[str, str]) -> None:
    file = world.folder / "alerts.yaml"
    file.write_text(CONFIG, "utf-8")
    with world.opened() as monitor:
        change_switch(monitor, "tickets", "steady", enable=True, by="ana", reason="go live")
    file.unlink() if config is None else file.write_text(config, "utf-8")
    asked = ("--label", "steady", "--reason", "wrong since noon", "--by", "ben")
    assert calmon(world, "enable", *asked, **more)[0] == 2
    code, shown, said = calmon(world, "disable", *asked, **more)
    assert (code, shown) == (0, "tickets/steady: turned off")
    assert "note: " in said
    assert "the switch was changed all the same" in said
    file.write_text(CONFIG, "utf-8")
    with world.opened() as monitor:
        state = monitor.store.switch("tickets", "steady")
    assert (state.state, state.actor, state.reason) == ("off", "ben", "wrong since noon")


def test_the_source_and_all_labels_can_be_stopped_so_and_names_nobody_knows_are_refused(world: World) -> None:
    (world.folder / "alerts.yaml").write_text("", "utf-8")
    why = ("--reason", "x", "--by", "ben")
    assert calmon(world, "disable", "--source", "tickets", *why)[:2] == (0, "tickets/(the whole source): turned off")
    assert calmon(world, "disable", "--all", *why)[1].count("turned off") == 3
    web = calmon(world, "disable", "--label", "steady", "--segment", "channel=web", *why)
    closed = r"Automation is off for all of tickets since .* UTC: turned off by ben: x"
    assert web[0] == 0
    assert re.fullmatch(rf"tickets/steady: channel = web turned off\. {closed}", web[1]), web
    for wrong, text in (
        (("--label", "stedy"), "no source knows the label 'stedy'"),
        (("--source", "mail"), "the history has no source 'mail'; it has: tickets"),
        (("--source", "tickets", "--segment", "channel=web"), "--segment is of labels"),
        (("--label", "steady", "--until", "2030-01-01T00:00"), "--until needs its offset here"),
        ((), "say which"),
    ):
        code, _, said = calmon(world, "disable", *wrong, *why)
        assert (code, text in said) == (2, True), said


def test_an_empty_name_is_refused(world: World) -> None:
    (world.folder / "alerts.yaml").write_text(CONFIG, "utf-8")
    code, _, said = calmon(world, "disable", "--label", "steady", "--reason", "x", "--by", "")
    assert (code, "--by is empty" in said) == (2, True)


def test_without_a_history_nothing_is_created(tmp_path: Path, world: World) -> None:
    (world.folder / "alerts.yaml").write_text("", "utf-8")
    url = f"sqlite:///{tmp_path / 'none.sqlite'}"
    code, _, said = calmon(world, "disable", "--label", "steady", "--reason", "x", CALMON_STORE_URL=url)
    assert code == 2
    assert "alerts.yaml" in said
    assert not (tmp_path / "none.sqlite").exists()


def test_a_source_that_alerts_yaml_calls_otherwise_now_is_shown_and_stopped(world: World) -> None:
    """Gates go by the history: its labels go on until a run publishes the new names, or a person stops them."""
    file, why = world.folder / "alerts.yaml", ("--reason", "wrong since noon", "--by", "ben")
    file.write_text(CONFIG, "utf-8")
    with world.opened() as monitor:
        change_switch(monitor, "tickets", None, enable=True, by="ana", reason="go live")
        for label in ("rare", "slipping"):
            change_switch(monitor, "tickets", label, enable=True, by="ana", reason="go live")
    file.write_text(CONFIG.replace("  tickets:", "  letters:"), "utf-8")
    gate = Gate.from_env({"CALMON_STORE_URL": world.store_url})
    assert gate.allows("tickets", "slipping", 0.95)
    gate.close()
    assert "tickets slipping on" in calmon(world, "status")[1]
    assert calmon(world, "enable", "--source", "tickets", "--label", "slipping", *why)[0] == 2
    one = calmon(world, "disable", "--source", "tickets", "--label", "slipping", *why)
    assert one[:2] == (0, "tickets/slipping: turned off")
    assert calmon(world, "disable", "--all", *why)[:2] == (0, "tickets/rare: turned off")
    gate = Gate.from_env({"CALMON_STORE_URL": world.store_url})
    assert not gate.allows("tickets", "rare", 0.95)
    gate.close()
    assert "rare" not in calmon(world, "status")[1]
    assert "tickets rare off" in calmon(world, "status", "--source", "tickets")[1]
    assert calmon(world, "disable", "--source", "tickets", *why)[:2] == (0, "tickets/(the whole source): turned off")
