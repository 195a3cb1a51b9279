"""The picture of a finding: a PNG of both figures, the same bytes for the same data."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from matplotlib import image

from monitor.core.counts import bin_counts, counts_from_rows
from monitor.report.figures.png import DPI, SIZE, incident_png
from monitor.report.figures.reliability import Reliability, reliability_data
from monitor.report.figures.trend import Trend, TrendPoint

START = datetime(2026, 1, 5, tzinfo=UTC)


def reliability() -> Reliability:
    rng = np.random.default_rng(3)
    scores = rng.random(2000)
    counts = counts_from_rows(scores.tolist(), (rng.random(2000) < scores).astype(int).tolist())
    bins = bin_counts(counts, tuple(range(1000, 10001, 1000)))
    return reliability_data(bins, bins)


def trend(count: int) -> Trend:
    points = tuple(
        TrendPoint(f"2026-W{i:02d}", START + timedelta(weeks=i), None if i == 2 else 0.02 + i / 100,
                   None if i == 2 else i / 100, None if i == 2 else 0.04 + i / 100, 900, i == count - 1)
        for i in range(count)
    )  # fmt: skip
    return Trend("ece", "all", points, 0.02, {"r": 0.04})


@pytest.mark.parametrize(("with_bins", "count"), [(True, 26), (True, 1), (False, 8), (True, 0)])
def test_it_is_a_png_of_the_size_slack_shows_with_something_drawn(with_bins: bool, count: int):
    drawn = incident_png(reliability() if with_bins else None, trend(count))
    pixels = image.imread(io.BytesIO(drawn), format="png")
    assert pixels.shape[:2] == (round(SIZE[1] * DPI), round(SIZE[0] * DPI))
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 10
    assert len(drawn) < 200_000


def test_the_same_data_gives_the_same_bytes_also_in_another_process():
    code = (
        "import sys; from tests.unit.report.test_figures_png import incident_png, reliability, trend; "
        "sys.stdout.buffer.write(incident_png(reliability(), trend(26)))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=120).stdout
    assert incident_png(reliability(), trend(26)) == other
    assert incident_png(reliability(), trend(25)) != other


def test_any_title_and_any_segment_is_drawn_without_a_warning_and_makes_another_picture():
    names = ("billing", "$x$ \N{CJK UNIFIED IDEOGRAPH-8CB8}\N{FIRE} _^{", "$x_$", "x" * 900)
    assert len({incident_png(None, trend(3), name) for name in names}) == len(names)
    assert len({incident_png(None, Trend("ece", name, trend(3).points)) for name in names}) == len(names)
