"""A label whose rows stopped when those of another began: perhaps it has only another name. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import median

from monitor.core.promises import PastWindow

LIKE = 1.5
"""Shares of the rows are alike up to this factor."""
SCORES_LIKE = 0.1
LEAST = 10
"""A label with fewer rows a window is like too many others."""
BEFORE = 4
LATELY = 8
"""So many windows later nobody is asked any more."""
Measures = tuple[int, float, float]


def renamed_to(label: str, windows: Sequence[PastWindow]) -> str:
    """The label that appeared when ``label`` vanished, with about its share of the rows and its mean score; "": none.

    ``windows`` are oldest first. One that both have rows in is that of the change.
    """
    places = [place for place, each in enumerate(windows) if label in each.labels]
    last = places[-1] if places else 0
    if not last or not 1 <= len(windows) - 1 - last <= LATELY:
        return ""
    known = {name for each in windows[:last] for name in each.labels}
    arrived = {name for each in windows[last : last + 2] for name in each.labels if name is not None} - known
    then = _typical([_measures(windows[place], label) for place in places[-BEFORE:]])
    found = {name: now for name in arrived if (now := _newest(windows, name)) and _are_alike(then, now)}
    return min(sorted(found), key=lambda name: abs(log(found[name][1] / then[1])), default="")


def _measures(window: PastWindow, label: str) -> Measures:
    """The rows of a label, their share of all rows, and their mean score."""
    every = sum(of["all"].rows for name, of in window.labels.items() if name is not None)
    own = window.labels[label]["all"]
    return own.rows, own.rows / every, own.promised


def _typical(measures: Sequence[Measures]) -> Measures:
    rows, shares, scores = zip(*measures, strict=True)
    return round(median(rows)), median(shares), median(scores)


def _newest(windows: Sequence[PastWindow], label: str) -> Measures | None:
    """Of the newest window: the first one may have few rows, since the name changed within it."""
    return _measures(windows[-1], label) if label in windows[-1].labels else None


def _are_alike(then: Measures, now: Measures) -> bool:
    enough = min(then[0], now[0]) >= LEAST
    return enough and 1 / LIKE <= now[1] / then[1] <= LIKE and abs(now[2] - then[2]) <= SCORES_LIKE
