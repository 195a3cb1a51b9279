"""Scores in [0, 1] from log-probabilities and votes: one function for each of :data:`CONSTRUCTIONS`.

Every function takes rows of different lengths (:class:`~monitor.warehouse.ragged.Ragged`) and gives one score per row,
shape (N,), NaN for an empty row. :func:`scores` parses the rows, and gives the reason for each row without a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from monitor.core.records import ROUNDING
from monitor.warehouse.ragged import BadArray, Floats, Ragged, RowValue, ragged

Needs = Literal["token_logprobs", "label_logprobs", "votes"]


def sequence_probability(rows: Ragged) -> Floats:
    """exp of the sum of the token log-probabilities: how likely the whole answer was.

    >>> sequence_probability(ragged([np.log([0.5, 0.5]).tolist()])).round(6).tolist()
    [0.25]
    """
    return np.where(rows.lengths > 0, np.exp(rows.summed(rows.values)), np.nan)


def geometric_mean_probability(rows: Ragged) -> Floats:
    """exp of the mean of the token log-probabilities: the geometric mean of the token probabilities.

    It is 1 / perplexity.

    >>> geometric_mean_probability(ragged([np.log([0.9, 0.4]).tolist()])).round(6).tolist()
    [0.6]
    """
    return np.exp(rows.mean(rows.values))


def mean_probability(rows: Ragged) -> Floats:
    """Arithmetic mean of the token probabilities.

    >>> mean_probability(ragged([np.log([0.9, 0.4]).tolist()])).round(6).tolist()
    [0.65]
    """
    return rows.mean(np.exp(rows.values))


def min_probability(rows: Ragged) -> Floats:
    """The smallest token probability: an answer is as certain as its least certain token.

    >>> min_probability(ragged([np.log([0.9, 0.4]).tolist()])).round(6).tolist()
    [0.4]
    """
    return np.exp(rows.least(rows.values))


def top_two_margin(rows: Ragged) -> Floats:
    """Probability of the likeliest label minus that of the second; a row has one log-probability per label.

    Probabilities are not normalised. NaN if a row has fewer than two labels.

    >>> top_two_margin(ragged([np.log([0.7, 0.2, 0.1]).tolist()])).round(6).tolist()
    [0.5]
    """
    if not len(rows.values):
        return np.full(len(rows.lengths), np.nan)
    sorted_values = rows.values[np.lexsort((-rows.values, rows.row))]
    first, at_least_two = rows.starts[:-1], rows.lengths >= 2
    margin = np.full(len(rows.lengths), np.nan)
    start = first[at_least_two]
    margin[at_least_two] = np.exp(sorted_values[start]) - np.exp(sorted_values[start + 1])
    return margin


def top_two_log_margin(rows: Ragged) -> Floats:
    """1 / (1 + exp(-m)), with the :func:`log_margin` m of the two likeliest labels.

    It equals p1 / (p1 + p2), from .5 (m = 0) to 1. Unlike the difference of the probabilities it does not depend on the
    other labels. NaN if a row has fewer than two labels.

    >>> top_two_log_margin(ragged([np.log([0.6, 0.2, 0.1]).tolist()])).round(6).tolist()
    [0.75]
    """
    return 1 / (1 + np.exp(-log_margin(rows)))


def log_margin(rows: Ragged) -> Floats:
    """Log-probability of the likeliest label minus that of the second, in nats, >= 0; NaN for fewer than two labels.

    >>> log_margin(ragged([np.log([0.6, 0.2, 0.1]).tolist()])).round(6).tolist()
    [1.098612]
    """
    if not len(rows.values):
        return np.full(len(rows.lengths), np.nan)
    ordered = rows.values[np.lexsort((-rows.values, rows.row))]
    margin = np.full(len(rows.lengths), np.nan)
    start = rows.starts[:-1][rows.lengths >= 2]
    margin[rows.lengths >= 2] = ordered[start] - ordered[start + 1]
    return margin


def label_entropy(rows: Ragged) -> Floats:
    """Shannon entropy over the labels in nats, from 0 to ln of their number; probabilities are normalised.

    >>> label_entropy(ragged([np.log([0.5, 0.5]).tolist()])).round(6).tolist()
    [0.693147]
    """
    if not len(rows.values):
        return np.full(len(rows.lengths), np.nan)
    shifted = rows.values - rows.largest(rows.values)[rows.row]  # else exp(-1000) would be 0 for every label
    total = rows.summed(np.exp(shifted))
    share = np.exp(shifted) / total[rows.row]
    entropy = rows.summed(-share * (shifted - np.log(total[rows.row])))
    return np.where(rows.lengths > 0, np.maximum(entropy, 0.0), np.nan)


def entropy_confidence(rows: Ragged) -> Floats:
    """1 - H / ln K: 1 if one of the K labels has all the probability, 0 if all are equally likely.

    NaN if a row has fewer than two labels.

    >>> entropy_confidence(ragged([np.log([0.5, 0.5]).tolist(), np.log([0.9, 0.1]).tolist()])).round(4).tolist()
    [0.0, 0.531]
    """
    enough = rows.lengths >= 2
    most = np.log(np.where(enough, rows.lengths, 2))
    return np.where(enough, 1 - label_entropy(rows) / most, np.nan)


def vote_share(rows: Ragged) -> Floats:
    """The share of M runs that said yes; a row has one vote (0, 1 or a score) per run.

    >>> vote_share(ragged([[1, 1, 0, 1]])).tolist()
    [0.75]
    """
    return rows.mean(rows.values)


def vote_variance(rows: Ragged, less: int = 0) -> Floats:
    """The variance of M votes with the divisor M - ``less``; NaN if that is not positive.

    ``less`` 0 is the variance of these votes, 1 the estimate of the variance of all runs.

    >>> votes = ragged([[1, 1, 0, 1]])
    >>> vote_variance(votes).tolist(), vote_variance(votes, less=1).tolist()
    ([0.1875], [0.25])
    """
    centred = rows.values - rows.mean(rows.values)[rows.row]
    divisor = rows.lengths - less
    total = rows.summed(centred**2)
    return np.asarray(np.divide(total, divisor, out=np.full(len(divisor), np.nan), where=divisor > 0))


def vote_consistency(rows: Ragged) -> Floats:
    """1 - 4 v, with the variance v of the votes by the divisor M: 1 if all runs agree, 0 if half say yes.

    >>> vote_consistency(ragged([[1, 1, 0, 1]])).tolist()
    [0.25]
    """
    return 1 - 4 * vote_variance(rows)


def vote_consistency_sample(rows: Ragged) -> Floats:
    """1 - 4 v, with the variance v of the votes by the divisor M - 1; 0 if that is negative.

    >>> vote_consistency_sample(ragged([[1, 1, 0, 1], [1, 0]])).tolist()
    [0.0, 0.0]
    """
    return np.maximum(1 - 4 * vote_variance(rows, less=1), 0.0)


@dataclass(frozen=True, slots=True)
class Construction:
    """One way to compute a score. ``needs`` says what a row contains, ``least`` how many numbers it must have.

    ``function`` takes the rows and gives scores in [0, 1], shape (N,). ``name`` is a heading in docs/confidence.md.
    """

    name: str
    summary: str
    needs: Needs
    function: Callable[[Ragged], Floats]
    least: int = 1


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
    Construction("vote_share", "Share of the runs that said yes", "votes", vote_share),
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


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """N scores, shape (N,), NaN for a row without one; ``reasons`` maps the index of such a row to the reason."""

    score: Floats
    reasons: Mapping[int, BadArray]


def scores(method: str, values: Sequence[RowValue]) -> Scored:
    """The score of each row by one construction; a row without a score has NaN and a reason.

    ``values`` has a JSON array as text, a list of numbers, or None for each row. Log-probabilities are natural
    logarithms, at most 0; votes lie in [0, 1]. Raises ValueError for an unknown method.

    >>> found = scores("min_probability", ["[-0.1, -0.7]", None, "[0.3]"])
    >>> found.score.round(4).tolist(), [str(reason) for reason in found.reasons.values()]
    ([0.4966, nan, nan], ['missing', 'out_of_range'])
    """
    if method not in CONSTRUCTIONS:
        raise ValueError(f"{method!r} is no construction; choose one of: {', '.join(CONSTRUCTIONS)}")
    construction = CONSTRUCTIONS[method]
    rows = _within_range(ragged(values), construction.needs)
    rows = rows.without((rows.lengths > 0) & (rows.lengths < construction.least), BadArray.TOO_FEW_NUMBERS)
    return Scored(np.clip(construction.function(rows), 0.0, 1.0), dict(sorted(rows.reasons.items())))


def _within_range(rows: Ragged, needs: Needs) -> Ragged:
    low, high = (0.0, 1.0) if needs == "votes" else (-np.inf, 0.0)
    outside = (rows.values < low - ROUNDING) | (rows.values > high + ROUNDING)
    wrong = np.bincount(rows.row, weights=outside, minlength=len(rows.lengths)) > 0
    kept = rows.without(wrong, BadArray.OUT_OF_RANGE)
    return Ragged(np.clip(kept.values, low, high), kept.starts, kept.reasons)
