"""What is benched finds the same, its data are what they are said to be, and its ratios are right; not its times."""

from __future__ import annotations

import doctest
from types import ModuleType

import numpy as np
import pytest

from benchmarks import bench, contestants, race, timing
from benchmarks.contestants import (
    Rows,
    count,
    ours,
    peer_bootstrap,
    row_bootstrap,
    sklearn_bootstrap,
)
from benchmarks.peers import BINS, PEERS, Errors, Measure, Peer
from benchmarks.timing import Size, in_turns

TINY = Size(
    labels=2, rows=600, resamples=20, patience=1.0, peer_patience=0.01, rounds=2,
    replayed=2,
)  # fmt: skip


@pytest.fixture
def rows() -> Rows:
    """Forty distinct scores a bin, each in a cell of its own, so that all ways of binning agree; not in order."""
    rng = np.random.default_rng(20260101)
    score = rng.permutation(np.round((np.arange(40 * BINS) + 0.5) / (40 * BINS), 4))
    return Rows(score, (rng.random(len(score)) < score**1.5).astype(np.float64))


def gaps_by_hand(score: np.ndarray, outcome: np.ndarray) -> list[float]:
    """Hit rate minus mean score of each fifteenth of the rows, in plain Python."""
    pairs = sorted(zip(score.tolist(), outcome.tolist(), strict=True))
    size = len(pairs) // BINS
    return [sum(y - s for s, y in pairs[k : k + size]) / size for k in range(0, len(pairs), size)]


def by_hand(rows: Rows) -> float:
    return sum(map(abs, gaps_by_hand(rows.score, rows.outcome))) / BINS


def own_library() -> Measure:
    def measure(score: np.ndarray, outcome: np.ndarray) -> Errors:
        gaps = [abs(gap) for gap in gaps_by_hand(score, outcome)]
        return sum(gaps) / BINS, max(gaps)

    return measure


def test_all_contestants_find_the_same_plug_in_ece(rows: Rows) -> None:
    counts = count([rows])
    answers = [
        ours(counts, "analytic"),
        ours(counts, "bootstrap"),
        row_bootstrap([rows], 20),
        sklearn_bootstrap([rows], 5),
    ]
    assert [answer.plug_in for (answer,) in answers] == pytest.approx([by_hand(rows)] * 4, abs=1e-9)
    assert race.disagreement(answers) < 1e-9


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_that_is_installed_finds_the_plug_in_ece(peer: Peer, rows: Rows) -> None:
    if not peer.installed:
        pytest.skip(f"{peer.name} is not installed: pip install '.[peers]'")
    (answer,) = peer_bootstrap(peer, [rows], 3)
    assert answer.plug_in == pytest.approx(by_hand(rows), abs=1e-6 if peer.frequent else 0.02)


def test_the_row_bootstraps_find_like_limits(rows: Rows) -> None:
    peer = Peer("own", "benchmarks", "in plain Python", own_library, True)
    (plain,), (slow,), (own,) = (
        row_bootstrap([rows], 400),
        sklearn_bootstrap([rows], 400),
        peer_bootstrap(peer, [rows], 400),
    )
    for other in (slow, own):
        assert other.ece == pytest.approx(plain.ece, abs=0.015)
        assert other.mce == pytest.approx(plain.mce, abs=0.05)
    assert own.plug_in == by_hand(rows)


@pytest.mark.parametrize("module", [timing, contestants], ids=lambda module: module.__name__)
def test_the_examples_are_right(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_everything_runs_in_turns_and_a_warm_up_does_not_count() -> None:
    asked = []
    found = in_turns({name: lambda name=name: asked.append(name) for name in "ab"}, 2, warm_up=True, scale={"b": 0.0})
    assert asked == list("ababab")
    assert [(each.name, len(each.seconds)) for each in found] == [("a", 2), ("b", 2)]
    assert min(found[0].seconds) > 0
    assert found[1].seconds == (0.0, 0.0)


def test_the_race_runs_and_scales_what_it_cuts_short() -> None:
    raced = race.race(TINY)
    lines = {line.name: line for line in raced.lines}
    assert [line.name for line in raced.lines][race.ANALYTIC] == "ours, analytic form"
    assert [line.name for line in raced.lines][race.BOOTSTRAP] == "ours, bootstrap form"
    assert [line.name for line in raced.lines][race.ROWS] == "numpy row bootstrap"
    assert lines["numpy row bootstrap"].resamples == "20"
    assert lines["scikit-learn in scipy.stats.bootstrap"].resamples.startswith("20 (scaled from ")
    assert raced.apart < 0.01
    assert all((line.timing is None) == (line.resamples == "not installed") for line in raced.lines)


@pytest.mark.slow  # ten processes, each with its imports
def test_one_command_prints_every_table(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "QUICK", TINY)
    bench.main(["--quick"])
    said = capfd.readouterr().out
    titles = (
        "ECE, MCE and 95% intervals: 2 labels of 600 rows",
        "`calmon replay`: 2 weeks, 2 labels",
        "Decisions a second",
    )
    assert [title for title in titles if title not in said] == []
    assert "They do different work" in said
    assert "a dictionary, and one comparison" in said
