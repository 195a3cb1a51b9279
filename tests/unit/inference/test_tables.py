"""Tables against scipy.stats, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from monitor.inference import tables


@pytest.mark.parametrize("freedom", [1, 2, 14])
def test_the_tail_of_chi_square_is_scipys(freedom: int):
    values = np.linspace(-1.0, 100.0, 200)
    assert [tables.chi_square(each, freedom) for each in values] == scipy.stats.chi2.sf(values, freedom).tolist()


@pytest.mark.parametrize("columns", [2, 3, 20])
def test_tables_are_scipys(columns: int):
    table = 1 + 1e4 * np.random.default_rng(columns).random((2, columns))
    found = scipy.stats.chi2_contingency(table, correction=False)
    statistic, freedom = tables.contingency(table)
    assert (statistic, tables.chi_square(statistic, freedom)) == (found.statistic, found.pvalue)


def test_an_empty_column_is_none():
    assert tables.contingency(np.array([[10.0, 20.0, 0.0], [20.0, 10.0, 0.0]]))[1] == 1
