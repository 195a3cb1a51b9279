"""Empirical Bayes for many small groups: each estimate is shrunk towards their mean, the more the noisier it is.

The estimates x_i with known variances v_i have true values that vary by tau^2 around a mean (DerSimonian & Laird 1986);
given the data a true value has mean mu + tau^2 / (tau^2 + v_i) (x_i - mu) (Efron & Morris 1975). A ranking for people:
it says which groups to look at first, and confirms nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def shrunk(estimates: npt.ArrayLike, variances: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Posterior means and standard deviations of the true values, both of shape (K,).

    ``estimates`` and ``variances`` have shape (K,), variances above 0. All standard deviations are 0 where the
    estimates differ no more than their noise. Raises ValueError without estimates, or for a variance that is not
    above 0.

    >>> means, deviations = shrunk([0.0, 0.0, 0.3], [0.01, 0.01, 0.01])
    >>> means.round(3).tolist(), bool(deviations.max() > 0)
    ([0.033, 0.033, 0.233], True)
    """
    x, v = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if not len(x) or not (v > 0).all():
        raise ValueError("give at least one estimate, each with a variance above 0")
    weight = 1 / v
    mean = float((weight * x).sum() / weight.sum())
    spread = float((weight * (x - mean) ** 2).sum()) - (len(x) - 1)
    scale = float(weight.sum() - (weight**2).sum() / weight.sum())
    between = max(0.0, spread / scale) if scale > 0 else 0.0
    mean = float((x / (between + v)).sum() / (1 / (between + v)).sum())
    trust = between / (between + v)
    return mean + trust * (x - mean), np.sqrt(trust * v)
