"""Fitting score maps, what they are worth on rows not seen, and which one to take."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from benchmarks.populations import POPULATIONS, Population
from monitor.config.model import EvaluationConfig
from monitor.core.counts import (
    Counts,
    bin_counts,
    counts_from_rows,
    equal_frequency_edges,
    equal_width_edges,
    pool,
)
from monitor.core.records import Interval
from monitor.metrics.calibration import brier, ece, nll
from monitor.recalibration.fitting import LEAST_TEMPERATURE, CannotFit, apply, clipped_logit, fit
from monitor.recalibration.gain import (
    ISOTONIC_ROWS,
    KEPT,
    LEAST_OUTCOMES,
    LEAST_ROWS,
    SURE,
    Choice,
    Gain,
    ScoreQuality,
    choose,
    folds,
    gains_on_unseen,
    held_apart,
)
from monitor.recalibration.score_map import METHODS, Method
from tests.unit.recalibration.on_populations import recalibrated, true_ece, whole

DOCS = Path(__file__).parents[3] / "docs" / "recalibration.md"
EVALUATION = EvaluationConfig()
DISTORTED = [p for p in POPULATIONS if p.curve.temperature != 1 and not p.curve.offset and not p.curve.steps]


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def names(populations: list[Population] | tuple[Population, ...]) -> list[str]:
    return [population.name for population in populations]


def plainly(counts: Counts) -> tuple[float, float]:
    """Slope and intercept of Platt's regression by scipy alone, written down as the source has it."""
    yes, no = counts.wy, counts.w - counts.wy
    high, low = 1 - 1 / (yes.sum() + 2), 1 / (no.sum() + 2)
    total = yes.sum() + no.sum()
    w, hits = (yes + no) / total, (high * yes + low * no) / total
    design = np.stack([clipped_logit(counts.score), np.ones_like(w)])

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        at = line @ design
        return float(w @ np.logaddexp(0.0, at) - hits @ at), design @ (w * expit(at) - hits)

    def curvature(line: np.ndarray) -> np.ndarray:
        rate = expit(line @ design)
        return np.asarray((design * (w * rate * (1 - rate))) @ design.T)

    start, options = np.array([1.0, 0.0]), {"gtol": 1e-9}
    found = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options=options)
    return float(found.x[0]), float(found.x[1])


def test_platts_line_is_scipys() -> None:
    for seed in range(30):
        random, rows = rng(seed), int(rng(seed).integers(400, 3_000))
        score = random.beta(*random.uniform(0.2, 3.0, 2), rows)
        worth = expit(logit(np.clip(score, 1e-6, 1 - 1e-6)) * random.uniform(0.4, 1.6) + random.normal(0, 1.5))
        counts = counts_from_rows(score, random.random(rows) < worth).by_cell()
        found = fit("platt", counts)
        assert (found.slope, found.intercept) == pytest.approx(plainly(counts), rel=1e-7, abs=1e-7), seed


@pytest.mark.parametrize("population", DISTORTED, ids=names(DISTORTED))
def test_temperature_finds_the_temperature_that_distorted_the_scores(population: Population) -> None:
    truth = population.curve.temperature
    assert fit("temperature", whole(population)).temperature == pytest.approx(truth, rel=0.001)
    assert fit("temperature", population.draw(rng(1), 200_000)).temperature == pytest.approx(truth, rel=0.02)


@given(st.integers(0, 2**32 - 1))
def test_a_temperature_is_scikit_learn_s_logistic_regression_without_an_intercept(seed: int) -> None:
    counts = sample(rng(seed), 400)
    held = counts.by_cell()
    z = np.tile(clipped_logit(held.score), 2)[:, None]
    model = LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    model.fit(z, np.repeat([1, 0], len(held.wy)), sample_weight=np.concatenate([held.wy, held.w - held.wy]))
    assert fit("temperature", counts).slope == pytest.approx(model.coef_[0, 0], rel=1e-8)


