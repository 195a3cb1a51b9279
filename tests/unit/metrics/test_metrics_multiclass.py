"""Confusion matrix, averages and areas of multi-class rows, against scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from monitor.core.counts import ProbabilityRows
from monitor.metrics import multiclass
from monitor.metrics.multiclass import _placements, area_estimates, class_areas
from monitor.metrics.row_sums import hard_confusion
from tests.fakes.points import point
from tests.fakes.standard_errors import delong_by_pairs
from tests.fakes.whole_rows import any_rows, as_plain_items, classifier, rows_of


@pytest.fixture(autouse=True, scope="module")
def _scikit_learn_may_warn() -> Iterator[None]:
    # of a class that was never predicted, and of a single label
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@settings(max_examples=50)
@given(rows=any_rows(soft=True))
def test_every_measure_of_the_confusion_matrix_is_that_of_scikit_learn(rows: ProbabilityRows):
    label, score, weight = as_plain_items(rows)
    told = score.argmax(axis=1)
    expected = {
        "top1_accuracy": sk.accuracy_score(label, told, sample_weight=weight),
        "macro_recall": sk.balanced_accuracy_score(label, told, sample_weight=weight),
        "micro_f1": sk.f1_score(label, told, average="micro", sample_weight=weight),
        "kappa": sk.cohen_kappa_score(label, told, sample_weight=weight),
        "multiclass_mcc": sk.matthews_corrcoef(label, told, sample_weight=weight),
    }
    scorers = {"precision": sk.precision_score, "recall": sk.recall_score, "f1": sk.f1_score}
    for kind in ("macro", "weighted"):
        for name, scorer in scorers.items():
            expected[f"{kind}_{name}"] = scorer(label, told, average=kind, sample_weight=weight, zero_division=np.nan)
    found = {name: point(name, rows) for name in expected}
    if found["multiclass_mcc"] is None:  # one class alone was predicted: scikit-learn says 0
        assert expected.pop("multiclass_mcc") == 0
        found.pop("multiclass_mcc")
    assert found == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40)
@given(rows=any_rows(soft=True))
def test_areas_against_the_rest_are_those_of_scikit_learn(rows: ProbabilityRows):
    label, score, weight = as_plain_items(rows)
    options = {"multi_class": "ovr", "sample_weight": weight, "labels": [0, 1, 2]}
    assert point("auc_ovr_macro", rows) == pytest.approx(sk.roc_auc_score(label, score, average="macro", **options))
    assert point("auc_ovr_weighted", rows) == pytest.approx(
        sk.roc_auc_score(label, score, average="weighted", **options)
    )
    for index, area in enumerate(class_areas(rows, _placements(rows)).rest):
        assert area == pytest.approx(sk.roc_auc_score(label == index, score[:, index], sample_weight=weight))


@settings(max_examples=50)
@given(rows=any_rows(whole_weights=True))
def test_the_area_of_hand_and_till_is_that_of_scikit_learn_on_repeated_items(rows: ProbabilityRows):
    # scikit-learn takes no weights here
    times = rows.weight.astype(int)
    label, score = np.repeat(rows.truth.argmax(axis=1), times), np.repeat(rows.probability, times, axis=0)
    assert point("auc_ovo", rows) == pytest.approx(sk.roc_auc_score(label, score, multi_class="ovo", labels=[0, 1, 2]))


def test_equal_scores_go_to_the_label_first_by_name_wherever_its_column_is():
    tied = rows_of([[0.4, 0.4, 0.2]], [0], labels=["beta", "alpha", "gamma"])
    assert hard_confusion(tied, 1)[0].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_items_without_a_score_add_nothing_and_labels_not_scored_are_never_chosen():
    nan = np.nan
    rows = rows_of([[0.1, nan], [nan, nan], [nan, 0.0]], [0, 1, 0])
    assert hard_confusion(rows, 1)[0].tolist() == [[1, 1], [0, 0]]


def test_a_class_without_items_is_left_out_of_averages_and_areas():
    rows = rows_of([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]], [0, 1, 1, 1])
    two = rows_of([[0.7, 0.2], [0.3, 0.6], [0.6, 0.3], [0.2, 0.7]], [0, 1, 1, 1])
    for metric in multiclass.REGISTERED:
        assert point(metric.name, rows) == pytest.approx(point(metric.name, two)), metric.name


def test_what_is_not_defined_is_none():
    one_class = rows_of([[0.7, 0.3], [0.6, 0.4]], [0, 0])
    assert [point(name, one_class) for name in multiclass.AREAS] == [None] * 3
    assert point("kappa", one_class) is None
    assert point("top1_accuracy", one_class) == 1.0
    assert area_estimates(one_class) == {}


def test_the_error_of_two_classes_areas_is_delong_s_but_for_the_unseen_items():
    full = classifier(1, 400, classes=2)
    score = np.round(full.probability[:, 1], 2)
    rows = rows_of(np.column_stack((1 - score, score)), full.truth)
    hits, misses = score[rows.truth[:, 1] == 1], score[rows.truth[:, 1] == 0]
    _, delong = delong_by_pairs(hits, misses)
    unseen = 0.5 * (0.25 / len(hits) ** 2 + 0.25 / len(misses) ** 2)
    for name in ("auc_ovo", "auc_ovr_macro"):
        assert area_estimates(rows)[name].se ** 2 == pytest.approx(delong + unseen, rel=1e-9)


@settings(max_examples=25)
@given(rows=any_rows(soft=True), chosen=st.integers(0, 2))
def test_heavier_weights_of_an_item_move_the_areas_as_its_influence_says(rows: ProbabilityRows, chosen: int):
    step, held = 1e-6, np.arange(3)
    one, macro, weighted = multiclass._influences(
        rows, class_areas(rows, _placements(rows)), multiclass._placements(rows)
    )
    stretch = rows.truth @ np.sqrt([1 + 1 / max(n - 1, 0.5) for n in multiclass._effective(rows, held)])
    heavier = rows.weight.copy()
    heavier[chosen] += step * heavier[chosen]
    moved = ProbabilityRows(rows.labels, rows.probability, rows.truth, heavier, rows.items)
    for name, influence in (("auc_ovo", one), ("auc_ovr_macro", macro), ("auc_ovr_weighted", weighted)):
        slope = (point(name, moved) - point(name, rows)) / step
        assert influence[chosen] / stretch[chosen] == pytest.approx(slope, abs=1e-5)


def test_perfectly_separated_classes_are_not_taken_for_certain():
    rows = rows_of(np.repeat(np.eye(3) * 0.8 + 0.1, 10, axis=0), np.repeat([0, 1, 2], 10))
    for found in area_estimates(rows).values():
        assert found.value == 1.0
        assert found.se == pytest.approx(np.sqrt(0.5 * 3 * (1 / 3 / 10) ** 2))
        assert found.skew < 0
