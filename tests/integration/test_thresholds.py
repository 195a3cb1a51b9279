"""Thresholds by rules revision: never lower unless a person says so, never unnoticed, never a mixture."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.core.windows import week
from monitor.history.store import Store
from monitor.history.thresholds import Publisher
from monitor.operations.publish_thresholds import publish
from monitor.run import Run, begin
from tests.fakes import forked
from tests.fakes.world import CONFIG, WEEKS, World, make_world

NOW = datetime(2026, 9, 2, tzinfo=UTC)
HIGH, LOW = {("tickets", None): 0.8}, {("tickets", None): 0.5}
NEW, OLD = Publisher("new", "two", "ann"), Publisher("old", "one", "bob")


@pytest.fixture
def store(tmp_path: Path):
    with Store.from_url(f"sqlite:///{tmp_path / 'history.sqlite'}") as found:
        yield found


def test_a_superseded_revision_raises_and_never_lowers(store: Store) -> None:
    store.publish_thresholds({("tickets", None): 0.7}, NOW, OLD)
    store.publish_thresholds(HIGH, NOW, NEW)
    refused = store.publish_thresholds(LOW, NOW, OLD)
    assert (refused.kind, store.thresholds()) == ("refused", HIGH)
    assert [(c.before, c.after) for c in refused.changes] == [(0.8, 0.5)]
    assert store.publish_thresholds(LOW, NOW, OLD) == refused  # said once in the history
    raised = store.publish_thresholds({("tickets", None): 0.5, ("tickets", "phishing"): 0.95}, NOW, OLD)
    assert raised.kind == "raised"
    assert store.thresholds() == HIGH | {("tickets", "phishing"): 0.95}
    assert [each.kind for each in store.publications()] == ["raised", "refused", "published", "published"]


def test_on_purpose_an_older_revision_is_the_newest_again(store: Store) -> None:
    store.publish_thresholds(LOW, NOW, OLD)
    store.publish_thresholds(HIGH, NOW, NEW)
    done = store.publish_thresholds(LOW, NOW, OLD, anyway=True, reason="on purpose")
    assert (done.kind, done.reason, store.thresholds()) == ("published", "on purpose", LOW)
    assert store.publish_thresholds(HIGH, NOW, NEW) is not None  # the other one is the older now: it may raise
    assert (store.publications(1)[0].kind, store.thresholds()) == ("raised", HIGH)


def test_a_revision_that_was_never_seen_raises_and_lowers_only_by_a_persons_word(store: Store) -> None:
    store.publish_thresholds({("tickets", None): 0.8, ("tickets", "phishing"): 0.9}, NOW, NEW)
    wanted = {("tickets", None): 0.85, ("tickets", "phishing"): 0.6, ("mail", None): 0.7}
    done = store.publish_thresholds(wanted, NOW, OLD)
    assert (done.kind, done.lowered) == ("raised", ())
    assert store.thresholds() == {("tickets", None): 0.85, ("tickets", "phishing"): 0.9}  # mail: its gates stay closed
    refused = store.publish_thresholds(wanted, NOW, OLD)
    assert (refused.kind, refused.reason) == ("refused", "not confirmed by a person")
    assert [(c.source, c.label, c.after) for c in refused.changes] == [
        ("mail", None, 0.7),
        ("tickets", "phishing", 0.6),
    ]
    confirmed = store.publish_thresholds(wanted, NOW, OLD, anyway=True, reason="measured")
    assert [(c.label, c.before, c.after) for c in confirmed.lowered] == [("phishing", 0.9, 0.6)]
    assert store.thresholds() == wanted
    assert store.publish_thresholds(wanted, NOW, OLD) is None


def test_a_new_source_lowers_nothing_and_a_label_that_loses_its_own_score_does(store: Store) -> None:
    first = store.publish_thresholds({("tickets", None): 0.8, ("tickets", "phishing"): 0.9}, NOW, OLD)
    added = store.publish_thresholds(
        {("tickets", None): 0.8, ("tickets", "phishing"): 0.9, ("mail", None): 0.6}, NOW, NEW
    )
    second = store.publish_thresholds({("tickets", None): 0.8, ("mail", None): 0.6}, NOW, NEW, anyway=True, reason="x")
    assert (first.lowered, added.kind, added.lowered) == ((), "published", ())
    assert [(c.label, c.before, c.after) for c in second.lowered] == [("phishing", 0.9, 0.8)]


def write_config(world: World, least: float) -> None:
    text = CONFIG.replace("automate_at: 0.8", f"automate_at: {least:g}")
    (world.folder / "alerts.yaml").write_text(text, "utf-8")


def run_begins(world: World, least: float) -> None:
    write_config(world, least)
    with world.opened(lambda: NOW) as monitor:
        begin(monitor, Run(week(WEEKS[-1], monitor.config.zone), (), "never"))


def test_a_lower_score_is_an_event_with_revision_host_and_name_and_is_notified_once(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    for least in (0.8, 0.5):
        run_begins(world, least)
    with world.opened(lambda: NOW) as monitor:
        assert publish(monitor.store, monitor.config, NOW, actor="ann", anyway=True, reason="measured") is not None
    run_begins(world, 0.5)
    with world.opened(lambda: NOW) as monitor:
        newest = monitor.store.publications()[0]
        assert newest.by.revision == monitor.config.revision
        assert newest.by.host
        assert newest.by.actor == "ann"
        (told,) = monitor.store.deliveries()
        assert (told.kind, told.channel, told.state) == ("monitor", "#ml-monitoring", "pending")
        assert "tickets acts from 0.5 (was 0.8)." in told.payload["text"]
    run_begins(world, 0.9)
    with world.opened(lambda: NOW) as monitor:
        assert monitor.store.thresholds() == {("tickets", None): 0.9}
        assert len(monitor.store.deliveries()) == 1  # raising is nobody's trouble


def calmon(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.calmon(world.folder, os.environ | world.environment, *words)


def test_a_command_on_a_machine_with_an_older_file_publishes_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    run_begins(world, 0.5)
    run_begins(world, 0.8)
    write_config(world, 0.5)
    for words in (
        ["automation", "disable", "--source", "tickets", "--label", "steady", "--reason", "audit"],
        ["automation", "status"], ["automation", "enable", "--source", "tickets", "--label", "steady", "--reason", "x"],
    ):  # fmt: skip
        assert calmon(world, *words).returncode == 0
    with world.opened() as monitor:
        assert monitor.store.thresholds() == {("tickets", None): 0.8}
    done = calmon(world, "automation", "thresholds", "publish", "--reason", "on purpose", "--by", "ann")
    assert (done.returncode, done.stdout.strip()) == (0, "tickets acts from 0.5 (was 0.8)"), done.stderr
    shown = calmon(world, "automation", "thresholds", "list")
    assert "on purpose" in shown.stdout


def test_a_run_on_a_machine_with_a_file_that_was_never_seen_lowers_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    assert calmon(world, "run", "weekly", "--week", WEEKS[-2]).returncode == 0
    write_config(world, 0.5)
    ran = calmon(world, "run", "weekly", "--week", WEEKS[-1])
    assert ran.returncode == 0, ran.stderr
    assert "automate_at was not lowered" in ran.stderr
    assert "calmon automation thresholds publish --reason TEXT" in ran.stderr
    with world.opened() as monitor:
        assert monitor.store.thresholds() == {("tickets", None): 0.8}
        assert [each.kind for each in monitor.store.publications()] == ["refused", "published"]
    done = calmon(world, "automation", "thresholds", "publish", "--reason", "measured", "--by", "ann")
    assert (done.returncode, done.stdout.strip()) == (0, "tickets acts from 0.5 (was 0.8)"), done.stderr


@pytest.mark.postgres
def test_sixty_publications_at_once_leave_one_whole_set(fresh_postgres_url: str) -> None:
    labels = [f"label-{number}" for number in range(30)]
    sets = [{("tickets", None): n / 100} | {("tickets", label): n / 100 for label in labels} for n in range(1, 61)]
    with Store.from_url(fresh_postgres_url) as store, ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(store.publish_thresholds, wanted, NOW, Publisher(f"r{number}", "host", "ann"))
            for number, wanted in enumerate(sets)
        ]
        for job in jobs:
            job.result()
        assert store.thresholds() in sets
        assert len(store.publications()) == 60
