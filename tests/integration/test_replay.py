"""`calmon replay` on weeks and days that were really run: the same verdicts again, and nothing else is touched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from monitor.cli import app
from monitor.config.load import parse_config
from monitor.context import ActMode
from monitor.core.records import Incident, Subject, Verdict
from monitor.core.windows import day, week
from monitor.operations.pin_baseline import pin
from monitor.operations.replay.model import Replay
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.run import run_window
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world
from tests.replayed_again import Said, said_and_said_again

DAYS = ("2026-08-16", "2026-08-20", "2026-08-21")  # "slipping" goes wrong on the 17th; the 20th is sure of it
JUDGED = (WEEKS[5], *WEEKS[9:])  # one of the baseline, one before "slipping" goes wrong, two after
OVERCONFIDENCE = "  - {id: automated-overconfidence"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A history as four weekly and three daily runs have left it; these tests only read it."""
    made = make_world(tmp_path_factory.mktemp("world"))
    run_all(made, JUDGED, DAYS)
    return made


def run_all(world: World, weeks: Sequence[str], days: Sequence[str] = (), act: ActMode = "auto") -> None:
    with world.opened() as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="test", reason="test")
        for name in weeks:
            run_window(monitor, week(name, zone), act=act)
        for name in days:
            run_window(monitor, day(name, zone), act=act)


def replayed(world: World, proposed: str = CONFIG, *, weeks: int = len(WEEKS)) -> Replay:
    present, other = parse_config(CONFIG), parse_config(proposed)
    with world.opened() as monitor:
        return replay(monitor.store, plan_of(present, other, week(WEEKS[-1], present.zone), weeks))


def said_again(world: World, *, weeks: int = len(WEEKS)) -> tuple[Said, Said]:
    config = parse_config(CONFIG)
    with world.opened() as monitor:
        return said_and_said_again(monitor.store, plan_of(config, config, week(WEEKS[-1], config.zone), weeks))


def calmon(world: World, *words: str, rules: str | None = CONFIG) -> Result:
    path = world.folder / "new.yaml"
    if rules is not None:
        path.write_text(rules, "utf-8")
    found = CliRunner(env=world.environment).invoke(app, ["replay", "--rules", str(path), "--to", WEEKS[-1], *words])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def document(world: World, *words: str, rules: str = CONFIG) -> Any:
    found = calmon(world, *words, "--weeks", "3", "--json", rules=rules)
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


