"""Distribution tests on counts, against scipy on the rows."""

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance
from scipy.stats import contingency

from monitor.core import windows
from monitor.core.counts import Counts, counts_from_rows, equal_frequency_edges, pool
from monitor.core.records import Subject
from monitor.evaluation.shift.counts_tests import (
    chi_square,
    ks,
    score_tests,
    source_shifts,
)

OF_SCORES = ("ks", "psi", "wasserstein", "jensen_shannon")
WINDOW = windows.week("2026-W46", ZoneInfo("UTC"))


@dataclass(frozen=True)
class Reference:
    counts: Counts
    first: str = "2026-W38"
    version: int = 1

    @property
    def start(self) -> datetime:
        return windows.week(self.first, ZoneInfo("UTC")).start

    @property
    def end(self) -> datetime:
        return WINDOW.start


def scores(seed: int, n: int, a: float = 2.0, b: float = 3.0) -> np.ndarray:
    return np.round(np.random.default_rng(seed).beta(a, b, n), 2)


def of(score: np.ndarray, **more: object) -> Counts:
    return counts_from_rows(score, np.zeros(len(score)), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("n", "a"), [(300, 2.0), (2_000, 2.2), (5_000, 1.5), (150, 4.0)])
def test_ks_is_that_of_scipy_on_the_rows(n: int, a: float):
    now, then = scores(1, n, a), scores(2, 4_000)
    theirs = stats.ks_2samp(now, then, method="asymp")
    ours = ks(of(now), of(then))
    assert ours.statistic == pytest.approx(theirs.statistic, abs=1e-12)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    assert ours.detail["at_score"] == pytest.approx(theirs.statistic_location, abs=1e-4)


def test_groups_of_one_cell_count_as_one_step_of_the_distribution():
    score = scores(1, 1_000)
    split = of(score, predicted=np.random.default_rng(3).random(1_000) < 0.5)
    assert ks(split, of(score)).statistic == pytest.approx(0.0, abs=1e-12)


def test_weights_count_a_row_as_often_as_they_say_but_are_not_more_evidence():
    score, then = scores(1, 400), of(scores(2, 3_000, 2.4))
    weight = np.random.default_rng(4).integers(1, 4, 400)
    weighted, repeated = ks(of(score, weight=weight), then), ks(of(np.repeat(score, weight)), then)
    assert weighted.statistic == pytest.approx(repeated.statistic, abs=1e-12)
    assert weighted.p_value > repeated.p_value


def test_dependent_rows_are_less_evidence_for_the_same_distance():
    now, then = of(scores(1, 1_000, 2.3)), of(scores(2, 4_000))
    plain, clustered = ks(now, then), ks(replace(now, design_effect=3.0), then)
    assert plain.statistic == clustered.statistic
    assert clustered.p_value > plain.p_value


def test_psi_is_the_sum_over_the_baselines_deciles():
    rng = np.random.default_rng(5)
    now, then = rng.beta(2.5, 3, 50_000), rng.beta(2, 3, 50_000)
    place = [np.searchsorted(np.quantile(then, np.arange(1, 10) / 10), s) for s in (now, then)]
    p, q = (np.bincount(k, minlength=10) / len(k) for k in place)
    assert score_tests(of(now), of(then))["psi"].statistic == pytest.approx(np.sum((p - q) * np.log(p / q)), rel=0.01)


def test_psi_stays_finite_where_a_bin_is_empty():
    found = score_tests(of(np.full(500, 0.9)), of(np.linspace(0.05, 0.95, 500)))["psi"]
    assert 1.0 < found.statistic < 10.0
    assert found.p_value is None


@pytest.mark.parametrize("test", OF_SCORES)
@pytest.mark.parametrize("sizes", [(99, 1_000), (1_000, 99), (1, 1_000), (0, 1_000), (1_000, 0)])
def test_too_few_rows_on_either_side_give_no_effect_size_but_the_reason(test: str, sizes: tuple[int, int]):
    found = score_tests(*(of(scores(1, n)) for n in sizes))[test]
    assert (found.statistic, found.p_value, found.detail["reason"]) == (None, None, "too_few_rows")


