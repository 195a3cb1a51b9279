"""The light of a label: the bands of a debiased ECE, AUC and MCE."""

from __future__ import annotations

from typing import Literal

Light = Literal["red", "amber", "green", "grey"]


def light(ece: float | None, roc_auc: float | None, mce: float | None, *, evaluated: bool = True) -> Light:
    """The band of one label in one window, on debiased values.

    Red: any of ECE > .15, AUC < .75, MCE > .20. Green: ECE <= .05 and AUC >= .80 and MCE <= .15.
    Grey: not evaluated, or no number at all. Else amber; so green needs all three numbers.

    >>> light(0.02, 0.91, 0.08), light(0.08, 0.91, 0.08), light(0.02, 0.70, 0.08)
    ('green', 'amber', 'red')
    >>> light(0.02, None, 0.08), light(0.02, 0.91, 0.08, evaluated=False)
    ('amber', 'grey')
    """
    if not evaluated or (ece is None and roc_auc is None and mce is None):
        return "grey"
    if (ece or 0.0) > 0.15 or (roc_auc is not None and roc_auc < 0.75) or (mce or 0.0) > 0.20:
        return "red"
    if ece is None or roc_auc is None or mce is None:
        return "amber"
    return "green" if ece <= 0.05 and roc_auc >= 0.80 and mce <= 0.15 else "amber"
