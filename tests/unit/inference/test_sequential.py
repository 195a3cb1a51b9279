"""Evidence that lasts: valid e-values, a quiet detector, families by e-BH, and what could be detected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binom

from monitor.core.promises import Promise
from monitor.inference.sequential import (
    LONGEST,
    SIZES,
    detectable_overconfidence,
    evidence_needed,
    likely_start,
    log_e_values,
    restarted,
)

MARGIN = 0.02


def e_process(windows: Sequence[Promise], margin: float) -> np.ndarray:
    """The log of the plain e-process after every window (oldest first), shape (T,)."""
    return np.asarray(logsumexp(np.cumsum(log_e_values(windows, margin), axis=0), axis=1) - math.log(len(SIZES)))


probabilities = st.floats(0.01, 0.99)


def promise(rows: float, promised: float, kept: float) -> Promise:
    return Promise(math.ceil(rows), rows, promised, kept)


promises = st.builds(promise, st.floats(0.3, 400), st.floats(0, 1), st.floats(0, 1))


def hits_of(chances: Sequence[float]) -> np.ndarray:
    """The law of the number of hits of rows with these chances, by convolution; an oracle of its own."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return law


@given(st.lists(probabilities, min_size=1, max_size=25), st.floats(-0.3, 0.0))
def test_an_e_value_is_one_at_most_in_the_mean_whatever_the_chances_of_the_rows(chances, below):
    """The rows keep at least what they promise less the margin, each in its own way."""
    rows, kept = len(chances), np.mean(chances)
    promised = min(1.0, max(0.0, kept + MARGIN + below))
    law = hits_of(chances)
    e = np.exp(log_e_values([promise(rows, promised, hits / rows) for hits in range(rows + 1)], MARGIN))
    assert (law @ e <= 1 + 1e-9).all()


@pytest.mark.parametrize("rows", [1, 7, 60, 400])
@pytest.mark.parametrize("promised", [0.03, 0.5, 0.9, 0.999])
def test_an_e_value_is_one_in_the_mean_exactly_where_every_row_keeps_the_margin(rows, promised):
    hits = np.arange(rows + 1)
    e = log_e_values([promise(rows, promised, k / rows) for k in hits], MARGIN)
    mean = logsumexp(binom.logpmf(hits, rows, promised - MARGIN)[:, None] + e, axis=0)
    assert mean == pytest.approx(np.zeros(len(SIZES)), abs=1e-8)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from(SIZES))
def test_an_e_value_of_soft_outcomes_is_below_that_of_hard_ones_with_the_same_mean(outcomes, size):
    kept = np.mean(outcomes)
    hard = (1 - kept + kept * math.exp(-size)) ** len(outcomes)
    assert math.exp(-size * sum(outcomes)) <= hard * (1 + 1e-9)


def test_an_e_value_agrees_with_the_likelihood_ratio_of_two_binomials():
    """exp(-t) is the odds ratio of two hit rates, so e is Bin(q) over Bin(p)."""
    rows, hits, p = 40, 30, 0.88
    (found,) = log_e_values([promise(rows, 0.9, hits / rows)], MARGIN)
    for size, e in zip(SIZES, found, strict=True):
        q = p * math.exp(-size) / (1 - p + p * math.exp(-size))
        assert e == pytest.approx(binom.logpmf(hits, rows, q) - binom.logpmf(hits, rows, p))


def summed(windows: Sequence[Promise]) -> Fraction:
    """R by its definition: over every beginning and every size, the product of what followed."""
    e = [[Fraction(math.exp(x)) for x in row] for row in log_e_values(windows, MARGIN).tolist()]
    pairs = [(first, size) for first in range(len(e)) for size in range(len(SIZES))]
    products = [math.prod((row[size] for row in e[first:]), start=Fraction(1)) for first, size in pairs]
    return sum(products, start=Fraction(0)) / len(SIZES)


small = st.builds(promise, st.floats(0.3, 30), st.floats(0.2, 1), st.floats(0.2, 1))


@given(st.lists(small, min_size=1, max_size=8))
def test_the_restarted_evidence_is_the_sum_over_every_beginning(windows):
    assert restarted(windows, MARGIN)[-1] == pytest.approx(math.log(summed(windows)), abs=1e-8)


@given(st.lists(promises, min_size=1, max_size=20))
def test_the_restarted_evidence_is_never_below_the_plain_one_and_a_cap_only_lowers_it(windows):
    plain, free, capped = e_process(windows, MARGIN), restarted(windows, MARGIN), restarted(windows, MARGIN, 1000.0)
    assert (free >= plain - 1e-9).all()
    assert (capped <= free + 1e-9).all()
    assert (capped <= math.log(1000) + 1e-9).all()


@given(st.lists(promises, min_size=2, max_size=20))
def test_looking_less_far_back_only_lowers_the_evidence(windows):
    assert restarted(windows[1:], MARGIN)[-1] <= restarted(windows, MARGIN)[-1] + 1e-9


