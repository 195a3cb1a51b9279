"""The study of weekly and accumulated rules together: weeks that it does not judge would have opened nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.populations import LABELS, Population, less_precise
from benchmarks.quiet import ACCEPTED, MEMORY, WORLDS, Played, every_rule, incidents_of, keeping, main, played_year
from monitor.core.counts import CELLS
from monitor.core.promises import promises_of


def troubled(world: str, precision: float, n: int, weeks: int) -> Played:
    """Some labels of which one gets worse with the first judged week."""
    labels = [keeping(label) for label in LABELS[:5]]
    before = played_year(labels, world, n, weeks, np.random.default_rng(7))
    worse = [less_precise(labels[0], precision, 0.8), *labels[1:]]
    after = played_year(worse, world, n, weeks, np.random.default_rng(7))
    name, start = labels[0].name, MEMORY * n
    mixed = {
        each: replace(rows, outcomes=np.concatenate([rows.outcomes[:start], after.world.rows[each].outcomes[start:]]))
        for each, rows in before.world.rows.items()
    }
    assert not np.array_equal(mixed[name].outcomes, before.world.rows[name].outcomes)
    return replace(before, world=replace(before.world, rows=mixed, _counts={}, _spans={}, _promised={}))


@pytest.mark.parametrize("world", WORLDS)
def test_weeks_that_are_passed_over_would_have_opened_nothing(world: str) -> None:
    played = troubled(world, 0.6, 500, 2)
    found = incidents_of(played)
    assert found == incidents_of(played, every_week=True)
    assert found["lasting-shortfall"] == 1


@pytest.mark.parametrize("world", WORLDS)
def test_promises_are_those_of_the_counts(world: str) -> None:
    played = played_year([keeping(LABELS[1])], world, 400, 1, np.random.default_rng(3))
    name = LABELS[1].name
    counts = played.world.counts(name, MEMORY, now=True)
    found = played.world.promises(name, now=True)
    want = promises_of(counts)["automated"]
    got = found[None][MEMORY]
    assert (got.rows, got.effective, got.promised, got.kept) == pytest.approx(
        (want.rows, want.effective, want.promised, want.kept)
    )
    assert sum(each[MEMORY].rows for part, each in found.items() if part and part[0] == "channel") == want.rows
    assert (counts.design_effect > 1) == (world == "clusters")
    assert counts.rows == (200 if world == "late truths" else 400)


@pytest.mark.parametrize("label", LABELS, ids=lambda label: label.name)
def test_labels_of_the_quiet_worlds_keep_what_is_accepted_at_every_score_that_acts(label: Population) -> None:
    score = np.arange(round(label.automate_at * CELLS), CELLS) / CELLS
    assert (score - keeping(label).curve.worth(score)).max() <= ACCEPTED


def test_every_rule_that_the_study_plays_is_there_once() -> None:
    names = [rule.id for rule in every_rule().rules]
    assert {"auc-decrease", "lasting-shortfall", "lasting-segments", "automated-shortfall"} <= set(names)
    assert len(names) == len(set(names))


def test_a_quick_look_prints_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["--quick", "--workers", "1", "--notebook", str(tmp_path / "notebook")])
    told = capsys.readouterr().out
    assert "incidents of weekly and accumulated rules together" in told
    assert "late truths" in told
