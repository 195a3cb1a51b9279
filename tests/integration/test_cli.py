"""The command line: exit codes, plain errors, help with examples."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
import yaml
from typer.testing import CliRunner

from monitor.cli import app
from monitor.cli import baseline as cli_baseline
from monitor.config.settings import variables
from monitor.context import utc_now
from monitor.core.baseline import PinRefusal
from tests import command_page
from tests.fakes import slack
from tests.fakes import world as worlds
from tests.fakes.world import BASELINE, WEEKS, World, make_world, pinned_world

COMMANDS = command_page.commands()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world with a baseline and three judged weeks; these tests only read it."""
    made = pinned_world(tmp_path_factory.mktemp("world"))
    assert made.calmon("backfill", "--from", WEEKS[7], "--to", WEEKS[9]).exit_code == 0
    return made


@pytest.fixture
def fresh(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_every_leaf_an_example(words: tuple[str, ...]) -> None:
    terminal = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})
    text = terminal.invoke(app, [*words, "--help"], prog_name="calmon").output
    assert "Usage: calmon" in text
    if "COMMAND [ARGS]" not in text:
        assert "Example" in text


def test_a_user_without_a_name_can_stop_a_label(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 54_321)  # as `docker run --user 54321`: /etc/passwd does not have it
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    found = fresh.calmon("automation", "disable", "--source", "tickets", "--label", "steady", "--reason", "x")
    assert (found.exit_code, found.exception) == (0, None), found.output
    assert fresh.calmon("annotations", "add", "--source", "tickets", "x").exit_code == 0
    assert "by unknown" in fresh.calmon("automation", "status").output


def test_a_breach_leaves_with_three_only_where_asked(tmp_path: Path) -> None:
    fresh = pinned_world(tmp_path)
    assert fresh.calmon("run", "weekly", "--week", WEEKS[10]).exit_code == 0
    assert fresh.calmon("run", "weekly", "--week", WEEKS[10], "--exit-code").exit_code == 3
    assert fresh.calmon("run", "weekly", "--week", WEEKS[8], "--exit-code").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "weekly", "--week", "2026-47"), "'2026-47' is not an ISO week; write it like 2026-W46"),
        (("run", "weekly", "--week", "2026-W54"), "the year 2026 has no week 54"),
        (("run", "weekly", "--week", "2099-W01"), "is not over yet; the last ready one is"),
        (("run", "daily", "--date", "yesterday"), "'yesterday' is not a date; write it like 2026-11-16"),
        (("run", "weekly", "--source", "post"), "alerts.yaml has no source 'post'; it has: tickets"),
        (("backfill", "--from", WEEKS[3], "--to", WEEKS[1]), "is later than"),
        (("replay", "--rules", "new.yaml"), "--rules new.yaml: there is no such file"),
        (("history", "--metric", "ecee"), "'ecee' is not a metric; choose one of: ece, mce"),
        (("automation", "enable", "--reason", "x"), "say which: --label L"),
        (("automation", "enable", "--label", "nope", "--reason", "x"), "no source knows the label 'nope'"),
        (
            ("automation", "disable", "--source", "tickets", "--label", "*", "--reason", "x"),
            "no label is named '*': --all is every label (with --source S: of that source), and --source S alone",
        ),
        (
            ("automation", "disable", "--label", "Steady", "--reason", "x"),
            "'Steady'; did you mean 'steady'? Add --source S",
        ),
        (("automation", "disable", "--all", "--reason", " "), "--reason may not be empty"),
        (("automation", "enable", "--all", "--reason", "x", "--until", "soon"), "'soon' is not a time"),
        (("automation", "enable", "--all", "--reason", "x", "--until", "2026-01-01"), "until must lie in the future"),
        (("automation", "enable", "--all", "--reason", "x", "--by", " "), "needs a name"),
        (("automation", "enable", "--label", "", "--reason", "x"), "--label is empty"),
    ],
)
def test_wrong_words_leave_with_two_and_say_what_to_write(world: World, words: tuple[str, ...], sentence: str) -> None:
    found = world.calmon(*words)
    assert found.exit_code == 2, found.output
    assert sentence in found.stderr
    assert found.stdout == ""


