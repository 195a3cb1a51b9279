"""Tails of distributions: scipy.stats is the oracle, to the last digit, and judging does not import it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy

from monitor.inference import tails


@pytest.mark.parametrize("rows", [50, 140, 141, 444, 4_444, 20_000, 100_001, 10**8])
def test_the_tail_of_a_kolmogorov_distance_is_scipys(rows: int) -> None:
    scaled = np.concatenate([[0.0], np.linspace(0.02, 1.48, 61), [1.7, 3.0, 18.0, 25.0]])
    distances = [distance for distance in (scaled / rows**0.5).tolist() if distance <= 1]
    assert [tails.kolmogorov(each, rows) for each in distances] == scipy.stats.kstwo.sf(distances, rows).tolist()


def test_a_distance_that_no_sample_falls_short_of_is_certain() -> None:
    assert (tails.kolmogorov(0.0, 1_000), tails.kolmogorov(0.0004, 1_000), tails.kolmogorov(1.0, 1_000)) == (1, 1, 0)


def test_the_tail_of_pearsons_third_type_is_scipys() -> None:
    values = np.linspace(-4.0, 60.0, 200)
    assert [tails.pearson3(each, 1.3) for each in values] == scipy.stats.pearson3.sf(values, 1.3).tolist()


@pytest.mark.parametrize("freedom", [1, 2, 14])
def test_the_tail_of_chi_square_is_scipys(freedom: int) -> None:
    values = np.linspace(-1.0, 100.0, 200)
    assert [tails.chi_square(each, freedom) for each in values] == scipy.stats.chi2.sf(values, freedom).tolist()


@pytest.mark.parametrize("columns", [2, 3, 20])
def test_tables_and_adjusted_p_values_are_scipys(columns: int) -> None:
    table = 1 + 1e4 * np.random.default_rng(columns).random((2, columns))
    found = scipy.stats.chi2_contingency(table, correction=False)
    statistic, freedom = tails.contingency(table)
    assert (statistic, tails.chi_square(statistic, freedom)) == (found.statistic, found.pvalue)
    assert tails.jensen_shannon(*table) == scipy.spatial.distance.jensenshannon(*table)
    p_values = [*(table[0] / 1e5).tolist(), 0.05, 0.05]
    assert tails.benjamini_hochberg(p_values).tolist() == scipy.stats.false_discovery_control(p_values).tolist()


def test_a_p_value_lies_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        tails.benjamini_hochberg([0.5, float("nan")])


JUDGING = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import numpy as np
import monitor
from monitor.config.load import load_config
from monitor.core import windows
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import counts_from_rows
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import evaluate

config = load_config(Path(monitor.__file__).parents[1] / "alerts.yaml")
def drawn(seed, rows):
    rng = np.random.default_rng(seed)
    score = rng.random(rows)
    return counts_from_rows(score, rng.random(rows) < score, automate_at=0.8)
window = windows.week("2026-W46", config.zone)
first, *_, last = reversed(list(windows.before(window, 8, config.zone)))
labels, baselines = {}, {}
for number, label in enumerate(("billing", "phishing")):
    counts, labels[label] = drawn(number, 12_000), drawn(number + 10, 1_000)
    baselines[label] = Baseline(
        "mail", label, 1, first.start, last.end, first.name, last.name, counts, edges_of(counts, config.evaluation),
        datetime(2026, 11, 10, tzinfo=UTC), "test", "test",
    )
found = evaluate(SourceData("mail", WindowCounts(window, labels), baselines=baselines), config)
print(len(found.verdicts), sum(shift.p_value is not None for shift in found.shifts), "scipy.stats" in sys.modules)
"""


def test_judging_a_week_with_its_baseline_does_not_import_scipy_stats() -> None:
    """It has three hundred modules, and takes as long to import as twenty small labels to judge."""
    shown = subprocess.run([sys.executable, "-c", JUDGING], capture_output=True, text=True, check=True).stdout
    verdicts, tested, imported = shown.split()
    assert int(verdicts) > 0
    assert int(tested) > 0
    assert imported == "False"
