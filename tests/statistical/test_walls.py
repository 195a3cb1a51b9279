"""The interval of the ECE where nearly all rows are hits, or nearly none: the truth may lie at a wall."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.intervals import ece_intervals

TARGET = 0.93


def drawn(low: float, high: float, rate: float, rows: int, repeats: int) -> tuple[list[BinCounts], np.ndarray]:
    """Tables of rows with scores between these and this hit rate, and the true ECE of each in its bins."""
    rng, tables, truths = np.random.default_rng(17), [], []
    for _ in range(repeats):
        score = rng.uniform(low, high, rows)
        counts = counts_from_rows(score, (rng.random(rows) < rate).astype(int))
        table = bin_counts(counts, equal_frequency_edges(counts, 15))
        tables.append(table)
        truths.append(float((table.w * np.abs(rate - table.score)).sum() / table.w.sum()))
    return tables, np.array(truths)


@pytest.mark.parametrize(
    ("low", "high", "rate", "rows"),
    [
        (0.97, 0.995, 0.999, 200), (0.97, 0.995, 1.0, 200), (0.01, 0.05, 0.001, 200), (0.01, 0.05, 0.0, 200),
        (0.93, 0.97, 0.995, 100), (0.85, 0.95, 1.0, 40), (0.85, 0.95, 0.99, 40), (0.8, 1.0, 1.0, 40),
        (0.01, 0.05, 0.005, 200), (0.97, 0.995, 0.999, 1_000),
    ],
)  # fmt: skip
def test_the_interval_covers_near_a_wall(low: float, high: float, rate: float, rows: int) -> None:
    for form, repeats in (("analytic", 300), ("bootstrap", 60)):
        tables, truths = drawn(low, high, rate, rows, repeats)
        rngs = [np.random.default_rng(seed) for seed in range(repeats)] if form == "bootstrap" else []
        found = ece_intervals(tables, rngs, form=form)  # type: ignore[arg-type]
        held = [
            each.low is not None and each.high is not None and each.low <= truth + 1e-9 and truth <= each.high + 1e-9
            for each, truth in zip(found, truths, strict=True)
        ]
        assert np.mean(held) >= TARGET, form


def test_what_fits_the_rows_perfectly_is_within_the_interval() -> None:
    score = np.linspace(0.85, 0.95, 40)
    counts = counts_from_rows(score, np.ones(40))
    (found,) = ece_intervals([bin_counts(counts, equal_frequency_edges(counts, 15))], [], form="analytic")
    assert found.high >= found.plug_in == pytest.approx(0.1, abs=0.001)
