"""Evidence on shares of decisions: what the evidence is, and how often it is a false alarm, from the rows alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.promises import DECIDED, PastWindow, decided_promise, promises_of
from monitor.core.records import Reason, ScoreIs, Verdict, Where
from monitor.core.wording import plain_words
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.history import past_promises
from monitor.inference.levels import all_promises_of, interval
from monitor.inference.registered import law
from monitor.metrics.names import ACCUMULATES
from monitor.report.explanation import explain
from tests.fakes.judged import config, window

SIZES = (0.2, 0.4, 0.8, 1.6, 3.2)
SHARES = tuple(name for name in ACCUMULATES if name != "overconfidence")


@dataclass(frozen=True)
class Rows:
    """Rows as a table: score, what was decided, and what was true."""

    score: npt.NDArray[np.float64]
    decided: npt.NDArray[np.bool_]
    true: npt.NDArray[np.bool_]

    def counts(self, weights: npt.NDArray[np.float64] | None = None) -> Counts:
        return counts_from_rows(self.score, self.true, predicted=self.decided, automate_at=0.8, weight=weights)

    def outcomes(self, metric: str) -> npt.NDArray[np.bool_]:
        """For each row of which the metric is a share, whether the decision was right, by the metric's definition."""
        right, acted = self.decided == self.true, self.decided & (self.score >= 0.8)
        among = {
            "accuracy": np.ones(len(right), bool), "error_rate": np.ones(len(right), bool),
            "recall": self.true, "false_negative_rate": self.true,
            "specificity": ~self.true, "false_positive_rate": ~self.true,
            "precision": self.decided, "automated_accuracy": acted,
        }[metric]  # fmt: skip
        return right[among]


def drawn(rng: np.random.Generator, rows: int, wrong: float = 0.15, metric: str = "precision") -> Rows:
    """Rows of which each decision is wrong with the same chance: given what was decided, or given what is true."""
    score = rng.choice([0.1, 0.3, 0.6, 0.85, 0.95], rows)
    decided = score >= 0.5
    if metric not in ("recall", "false_negative_rate", "specificity", "false_positive_rate"):
        return Rows(score, decided, decided ^ (rng.random(rows) < wrong))
    true = rng.random(rows) < 0.4
    return Rows(score, true ^ (rng.random(rows) < wrong), true)


def rule_on(metric: str, threshold: float, where: Where = "all") -> Rule:
    return Rule(id="lasting", metric=metric, where=where, condition="accumulated", threshold=threshold, min_samples=20)


def judged(rule: Rule, weeks: list[Counts]) -> Verdict:
    """The verdict of a label on these weeks, oldest first; those before the last are known by their promises only."""
    past = [PastWindow(window(back), {"a": all_promises_of(week)}) for back, week in enumerate(weeks[::-1]) if back]
    data = SourceData("tickets", WindowCounts(window(), {"a": weeks[-1]}), past=tuple(past))
    settings = config(rule, evaluation=EvaluationConfig(resamples=100))
    (verdict,) = (v for v in verdicts_of(rule, data, settings, ()) if v.subject.label == "a")
    return verdict


def evidence_from_rows(weeks: list[npt.NDArray[np.bool_]], least: float) -> float:
    """The restarted evidence that fewer decisions than ``least`` are right: every beginning by itself, row by row."""
    total = 0.0
    for begin in range(len(weeks)):
        for size in SIZES:
            product = 1.0
            for outcomes in weeks[begin:]:
                for right in outcomes:
                    product *= math.exp(-size * float(right)) / (1 - least + least * math.exp(-size))
            total += product / len(SIZES)
    return total


@pytest.mark.parametrize("metric", SHARES)
def test_the_evidence_is_the_likelihood_ratio_of_the_rows_themselves(metric: str):
    rng = np.random.default_rng(SHARES.index(metric))
    weeks = [drawn(rng, 25, 0.15, metric) for _ in range(4)]
    least = 0.9
    threshold = least if ACCUMULATES[metric] == "below" else 1 - least
    verdict = judged(rule_on(metric, threshold), [week.counts() for week in weeks])
    outcomes = [week.outcomes(metric) for week in weeks]
    assert verdict.detail["evidence"] == pytest.approx(evidence_from_rows(outcomes, least), rel=1e-3)
    right = np.concatenate(outcomes[[step[0] for step in verdict.detail["path"]].index(verdict.detail["since"]) :])
    assert verdict.n == len(right)
    assert verdict.value == pytest.approx(right.mean() if ACCUMULATES[metric] == "below" else 1 - right.mean())