def mix(**predicted: int) -> dict[str, Counts]:
    """Labels with so many predicted rows each, and as many again that were not predicted."""
    return {label: of(np.repeat([0.2, 0.9], n)) for label, n in predicted.items()}


def with_whole(labels: dict[str, Counts]) -> dict[str | None, Counts]:
    """The labels, and the source as a whole."""
    return {None: pool(labels.values()), **labels}


def test_the_label_mix_is_tested_like_scipys_contingency_table():
    found = chi_square(mix(billing=300, login=150, outage=50), mix(billing=2_000, login=1_500, outage=500))
    table = np.array([[300, 150, 50], [2_000, 1_500, 500]])
    assert found.statistic == pytest.approx(contingency.association(table, method="cramer"), abs=1e-12)
    assert found.p_value == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, rel=1e-9)
    assert found.detail["moved_most"] == "billing"
    assert found.detail["moved_by"] == pytest.approx(0.6 - 0.5)


def test_the_design_effect_of_one_label_does_not_move_the_mix():
    now, then = mix(a=300, b=300), mix(a=3_000, b=3_000)
    found = chi_square({**now, "a": replace(now["a"], design_effect=2.0)}, then)
    assert found.statistic == pytest.approx(0.0, abs=1e-9)


def test_a_label_that_is_too_rare_even_with_the_others_is_left_out():
    found = chi_square(mix(a=300, b=200, rare=0), mix(a=3_000, b=2_000, rare=3))
    assert found.statistic == pytest.approx(0.0, abs=1e-9)
    assert found.detail["merged"] == ["rare"]


def test_a_mix_of_one_label_or_of_few_rows_has_no_test():
    assert chi_square(mix(a=300), mix(a=3_000)).detail["reason"] == "one_label"
    assert chi_square(mix(a=30, b=20), mix(a=300, b=200)).detail["reason"] == "too_few_rows"
    assert chi_square({}, {}).detail["reason"] == "too_few_rows"


def test_a_source_gets_every_label_with_a_baseline_then_the_whole_then_the_mix():
    now = with_whole(mix(b=200, a=300, new=200))
    then = {name: Reference(counts) for name, counts in with_whole(mix(a=3_000, b=2_000, gone=100)).items()}
    found = source_shifts("mail", WINDOW, now, then)
    assert [(f.subject.label, f.test, f.column) for f in found] == [
        *((label, test, "score") for label in ("a", "b", None) for test in OF_SCORES),
        (None, "chi_square", "label"), (None, "chi_square", "actual"),
    ]  # fmt: skip
    assert {f.subject.source for f in found} == {"mail"}
    assert (found[0].n, found[0].n_baseline) == (600, 6_000)
    assert (found[-2].n, found[-2].n_baseline) == (700, 5_100)


def test_a_label_that_is_gone_and_one_that_is_new_change_the_mix():
    before, after = mix(a=3_000, b=2_000, gone=600, few=40), mix(a=300, b=200, new=80, few=4)
    every = with_whole(before)
    then = {label: Reference(every[label]) for label in (None, "a", "b", "gone")}  # "few" was refused
    found = [each for each in source_shifts("mail", WINDOW, with_whole(after), then) if each.test == "chi_square"]
    table = np.array([[300, 200, 0, 84], [3_000, 2_000, 600, 40]])  # a, b, gone, the others
    v, p = contingency.association(table, method="cramer"), stats.chi2_contingency(table, correction=False).pvalue
    assert found[0].statistic == pytest.approx(v, abs=1e-12)
    assert found[0].statistic > 0.25
    assert found[0].p_value == pytest.approx(p, rel=1e-9)
    assert (found[0].n, found[0].n_baseline) == (584, 5_640)
    assert found[0].detail["moved_most"] == "(other labels)"