@given(st.lists(promises, min_size=1, max_size=15))
def test_the_windows_from_the_likely_start_on_fall_short_of_the_margin_where_there_is_evidence(windows):
    start = likely_start(windows, MARGIN)
    if e_process(windows[start:], MARGIN)[-1] > 1e-9:
        rows = sum(w.effective for w in windows[start:])
        short = sum(w.effective * (max(0.0, w.promised - MARGIN) - w.kept) for w in windows[start:]) / rows
        assert short > 0


def played(rng: np.random.Generator, worlds: int, windows: int, rows: int, rate: float) -> np.ndarray:
    """Hit rates of so many worlds and windows."""
    return rng.binomial(rows, rate, size=(worlds, windows)) / rows


@pytest.mark.parametrize(("rows", "alpha", "copies"), [(15, 0.05, 1), (15, 0.01, 1), (120, 0.05, 1), (12, 0.05, 5)])
def test_the_plain_evidence_of_ten_years_exceeds_one_over_a_with_probability_a_at_most(rows, alpha, copies):
    """At the very border of the margin, where it is most often exceeded; copies are divided by their design effect."""
    worlds, rng = 400, np.random.default_rng(20260101)
    kept = played(rng, worlds, 520, rows, 0.9 - MARGIN)
    ever = sum(
        e_process([Promise(copies * rows, rows, 0.9, k) for k in world], MARGIN).max() >= math.log(1 / alpha)
        for world in kept.tolist()
    )
    assert binom.sf(ever - 1, worlds, alpha) > 0.001, ever  # not more than alpha allows


@pytest.mark.parametrize("rows", [20, 150])
def test_the_restarted_evidence_is_quiet_for_as_long_as_asked_in_the_mean(rows):
    asked, worlds, longest, rng = 26, 80, 200, np.random.default_rng(7)
    lengths = []
    for world in played(rng, worlds, longest, rows, 0.9 - MARGIN).tolist():
        rung = np.flatnonzero(restarted([promise(rows, 0.9, k) for k in world], MARGIN) >= math.log(asked))
        lengths.append(rung[0] + 1 if len(rung) else longest)
    assert np.mean(lengths) >= asked


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=30), st.integers(1, 5000))
def test_a_family_that_names_a_label_has_a_mean_evidence_of_the_run_length_or_more(evidence, length):
    """So that the family is as quiet as one detector: e-BH names nothing that the mean does not show."""
    needed = evidence_needed(evidence, length)
    named = [found for found in evidence if found >= needed]
    if named:
        assert sum(math.exp(found) for found in evidence) / len(evidence) >= length * (1 - 1e-9)
        assert needed == pytest.approx(math.log(len(evidence) * length / len(named)))
    else:
        assert needed == pytest.approx(math.log(len(evidence) * length))


def test_a_fault_after_a_good_year_is_found_by_the_restarted_evidence_and_hidden_from_the_plain_one():
    good, bad = [promise(100, 0.9, 0.9)] * 44, [promise(100, 0.9, 0.75)] * 8
    found, plain = restarted([*good, *bad], MARGIN)[-1], e_process([*good, *bad], MARGIN)[-1]
    assert found > math.log(520 * 20)
    assert plain < 0
    assert likely_start([*good, *bad], MARGIN) == len(good)


def test_a_fault_that_is_fixed_is_forgotten_soon_since_evidence_is_capped():
    bad, good = [promise(100, 0.9, 0.7)] * 40, [promise(100, 0.9, 0.9)] * 4
    assert restarted([*bad, *good], MARGIN, 1e6)[-1] < math.log(20)
    assert restarted([*bad, *good], MARGIN)[-1] > 100


@settings(max_examples=15)
@given(st.floats(20, 2000), st.floats(0.5, 0.98), st.floats(3, 12))
def test_what_is_detectable_is_seen_with_the_power_that_is_named(rows, promised, needed):
    n = round(rows)
    window = promise(n, promised, promised)
    found = detectable_overconfidence([window], MARGIN, needed)
    if found is None:
        assert e_process([promise(n, promised, 0.0)], MARGIN)[-1] < needed
        return
    hits = np.arange(n + 1)
    logged = [e_process([promise(n, promised, k / n)], MARGIN)[-1] for k in hits]
    seen = np.array(logged) >= needed
    assert binom.pmf(hits, n, max(0.0, promised - found)) @ seen > 0.7


def test_nothing_is_detectable_without_rows():
    assert detectable_overconfidence([], MARGIN, 9.0) is None
    assert detectable_overconfidence([promise(2, 0.9, 0.9)], MARGIN, 9.0) is None


def test_a_run_length_below_one_window_is_refused():
    with pytest.raises(ValueError, match="at least 1 window"):
        evidence_needed([1.0], 0)


def test_a_year_is_looked_at():
    assert LONGEST == 52
