"""The data behind the figures, and the drawings made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import plotly.graph_objects as go
import pytest
from scipy.stats import binomtest

from monitor.config.model import Rule
from monitor.core.counts import bin_counts, counts_from_rows, equal_width_edges
from monitor.core.records import Subject
from monitor.report.figures.drawings import reliability_drawing, trend_drawing
from monitor.report.figures.reliability import reliability_data
from monitor.report.figures.scale import Scale, level_of, scale_of
from monitor.report.figures.sparkline import BARS, sparkline
from monitor.report.figures.trend import Trend, trend_data
from tests.fakes.report_data import RULES, STORIES, UTC_ZONE, Story, history, windows

SPANS = windows(26)


def billing() -> tuple[Trend, list[object]]:
    estimates, _, report = history(STORIES[1], 101, SPANS)
    trend = report.trend("ece")
    assert trend is not None
    return trend, list(estimates)


UNIT = Scale(0.0, 1.0)


def drawn_on(trend: Trend) -> Scale:
    return scale_of(trend.metric, [*trend.values, trend.baseline], [line.level for line in trend.thresholds])


def trace(drawing: dict[str, object], name: str) -> dict[str, object]:
    data = drawing["data"]
    assert isinstance(data, list)
    return next(entry for entry in data if entry["name"] == name)


def test_a_sparkline_rises_with_its_values_and_shows_the_lowest_and_the_highest() -> None:
    drawn = sparkline(list(np.linspace(0, 1, 8)), UNIT)
    assert drawn == BARS


def test_a_sparkline_shows_what_is_missing_or_not_a_number_as_a_dot() -> None:
    assert sparkline([0.0, None, float("nan"), 1.0], UNIT) == "▁··█"


def test_a_sparkline_of_nothing_is_empty_and_of_one_value_is_one_bar() -> None:
    assert sparkline([], UNIT) == ""
    assert sparkline([None], UNIT) == "·"
    assert sparkline([0.3], UNIT) == "▃"


def test_a_sparkline_on_a_given_scale_clips_what_lies_outside() -> None:
    assert sparkline([-1.0, 0.0, 2.0], UNIT) == "▁▁█"


def test_two_labels_on_one_scale_can_be_compared() -> None:
    on = scale_of("ece", [0.004, 0.103], [0.08])
    assert (on.low, on.high) == (0.0, 0.16)
    assert sparkline([0.004], on) < sparkline([0.079], on) < sparkline([0.103], on)
    assert sparkline([0.004, 0.004], on) == "▁▁"


def test_a_scale_goes_from_the_best_value_to_twice_the_farthest_limit_or_to_what_is_drawn() -> None:
    assert scale_of("ece", [0.01], [0.02, 0.031]) == Scale(0.0, 0.062, (0.02, 0.031))
    assert scale_of("ece", [0.5], [0.02]) == Scale(0.0, 0.5, (0.02,))
    assert scale_of("roc_auc", [0.97], [0.8]).low == pytest.approx(0.6)
    assert scale_of("roc_auc", [0.5], [0.8]) == Scale(0.5, 1.0, (0.8,))
    assert scale_of("overconfidence", [-0.02, 0.01], [0.05]) == Scale(-0.02, 0.1, (0.05,))
    assert scale_of("ece", [None, float("nan")]) == Scale(0.0, 1.0)
    assert scale_of("no metric of ours", [3.0, 5.0], [4.0]) == Scale(3.0, 5.0, (4.0,))


def test_the_level_of_an_increase_is_above_the_baseline_of_its_verdict() -> None:
    _, verdicts, _ = history(STORIES[1], 101, SPANS)
    rose = next(v for v in verdicts if v.rule == "ece-increase")
    assert level_of(replace(rose, detail={"condition": "increase"})) == pytest.approx((rose.baseline or 0) + 0.02)
    assert level_of(replace(rose, detail={"condition": "increase"}, baseline=None)) is None
    assert level_of(replace(rose, detail={"condition": "above"})) == 0.02


def test_a_trend_has_a_point_for_every_window_also_where_nothing_was_estimated() -> None:
    _, _, report = history(Story("gap", missing=(12, 13)), 7, SPANS)
    trend = report.trend("ece")
    assert trend is not None
    assert [point.window for point in trend.points] == [window.name for window in SPANS]
    assert [k for k, value in enumerate(trend.values) if value is None] == [12, 13]


def test_an_increase_threshold_is_above_the_baseline_and_a_level_where_it_is() -> None:
    level = Rule(id="level", metric="ece", condition="above", threshold=0.08)
    trend = trend_data("ece", "all", [], [], windows=SPANS, baseline=0.03, rules=(*RULES, level))
    assert [(line.rule, line.level) for line in trend.thresholds] == [("ece-increase", 0.05), ("level", 0.08)]


def test_an_increase_threshold_without_a_baseline_has_no_level_and_is_not_drawn() -> None:
    trend = trend_data("ece", "all", [], [], windows=SPANS, rules=RULES)
    assert [line.level for line in trend.thresholds] == [None]
    assert [entry["name"] for entry in trend_drawing(trend, UTC_ZONE, drawn_on(trend))["data"]] == [
        "95% interval",
        "value",
    ]


def test_a_breach_marks_its_window_only_and_carries_the_verdict() -> None:
    _, verdicts, report = history(STORIES[1], 101, SPANS)
    trend = report.trend("ece")
    assert trend is not None
    wanted = {v.window.name: (v.id,) for v in verdicts if v.metric == "ece" and v.outcome == "breach"}
    assert wanted
    assert {point.window: point.verdicts for point in trend.points if point.breach} == wanted


def test_a_drawn_trend_carries_the_numbers_unchanged() -> None:
    trend, _ = billing()
    value = trace(trend_drawing(trend, UTC_ZONE, drawn_on(trend)), "value")
    assert value["y"] == list(trend.values)
    assert value["customdata"] == [[p.window, p.low, p.high, p.n, ", ".join(p.verdicts)] for p in trend.points]
    assert trace(trend_drawing(trend, UTC_ZONE, drawn_on(trend)), "baseline")["y"] == [trend.baseline, trend.baseline]


def test_the_interval_band_is_torn_where_windows_are_missing() -> None:
    _, _, report = history(Story("gap", missing=(12, 13)), 7, SPANS)
    trend = report.trend("ece")
    assert trend is not None
    outline = trace(trend_drawing(trend, UTC_ZONE, drawn_on(trend)), "95% interval")["y"]
    assert isinstance(outline, list)
    assert outline.count(None) == 1
    assert len(outline) == 2 * 24 + 2 + 1


def test_days_of_a_trend_are_those_of_the_configured_time_zone() -> None:
    trend = trend_data("ece", "all", [], [], windows=SPANS)
    berlin, auckland = (trend_drawing(trend, ZoneInfo(z), UNIT) for z in ("UTC", "Pacific/Honolulu"))
    assert trace(berlin, "value")["x"][-1] == "2026-11-09"  # type: ignore[index]
    assert trace(auckland, "value")["x"][-1] == "2026-11-08"  # type: ignore[index]


def test_ticks_name_the_weeks_and_say_the_year_once() -> None:
    trend = trend_data("ece", "all", [], [], windows=SPANS)
    texts = trend_drawing(trend, UTC_ZONE, drawn_on(trend))["layout"]["xaxis"]["ticktext"]
    assert texts[-1] == "W46"
    assert [text for text in texts if "2026" in text] == texts[:1]
    assert len(texts) <= 9


def test_the_value_axis_holds_every_value_and_every_reference() -> None:
    trend, _ = billing()
    low, high = trend_drawing(trend, UTC_ZONE, drawn_on(trend))["layout"]["yaxis"]["range"]
    shown = [v for v in (*trend.values, trend.baseline, *(t.level for t in trend.thresholds)) if v is not None]
    assert low <= min(shown)
    assert high >= max(shown)


@pytest.mark.parametrize("missing", [(), tuple(range(26)), tuple(range(1, 26))])
def test_plotly_accepts_every_drawing(missing: tuple[int, ...]) -> None:
    kept = [e for e in history(Story("x"), 3, SPANS)[0] if SPANS.index(e.window) not in missing]
    trend = trend_data("ece", "all", kept, [], windows=SPANS, baseline=0.02, rules=RULES)
    span = (SPANS[0].start, SPANS[4].start)
    on = drawn_on(trend)
    for drawing in (
        trend_drawing(trend, UTC_ZONE, on, baseline_span=span), trend_drawing(trend, UTC_ZONE, on, small=True),
    ):  # fmt: skip
        assert len(go.Figure(json.loads(json.dumps(drawing, allow_nan=False))).data) == len(drawing["data"])


def test_a_trend_without_windows_is_drawn_empty_and_not_an_error() -> None:
    trend = trend_data("ece", "all", [], [], windows=[])
    assert trend.empty
    assert trend.last is None
    assert trace(trend_drawing(trend, UTC_ZONE, drawn_on(trend)), "value")["y"] == []


def test_reliability_points_are_bin_means_with_exact_binomial_intervals() -> None:
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


def test_bins_of_hits_only_and_of_misses_only_have_one_sided_limits() -> None:
    counts = counts_from_rows([0.1] * 20 + [0.9] * 20, [0] * 20 + [1] * 20)
    never, always = reliability_data(bin_counts(counts, equal_width_edges(2))).points
    assert (never.rate, never.low) == (0.0, 0.0)
    assert never.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert (always.rate, always.high) == (1.0, 1.0)
    assert always.low == pytest.approx(0.025 ** (1 / 20))


def test_dependent_rows_widen_the_intervals_of_the_bins() -> None:
    score, hit = [0.8] * 100, [1] * 70 + [0] * 30
    alone = reliability_data(bin_counts(counts_from_rows(score, hit), (10000,))).points[0]
    copied = reliability_data(bin_counts(counts_from_rows(score, hit, design_effect=5.0), (10000,))).points[0]
    assert copied.n == alone.n == 100
    assert copied.n_eff == pytest.approx(20.0)
    assert copied.high - copied.low > 1.8 * (alone.high - alone.low)


def test_empty_bins_are_left_out_of_the_diagram() -> None:
    data = reliability_data(bin_counts(counts_from_rows([0.9], [1]), equal_width_edges(10)))
    assert [(p.lower, p.upper) for p in data.points] == [(0.8, 0.9)]
    assert data.rows == 1


def test_a_baseline_on_other_edges_is_refused() -> None:
    counts = counts_from_rows([0.2, 0.9], [0, 1])
    with pytest.raises(ValueError, match="other bin edges"):
        reliability_data(bin_counts(counts, (5000, 10000)), bin_counts(counts, (4000, 10000)))


def test_a_drawn_reliability_diagram_carries_points_limits_and_sizes() -> None:
    _, _, report = history(STORIES[1], 101, SPANS)
    data = report.reliability
    assert data is not None
    drawing = reliability_drawing(data)
    window = trace(drawing, "window")
    assert window["x"] == [p.score for p in data.points]
    assert window["y"] == [p.rate for p in data.points]
    assert window["customdata"] == [[p.lower, p.upper, p.low, p.high, p.n] for p in data.points]
    assert trace(drawing, "rows")["y"] == [p.n for p in data.points]
    assert trace(drawing, "baseline")["x"] == [p.score for p in data.baseline]


def test_estimates_of_another_population_do_not_enter_a_trend() -> None:
    estimates, _, _ = history(STORIES[0], 100, SPANS)
    trend = trend_data("overconfidence", "all", estimates, [], windows=SPANS)
    assert trend.empty
    assert Subject("tickets", "account") == estimates[0].subject
    assert trend.points[0].start == datetime(2026, 5, 18, tzinfo=UTC)
