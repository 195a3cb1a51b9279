"""Truths that are wrong in a share that the source states: alone they turn nothing off, and a fault is still found.

The oracle is a simulation that knows both the true truths and those that a person wrote.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from monitor.config.load import parse_config
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import Verdict
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.report.explanation import explain, lines
from tests.fakes.judged import window

ERROR, ROWS, RUNS = 0.08, 6000, 40
RULES = """\
version: 1
evaluation: {interval: analytic}
sources: {tickets: {relation: tickets, kind: single_label, truth_error: %g}}
rules:
  - {id: gap, metric: overconfidence, where: automated, threshold: 0.03, min_samples: 30,
     actions: [slack, disable_automation]}
  - {id: lasting, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02, min_samples: 30,
     actions: [slack, disable_automation]}
  - {id: ece, metric: ece, threshold: 0.03, min_samples: 30, actions: [slack, disable_automation]}
  - {id: mce, metric: mce, threshold: 0.02, min_samples: 30, actions: [slack, block_scores]}
  - {id: floor, metric: automated_accuracy, condition: below, threshold: 0.88, min_samples: 30,
     actions: [slack, disable_automation]}
automation: {when_not_evaluated: keep}
"""


def rows(seed: int, *, labels: int, fault: float = 0.0) -> Counts:
    """Calibrated but for the ``fault``; a wrong truth is any of the other labels, so it may be the one given."""
    random = np.random.default_rng(seed)
    score = random.uniform(0.8, 1.0, ROWS)
    true = np.where(random.random(ROWS) < score - fault, 0, random.integers(1, labels, ROWS))
    wrong = random.random(ROWS) < ERROR
    written = np.where(wrong, (true + random.integers(1, labels, ROWS)) % labels, true)
    return counts_from_rows(score, written == 0, automate_at=0.8)


def judged(seed: int, *, labels: int, stated: float, fault: float = 0.0) -> dict[str, Verdict]:
    """The verdicts on the first label; the others have a row each."""
    others = {f"label {at}": counts_from_rows([0.9], [1], automate_at=0.8) for at in range(1, labels)}
    counts = {"label 0": rows(seed, labels=labels, fault=fault), **others}
    data, config = SourceData("tickets", WindowCounts(window(), {**counts})), parse_config(RULES % stated)
    verdicts = (each for rule in config.rules for each in verdicts_of(rule, data, config, ()))
    return {verdict.rule: verdict for verdict in verdicts if verdict.subject.label == "label 0"}


@pytest.mark.parametrize("labels", [2, 5])
def test_stated_wrong_truths_turn_nothing_off_and_what_is_left_without_them_is_the_true_overconfidence(
    labels: int,
):
    unsaid = judged(0, labels=labels, stated=0.0)
    assert {rule for rule, each in unsaid.items() if each.outcome == "breach"} == set(unsaid)
    covered = 0
    for seed in range(RUNS):
        found = judged(seed, labels=labels, stated=ERROR)
        assert not [each.rule for each in found.values() if each.outcome == "breach"]
        _, low, high = found["gap"].detail["truth_error"]["without"]
        covered += low <= 0 <= high
    assert covered >= binom.ppf(0.001, RUNS, 0.95)


def test_a_fault_beyond_what_wrong_truths_explain_is_found_and_explained_without_them():
    missed, covered = 0, 0
    for seed in range(RUNS):
        found = judged(seed, labels=5, stated=ERROR, fault=0.2)
        missed += any(each.outcome != "breach" for each in found.values())
        value, low, high = found["gap"].detail["truth_error"]["without"]
        covered += low <= 0.2 <= high
    assert missed == 0
    assert covered >= binom.ppf(0.001, RUNS, 0.95)
    verdict = found["gap"]
    (said,) = (line for line in lines(explain(verdict, verdict.rules_revision)) if "truth_error" in line)
    assert "0.08 by `truth_error`" in said
    assert f"the limit is 0.11 where the rule says 0.03; without them it would be {value:.4g} ({low:.4g} to" in said
