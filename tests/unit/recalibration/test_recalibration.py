"""Fitting score maps, what they are worth on rows not seen, and which one to take."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from monitor.core.records import Interval, Subject, Window
from monitor.inference.intervals import ece_intervals
from monitor.metrics.calibration import brier, ece, nll
from monitor.recalibration import fitting
from monitor.recalibration.applying import apply, clipped_logit
from monitor.recalibration.choice import KEPT, Choice, choose, helps
from monitor.recalibration.fitting import LEAST_TEMPERATURE, CannotFit, fit
from monitor.recalibration.gain import (
    FOLDS,
    ISOTONIC_ROWS,
    LEAST_OUTCOMES,
    LEAST_ROWS,
    METRIC_OF,
    Gain,
    ScoreQuality,
    coarser,
    cross_validated,
    folds,
    gains,
    gains_of,
    held_out,
)
from monitor.recalibration.score_map import METHODS, MOST_KNOTS, Method
from tests.unit.recalibration.on_populations import recalibrated, true_ece, whole

DOCS = Path(__file__).parents[3] / "docs" / "recalibration.md"
WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
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


def test_platts_line_is_scipys_to_the_bit_wherever_its_steps_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[bool] = []
    newton = fitting._newton

    def noted(*asked: Any) -> Any:
        found = newton(*asked)
        left.append(found is None)
        return found

    monkeypatch.setattr(fitting, "_newton", noted)
    for seed in range(30):
        random, rows = rng(seed), int(rng(seed).integers(400, 3_000))
        score = random.beta(*random.uniform(0.2, 3.0, 2), rows)
        worth = expit(logit(np.clip(score, 1e-6, 1 - 1e-6)) * random.uniform(0.4, 1.6) + random.normal(0, 1.5))
        counts = counts_from_rows(score, random.random(rows) < worth).by_cell()
        found = fit("platt", counts)
        assert (found.slope, found.intercept) == plainly(counts), seed
    assert 3 < sum(left) < len(left) - 3  # both ways were gone


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


def test_cells_with_one_mean_score_are_one_step_of_an_isotonic_map() -> None:
    apart = counts_from_rows(np.repeat([0.2, 0.4, 0.4001, 0.8], 100), np.tile([0, 0, 1, 1], 100))
    alike = replace(apart, ws=apart.w * [0.2, 0.4, 0.4, 0.8])
    assert alike.cell.tolist() == [2000, 4000, 4001, 8000]
    found = fit("isotonic", replace(alike, wy=np.array([10.0, 30.0, 90.0, 80.0])))
    assert [knot[0] for knot in found.knots] == pytest.approx([0.2, 0.4, 0.8])
    assert [knot[1] for knot in found.knots] == pytest.approx([0.1, 0.6, 0.8])


def test_scores_that_are_all_one_half_have_no_temperature() -> None:
    with pytest.raises(CannotFit) as refused:
        fit("temperature", counts_from_rows([0.5] * 300, [0, 1, 1] * 100))
    assert refused.value.reason == "order_reversed"


@pytest.mark.parametrize("population", POPULATIONS, ids=names(POPULATIONS))
def test_isotonic_brings_the_ece_below_a_hundredth_at_fifty_thousand_rows(population: Population) -> None:
    draws = [population.draw(rng(3, i), 50_000) for i in range(3)]
    together = [pool(held_out("isotonic", folds(counts, FOLDS, rng(4, i)))) for i, counts in enumerate(draws)]
    tables = [bin_counts(counts, equal_frequency_edges(counts, 15)) for counts in together]
    assert all(found.value is not None and found.value < 0.01 for found in ece_intervals(tables, [], form="analytic"))
    # the form in which gains are given sees more, and so varies more from sample to sample
    gained = cross_validated(draws, [rng(4, i) for i in range(3)], EVALUATION)
    by_fold = [gain["isotonic"].after.ece.value for gain in gained if gain["isotonic"].after is not None]
    assert len(by_fold) == 3
    assert np.mean([value or 0.0 for value in by_fold]) < 0.01
    truth = whole(population)
    assert np.mean([true_ece(recalibrated(truth, fit("isotonic", counts))) for counts in draws]) < 0.01


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


def test_a_map_of_very_many_rows_stays_small_and_is_no_worse_for_it() -> None:
    population = POPULATIONS[4]
    counts = population.draw(rng(5), 2_000_000)
    made = fit("isotonic", counts)
    steps = IsotonicRegression().fit_transform(counts.score, counts.rate, sample_weight=counts.w)
    assert len(set(steps)) > MOST_KNOTS == len(made.knots)
    truth = population.curve.worth(counts.score)
    kept, full = (np.average(abs(found - truth), weights=counts.w) for found in (apply(made, counts.score), steps))
    assert kept < full
    assert len(made.to_json()) < 10_000
    assert true_ece(recalibrated(whole(population), made)) < 0.001


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
    made = folds(counts, k, rng(seed, 1))
    sizes = [fold.held.rows for fold in made]
    assert len(made) == k
    assert max(sizes) - min(sizes) <= 1
    for together in (pool([fold.held for fold in made]), pool([made[0].held, made[0].rest])):
        whole_counts = counts.by_cell()
        assert together.cell.tolist() == whole_counts.cell.tolist()
        assert together.n.tolist() == whole_counts.n.tolist()
        for name in ("w", "wy", "w2"):
            np.testing.assert_allclose(getattr(together, name), getattr(whole_counts, name), rtol=1e-9)


def test_with_fewer_groups_a_map_is_the_same_line_and_as_good_an_isotonic_one() -> None:
    grid, worse = np.linspace(0, 1, 10_001), []
    for population in POPULATIONS:
        counts = population.draw(rng(22), 20_000)
        held, cells = coarser(counts), counts.by_cell()
        assert (len(held.cell) < len(cells.cell)) == (len(cells.cell) > 2_000)
        assert held.n.sum() == cells.n.sum()
        for name in ("w", "wy", "ws", "w2", "ws2", "wsy"):
            assert getattr(held, name).sum() == pytest.approx(getattr(cells, name).sum(), rel=1e-12)
        for method in ("temperature", "platt"):
            assert abs(apply(fit(method, counts), grid) - apply(fit(method, held), grid)).max() < 1e-4
        of_all, of_fewer = (true_ece(recalibrated(whole(population), fit("isotonic", c))) for c in (counts, held))
        worse.append(of_fewer - of_all)
    assert abs(np.mean(worse)) < 0.001
    assert max(worse) < 0.003


def test_groups_near_either_end_and_few_groups_stay_apart() -> None:
    counts = counts_from_rows(np.linspace(0, 1, 10_001), np.tile([0, 1], 5_001)[:10_001])
    held = coarser(counts)
    assert held.cell[:501].tolist() == [*range(500), 505]
    assert held.cell[-502:].tolist() == [9495, *range(9_500, 10_001)]
    assert set(held.n.tolist()) == {1, 10}
    few = counts.take(np.arange(10_001) % 6 == 0)
    assert coarser(few).cell.tolist() == few.cell.tolist()


def test_hits_fall_into_folds_as_if_rows_had_been_shuffled() -> None:
    counts = counts_from_rows([0.3] * 60 + [0.7] * 40, [1] * 30 + [0] * 30 + [1] * 20 + [0] * 20)
    hits = np.array([folds(counts, FOLDS, rng(8, i))[0].held.positives for i in range(2_000)])
    # 20 rows of 100, 50 of which are hits: the hypergeometric law
    assert hits.mean() == pytest.approx(10, abs=4 * np.sqrt(4.04 / 2_000))
    assert hits.var() == pytest.approx(20 * 0.5 * 0.5 * 80 / 99, rel=0.12)


def test_rows_beyond_what_exact_draws_hold_are_shared_out_all_the_same() -> None:
    counts = counts_from_rows([0.3, 0.3, 0.7, 0.7], [1, 0, 1, 0])
    big = replace(counts, n=counts.n * 10**9, w=counts.w * 1e9, w2=counts.w2 * 1e9, wy=counts.wy * 1e9)
    made = folds(big, FOLDS, rng(9))
    assert sum(fold.held.rows for fold in made) == 4 * 10**9
    assert [fold.held.rows / 8e8 for fold in made] == pytest.approx([1] * FOLDS, rel=1e-3)


def test_the_gain_of_a_distorted_label_is_seen_and_the_right_method_chosen() -> None:
    expected = {"temperature 2": "temperature", "shifted by -0.5": "platt", "locally wrong": "isotonic"}
    chosen = [population for population in POPULATIONS if population.name in expected]
    found = cross_validated([p.draw(rng(10), 20_000) for p in chosen], [rng(11, i) for i in range(3)], EVALUATION)
    assert {p.name: choose(g).method for p, g in zip(chosen, found, strict=True)} == expected


def test_a_calibrated_label_is_left_as_it_is() -> None:
    calm = [population for population in POPULATIONS if population.name.endswith("calibrated")]
    found = cross_validated([p.draw(rng(12), 20_000) for p in calm], [rng(13, i) for i in range(4)], EVALUATION)
    assert [choose(gain).reason for gain in found] == ["nothing_to_mend"] * 4


def test_the_upper_limit_after_isotonic_holds_the_true_ece_of_the_map() -> None:
    samples = [(p, p.draw(rng(14, i), 5_000)) for i, p in enumerate(POPULATIONS)]
    found = cross_validated([c for _, c in samples], [rng(15, i) for i in range(len(samples))], EVALUATION)
    for (population, counts), gain in zip(samples, found, strict=True):
        after = gain["isotonic"].after
        assert after is not None
        assert after.ece.high is not None
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
    found = cross_validated([counts.with_design_effect(effect)], [generator], EVALUATION)[0]
    assert [found[method].refused for method in METHODS] == reasons


def test_of_no_rows_nothing_is_known() -> None:
    found = cross_validated([counts_from_rows([], [])], [rng(16)], EVALUATION)[0]
    assert {gain.refused for gain in found.values()} == {"too_few_rows"}
    assert found["platt"].before == ScoreQuality(Interval(None, None, None, None), None, None)
    assert gains([(Subject("tickets", "a"), counts_from_rows([], []))], WEEK, EVALUATION, [rng(16)]) == []


def test_the_same_seed_gives_the_same_gains_whoever_else_is_asked_about() -> None:
    counts = [population.draw(rng(17), 3_000) for population in POPULATIONS[:2]]
    together = cross_validated(counts, [rng(18), rng(19)], EVALUATION)
    assert cross_validated(counts[1:], [rng(19)], EVALUATION)[0] == together[1]


def test_gains_are_estimates_that_can_be_stored_and_read_back() -> None:
    counts = POPULATIONS[3].draw(rng(20), 1_000)
    subject = Subject("tickets", "billing")
    found = gains([(subject, counts)], WEEK, EVALUATION, [rng(21)])
    direct = cross_validated([counts], [rng(21)], EVALUATION)[0]
    assert [one.metric for one in found] == [METRIC_OF["temperature"], METRIC_OF["platt"]]
    assert {one.subject for one in found} == {subject}
    assert found[0].interval == direct["temperature"].after.ece  # type: ignore[union-attr]
    assert found[0].detail["n"] == 1_000
    back = gains_of(found)
    assert set(back) == {"temperature", "platt"}
    assert choose(back) == choose(direct)


@pytest.mark.parametrize("binning", ["equal_width", "equal_frequency"])
def test_the_bins_are_those_of_the_configuration(binning: str) -> None:
    counts = POPULATIONS[3].draw(rng(22), 5_000)
    evaluation = EvaluationConfig.model_validate({"bins": 7, "binning": binning})
    edges = equal_width_edges(7) if binning == "equal_width" else equal_frequency_edges(counts, 7)
    before = cross_validated([counts], [rng(23)], evaluation)[0]["platt"].before
    assert before.ece.plug_in == pytest.approx(ece(bin_counts(counts, edges)))
    assert (before.brier, before.nll) == (brier(counts), nll(counts))


def gain(method: Method, ece: float, brier: float, *, before: float = 0.1, low: float = 0.05) -> Gain:
    return Gain(
        method,
        ScoreQuality(Interval(before, low, 0.2, before), 0.2, 0.5),
        ScoreQuality(Interval(ece, 0, 1, ece), brier, 0.4),
        1,
    )


def test_the_simplest_of_nearly_equal_methods_is_taken() -> None:
    close, far = 0.2 - 0.1 * (KEPT + 0.01), 0.2 - 0.1 * (KEPT - 0.01)
    found = {"platt": gain("platt", 0.02, close), "isotonic": gain("isotonic", 0.01, 0.1)}
    assert choose(found).method == "platt"  # type: ignore[arg-type]
    assert choose(found | {"platt": gain("platt", 0.02, far)}).method == "isotonic"  # type: ignore[arg-type]


def test_a_lower_ece_with_a_higher_brier_score_helps_nobody() -> None:
    assert helps(gain("isotonic", 0.01, 0.19))
    assert not helps(gain("isotonic", 0.01, 0.2001))
    assert not helps(gain("isotonic", 0.096, 0.19))
    assert choose({"isotonic": gain("isotonic", 0.01, 0.2001)}).reason == "none_helps"
    assert choose({"isotonic": gain("isotonic", 0.01, 0.19, low=0.0)}).reason == "nothing_to_mend"


def test_where_nothing_could_be_fitted_the_choice_names_why() -> None:
    before = ScoreQuality(Interval(None, None, None, None), None, None)
    found: dict[Method, Gain] = {method: Gain(method, before, None, 0, "one_outcome") for method in METHODS}
    assert choose(found) == Choice(None, "one_outcome", "no method can be fitted: one_outcome")
    assert choose({}).reason == "too_few_rows"


def test_every_reason_has_a_section_in_the_page() -> None:
    sections = re.findall(r"^### (.+)$", DOCS.read_text("utf-8"), flags=re.MULTILINE)
    wanted = {
        "helps", "none_helps", "nothing_to_mend", "too_few_rows", "too_few_outcomes", "one_outcome", "order_reversed"
    }  # fmt: skip
    assert wanted <= set(sections)
