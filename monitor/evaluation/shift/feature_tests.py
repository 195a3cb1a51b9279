"""KS, PSI and chi-square of one feature column, on samples: the tests that a rule with a ``column`` can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # submodules are loaded at first use, and most commands never use them

from monitor.core.counts import Floats
from monitor.evaluation.shift.counts_tests import LEAST_DEVIATION, PSI_BINS, Effect
from monitor.evaluation.shift.distances import jensen_shannon, stability_index, wasserstein
from monitor.inference import tables

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["numerical", "categorical"]


def column_tests(now: pd.Series[Any], then: pd.Series[Any], kind: Kind) -> list[tuple[str, Effect]]:
    """(name, effect) of the tests that suit the kind of column; missing values are left out.

    Numbers: ``ks`` (scipy.stats.ks_2samp), ``wasserstein``, ``psi`` and ``jensen_shannon`` over the reference's
    deciles. The rest: ``chi_square`` of the two rows of category counts, with Cramer's V, ``psi`` and
    ``jensen_shannon`` over categories.
    """
    if kind == "numerical":
        values = now.dropna().to_numpy(dtype=float), then.dropna().to_numpy(dtype=float)
        found = scipy.stats.ks_2samp(*values, method="asymp")
        inner = np.unique(np.quantile(values[1], np.linspace(0, 1, PSI_BINS + 1)[1:-1]))  # the reference's deciles
        places = [np.searchsorted(inner, side, side="left") for side in values]
        table = np.array([np.bincount(each, minlength=len(inner) + 1) for each in places], dtype=float)
        own = [("ks", Effect(float(found.statistic), float(found.pvalue))), ("wasserstein", _wasserstein(*values))]
    else:
        names, sides = values_of(now, then), (now.value_counts(), then.value_counts())
        table = np.array([[side.get(name, 0) for name in names] for side in sides], dtype=float)
        own = [("chi_square", chi_square(table))]
    of_table = [("psi", Effect(stability_index(table), None)), ("jensen_shannon", Effect(*jensen_shannon(table)))]
    return [own[0], of_table[0], *own[1:], of_table[1]]


def _wasserstein(now: Floats, then: Floats) -> Effect:
    """The Wasserstein distance in standard deviations of the reference."""
    values, index = np.unique(np.concatenate([now, then]), return_inverse=True)
    sides = [np.bincount(part, minlength=len(values)) for part in np.split(index, [len(now)])]
    shares = sides[0] / len(now), sides[1] / len(then)
    distance, p_value = wasserstein(values, shares, (len(now), len(then)))
    return Effect(distance / max(float(np.std(then)), LEAST_DEVIATION), p_value)


def values_of(now: pd.Series[Any], then: pd.Series[Any]) -> list[Any]:
    """The distinct values of both, sorted; missing ones are left out."""
    return sorted({*now.dropna().unique(), *then.dropna().unique()})


def chi_square(table: Floats) -> Effect:
    """Pearson's chi-square with Cramer's V; 0 and p-value 1 where both sides have the same single value."""
    statistic, freedom = tables.contingency(table)
    if not freedom:
        return Effect(0.0, 1.0)
    return Effect(float(np.sqrt(statistic / table.sum())), tables.chi_square(statistic, freedom))