def test_scores_that_separate_the_outcomes_have_the_least_temperature() -> None:
    assert fit("temperature", counts_from_rows([0.4, 0.6] * 200, [0, 1] * 200)).temperature == LEAST_TEMPERATURE


@given(st.integers(0, 2**32 - 1))
def test_platt_is_scikit_learn_s_logistic_regression_on_platt_s_targets(seed: int) -> None:
    counts = sample(rng(seed), 400)
    made = fit("platt", counts)
    held = counts.by_cell()
    yes, no = held.wy, held.w - held.wy
    effective = held.effective_rows / held.w.sum()
    high, low = 1 - 1 / (effective * yes.sum() + 2), 1 / (effective * no.sum() + 2)
    hits = yes * high + no * low
    z = np.tile(clipped_logit(held.score), 2)[:, None]
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
    model.fit(z, np.repeat([1, 0], len(hits)), sample_weight=np.concatenate([hits, yes + no - hits]))
    assert (made.slope, made.intercept) == pytest.approx((model.coef_[0, 0], model.intercept_[0]), abs=1e-5)


@given(st.integers(0, 2**32 - 1))
def test_isotonic_is_scikit_learn_s_on_the_rows_themselves(seed: int) -> None:
    generator = rng(seed)
    score = generator.choice(np.round(np.linspace(0.02, 0.98, 25), 4), 300)
    outcome, weight = (generator.random(300) < score).astype(float), generator.uniform(0.5, 2, 300)
    made = fit("isotonic", counts_from_rows(score, outcome, weight=weight))
    by_row = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(score, outcome, sample_weight=weight)
    steps = by_row.predict(score)
    assert len(made.knots) == len(set(steps))
    for value in set(steps):  # a step's rows, on average, stand at its knot
        middle = np.average(score[steps == value], weights=weight[steps == value])
        assert apply(made, middle) == pytest.approx(np.clip(value, 1 / 302, 1 - 1 / 302), abs=1 / 200)
        if 0.01 < value < 0.99:
            assert apply(made, middle) == pytest.approx(value, abs=1e-9)


def sample(generator: np.random.Generator, n: int) -> Counts:
    """Weighted rows with soft outcomes among them, worth less than their scores say."""
    score = np.round(generator.beta(2, 2, n), 4)
    outcome = np.where(generator.random(n) < 0.8, generator.random(n) < 0.8 * score, 0.8 * score)
    return counts_from_rows(score, outcome, weight=generator.uniform(0.5, 2, n))


def test_scores_that_separate_outcomes_without_an_error_still_have_a_platt_map() -> None:
    made = fit("platt", counts_from_rows([0.2] * 50 + [0.8] * 50, [0] * 50 + [1] * 50))
    assert apply(made, [0.8])[0] == pytest.approx(51 / 52, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_scores_the_wrong_way_round_are_refused_by_name(method: Method) -> None:
    score = np.repeat([0.2, 0.4, 0.6, 0.8], 100)
    outcome = rng(6).random(400) < 1 - score
    with pytest.raises(CannotFit) as error:
        fit(method, counts_from_rows(score, outcome))
    assert error.value.reason == "order_reversed"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("outcome", [0, 1])
def test_rows_of_one_outcome_are_refused_by_name(method: Method, outcome: int) -> None:
    with pytest.raises(CannotFit, match="same outcome") as error:
        fit(method, counts_from_rows([0.2, 0.8], [outcome, outcome]))
    assert error.value.reason == "one_outcome"


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 10))
def test_the_folds_share_out_every_row_and_every_weight(seed: int, k: int) -> None:
    counts = sample(rng(seed), 200)
    made = folds(counts.by_cell().weighted(), k, rng(seed, 1))
    sizes = [fold.held.rows for fold in made]
    assert len(made) == k
    assert max(sizes) - min(sizes) <= 1
    for together in (pool([fold.held for fold in made]), pool([made[0].held, made[0].rest])):
        whole_counts = counts.by_cell()
        assert together.cell.tolist() == whole_counts.cell.tolist()
        assert together.n.tolist() == whole_counts.n.tolist()
        for name in ("w", "wy", "w2"):
            np.testing.assert_allclose(getattr(together, name), getattr(whole_counts, name), rtol=1e-9)


