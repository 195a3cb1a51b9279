"""A source whose labels in trouble explain what is wrong with it as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.diagnoses import Diagnosis, DiagnosisState
from monitor.core.records import Severity, Verdict
from monitor.core.windows import week
from monitor.evaluation.diagnosis import with_labels
from tests.fakes import judged

WEEK = week("2026-W40", ZoneInfo("UTC"))
UNSAFE, DEGRADED, FINE = DiagnosisState.UNSAFE, DiagnosisState.DEGRADED, DiagnosisState.FINE


def rows(off: float, count: int = 2_000, seed: int = 1) -> Counts:
    """Rows that act, with scores of .8 to 1 that are ``off`` too high."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.8, 1.0, count)
    right = (rng.uniform(size=count) < scores - off).astype(float)
    return counts_from_rows(scores, right, predicted=np.ones(count, bool), automate_at=0.8)


def breach(**given: Any) -> Verdict:
    of = {"metric": "overconfidence", "where": "automated", "value": 0.1, "n": 6_000, "detail": {"condition": "above"}}
    return judged.verdict("breach", WEEK, None, **(of | given))


def explained(
    off: dict[str, float],
    states: dict[str, DiagnosisState],
    *breaches: Verdict,
    whole: DiagnosisState = DEGRADED,
    of_labels: Severity = "warning",
) -> Sequence[str]:
    counts = {label: rows(by, seed=at) for at, (label, by) in enumerate(off.items())}
    counts[None] = pool(counts.values())
    diagnoses = [
        Diagnosis("mail", None, WEEK, whole, because=tuple(each.id for each in breaches)),
        *(Diagnosis("mail", label, WEEK, state, because=(label,)) for label, state in states.items()),
    ]
    verdicts = {None: breaches} | {label: [breach(id=label, severity=of_labels)] for label in states}
    told = with_labels(diagnoses, verdicts, counts, EvaluationConfig())
    assert [replace(each, notes=diagnoses[0].notes) for each in told] == diagnoses
    assert told[0].needs_somebody is not bool(told[0].notes.explained_by)
    return told[0].notes.explained_by


ONE = {"refund": 0.3, "billing": 0.0, "login": 0.0}
STATES = {"refund": UNSAFE, "billing": FINE, "login": FINE}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"detail": {"condition": "accumulated"}, "threshold": 0.03},
        {"metric": "ece", "where": "predicted"},
        {"metric": "mce", "threshold": 0.2},
        {"metric": "ece", "detail": {"condition": "increase"}, "threshold": 0.02, "baseline": 0.01},
        {"metric": "accuracy", "detail": {"condition": "decrease"}, "threshold": 0.03, "baseline": 0.9},
        {"metric": "accuracy", "detail": {"condition": "below"}, "threshold": 0.85},
        {"metric": "automated_accuracy", "detail": {"condition": "below"}, "threshold": 0.85},
    ],
)
def test_one_label_in_trouble_explains_its_source_where_the_others_are_within_the_limits(given: dict[str, Any]):
    assert explained(ONE, STATES, breach(**given)) == ("refund",)


@pytest.mark.parametrize(
    "given",
    [
        {"metric": "ece", "detail": {"condition": "increase"}, "threshold": 0.02, "baseline": 0.0},
        {"metric": "accuracy", "detail": {"condition": "decrease"}, "threshold": 0.03, "baseline": 0.9},
        {"metric": "mce", "threshold": 0.05},
        {"metric": "accuracy", "detail": {"condition": "below"}, "threshold": 0.85},
        {},
    ],
)
def test_a_fault_of_all_is_not_explained_by_the_label_that_was_found_first(given: dict[str, Any]):
    everywhere = {"refund": 0.3, "billing": 0.1, "login": 0.1}
    assert explained(everywhere, STATES, breach(**given)) == ()
    assert explained(everywhere, STATES | {"billing": DEGRADED, "login": DEGRADED}, breach(**given)) == ()


def test_each_rule_in_breach_must_be_explained():
    other = breach(id="other", metric="accuracy", detail={"condition": "below"}, threshold=0.95)
    assert explained(ONE, STATES, breach(), other) == ()


def test_a_source_that_must_not_act_and_a_metric_of_whole_rows_are_never_explained():
    assert explained(ONE, STATES, breach(), whole=UNSAFE) == ()
    assert explained(ONE, STATES, breach(metric="top1_accuracy", detail={"condition": "below"})) == ()


def test_a_label_whose_trouble_is_less_severe_explains_nothing():
    degraded = STATES | {"refund": DEGRADED}
    assert explained(ONE, degraded, breach()) == ()
    assert explained(ONE, degraded, breach(), of_labels="critical") == ("refund",)
    assert explained(ONE, degraded, breach(severity="warning")) == ("refund",)
