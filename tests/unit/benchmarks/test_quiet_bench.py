"""The study of weekly and accumulated rules together: weeks that it does not judge would have opened nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.populations import LABELS, Population, less_precise
from benchmarks.quiet import (
    ACCEPTED,
    MEMORY,
    WORLDS,
    Played,
    Sums,
    drawn_rows,
    effects_of,
    evidence_of_change,
    incidents_of,
    judged_weeks,
    keeping,
    kinds_of,
    may_breach,
    played_year,
    weekly_rules,
)
from benchmarks.sampling import sums_of_rows
from monitor.core.counts import CELLS
from monitor.core.promises import promises_of
from monitor.inference.dependence import design_effect

NAMES = ("n", "hits", "effects")


def troubled(world: str, precision: float, n: int, weeks: int) -> Played:
    """Some labels of which one gets worse with the first judged week."""
    labels = [keeping(label) for label in LABELS[:5]]
    before = played_year(labels, world, n, weeks, np.random.default_rng(7))
    worse = kinds_of(less_precise(labels[0], precision, 0.8))
    draw, _ = WORLDS[world]
    late = draw(worse, before.world.whole[worse.name].n.sum(axis=1), np.random.default_rng(8))

    def changed(known: Mapping[str, Sums], after: Sums) -> dict[str, Sums]:
        mine = known[worse.name]
        parts = {each: np.concatenate([getattr(mine, each)[:MEMORY], getattr(after, each)[MEMORY:]]) for each in NAMES}
        return {**known, worse.name: Sums(**parts)}

    known = before.world
    return replace(before, world=replace(known, whole=changed(known.whole, late[0]), now=changed(known.now, late[1])))


@pytest.mark.parametrize("world", WORLDS)
def test_weeks_that_are_passed_over_would_have_opened_nothing(world: str) -> None:
    played = troubled(world, 0.6, 3_000 if "unequal" in world else 500, 2)
    found = incidents_of(played)
    assert found == incidents_of(played, every_week=True)
    assert found["lasting-overconfidence"] == 1


@pytest.mark.parametrize("world", ["clusters", "late truths"])
def test_evidence_of_a_change_is_never_smaller_than_a_runs(world: str) -> None:
    played = troubled(world, 0.6, 500, 2)
    rules = [rule for rule in weekly_rules(played.place.config) if rule.evidence == "accumulated"]
    ours = {(r.id, name): evidence_of_change(r, played, name) for r in rules for name in played.world.labels}
    compared = [
        (math.exp(ours[verdict.rule, str(verdict.subject.label)][at]), verdict.detail["evidence"])
        for at, verdicts in zip(played.judged, judged_weeks(played, {}, every_week=True), strict=True)
        for verdict in verdicts
        if (verdict.rule, verdict.subject.label) in ours and "evidence" in verdict.detail
    ]
    assert len(compared) == len(rules) * len(played.world.labels) * len(played.judged)
    assert all(our >= evidence * 0.999 for our, evidence in compared)  # stored to four digits
    assert max(evidence for _, evidence in compared) > 100


def test_weeks_in_which_scores_move_are_judged() -> None:
    played = troubled("as they come", 0.9, 500, 2)
    name = list(played.world.labels)[-1]
    label = played.world.labels[name]
    moved = replace(label, chance=np.where(label.cell // 1_000 % 2 == 1, label.chance * 50, label.chance))
    rows = np.full(MEMORY + 2, 500)
    sums, _ = WORLDS["as they come"][0](moved, rows, np.random.default_rng(4))
    known = played.world
    world = replace(known, whole={**known.whole, name: sums}, now={**known.now, name: sums})
    moved_year = replace(played, world=world)
    assert incidents_of(moved_year) == incidents_of(moved_year, every_week=True)
    rises = [rule for rule in weekly_rules(played.place.config) if rule.id in ("ece-increase", "mce-increase")]
    assert [may_breach(rule, moved_year).tolist() for rule in rises] == [[True, True]] * 2
    assert not may_breach(rises[0], played).any()


@pytest.mark.parametrize("world", WORLDS)
def test_promises_and_sums_are_those_of_the_counts(world: str) -> None:
    played = played_year([keeping(LABELS[1])], world, 400, 1, np.random.default_rng(3))
    name = LABELS[1].name
    counts = played.world.counts(name, MEMORY, now=True)
    found = played.world.promises(name, now=True)
    want, got = promises_of(counts)["automated"], found[None][MEMORY]
    assert (got.rows, got.effective, got.promised, got.kept) == pytest.approx(
        (want.rows, want.effective, want.promised, want.kept)
    )
    assert sum(each[MEMORY].rows for part, each in found.items() if part and part[0] == "channel") == want.rows
    assert (counts.design_effect > 1) == (world == "clusters")
    even = {"as they come": 400, "clusters": 400, "late truths": 200}
    assert counts.rows == even.get(world, counts.rows)
    n, hits, effect = played.sums(name, 3)
    pooled = played.together(name, MEMORY, 3)
    assert (int(n[0].sum()), float(hits[0].sum())) == (pooled.rows, pooled.positives)
    assert float(effect[0]) == pytest.approx(pooled.design_effect)


def test_design_effects_are_those_of_the_rows() -> None:
    label = kinds_of(keeping(LABELS[1]))
    one = np.random.default_rng(5)
    copied, single = drawn_rows(label, np.array([60]), one), drawn_rows(label, np.array([100]), one)
    rows = [
        (cell / CELLS, place < hits, (m, kind, place))
        for m, (n, kept) in ((5, copied), (1, single))
        for kind, (cell, count, hits) in enumerate(
            zip(label.cell.tolist(), n[0].tolist(), kept[0].tolist(), strict=True)
        )
        for place in range(count)
        for _ in range(m)
    ]
    score, outcome, keys = zip(*rows, strict=True)
    cluster = np.unique(np.array(keys), axis=0, return_inverse=True)[1].reshape(-1)
    (found,) = effects_of(label, [(5, *copied), (1, *single)])
    assert found[0] == pytest.approx(design_effect(sums_of_rows(score, outcome, cluster)))


@pytest.mark.parametrize("label", LABELS, ids=lambda label: label.name)
def test_labels_of_the_quiet_worlds_keep_what_is_accepted_at_every_score_that_acts(label: Population) -> None:
    score = np.arange(round(label.automate_at * CELLS), CELLS) / CELLS
    assert (score - keeping(label).curve.worth(score)).max() <= ACCEPTED