def test_the_gain_of_a_distorted_label_is_seen_and_the_right_method_chosen() -> None:
    expected = {"temperature 2": "temperature", "shifted by -0.5": "platt", "locally wrong": "isotonic"}
    chosen = [population for population in POPULATIONS if population.name in expected]
    found = [gains_on_unseen([p.draw(rng(10), 20_000)], rng(11, i), EVALUATION) for i, p in enumerate(chosen)]
    assert {p.name: choose(g).method for p, g in zip(chosen, found, strict=True)} == expected


def test_a_calibrated_label_is_left_as_it_is() -> None:
    calm = [population for population in POPULATIONS if population.name.endswith("calibrated")]
    found = [gains_on_unseen([p.draw(rng(12), 20_000)], rng(13, i), EVALUATION) for i, p in enumerate(calm)]
    assert [choose(gain).reason for gain in found] == ["nothing_to_mend"] * 4


def test_the_upper_limit_after_isotonic_holds_the_true_ece_of_the_map() -> None:
    samples = [(p, p.draw(rng(14, i), 5_000)) for i, p in enumerate(POPULATIONS)]
    found = [gains_on_unseen([counts], rng(15, i), EVALUATION) for i, (_, counts) in enumerate(samples)]
    for (population, counts), gain in zip(samples, found, strict=True):
        after = gain["isotonic"].after
        assert true_ece(recalibrated(whole(population), fit("isotonic", counts))) <= after.ece.high, population.name


@pytest.mark.parametrize(
    ("rows", "hits", "effect", "reasons"),
    [
        (LEAST_ROWS - 1, 60, 1.0, ["too_few_rows"] * 3),
        (LEAST_ROWS, 60, 1.0, [None, None, "too_few_rows"]),
        (ISOTONIC_ROWS - 1, 600, 1.0, [None, None, "too_few_rows"]),
        (ISOTONIC_ROWS, 600, 1.0, [None, None, None]),
        (ISOTONIC_ROWS, 600, 1.01, [None, None, "too_few_rows"]),
        (ISOTONIC_ROWS, LEAST_OUTCOMES - 1, 1.0, ["too_few_outcomes"] * 3),
    ],
)
def test_a_method_is_offered_from_the_rows_on_that_it_needs(
    rows: int, hits: int, effect: float, reasons: list[str | None]
) -> None:
    generator = rng(16)
    outcome = np.arange(rows) < hits
    counts = counts_from_rows(np.where(outcome, 0.6, 0.4) + generator.uniform(-0.3, 0.3, rows), outcome)
    found = gains_on_unseen([counts.with_design_effect(effect)], generator, EVALUATION)
    assert [found[method].refused for method in METHODS] == reasons


def test_of_no_rows_nothing_is_known() -> None:
    found = gains_on_unseen([counts_from_rows([], [])], rng(16), EVALUATION)
    assert {gain.refused for gain in found.values()} == {"too_few_rows"}
    assert found["platt"].before == ScoreQuality(Interval(None, None, None, None), None, None)


def test_of_several_windows_the_newest_are_judged_by_a_map_of_the_older_ones() -> None:
    sizes = (500, 400, 1_000, 300)
    windows = [POPULATIONS[3].draw(rng(24, i), size) for i, size in enumerate(sizes)]
    parts, unseen = held_apart(windows, rng(25))
    assert ([(part.held.rows, part.rest.rows) for part in parts], unseen) == ([(1_900, 300)], "windows")
    parts, unseen = held_apart([windows[2], windows[3]], rng(25))
    assert ([(part.held.rows, part.rest.rows) for part in parts], unseen) == ([(1_000, 300)], "windows")
    for alone in ([windows[2]], [windows[2], POPULATIONS[3].draw(rng(26), 100)]):  # 100 rows are too few for a map
        rows = sum(window.rows for window in alone) // 2
        parts, unseen = held_apart(alone, rng(25))
        assert ([(part.held.rows, part.rest.rows) for part in parts], unseen) == ([(rows, rows)] * 2, "rows")