def test_check_says_what_is_reached_and_where_rules_would_go(world: World) -> None:
    with slack.running() as server:
        found = world.calmon("check", CALMON_SLACK_BOT_TOKEN=slack.TOKEN, CALMON_SLACK_API_URL=server.url
        )  # fmt: skip
        nobody = world.calmon("check", CALMON_SLACK_BOT_TOKEN=slack.TOKEN, CALMON_SLACK_API_URL="http://127.0.0.1:9/")
        assert "check the network of this machine, and CALMON_SLACK_API_URL" in re.sub(r"\s+", " ", nobody.stdout)
        wrong = world.calmon("check", CALMON_SLACK_BOT_TOKEN="xoxb-wrong", CALMON_SLACK_API_URL=server.url)
    assert found.exit_code == 0, found.output
    assert "tickets can be read" in found.stdout
    assert "#ml-monitoring" in found.stdout
    assert wrong.exit_code == 1
    assert "invalid_auth" in wrong.stdout


def test_check_says_that_a_run_would_judge_nothing_where_every_score_is_the_same(tmp_path: Path) -> None:
    frame = worlds.rows().assign(score=0.5)
    frame["resolved_at"] += utc_now() - frame["resolved_at"].max()  # so that the last ready week has rows
    same = make_world(tmp_path, warehouse_url=worlds.write_duckdb(tmp_path / "same.duckdb", frame))
    found = re.sub(r"\s+", " ", same.calmon("check").stdout)
    assert "as far as can be said without a baseline, not judged: all labels: every score is the same" in found
    assert "Check that the view or file has the score of each item" in found
    assert "not judged" not in make_world(tmp_path).calmon("check").stdout


def test_check_names_what_is_wrong_with_a_relation(tmp_path: Path) -> None:
    config = worlds.CONFIG.replace("    segments: [channel]", "    columns: {actual: truth}\n    segments: [chanel]")
    found = make_world(tmp_path, config=config).calmon("check")
    assert found.exit_code == 1
    assert "truth" in found.stdout
    assert "chanel" in found.stdout


def test_a_store_that_is_not_there_is_made_by_what_writes_and_by_nothing_else(fresh: World) -> None:
    path = fresh.folder / "history.sqlite"
    for words in (("check",), ("history",), ("automation", "status"), ("incidents", "list"), ("baseline", "list")):
        assert fresh.calmon(*words).exit_code == 0
        assert not path.exists(), words
    assert fresh.calmon("run", "weekly", "--week", WEEKS[8], "--dry-run").exit_code == 0
    assert not path.exists()
    assert fresh.calmon("run", "weekly", "--week", WEEKS[8]).exit_code == 0
    assert path.exists()


def test_too_few_pairs_are_refused_with_the_count(fresh: World) -> None:
    found = fresh.calmon("baseline", "pin", "--from", WEEKS[0], "--to", WEEKS[1])
    assert found.exit_code == 1
    assert "refused tickets/steady: 1,200 pairs, at least 3,000 are needed" in found.stderr


def test_the_command_for_one_label_that_was_refused_is_for_it_alone() -> None:
    refused = PinRefusal("tickets", "it support", 105, 1_000)
    given = {"--from": "2026-W41", "--to": "2026-W48", "--label": None, "--source": None}
    one, many = (cli_baseline._smaller(each, given) for each in ([refused], [refused, replace(refused, label="fax")]))
    begins = "next: calmon baseline pin --from 2026-W41 --to 2026-W48 "
    assert one.startswith(f"{begins}--label 'it support' --source tickets --min-pairs 100 ")
    assert many.startswith(f"{begins}--min-pairs 100 ")


def test_pinning_one_label_leaves_the_versions_of_the_others(fresh: World) -> None:
    fresh.calmon("baseline", "pin", "--from", BASELINE[0], "--to", BASELINE[1])
    fresh.calmon("baseline", "pin", "--from", WEEKS[1], "--to", WEEKS[6], "--label", "rare", "--reason", "again")
    rows = json.loads(fresh.calmon("baseline", "list", "--json").stdout)
    versions = {(row["label"], row["version"]) for row in rows}
    assert versions == {("rare", 1), ("rare", 2), ("slipping", 1), ("steady", 1), (None, 1)}
    shown = json.loads(fresh.calmon("baseline", "show", "--source", "tickets", "--label", "rare", "--json").stdout)
    assert (shown["version"], shown["reason"], shown["from"]) == (2, "again", WEEKS[1])
    assert json.loads(fresh.calmon("baseline", "show", "--label", "rare", "--json").stdout) == shown
    assert sum(row["rows"] for row in shown["bins"]) == 6 * worlds.ROWS


