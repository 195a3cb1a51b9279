"""Rules on segments that judge a window, in runs: a fault planted in one channel of one label is found there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from monitor.automation import Gate
from monitor.automation.gate.snapshot import decide, snapshot_of
from monitor.automation.gate.sources import StoreSource
from monitor.automation.state import off_segments
from monitor.cli import app
from monitor.cli.automation import status_rows
from monitor.config.load import parse_config
from monitor.context import Monitor
from monitor.core.records import Verdict
from monitor.core.windows import week
from monitor.history.reader import SwitchReader
from monitor.operations.change_switch import change_switch
from monitor.operations.pin_baseline import pin
from monitor.operations.replay.model import LeftOut
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.run import run_window
from tests.fakes.in_process import ServiceClient, in_process
from tests.fakes.world import BASELINE, BROKEN_FROM, CONFIG, SEED, WEEKS, World, make_world, rows, write_duckdb
from tests.replayed_again import said_and_said_again

NOW = datetime(2026, 9, 2, tzinfo=UTC)
RULES = (
    "  - {id: segment-overconfidence, metric: overconfidence, where: automated, threshold: 0.08, scope: segments,\n"
    "     segments: [channel], min_samples: 30, severity: critical,\n"
    "     actions: [slack, disable_automation], turns_off: segments}\n"
    "  - {id: segment-rise, metric: overconfidence, where: automated, condition: increase, threshold: 0.05,\n"
    "     scope: segments, min_samples: 30, actions: [slack]}\n"
    "  - {id: segment-ece, metric: ece, condition: increase, threshold: 0.02, scope: segments,\n"
    "     segments: [channel], actions: [slack]}\n"
)
# the label's own rule is not asked to see it: what is said must come from its segments
BESIDE = CONFIG.replace("threshold: 0.05,\n     min_samples: 30", "threshold: 0.3, min_samples: 30").replace(
    "  - {id: ece-increase", f"{RULES}  - {{id: ece-increase", 1
)

JUDGED = WEEKS[BROKEN_FROM - 1 :]


def only_in_web(frame: pd.DataFrame) -> pd.DataFrame:
    """The world, its fault only in the rows of one channel: the others of its label are as they were before."""
    others = (frame["label"] == "slipping") & (frame["channel"] != "web")
    right = np.random.default_rng(SEED).random(len(frame)) < frame["score"]
    return frame.assign(actual=np.where(others, right, frame["actual"]).astype(int))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("segments")
    write_duckdb(folder / "warehouse.duckdb", only_in_web(rows()))
    made = make_world(folder, config=BESIDE, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")
    with made.opened(lambda: NOW) as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="ana", reason="trusted")
        for name in JUDGED:
            run_window(monitor, week(name, zone), act="auto")
    return made


@pytest.fixture(scope="module")
def found(world: World) -> list[Verdict]:
    with world.opened() as monitor:
        return [v for v in monitor.store.verdicts() if v.rule.startswith("segment-")]


@pytest.fixture
def asked(world: World) -> Iterator[ServiceClient]:
    with in_process(world.settings(), None, clock=lambda: NOW) as service:
        yield service


def newest(found: list[Verdict], rule: str) -> Verdict:
    return next(v for v in found if (v.rule, v.window.name, v.subject.label) == (rule, WEEKS[-1], "slipping"))


@pytest.mark.parametrize("rule", ["segment-overconfidence", "segment-rise", "segment-ece"])
def test_the_channel_is_found_and_named_and_nothing_else(found: list[Verdict], rule: str) -> None:
    breaches = [v for v in found if v.rule == rule and v.outcome == "breach"]
    assert {v.subject.label for v in breaches} == {"slipping"}
    assert {v.window.name for v in breaches} <= set(JUDGED[1:])
    assert newest(found, rule) in breaches
    assert newest(found, rule).detail["segment"] == ["channel", "web"]
    assert ["channel", "email"] not in newest(found, rule).detail["segments_found"]


def test_incident_message_and_document_name_the_segment(world: World, found: list[Verdict]) -> None:
    with world.opened() as monitor:
        document = run_window(monitor, week(WEEKS[-1], monitor.config.zone), dry_run=True).document
        incidents = [i for i in monitor.store.incidents() if "segment-overconfidence" in i.rules]
        told = json.dumps([d.payload for d in monitor.store.deliveries(["not_sent"])])
    assert [(i.source, i.label) for i in incidents] == [("tickets", "slipping")]
    assert "in channel = web" in told
    verdict = newest(found, "segment-overconfidence")
    assert [v["segment"] for v in document["verdicts"] if v["id"] == verdict.id] == [{"channel": "web"}]


def test_report_and_page_of_the_label_name_the_segment(world: World, asked: ServiceClient) -> None:
    for address in ("/label/tickets/slipping", f"/label/tickets/slipping?week={WEEKS[-1]}"):
        assert "in channel = web" in asked.get(address).text, address


def test_a_replay_says_what_the_runs_said_and_leaves_out_what_was_not_kept(world: World) -> None:
    config = parse_config(BESIDE)
    with world.opened() as monitor:
        again = replay(monitor.store, plan_of(config, config, week(WEEKS[-1], config.zone), len(JUDGED)))
        earlier = replay(monitor.store, plan_of(config, config, week(JUDGED[0], config.zone), 6))
        said_by_runs, said_again = said_and_said_again(
            monitor.store, plan_of(config, config, week(WEEKS[-1], config.zone), len(JUDGED))
        )
    assert said_by_runs
    assert said_again == said_by_runs
    said = {o.incident.label: o.switch for o in again.present.incidents}
    assert said["slipping"] in ("segments", "off")
    assert not [each for each in earlier.omitted if each.reason is LeftOut.SEGMENTS_NOT_KEPT]


def test_windows_without_the_counts_of_segments_are_read_again_and_a_replay_leaves_them_out(tmp_path: Path) -> None:
    """As after an upgrade: the history has windows that were read before any rule asked for segments."""
    write_duckdb(tmp_path / "warehouse.duckdb", only_in_web(rows()))
    before = make_world(tmp_path, config=CONFIG, warehouse_url=f"duckdb:///{tmp_path / 'warehouse.duckdb'}")
    with before.opened(lambda: NOW) as monitor:
        run_window(monitor, week(WEEKS[7], monitor.config.zone), act="never")
    after = make_world(tmp_path, config=BESIDE, warehouse_url=before.warehouse_url)
    config = parse_config(BESIDE)
    with after.opened(lambda: NOW) as monitor:
        store, first, second = monitor.store, week(WEEKS[6], config.zone), week(WEEKS[8], config.zone)
        kept = store.load_reading("weekly", first.start, "tickets", segment_counts=True)
        assert kept.segment_counts is None
        left = replay(store, plan_of(config, config, week(WEEKS[7], config.zone), 1)).omitted
        assert {each.rule for each in left if each.reason is LeftOut.SEGMENTS_NOT_KEPT} == {
            "segment-overconfidence", "segment-rise", "segment-ece",
        }  # fmt: skip
        run_window(monitor, second, act="never")
        again = store.load_reading("weekly", first.start, "tickets", segment_counts=True)
    assert {value for _, value in again.segment_counts["slipping"]} == {"web", "email"}


# The switch of the segment


def gate_says(monitor: Monitor, segments: Mapping[str, str] | None = None, score: float = 0.9) -> str:
    found = monitor.store.stored_switches()
    board = snapshot_of(NOW, found.switches, found.automate_at, found.identity)
    return decide(board, "tickets", "slipping", score, NOW, segments).reason.value


def test_the_run_turned_off_the_channel_only_and_the_gate_asks_for_it(world: World, asked: ServiceClient) -> None:
    with world.opened(lambda: NOW) as monitor:
        switch = monitor.store.switch("tickets", "slipping")
        kinds = [(e.kind, e.actor) for e in monitor.store.switch_events("tickets", "slipping")]
        assert (switch.state, [each.segment for each in switch.segments]) == ("on", [("channel", "web")])
        with closing(sqlite3.connect(world.folder / "history.sqlite")) as connection:
            kept = connection.execute("SELECT segments IS NULL FROM v1_switches WHERE label IN ('slipping', 'steady')")
            assert sorted(kept) == [(0,), (1,)]
        assert kinds == [("enabled", "weekly run"), ("segment_disabled", "weekly run"), ("renewed", "weekly run")]
        assert gate_says(monitor, {"channel": "web"}) == "segment_off"
        assert gate_says(monitor, {"channel": "email"}) == "on"
        assert gate_says(monitor) == "segment_missing"
        assert gate_says(monitor, {"channel": "web"}, 0.5) == "below_automate_at"
    about = "/v1/automation/tickets/slipping?score=0.9"
    said = [asked.get(f"{about}{more}").json() for more in ("", "&segment=channel%3Dweb", "&segment=channel%3Demail")]
    assert [(each["allowed"], each["reason"]) for each in said] == [
        (False, "segment_missing"), (False, "segment_off"), (True, "on"),
    ]  # fmt: skip
    two = asked.get(f"{about}&segment=channel%3Demail&segment=language%3Dde").json()
    unclear = asked.get(f"{about}&segment=channel%3Demail&segment=channel%3Dweb").json()
    assert (two["reason"], unclear["reason"]) == ("on", "segment_missing")
    assert said[0]["segments_off"] == [{"column": "channel", "value": "web"}]


def test_a_gate_reads_the_segments_of_a_history(world: World) -> None:
    source = StoreSource(world.store_url)
    source._reader = SwitchReader(world.store_url, limit_s=5.0, clock=lambda: NOW)
    with Gate(source) as gate:
        assert gate.allows("tickets", "slipping", 0.9, {"channel": "web"}).reason.value == "segment_off"
        assert gate.allows("tickets", "slipping", 0.9, {"channel": "email"})
        assert gate.allows("tickets", "slipping", 0.9).reason.value == "segment_missing"
        assert gate.allows("tickets", "steady", 0.9)


def test_messages_pages_report_and_status_do_not_say_more_than_is_on(world: World, asked: ServiceClient) -> None:
    with world.opened(lambda: NOW) as monitor:
        told = json.dumps([d.payload for d in monitor.store.deliveries(["not_sent"])])
        found = monitor.store.stored_switches()
        board = snapshot_of(NOW, found.switches, found.automate_at, found.identity)
        rows = {row["label"]: row for row in status_rows(monitor, board, "tickets", None)}
    assert "Automation is on, but not for channel = web, until " in told
    assert "*Now:* check that people decide the items that are left out." in told
    assert rows["slipping"]["segments_off"] == [{"column": "channel", "value": "web"}]
    assert (rows["slipping"]["blocked"], rows["slipping"]["blocked_scores"]) == ([[0.0, 1.0]], [])
    assert rows["steady"]["segments_off"] == []
    assert "Automation is on, but not for channel = web" in asked.get("/automation").text
    page = asked.get("/label/tickets/slipping").text
    assert "Automation is on, but not for channel = web" in page
    assert "channel = web off from" in page
    assert 'calmon_segments_off{label="slipping",source="tickets"} 1.0' in asked.get("/metrics").text


def test_commands_turn_a_segment_on_and_off_again(world: World) -> None:
    def automation(*words: str) -> str:
        done = CliRunner(env=world.environment).invoke(app, ["automation", *words])
        return f"{done.exit_code} {' '.join(done.output.split())}"

    mine = (
        "--source",
        "tickets",
        "--label",
        "rare",
        "--segment",
        "channel=web",
        "--reason",
        "looked at",
        "--by",
        "ana",
    )
    assert automation("disable", *mine).startswith("0 tickets/rare: channel = web turned off")
    with world.opened(lambda: NOW) as monitor:
        (part,) = monitor.store.switch("tickets", "rare").segments
        assert (part.segment, part.by_operator, part.actor) == (("channel", "web"), True, "ana")
    assert automation("enable", *mine).startswith("0 tickets/rare: channel = web turned on; no run undoes that before ")
    with world.opened() as monitor:
        assert off_segments(monitor.store.switch("tickets", "rare"), datetime.now(UTC)) == ()
    events = json.loads(automation("history", "--label", "rare", "--json").removeprefix("0 "))
    assert [each["kind"] for each in events][-2:] == ["segment_disabled", "segment_enabled"]
    other = tuple("channel=WEB" if word == "channel=web" else word for word in mine)
    assert automation("disable", *other).startswith("0 tickets/rare: channel = web turned off")
    assert automation("enable", *other).startswith("0 tickets/rare: channel = web turned on; no run")
    assert "; this segment was not off" in automation("enable", *other)
    file = world.folder / "alerts.yaml"
    file.write_text(
        BESIDE.replace("segments: [channel]", "segments: [channel]\n    labels: {rare: {critical: true}}", 1)
    )
    assert "a breach turns it off at once: its label is critical" in automation("enable", *mine)
    file.write_text(BESIDE)
    wrong = ("--label", "rare", "--reason", "x")
    assert "is column=value" in automation("disable", *wrong, "--segment", "web")
    assert "no segment column" in automation("disable", *wrong, "--segment", "chanel=web")
    assert "enables it again: no --until" in automation(
        "disable", *wrong, "--segment", "channel=web", "--until", "2030-01-01"
    )
    assert "--segment is of labels" in automation(
        "disable", "--source", "tickets", "--reason", "x", "--segment", "channel=web"
    )


def test_two_people_who_turn_off_two_segments_at_once_turn_off_both(tmp_path: Path) -> None:
    made = make_world(tmp_path, config=BESIDE)
    with made.opened(lambda: NOW) as monitor:
        change_switch(monitor, "tickets", "steady", enable=True, by="ana", reason="go live")

        def turn_off(value: str) -> None:
            with made.opened(lambda: NOW) as mine:
                change_switch(mine, "tickets", "steady", enable=False, by=value, reason="x", segment=("channel", value))

        values = [f"c{number}" for number in range(6)]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(turn_off, values))
        state = monitor.store.switch("tickets", "steady")
        assert [each.value for each in state.segments] == values
        assert state.version == 1 + len(values)
        assert len(monitor.store.switch_events("tickets", "steady")) == 1 + len(values)
