"""A baseline is made of weeks that are one thing, and like those around them; else it says what changed."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from monitor.core import windows
from monitor.core.records import Window
from monitor.evaluation.baseline_checks import Between
from monitor.operations.pin_baseline import Pinned, pin, plan
from tests.fakes import world as worlds
from tests.fakes.world import CONFIG, LABELS, WEEKS, make_world, rows, write_duckdb
from tests.integration.test_main_job import calmon

NOW = datetime(2026, 9, 7, 7, tzinfo=UTC)
SWAP = 6  # the week, from 0, from which another model answers
VERSIONED = CONFIG.replace("segments: [channel]", "segments: [channel, model_version]").replace(
    "min_pairs: 3000", "min_pairs: 2000"
)
Change = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def week(name: str) -> Window:
    from zoneinfo import ZoneInfo

    return windows.week(name, ZoneInfo("UTC"))


def frame(change: Change | None = None, versions: bool = True) -> pd.DataFrame:
    """The ten good weeks of the world with model versions; ``change`` alters rows of "steady" after the swap."""
    found = rows(WEEKS[:10])
    late = found["resolved_at"] >= week(WEEKS[SWAP]).start
    if versions:
        found["model_version"] = np.where(late, "v7", "v6")
    if change is not None:
        chosen = late & (found["label"] == "steady")
        found.loc[chosen] = change(found[chosen].copy(), np.random.default_rng(2))
    return found


def overconfident(part: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    truth = np.where(part["score"] > 0.5, part["score"] - 0.16, part["score"])
    return part.assign(actual=(rng.random(len(part)) < truth).astype(int))


def other_scores(part: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    score = rng.choice([0.02, 0.98], len(part))
    return part.assign(score=score, actual=(rng.random(len(part)) < score).astype(int),
                       predicted=(score >= 0.5).astype(int))  # fmt: skip


def pinned(folder: Path, data: pd.DataFrame, first: int, last: int, *, config: str = VERSIONED, anyway: bool = False,
           label: str | None = None) -> Pinned:  # fmt: skip
    world = make_world(folder, config=config, warehouse_url=write_duckdb(folder / "w.duckdb", data))
    with world.opened(lambda: NOW) as monitor:
        ends = week(WEEKS[first]), week(WEEKS[last])
        return pin(monitor, *ends, by="test", reason="test", anyway=anyway, label=label)


def kinds(found: Pinned) -> set[tuple[str | None, str, Between]]:
    return {(c.subject.label, c.what, c.between) for c in found.concerns}


def test_weeks_that_are_one_thing_are_pinned_and_summed_up(tmp_path: Path) -> None:
    found = pinned(tmp_path, frame(), 0, 5)
    assert found.concerns == ()
    assert [b.label for b in found.baselines] == [*LABELS, None]
    assert found.versions == {"tickets": {"v6": 6 * worlds.ROWS * len(LABELS)}}
    summary = {s.subject.label: s for s in found.summaries}
    assert summary["steady"].rows == 6 * worlds.ROWS
    assert summary["steady"].ece.low <= (summary["steady"].ece.value or 0) <= summary["steady"].ece.high < 0.05


def test_a_model_swap_within_the_weeks_is_named_with_its_week_and_versions(tmp_path: Path) -> None:
    found = pinned(tmp_path, frame(overconfident), 3, 8)
    assert found.baselines == ()
    assert kinds(found) >= {("steady", "calibration", Between.HALVES), ("steady", "calibration", Between.VERSIONS)}
    assert {c.subject.label for c in found.concerns} <= {"steady", None}
    (halves,) = [c for c in found.concerns if c.subject.label == "steady" and c.between is Between.HALVES]
    assert (halves.week, halves.versions) == (WEEKS[SWAP], ("v6", "v7"))
    assert str(halves).startswith("tickets/steady: ECE higher by 0.")
    assert str(halves).endswith(f"within the span, from {WEEKS[SWAP]} on; model version v6 → v7")


@pytest.mark.parametrize("at", [0, 3])
def test_one_bad_week_is_named_wherever_it_is(tmp_path: Path, at: int) -> None:
    data, bad = frame(), week(WEEKS[at])
    chosen = (data["label"] == "steady") & data["resolved_at"].between(bad.start, bad.end)
    data.loc[chosen] = overconfident(data[chosen].copy(), np.random.default_rng(3))
    found = pinned(tmp_path, data, 0, 5)
    assert found.baselines == ()
    (concern,) = [each for each in found.concerns if each.subject.label == "steady"]
    assert (concern.what, concern.between, concern.week) == ("calibration", Between.WEEK, WEEKS[at])
    assert str(concern).startswith("tickets/steady: ECE higher by 0.")
    assert str(concern).endswith(f" in {WEEKS[at]} than in the other weeks; model version v6")


def test_weeks_after_a_swap_differ_from_the_weeks_before(tmp_path: Path) -> None:
    found = pinned(tmp_path, frame(overconfident), 6, 9)
    assert ("steady", "calibration", Between.BEFORE) in kinds(found)
    assert {c.between for c in found.concerns} == {Between.BEFORE}
    (before,) = [c for c in found.concerns if c.subject.label == "steady"]
    assert "than in the weeks before, from 2026-W30 on; model version v6 → v7" in str(before)


def test_the_command_pins_and_says_in_one_note_what_comes_after(tmp_path: Path) -> None:
    data = write_duckdb(tmp_path / "w.duckdb", frame(overconfident))
    world = make_world(tmp_path, config=VERSIONED, warehouse_url=data)
    done = calmon(world, "baseline", "pin", "--from", WEEKS[0], "--to", WEEKS[5])
    assert done.returncode == 0, done.stderr
    assert "pinned tickets/steady version 1" in done.stdout
    (note,) = (line for line in done.stderr.splitlines() if line.strip())
    assert note.startswith("note: tickets/steady: ECE higher by 0.")
    assert f"after the span, from {WEEKS[SWAP]} on" in note


@pytest.mark.parametrize(("first", "last", "chosen"), [(3, 8, (SWAP, 8)), (2, 7, (2, 5))])
def test_a_plan_takes_the_longer_part_that_is_one_thing(
    tmp_path: Path, first: int, last: int, chosen: tuple[int, int]
) -> None:
    data = write_duckdb(tmp_path / "w.duckdb", frame(overconfident, versions=False))
    world = make_world(tmp_path, config=CONFIG, warehouse_url=data)
    with world.opened(lambda: NOW) as monitor:
        found = plan(monitor, [week(name) for name in WEEKS[first : last + 1]])
        assert monitor.store.baselines() == []
    assert (found.first.name, found.last.name, found.anyway) == (WEEKS[chosen[0]], WEEKS[chosen[1]], False)


@pytest.mark.parametrize(("change", "what"), [(overconfident, "calibration"), (other_scores, "scores")])
def test_a_change_after_the_weeks_is_named_with_the_week_in_which_it_begins(
    change: Change, what: str, tmp_path: Path
) -> None:
    data = frame()
    chosen = (data["label"] == "steady") & (data["resolved_at"] >= week(WEEKS[8]).start)
    data.loc[chosen] = change(data[chosen].copy(), np.random.default_rng(3))
    found = pinned(tmp_path, data, 0, 5)
    (concern,) = [each for each in found.concerns if each.subject.label == "steady" and each.what == what]
    assert (concern.between, concern.week) == (Between.AFTER, WEEKS[8])
    assert f"after the span, from {WEEKS[8]} on" in str(concern)


def test_scores_that_moved_are_named_although_they_are_right(tmp_path: Path) -> None:
    found = pinned(tmp_path, frame(other_scores), 3, 8)
    assert ("steady", "scores", Between.HALVES) in kinds(found)
    assert not [c for c in found.concerns if c.what == "calibration"]
    assert "scores are distributed differently (KS distance 0." in str(found.concerns[0])


def test_without_a_segment_of_versions_weeks_are_compared_by_their_main_version(tmp_path: Path) -> None:
    found = pinned(tmp_path, frame(overconfident), 3, 8, config=CONFIG)
    assert ("steady", "calibration", Between.VERSIONS) in kinds(found)
    assert pinned(tmp_path, frame(overconfident, versions=False), 3, 8, config=CONFIG).concerns


def test_rejected_rows_speak_against_a_baseline(tmp_path: Path) -> None:
    data = frame()
    bad = (data["label"] == "steady") & (data["item"].str.startswith(f"{WEEKS[2]}-1"))
    data["actual"] = data["actual"].where(~bad, -1)
    found = pinned(tmp_path, data, 0, 5)
    (concern,) = found.concerns
    assert (concern.what, concern.week) == ("rejected", WEEKS[2])
    assert str(concern).startswith(f"tickets (all labels): {WEEKS[2]}: 111 of ")
    assert "are -1" in str(concern)


def test_the_command_names_the_change_pins_nothing_and_takes_anyway(tmp_path: Path) -> None:
    world = make_world(
        tmp_path, config=VERSIONED, warehouse_url=write_duckdb(tmp_path / "w.duckdb", frame(overconfident))
    )
    words = ("baseline", "pin", "--from", WEEKS[3], "--to", WEEKS[8])
    refused = calmon(world, *words)
    assert refused.returncode == 1
    assert "warning: tickets/steady: ECE higher by 0." in refused.stderr
    assert "nothing was pinned: choose other weeks (--from, --to), or pin these with --anyway" in refused.stderr
    assert "tickets: model versions v6 (5,400 rows), v7 (5,400 rows)" in refused.stdout
    assert "tickets/steady" in refused.stdout
    assert "no baseline yet" in calmon(world, "baseline", "list").stdout
    taken = calmon(world, *words, "--anyway")
    assert taken.returncode == 0
    assert "warning: tickets/steady" in taken.stderr
    assert "pinned tickets/steady version 1: 3,600 pairs" in taken.stdout


def test_a_release_is_noted_once_compared_with_the_weeks_before_and_says_what_pins_it(tmp_path: Path) -> None:
    data = write_duckdb(tmp_path / "w.duckdb", frame(overconfident))
    world = make_world(tmp_path, config=VERSIONED, warehouse_url=data)
    words = ("release", "v7", "--source", "tickets")
    first = calmon(world, *words, "--at", week(WEEKS[SWAP]).start.isoformat())
    assert first.returncode == 0, first.stderr
    assert "tickets/steady: ECE higher by 0." in first.stdout
    again = calmon(world, *words)
    assert again.stdout == first.stdout
    with world.opened() as monitor:
        (noted,) = monitor.store.annotations("tickets")
        assert (noted.text, noted.at) == ("release v7", week(WEEKS[SWAP]).start)
        assert monitor.store.baselines() == []
    (line,) = [line for line in first.stdout.splitlines() if line.startswith("next: ")]
    pin_words = shlex.split(line.partition("    # ")[0])[2:]
    done = calmon(world, *pin_words)
    assert done.returncode == 0, done.stderr
    assert f"pinned tickets/steady version 1: 2,{4 * worlds.ROWS % 1000:03} pairs of {WEEKS[SWAP]}.." in done.stdout
    other = calmon(world, *words, "--at", "2026-07-01T00:00")
    assert other.returncode == 2
    assert f"calmon annotations remove {noted.id}" in other.stderr
    assert calmon(world, "annotations", "remove", noted.id, "--reason", "wrong time").returncode == 0
    moved = calmon(world, *words, "--at", "2026-07-01T00:00")
    assert "release v7 of tickets: noted at 2026-07-01 00:00 UTC" in moved.stdout


def test_a_release_without_enough_rows_says_so_and_pins_nothing(tmp_path: Path) -> None:
    data = write_duckdb(tmp_path / "w.duckdb", frame())
    world = make_world(tmp_path, config=VERSIONED, warehouse_url=data)
    found = calmon(world, "release", "v8", "--source", "tickets", "--at", week(WEEKS[9]).start.isoformat())
    assert found.returncode == 0, found.stderr
    assert f"a baseline wants 2,000 rows of each label (tickets/rare {worlds.ROWS:,}, " in found.stdout
    assert "no change of calibration or scores can be seen" in found.stdout
    now = calmon(world, "release", "v9", "--source", "tickets")
    assert "no whole week has ended since; give it again then: calmon release v9 --source tickets" in now.stdout
