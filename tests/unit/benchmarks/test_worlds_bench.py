"""The study of what is no fault: worlds are what they say, and the peers ring as their formulas say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.populations import LABELS
from benchmarks.quiet import EFFECTS, MEMORY, Sums, keeping, kinds_of
from benchmarks.worlds import (
    CHANGES,
    HOLIDAYS,
    cusum_alarms,
    main,
    new_version,
    our_incidents,
    peers_incidents,
    played_in,
    right_ones_late,
    seasons,
    wrong_ones_late,
)
from monitor.core.counts import CELLS

LABEL = kinds_of(keeping(LABELS[1]))
WINDOWS, N = MEMORY + 52, 3_000
ROWS = np.full(WINDOWS, N)


def test_a_new_version_has_other_scores_that_mean_the_same() -> None:
    found, _ = new_version(LABEL, ROWS, np.random.default_rng(1))
    score, half = LABEL.cell / CELLS, MEMORY + 26
    before, after = found.n[:half].sum(axis=0), found.n[half:].sum(axis=0)
    middle = np.abs(score - 0.5) < 0.2
    assert after[middle].sum() / after.sum() < 0.6 * before[middle].sum() / before.sum()
    gap = (found.hits[half:].sum() - found.n[half:].sum(axis=0) @ LABEL.worth) / after.sum()
    assert abs(gap) < 0.01


def test_seasons_keep_the_scores_of_true_items_and_change_how_many_there_are() -> None:
    found, _ = seasons(LABEL, ROWS, np.random.default_rng(2))
    share = found.hits.sum(axis=1) / found.n.sum(axis=1)
    assert share.max() / share.min() > 1.8
    top = np.argsort(share)[-13:]
    least = np.argsort(share)[:13]
    score = LABEL.cell / CELLS
    means = [(found.hits[part] @ score).sum() / found.hits[part].sum() for part in (top, least)]
    assert means[0] == pytest.approx(means[1], abs=0.01)


@pytest.mark.parametrize(("world", "sign"), [(right_ones_late, 1), (wrong_ones_late, -1)])
def test_truths_that_depend_on_what_they_are_bend_the_newest_week(world: object, sign: int) -> None:
    whole, now = world(LABEL, ROWS, np.random.default_rng(3))  # type: ignore[operator]
    late, known = (each.hits.sum() / each.n.sum() for each in (whole, now))
    assert (late - known) * sign > 0.01
    assert (now.n <= whole.n).all()


def test_holidays_have_few_rows() -> None:
    found, _ = CHANGES["five weeks with a fifth of the rows"](LABEL, ROWS, np.random.default_rng(4))
    assert (found.n.sum(axis=1)[[MEMORY + week for week in HOLIDAYS]] == 600).all()


def test_a_cusum_rings_where_precision_falls_and_not_before() -> None:
    n = np.zeros((20, len(LABEL.cell)), dtype=np.int64)
    n[:, np.flatnonzero(LABEL.acts)[-1]] = 200
    score = float(LABEL.cell[LABEL.acts][-1]) / CELLS
    kept = np.where(np.arange(20)[:, None] < 10, score, score - 0.2) * n
    assert cusum_alarms(LABEL, Sums(n, kept, np.ones((20, len(EFFECTS)))), 0) > 0
    assert cusum_alarms(LABEL, Sums(n[:10], kept[:10], np.ones((10, len(EFFECTS)))), 0) == 0


def test_rows_whose_right_truths_come_late_ring_everywhere() -> None:
    played = played_in('three in ten of "yes" a week late', 2_000, 3, np.random.default_rng(5))
    assert our_incidents(played)["weekly"] > 0
    assert peers_incidents(played)["textbook"] > 0


def test_a_quick_look_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick"])
    assert "What is no fault: incidents a year" in capsys.readouterr().out
