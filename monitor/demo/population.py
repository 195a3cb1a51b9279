"""The truth of the demo: its labels, their scores, the chance behind each score, and the planted changes.

Weeks are numbered 1..26, 1 the oldest; the baseline is weeks 1-8. A *candidate* of a label is an item
that the classifier finds similar to it; its score comes from ``candidates``, any other item's from
``others``. An outcome is drawn with :func:`true_probability` of the score that was written, so that
the calibration of every label in every week is known exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

WEEKS = 26
BASELINE_WEEKS = 8
SECOND_LABEL = 0.15  # share of items that are candidates of two labels
PREDICTED_FROM = 0.5

Floats = npt.NDArray[np.float64]
Kind = Literal["step", "drift", "channel", "automated"]
Beta = tuple[float, float]


@dataclass(frozen=True, slots=True)
class LabelSpec:
    """How one label behaves while nothing is wrong.

    ``first`` is the chance that it is an item's first candidate label. A score s comes true
    with probability expit(``temperature`` * logit(s) + ``offset``). ``decimals``: how scores are
    rounded; None: not at all.
    """

    first: float
    candidates: Beta
    others: Beta
    decimals: int | None
    temperature: float = 1.0
    offset: float = 0.0
    automate_at: float = 0.8


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One table of the demo: how many items a week (by prediction), their labels and channels."""

    items: int
    prefix: str
    labels: Mapping[str, LabelSpec]
    channels: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Planted:
    """A change that the monitor must find.

    ``week`` is the first week with changed predictions, ``passes_threshold`` the first in which the
    change is beyond the rules' thresholds (the same, except for the slow one). ``rules`` are those that
    must report it within two weeks of that; other rules on the label may.
    """

    source: str
    label: str
    week: int
    kind: Kind
    description: str
    rules: tuple[str, ...]
    passes_threshold: int
    channel: str | None = None


VERSIONS: tuple[tuple[int, str], ...] = ((1, "2.0"), (13, "2.1"), (21, "2.2"))
"""The first week (of the prediction) of each model version, in both sources."""

SOURCES: Mapping[str, SourceSpec] = {
    "tickets": SourceSpec(
        items=2400,
        prefix="T",
        labels={
            "billing": LabelSpec(0.24, (6.0, 1.8), (0.6, 14.0), 2),
            "feedback": LabelSpec(0.14, (5.0, 2.0), (0.6, 16.0), None, temperature=0.95),
            "login": LabelSpec(0.20, (7.0, 1.6), (0.6, 14.0), 2, temperature=1.05, offset=0.05),
            "outage": LabelSpec(0.06, (8.0, 1.4), (0.5, 40.0), 4),
            "refund": LabelSpec(0.20, (6.0, 1.8), (0.6, 14.0), 2),
            "shipping": LabelSpec(0.16, (6.0, 1.6), (0.6, 16.0), 4, offset=-0.1),
        },
        channels={"chat": 0.30, "email": 0.35, "phone": 0.10, "web": 0.25},
    ),
    "mail": SourceSpec(
        items=1600,
        prefix="M",
        labels={
            "complaint": LabelSpec(0.26, (6.0, 1.8), (0.6, 14.0), 2),
            "invoice": LabelSpec(0.22, (8.0, 1.5), (0.5, 20.0), 4, offset=-0.05),
            "newsletter": LabelSpec(0.26, (9.0, 1.2), (0.5, 20.0), 2),
            "phishing": LabelSpec(0.08, (14.0, 1.2), (0.3, 1200.0), 4, automate_at=0.9),
            "spam": LabelSpec(0.18, (9.0, 1.3), (0.5, 24.0), None, temperature=1.05),
        },
        channels={"email": 0.6, "web": 0.4},
    ),
}

