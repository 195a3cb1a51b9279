"""What DESIGN.md says of alerts.yaml, the command line and the switch, where an outside check found it broken."""

from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from io import BytesIO
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from monitor.automation import Gate
from monitor.operations.change_switch import change_switch
from tests.fakes import world as worlds
from tests.fakes.world import CONFIG, WEEKS, World, make_world


def state_of(world: World, label: str) -> str:
    rows = json.loads(world.calmon("automation", "status", "--json").stdout)
    return str(next(row["state"] for row in rows if row["label"] == label))


def with_one_bad_week(folder: Path, automation: str) -> World:
    """A world in which "steady" is wrong in the fourth week only, and no label is on yet."""
    frame = worlds.rows()
    bad = (frame["label"] == "steady") & frame["item"].str.startswith(WEEKS[3]) & (frame["score"] > 0.8)
    frame.loc[bad & (frame.index % 2 == 0), "actual"] = 0
    return make_world(
        folder,
        config=CONFIG.replace("initial: on_first_ok", automation),
        warehouse_url=worlds.write_duckdb(folder / "warehouse.duckdb", frame),
    )


def test_parquet_goes_to_a_pipe_as_the_file_itself(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.calmon("run", "weekly", "--week", WEEKS[4])
    content = world.calmon("history", "--label", "rare", "--format", "parquet").stdout_bytes
    (tmp_path / "piped.parquet").write_bytes(content)
    found = duckdb.sql(f"SELECT * FROM '{tmp_path}/piped.parquet'").df()
    csv = pd.read_csv(BytesIO(world.calmon("history", "--label", "rare", "--format", "csv").stdout_bytes))
    assert len(found) == 1
    pd.testing.assert_frame_equal(found, csv, check_dtype=False)


def test_parquet_is_not_thrown_at_a_terminal(tmp_path: Path) -> None:
    world, (ours, theirs) = make_world(tmp_path), pty.openpty()
    words = [sys.executable, "-m", "monitor", "history", "--format", "parquet"]
    environment = os.environ | world.environment
    done = subprocess.run(words, env=environment, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    os.close(ours)
    assert (done.returncode, "say where with --output FILE" in done.stderr) == (2, True)


def test_the_status_says_off_where_gates_refuse_for_want_of_a_threshold(tmp_path: Path) -> None:
    """As in a history of the version before, upgraded: its switches are on, and it has no threshold yet."""
    world = make_world(tmp_path)
    world.calmon("automation", "enable", "--source", "tickets", "--label", "rare", "--reason", "go")
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as history, history:
        history.execute("DELETE FROM thresholds")
    (tmp_path / "history.sqlite.epoch").unlink()  # the version before kept no record beside it
    with Gate.from_env(os.environ | world.environment) as gate:
        assert gate.allows("tickets", "rare", score=0.99).reason.value == "no_threshold"
    (row,) = json.loads(world.calmon("automation", "status", "--label", "rare", "--json").stdout)
    assert (row["state"], row["allowed"], row["until"]) == ("on", False, None)
    assert "gates refuse until the next run" in row["why"]


def test_the_status_shows_an_enable_against_the_last_evaluation(tmp_path: Path) -> None:
    world = with_one_bad_week(tmp_path, "initial: on_first_ok")
    world.calmon("run", "weekly", "--week", WEEKS[3])
    world.calmon("automation", "enable", "--label", "steady", "--reason", "retrained")
    (row,) = json.loads(world.calmon("automation", "status", "--label", "steady", "--json").stdout)
    assert (row["state"], row["allowed"], row["against_last_evaluation"]) == ("on", True, True)
    table = re.sub(r"\s+", " ", world.calmon("automation", "status", "--label", "steady").stdout)
    assert re.search(r"left on against this finding: enabled by \S+ until [^:]*:\d\d UTC: retrained", table)


def test_the_status_gives_the_reason_of_the_switch_that_is_off(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.calmon("automation", "enable", "--source", "tickets", "--label", "rare", "--reason", "retrained")
    world.calmon("automation", "disable", "--source", "tickets", "--reason", "audit")
    table = re.sub(r"\s+", " ", world.calmon("automation", "status").stdout)
    assert re.search(r"rare off for all of tickets since [^:]*:\d\d UTC: turned off by \S+: audit", table)
    assert "retrained" not in table
    (row,) = json.loads(world.calmon("automation", "status", "--label", "rare", "--json").stdout)
    assert (row["reason"], row["source_reason"]) == ("retrained", "audit")
    world.calmon("automation", "enable", "--source", "tickets", "--reason", "audit is over")
    (row,) = json.loads(world.calmon("automation", "status", "--label", "rare", "--json").stdout)
    assert (row["reason"], row["source_reason"]) == ("retrained", None)


def test_enabling_all_leaves_out_labels_in_breach_unless_they_are_named(tmp_path: Path) -> None:
    world = with_one_bad_week(tmp_path, "initial: on_first_ok")
    world.calmon("run", "weekly", "--week", WEEKS[3])
    assert state_of(world, "steady") == "off"
    done = world.calmon("automation", "enable", "--all", "--reason", "go live")
    said = " ".join(done.stdout.split())
    assert (done.exit_code, state_of(world, "steady"), state_of(world, "rare")) == (0, "off", "on")
    assert "tickets/steady: left as it is: in breach of " in said
    assert "; --even-in-breach steady turns it on all the same" in said
    wrong = world.calmon("automation", "enable", "--all", "--reason", "go", "--even-in-breach", "steedy")
    assert (wrong.exit_code, "did you mean 'steady'?" in " ".join(wrong.stderr.split())) == (2, True)
    single = ("automation", "enable", "--label", "rare", "--reason", "go", "--even-in-breach", "rare")
    assert world.calmon(*single).exit_code == 2
    world.calmon("automation", "enable", "--all", "--reason", "looked at it", "--even-in-breach", "steady")
    assert state_of(world, "steady") == "on"


RULE_OF_THE_SOURCE = "  - {id: a, metric: accuracy, scope: source, condition: below, threshold: 0.5, severity: info}\n"


def test_labels_without_a_verdict_are_known(tmp_path: Path) -> None:
    rules = CONFIG[CONFIG.index("rules:\n") : CONFIG.index("automation:")]
    world = make_world(tmp_path, config=CONFIG.replace(rules, f"rules:\n{RULE_OF_THE_SOURCE}"))
    assert "no label is known yet; the first run finds them" in world.calmon("automation", "status").stdout
    assert world.calmon("run", "weekly", "--week", WEEKS[4]).exit_code == 0
    assert state_of(world, "rare") == "never_set"
    named = world.calmon("automation", "disable", "--label", "steady", "--reason", "stop")
    assert named.stdout == "tickets/steady: turned off\n"
    every = world.calmon("automation", "enable", "--all", "--reason", "go live")
    assert [f"tickets/{label}: turned on" in every.stdout for label in worlds.LABELS] == [True] * 3


def test_a_label_that_is_misspelt_beside_its_source_is_changed_and_named(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    off = ("automation", "disable", "--source", "tickets", "--reason", "stop", "--label")
    first = world.calmon(*off, "steady")
    assert first.stderr == ""  # no other label is known yet, so that it cannot be one of them
    done = world.calmon(*off, "Steady")
    assert (done.exit_code, done.stdout) == (0, "tickets/Steady: turned off\n")
    note = "note: tickets has no label 'Steady' so far; did you mean 'steady'? The change is stored all the same."
    assert " ".join(done.stderr.split()) == note
    assert world.calmon(*off, "steady").stderr == ""


def test_a_source_alone_is_its_own_switch_which_stops_all_its_labels(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.calmon("automation", "enable", "--source", "tickets", "--label", "steady", "--reason", "go live")
    off = world.calmon("automation", "disable", "--source", "tickets", "--reason", "audit")
    assert (off.exit_code, off.stdout) == (0, "tickets/(the whole source): turned off\n")
    label, whole = json.loads(world.calmon("automation", "status", "--json").stdout)
    assert (label["label"], label["state"], label["allowed"]) == ("steady", "on", False)
    assert (whole["label"], whole["state"], whole["reason"]) == (None, "off", "audit")
    later = world.calmon(
        "automation", "disable", "--source", "tickets", "--reason", "b", "--until", "2100-01-01T00:00Z"
    )
    assert "--until changes nothing: it was off already, until a person turns it on" in re.sub(
        r"\s+", " ", later.stdout
    )
    again = world.calmon("automation", "enable", "--label", "steady", "--reason", "again")
    opens = r"\(`calmon automation enable --source tickets --reason TEXT` opens it\)"
    assert re.search(
        rf"\. Automation is off for all of tickets since .* UTC: turned off by .*: b {opens}", again.stdout
    )
    everything = world.calmon("automation", "enable", "--all", "--reason", "go live").stdout
    assert "Automation is off" not in everything
    assert everything.startswith("tickets/(the whole source): turned on")
    world.calmon("automation", "disable", "--source", "tickets", "--reason", "audit")
    on = world.calmon("automation", "enable", "--source", "tickets", "--reason", "audit done")
    assert "turned on; it forbids nothing, and its labels stay as they are\n" in on.stdout
    for_a_time = world.calmon(
        "automation", "enable", "--source", "tickets", "--reason", "c", "--until", "2100-01-01T00:00Z"
    )
    assert "stay as they are; --until changes nothing: a source that is on stays so until it is turned off" in re.sub(
        r"\s+", " ", for_a_time.stdout
    )
    assert json.loads(world.calmon("automation", "status", "--label", "steady", "--json").stdout)[0]["allowed"]


@pytest.mark.parametrize("words", [("run", "weekly"), ("automation", "status"), ("db", "upgrade"), ("check",)])
def test_a_damaged_history_is_one_plain_message(tmp_path: Path, words: tuple[str, ...]) -> None:
    world = make_world(tmp_path)
    (tmp_path / "history.sqlite").write_text("this is no database" * 100)
    found = world.calmon(*words)
    assert found.exit_code == 1
    assert isinstance(found.exception, SystemExit)
    assert "does not answer: file is not a database" in re.sub(r"[│\s]+", " ", found.output)


def test_a_report_of_a_window_that_was_never_evaluated_says_so_in_every_form(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    words = ["report", "--week", WEEKS[4]]
    said = "Nothing of this window is in the history."
    assert json.loads(world.calmon(*words, "--json").stdout)["headline"] == said
    assert said in " ".join(world.calmon(*words).stdout.split())
    assert world.calmon(*words, "--html", str(tmp_path / "week.html")).exit_code == 0
    assert said in (tmp_path / "week.html").read_text("utf-8")


def test_a_report_of_a_source_without_a_result_says_so_with_its_newest_window_and_who_has_some(tmp_path: Path) -> None:
    source = CONFIG[CONFIG.index("  tickets:") : CONFIG.index("evaluation:")]
    both = CONFIG.replace(source, source + source.replace("tickets:", "mail:", 1))
    world = make_world(tmp_path, config=both)
    assert world.calmon("run", "weekly", "--week", WEEKS[3], "--source", "mail").exit_code == 0
    assert world.calmon("run", "weekly", "--week", WEEKS[4], "--source", "tickets").exit_code == 0

    def said(week: str, source: str) -> str:
        found = world.calmon("report", "--week", week, "--source", source, "--json")
        assert found.exit_code == 0
        return str(json.loads(found.stdout)["headline"])

    of = f"mail has no result of {WEEKS[4]}; its newest result is of {WEEKS[3]}; {WEEKS[4]} has results of tickets."
    assert said(WEEKS[4], "mail") == of
    assert of in " ".join(world.calmon("report", "--week", WEEKS[4], "--source", "mail").stdout.split())
    of_label = world.calmon("report", "--week", WEEKS[4], "--source", "mail", "--label", "rare")
    assert (of_label.exit_code, of.rstrip(".") in " ".join(of_label.stderr.split())) == (2, True)
    assert said(WEEKS[2], "mail").endswith(f"; {WEEKS[2]} has no result of any source.")
    (tmp_path / "alerts.yaml").write_text(CONFIG, "utf-8")
    assert said(WEEKS[4], "mail") == of.replace("mail has", "mail, which alerts.yaml does not have, has")
    assert said(WEEKS[3], "mail").startswith("3 labels: ")
    unknown = world.calmon("report", "--week", WEEKS[4], "--source", "nope")
    assert (unknown.exit_code, "alerts.yaml has no source 'nope'; it has: tickets" in unknown.stderr) == (2, True)
    (tmp_path / "alerts.yaml").write_text(both.replace("mail:", "chat:"), "utf-8")
    assert said(WEEKS[4], "chat").startswith(f"chat has no result of {WEEKS[4]}; it has none of any other week; ")


READERS = ("history", "baseline list", "annotations list", "automation history")


@pytest.mark.parametrize("words", READERS)
def test_a_source_that_is_neither_in_alerts_yaml_nor_in_the_history_is_refused(tmp_path: Path, words: str) -> None:
    world = make_world(tmp_path)
    found = world.calmon(*words.split(), "--source", "nope")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "alerts.yaml has no source 'nope'; it has: tickets" in found.stderr
    with world.opened() as monitor:
        change_switch(monitor, "nope", "billing", enable=False, by="ann", reason="as of a source that is gone")
    assert world.calmon(*words.split(), "--source", "nope").exit_code == 0
    (tmp_path / "alerts.yaml").unlink()
    assert world.calmon(*words.split(), "--source", "other").exit_code == 0


def test_the_history_of_a_rule_is_of_its_metric_rows_and_schedule(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.calmon("run", "weekly", "--week", WEEKS[4])
    by_rule = world.calmon("history", "--rule", "automated-overconfidence", "--format", "csv").stdout
    same = ("history", "--metric", "overconfidence", "--where", "automated", "--format", "csv")
    assert by_rule == world.calmon(*same).stdout
    assert set(pd.read_csv(BytesIO(by_rule.encode()))["label"]) >= {"rare", "slipping", "steady"}
    for rule, said in (("score-shift", "is a shift test"), ("ece-incraese", "it has: automated-overconfidence")):
        refused = world.calmon("history", "--rule", rule)
        assert (refused.exit_code, said in " ".join(refused.stderr.split())) == (2, True)
