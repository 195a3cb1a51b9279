"""What is benched does the same at heart: the same plug-in ECE; and the benchmark runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import bench
from benchmarks.contestants import BINS, Answer, Rows, count, ours, row_bootstrap, sklearn_bootstrap


@pytest.fixture
def rows() -> Rows:
    """Forty distinct scores a bin, each in a cell of its own, so that all ways of binning agree; not in order."""
    rng = np.random.default_rng(20260101)
    score = rng.permutation(np.round((np.arange(40 * BINS) + 0.5) / (40 * BINS), 4))
    return Rows(score, (rng.random(len(score)) < score**1.5).astype(np.float64))


def by_hand(rows: Rows) -> float:
    pairs = sorted(zip(rows.score.tolist(), rows.outcome.tolist(), strict=True))
    bins = [pairs[k : k + 40] for k in range(0, len(pairs), 40)]
    return sum(abs(sum(y - s for s, y in pairs_of_bin)) for pairs_of_bin in bins) / len(pairs)


def test_all_contestants_find_the_same_plug_in_ece(rows: Rows) -> None:
    counts = count([rows])
    answers: list[list[Answer]] = [
        ours(counts, "analytic"),
        ours(counts, "bootstrap"),
        row_bootstrap([rows], 20),
        sklearn_bootstrap([rows], 5),
    ]
    assert [answer.plug_in for (answer,) in answers] == pytest.approx([by_hand(rows)] * 4, abs=1e-9)
    assert bench.disagreement(answers) < 1e-9


def test_the_two_row_bootstraps_find_like_limits(rows: Rows) -> None:
    (plain,), (slow,) = row_bootstrap([rows], 400), sklearn_bootstrap([rows], 400)
    assert plain.ece == pytest.approx(slow.ece, abs=0.015)
    assert plain.mce == pytest.approx(slow.mce, abs=0.05)


def test_the_quick_benchmark_runs_and_says_that_the_work_differs(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--quick"])
    said = capsys.readouterr().out
    assert "They do different work" in said
    assert all(name in said for name in ("numpy row bootstrap", "ours, analytic form", "plain scan: count(*)"))
    assert "100 (scaled from 5)" in said


def test_a_look_does_not_go_into_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(["--quick", "--write-docs"])
    assert "do not belong into the docs" in capsys.readouterr().err
