r"""Evidence that lasts: do these rows keep their promise within a margin, week after week?

A window's e-value is small unless fewer outcomes came true than scores claimed. With N independent rows, mean score c,
hit rate y and margin d, for a size t > 0::

    e = exp(-t N y) / (1 - p + p exp(-t))^N        p = max(0, c - d)

*It is valid for any outcomes in [0, 1] whose mean is p or more*: exp(-t y) lies below its chord, so a row of mean q has
E exp(-t y) <= 1 - q + q exp(-t); the logarithm of that is concave in q, so N rows of different q have no larger product
than N rows of their mean; and it falls as the mean rises. So E[e] <= 1 whenever the mean score is at most d above
the mean chance: no law of the scores is assumed. Sizes are mixed with equal weights; a mixture of e-values is one.

*The plain e-process* is the product over all windows: P(it ever reaches 1/a) <= a (Ville 1939). After a good year it is
tiny, and hides a new fault. *The restarted one* (Shiryaev 1963, Roberts 1966; as an e-detector: Shin, Ramdas & Rinaldo
2024) is the sum of the products from every possible beginning, R = (1 + R) e: R - (windows) is a supermartingale, so
that the mean time until R reaches A is A windows or more. To cut off or cap only makes R smaller, so this holds also
for the newest 52 windows alone, and with R capped so that an old fault is forgotten soon after it is fixed.

*A family of L labels* has the mean of their R as its own detector. e-BH (Wang & Ramdas 2022) names the k labels with
R >= L A / k, for the largest such k. The mean is then A or more, so that a family in which nothing is wrong has an
average run length of at least A windows, however its labels depend on each other.

Clusters and weights enter by effective rows, which is right to the second order: exact for clusters of equal copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from monitor.core.counts import Bools, Floats
from monitor.core.promises import Promise, columns, pooled_promise
from monitor.inference.search import POWER

SIZES = (0.2, 0.4, 0.8, 1.6, 3.2)
"""Sizes t: how much lower the log-odds of a hit are than promised. From .88 to .86, .83, .77, .60 and .23."""
STEPS = 64
"""The steps of each of two searches: the detectable overconfidence is found to 1/4,096 of the mean score."""
LONGEST = 52
"""The most windows that are used. A fault that a year of rows has not shown is not found with more windows either: the
evidence needed grows only with the logarithm. And the cost of a run must not grow with the age of its history."""


def log_e_values(windows: Sequence[Promise], margin: float | Floats) -> Floats:
    """The log e-value of every window at every size, shape (T, K); ``margin`` is that of all, or of each (T,).

    >>> bool(log_e_values([Promise(100, 100.0, 0.9, 0.88)], 0.02).max() <= 0)
    True
    """
    _, rows, promised, kept = columns([windows])[:, 0]
    return _log_e(rows, promised, kept, margin)


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)


def _log_e(rows: Floats, promised: Floats, kept: Floats, margin: float | Floats) -> Floats:
    """The log e-values of hit rates ``kept``, with one more axis for the sizes."""
    sizes = np.array(SIZES)
    expected = np.log1p(np.clip(promised - margin, 0.0, 1.0)[..., None] * np.expm1(-sizes))
    return np.asarray(-rows[..., None] * (sizes * kept[..., None] + expected))


def restarted(windows: Sequence[Promise], margin: float, most: float = math.inf) -> Floats:
    """The log of the restarted evidence R after every window (oldest first), shape (T,); never more than ``most``."""
    return restarted_each([windows], [margin], [most])[0]


def restarted_each(runs: Sequence[Sequence[Promise]], margins: Sequence[float], most: Sequence[float]) -> list[Floats]:
    """:func:`restarted` for several subjects at once, which takes hardly longer than for one; each has shape (T,)."""
    lengths = [len(run) for run in runs]
    e = np.zeros((len(runs), max(lengths, default=0), len(SIZES)))
    every = log_e_values([window for run in runs for window in run], np.repeat(_floats(margins), lengths))
    for place, (length, end) in enumerate(zip(lengths, np.cumsum(lengths, dtype=np.int64).tolist(), strict=True)):
        e[place, :length] = every[end - length : end]
    fresh, limit = -math.log(len(SIZES)), np.log(np.array(most, dtype=np.float64))
    parts, paths = np.full((len(runs), len(SIZES)), -np.inf), np.zeros(e.shape[:2])
    for step in range(e.shape[1]):
        parts = np.logaddexp(parts, fresh) + e[:, step]
        total = np.logaddexp.reduce(parts, axis=1)
        excess = np.maximum(total - limit, 0.0)
        parts, paths[:, step] = parts - excess[:, None], np.minimum(total, limit)
    return [path[:length] for path, length in zip(paths, lengths, strict=True)]


def likely_start(windows: Sequence[Promise], margin: float) -> int:
    """The index of the window from which on (to the newest) the evidence is strongest."""
    backwards = np.cumsum(log_e_values(windows, margin)[::-1], axis=0)[::-1]
    return int(np.argmax(np.logaddexp.reduce(backwards, axis=1)))


def evidence_needed(evidence: Sequence[float], run_length: float) -> float:
    """The log evidence from which on a label of the family is named, by e-BH; ``run_length`` is in windows.

    ``evidence`` holds log R of every label of the family. Raises ValueError for a run length below 1.

    >>> import math
    >>> found = [math.log(r) for r in (30_000.0, 6_000.0, 2.0, 1.0)]
    >>> round(math.exp(evidence_needed(found, 2_600))), round(math.exp(evidence_needed(found[2:], 2_600)))
    (5200, 5200)
    """
    if not run_length >= 1:
        raise ValueError(f"a run length is at least 1 window, not {run_length}")
    alone = math.log(max(len(evidence), 1) * run_length)
    steps = [alone - math.log(k) for k in range(1, len(evidence) + 1)]
    named = [k for k, found in enumerate(sorted(evidence, reverse=True)) if found >= steps[k]]
    return steps[named[-1]] if named else alone


def detectable_overconfidence(windows: Sequence[Promise], margin: float, needed: float) -> float | None:
    """The smallest overconfidence that would have given the log evidence ``needed``, if it lasted in all these windows.

    It is seen with probability ``power``. None where not even rows without any hit would have given it.
    """
    if not any(window.effective > 0 for window in windows):
        return None
    total = pooled_promise(windows)

    def seen(tried: Floats) -> Bools:
        rows, promised = np.full_like(tried, total.effective), np.full_like(tried, total.promised)
        return _unlucky_are_seen(rows, promised, tried, margin, np.float64(needed))

    if not seen(np.array([total.promised]))[0]:
        return None
    low, high = 0.0, total.promised
    for _ in range(2):
        tried = np.linspace(low, high, STEPS + 1)
        first = int(np.argmax(seen(tried)))
        low, high = float(tried[max(first - 1, 0)]), float(tried[first])
    return high


def would_be_seen(totals: Sequence[Promise], overconfidence: float, margin: float, needed: Sequence[float]) -> Bools:
    """Whether the rows of each subject, in one window or many, would have given the log evidence that it needs.

    The rows have this ``overconfidence``, or the largest possible one if that is smaller; shape (len(totals),).
    """
    _, rows, promised, _ = columns([totals])[:, 0]
    return _unlucky_are_seen(rows, promised, np.minimum(overconfidence, promised), margin, _floats(needed))


def _unlucky_are_seen(
    rows: Floats, promised: Floats, overconfidences: Floats, margin: float, needed: Floats | np.float64
) -> Bools:
    """Whether the evidence of an unlucky sample (the hit rate's upper ``power`` quantile) is enough, shape (S,)."""
    rate = np.maximum(0.0, promised - overconfidences)
    unlucky = np.minimum(1.0, rate + ndtri(POWER) * np.sqrt(rate * (1 - rate) / rows))
    e = _log_e(rows, promised, unlucky, margin)
    return np.asarray(np.logaddexp.reduce(e, axis=-1) - math.log(len(SIZES)) >= needed)