def test_a_window_that_is_run_again_after_its_rows_were_corrected_is_stored_as_it_is_printed(tmp_path: Path) -> None:
    """Also the verdicts of labels whose own rows did not change: their p-values are adjusted by other ones."""
    fresh = pinned_world(tmp_path)
    lost = "UPDATE tickets SET actual = {} WHERE label = 'rare' AND score > 0.5 AND resolved_at >= '2026-08-17'"
    known = {}
    for truth in ("7", "1"):
        with duckdb.connect(str(fresh.folder / "warehouse.duckdb")) as connection:
            connection.execute(lost.format(truth))
        printed = json.loads(fresh.calmon("run", "weekly", "--week", WEEKS[10], "--json").stdout)["verdicts"]
        with fresh.opened() as monitor:
            stored = monitor.store.verdicts_by_id([each["id"] for each in printed])
        for each in printed:
            found = stored[each["id"]]
            assert (found.outcome, found.reason, found.n) == (each["outcome"], each["reason"], each["n"])
            assert found.p_adjusted == pytest.approx(each["p_adjusted"]), each
            if (each["rule"], each["label"]) == ("ece-increase", "slipping"):
                known[truth] = each["id"]
    assert known["7"] != known["1"]


def test_history_has_one_series_under_two_names(world: World) -> None:
    first, second = (
        world.calmon("history", "--metric", name, "--where", "automated", "--format", "json").stdout
        for name in ("overconfidence", "shortfall")
    )
    assert first == second
    assert json.loads(first)[0]["metric"] == "overconfidence"
    table = world.calmon("history", "--metric", "ece")
    assert "steady" in table.stdout


def test_explain_of_a_label_tells_its_story_then_the_checks_of_its_newest_verdicts(world: World) -> None:
    lines = world.calmon("explain", "slipping").stdout.splitlines()
    assert lines[0] == "slipping is fine."
    assert any(line.startswith("Within their limits: ") for line in lines)
    told = json.loads(world.calmon("explain", "slipping", "--source", "tickets", "--json").stdout)
    assert (told["state"], told["label"]) == ("fine", "slipping")
    assert {verdict["label"] for verdict in told["verdicts"]} == {"slipping"}
    assert world.calmon("explain", "slipping", "--source", "nope").exit_code == 2


def test_explain_gives_the_reasoning_of_a_verdict(world: World) -> None:
    document = json.loads(world.calmon("run", "weekly", "--week", WEEKS[9], "--json", "--dry-run").stdout)
    verdict = next(v for v in document["verdicts"] if v["rule"] == "ece-increase" and v["label"] == "steady")
    text = " ".join(world.calmon("explain", verdict["id"]).stdout.split())
    assert "Is there a baseline to compare with? Yes: version 1 (" in text
    assert f"{verdict['n']:,} rows" in text
    told = json.loads(world.calmon("explain", verdict["id"], "--json").stdout)
    assert {name: told[name] for name in verdict} == verdict
    assert [check["check"] for check in told["checks"] if check["passed"] is not None][:5] == [
        "readable", "rows", "outside_baseline", "baseline", "comparable",
    ]  # fmt: skip
    assert " ".join(told["sentence"].split()) in text
    assert f"calmon docs {verdict['reason']}" in text
    unknown = world.calmon("explain", "zzz")
    assert unknown.exit_code == 1
    assert "no judged label is called 'zzz', and no verdict has an id that begins so" in unknown.stderr


def test_an_operators_change_is_stored_with_name_and_reason(fresh: World) -> None:
    changed = fresh.calmon(
        "automation", "enable", "--source", "tickets", "--label", "steady", "--reason", "checked", "--by", "ann"
    )  # fmt: skip
    assert changed.exit_code == 0, changed.output
    rows = json.loads(fresh.calmon("automation", "status", "--json").stdout)
    assert [(r["label"], r["allowed"], r["by"], r["reason"]) for r in rows] == [("steady", True, "ann", "checked")]
    fresh.calmon("automation", "disable", "--source", "tickets", "--label", "steady", "--reason", "no", "--by", "bob")
    events = json.loads(fresh.calmon("automation", "history", "--json").stdout)
    assert [(e["kind"], e["by"], e["reason"]) for e in events] == [
        ("enabled", "ann", "checked"),
        ("disabled", "bob", "no"),
    ]


