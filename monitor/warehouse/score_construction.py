"""Scores in [0, 1] from log-probabilities and votes: one function of the numbers of a row for each of CONSTRUCTIONS.

:meth:`Construction.score` parses a row, and gives the reason for one without a score: one broken answer stops nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import nlargest
from typing import Any, Literal

import numpy as np

from monitor.core.records import ROUNDING

Row = Sequence[float]
RowValue = str | Row | None
Needs = Literal["token_logprobs", "label_logprobs", "votes"]


class BadArray(StrEnum):
    """Why no score could be made of a row. All are described in ``docs/confidence.md``."""

    MISSING = "missing"
    NOT_JSON = "not_json"
    NOT_AN_ARRAY = "not_an_array"
    EMPTY = "empty"
    NOT_A_NUMBER = "not_a_number"
    OUT_OF_RANGE = "out_of_range"
    TOO_FEW_NUMBERS = "too_few_numbers"


def sequence_probability(row: Row) -> float:
    """exp of the sum of the token log-probabilities: how likely the whole answer was.

    >>> round(sequence_probability([math.log(0.5), math.log(0.5)]), 6)
    0.25
    """
    return math.exp(math.fsum(row))


def geometric_mean_probability(row: Row) -> float:
    """exp of the mean of the token log-probabilities: the geometric mean of the token probabilities.

    It is 1 / perplexity.

    >>> round(geometric_mean_probability([math.log(0.9), math.log(0.4)]), 6)
    0.6
    """
    return math.exp(mean(row))


def mean_probability(row: Row) -> float:
    """Arithmetic mean of the token probabilities.

    >>> round(mean_probability([math.log(0.9), math.log(0.4)]), 6)
    0.65
    """
    return mean([math.exp(each) for each in row])


def min_probability(row: Row) -> float:
    """The smallest token probability: an answer is as certain as its least certain token.

    >>> round(min_probability([math.log(0.9), math.log(0.4)]), 6)
    0.4
    """
    return math.exp(min(row))


def top_two_margin(row: Row) -> float:
    """Probability of the likeliest label minus that of the second; a row has one log-probability per label.

    Probabilities are not normalised.

    >>> round(top_two_margin([math.log(0.7), math.log(0.2), math.log(0.1)]), 6)
    0.5
    """
    first, second = nlargest(2, row)
    return math.exp(first) - math.exp(second)


def top_two_log_margin(row: Row) -> float:
    """1 / (1 + exp(-m)), with the margin m of the log-probabilities of the two likeliest labels, in nats.

    It equals p1 / (p1 + p2), from .5 (m = 0) to 1. Unlike the difference of the probabilities it does not depend on the
    other labels.

    >>> round(top_two_log_margin([math.log(0.6), math.log(0.2), math.log(0.1)]), 6)
    0.75
    """
    first, second = nlargest(2, row)
    return 1 / (1 + math.exp(second - first))


def label_entropy(row: Row) -> float:
    """Shannon entropy over the labels in nats, from 0 to ln of their number; probabilities are normalised.

    >>> round(label_entropy([math.log(0.5), math.log(0.5)]), 6)
    0.693147
    """
    largest = max(row)
    shifted = [each - largest for each in row]  # else exp(-1000) would be 0 for every label
    total = math.fsum(map(math.exp, shifted))
    return max(math.log(total) - math.fsum(math.exp(each) * each for each in shifted) / total, 0.0)


def entropy_confidence(row: Row) -> float:
    """1 - H / ln K: 1 if one of the K labels has all the probability, 0 if all are equally likely.

    >>> round(entropy_confidence([math.log(0.9), math.log(0.1)]), 4)
    0.531
    """
    return 1 - label_entropy(row) / math.log(len(row))


def mean(row: Row) -> float:
    """The mean of some numbers; of votes (0, 1 or a score per run) the share of the runs that said yes.

    >>> mean([1, 1, 0, 1])
    0.75
    """
    return math.fsum(row) / len(row)


def vote_variance(row: Row, less: int = 0) -> float:
    """The variance of M votes with the divisor M - ``less``.

    ``less`` 0 is the variance of these votes, 1 the estimate of the variance of all runs.

    >>> vote_variance([1, 1, 0, 1]), vote_variance([1, 1, 0, 1], less=1)
    (0.1875, 0.25)
    """
    centre = mean(row)
    return math.fsum((vote - centre) ** 2 for vote in row) / (len(row) - less)


def vote_consistency(row: Row) -> float:
    """1 - 4 v, with the variance v of the votes by the divisor M: 1 if all runs agree, 0 if half say yes.

    >>> vote_consistency([1, 1, 0, 1])
    0.25
    """
    return 1 - 4 * vote_variance(row)


def vote_consistency_sample(row: Row) -> float:
    """1 - 4 v, with the variance v of the votes by the divisor M - 1; it may be negative.

    >>> vote_consistency_sample([1, 1, 0, 1])
    0.0
    """
    return 1 - 4 * vote_variance(row, less=1)


@dataclass(frozen=True, slots=True)
class Construction:
    """One way to compute a score. ``needs`` says what a row contains, ``least`` how many numbers it must have.

    ``function`` takes the numbers of a row; what it gives is cut to [0, 1]. ``name`` is a heading in
    docs/confidence.md.
    """

    name: str
    summary: str
    needs: Needs
    function: Callable[[Row], float]
    least: int = 1

    def score(self, value: RowValue) -> float | BadArray:
        """The score of a row (a JSON array as text, a list of numbers, or None), or why there is none.

        Log-probabilities are natural logarithms, at most 0; votes are in [0, 1].

        >>> [CONSTRUCTIONS["min_probability"].score(row) for row in ("[0, 0]", None, "[0.3]")]
        [1.0, <BadArray.MISSING: 'missing'>, <BadArray.OUT_OF_RANGE: 'out_of_range'>]
        """
        row = _numbers(value)
        if isinstance(row, BadArray):
            return row
        low, high = (0.0, 1.0) if self.needs == "votes" else (-math.inf, 0.0)
        if min(row) < low - ROUNDING or max(row) > high + ROUNDING:
            return BadArray.OUT_OF_RANGE
        if len(row) < self.least:
            return BadArray.TOO_FEW_NUMBERS
        return min(max(self.function([min(max(each, low), high) for each in row]), 0.0), 1.0)


_ALL = (
    Construction(
        "sequence_probability",
        "Probability of the whole answer: exp of the sum of token log-probabilities",
        "token_logprobs",
        sequence_probability,
    ),
    Construction(
        "geometric_mean_probability",
        "Geometric mean of the token probabilities: exp of the mean log-probability",
        "token_logprobs",
        geometric_mean_probability,
    ),
    Construction("mean_probability", "Mean of the token probabilities", "token_logprobs", mean_probability),
    Construction("min_probability", "Smallest token probability", "token_logprobs", min_probability),
    Construction(
        "top_two_margin",
        "Probability of the likeliest label less that of the second",
        "label_logprobs",
        top_two_margin,
        least=2,
    ),
    Construction(
        "entropy_confidence",
        "1 less the entropy over the labels, as a share of the largest possible",
        "label_logprobs",
        entropy_confidence,
        least=2,
    ),
    Construction(
        "top_two_log_margin",
        "Margin of the log-probabilities of the two likeliest labels, by 1 / (1 + exp(-margin))",
        "label_logprobs",
        top_two_log_margin,
        least=2,
    ),
    Construction("vote_share", "Share of the runs that said yes", "votes", mean),
    Construction(
        "vote_consistency", "1 less four times the variance of the votes, divisor M", "votes", vote_consistency
    ),
    Construction(
        "vote_consistency_sample",
        "1 less four times the variance of the votes, divisor M - 1",
        "votes",
        vote_consistency_sample,
        least=2,
    ),
)

CONSTRUCTIONS: Mapping[str, Construction] = {each.name: each for each in _ALL}


def _numbers(value: Any) -> list[float] | BadArray:
    """The numbers of a row, or why there are none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return BadArray.NOT_JSON
        if isinstance(value, str):
            return BadArray.NOT_AN_ARRAY
    if value is None:
        return BadArray.MISSING
    if not isinstance(value, (Sequence, np.ndarray)):
        return BadArray.NOT_AN_ARRAY
    if not len(value):
        return BadArray.EMPTY
    return list(value) if all(map(_is_number, value)) else BadArray.NOT_A_NUMBER


def _is_number(value: Any) -> bool:
    # `true` is no number, and neither are NaN and Infinity, which Python's JSON parser accepts
    if type(value) is float or isinstance(value, np.floating):
        return math.isfinite(value)
    return type(value) is int and abs(value) < 2**53
