"""The data behind the figures, and the drawings made of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy.stats import binomtest

from monitor.config.model import Rule
from monitor.core.counts import bin_counts, counts_from_rows, equal_width_edges
from monitor.core.records import Subject
from monitor.report.figures.label_trend import LabelEvent, label_trend
from monitor.report.figures.panels import point_words
from monitor.report.figures.reliability import reliability_data
from monitor.report.figures.scale import BARS, Scale, sparkline
from monitor.report.figures.trend import trend_data
from tests.fakes.report_data import RULES, STORIES, Story, history, numbers_of, windows

SPANS = windows(26)


UNIT = Scale(0.0, 1.0)


def test_a_drawn_trend_has_every_number_and_a_band_torn_where_windows_are_missing():
    _, _, report = history(Story("gap", missing=(12, 13)), 7, SPANS)
    trend = report.trend
    drawn = str(label_trend(trend, {}, (), SPANS[-1].end))
    told = re.findall(r"<circle[^>]*><title>([^<]*)</title>", drawn)
    assert told == [point_words(point) for point in trend.points if point.value is not None]
    (band,) = re.findall(r'class="band" d="([^"]*)"', drawn)
    assert (band.count("M"), band.count("Z")) == (2, 2)


def test_a_sparkline_rises_with_its_values_and_shows_the_lowest_and_the_highest():
    drawn = sparkline(list(np.linspace(0, 1, 8)), UNIT)
    assert drawn == BARS


def test_a_sparkline_shows_what_is_missing_or_not_a_number_as_a_dot():
    assert sparkline([0.0, None, float("nan"), 1.0], UNIT) == "▁··█"


def test_a_sparkline_on_a_given_scale_clips_what_lies_outside():
    assert sparkline([-1.0, 0.0, 2.0], UNIT) == "▁▁█"


def test_events_have_their_names_above_the_trend_as_long_as_there_is_room_and_a_line_each():
    estimates, verdicts, _ = history(STORIES[1], 101, SPANS)
    trend = trend_data("ece", "all", numbers_of(estimates), verdicts, windows=SPANS, rules=RULES)
    at, end = SPANS[3].start, SPANS[-1].end
    crowded = [
        LabelEvent(at + timedelta(hours=k), "version", f"told {k}", number=2 + k, name=f"version 2.{k}")
        for k in range(4)
    ]
    drawn = str(label_trend(trend, {}, [LabelEvent(SPANS[0].start, "version", "version 1.0", number=1), *crowded], end))
    names = ["1 version 1.0", "2 version 2.0", "3 version 2.1", "4 version 2.2"]
    assert re.findall(r"flagged[^>]*>([^<]+)<", drawn) == names
    assert all(f"version: told {k}" in drawn for k in range(4))


def test_a_trend_has_a_point_for_every_window_also_where_nothing_was_estimated():
    _, _, report = history(Story("gap", missing=(12, 13)), 7, SPANS)
    trend = report.trend
    assert [point.window for point in trend.points] == [window.name for window in SPANS]
    assert [k for k, value in enumerate(p.value for p in trend.points) if value is None] == [12, 13]


def test_an_increase_threshold_is_above_the_baseline_and_a_level_where_it_is():
    level = Rule(id="level", metric="ece", condition="above", threshold=0.08)
    trend = trend_data("ece", "all", [], [], windows=SPANS, baseline=0.03, rules=(*RULES, level))
    assert trend.limits == {"ece-increase": 0.05, "level": 0.08}


def test_an_increase_threshold_without_a_baseline_has_no_level_and_is_not_drawn():
    trend = trend_data("ece", "all", [], [], windows=SPANS, rules=RULES)
    assert trend.limits == {}
    assert 'class="limit"' not in label_trend(trend, {}, (), SPANS[-1].end)


def test_a_breach_marks_its_window_only():
    _, verdicts, report = history(STORIES[1], 101, SPANS)
    trend = report.trend
    wanted = {v.window.name for v in verdicts if v.metric == "ece" and v.outcome == "breach"}
    assert wanted
    assert {point.window for point in trend.points if point.breach} == wanted


def test_reliability_points_are_bin_means_with_exact_binomial_intervals():
    rng = np.random.default_rng(5)
    score = rng.uniform(0, 1, 900).round(2)
    hit = (rng.random(900) < score).astype(float)
    data = reliability_data(bin_counts(counts_from_rows(score, hit), equal_width_edges(4)))
    for point in data.points:
        inside = (score > point.lower) & (score <= point.upper) | ((point.lower == 0) & (score == 0))
        exact = binomtest(int(hit[inside].sum()), int(inside.sum())).proportion_ci(0.95, "exact")
        assert point.n == inside.sum()
        assert point.score == pytest.approx(score[inside].mean(), abs=1e-12)
        assert point.rate == pytest.approx(hit[inside].mean(), abs=1e-12)
        assert (point.low, point.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_bins_of_hits_only_and_of_misses_only_have_one_sided_limits():
    counts = counts_from_rows([0.1] * 20 + [0.9] * 20, [0] * 20 + [1] * 20)
    never, always = reliability_data(bin_counts(counts, equal_width_edges(2))).points
    assert (never.rate, never.low) == (0.0, 0.0)
    assert never.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert (always.rate, always.high) == (1.0, 1.0)
    assert always.low == pytest.approx(0.025 ** (1 / 20))


def test_dependent_rows_widen_the_intervals_of_the_bins():
    score, hit = [0.8] * 100, [1] * 70 + [0] * 30
    alone = reliability_data(bin_counts(counts_from_rows(score, hit), (10000,))).points[0]
    copied = reliability_data(bin_counts(counts_from_rows(score, hit, design_effect=5.0), (10000,))).points[0]
    assert copied.n == alone.n == 100
    assert copied.n_eff == pytest.approx(20.0)
    assert copied.high - copied.low > 1.8 * (alone.high - alone.low)


def test_empty_bins_are_left_out_of_the_diagram():
    data = reliability_data(bin_counts(counts_from_rows([0.9], [1]), equal_width_edges(10)))
    assert [(p.lower, p.upper) for p in data.points] == [(0.8, 0.9)]
    assert data.rows == 1


def test_a_baseline_on_other_edges_is_refused():
    counts = counts_from_rows([0.2, 0.9], [0, 1])
    with pytest.raises(ValueError, match="other bin edges"):
        reliability_data(bin_counts(counts, (5000, 10000)), bin_counts(counts, (4000, 10000)))


def test_estimates_of_another_population_do_not_enter_a_trend():
    estimates, _, _ = history(STORIES[0], 100, SPANS)
    trend = trend_data("overconfidence", "all", numbers_of(estimates), [], windows=SPANS)
    assert trend.empty
    assert Subject("tickets", "account") == estimates[0].subject
    assert trend.points[0].start == datetime(2026, 5, 18, tzinfo=UTC)