def test_history_shows_exactly_the_windows_that_were_asked_for(world: World) -> None:
    def shown(*words: str) -> list[str]:
        rows = json.loads(world.calmon("history", "--label", "steady", "--format", "json", *words).stdout)
        return [row["window"] for row in rows]

    known = shown()
    assert shown("--last", "2") == known[-2:]
    assert shown("--from", known[1], "--to", known[2]) == known[1:3]
    assert shown("--last", "1", "--to", known[2]) == known[2:3]
    table = world.calmon("history", "--label", "steady", "--last", "2").stdout
    assert f"ECE, {known[-2]} to {known[-1]}" in table
    assert "one scale for all labels" in table
    assert "change is of the windows shown" in re.sub(r"\s+", " ", table)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--from", "2026-47"), "'2026-47' is not an ISO week; write it like 2026-W46"),
        (("--to", "2026-W54"), "the year 2026 has no week 54"),
        (("--from", "2026-W30", "--to", "2026-W20"), "--from 2026-W30 is later than --to 2026-W20"),
        (("--from", "2026-W30", "--last", "3"), "--last and --from are two answers to one question"),
        (("--schedule", "daily", "--from", "2026-W30"), "'2026-W30' is not a date; write it like 2026-11-16"),
    ],
)
def test_windows_of_the_history_that_make_no_sense_are_refused(
    world: World, words: tuple[str, ...], sentence: str
) -> None:
    found = world.calmon("history", *words)
    assert found.exit_code == 2
    assert sentence in found.stderr
    assert world.calmon("history", "--last", "0").exit_code == 2
    assert not found.stdout


def test_the_report_tells_stories_and_estimates_and_its_document_has_every_part(world: World) -> None:
    text = world.calmon("report", "--week", WEEKS[9]).stdout
    for words in ("labels: ", "Estimates", "overconfidence"):
        assert words in text
    found = world.calmon("report", "--week", WEEKS[9], "--json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert {one["label"] for one in document["labels"]} == {None, "rare", "slipping", "steady"}
    assert {e["metric"] for e in document["estimates"]} >= {"ece", "roc_auc", "accuracy"}
    assert all(0 < one["reliability"][0]["n"] < 2_000 for one in document["labels"])


def test_the_report_of_one_label_has_all_its_metrics_and_a_target_of_its_own(world: World) -> None:
    found = world.calmon("report", "--week", WEEKS[9], "--label", "steady", "--target", "0.9")
    assert found.exit_code == 0, found.output
    for title in ("Threshold for 90% accuracy", "All metrics", "Cohen's d", "Risk and coverage"):
        assert title in found.stdout
    assert "slipping" not in found.stdout
    told = json.loads(world.calmon("report", "--week", WEEKS[9], "--label", "steady", "--json").stdout)
    assert [one["label"] for one in told["labels"]] == ["steady"]
    assert {e["label"] for e in told["estimates"]} == {"steady"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--target", "95"), "--target is a share between 0 and 1, such as 0.95, not 95"),
        (("--label", "nope", "--week", WEEKS[9]), "has no label 'nope'; it has: rare, slipping, steady"),
        (("--source", "post"), "alerts.yaml has no source 'post'"),
    ],
)
def test_a_report_that_cannot_be_made_says_why(world: World, words: tuple[str, ...], sentence: str) -> None:
    found = world.calmon("report", *words)
    assert found.exit_code == 2, found.output
    assert sentence in found.stderr
    assert found.stdout == ""


def test_names_that_look_like_markup_are_printed_as_they_are(fresh: World) -> None:
    hostile = "[/red] [bold]x\x1b[31m"
    frame = worlds.rows().replace({"label": {"rare": hostile}})
    worlds.write_duckdb(fresh.folder / "warehouse.duckdb", frame)
    fresh.calmon("baseline", "pin", "--from", BASELINE[0], "--to", BASELINE[1])
    fresh.calmon("run", "weekly", "--week", WEEKS[10])
    assert fresh.calmon("automation", "disable", "--label", hostile, "--reason", "[/] why").exit_code == 0
    for words in (
        ("automation", "status"), ("automation", "history"), ("incidents", "list", "--all"), ("baseline", "list"),
        ("baseline", "show", "--source", "tickets", "--label", hostile), ("history",), ("report", "--week", WEEKS[10]),
    ):  # fmt: skip
        found = fresh.calmon(*words)
        assert found.exit_code == 0, (words, found.output, found.exception)
        assert "\x1b[31m" not in found.stdout, words
    status = fresh.calmon("automation", "status").stdout
    assert "[/red]" in status
    assert re.search(r"As of \d{4}-\d\d-\d\d \d\d:\d\d \S+\.", status)
    assert "[/] why" in fresh.calmon("automation", "history").stdout