_AT_ONCE = "grows overconfident with model version 2.1, at once"
_SLOWLY = "grows overconfident a little every week"
_WEB_FORM = "grows overconfident, but only in what comes through the web form"
_FEW = "is wrong more often, but only in the few rows that act alone: its ECE hardly moves"
_ECE, _ACTING = "ece-increase", "automated-overconfidence"
PLANTED: tuple[Planted, ...] = (
    Planted("tickets", "billing", 13, "step", _AT_ONCE, (_ECE, _ACTING), passes_threshold=13),
    Planted("tickets", "refund", 11, "drift", _SLOWLY, (_ECE,), passes_threshold=13),
    Planted("mail", "complaint", 17, "channel", _WEB_FORM, (_ECE,), passes_threshold=17, channel="web"),
    Planted("tickets", "outage", 19, "automated", _FEW, (_ACTING,), passes_threshold=19),
)

_STEP = 1.5
_DRIFT_A_WEEK = 0.17
_DRIFT_MOST = 1.2
_CHANNEL = 2.0
_AUTOMATED = 0.28


def model_version(week: int) -> str:
    """The version that answers in a week; before the first week, the first one.

    >>> model_version(12), model_version(13)
    ('2.0', '2.1')
    """
    return next((name for first, name in reversed(VERSIONS) if week >= first), VERSIONS[0][1])


def planted_on(source: str, label: str) -> Planted | None:
    """The change planted on a label, or None."""
    return next((change for change in PLANTED if (change.source, change.label) == (source, label)), None)


def rounded(scores: Floats, decimals: int | None) -> Floats:
    """Scores, rounded as the classifier writes them."""
    return scores if decimals is None else np.round(scores, decimals)


def true_probability(source: str, label: str, week: int, score: npt.ArrayLike, channel: str | None = None) -> Floats:
    """The chance that a label is true, given its score, the week of the prediction and the channel.

    ``score`` has any shape, values in [0, 1]; the result has the same. Without ``channel``: the mean
    over the source's channels.

    >>> true_probability("tickets", "outage", 18, [0.9]), true_probability("tickets", "outage", 19, [0.9])
    (array([0.9]), array([0.62]))
    """
    shares = SOURCES[source].channels if channel is None else {channel: 1.0}
    s = np.asarray(score, dtype=np.float64)
    parts = [share * _in_channel(source, label, week, s, name) for name, share in shares.items()]
    return np.asarray(np.sum(parts, axis=0))


def _in_channel(source: str, label: str, week: int, score: Floats, channel: str) -> Floats:
    spec, change = SOURCES[source].labels[label], planted_on(source, label)
    strength = _strength(change, week, channel)
    if change is not None and change.kind == "automated":
        return np.where(score >= spec.automate_at, score - strength, score)
    logit = spec.temperature * special.logit(np.clip(score, 1e-6, 1.0 - 1e-6)) + spec.offset
    # high scores are overconfident, low ones a little underconfident
    return np.asarray(special.expit((1.0 - 0.35 * strength) * logit - 0.5 * strength))


def _strength(change: Planted | None, week: int, channel: str) -> float:
    if change is None or week < change.week or change.channel not in (None, channel):
        return 0.0
    by_kind = {
        "step": _STEP,
        "drift": min(_DRIFT_MOST, _DRIFT_A_WEEK * (week - change.week + 1)),
        "channel": _CHANNEL,
        "automated": _AUTOMATED,
    }
    return by_kind[change.kind]


# Arrivals: mostly in working hours of working days. Resolutions: hours to days later.
_WEEKDAYS = np.array([1.25, 1.2, 1.15, 1.1, 1.05, 0.45, 0.4])
_HOURS = np.where((np.arange(24) >= 7) & (np.arange(24) < 19), 1.0, 0.2)
_BY_HOUR = np.concatenate([[0.0], np.cumsum(np.outer(_WEEKDAYS, _HOURS).ravel())])
ARRIVED: Floats = _BY_HOUR / _BY_HOUR[-1]
"""The share of a week's items that came by hour 0, 1, .. 168 of the week, shape (169,)."""
DELAY_MEDIAN, DELAY_SIGMA = 9.0, 1.0
"""Hours from the prediction to the resolution: lognormal, then clipped to ``DELAY_RANGE``."""
DELAY_RANGE = (0.25, 120.0)
