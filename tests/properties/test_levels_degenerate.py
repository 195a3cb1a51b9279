"""Degenerate rows give every metric that is not binned a defined answer, in order and in range, or None."""

from __future__ import annotations

import itertools

import pytest

from monitor.core.counts import Counts, counts_from_rows
from monitor.inference.levels import interval
from tests.fakes.changes import increase_test
from tests.fakes.one_table import level_detectable, level_p

NAMES = (
    "brier", "nll", "roc_auc", "pr_auc", "accuracy", "overconfidence", "false_negative_rate", "precision", "recall",
    "f1",
)  # fmt: skip
RANGES = dict.fromkeys(NAMES, (0.0, 1.0)) | {"nll": (0.0, 34.6), "overconfidence": (-1.0, 1.0)}

CASES = {
    "no row": counts_from_rows([], []),
    "one hit": counts_from_rows([0.7], [1]),
    "one miss": counts_from_rows([0.7], [0]),
    "one row of half weight": counts_from_rows([0.7], [1], weight=[0.5]),
    "a tenth of a row": counts_from_rows([0.7], [1], design_effect=10.0),
    "two fifths of two rows": counts_from_rows([0.7, 0.2], [1, 0], design_effect=5.0),
    "all right": counts_from_rows([0.9] * 30 + [0.1] * 30, [1] * 30 + [0] * 30),
    "all wrong": counts_from_rows([0.9] * 30 + [0.1] * 30, [0] * 30 + [1] * 30),
    "certain and right": counts_from_rows([1.0] * 30 + [0.0] * 30, [1] * 30 + [0] * 30),
    "certain and wrong": counts_from_rows([1.0] * 30 + [0.0] * 30, [0] * 30 + [1] * 30),
    "all scores equal": counts_from_rows([0.3] * 40, [1] * 12 + [0] * 28),
    "all scores one half": counts_from_rows([0.5] * 40, [1] * 12 + [0] * 28),
    "all scores 0": counts_from_rows([0.0] * 40, [1] * 12 + [0] * 28),
    "all scores 1": counts_from_rows([1.0] * 40, [1] * 12 + [0] * 28),
    "hits only": counts_from_rows([0.2, 0.5, 0.9] * 10, [1] * 30),
    "misses only": counts_from_rows([0.2, 0.5, 0.9] * 10, [0] * 30),
    "all weights zero": counts_from_rows([0.2, 0.9], [0, 1], weight=[0.0, 0.0]),
    "some weights zero": counts_from_rows([0.2, 0.4, 0.9, 0.8], [0, 1, 1, 0], weight=[0.0, 1.0, 0.0, 2.0]),
    "hits without weight": counts_from_rows([0.2, 0.4, 0.9], [0, 1, 1], weight=[1.0, 0.0, 0.0]),
    "weights from 1e-5 to 1e9": counts_from_rows(
        [0.2, 0.4, 0.9, 0.6] * 5, [0, 1, 1, 0] * 5, weight=[1e-5, 1e9, 1.0, 1e4] * 5
    ),
    "half a hit in each row": counts_from_rows([0.2, 0.4, 0.9] * 5, [0.5] * 15),
    "one row of a million is a hit": counts_from_rows([0.0] * 9999 + [1.0], [0] * 9999 + [1], weight=[100.0] * 10_000),
}
UNDEFINED = {"no row", "all weights zero"}


def every_number_is_sound(name: str, counts: Counts) -> None:
    found, (least, most) = interval(name, counts, 0.95), RANGES[name]
    thresholds = (-0.1, 0.0, 0.05, 0.5, 0.95, 1.0, 1.1)
    answers = [
        (level_p(name, counts, t, side), level_detectable(name, counts, t, side, rate))
        for t, side, rate in itertools.product(thresholds, ("above", "below"), (0.05, 0.0005))
    ]
    if found.value is None:
        assert (found.low, found.high, found.plug_in) == (None, None, None)
        assert set(answers) == {(None, None)}
        return
    assert least <= found.low <= found.value <= found.high <= most
    for p, distance in answers:
        assert 0 <= p <= 1
        assert distance is None or 0 <= distance <= most - least + 0.2


@pytest.mark.parametrize("case", CASES)
def test_a_degenerate_sample_has_an_interval_in_order_and_in_range_or_none(case: str):
    for name in NAMES:
        every_number_is_sound(name, CASES[case])
        assert case not in UNDEFINED or interval(name, CASES[case], 0.95).value is None, name


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_no_evidence_that_it_has_itself_risen(name: str):
    for case, counts in CASES.items():
        p = increase_test(name, counts, counts, 0.95).p_value
        assert p is None or p > 0.2, case


@pytest.mark.parametrize("case", [case for case, counts in CASES.items() if 0 < counts.effective_rows <= 1])
def test_one_row_or_less_is_never_strong_evidence(case: str):
    counts = CASES[case]
    for name, threshold, side in itertools.product(NAMES, (0.05, 0.2, 0.5, 0.8), ("above", "below")):
        if name == "overconfidence" and threshold >= counts.ws.sum() / counts.w.sum():
            continue  # an overconfidence is never larger than the mean score, whatever the outcomes
        p = level_p(name, counts, threshold, side)  # type: ignore[arg-type]
        assert p is None or p >= 0.02, name