def everything(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the history."""
    engine = sa.create_engine(world.store_url)
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        found = {name: [tuple(row) for row in connection.execute(sa.text(f'SELECT * FROM "{name}"'))] for name in names}
    engine.dispose()
    return found


def stored(world: World) -> tuple[list[Verdict], list[Incident]]:
    with world.opened() as monitor:
        return monitor.store.verdicts(), monitor.store.incidents()


def test_the_present_file_says_again_what_it_said_in_every_window_that_was_run(world: World) -> None:
    verdicts, _ = stored(world)
    assert {verdict.outcome for verdict in verdicts} == {"ok", "breach", "not_evaluated"}
    assert {verdict.window.schedule for verdict in verdicts} == {"weekly", "daily"}
    said, again = said_again(world)
    assert len(said) == len(verdicts)
    assert again == said


def test_the_present_file_opens_again_the_incidents_that_it_opened(world: World) -> None:
    _, incidents = stored(world)
    found = replayed(world)
    assert incidents
    assert {
        (i.id, i.opened_window, i.severity, i.state) for i in incidents
    } == {
        (i.id, i.opened_window, i.severity, i.state)
        for i in (opened.incident for opened in found.present.incidents)
    }  # fmt: skip
    assert found.present == found.proposed
    assert [subject.label for subject in found.present.switched("off")] == ["slipping"]


def test_nothing_of_the_history_changes_and_nothing_is_made(world: World) -> None:
    calmon(world, "--weeks", "3")
    before, files = everything(world), sorted(path.name for path in world.folder.iterdir())
    content = (world.folder / "history.sqlite").read_bytes()
    assert calmon(world, "--weeks", "3", rules=CONFIG.replace("0.05", "0.01")).exit_code == 0
    assert everything(world) == before
    assert (world.folder / "history.sqlite").read_bytes() == content
    assert sorted(path.name for path in world.folder.iterdir()) == files


@pytest.mark.parametrize("words", [("--json",), ()])
def test_twice_is_the_same_to_the_byte(world: World, words: tuple[str, ...]) -> None:
    rules = CONFIG.replace("threshold: 0.02", "threshold: 0.01")
    first, second = (calmon(world, "--weeks", "3", *words, rules=rules) for _ in range(2))
    assert first.exit_code == 0, first.stderr
    assert first.stdout_bytes == second.stdout_bytes
    assert len(first.stdout_bytes) > 1_000


def test_a_textbook_rule_is_tried_on_the_days_that_were_run(world: World) -> None:
    plain = (
        "  - {id: plain-days, metric: ece, condition: above, threshold: 0.08, schedule: daily, for: 2,\n"
        "     certainty: none, value: plug_in, min_samples: 30, severity: warning, actions: [slack]}\n"
    )
    found = replayed(world, CONFIG.replace(OVERCONFIDENCE, plain + OVERCONFIDENCE))
    opened = {each.incident.label for each in found.proposed.incidents}
    assert {
        each.incident.label for each in found.present.incidents
    } < opened  # few rows: it fires at healthy labels too
    said, again = said_again(world)
    assert again == said


def test_a_rule_that_acts_no_more_turns_nothing_off_and_its_incidents_are_the_same_trouble(world: World) -> None:
    acts = "[slack, disable_automation]"
    rules = CONFIG.replace(acts, "[slack]").replace("severity: critical", "severity: info")
    found = document(world, rules=rules)
    assert found["present"]["switched_off"] == [{"source": "tickets", "label": "slipping"}]
    assert found["proposed"]["switched_off"] == []
    (pair,) = [each for each in found["incidents"] if each["label"] == "slipping"]
    assert (pair["in"], pair["present"]["automation"], pair["proposed"]["automation"]) == ("both", "off", None)
    assert (pair["present"]["severity"], pair["proposed"]["severity"]) == ("critical", "warning")
    shown = calmon(world, "--weeks", "3", rules=rules).stdout
    assert "critical → warning" in shown
    assert "off → -" in shown
    assert "███" not in shown.split("proposed")[-1]


def test_another_automate_at_gives_what_runs_with_it_would_have_given(world: World, tmp_path: Path) -> None:
    rules = CONFIG.replace("automate_at: 0.8", "automate_at: 0.99")  # nothing acts alone: there is no score as high
    other = make_world(tmp_path, config=rules, warehouse_url=world.warehouse_url)
    run_all(other, JUDGED[3:])
    verdicts, incidents = stored(other)
    found = weeks_of(world, rules)
    assert {i.incident.id: i.incident.rules for i in found.proposed.incidents} == {
        incident.id: incident.rules for incident in incidents
    }
    assert {
        (week.name, subject): row[place]
        for subject, row in found.proposed.timelines.items()
        for place, week in enumerate(found.weeks)
    } == worst(verdicts)
    assert [subject.label for subject in found.present.switched("off")] == ["slipping"]
    assert found.proposed.switched("off") == []


def worst(verdicts: Sequence[Verdict]) -> dict[tuple[str, Subject], str | None]:
    """What a week shows of a subject, by plain code: only rules that act can say that it is ok, where there are any."""
    rank = (None, "not_evaluated", "ok", "info", "warning", "critical")
    rules = {rule.id: "disable_automation" in rule.actions for rule in parse_config(CONFIG).rules}
    acts_on = {verdict.subject for verdict in verdicts if rules[verdict.rule]}
    found = {}
    for verdict in verdicts:
        said = verdict.severity if verdict.outcome == "breach" else verdict.outcome
        if said == "ok" and verdict.subject in acts_on and not rules[verdict.rule]:
            said = "not_evaluated"
        key = verdict.window.name, verdict.subject
        found[key] = max(found.get(key), said, key=rank.index)
    return found


def weeks_of(world: World, rules: str) -> Replay:
    """The last week, without its days."""
    present, proposed = (
        each.model_copy(update={"rules": each.rules_for("weekly")}) for each in map(parse_config, (CONFIG, rules))
    )
    with world.opened() as monitor:
        return replay(monitor.store, plan_of(present, proposed, week(WEEKS[-1], present.zone), 1))


def test_windows_without_counts_are_listed_with_the_command_that_reads_them(world: World) -> None:
    found = calmon(world, "--weeks", "20")
    assert "missing: weekly tickets 2026-W16 to 2026-W23 (8 windows): never read" in found.stdout
    assert "calmon backfill --from 2026-W16 --to 2026-W23\n" in found.stdout
    assert "calmon backfill --from 2026-08-22 --to 2026-08-30 --daily\n" in found.stdout
    missing = document(world)["missing"]
    assert [(each["schedule"], each["windows"]) for each in missing][-1] == ("daily", 9)
    assert sum(each["windows"] for each in missing if each["schedule"] == "daily") < 3 * 7 - len(DAYS)


def test_a_history_of_other_weeks_is_a_failure_that_says_what_to_do(world: World) -> None:
    found = CliRunner(env=world.environment).invoke(
        app, ["replay", "--rules", str(world.folder / "alerts.yaml"), "--to", "2025-W20", "--weeks", "2"]
    )
    assert found.exit_code == 1
    assert "holds nothing of these weeks; `calmon backfill` reads and keeps them" in " ".join(found.stderr.split())


def test_no_history_is_a_failure_and_makes_none(tmp_path: Path) -> None:
    found = calmon(make_world(tmp_path))
    assert found.exit_code == 1
    assert "there is no history" in found.stderr
    assert not (tmp_path / "history.sqlite").exists()


def test_a_bad_rules_file_has_the_errors_of_check(world: World, tmp_path: Path) -> None:
    rules = CONFIG.replace("metric: overconfidence", "metric: shortfal").replace("timezone: UTC", "timezone: Mars")
    found = calmon(world, rules=rules)
    broken = make_world(tmp_path, config=rules, warehouse_url=world.warehouse_url)
    checked = CliRunner(env=broken.environment).invoke(app, ["check", "--offline"])
    assert (found.exit_code, checked.exit_code) == (2, 2)
    names = str(world.folder / "new.yaml"), str(tmp_path / "alerts.yaml")
    assert found.stderr.replace(names[0], "FILE") == checked.stderr.replace(names[1], "FILE")
    assert "fix:" in found.stderr


def test_a_file_that_cannot_be_held_against_this_history_is_refused(world: World) -> None:
    found = calmon(world, rules=CONFIG.replace("relation: tickets", "relation: others"))
    assert found.exit_code == 2
    assert "source tickets: relation differs" in " ".join(found.stderr.split())


def test_one_label_is_judged_within_its_whole_family(world: World) -> None:
    whole, one = document(world), document(world, "--source", "tickets", "--label", "slipping")
    assert one["incidents"] == [each for each in whole["incidents"] if each["label"] == "slipping"]
    assert one["timelines"] == [each for each in whole["timelines"] if each["label"] == "slipping"]
    wrong = calmon(world, "--weeks", "2", "--label", "slippin")
    assert wrong.exit_code == 2
    assert "no label 'slippin' was judged in these weeks; judged were: rare, slipping, steady" in wrong.stderr
    assert calmon(world, "--source", "post").exit_code == 2
