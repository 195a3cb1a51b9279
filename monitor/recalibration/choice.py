"""Chooses a recalibration method from its gain on rows not seen, with a named reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.recalibration.gain import Gain
from monitor.recalibration.score_map import METHODS, Method

LEAST_GAIN = 0.005
"""The smallest fall of the ECE that is worth a change of the scores."""
SURE = 1.645
"""How many standard errors the gain must be above 0: chance alone has that in 5%."""
KEPT = 0.95
"""The simplest method with at least this share of the best gain in Brier score is taken."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The method to take, or None, and why: ``reason`` is a heading of docs/recalibration.md."""

    method: Method | None
    reason: str
    sentence: str


def brier_gain(gain: Gain) -> float:
    """By how much the Brier score falls on held-out rows; negative if it rises, 0 without a map."""
    if gain.after is None or gain.after.brier is None or gain.before.brier is None:
        return 0.0
    return gain.before.brier - gain.after.brier


def ece_gain(gain: Gain) -> float:
    """By how much the debiased ECE falls on held-out rows; 0 without a map."""
    if gain.after is None or gain.after.ece.value is None or gain.before.ece.value is None:
        return 0.0
    return gain.before.ece.value - gain.after.ece.value


def helps(gain: Gain) -> bool:
    """Whether the Brier score and the ECE surely fall, and the ECE enough.

    The Brier score is on the same rows; it has no bins, which could hide a map's errors.
    """
    return gain.sure > SURE and ece_gain(gain) >= LEAST_GAIN


def choose(gains: Mapping[Method, Gain]) -> Choice:
    """The method with the lowest Brier score among those that help; among nearly equal ones the simplest."""
    helping = [method for method in METHODS if method in gains and helps(gains[method])]
    if helping:
        best = max(brier_gain(gains[method]) for method in helping)
        method = next(method for method in helping if brier_gain(gains[method]) >= KEPT * best)
        return Choice(method, "helps", f"{method} helps: {_fall(gains[method])}")
    fitted = [gain for gain in gains.values() if gain.after is not None]
    if not fitted:
        refused = [gains[method].refused for method in METHODS if method in gains]
        reason = next((one for one in refused if one is not None), "too_few_rows")
        return Choice(None, reason, f"no method can be fitted: {reason}")
    if not (fitted[0].before.ece.low or 0.0) > 0:
        return Choice(None, "nothing_to_mend", "nothing to fix: the ECE is not significantly above 0")
    least = f"none surely lowers the ECE, by {LEAST_GAIN} or more, and the Brier score"
    return Choice(None, "none_helps", f"no method helps: {least}")


def _fall(gain: Gain) -> str:
    before, after = gain.before.ece.value, gain.after.ece if gain.after is not None else gain.before.ece
    limits = "" if after.low is None else f" ({after.low:.4f} to {after.high:.4f})"
    return f"the ECE falls from {before:.4f} to {after.value:.4f}{limits} on rows not seen"
