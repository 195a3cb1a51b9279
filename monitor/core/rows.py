"""Whole rows, for the few metrics that need all scores of an item together.

The certainty ratio and a one-vs-one AUC cannot be computed from counts: they use the probabilities of all labels of one
item. Above a limit of items the warehouse returns a sample; ``weight`` says how many items each row represents.
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
    outcomes in [0, 1] (one-hot for ``multiclass``). ``weight`` has shape (N,); ``items`` is the number of items that
    the sample represents, N without sampling.
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