@pytest.mark.parametrize(("metric", "least"), list(itertools.product(SHARES, [0.7, 0.95])))
def test_where_the_truth_is_just_the_threshold_the_evidence_is_one_at_most_in_the_mean(metric: str, least: float):
    rng, found = np.random.default_rng([SHARES.index(metric), 1]), []
    threshold = least if ACCUMULATES[metric] == "below" else 1 - least
    for _ in range(2_000):
        outcomes = drawn(rng, 40, 1 - least, metric).outcomes(metric)  # every decision is wrong with the same chance
        n, kept = len(outcomes), int(outcomes.sum())
        found.append(
            [math.exp(-t * kept) / (1 - least + least * math.exp(-t)) ** n for t in SIZES] if n else [1.0] * len(SIZES)
        )
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(len(found))
    assert np.all(mean <= 1 + 4 * error), (metric, threshold, mean)


@pytest.mark.parametrize("metric", SHARES)
def test_a_lasting_fault_is_found_and_a_share_that_keeps_its_limit_is_ok(metric: str):
    rng = np.random.default_rng([SHARES.index(metric), 2])
    threshold = 0.9 if ACCUMULATES[metric] == "below" else 0.1
    bad = judged(rule_on(metric, threshold), [drawn(rng, 120, 0.3, metric).counts() for _ in range(8)])
    good = judged(rule_on(metric, threshold), [drawn(rng, 120, 0.02, metric).counts() for _ in range(8)])
    reason = Reason.BELOW_THRESHOLD if ACCUMULATES[metric] == "below" else Reason.ABOVE_THRESHOLD
    assert (bad.outcome, bad.reason) == ("breach", reason)
    assert (good.outcome, good.reason) == ("ok", Reason.WITHIN_THRESHOLD)
    assert good.detectable is not None
    words = plain_words(bad)
    assert "allowed" in words or "required" in words
    assert ("below" if ACCUMULATES[metric] == "below" else "above") in explain(bad, bad.rules_revision).checks[0].text


@pytest.mark.parametrize("name", DECIDED)
@pytest.mark.parametrize("score_is", get_args(ScoreIs))
def test_a_share_of_decisions_is_that_of_its_metric(name: str, score_is: ScoreIs):
    rows = drawn(np.random.default_rng(4), 300)
    counts = counts_from_rows(
        rows.score, rows.decided == rows.true if score_is == "confidence_in_prediction" else rows.true,
        predicted=rows.decided, score_is=score_is,
    )  # fmt: skip
    found = decided_promise(counts, name)  # type: ignore[arg-type]
    metric = {"right": "accuracy", "found": "recall", "cleared": "specificity"}[name]
    assert found.kept == pytest.approx(rows.outcomes(metric).mean())
    assert found.rows == len(rows.outcomes(metric))
    expected = (
        interval("accuracy", counts, 0.95).value if name == "right" else getattr(law(metric, counts), "value", None)
    )
    assert found.kept == pytest.approx(expected)


def test_rows_of_unequal_weight_have_no_fair_share_and_are_said_not_to_be_judged():
    rows = drawn(np.random.default_rng(5), 100)
    uneven = rows.counts(np.where(rows.decided, 1.0, 50.0))
    assert [decided_promise(uneven, name) for name in DECIDED] == [None] * 3
    assert decided_promise(rows.counts(np.full(100, 3.0)), "right") == decided_promise(rows.counts(), "right")
    verdict = judged(rule_on("false_negative_rate", 0.1), [uneven] * 3)
    assert (verdict.outcome, verdict.reason) == ("not_evaluated", Reason.NO_ROWS)
    assert "no rows of equal weight of which false-negative rate is a share" in explain(verdict, "r").sentence


def test_the_history_keeps_the_shares_and_reads_what_an_older_version_kept_without_them():
    counts = drawn(np.random.default_rng(6), 80).counts()
    kept = past_promises.as_json(counts)
    assert past_promises.of_label(kept) == all_promises_of(counts)
    older = {where: kept[where] for where in promises_of(counts)}
    assert past_promises.of_label(older) == promises_of(counts)
    verdict = judged(rule_on("recall", 0.5), [counts])
    assert replace(verdict).detail["path"][0][2] is None
