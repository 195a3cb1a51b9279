"""``actions: [slack, limit_scores]`` in runs: what is safe goes on acting, what is not is off, and it heals again."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.automation.gate.snapshot import decide, snapshot_of
from monitor.core.windows import week
from monitor.operations.change_switch import change_switch
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from monitor.story.gather import Teller
from monitor.story.switch import switch_story
from tests.fakes.world import BASELINE, CONFIG, SEED, WEEKS, World, make_world, rows, write_duckdb

LIMITS = CONFIG.replace(
    "critical, actions: [slack, disable_automation]}", "critical, actions: [slack, limit_scores]}", 1
)
LIMITS = LIMITS.replace("initial: on_first_ok", "re_enable: {after: 2}")
LIMITS = re.sub(r"  - \{id: ece-two-days.*?\}\n", "", LIMITS, flags=re.DOTALL)  # no daily run renews a lease here
PER_WEEK = 2_400
FROM, HEALED = 7, 10  # weeks of the fault


def due(name: str) -> datetime:
    return datetime.strptime(f"{name}-1 06:30 +0000", "%G-W%V-%u %H:%M %z") + timedelta(days=7)


def world_with(folder: Path, wrong: dict[float, float]) -> World:
    """The world, where from the eighth to the tenth week scores of "slipping" are right so much less often."""
    frame = rows(per_week=PER_WEEK)
    draw = np.random.default_rng(SEED).random(len(frame))
    week_of = frame["item"].str.slice(0, 8)
    bad = (frame["label"] == "slipping") & week_of.isin(WEEKS[FROM:HEALED])
    worth = frame["score"] - frame["score"].map(wrong).fillna(0.0) * bad
    write_duckdb(folder / "warehouse.duckdb", frame.assign(actual=(draw < worth).astype(int)))
    made = make_world(folder, config=LIMITS, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")
    with made.opened(lambda: due(WEEKS[5])) as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="ana", reason="trusted")
        change_switch(monitor, "tickets", "slipping", enable=True, by="ana", reason="trusted", key="on")
    return made


def judge(world: World, number: int) -> None:
    with world.opened(lambda: due(WEEKS[number])) as monitor:
        run_window(monitor, week(WEEKS[number], monitor.config.zone), act="auto")


def acts(world: World, score: float, at: datetime) -> bool:
    """What the gate says of an item with this score."""
    with world.opened() as monitor:
        store = monitor.store
        snapshot = snapshot_of(at, store.switches(), {("tickets", None): 0.8}, store.identity())
    return decide(snapshot, "tickets", "slipping", score, at).allowed


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Only scores of .9 are wrong: those of .98 are as good as ever."""
    world = world_with(tmp_path_factory.mktemp("limited"), {0.9: 0.35})
    for number in range(6, FROM + 1):
        judge(world, number)
    return world


def test_the_scores_that_are_safe_go_on_and_the_others_do_not(limited: World) -> None:
    at = due(WEEKS[FROM])
    with limited.opened() as monitor:
        state = monitor.store.switch("tickets", "slipping")
        event = monitor.store.switch_events("tickets", "slipping")[-1]
        (verdict,) = [v for v in monitor.store.verdicts() if v.outcome == "breach" and "limit_scores" in v.actions]
    assert (state.state, state.blocked) == ("on", ((0.8, 0.9799),))
    assert state.kept.score == 0.98
    assert 0.4 < state.kept.share < 0.6 and 0.93 < state.kept.low < state.kept.correct < state.kept.high  # noqa: PT018
    assert (event.kind, event.blocked) == ("blocked", state.blocked)
    assert "it acts only from score 0.98" in event.reason
    assert verdict.detail["limit"]["score"] == 0.98
    assert [acts(limited, score, at) for score in (0.79, 0.9, 0.9799, 0.98, 1.0)] == [False, False, False, True, True]


def test_people_are_told_what_goes_on(limited: World) -> None:
    with limited.opened() as monitor:
        story = switch_story(monitor.store.switch("tickets", "slipping"), due(WEEKS[FROM]), whole=None)
        assert story.words.startswith("Automation is on only from score 0.98 (49% of its items go on, 98% right, ")
        assert (story.state, story.acts_from) == ("limited", 0.98)
        (verdict,) = [v for v in monitor.store.verdicts() if v.outcome == "breach" and "limit_scores" in v.actions]
        payloads = json.dumps([each.payload for each in monitor.store.deliveries()])
    assert "only from score 0.98" in payloads
    assert "slipping must not act alone below 0.98" in payloads
    explained = limited.calmon("explain", verdict.id).stdout
    assert "automation only from score 0.98" in " ".join(explained.split())


