"""Certainty: the known answer of Aguilar-Ruiz 2024, and what must hold for any rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import Floats, ProbabilityRows
from monitor.metrics import multiclass
from monitor.metrics.certainty import REGISTERED, certain_share, certainty_ratio, divergence, uncertain_part
from monitor.metrics.groups import number
from monitor.metrics.row_sums import certain_confusion, hard_confusion, soft_confusion
from tests.fakes.points import point
from tests.fakes.whole_rows import any_rows, rows_of


@dataclass
class Certainty:
    """The paper's four matrices (K, K), true labels in rows, a measure of each, and what is made of them."""

    predicted: Floats
    expected: Floats
    certain: Floats
    uncertain: Floats
    of_predicted: float | None
    of_expected: float | None
    of_certain: float | None
    of_uncertain: float | None
    ratio: float | None
    share: float | None
    divergence: float | None


def certainty(rows: ProbabilityRows, measure: multiclass.Measure = multiclass.accuracy) -> Certainty:
    hard, soft, certain = (sums(rows, 1)[0] for sums in (hard_confusion, soft_confusion, certain_confusion))
    matrices = (hard, soft, certain, uncertain_part(soft, certain))
    made = (certainty_ratio(soft, certain, measure), certain_share(soft, certain), divergence(hard, soft))
    return Certainty(*matrices, *(number(value) for value in (*map(measure, matrices), *made)))


def the_paper_s_rows() -> ProbabilityRows:
    scores = [[0.9, 0.1, 0], [0.8, 0, 0.2], [0.6, 0.1, 0.3], [0.4, 0.3, 0.3], [0.1, 0.8, 0.1], [0, 0.9, 0.1]]
    return rows_of(scores, [0, 0, 0, 1, 1, 2], labels=["A", "B", "C"])


def test_scores_that_leave_nothing_open_are_certain_whether_right_or_wrong():
    found = certainty(rows_of([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 1, 1], labels=["A", "B", "C"]))
    assert (found.ratio, found.share, found.divergence) == (1.0, 1.0, 0.0)
    assert not found.uncertain.any()


def test_the_known_answer_comes_out_to_its_printed_digits():
    found = certainty(the_paper_s_rows())
    assert found.expected.round(1).tolist() == [[2.3, 0.2, 0.5], [0.5, 1.1, 0.4], [0.0, 0.9, 0.1]]
    assert found.predicted.tolist() == [[3, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert found.certain.round(1).tolist() == [[2.3, 0, 0], [0.4, 0.8, 0], [0, 0.9, 0]]
    assert found.uncertain.round(1).tolist() == [[0, 0.2, 0.5], [0.1, 0.3, 0.4], [0, 0, 0.1]]
    assert found.of_predicted == pytest.approx(0.667, abs=5e-4)
    assert found.of_expected == pytest.approx(0.583, abs=5e-4)
    assert found.of_certain == pytest.approx(0.705, abs=5e-4)
    assert found.of_uncertain == pytest.approx(0.25, abs=5e-3)
    assert found.share == pytest.approx(0.73, abs=5e-3)
    assert found.divergence == pytest.approx(0.184, abs=5e-4)
    assert found.ratio == pytest.approx(0.738, abs=5e-4)


def test_the_registered_metrics_are_the_parts_of_the_record():
    found = certainty(the_paper_s_rows())
    expected = {
        "certainty_accuracy": found.of_expected,
        "certain_accuracy": found.of_certain,
        "uncertain_accuracy": found.of_uncertain,
        "certainty_ratio": found.ratio,
        "certain_share": found.share,
        "certainty_divergence": found.divergence,
    }
    assert {name: point(name, the_paper_s_rows()) for name in expected} == pytest.approx(expected)
    assert {metric.name for metric in REGISTERED} == {*expected, "imcp_area"}


def test_every_tied_maximum_counts_as_certain():
    found = certainty(rows_of([[0.4, 0.4, 0.2]], [0]))
    assert found.certain.tolist() == [[0.4, 0.4, 0], [0, 0, 0], [0, 0, 0]]
    assert found.uncertain.round(12).tolist() == [[0, 0, 0.2], [0, 0, 0], [0, 0, 0]]


def imcp_of_the_paper(label: np.ndarray, score: np.ndarray) -> float:
    """The area by the paper's steps: distances in order, through the middles of widths by class, then trapezia."""
    near = 1 - np.sqrt(((np.eye(score.shape[1])[label] - np.sqrt(score)) ** 2).sum(axis=1) / 2)
    width = 1 / (len(np.unique(label)) * np.bincount(label)[label])
    order = np.argsort(near, kind="stable")
    y, w = near[order], width[order]
    x = np.cumsum(w) - w / 2
    return np.trapezoid(np.concatenate((y[:1], y, y[-1:])), np.concatenate(([0.0], x, [1.0])))


@given(seed=st.integers(0, 2**30), each=st.integers(1, 8))
def test_the_area_under_the_imcp_curve_is_the_paper_s_where_classes_are_equally_large(seed: int, each: int):
    rng = np.random.default_rng(seed)
    label, score = np.repeat([0, 1, 2], each), rng.dirichlet(np.full(3, 0.7), 3 * each)
    assert point("imcp_area", rows_of(score, label)) == pytest.approx(imcp_of_the_paper(label, score), abs=1e-9)


@given(rows=any_rows(soft=True))
def test_the_imcp_area_is_the_mean_over_classes_of_hellinger_closeness(rows: ProbabilityRows):
    classes = []
    for k in range(3):
        away = ((np.eye(3)[k] - np.sqrt(rows.probability)) ** 2).sum(axis=1) / 2
        classes.append(np.average(1 - np.sqrt(away), weights=rows.weight * rows.truth[:, k]))
    assert point("imcp_area", rows) == pytest.approx(np.mean(classes), abs=1e-7)
    bare = ProbabilityRows(rows.labels, rows.probability / 2, rows.truth, rows.weight, rows.items)
    assert point("imcp_area", bare) == pytest.approx(point("imcp_area", rows), abs=1e-7)  # made to add up to 1
