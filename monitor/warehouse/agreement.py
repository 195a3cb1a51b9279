"""Was the decision right? Strictly, or by the share of annotators who agree with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from monitor.warehouse.ragged import Floats


def strict_agreement(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> Floats:
    """1 where the decision is the truth, 0 where not; shape (N,). Numbers or names, but no missing ones.

    Raises ValueError where the lengths differ or a value is missing.

    >>> strict_agreement(["spam", "billing"], ["spam", "access"]).tolist()
    [1.0, 0.0]
    """
    chosen, right = np.asarray(predicted), np.asarray(truth)
    _same_length(chosen, right)
    for name, values in (("predicted", chosen), ("truth", right)):
        _none_of(np.array([_is_missing(value) for value in values.tolist()], dtype=bool), f"{name} is missing")
    return np.asarray(chosen == right, dtype=np.float64)


def soft_agreement(predicted: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
    """The share of annotators who agree with a yes or no: p * share + (1 - p) * (1 - share), shape (N,).

    ``predicted`` is 0 or 1, ``share`` in [0, 1] that of annotators who said yes. This is the outcome of
    ``score_is: confidence_in_prediction``. Raises ValueError that names the first row of wrong values.

    >>> soft_agreement([1, 0], [0.75, 0.75]).tolist()
    [0.75, 0.25]
    """
    chosen, yes = np.asarray(predicted, dtype=np.float64), np.asarray(share, dtype=np.float64)
    _same_length(chosen, yes)
    _none_of(~np.isin(chosen, (0.0, 1.0)), "predicted must be 0 or 1")
    _none_of(~((yes >= 0) & (yes <= 1)), "the share of annotators must lie in [0, 1]")
    return np.asarray(chosen * yes + (1 - chosen) * (1 - yes))


def annotator_share(predicted: Sequence[str], annotations: Sequence[Sequence[str]]) -> Floats:
    """The share of an item's annotators who named the predicted label, shape (N,).

    Raises ValueError that names the first item nobody annotated.

    >>> annotator_share(["spam", "billing"], [["spam", "spam", "access"], ["access"]]).round(4).tolist()
    [0.6667, 0.0]
    """
    if len(predicted) != len(annotations):
        raise ValueError(f"{len(predicted)} predictions, but annotations of {len(annotations)} items")
    _none_of(np.array([len(names) == 0 for names in annotations], dtype=bool), "no annotator named a label")
    pairs = zip(predicted, annotations, strict=True)
    return np.array([sum(name == chosen for name in names) / len(names) for chosen, names in pairs])


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _same_length(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> None:
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"two columns of one length are needed, not shapes {one.shape} and {other.shape}")


def _none_of(wrong: npt.NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        raise ValueError(f"row {int(np.argmax(wrong))}: {why} ({int(wrong.sum())} such rows in all)")