def test_a_map_that_helped_only_in_older_windows_is_not_taken() -> None:
    calm, wrong = POPULATIONS[0], POPULATIONS[4]
    drawn = {population.name: population.draw(rng(27), 4_000) for population in (calm, wrong)}
    chosen = {
        newest: choose(gains_on_unseen([drawn[newest], drawn[wrong.name]], rng(28), EVALUATION)).method
        for newest in drawn
    }
    assert chosen == {calm.name: None, wrong.name: "temperature"}


def test_a_gain_is_as_sure_as_its_rows_make_it() -> None:
    score = np.repeat([0.6, 0.9], 300)
    outcome = rng(29).random(600) < score - 0.2
    parts, _ = held_apart([counts_from_rows(score, outcome)], rng(30))
    new = [apply(fit("platt", part.rest), part.held.score) for part in parts]
    falls = np.concatenate([
        np.repeat([(s - y) ** 2 - (m - y) ** 2 for y in (0, 1)], np.array([n - hits, hits]).round().astype(int))
        for part, maps in zip(parts, new, strict=True)
        for s, m, n, hits in zip(part.held.score, maps, part.held.n, part.held.wy, strict=True)
    ])  # fmt: skip
    by_row = falls.mean() / (falls.std() / np.sqrt(len(falls)))
    found = gains_on_unseen([counts_from_rows(score, outcome)], rng(30), EVALUATION)["platt"]
    assert found.before.brier - found.after.brier == pytest.approx(falls.mean())
    assert 3 < found.sure <= by_row * (1 + 1e-9)


@pytest.mark.parametrize("binning", ["equal_width", "equal_frequency"])
def test_the_bins_are_those_of_the_configuration(binning: str) -> None:
    counts = POPULATIONS[3].draw(rng(22), 5_000)
    evaluation = EvaluationConfig.model_validate({"bins": 7, "binning": binning})
    edges = equal_width_edges(7) if binning == "equal_width" else equal_frequency_edges(counts, 7)
    before = gains_on_unseen([counts], rng(23), evaluation)["platt"].before
    assert before.ece.plug_in == pytest.approx(ece(bin_counts(counts, edges)))
    assert (before.brier, before.nll) == (brier(counts), nll(counts))


def gain(method: Method, ece: float, brier: float, *, before: float = 0.1, low: float = 0.05) -> Gain:
    return Gain(
        method,
        ScoreQuality(Interval(before, low, 0.2, before), 0.2, 0.5),
        ScoreQuality(Interval(ece, 0, 1, ece), brier, 0.4),
        1,
        sure=2 * SURE,
    )


def test_the_simplest_of_nearly_equal_methods_is_taken() -> None:
    close, far = 0.2 - 0.1 * (KEPT + 0.01), 0.2 - 0.1 * (KEPT - 0.01)
    found = {"platt": gain("platt", 0.02, close), "isotonic": gain("isotonic", 0.01, 0.1)}
    assert choose(found).method == "platt"  # type: ignore[arg-type]
    assert choose(found | {"platt": gain("platt", 0.02, far)}).method == "isotonic"  # type: ignore[arg-type]


def test_where_nothing_could_be_fitted_the_choice_names_why() -> None:
    before = ScoreQuality(Interval(None, None, None, None), None, None)
    found = {method: Gain(method, before, None, 0, "one_outcome") for method in METHODS}
    assert choose(found) == Choice(None, "one_outcome", "no method can be fitted: one_outcome")
    assert choose({}).reason == "too_few_rows"


def test_every_reason_has_a_section_in_the_page() -> None:
    sections = re.findall(r"^### (.+)$", DOCS.read_text("utf-8"), flags=re.MULTILINE)
    wanted = {
        "helps", "none_helps", "nothing_to_mend", "too_few_rows", "too_few_outcomes", "one_outcome", "order_reversed"
    }  # fmt: skip
    assert wanted <= set(sections)