WRONG = [
    ("run", "weekly", "--week", "2026-47"),
    ("run", "weekly", "--source", "post"),
    ("run", "daily", "--date", "yesterday"),
    ("backfill",),
    ("backfill", "--from", WEEKS[3], "--to", WEEKS[1]),
    ("backfill", "--from", WEEKS[1], "--to", WEEKS[3], "--source", "post"),
    ("baseline", "pin", "--from", "W1"),
    ("baseline", "pin", "--from", WEEKS[3], "--to", WEEKS[1]),
    ("baseline", "pin", "--source", "post"),
    ("history", "--metric", "ecee"),
    ("history", "--format", "excel"),
    ("report", "--week", "2099-W01", "--html", "page.html"),
    ("report", "--target", "95", "--html", "report.html"),
    ("examples", "--label", "a", "--score-min", "0.9", "--score-max", "0.1"),
    ("examples", "--label", "a", "--week", "2026-W40", "--date", "2026-10-01"),
    ("explain",),
    ("automation", "status", "--source", "post"),
    ("automation", "enable", "--label", "nope", "--reason", "x"),
    ("automation", "enable", "--source", "tickets", "--label", "a"),
    ("automation", "enable", "--source", "post", "--label", "a", "--reason", "x"),
    ("automation", "enable", "--source", "tickets", "--label", "a", "--reason", "x", "--until", "soon"),
    ("automation", "enable", "--source", "tickets", "--label", "a" * 1001, "--reason", "x"),
    ("automation", "disable", "--all", "--reason", "x"),
    ("automation", "disable", "--source", "tickets", "--label", "a", "--reason", " "),
    *((*words, "--nonsense") for words in COMMANDS if words),
]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_words_leave_no_file_behind(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alerts.yaml").write_text(worlds.CONFIG, "utf-8")
    found = CliRunner(env=dict.fromkeys(variables(), "")).invoke(app, list(words))
    assert found.exit_code == 2, (found.output, found.exception)
    assert [path.name for path in tmp_path.rglob("*")] == ["alerts.yaml"]


LEAVES = [words for words in COMMANDS if words and words not in {w[:-1] for w in COMMANDS}]
NEEDED = {
    ("annotations", "add"): ("--source", "a", "x"), ("annotations", "remove"): ("abc", "--reason", "x"),
    ("backfill",): ("--from", WEEKS[1], "--to", WEEKS[3]), ("explain",): ("abc",),
    ("incidents", "show"): ("abc",), ("incidents", "ack"): ("abc",), ("incidents", "silence"): ("abc", "--for", "1d"),
    ("incidents", "resolve"): ("abc", "--reason", "x"), ("label", "rename"): ("a", "b", "c", "--reason", "x"),
    ("automation", "enable"): ("--all", "--reason", "x"), ("automation", "disable"): ("--all", "--reason", "x"),
}  # fmt: skip
READ_THE_HISTORY_ONLY = {
    ("history",), ("baseline", "list"), ("baseline", "show"), ("automation", "history"), ("incidents", "list"),
("annotations", "list"), ("db", "upgrade"), ("db", "check"),
    ("automation", "thresholds", "list"),
}  # fmt: skip
NEEDS_NO_CONFIGURATION = {("version",), ("docs",)}


WITHOUT_CONFIGURATION = [
    pytest.param(words, config, id=f"{kind}-{' '.join(words)}")
    for kind, config in (("no alerts.yaml", None), ("a broken one", "version: 2"))
    for words in LEAVES
    if words not in READ_THE_HISTORY_ONLY | NEEDS_NO_CONFIGURATION
    and (kind, words) != ("no alerts.yaml", ("demo",))  # it brings its own: test_demo.py
]


@pytest.mark.parametrize(("words", "config"), WITHOUT_CONFIGURATION)
def test_without_a_configuration_no_command_leaves_a_file_behind(
    words: tuple[str, ...], config: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if config is not None:
        (tmp_path / "alerts.yaml").write_text(config, "utf-8")
    found = CliRunner(env=dict.fromkeys(variables(), "")).invoke(app, [*words, *NEEDED.get(words, ())])
    assert found.exit_code == 2, (found.output, found.exception)
    assert [path.name for path in tmp_path.rglob("*")] == (["alerts.yaml"] if config else [])


@pytest.mark.parametrize("words", sorted(READ_THE_HISTORY_ONLY - {("db", "upgrade")}), ids=" ".join)
def test_commands_that_only_read_the_history_leave_no_file_behind(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner(env=dict.fromkeys(variables(), "")).invoke(app, [*words, *NEEDED.get(words, ())])
    assert found.exit_code in (0, 1), (found.output, found.exception)
    assert list(tmp_path.rglob("*")) == []


def test_a_wrong_address_is_a_wrong_configuration_also_for_check(fresh: World) -> None:
    for settings in ({"CALMON_STORE_URL": "mysql://host/history"}, {"CALMON_WAREHOUSE_URL": "mysql://host/database"}):
        found = fresh.calmon("check", **settings)
        assert found.exit_code == 2
        assert next(iter(settings)) in found.stdout
    assert fresh.calmon("history", CALMON_STORE_URL="mysql://host/history").exit_code == 2


def test_schedules_in_another_time_zone_than_the_rules_are_a_wrong_configuration(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fresh.folder)
    (fresh.folder / "deployments").mkdir()
    (fresh.folder / "deployments" / "prefect.yaml").write_text(
        "deployments: [{name: weekly, schedules: [{cron: '15 7 * * 1', timezone: Asia/Tokyo}]}]", "utf-8"
    )
    found = fresh.calmon("check", "--offline")
    assert found.exit_code == 2
    assert "make them the same" in " ".join(found.stdout.split())


def test_the_printed_schedules_are_in_the_time_zone_of_the_rules_and_check_looks_at_them(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fresh.folder)
    file = fresh.folder / "alerts.yaml"
    file.write_text(file.read_text("utf-8").replace("timezone: UTC", "timezone: America/New_York"), "utf-8")
    printed = fresh.calmon("serve", "--print-schedules")
    deployments = yaml.safe_load(printed.stdout)["deployments"]
    zones = {each["name"]: each["schedules"][0]["timezone"] for each in deployments if each.get("schedules")}
    judges = dict.fromkeys(("calmon-weekly", "calmon-daily", "calmon-prune"), "America/New_York")
    assert (printed.exit_code, zones) == (0, judges | dict.fromkeys(("calmon-watchdog", "calmon-drain"), "UTC"))
    (fresh.folder / "prefect.yaml").write_text(printed.stdout, "utf-8")
    assert "prefect.yaml and alerts.yaml agree on America/New_York" in fresh.calmon("check", "--offline").stdout
    (fresh.folder / "prefect.yaml").write_text(printed.stdout.replace("America/New_York", "UTC"), "utf-8")
    assert fresh.calmon("check", "--offline").exit_code == 2
    (fresh.folder / "prefect.yaml").write_text(printed.stdout.replace("UTC", "America/New_York"), "utf-8")
    everywhere = fresh.calmon("check", "--offline")
    assert everywhere.exit_code == 2
    said = "calmon-drain, calmon-watchdog would be silent in the hour that clocks repeat: write timezone: UTC there"
    assert said in " ".join(everywhere.stdout.split())
    file.unlink()
    without = fresh.calmon("serve", "--print-schedules")
    assert "timezone: UTC" in without.stdout
    assert "the schedules are in UTC" in without.stderr


def test_check_names_a_rule_that_can_never_fire_and_one_that_needs_more_rows(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fresh.folder)
    file = fresh.folder / "alerts.yaml"
    few = "  - {id: few, metric: ece, threshold: 0.1, min_samples: 9}\n"
    never = "rules:\n  - {id: too-high, metric: mce, threshold: 1}\n"
    file.write_text(file.read_text("utf-8").replace("rules:\n", never + few, 1), "utf-8")
    found = fresh.calmon("check", "--offline")
    assert found.exit_code == 0
    said = " ".join(found.stdout.split())
    assert "rule too-high note mce is never above 1, so it never fires" in said
    assert "rule few note min_samples: 9 is taken as 125: in fewer rows the p-values of an ECE are too small" in said


def test_a_demo_that_is_refused_leaves_no_mark_that_lets_the_next_one_overwrite(fresh: World) -> None:
    (fresh.folder / "history.sqlite").write_text("somebody's own", "utf-8")
    new = f"duckdb:///{fresh.folder / 'new' / 'warehouse.duckdb'}"
    found = fresh.calmon("demo", CALMON_WAREHOUSE_URL=new)
    assert found.exit_code == 2
    assert "history.sqlite is there and the demo has not made it" in found.stderr
    assert not (fresh.folder / "new").exists()
