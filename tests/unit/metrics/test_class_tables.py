"""The K x K tables of a source: against scikit-learn on repeated rows, the paper's answer, and through the history."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sk

from monitor.core.counts import ProbabilityRows
from monitor.core.records import Subject
from monitor.metrics.certainty import as_detail, class_tables, of_detail
from monitor.report.tables import tables_of_classes
from tests.fakes.whole_rows import any_rows, as_plain_items, rows_of


@settings(max_examples=40)
@given(rows=any_rows(soft=True))
def test_tables_and_classes_are_those_of_scikit_learn(rows: ProbabilityRows):
    label, score, weight = as_plain_items(rows)
    top = score.argmax(axis=1)  # of ties the first by name
    found, k = class_tables(rows), np.arange(len(rows.labels))
    expected = sk.confusion_matrix(label, top, labels=k, sample_weight=weight)
    assert np.allclose(found.hard, expected)
    shares = sk.confusion_matrix(label, top, labels=k, sample_weight=weight, normalize="true")
    assert np.allclose(np.nan_to_num(found.shares), shares)
    precision, recall, f1, _ = sk.precision_recall_fscore_support(
        label, top, labels=k, sample_weight=weight, zero_division=np.nan
    )
    for place, one in enumerate(found.classes):
        for mine, theirs in ((one.precision, precision), (one.recall, recall), (one.f1, f1)):
            assert (mine is None and np.isnan(theirs[place])) or mine == pytest.approx(theirs[place])
        assert one.support == pytest.approx(weight[label == place].sum())
    assert np.allclose(found.certain + found.uncertain, found.soft)
    kappa = next(one for one in found.certainty if one.measure == "kappa")
    assert kappa.hard is None or kappa.hard == pytest.approx(
        sk.cohen_kappa_score(label, top, labels=k, sample_weight=weight), abs=1e-9
    )


def test_of_one_class_alone_nothing_is_divided_by_nothing():
    found = class_tables(rows_of([[0.7, 0.3]] * 3, [0, 0, 0], labels=["a", "b"]))
    assert found.hard.tolist() == [[3, 0], [0, 0]]
    assert np.isnan(found.shares[1]).all()
    assert [(one.precision, one.recall, one.support) for one in found.classes] == [(1.0, 1.0, 3.0), (None, None, 0.0)]
    rows = tables_of_classes("mails", found)[2].rows
    assert [*rows] == [(Subject("mails", "a"), "1", "100%", "0.0%"), (Subject("mails", "b"), "2", "–", "–")]


def test_tables_come_back_from_the_history_as_they_were():
    found = class_tables(rows_of([[0.7, 0.3], [0.2, 0.8]], [0, 0], [1.5, 2.0], labels=["a", "b"]))
    kept = of_detail(json.loads(json.dumps(as_detail(found))))
    assert kept.labels == found.labels
    for name in ("hard", "soft", "certain", "uncertain", "shares"):
        assert np.array_equal(getattr(kept, name), getattr(found, name), equal_nan=True)
    assert of_detail({}) is None


def test_of_very_many_classes_no_tables_are_kept():
    k = 51
    assert class_tables(rows_of(np.full((2, k), 1 / k), [0, 1], labels=[f"c{i:02}" for i in range(k)])) is None
