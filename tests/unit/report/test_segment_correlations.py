"""The correlation of score and outcome of each label in each segment: stored weekly, shown beside the segment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig, SourceConfig
from monitor.core.counts import counts_from_rows
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import estimates_of
from monitor.history.store import Store
from monitor.report.collect import collect_report
from monitor.report.tables import of_one
from tests.fakes.judged import config
from tests.fakes.report_data import NOW, windows

WEEK = windows(1)[0]
SOURCE = SourceConfig(relation="t", score_is="probability_of_label", segments=("channel", "language"))
CONFIG = config(sources={"tickets": SOURCE}, evaluation=EvaluationConfig(interval="analytic"))


def rows(seed: int, *, says_something: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = np.round(rng.random(800), 4)
    return score, rng.random(800) < (score if says_something else 0.5)


PARTS = {
    ("channel", "web"): {"billing": rows(1, says_something=True), "spam": rows(2, says_something=True)},
    ("channel", "fax"): {"billing": rows(3, says_something=False)},
    ("language", "de"): {"billing": rows(4, says_something=True)},
    ("language", "en"): {"spam": (np.full(50, 0.5), np.arange(50) % 2)},  # one score alone has no correlation
}


WEB = np.corrcoef(*PARTS["channel", "web"]["billing"])[0, 1]


def data() -> SourceData:
    segments = {of: {label: counts_from_rows(*part) for label, part in found.items()} for of, found in PARTS.items()}
    labels = {label: counts_from_rows(*rows(9, says_something=True)) for label in ("billing", "spam")}
    return SourceData("tickets", WindowCounts(WEEK, dict(labels)), segments=segments)


def test_each_label_has_its_correlation_in_each_segment_where_there_is_one():
    found = {
        (e.subject.segment, e.subject.label): e.interval.value
        for e in estimates_of(data(), CONFIG)
        if e.metric == "point_biserial" and e.subject.segment is not None
    }
    wanted = {
        (of, label): np.corrcoef(score, outcome)[0, 1]
        for of, labels in PARTS.items()
        for label, (score, outcome) in labels.items()
        if len(set(score.tolist())) > 1
    }
    assert found == {key: pytest.approx(r, abs=1e-4) for key, r in wanted.items()}


def test_the_report_shows_it_beside_the_segment(tmp_path: Path):
    with Store.from_url(f"sqlite:///{tmp_path}/history.sqlite") as store:
        store.save_evaluation(WEEK, ["tickets"], estimates_of(data(), CONFIG), [], [], NOW)
        billing, spam = collect_report(store, CONFIG, WEEK, NOW).subjects
    lines = {(line.column, line.value): line.correlation for line in billing.segments}
    assert lines["channel", "web"] == pytest.approx(WEB, abs=1e-4)
    assert abs(lines["channel", "fax"]) < 0.1
    assert {line.value: line.correlation for line in spam.segments}["en"] is None
    (table,) = [element for element in of_one(billing) if element.title == "By segment"]
    assert [row[-1] for row in table.rows] == [f"{line.correlation:.3f}".replace("-", "−") for line in billing.segments]
