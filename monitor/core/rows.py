"""Whole rows: for the few metrics whose definition needs all scores of an item at once.

Counts cannot give the certainty ratio or a one-vs-one AUC: these look at the probabilities of all labels of one item.
Where there are more items than a limit, the warehouse gives a sample, and ``weight`` says how many each represents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ProbabilityRows:
    """Scores and truth of N items over K labels.

    ``probability`` and ``truth`` have shape (N, K): scores in [0, 1] (NaN: this label was not scored on this item),
    outcomes in [0, 1] (one-hot for ``multiclass``). ``weight`` has shape (N,); ``items`` is how many the sample
    represents, N where all are there.
    """

    labels: tuple[str, ...]
    probability: Floats
    truth: Floats
    weight: Floats
    items: int


@dataclass(frozen=True, slots=True, eq=False)
class RegressionRows:
    """N predicted numbers with their standard deviations and what came true; every array has shape (N,)."""

    predicted: Floats
    deviation: Floats
    actual: Floats
    weight: Floats
    items: int