def test_a_past_week_is_told_with_what_went_on_then(limited: World) -> None:
    with limited.opened() as monitor:
        past = week(WEEKS[FROM], monitor.config.zone)
        teller = Teller.of_run(monitor.store, monitor.config, past, due(WEEKS[FROM + 3]))
        (story,) = [each for each in teller.of_window(monitor.store.diagnoses(past)) if each.label == "slipping"]
    assert story.headline == "slipping must not act alone below 0.98"
    assert story.switch is not None
    assert story.switch.words.startswith("Automation is on only from score 0.98 (49% of its items go on, 98% right, ")


def test_the_advice_names_the_same_score(limited: World) -> None:
    words = ("automation", "advise", "--label", "slipping", "--week", WEEKS[FROM])
    found = json.loads(limited.calmon(*words, "--json").stdout)
    by_score = {each["score"]: each for each in found["scores"]}
    frame = rows(per_week=PER_WEEK)
    in_week = frame["item"].str.startswith(WEEKS[FROM])
    of_label = frame[in_week & (frame["label"] == "slipping") & (frame["score"] >= 0.8)]
    assert found["safe_from"] == 0.98
    assert by_score[0.98]["share"] == pytest.approx((of_label["score"] == 0.98).mean())
    assert by_score[0.8]["share"] == 1.0
    told = " ".join(limited.calmon(*words).stdout.split())
    assert "From 0.98 on its items are shown to be right as their scores say, less 5 points; not from lower" in told
    strict = json.loads(limited.calmon(*words, "--must-be-right", "0.999", "--json").stdout)
    assert strict["safe_from"] is None


def test_a_replay_says_what_would_have_gone_on(limited: World) -> None:
    words = ("replay", "--rules", str(limited.folder / "alerts.yaml"), "--weeks", "2", "--to", WEEKS[FROM])
    (pair,) = json.loads(limited.calmon(*words, "--json").stdout)["incidents"]
    with limited.opened() as monitor:
        kept = monitor.store.switch("tickets", "slipping").kept
    assert pair["proposed"]["automation"] == "blocked"
    assert pair["proposed"]["limit"] == asdict(kept)
    told = " ".join(limited.calmon(*words).stdout.split())
    assert "49% acts on, from 0.98, 98% right" in told
    assert "lowest that is shown to be safe" not in told
    of_label = (*words, "--label", "slipping")
    (kept_of_label,) = json.loads(limited.calmon(*of_label, "--json").stdout)["kept"]
    advised = ("automation", "advise", "--label", "slipping", "--week", WEEKS[FROM], "--json")
    assert kept_of_label == json.loads(limited.calmon(*advised).stdout)
    told = " ".join(limited.calmon(*of_label).stdout.split())
    assert "From 0.98 on its items are shown to be right as their scores say, less 5 points; not from lower" in told
    assert json.loads(limited.calmon(*words, "--label", "steady", "--json").stdout)["kept"] == []


def test_rows_of_blocked_scores_are_not_said_to_have_acted(tmp_path: Path) -> None:
    world = world_with(tmp_path, {0.9: 0.35})
    for number in range(6, FROM + 2):
        judge(world, number)
    with world.opened() as monitor:
        zone = monitor.config.zone
        told = next(d for d in monitor.store.diagnoses(week(WEEKS[FROM + 1], zone), "tickets") if d.label == "slipping")
    frame = rows(per_week=PER_WEEK)
    frame = frame[(frame["label"] == "slipping") & (frame["score"] >= 0.8)]
    first, second = (frame[frame["item"].str.startswith(WEEKS[at])] for at in (FROM, FROM + 1))
    before = 6.5 / 168  # of the second week, until the run that limited it
    expected = len(first) + before * len(second) + (1 - before) * (second["score"] == 0.98).sum()
    assert told.cost is not None
    assert told.cost.items == pytest.approx(expected, rel=1e-9)


def test_it_comes_back_after_good_weeks_and_not_before(tmp_path: Path) -> None:
    world, seen = world_with(tmp_path, {0.9: 0.35}), []
    for number in range(6, 12):
        judge(world, number)
        with world.opened() as monitor:
            seen.append(monitor.store.switch("tickets", "slipping").blocked)
    limit = ((0.8, 0.9799),)
    assert seen == [(), limit, limit, limit, limit, ()]
    with world.opened() as monitor:
        assert monitor.store.switch("tickets", "slipping").kept is None


def test_where_nothing_is_safe_it_is_off(tmp_path: Path) -> None:
    world = world_with(tmp_path, {0.9: 0.2, 0.98: 0.2})
    for number in range(6, FROM + 1):
        judge(world, number)
    with world.opened() as monitor:
        state = monitor.store.switch("tickets", "slipping")
    assert (state.state, state.blocked, state.kept) == ("off", (), None)
    assert "from no score on its promise is shown to hold" in state.reason
    assert not acts(world, 1.0, datetime.now(UTC))
