"""Top-k: the ranks, the counter-example, and the metrics against the rows themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from monitor.core.counts import ProbabilityRows, counts_from_rows
from monitor.metrics.calibration import equal_width_ece
from monitor.metrics.names import RANKS
from monitor.metrics.top_k import REGISTERED
from tests.fakes.points import point
from tests.fakes.whole_rows import any_rows, classifier, ranked_counts, rows_of, within_rank


def test_calibrated_labels_can_have_a_miscalibrated_top():
    rows = rows_of([[0.7, 0.9], [0.7, 0.4]], np.array([[0.8, 0.9], [0.6, 0.4]]))
    for label in range(2):
        marginal = counts_from_rows(rows.probability[:, label], rows.truth[:, label])
        assert equal_width_ece(marginal) == pytest.approx(0.0, abs=1e-12)
    assert point("ece_at_1", ranked_counts(rows, 1)) == pytest.approx(0.05)
    assert point("ace_at_1", ranked_counts(rows, 1)) == pytest.approx(0.05)
    assert point("precision_at_1", ranked_counts(rows, 1)) == pytest.approx(0.75)


@given(rows=any_rows(soft=True), k=st.integers(1, 4), missing=st.integers(0, 2**30))
def test_the_chosen_scores_are_the_first_k_by_score_and_then_by_name(rows: ProbabilityRows, k: int, missing: int):
    scores = np.where(np.random.default_rng(missing).random(rows.probability.shape) < 0.2, np.nan, rows.probability)
    labels = ("zeta", "alpha", "mid")
    chosen = within_rank(ProbabilityRows(labels, scores, rows.truth, rows.weight, rows.items), k)
    for item, picked in zip(scores, chosen, strict=True):
        scored = [
            (-score, label, index) for index, (score, label) in enumerate(zip(item, labels, strict=True)) if score >= 0
        ]
        assert sorted(np.flatnonzero(picked)) == sorted(index for _, _, index in sorted(scored)[:k])


@given(rows=any_rows(soft=True), k=st.sampled_from([1, 3]))
def test_losses_and_precision_are_those_of_the_ranked_rows(rows: ProbabilityRows, k: int):
    order = np.argsort(-rows.probability, axis=1, kind="stable")[:, :k]
    score = np.take_along_axis(rows.probability, order, axis=1).ravel()
    share = np.take_along_axis(rows.truth, order, axis=1).ravel()
    weight = np.repeat(rows.weight, order.shape[1])
    truth, twice = np.repeat([1, 0], len(score)), np.tile(score, 2)
    both = np.concatenate((weight * share, weight * (1 - share)))
    counts = ranked_counts(rows, k)
    assert point(f"precision_at_{k}", counts) == pytest.approx(np.average(share, weights=weight))
    assert point(f"brier_at_{k}", counts) == pytest.approx(sk.brier_score_loss(truth, twice, sample_weight=both))
    clear = (score > 0.001) & (score < 0.999)  # scikit-learn clips, the formula adds eps
    if clear.all():
        assert point(f"nll_at_{k}", counts) == pytest.approx(
            sk.log_loss(truth, twice, sample_weight=both, labels=[0, 1])
        )


@pytest.mark.parametrize("k", RANKS)
def test_binned_errors_at_k_are_those_of_a_loop_over_bins(k: int):
    full = classifier(2, 3000, classes=8)
    rows = rows_of(np.round(full.probability, 3), full.truth, labels=full.labels)
    order = np.argsort(-rows.probability, axis=1, kind="stable")[:, :k]
    score = np.take_along_axis(rows.probability, order, axis=1).ravel()
    truth = np.take_along_axis(rows.truth, order, axis=1).ravel()
    edges = np.linspace(0, 1, 11)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        held = (score > low + 1e-9) & (score <= high + 1e-9)
        total += abs((truth - score)[held].sum())
    assert point(f"ece_at_{k}", ranked_counts(rows, k)) == pytest.approx(total / len(score), abs=1e-9)


def test_each_metric_names_its_rank():
    assert {metric.name: metric.rank for metric in REGISTERED} == {
        f"{kind}_at_{k}": k for k in (1, 3, 5) for kind in ("ece", "ace", "brier", "nll", "precision", "ndcg")
    } | {"hamming_loss": None, "subset_loss": None}
