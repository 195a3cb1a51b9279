"""Score maps: the file a router loads, and what it does to scores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from monitor.core.counts import counts_from_rows
from monitor.metrics.calibration import brier
from monitor.recalibration.fitting import apply
from monitor.recalibration.score_map import (
    MOST_KNOTS,
    ScoreMap,
    ScoreMapError,
    apply_one,
    from_json,
    load,
    save,
)
from tests.fakes.points import overconfidence
from tests.unit.recalibration.on_populations import recalibrated

UNIT = st.floats(0, 1)


@st.composite
def maps(draw: st.DrawFn) -> ScoreMap:
    method = draw(st.sampled_from(["temperature", "platt", "isotonic"]))
    if method == "isotonic":
        old = sorted(set(draw(st.lists(UNIT, min_size=1, max_size=20))))
        new = sorted(draw(st.lists(UNIT, min_size=len(old), max_size=len(old))))
        return ScoreMap("isotonic", knots=tuple(zip(old, new, strict=True)))
    intercept = draw(st.floats(-5, 5)) if method == "platt" else 0.0
    return ScoreMap(method, slope=draw(st.floats(0.05, 20)), intercept=intercept, label="billing", rows=7)


@given(score_map=maps(), scores=st.lists(UNIT, min_size=1, max_size=30))
def test_one_score_at_a_time_gives_what_all_at_once_give(score_map: ScoreMap, scores: list[float]) -> None:
    np.testing.assert_allclose([apply_one(score_map, s) for s in scores], apply(score_map, scores), atol=1e-12)


@given(score_map=maps(), scores=st.lists(UNIT, min_size=2, max_size=30))
def test_the_order_of_an_item_s_labels_is_unchanged(score_map: ScoreMap, scores: list[float]) -> None:
    old = np.array(scores)
    new = apply(score_map, old)[np.argsort(old, kind="stable")]
    assert (np.diff(new) >= -1e-12).all()


@given(scores=st.lists(st.integers(1, 9_999), min_size=2, max_size=30, unique=True), slope=st.floats(0.2, 3))
def test_temperature_and_platt_keep_different_scores_of_four_decimals_different(
    scores: list[int], slope: float
) -> None:
    old = np.sort(np.array(scores)) / 10_000
    for intercept in (0.0, 1.0):
        assert (np.diff(apply(ScoreMap("platt", slope=slope, intercept=intercept), old)) > 0).all()


@given(score_map=maps())
def test_a_map_comes_back_from_json_as_it_was(score_map: ScoreMap) -> None:
    back = from_json(score_map.to_json())
    assert (back.method, back.knots, back.label, back.rows) == (
        score_map.method, score_map.knots, score_map.label, score_map.rows,
    )  # fmt: skip
    assert back.slope == pytest.approx(score_map.slope, rel=1e-14)
    assert back.intercept == score_map.intercept


def test_a_temperature_divides_the_logit() -> None:
    scores = np.array([0.01, 0.4, 0.99])
    np.testing.assert_allclose(apply(ScoreMap("temperature", slope=1 / 1.5), scores), expit(logit(scores) / 1.5))


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_scores_of_zero_and_one_have_a_new_score_short_of_both(score: float) -> None:
    found = apply_one(ScoreMap("temperature", slope=20.0), score)
    assert 0 <= found <= 1
    assert 0 < apply_one(ScoreMap("temperature", slope=0.5), score) < 1


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_outside_the_unit_interval_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        apply_one(ScoreMap("platt"), score)
    with pytest.raises(ValueError, match="must lie in"):
        apply(ScoreMap("platt"), [0.5, score])


def test_recalibrated_counts_are_those_of_recalibrated_rows() -> None:
    rng = np.random.default_rng(1)
    score = rng.integers(0, 10_001, 3_000) / 10_000
    outcome, weight = rng.random(3_000) < score, rng.uniform(0.5, 2, 3_000)
    score_map = ScoreMap("platt", slope=0.7, intercept=-0.3)
    found = recalibrated(counts_from_rows(score, outcome, weight=weight), score_map)
    expected = counts_from_rows(apply(score_map, score), outcome, weight=weight).by_cell()
    assert found.cell.tolist() == expected.cell.tolist()
    assert found.n.tolist() == expected.n.tolist()
    for metric in (brier, overconfidence):
        assert metric(found) == pytest.approx(metric(expected), abs=1e-12)


def test_a_router_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    save(ScoreMap("temperature", slope=0.5), tmp_path / "map.json")
    code = (
        "import sys, pathlib\n"
        "from monitor.recalibration.score_map import apply_one, load\n"
        f"print(round(apply_one(load(pathlib.Path({str(tmp_path / 'map.json')!r})), 0.9), 6))\n"
        "print(sorted({'numpy', 'scipy', 'pandas', 'sklearn'} & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["0.75", "[]"]


GOOD = {
    "format": "calmon-score-map", "version": 1, "method": "isotonic", "knots": [[0.1, 0.2], [0.9, 0.8]],
    "source": "tickets", "label": None, "rows": 10, "fitted_on": "2026-W46",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "other"}, "`calmon recalibrate --out FILE` writes one"),
        ({"version": 2}, "version 2 is not known, only 1; fit the map again"),
        ({"method": "spline"}, "the method must be one of temperature, platt, isotonic, not 'spline'"),
        ({"method": "platt"}, "keys missing: intercept, slope; unknown: knots"),
        ({"more": 1}, "keys missing: none; unknown: more"),
        ({"rows": "ten"}, "rows must be a number, not 'ten'"),
        ({"label": 3}, "label must be a text, not 3"),
        ({"fitted_on": None}, "fitted_on must be a text, not None"),
        ({"knots": [0.1]}, "knots must be a list of pairs of numbers"),
        ({"knots": [[0.1, True]]}, "knots must be a list of pairs of numbers"),
        ({"knots": []}, "an isotonic map has 1 to 200 knots, not 0"),
        ({"knots": [[i / 300, 0.5] for i in range(MOST_KNOTS + 1)]}, "an isotonic map has 1 to 200 knots, not 201"),
        ({"knots": [[0.1, 1.2]]}, "every knot must be a pair of scores in [0, 1]"),
        ({"knots": [[0.1, 0.5], [0.2, 0.4]]}, "old scores of the knots must rise, and new ones never fall"),
        ({"knots": [[0.1, 0.5], [0.1, 0.6]]}, "old scores of the knots must rise, and new ones never fall"),
    ],
)
def test_a_file_that_is_no_map_is_refused_with_what_is_wrong(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps(GOOD | change), "utf-8")
    with pytest.raises(ScoreMapError) as error:
        load(path)
    assert str(error.value).startswith(f"{path} is no score map: ")
    assert sentence in str(error.value)


@pytest.mark.parametrize("slope", [0, -1, float("nan"), float("inf")])
def test_a_map_that_would_turn_the_order_round_cannot_be_made(slope: float) -> None:
    with pytest.raises(ScoreMapError, match="must be above 0"):
        ScoreMap("platt", slope=slope)
    bad = {**{key: GOOD[key] for key in GOOD if key != "knots"}, "method": "platt", "slope": slope, "intercept": 0}
    with pytest.raises(ScoreMapError):
        from_json(json.dumps(bad))


def test_a_temperature_of_nothing_a_missing_file_and_broken_text_are_plain_errors(tmp_path: Path) -> None:
    cold = {**{key: GOOD[key] for key in GOOD if key != "knots"}, "method": "temperature", "temperature": 0}
    with pytest.raises(ScoreMapError, match="the temperature must be above 0, not 0"):
        from_json(json.dumps(cold))
    with pytest.raises(ScoreMapError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")
    with pytest.raises(ScoreMapError, match="not JSON"):
        from_json("{")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScoreMapError, match="is no score map"):
        load(tmp_path / "bytes.json")