def test_what_is_left_of_the_source_is_a_label_also_where_no_label_is_there_any_more():
    every = with_whole(mix(a=3_000, b=2_000))
    found = source_shifts(
        "mail", WINDOW, with_whole(mix(c=300, d=200)), {label: Reference(each) for label, each in every.items()}
    )
    assert [each.statistic for each in found if each.column == "label"] == [pytest.approx(1.0, abs=1e-9)]


def test_the_mix_of_true_labels_is_tested_like_scipys_contingency_table():
    true = {"a": ((300, 0.6), (3_000, 0.3)), "b": ((300, 0.4), (3_000, 0.4)), "c": ((300, 0.2), (3_000, 0.2))}
    now, then = (
        {label: counts_from_rows(np.full(n, 0.2), np.arange(n) < n * share) for label, (n, share) in side.items()}
        for side in ({k: v[0] for k, v in true.items()}, {k: v[1] for k, v in true.items()})
    )
    table = np.array([[180, 120, 60], [900, 1_200, 600]])
    found = chi_square(now, then, of="actual")
    assert found.statistic == pytest.approx(contingency.association(table, method="cramer"), abs=1e-12)
    assert found.detail["moved_most"] == "a"
    results = source_shifts("mail", WINDOW, dict(now), {name: Reference(each) for name, each in then.items()})
    actual = results[-1]
    assert (actual.column, actual.n, actual.n_baseline) == ("actual", 360, 2_700)
    assert actual.p_value == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, rel=1e-9)


def test_of_answers_alone_the_mix_of_true_labels_is_not_known():
    def answers(n: int) -> Counts:
        right = np.arange(n) < 0.9 * n
        return counts_from_rows(np.full(n, 0.9), right, predicted=np.ones(n), score_is="confidence_in_prediction")

    now, then = {"a": answers(300), "b": answers(200)}, {"a": Reference(answers(3_000)), "b": Reference(answers(900))}
    found = source_shifts("mail", WINDOW, dict(now), dict(then))
    assert [each.column for each in found if each.test == "chi_square"] == ["label"]


def test_a_source_without_a_baseline_gets_no_result():
    assert source_shifts("mail", WINDOW, {None: of(scores(1, 900))}, {}) == []


def test_the_whole_source_is_its_own_subject():
    whole = {None: of(scores(1, 900))}
    found = source_shifts("mail", WINDOW, whole, {None: Reference(of(scores(2, 900)))})
    assert [(f.subject, f.test) for f in found] == [(Subject("mail", None), test) for test in OF_SCORES]


@pytest.mark.parametrize(("n", "a"), [(300, 2.0), (2_000, 2.2), (5_000, 1.5)])
def test_wasserstein_and_jensen_shannon_are_those_of_scipy_on_the_rows(n: int, a: float):
    now, then = scores(1, n, a), scores(2, 4_000)
    ours = score_tests(of(now), of(then))["wasserstein"]
    assert ours.detail["points"] == pytest.approx(stats.wasserstein_distance(now, then), abs=1e-12)
    assert ours.statistic == pytest.approx(stats.wasserstein_distance(now, then) / then.std(), rel=1e-9)
    edges = np.asarray(equal_frequency_edges(of(then), 10))
    cells = [np.round(side * 10_000).astype(int) for side in (now, then)]
    table = [np.bincount(np.searchsorted(edges, side), minlength=len(edges)) for side in cells]
    found = score_tests(of(now), of(then))["jensen_shannon"]
    assert found.statistic == pytest.approx(distance.jensenshannon(table[0], table[1]), rel=1e-9)


@pytest.mark.parametrize("test", ["wasserstein", "jensen_shannon"])
def test_scores_that_are_all_alike_and_too_few_scores_say_so(test: str):
    alike = of(np.full(500, 0.3))
    found = score_tests(alike, alike)[test]
    assert (found.statistic, found.p_value) == (0.0, 1.0)
    assert score_tests(of(np.full(50, 0.3)), alike)[test].statistic is None
