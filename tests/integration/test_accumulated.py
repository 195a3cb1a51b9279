"""A rule that accumulates evidence, in runs: what the history keeps for it, late truths, and the same in a replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.config.counting import settings_of
from monitor.config.load import parse_config
from monitor.core.promises import of_the_same_evidence
from monitor.core.records import Verdict
from monitor.core.windows import week
from monitor.history.store import Store
from monitor.inference.levels import all_promises_of
from monitor.inference.sequential import LONGEST
from monitor.operations.replay.inputs import files_of, readings
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.run import run_window
from tests.fakes.world import BROKEN_FROM, CONFIG, WEEKS, World, pinned_world

LASTING = (
    "  - {id: lasting-overconfidence, metric: overconfidence, where: automated, condition: accumulated,\n"
    "     threshold: 0.02, min_samples: 30, severity: warning, actions: [slack]}\n"
    "  - {id: lasting-segments, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02,\n"
    "     scope: segments, min_samples: 30, severity: warning, actions: [slack]}\n"
)

BESIDE = CONFIG.replace("  - {id: ece-increase", f"{LASTING}  - {{id: ece-increase", 1)
JUDGED = WEEKS[6:]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = pinned_world(tmp_path_factory.mktemp("lasting"), config=BESIDE)
    with made.opened() as monitor:
        for name in JUDGED:
            run_window(monitor, week(name, monitor.config.zone), act="auto")
    return made


def of_rule(verdicts: list[Verdict], rule: str = "lasting-overconfidence") -> dict[tuple[str, str | None], Verdict]:
    return {(v.window.name, v.subject.label): v for v in verdicts if v.rule == rule}


@pytest.fixture(scope="module")
def found(world: World) -> dict[tuple[str, str | None], Verdict]:
    with world.opened() as monitor:
        return of_rule(monitor.store.verdicts())


def test_a_label_that_goes_wrong_is_found_and_the_others_are_quiet(
    found: dict[tuple[str, str | None], Verdict],
) -> None:
    wrong = {(name, label) for (name, label), v in found.items() if v.outcome == "breach"}
    assert {label for _, label in wrong} == {"slipping"}
    assert {name for name, _ in wrong} <= set(WEEKS[BROKEN_FROM:])
    newest = found[WEEKS[-1], "slipping"]
    assert newest.outcome == "breach"
    assert newest.detail["since"] == WEEKS[BROKEN_FROM]


@pytest.fixture(scope="module")
def in_segments(world: World) -> dict[tuple[str, str | None], Verdict]:
    with world.opened() as monitor:
        return of_rule(monitor.store.verdicts(), "lasting-segments")


def test_a_label_that_goes_wrong_is_found_in_its_segments_and_the_others_are_quiet(
    world: World, in_segments: dict[tuple[str, str | None], Verdict]
) -> None:
    wrong = {(name, label) for (name, label), v in in_segments.items() if v.outcome == "breach"}
    assert {label for _, label in wrong} == {"slipping"}
    assert {name for name, _ in wrong} <= set(WEEKS[BROKEN_FROM:])
    newest = in_segments[WEEKS[-1], "slipping"]
    assert newest.detail["since"] == WEEKS[BROKEN_FROM]
    assert {tuple(line[:2]) for line in newest.detail["segments_named"]} >= {
        ("channel", "email"), ("channel", "web"), ("score_band", "from 0.9"),
    }  # fmt: skip
    with world.opened() as monitor:
        document = run_window(monitor, week(WEEKS[-1], monitor.config.zone), dry_run=True).document
    mine = [v for v in document["verdicts"] if v["rule"] == "lasting-segments" and v["label"] == "slipping"]
    column, value = newest.detail["segment"]
    assert [(v["id"], v["segment"]) for v in mine] == [(newest.id, {column: value})]
    assert all("segment" not in v for v in document["verdicts"] if v["rule"] == "lasting-overconfidence")


def test_the_history_gives_the_promises_of_segments_and_only_where_asked(world: World) -> None:
    with world.opened() as monitor:
        zone, newest = monitor.config.zone, week(WEEKS[-1], monitor.config.zone)
        past = monitor.store.past_promises("tickets", newest, LONGEST, zone, segments=True)
        without = monitor.store.past_promises("tickets", newest, LONGEST, zone)
    assert all(not each.segments for each in without)
    parts = past[0].segments["steady"]
    channels = [promises["all"].rows for (column, _), promises in parts.items() if column == "channel"]
    assert sum(channels) == past[0].labels["steady"]["all"].rows
    assert {column for column, _ in parts} == {"channel", "score_band"}


def test_other_rules_decide_as_if_it_was_not_there(world: World, tmp_path: Path) -> None:
    """It has a false-alarm rate of its own, and takes none of theirs."""
    alone = pinned_world(tmp_path)
    with alone.opened() as monitor:
        result = run_window(monitor, week(WEEKS[-1], monitor.config.zone), dry_run=True)
        expected = {v["rule"] + str(v["label"]): v["p_adjusted"] for v in result.document["verdicts"]}
    with world.opened() as monitor:
        result = run_window(monitor, week(WEEKS[-1], monitor.config.zone), dry_run=True)
        verdicts = [v for v in result.document["verdicts"] if not v["rule"].startswith("lasting-")]
    assert {v["rule"] + str(v["label"]): v["p_adjusted"] for v in verdicts} == expected


def test_the_history_gives_the_promises_of_the_counts_that_it_holds(world: World) -> None:
    with world.opened() as monitor:
        zone, newest = monitor.config.zone, week(WEEKS[-1], monitor.config.zone)
        past = monitor.store.past_promises("tickets", newest, LONGEST, zone)
        assert [each.window.name for each in past] == [*reversed(WEEKS[:-1])][: len(past)]
        assert len(past) >= len(JUDGED) - 1
        for each in past:
            kept = monitor.store.load_reading("weekly", each.window.start, "tickets")
            assert {**each.labels} == {label: all_promises_of(counts) for label, counts in kept.labels.items()}


def test_evidence_begins_again_where_rows_were_read_by_other_clusters_in_runs_and_in_a_replay(
    world: World, tmp_path: Path
) -> None:
    copy = tmp_path / "history.sqlite"
    copy.write_bytes((world.folder / "history.sqlite").read_bytes())
    config = parse_config(BESIDE)
    changed, newest = (week(name, config.zone) for name in (JUDGED[1], WEEKS[-1]))
    engine = sa.create_engine(f"sqlite:///{copy}")
    with engine.begin() as connection:
        (kept,) = connection.execute(sa.text("SELECT DISTINCT settings FROM readings WHERE settings IS NOT NULL")).one()
        other = json.dumps(json.loads(kept) | {"columns.cluster": "thread"})
        connection.execute(
            sa.text("UPDATE readings SET settings = :other WHERE window_start = :start"),
            {"other": other, "start": changed.start.strftime("%Y-%m-%d %H:%M:%S.%f")},
        )
    engine.dispose()
    plan = plan_of(config, config, newest, len(JUDGED))
    since = [name for name in JUDGED if name > changed.name]
    with Store.from_url(f"sqlite:///{copy}") as store, world.opened() as monitor:
        whole = monitor.store.past_promises("tickets", newest, LONGEST, config.zone)
        left = of_the_same_evidence(
            store.past_promises("tickets", newest, LONGEST, config.zone), settings_of(config.sources["tickets"])
        )
        file, replayed = files_of(store, plan, plan.parts[0])["present"], []
        for window, reading in readings(store, plan, plan.parts[0]):
            replayed += [] if reading is None else [file.past(reading)]
            file.add(window, reading)
    assert [past.window.name for past in left] == [*reversed(since)][1:]
    assert len(whole) > len(left)
    assert [past.window.name for past in replayed[-1]] == [*reversed(since)][1:]


def test_a_year_is_two_questions_to_the_history(world: World) -> None:
    with world.opened() as monitor:
        asked = []

        def note(*args: object) -> None:
            asked.append(str(args[2]))

        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        monitor.store.past_promises("tickets", week(WEEKS[-1], monitor.config.zone), LONGEST, monitor.config.zone)
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert sum("readings" in statement or "counts" in statement for statement in asked) == 2


def test_a_replay_judges_by_another_score_from_which_labels_act(world: World) -> None:
    """The proposed file acts from .95 on, so that fewer rows, of other scores, are behind its evidence."""
    present, proposed = parse_config(BESIDE), parse_config(BESIDE.replace("automate_at: 0.8", "automate_at: 0.95"))
    with world.opened() as monitor:
        other = replay(monitor.store, plan_of(present, proposed, week(WEEKS[-1], present.zone), len(JUDGED)))
    for rule in ("lasting-overconfidence", "lasting-segments"):  # of segments the bands of scores are left
        found = {o.incident.label for o in other.proposed.incidents if rule in o.incident.rules}
        assert found == {"slipping"}, rule
