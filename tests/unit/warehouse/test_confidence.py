"""Scores from log-probabilities and votes: known answers, oracles, and rows that give no score."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import entropy, gmean

from monitor.config.model import ScoreMethod
from monitor.warehouse.score_construction import CONSTRUCTIONS, BadArray, label_entropy, vote_variance

DOCS = Path(__file__).parents[3] / "docs" / "confidence.md"
LOG = st.floats(-30, 0)
ROWS = st.lists(st.lists(LOG, min_size=2, max_size=8), min_size=1, max_size=12)
BAD = ["[]", "null", "nonsense", '"-0.1"', "{}", "[-0.1, null]", "[true]", "[NaN]", "[-Infinity]", "[[-0.1]]", "[0.5]"]
ALONE = {  # what plain Python says of one row
    "sequence_probability": lambda row: math.exp(math.fsum(row)),
    "geometric_mean_probability": lambda row: float(gmean(np.exp(row))),
    "mean_probability": lambda row: math.fsum(map(math.exp, row)) / len(row),
    "min_probability": lambda row: min(map(math.exp, row)),
    "top_two_margin": lambda row: math.exp(sorted(row)[-1]) - math.exp(sorted(row)[-2]),
    "top_two_log_margin": lambda row: 1 / (1 + math.exp(sorted(row)[-2] - sorted(row)[-1])),
    "entropy_confidence": lambda row: 1 - float(entropy(np.exp(np.array(row) - max(row)))) / math.log(len(row)),
}


class Scored(NamedTuple):
    """N scores, NaN for a row without one, and the reasons of these by their index."""

    score: np.ndarray
    reasons: dict[int, BadArray]


def scores(method: str, values: list[Any]) -> Scored:
    found = [CONSTRUCTIONS[method].score(value) for value in values]
    reasons = {place: each for place, each in enumerate(found) if isinstance(each, BadArray)}
    return Scored(np.array([math.nan if isinstance(each, BadArray) else each for each in found]), reasons)


@pytest.mark.parametrize("method", ALONE)
@settings(max_examples=30)
@given(rows=ROWS)
def test_every_construction_gives_each_row_what_plain_code_gives_it_alone(method: str, rows: list[list[float]]) -> None:
    expected = [ALONE[method](row) for row in rows]
    for values in (rows, [json.dumps(row) for row in rows]):
        found = scores(method, values)
        assert found.reasons == {}
        np.testing.assert_allclose(found.score, np.clip(expected, 0, 1), atol=1e-9)


@given(votes=st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=9), min_size=1, max_size=10))
def test_votes_give_their_share(votes: list[list[int]]) -> None:
    np.testing.assert_allclose(scores("vote_share", votes).score, [np.mean(row) for row in votes])
    spread = {"vote_consistency": 0, "vote_consistency_sample": 1}  # the reference's divisors, M and M - 1
    for method, less in spread.items():
        expected = [
            max(1 - 4 * statistics.pvariance(row) if less == 0 else 1 - 4 * statistics.variance(row), 0)
            for row in votes
        ]
        np.testing.assert_allclose(scores(method, votes).score, expected, atol=1e-12)
        variances = [np.var(row, ddof=less) for row in votes]
        np.testing.assert_allclose([vote_variance(row, less) for row in votes], variances, atol=1e-12)


@given(rows=ROWS)
def test_the_margin_of_log_probabilities_is_the_log_odds_of_the_two_likeliest(rows: list[list[float]]) -> None:
    expected = [sorted(row)[-1] - sorted(row)[-2] for row in rows]
    np.testing.assert_allclose(scores("top_two_log_margin", rows).score, expit(expected), atol=1e-9)


def test_a_single_vote_has_no_sample_variance_and_no_row_none_at_all() -> None:
    assert scores("vote_consistency_sample", ["[1]"]).reasons == {0: BadArray.TOO_FEW_NUMBERS}
    assert scores("vote_consistency", ["[]"]).reasons == {0: BadArray.EMPTY}
    assert scores("vote_consistency", ["[1]", "[0.5, 0.5]"]).score.tolist() == [1.0, 1.0]


def test_every_registered_construction_is_compared_with_plain_code_here() -> None:
    assert set(CONSTRUCTIONS) == {*ALONE, "vote_share", "vote_consistency", "vote_consistency_sample"}
    assert all(name == each.name for name, each in CONSTRUCTIONS.items())


def test_the_entropy_of_labels_so_unlikely_that_their_probabilities_vanish_is_still_right() -> None:
    assert label_entropy([-2000.0, -2000.0]) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, BadArray.MISSING), ("null", BadArray.MISSING), ("", BadArray.NOT_JSON), ("[-0.1", BadArray.NOT_JSON),
        ("-0.1", BadArray.NOT_AN_ARRAY), ("{}", BadArray.NOT_AN_ARRAY), (0.5, BadArray.NOT_AN_ARRAY),
        ("[]", BadArray.EMPTY), ([], BadArray.EMPTY), ('["-0.1"]', BadArray.NOT_A_NUMBER),
        ("[-0.1, null]", BadArray.NOT_A_NUMBER), ("[false]", BadArray.NOT_A_NUMBER), ("[NaN]", BadArray.NOT_A_NUMBER),
        ("[-Infinity]", BadArray.NOT_A_NUMBER), ("[[-0.1]]", BadArray.NOT_A_NUMBER), ("[0.5]", BadArray.OUT_OF_RANGE),
        ("[" * 100_000 + "]" * 100_000, BadArray.NOT_JSON),
    ],
)  # fmt: skip
def test_a_row_that_gives_no_score_has_nan_and_a_reason_and_its_neighbours_have_theirs(
    value: object, reason: BadArray
) -> None:
    found = scores("mean_probability", ["[-0.1]", value, "[-0.2, -0.2]"])
    assert found.reasons == {1: reason}
    assert np.isnan(found.score[1])
    np.testing.assert_allclose(found.score[[0, 2]], np.exp([-0.1, -0.2]))


def test_two_broken_texts_that_would_be_two_arrays_if_joined_are_both_broken() -> None:
    assert set(scores("mean_probability", ["[-0.1", "-0.2],[-0.3]"]).reasons) == {0, 1}


@given(values=st.lists(st.sampled_from([*BAD, None, "[-0.1, -0.4]", "[-0.3]"]), max_size=12))
def test_every_row_has_a_score_in_the_unit_interval_or_a_reason(values: list[str | None]) -> None:
    for method in CONSTRUCTIONS:
        found = scores(method, values)
        missing = np.isnan(found.score)
        assert set(found.reasons) == set(np.flatnonzero(missing).tolist())
        assert ((found.score[~missing] >= 0) & (found.score[~missing] <= 1)).all()


def test_one_label_has_neither_margin_nor_entropy() -> None:
    for method in ("top_two_margin", "entropy_confidence", "top_two_log_margin"):
        assert scores(method, ["[-0.1]"]).reasons == {0: BadArray.TOO_FEW_NUMBERS}


def test_the_page_has_a_section_for_every_construction_and_names_every_reason() -> None:
    page = DOCS.read_text("utf-8")
    sections = set(re.findall(r"^### (.+)$", page, flags=re.MULTILINE))
    assert {each.name for each in CONSTRUCTIONS.values()} <= sections
    assert all(each.summary in page for each in CONSTRUCTIONS.values())
    assert [reason for reason in BadArray if f"`{reason}`" not in page] == []


def test_every_construction_of_a_column_can_be_named_in_alerts_yaml() -> None:
    assert set(get_args(ScoreMethod)) == set(CONSTRUCTIONS)
